"""What one unit moves the job's totals by, exactly, is no more than what its noise is paid for."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.counters.job_noise import Moves, curve
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.levels import Level, Portion
from mechanisms.randomness import SeededRandom
from mechanisms.sampling.exact_geometric import ExactGeometric
from pipelines.plan.document import PlanDocument
from pipelines.plan.job import unread_job

FIGURES: list[dict[str, Any]] = [
    {"kind": "count"},
    {"kind": "sum", "column": "x", "bounds": "-3,3"},
    {"kind": "sum", "column": "x", "bounds": "2,5"},
    {"kind": "mean", "column": "x", "bounds": "-1,4"},
    {"kind": "variance", "column": "x", "bounds": "-1,4"},
    {"kind": "ratio", "column": "x", "bounds": "-1,4", "over": "y", "over_bounds": "0,5"},
]
GROUPS: list[list[str]] = [[], ['city=["a","b","c"]'], ['city=["a","b","c"]', "zone=1..20"]]
NUMBERS = [-50, 50, 0, 3, -3, 1, 5, 2, math.nan, -1, 4]


def cases() -> Iterator[Any]:
    for neighbours in ("add or remove", "replace"):
        for number, figure in enumerate(FIGURES):
            for groups in GROUPS:
                for dropped in (False, True)[: 1 + bool(groups)]:
                    for by_row, k in ((False, 1), (False, 3), (True, 1), (True, 7)):
                        asked = {**figure, "rows_per_user": k, "by_row": by_row, "group": groups}
                        asked["undeclared"] = "drop" if dropped else "other"
                        name = f"{number}-{len(groups)}-{dropped}-{by_row}-{k}"
                        yield pytest.param(neighbours, asked, id=f"{neighbours} {name}")


def contribution(metric: Any, rows: int, alike: bool, draw: np.random.Generator) -> np.ndarray:
    """What a user with so many rows adds to all totals."""
    size, design = metric.statistic.encoder.size, metric.design
    groups = np.full(rows, draw.integers(size)) if alike else draw.integers(0, size, rows)
    numbers = None
    if metric.statistic.kind != "count":
        numbers = np.full(rows, draw.choice([-50.0, 50.0])) if alike else draw.choice(NUMBERS, rows)
    if metric.statistic.kind == "ratio":  # both numbers of a row at once, as its encoder has them
        both = numbers, np.abs(draw.choice(NUMBERS, rows) if not alike else numbers)
        scaled = (x * scale for x, scale in zip(both, metric.statistic.scales, strict=True))
        numbers, groups = np.stack([*scaled], 1), np.stack([groups, groups + size], 1)
    totals = np.zeros(design.layout.starts[-1], np.int64)
    users, rng = np.zeros(rows, np.int64), SeededRandom(5)
    for words in metric.reporting.words(users, groups.astype(np.int64), numbers, 1, rng):
        flat = words.ravel()
        kept = flat["code"] < np.uint64(totals.size)
        np.add.at(totals, flat["code"][kept].astype(int), flat["times"][kept])
    return totals


def spent(design: JobTotals, moved: np.ndarray) -> float:
    """The share of what is paid for that such a move takes."""
    lost, squares = 0.0, 0.0
    starts = design.layout.starts.tolist()
    for (start, end), law in zip(pairwise(starts), design._laws, strict=True):
        part = moved[start:end].astype(float)
        if isinstance(law, ExactGeometric):
            lost += float(law.decay) * np.abs(part).sum()
        else:
            squares += (part**2).sum() / law.sigma**2
    paid = sum(
        m.squares / law.sigma**2
        for law, m in zip(design.laws, design.moves, strict=True)
        if not isinstance(law, ExactGeometric)
    )
    return max(lost / design.epsilon, math.sqrt(squares / paid) if squares else 0.0)


@pytest.mark.parametrize(("neighbours", "asked"), [*cases()])
def test_no_unit_moves_totals_by_more_than_is_paid_for(
    neighbours: str, asked: dict[str, Any], workspace: Any
) -> None:
    pq.write_table(
        pa.table({"user": ["a"], "x": [1.0], "y": [1.0], "city": ["a"], "zone": [1]}), "log.parquet"
    )
    if asked["rows_per_user"] > 1 and not (asked["by_row"] or asked["group"]):
        return  # of one group a unit has one row, unless rows count for themselves
    plan = {
        "collection": "c", "version": 1, "input": ("log.parquet",), "output": "o", "epsilon": 1.0,
        "delta": 1e-6, "unit": "user", "user_column": "user", "neighbours": neighbours,
        "metrics": [{"name": "m", **asked}],
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metric: Any = unread_job(PlanDocument.model_validate(plan), "w").metrics[0]
    draw = np.random.default_rng(1)
    for run in range(24):
        alike = run % 2 == 0
        moved = contribution(metric, int(draw.integers(1, 25)), alike, draw)
        if neighbours == "replace":
            moved = moved - contribution(metric, int(draw.integers(1, 25)), alike, draw)
        assert spent(metric.design, moved) <= 1 + 1e-9


def test_a_signed_total_that_goes_from_end_to_end_is_in_the_profile() -> None:
    """Of groups, too, a unit may stay in its own: one total moves by both bounds."""
    design = JobTotals.meeting(
        [Level(1, 9)], "replace", 1.0, 0.0, parts=[Portion(1, -3, 3)]
    )  # fmt: skip
    true = curve(design.laws, [Moves(1, 1, 6, 36)])
    for epsilon in (0.1, 0.3, 0.5, 0.7, 0.9):
        assert design.profile().delta(epsilon) >= true.delta(epsilon) * (1 - 1e-12)
