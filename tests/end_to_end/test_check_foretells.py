"""`check` foretells what `run` has: one function for both, of every kind and every form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipelines.logs.inputs import ALONE, UNREAD, Source
from pipelines.metrics import registry
from pipelines.metrics.counting.by_counters import ByCounters
from pipelines.metrics.metric import Metric
from pipelines.metrics.resolving import resolve
from pipelines.plan.check import summary
from pipelines.request.requests import request
from tests.end_to_end.examples import DOMAIN, EXAMPLES
from tests.end_to_end.test_counting_release import ASKED, STRINGS
from tests.fakes.canaries import DECLARED
from tests.oracles.releases import Release

MIXED = {"mechanism": "split-mix", "enrolled": 3000}
MANY = {"column": "real", "bounds": "0,300", "group_by": "number", "groups": "1..300"}
FORMS: dict[str, dict[str, Any]] = {
    **{
        f"{model}: {kind}": {"kind": kind, "model": model, "min_reports": 1500} | {**example.asked}
        for kind, example in EXAMPLES.items()
        for model in ("local", "shuffle")
    },
    "by the job": {"kind": "histogram", "dummies": "job"} | {**EXAMPLES["histogram"].asked},
    **{name: dict(asked) for name, asked in ASKED.items()},
    "sums of 300 groups": {"kind": "sum", "expected": 2000} | MANY,
    "means of 300 groups": {"kind": "mean", "dummies": "shuffler", "expected": 2000} | MANY,
    "strings of users": STRINGS | {"alphabet": (STRINGS["alphabet"],)},
    "strings by a threshold": {"kind": "strings", "column": "value"},
    "split-mix": {"kind": "sum", "column": "real", "bounds": "0,300"} | MIXED,
    "mean by split-mix": {"kind": "mean", "column": "real", "bounds": "0,300"}
    | MIXED
    | {"dummies": "shuffler"},
}


@pytest.fixture(autouse=True)
def values(workspace: Path) -> None:
    (workspace / DOMAIN).write_text("\n".join(DECLARED) + "\n")


def test_all_kinds_are_there() -> None:
    assert {asked["kind"] for asked in FORMS.values()} == set(registry.names())


@pytest.mark.parametrize("case", FORMS)
def test_nothing_that_is_foretold_hangs_on_the_files(case: str, log: str) -> None:
    asked = {"epsilon": 2.0, "input": (log,), "output": "elsewhere"} | FORMS[case]
    options = request(registry.options(str(asked.pop("kind"))), asked)

    def foretold(source: Source) -> tuple[Any, ...]:
        metric: Metric = resolve(options, source)
        assert (metric.error_statement is not None) == isinstance(metric, ByCounters)
        return metric.expected_error, metric.error_statement, metric.protection.bits

    assert foretold(Source(UNREAD)) == foretold(ALONE)


@pytest.mark.parametrize("case", ["rows", "sum of users", "sums of 300 groups", "row"])
def test_what_check_prints_is_what_a_statement_says(case: str, log: str, run: Any) -> None:
    """To all digits; three parties seal each dummy, so their error stands beside it."""
    asked = dict(FORMS[case])
    users = {name: asked.pop(name) for name in ("user_column",) if name in asked}
    whole = {
        "collection": "told", "version": 1, "unit": "user" if users else "row", **users,
        "input": [log], "output": "out", "epsilon": 2.0, "delta": 1e-6,
        "metrics": [{"name": "it"} | asked],
    }  # fmt: skip
    Path("plan.yaml").write_text(json.dumps(whole))
    [foretold] = summary("plan.yaml")["metrics"]
    assert run(["run", "plan.yaml"]).code == 0
    assert Release(Path("out/it")).statement["error"] == foretold["expected"]["statement"]
    sealed = foretold["expected_of_parties"]["statement"]
    assert (sealed == foretold["expected"]["statement"]) == (case != "sums of 300 groups")
