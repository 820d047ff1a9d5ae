"""Every page of every kind in each of its forms, read as its reader does: see `read_pages`."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.metrics import registry
from pipelines.releases import schema
from tests.fakes.few import few
from tests.fakes.releases import Request, prepared, released, requests
from tests.oracles.read_pages import (
    Read,
    require_axes,
    require_figures,
    require_plain,
    require_promise,
    require_table,
    require_title,
    shown_as,
)

# Names of files, and what a reader may type.
ALLOWED = ("statement.json", "model.json", "model.joblib", "model.predict(table)", "joblib.load(")


def read(folder: Path) -> tuple[Read, dict]:
    return Read((folder / "report.html").read_bytes()), json.loads(
        (folder / "statement.json").read_text()
    )


@pytest.mark.parametrize(
    "request_", few(requests(), lambda request: request.kind), ids=[*map(str, requests())]
)
def test_a_page_says_what_its_release_holds(request_: Request, workspace) -> None:
    page, statement = read(released(request_, prepared(), "out"))
    tables = {path.name: pq.ParquetFile(path).read() for path in Path("out").glob("*.parquet")}
    require_plain(page.text, [*ALLOWED, *tables])
    require_promise(page.text, statement)
    require_axes(page.source)
    if request_.kind == "train":
        assert page.title == "real: linear regression"
        return
    if "--horizon" in request_.words:
        assert page.title == "value: rows, so far"
        assert "2026-11-21" in page.text
        table = tables["totals.parquet"]
        for number, beside in page.figures:
            estimate = number.partition(" ± ")[0]
            rows = [row for row in table.to_pylist() if row["value"] in beside]
            assert [shown_as(estimate, row["estimate"]) for row in rows] == [True]
        return
    require_title(page.title, statement, registry.options(request_.kind).brief)
    name = statement["headline"]["table"]
    first, figure = tables[name], statement["figures"][name]
    assert (figure == "quantile") == (request_.kind == "distribution")  # a number of the column
    if figure == "quantile":
        ((number, beside),) = page.figures
        (row,) = [row for row in first.to_pylist() if row["p"] == 0.5]
        assert beside == "median"
        assert shown_as(number.partition(" (")[0], row["estimate"])
    elif figure == "effect":
        ((number, beside),) = page.figures
        (row,) = first.to_pylist()
        effect = number.partition(": ")[2].partition(" %")[0].lstrip("+")
        assert shown_as(effect, 100 * row["estimate"])
        assert ("not beyond chance" in beside) != row["beyond_chance"]
    else:
        require_figures(page, first, statement)
    if request_.kind != "vector-mean":
        require_table(page, schema.own(first), figure == "share")
        return
    # Numbers and shares of categories stand in one table, or in two.
    parts = [schema.own(tables[each]) for each in statement["figures"] if each in tables]
    estimates = pa.concat_tables([part.select(["estimate"]) for part in parts])
    require_table(page, estimates, False)
