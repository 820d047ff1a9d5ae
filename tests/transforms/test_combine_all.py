"""Everything in one element: of a batch without elements, too, and of each window that has some."""

from __future__ import annotations

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms.window import FixedWindows

from tests.oracles.transforms import run, source
from transforms.collector.collect_counts import Counted, CountMessages
from transforms.elements.combine_all import CombineAll


class Codes:
    """Four codes, all of which clients send."""

    def valid(self, messages: np.ndarray) -> np.ndarray:
        return messages < 4

    def count(self, messages: np.ndarray) -> np.ndarray:
        return np.bincount(messages.astype(int), minlength=4)


COUNT = CountMessages(Codes())


@pytest.mark.parametrize("blocks", [[], [[3]], [[0, 1, 1], [3], [1, 9]]])
def test_it_yields_what_combine_globally_does(blocks: list[list[int]]) -> None:
    def build(combine: beam.PTransform) -> Counted:
        arrays = [np.array(block, np.uint64) for block in blocks]
        (counted,) = run(lambda p: p | source(arrays) | combine).elements
        return counted

    ours, theirs = build(CombineAll(COUNT)), build(beam.CombineGlobally(COUNT))
    assert ours.counts.tolist() == theirs.counts.tolist()
    assert ours[1:] == theirs[1:]


def test_each_window_has_its_own_and_none_is_made_up() -> None:
    arrays = [np.full(size, size, np.uint64) for size in (1, 2, 3)]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        windows = beam.WindowInto(FixedWindows(10))
        return pipeline | source(arrays, spread=8) | windows | CombineAll(COUNT)

    kept = run(build).kept
    assert sorted((int(k.window.start), k.element.messages) for k in kept) == [(0, 3), (10, 3)]
