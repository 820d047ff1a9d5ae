"""One job of every form: its tables, page, export, comparison and site show the same figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract import examples, forms, runs, surfaces
from tests.contract.test_figures import asked, most_cases_later
from tests.oracles.releases import Release


@pytest.fixture(autouse=True)
def log(workspace: Path) -> None:
    runs.write_inputs(workspace, examples.log())


@most_cases_later
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
    if outcome.code != 0:  # errors that go together, as those of shares up to a bin
        assert outcome.code == 2, outcome.said
        return
    rows, other = surfaces.answered(outcome.out)["rows"], Release(Path("out-0")).tables
    compared = {row["figure"] for row in rows}
    assert compared
    for file, table in tables.items():
        (figure,) = set(table["figure"].to_pylist())
        of_it = [row for row in rows if row["figure"] == figure]
        surfaces.require_comparison(of_it, table, other[file])
