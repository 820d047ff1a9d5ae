"""Blocks are weighed by what their arrays hold, and come through Beam's coders as they went in."""

from __future__ import annotations

import pickle

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam import coders

from tests.oracles.transforms import run, source
from transforms.block_coders import BlockCoder, weighed
from transforms.encode import CellBlock
from transforms.encoders.block import RowBlock
from transforms.telemetry import ReadTelemetry

USERS = np.arange(4, dtype=np.uint64)
BLOCKS = [
    np.arange(6, dtype=np.uint64),
    np.arange(12, dtype=np.uint16)[::2],
    np.empty(0, np.uint64),
    CellBlock(np.arange(4, dtype=np.uint32), None),
    CellBlock(np.arange(4, dtype=np.uint32), USERS),
    RowBlock(np.ones((4, 3), np.float32), np.zeros((4, 2), np.int32), USERS),
    CellBlock(np.arange(8, dtype=np.uint32).reshape(4, 2), None),
    pa.table({"city": ["a", None, "ccc"], "price": [1.5, 2.5, None]}),
]
kinds = pytest.mark.parametrize("block", BLOCKS, ids=lambda block: type(block).__name__)


def parts(block) -> list:
    return list(block) if isinstance(block, tuple) else [block]


def assert_equal(ours, theirs) -> None:
    assert type(ours) is type(theirs)
    for one, other in zip(parts(ours), parts(theirs), strict=True):
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
        else:
            assert one == other if isinstance(one, pa.Table) else one is other is None


@kinds
def test_beam_gives_blocks_this_coder(block):
    assert isinstance(coders.registry.get_coder(type(block)), BlockCoder)


@kinds
@pytest.mark.parametrize("nested", [False, True])
def test_blocks_come_back_as_they_were(block, nested):
    coder = BlockCoder()
    implementation = pickle.loads(pickle.dumps(coder)).get_impl()
    assert_equal(coder.decode(coder.encode(block)), block)
    if nested:
        pair = coders.TupleCoder([coders.VarIntCoder(), coder])
        number, copy = pair.decode(pair.encode((7, block)))
        assert number == 7
        assert_equal(copy, block)
    else:
        assert_equal(implementation.decode(implementation.encode(block)), block)


@kinds
def test_weight_is_what_the_arrays_hold(block):
    expected = sum(part.nbytes for part in parts(block) if part is not None)
    assert BlockCoder().estimate_size(block) == expected
    # Bytes beside the arrays, and those of a slice's whole buffer, are few.
    assert abs(len(BlockCoder().encode(block)) - expected) < 1500


def test_weighing_copies_nothing():
    class Never(np.ndarray):
        def __reduce__(self):
            raise AssertionError("pickled")

    block = np.arange(5, dtype=np.uint64).view(Never)
    size, observables = BlockCoder().get_impl().get_estimated_size_and_observables(block)
    assert (size, observables) == (40, [])
    with pytest.raises(AssertionError, match="pickled"):
        BlockCoder().encode(block)


def test_a_kind_is_returned_as_it_was():
    assert weighed(CellBlock) is CellBlock


def test_what_a_reader_yields_is_weighed(tmp_path):
    """An Arrow table that is pickled to be weighed costs more than reading it did."""
    pq.write_table(pa.table({"price": np.arange(10.0)}), tmp_path / "log.parquet")
    read = beam.Pipeline("FnApiRunner") | ReadTelemetry((str(tmp_path / "*"),), ("price",))
    assert read.element_type is pa.Table


def test_blocks_go_through_a_group_by_key():
    blocks = [CellBlock(np.arange(k, dtype=np.uint32), None) for k in (3, 2)]

    def build(pipeline):
        keyed = beam.Map(lambda block: (1, block)).with_output_types(tuple[int, CellBlock])
        return pipeline | source(blocks, CellBlock) | keyed | beam.GroupByKey()

    ((_, grouped),) = run(build).elements
    sizes = sorted(block.cells.size for block in grouped)
    assert sizes == [2, 3]
    assert all(isinstance(block, CellBlock) for block in grouped)
