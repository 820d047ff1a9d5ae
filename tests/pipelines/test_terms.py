"""The terms of a release: what planners are asked, and what is refused before anything is read."""

from __future__ import annotations

import math

import pytest

from mechanisms.channel import Guarantee
from mechanisms.frequency.task import FrequencyTask
from mechanisms.targets.rules import Target
from pipelines.errors import RequestError
from pipelines.metrics.options import MetricOptions
from pipelines.metrics.terms import (
    least_batch,
    least_reports,
    require_proven,
    target_terms,
)
from pipelines.request.requests import request

ASKED = {"input": ["log.parquet"], "output": "out", "epsilon": "1"}


def options(**changes: object) -> MetricOptions:
    return request(MetricOptions, ASKED | changes)


def test_targets_get_what_was_asked():
    asked = options(delta="1e-5", epsilon_local="3", user_column="u")
    target = Target(**target_terms(asked, "shuffle", 1000, asked.unit), task=FrequencyTask(4))
    assert target == Target(
        "shuffle", 1.0, 1e-5, 1000, FrequencyTask(4), epsilon_local=3.0, unit="user"
    )
    assert options().unit == "row"
    assert target_terms(options(), "shuffle", 10**8, "row")["delta"] == 1e-9
    assert target_terms(options(), "local", 10**8, "row")["delta"] == 0.0


@pytest.mark.parametrize("rows", [102, 1009, 1010, 1011, 9_999, 48_842, 101_010, 10**6, 10_201_000])
def test_the_least_batch_wastes_at_most_two_percent_where_every_row_is_a_report(rows):
    for unusable in ("hide", "fill=x"):
        least = least_batch(options(unusable=unusable), rows, "")
        assert 0.98 * rows <= least <= 0.99 * rows


def test_the_least_batch_is_nine_tenths_to_two_figures_where_rows_are_left_out():
    assert least_batch(options(unusable="count"), 48_842, "") == 43_000


def test_the_least_batch_follows_from_the_rows_or_is_named():
    assert least_reports(options(), "shuffle", 48_842) == 48_300
    assert least_reports(options(), "shuffle", 1) == 2
    assert least_reports(options(), "local", 48_842) == 1
    assert least_reports(options(user_column="u"), "central", 0) == 1
    assert least_reports(options(min_reports="1e3"), "local", 5) == 1000
    assert least_batch(options(), 48_842, "") == 48_300


@pytest.mark.parametrize(("changes", "rows"), [({"user_column": "u"}, 100), ({}, 0)])
def test_nobody_guesses_how_many_users_there_are(changes, rows):
    with pytest.raises(RequestError, match=r"--min-reports is missing.*\(because\)"):
        least_batch(options(**changes), rows, "because")


def test_a_release_above_what_was_asked_is_refused():
    def proven(epsilon: float) -> Guarantee:
        return Guarantee("shuffle", epsilon, 1e-6, "row", "")

    require_proven(options(), proven(1.0))
    require_proven(options(epsilon=None), proven(9.0))
    for epsilon in (1.0030001, math.inf):
        with pytest.raises(RequestError, match="--epsilon: 1 is less than what can be proven"):
            require_proven(options(), proven(epsilon))
