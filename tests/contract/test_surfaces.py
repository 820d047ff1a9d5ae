"""One job of every form: its tables, page, export, comparison and site show the same figures.

And none of them, nor the screen, tells a user's id.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract import examples, forms, runs, surfaces
from tests.contract.test_figures import CASES, asked
from tests.fakes import canaries
from tests.fakes.few import few
from tests.oracles.releases import Release, require_nobody, require_numbers, require_whole

pytestmark = pytest.mark.usefixtures("beams_runner")


@pytest.fixture(autouse=True)
def log(workspace: Path) -> None:
    runs.write_inputs(workspace, examples.log())


# By Beam's own runner, a second each: at first of one kind of each family.
@pytest.mark.parametrize(
    ("kind", "name"),
    few(CASES, lambda case: case[0] if case[0] in ("histogram", "count", "cross-tab") else None),
    ids=map(" ".join, CASES),
)
def test_a_job_publishes_one_figure_everywhere(kind: str, name: str, run) -> None:
    form, options = asked(kind, name)
    if form.refused or name == forms.HORIZON:  # totals of a plan: in test_ways
        return
    outcome = run(runs.words(kind, options, "released/one"))
    assert (outcome.code, canaries.found(outcome.said)) == (0, set()), outcome.said
    runs.repeat(kind, options, 1, "another")
    release = Release(Path("released/one"))
    tables = release.tables
    require_whole(release, tables)
    require_nobody(release)
    require_numbers(release)
    for table in tables.values():
        surfaces.require_schema(table)
    surfaces.require_page(release.page, tables)
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
