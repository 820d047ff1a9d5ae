"""Names that a plan may watch are known before a row is read: every kind knows its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.metrics import registry
from pipelines.metrics.resolving import resolve
from tests.contract import examples, forms, runs

CASES = [
    (kind, form)
    for kind, example in examples.EXAMPLES.items()
    for form, said in example.forms.items()
    if not said.refused and form != forms.HORIZON  # of which nothing is watched
]
ROWS_OF_REPORTS = {"vector-mean", "cross-tab", "distribution"}  # which no kind names beforehand


@pytest.mark.parametrize(("kind", "form"), CASES)
def test_the_rows_that_are_declared_are_those_that_are_true(
    kind: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs.write_inputs(tmp_path, examples.log())
    example = examples.EXAMPLES[kind]
    said = example.forms[form]
    asked = {**example.asked, **forms.offered(kind)[form], **said.asked}
    options = registry.options_in_plan(kind, asked)
    metric = resolve(options(input=("log.parquet",), output="out", **asked))
    for name, table in metric.declared.items():
        for truth in said.truths:
            if truth.table == name and {*truth.keys} <= {*table.column_names}:
                rows = zip(*(table[key].to_pylist() for key in truth.keys), strict=True)
                keys = {
                    tuple(None if x is None else str(runs.label(x)) for x in row) for row in rows
                }
                assert {*truth.of(examples.columns())} <= keys
    found = kind == "strings" or "group" in asked
    by_reports = kind in ROWS_OF_REPORTS and form in ("local", "shuffle")
    assert bool(metric.declared) == (not found and not by_reports)
