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
from tests.contract import examples, forms, runs
from tests.contract.test_figures import asked, every_case
from tests.end_to_end.examples import DOMAIN
from tests.end_to_end.test_counting_release import ASKED
from tests.fakes.canaries import DECLARED
from tests.oracles.releases import Release

MANY = {"column": "real", "bounds": "0,300", "group_by": "number", "groups": "1..300"}
PLANNED: dict[str, dict[str, Any]] = {
    **{name: ASKED[name] for name in ("rows", "sum of users", "row")},
    "sums of 300 groups": {"kind": "sum", "expected": 2000, "drawn_by": "shuffler"} | MANY,
}


@every_case
def test_nothing_that_is_foretold_hangs_on_the_files(kind: str, name: str, workspace: Path) -> None:
    form, options_of_form = asked(kind, name)
    if form.refused or name == forms.HORIZON:
        return
    runs.write_inputs(workspace, examples.log())
    told = {"input": ("log.parquet",), "output": "elsewhere"}
    if "model" in options_of_form:  # how many reports there will be is declared, or nobody knows
        told["min_reports"] = 1500
    options = request(registry.options(kind), told | options_of_form)

    def foretold(source: Source) -> tuple[Any, ...]:
        metric: Metric = resolve(options, source)
        assert (metric.error_statement is not None) == isinstance(metric, ByCounters)
        return metric.expected_error, metric.error_statement, metric.protection.bits

    assert foretold(Source(UNREAD)) == foretold(ALONE)


@pytest.mark.parametrize("case", PLANNED)
def test_what_check_prints_is_what_a_statement_says(case: str, log: str, run: Any) -> None:
    """To all digits; three parties seal each dummy, so their error stands beside it."""
    Path(DOMAIN).write_text("\n".join(DECLARED) + "\n")
    asked = dict(PLANNED[case])
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
