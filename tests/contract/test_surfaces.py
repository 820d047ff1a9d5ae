"""One job of every form: its tables, page, export, comparison and site show the same figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract import examples, forms, runs, surfaces
from tests.contract.test_figures import asked, every_case
from tests.oracles.releases import Release


@pytest.fixture(autouse=True)
def log(workspace: Path) -> None:
    runs.write_inputs(workspace, examples.log())


@every_case
def test_a_job_publishes_one_figure_everywhere(kind: str, name: str, run) -> None:
    form, options = asked(kind, name)
    if form.refused or name == forms.HORIZON:  # totals of a plan: in test_ways
        return
    assert run(runs.words(kind, options, "released/one")).code == 0  # by Beam's own runner
    runs.repeat(kind, options, 1, "another")
    tables = Release(Path("released/one")).tables
    for table in tables.values():
        surfaces.require_schema(table)
    surfaces.require_page(Release(Path("released/one")).page, tables)
    assert run(["export", "released/one", "--output", "exported.parquet"]).code == 0
    surfaces.require_export(Path("exported.parquet"), tables)
    assert run(["site", "released", "--output", "pages"]).code == 0
    for made in Path("pages").glob("*/*.parquet"):
        surfaces.require_export(made, tables)
    outcome = run(["compare", "released/one", "out-0", "--json"])
    if outcome.code == 0:
        other = Release(Path("out-0")).tables
        for file, table in tables.items():
            rows = surfaces.answered(outcome.out)["rows"]
            surfaces.require_comparison(rows, table, other[file])
    else:
        assert outcome.code == 2, outcome.said
