"""Crowds in a pipeline: equal strings meet, each is drawn once, and what stays below ends there."""

from __future__ import annotations

from collections import Counter
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest

from mechanisms.heavy_hitters.crowds import Crowds
from tests.oracles.transforms import drive, fresh_stream, grouped, restart, run
from transforms.encoders.block import CellBlock, PooledBlock
from transforms.encoders.strings import distinct, texts_of, width_of, words_of
from transforms.encoders.users import UserDigest
from transforms.shuffle.crowds import (
    Crowded,
    PartitionStringsDoFn,
    PublishCrowds,
    PublishCrowdsDoFn,
)

MOST = 6
WIDTH = width_of(MOST)
CROWDS = Crowds.meeting(1, "add or remove", epsilon=1.0, delta=1e-4)
HELD = {"often": 400, "": 90, "also": 60, "longer than it is": 50, "x" * MOST: 40, "rare": 1}
SHOWN = {text[:MOST]: holders for text, holders in HELD.items() if holders > 1}


def rows() -> np.ndarray:
    values = [value for value, holders in HELD.items() for _ in range(holders)]
    order = np.random.default_rng(1).permutation(len(values))
    return words_of(pa.array(values, pa.large_string()).take(pa.array(order)), MOST)


def blocks(pieces: int) -> list[CellBlock]:
    return [CellBlock(part, None) for part in np.array_split(rows(), pieces)]


def published(given: list[Any]) -> Crowded:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        kind = PooledBlock if given and isinstance(given[0], PooledBlock) else CellBlock
        typed = pipeline | beam.Create(given).with_output_types(kind)
        return typed | PublishCrowds(CROWDS, WIDTH, buckets=7, open_rng=fresh_stream)

    restart(2)
    [crowded] = run(build).elements
    return crowded


def pooled(blocks: list[CellBlock]) -> list[PooledBlock]:
    """The same rows; every pool has a string, too, that no row holds."""
    some, none = [], words_of(pa.array(["none"], pa.large_string()), MOST)
    for block in blocks:
        first, places = distinct(block.cells)
        pool = np.concatenate([none, block.cells[first]])
        some.append(PooledBlock((places + 1).astype(np.uint32), pool))
    return some


@pytest.mark.parametrize("pieces", [1, 13])
@pytest.mark.parametrize("pools", [False, True])
def test_crowds_are_counted_however_their_strings_arrive(pieces: int, pools: bool) -> None:
    crowded = published(pooled(blocks(pieces)) if pools else blocks(pieces))
    texts, whole = texts_of(crowded.strings)
    assert {*texts} == {*SHOWN}
    assert [text for text, all_ in zip(texts, whole, strict=True) if not all_] == ["longer"]
    assert (np.diff(crowded.values) <= 0).all()
    for text, value in zip(texts, crowded.values.tolist(), strict=True):
        assert 0 < abs(value - SHOWN[text]) + 1 <= CROWDS.law.mu + 1
    assert crowded.messages == sum(HELD.values())


def test_a_batch_without_rows_is_an_answer() -> None:
    crowded = published([])
    assert (crowded.strings.shape, crowded.values.size, crowded.messages) == ((0, WIDTH), 0, 0)


def test_counts_are_exact_where_there_is_no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also over several pieces of a bucket, and where a bundle holds a string more than once."""
    split = PartitionStringsDoFn(3, UserDigest("", 8))
    groups = grouped(drive(split, [blocks(20)[:9], blocks(20)[9:]]))
    assert max(map(len, groups.values())) == 2
    seen: Counter[str] = Counter()

    def publish(self: Crowds, sizes: np.ndarray, rng: Any) -> Any:
        return np.ones(sizes.size, np.bool_), sizes

    monkeypatch.setattr(Crowds, "publish", publish)
    step = PublishCrowdsDoFn(CROWDS, WIDTH, fresh_stream)
    step.setup()
    for group in groups.items():
        [(number, crowded)] = step.process(group)
        assert number == group[0]
        seen.update(dict(zip(texts_of(crowded.strings)[0], crowded.values.tolist(), strict=True)))
    assert seen == SHOWN | {"rare": 1}


def test_a_crowd_is_drawn_once_however_often_it_is_read() -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        step = PublishCrowds(CROWDS, WIDTH, buckets=7, open_rng=fresh_stream)
        both = pipeline | beam.Create(blocks(4)).with_output_types(CellBlock) | step
        one = both | "One" >> beam.Map(lambda crowded: crowded.values.tolist())
        other = both | "Other" >> beam.Map(lambda crowded: crowded.values.tolist())
        return (one, other) | beam.Flatten()

    one, other = run(build).elements
    assert one == other
    assert len(one) == len(SHOWN)
