"""Shares of active users: limits that cover, and no share where there may be no users."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pipelines.logs import inputs
from pipelines.metrics.active_users.options import STICKINESS, ActiveUsersOptions
from pipelines.metrics.counting.by_counters import ByCounters
from pipelines.metrics.counting.result import FigureError
from pipelines.metrics.resolving import resolve
from pipelines.metrics.statistics.summed import shares
from transforms.collector.collect_counts import Counted

PAIRS = [(1, 28), (7, 28), (1, 7)]
ACTIVE, CONFIDENCE = 1000, 0.95


def metric(period: str = "day", epsilon: float = 4.0) -> ByCounters:
    options = ActiveUsersOptions.model_validate({
        "input": ["log.parquet"], "output": "out", "user_column": "user", "time": "time",
        "day": "2026-11-20", "period": period, "epsilon": epsilon,
    })  # fmt: skip
    return resolve(options, inputs.Source(inputs.UNREAD, 1))


@pytest.mark.parametrize("epsilon", [2.0, 4.0])
@pytest.mark.parametrize("period", ["day", "week"])
def test_limits_cover_by_the_exact_law_of_the_noise(period: str, epsilon: float) -> None:
    """Summed over all that the counters of the part and of the rest may be off by."""
    users = metric(period, epsilon)
    empty = Counted(np.zeros(users.design.layout.codes, np.int64), 0, 0)
    sum_error = users.evidence(empty).sum_error
    active = {one.size: one for one in users.statistic.activity.figures if one.what == "active"}
    for a, b in PAIRS:
        part, whole = active[a], active[b]
        assert {*part.cells} < {*whole.cells}
        sizes = len(part.cells), len(whole.cells) - len(part.cells)
        laws = [FigureError.of_level(users.design, part.level, size).law for size in sizes]
        assert laws[0] is not None
        assert laws[1] is not None
        probability = np.outer(laws[0].pmf, laws[1].pmf).ravel()
        noise = [law.first + np.arange(law.pmf.size) for law in laws if law is not None]
        within, rest = (each.ravel() for each in np.meshgrid(*noise, indexing="ij"))
        for share in (0.0, 0.05, 0.3, 0.5, 0.8, 0.97, 1.0):
            counts, numbers = share * ACTIVE + within, ACTIVE + within + rest
            found = shares(sum_error, part, whole, counts, numbers, CONFIDENCE)
            low, high = np.clip(found.lower, 0, 1), np.clip(found.upper, 0, 1)
            covers = (low <= share + 1e-9) & (share - 1e-9 <= high)
            assert CONFIDENCE <= probability[covers].sum() <= 1
            assert probability @ (high - low) < 0.02


def test_where_there_may_be_no_users_there_is_no_share() -> None:
    """Counters without any dummy are as far below 0 as these are expected to be many."""
    users = metric()
    empty = Counted(np.zeros(users.design.layout.codes, np.int64), 0, 0)
    tables = users.tables(empty)
    rows = tables[STICKINESS].to_pylist()
    assert len(rows) == len(PAIRS)
    for row in rows:
        assert (row["estimate"], row["standard_error"]) == (None, None)
        assert (row["lower_simultaneous"], row["upper_simultaneous"]) == (0, 1)
    statement = json.loads(json.dumps(users.statement(empty, {}))) | {"created": "today"}
    page = users.page(tables, statement).decode()
    assert page.count("<td>—</td>") == len(PAIRS)
