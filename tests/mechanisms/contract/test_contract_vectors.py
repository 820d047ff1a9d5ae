"""Mechanisms for rows of numbers: whole clients, what is refused, and errors as they are judged."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mechanisms.randomness import SeededRandom
from tests.mechanisms.contract.cases import ALONE, first, over
from tests.oracles.vector import source_rows

VECTORS = [case for case in ALONE if case.facts.task == "vector"]


@over(VECTORS)
def test_any_split_of_a_blocks_messages_counts_alike(case):
    mechanism = case.mechanism
    rows = source_rows(500, mechanism.dimension, SeededRandom(4)) * 0.1  # which all of them admit
    messages = mechanism.report(rows, SeededRandom(5))
    assert messages.dtype == np.uint64
    assert messages.size == 500 * mechanism.messages
    whole = mechanism.count(messages)
    for pieces in (2, 7, 50):
        parts = [mechanism.count(piece) for piece in np.array_split(messages, pieces)]
        np.testing.assert_array_equal(sum(parts), whole)
    assert mechanism.report(np.empty((0, mechanism.dimension)), SeededRandom(1)).size == 0


@over(VECTORS)
def test_counts_that_say_nothing_are_refused(case):
    mechanism = case.mechanism
    with pytest.raises(ValueError, match="report"):
        mechanism.estimated_variance(mechanism.count([]))
    with pytest.raises(ValueError, match="counts must be of shape"):
        mechanism.estimate(np.ones(mechanism.codes + 1, np.int64))


SECRET = 1234567
ROWS = {
    "unequal": lambda d: [[0.1] * d, [0.1] * (d + 1)],
    "short": lambda d: [[SECRET] * (d - 1)] * 2,
    "flat": lambda d: [SECRET] * d,
    "nan": lambda d: [[0.1] * d, [0.1] * (d - 1) + [math.nan]],
    "infinite": lambda d: [[0.1] * d, [0.1] * (d - 1) + [-math.inf]],
    "large": lambda d: [[0.1] * d, [0.1] * (d - 1) + [SECRET]],
    "text": lambda d: [["x"] * d],
    "complex": lambda d: [[1j] * d],
}
CELLS = {
    "large": lambda d: [[SECRET] * d],
    "negative": lambda d: [[-1] * d],
    "float": lambda d: [[0.5] * d],
    "long": lambda d: [[0] * (d + 1)],
    "flat": lambda d: [0] * d,
}


@over(VECTORS)
def test_rows_that_are_none_are_refused_without_being_quoted(case):
    for kind, wrong in ROWS.items():
        with pytest.raises(ValueError, match="rows") as refusal:
            case.mechanism.report(wrong(case.mechanism.dimension), SeededRandom(1))
        assert str(SECRET) not in str(refusal.value), kind
        assert "nan" not in str(refusal.value), kind


@over(VECTORS)
def test_cells_that_are_none_are_refused_without_being_quoted(case):
    for kind, wrong in CELLS.items():
        with pytest.raises(ValueError, match="cells") as refusal:
            case.mechanism.perturb(wrong(case.mechanism.dimension), SeededRandom(1))
        assert str(SECRET) not in str(refusal.value), kind


LONGER = [case.at(dimension=20) for case in first(VECTORS) if not case.facts.seeded]


@over(LONGER)
def test_measured_error_is_the_predicted_one_and_the_one_that_reports_judge(case):
    """200 batches of 20 coordinates: the ratio's standard deviation is 2.3 %, 15 % are 6 of them.

    The batch's own estimate of it, on average over the coordinates, is as good.
    """
    mechanism, rng, runs, n = case.mechanism, SeededRandom(9), 200, 100
    rows = source_rows(n, 20, SeededRandom(1))
    rows[:, :5] = 1  # the largest variance there is, or the least
    errors, judged = [], []
    for _ in range(runs):
        counts = mechanism.count(mechanism.report(rows, rng))
        errors.append(mechanism.estimate(counts) - rows.mean(axis=0))
        judged.append(mechanism.estimated_variance(counts).mean())
    predicted = (mechanism.variance(rows).sum(axis=0) / n**2).mean()
    assert np.abs(np.mean(errors, axis=0)).max() < 7 * math.sqrt(2 * predicted / runs)
    assert 0.85 < np.mean(np.square(errors)) / predicted < 1.15
    assert 0.93 < np.mean(judged) / predicted < 1.07
