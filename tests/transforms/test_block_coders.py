"""Blocks are weighed by what their arrays hold, and come through Beam's coders as they went in."""

from __future__ import annotations

import pickle
import struct
import tracemalloc

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam import coders

import transforms.reports.reports  # noqa: F401  registers the coder of reports
from mechanisms.wire.report import Form, Reports
from tests.oracles.transforms import run, source
from transforms.elements.block_coders import BlockCoder, TableCoder, decoded, encoded
from transforms.encoders.block import RowBlock
from transforms.rows.encode import CellBlock
from transforms.rows.telemetry import ReadTelemetry

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
    Reports.shuffled(bytes(range(16)), 3, [7, 9]),
    Reports(bytes(16), Form(sealed=True), Form(sealed=True).empty(2)),
]
kinds = pytest.mark.parametrize("block", BLOCKS, ids=lambda block: type(block).__name__)


def coder_of(block) -> BlockCoder:
    return coders.registry.get_coder(type(block))


def parts(block) -> list:
    if isinstance(block, Reports):
        return [block.records]
    return list(block) if isinstance(block, tuple) else [block]


def assert_equal(ours, theirs) -> None:
    assert type(ours) is type(theirs)
    if isinstance(ours, Reports):
        assert (ours.fingerprint, ours.form) == (theirs.fingerprint, theirs.form)
    for one, other in zip(parts(ours), parts(theirs), strict=True):
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
        else:
            assert one == other if isinstance(one, pa.Table) else one is other is None


@kinds
@pytest.mark.parametrize("nested", [False, True])
def test_blocks_come_back_as_they_were(block, nested):
    coder = coder_of(block)
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
    assert coder_of(block).estimate_size(block) == expected
    # Bytes beside the arrays are few.
    assert abs(len(coder_of(block).encode(block)) - expected) < 1500


def test_weighing_copies_nothing():
    class Never(np.ndarray):
        def tobytes(self, *_):
            raise AssertionError("encoded")

        __reduce__ = __array__ = __array_function__ = tobytes

    block = np.arange(5, dtype=np.uint64).view(Never)
    size, observables = coder_of(BLOCKS[0]).get_impl().get_estimated_size_and_observables(block)
    assert (size, observables) == (40, [])


RAN: list[int] = []


class Payload:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return RAN.append, (1,)


@kinds
def test_bytes_that_are_no_block_run_nothing(block):
    """What could be put on the way between two workers is data, or an error."""
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises((ValueError, pa.ArrowInvalid)):
            coder_of(block).decode(pickle.dumps(Payload(), protocol))
    assert not RAN


def claiming(layout: object, shape: tuple[int, ...]) -> bytes:
    """What stands before an array of that layout and shape."""
    said = repr(layout).encode()
    return struct.pack("<HB", len(said), len(shape)) + said + struct.pack(f"<{len(shape)}Q", *shape)


def test_arrays_of_objects_are_neither_written_nor_read():
    objects = np.array([Payload()], object)
    with pytest.raises(ValueError, match="Python objects"):
        encoded(objects)
    with pytest.raises(ValueError, match="layout"):
        decoded(claiming("|O", (1,)) + pickle.dumps(Payload()))
    assert not RAN


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        ("<u8", (1 << 40,)),
        ("<u8", (1 << 40, 1 << 40)),
        ("<u8", ((1 << 64) - 1, 8)),
        ("|V0", (1 << 30,)),
        ([("a", "<u8", (1 << 20,))], (2,)),
        ([("a", "<u8", (-1,))], (2,)),
        ([("a", "<u8")] * 2, (1,)),
        (8, (2,)),
        ("<u8", (3,)),
        ("<u8", (1,)),
    ],
    ids=str,
)
def test_sizes_that_are_only_claimed_take_no_memory(layout, shape):
    """A header of a few bytes promises a terabyte: nothing of that size is made."""
    tracemalloc.start()
    with pytest.raises(ValueError, match="block"):
        decoded(claiming(layout, shape) + bytes(16))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1 << 20


TABLE = pa.table({"n": np.zeros(1 << 20), "city": pa.array(["a"] * (1 << 20)).dictionary_encode()})


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("columns", [["n"], ["city"], ["n", "city"]], ids=str)
def test_tables_that_are_packed_are_not_unpacked(codec, columns):
    """Twelve kilobytes once became 400 MB in whoever read them."""
    table, sink = TABLE.select(columns), pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, table.schema, options=options) as stream:
        stream.write_table(table)
    with pytest.raises(ValueError, match="compressed"):
        TableCoder(pa.Table).decode(bytes(sink.getvalue()))


def test_dictionaries_come_back_and_are_not_put_together_of_parts():
    coder, table = TableCoder(pa.Table), pa.concat_tables([TABLE.slice(0, 9), TABLE.slice(5, 9)])
    assert coder.decode(coder.encode(table)) == table
    sink = pa.BufferOutputStream()
    batches = [
        pa.record_batch([pa.DictionaryArray.from_arrays([0], names)], ["city"])
        for names in (["a"], ["a", "b"])
    ]
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as stream:
        for batch in batches:
            stream.write_batch(batch)
    with pytest.raises(ValueError, match="in parts"):
        coder.decode(bytes(sink.getvalue()))


@kinds
def test_damaged_bytes_are_an_error_or_a_block(block):
    """Cut anywhere, or overwritten: never more memory than came, nothing else run."""
    coder, whole = coder_of(block), coder_of(block).encode(block)
    damaged = [whole[:size] for size in range(0, len(whole), 3)]
    for place in range(0, len(whole), 7):
        damaged += [whole[:place] + bytes([value]) + whole[place + 1 :] for value in (0, 57, 255)]
    errors = 0
    for piece in damaged:
        try:
            found = coder.decode(piece)
        except (ValueError, OSError, pa.ArrowException):
            errors += 1
        else:
            assert isinstance(coder, TableCoder) or coder.estimate_size(found) <= len(piece)
    assert errors > len(whole) // 4


def test_what_a_reader_yields_is_weighed(tmp_path):
    """An Arrow table that is encoded to be weighed costs more than reading it did."""
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
