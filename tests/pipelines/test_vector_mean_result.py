"""What a release of an average row makes of its counts."""

from __future__ import annotations

import numpy as np
import pytest

from mechanisms.randomness import SeededRandom
from mechanisms.vector.mixed_choice import mixed_rows
from mechanisms.vector.multi import multi_optimal
from pipelines.metrics.reports.row_estimates import VectorEstimate, estimated, shrunk
from transforms.collector.collect_counts import Counted

D, N, LEVEL, RUNS = 100, 2000, 0.15, 24


def decoded(mechanism, messages):
    """The row that messages come to."""
    counted = Counted(mechanism.count(messages), messages.size, 0)
    return estimated(mechanism, counted, messages.size // int(mechanism.messages), 0.95)[0]


def rows_of(mechanism, rows, rng):
    """Messages of whole rows, numbers alone."""
    if hasattr(mechanism, "attributes"):
        return mechanism.report(rows, np.empty((len(rows), 0), np.int64), rng)
    return mechanism.report(rows, rng)


@pytest.mark.parametrize("shrink", ["zero", "grand-mean"])
@pytest.mark.parametrize("build", [multi_optimal, lambda e, d: mixed_rows(e, [None] * d)])
def test_shrinking_serves_no_row_worse_where_few_report_each_coordinate(build, shrink):
    """80 reports speak for a coordinate, whose standard error is that of the worst case.

    A mean squared error of 24 rows of 100 coordinates is known to 3 % (one sigma): the shrunk one
    is 0.7 of the unbiased one's, and was above it where worst cases were taken for noise. Between
    0.7 and 0.9 there are more than 6.5 sigmas.
    """
    mechanism, rng = build(8.0, D), SeededRandom(6)
    truth = np.where(np.arange(D) % 2, LEVEL, -LEVEL)
    rows, errors = np.tile(truth, (N, 1)), np.zeros(2)
    for _ in range(RUNS):
        messages = rows_of(mechanism, rows, rng)
        row = decoded(mechanism, messages)
        assert row.reports.mean() < 100
        for place, guess in enumerate((row.unbiased, shrunk(row, shrink, None).estimate)):
            errors[place] += np.mean((guess - truth) ** 2)
    assert errors[1] < 0.9 * errors[0]


@pytest.mark.parametrize("build", [multi_optimal, lambda e, d: mixed_rows(e, [None] * d)])
def test_the_noise_that_is_taken_off_is_the_noise_there_is(build):
    mechanism, rng = build(8.0, D), SeededRandom(8)
    rows, judged, seen = np.zeros((N, D)), 0.0, 0.0
    for _ in range(RUNS):
        messages = rows_of(mechanism, rows, rng)
        row = decoded(mechanism, messages)
        judged, seen = judged + row.judged.mean(), seen + np.mean(row.unbiased**2)
        assert (row.standard_error**2 > 1.2 * row.judged.mean()).mean() > 0.5
    # A sum of 2,400 squares is known to 3 %, with heavier tails than normal ones to less.
    assert judged / seen == pytest.approx(1, abs=0.25)


@pytest.mark.parametrize("shrink", ["zero", "grand-mean", "prior"])
def test_coordinates_of_which_too_few_tell_do_not_end_a_release(shrink):
    """One that nobody reported, and one whose error nobody knows: the others are shrunk."""
    mechanism, rng = multi_optimal(8.0, 4), SeededRandom(1)
    row = decoded(mechanism, rows_of(mechanism, np.zeros((400, 4)), rng))
    judged, unbiased = row.judged.copy(), row.unbiased.copy()
    judged[1], (judged[2], unbiased[2]) = np.inf, (np.inf, np.nan)
    prior = np.zeros(4) if shrink == "prior" else None
    lacking = row._replace(judged=judged, unbiased=unbiased)
    moved = shrunk(lacking, shrink, prior).estimate
    assert np.isnan(moved).tolist() == [False, True, True, False]
    told = VectorEstimate(lacking, None, [], 0).error_statement("row", None, shrink)
    assert told["too_few"]["coordinates"] == 2
    assert 0 < told["root_mean_square_of_standard_errors"] < np.inf
    assert shrunk(lacking._replace(judged=np.full(4, np.inf)), shrink, prior) is None
