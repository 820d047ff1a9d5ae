"""A product team's plan: actives, p95 by version, top errors, an experiment, a funnel, an alarm."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from examples.make_product import make
from tests.fakes.repeating import seeded

ROOT = Path(__file__).parents[2]
DAYS = ("2026-11-01", "2026-11-02")


def true(day: str) -> dict[str, Any]:
    """The figures of a day, of all of its users."""
    log = pq.read_table(f"events/{day}.parquet")
    user, version, arm, event, ms, error = (
        np.array(log[name].to_pylist(), object)
        for name in ("user", "version", "arm", "event", "ms", "error")
    )
    users = {name: set(user[event == name]) for name in ("open", "search", "basket", "buy")}
    sides = {name: set(user[arm == name]) for name in ("old", "new")}
    rates = {name: len(users["buy"] & of) / len(of) for name, of in sides.items()}
    return {
        "actives": len({*user}),
        "latency": {
            (name, p): float(np.quantile(ms[version == name].astype(float), p))
            for name in ("2.9", "3.0", "3.1") for p in (0.5, 0.95)
        },
        "errors": {name: len(set(user[error == name])) for name in {*error} - {None}},
        "button": rates["new"] - rates["old"],
        "path": {name: len(of) for name, of in users.items()},
    }  # fmt: skip


def rows(day: str, metric: str, table: str) -> list[dict[str, Any]]:
    return list(pq.read_table(f"published/{day}/{metric}/{table}.parquet").to_pylist())


def holds(row: dict[str, Any], number: float, slack: float = 0.0) -> bool:
    """Whether the widest interval of a figure holds a number."""
    lower = min(row[name] for name in ("lower", "lower_simultaneous") if row.get(name) is not None)
    upper = max(row[name] for name in ("upper", "upper_simultaneous") if row.get(name) is not None)
    return bool(lower - slack <= number <= upper + slack)


@pytest.mark.verify
def test_each_figure_of_a_day_lies_in_its_interval(run, workspace: Path) -> None:
    """Of two days; joint intervals where there are some.

    Each of ten tables may miss once in 10^11 runs, so all of them less than once in 10^9.
    """
    make(Path("events"), len(DAYS))
    plan = (ROOT / "examples" / "product.yaml").read_text()
    surely = f"    confidence: {1 - 1e-11!r}\n"
    Path("product.yaml").write_text(re.sub(r"(    kind: .*\n)", rf"\1{surely}", plan))
    with seeded("a team's days"):  # ids of releases differ, as they do outside of tests
        assert run(["ledger", "init", "product.yaml"]).code == 0
        for day in DAYS:
            outcome = run(["run", "product.yaml", "--window", day, "--json"])
            assert outcome.code == 0, outcome.said
            assert json.loads(outcome.out)["guarantees"]["release"]["epsilon"] <= 1.0
        assert run(["site", "published", "--output", "site"]).code == 0
    for day in DAYS:
        of = true(day)
        (count,) = rows(day, "actives", "count")
        assert holds(count, of["actives"])
        for row in rows(day, "latency", "quantiles"):
            # Users share a one among the rows of a version: by rows it is a little elsewhere.
            assert holds(row, of["latency"][row["group"], row["p"]], slack=4)
        errors = {row["value"]: row for row in rows(day, "errors", "count")}
        assert {"timeout", "no network"} <= errors.keys() <= of["errors"].keys()
        assert all(holds(row, of["errors"][name]) for name, row in errors.items())
        (effect,) = rows(day, "button", "experiment")
        assert holds(effect, of["button"])
        steps = {row["value"]: row for row in rows(day, "path", "funnel")}
        assert all(holds(steps[name], number) for name, number in of["path"].items())
    assert "latency" in Path("site/index.html").read_text()
