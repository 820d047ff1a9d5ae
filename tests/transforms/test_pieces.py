"""Pieces in memory that workers share; forked workers are in tests/pipelines."""

from __future__ import annotations

import os

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.pipeline import PipelineVisitor
from apache_beam.typehints import KV

from mechanisms.wire.report import Form, Reports
from tests.oracles.wire import PLAN
from transforms.elements.pieces import Piece, SharedCoder, be_worker, shared
from transforms.encoders.block import CellBlock
from transforms.reports.repeats import ByIds
from transforms.units.contributions import BoundContributions

LARGE = bytes(range(256)) * 100


def test_pieces_are_plain_bytes_where_no_memory_is_shared() -> None:
    assert isinstance(coders.registry.get_coder(Piece), coders.BytesCoder)
    with shared(2):
        assert isinstance(coders.registry.get_coder(KV[int, Piece]).value_coder(), SharedCoder)
    assert isinstance(coders.registry.get_coder(Piece), coders.BytesCoder)


@pytest.mark.parametrize("piece", [b"", b"\0", b"\1", LARGE])
def test_a_process_that_is_no_worker_carries_pieces_whole(piece: bytes) -> None:
    coder = SharedCoder()
    assert coder.decode(coder.encode(piece)) == piece
    with shared(1):
        assert coder.decode(coder.encode(piece)) == piece
        assert len(coder.encode(piece)) == 1 + len(piece)


def test_a_worker_carries_references() -> None:
    coder, sent = SharedCoder(), [LARGE, b"", LARGE[1:], b"\1", LARGE + b"x"]
    with shared(3):
        be_worker(2)
        encoded = [*map(coder.encode, sent)]
        assert [*map(coder.decode, reversed(encoded))] == sent[::-1]
        assert max(map(len, encoded)) < 20
        assert coder.decode(encoded[0]) == LARGE  # a reader may come twice


def test_a_reference_to_what_is_not_there_is_refused() -> None:
    coder = SharedCoder()
    with shared(1):
        be_worker(0)
        reference = coder.encode(LARGE)
    with pytest.raises(ValueError, match="memory of others"):
        coder.decode(reference)
    with shared(1), pytest.raises(ValueError, match="not where it was put"):
        coder.decode(reference)


def test_memory_is_given_back() -> None:
    before = {*os.listdir("/proc/self/fd")}
    with shared(2):
        assert len(os.listdir("/proc/self/fd")) > len(before)
    assert {*os.listdir("/proc/self/fd")} == before
    with pytest.raises(RuntimeError, match="no memory"):
        be_worker(0)


def test_two_equal_pieces_are_no_equal_keys() -> None:
    assert not SharedCoder().is_deterministic()


@pytest.mark.parametrize(
    ("kind", "step", "groups"),
    [
        (CellBlock, BoundContributions(buckets=7), 1),
        (CellBlock, BoundContributions(buckets=128), 4),
        (CellBlock, BoundContributions(buckets=128, distinct=2), 4),
        (Reports, ByIds(PLAN, Form(), 4), 1),
    ],
    ids=["bounded", "in parts", "several", "by id"],
)
def test_much_is_grouped_as_pieces(kind: type, step: beam.PTransform, groups: int) -> None:
    """What passes a filter on its way there, too: workers do not share what is plain bytes."""
    pipeline, types = beam.Pipeline(), []

    class Grouped(PipelineVisitor):
        def visit_transform(self, node: beam.pipeline.AppliedPTransform) -> None:
            if isinstance(node.transform, beam.GroupByKey):
                types.extend(one.element_type for one in node.inputs)

    read = beam.Map(lambda block: block).with_output_types(kind)
    _ = pipeline | beam.Impulse() | read | step
    pipeline.visit(Grouped())
    assert types == [KV[int, Piece]] * groups
