"""The pages of single releases in a real browser, one of each kind in each form.

`make test-site` runs it. What a page says is held against its release without a browser as well:
tests/pipelines/test_read_pages.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page

from pipelines.cli import cli
from tests.browser.looks import (
    LOOKS,
    require_drawn_within,
    require_first_screen,
    require_heads_whole,
    require_order,
    require_readable,
    require_short,
    unfold,
)
from tests.fakes import canaries
from tests.fakes.releases import prepared, released, requests
from tests.oracles.read_pages import require_plain
from tests.pipelines.test_read_pages import ALLOWED

VALUES = canaries.DECLARED[:2]

# Pages of what is no metric: of a model, and of running totals.
OF_NO_METRIC = {
    str(place)
    for place, asked in enumerate(requests())
    if asked.kind == "train" or "--horizon" in asked.words
}

WHOLE = {"plan", "query"}  # releases of several metrics

PLAN = """\
collection: canaries
version: 1
unit: row
input: log/*.parquet
output: out/plan
epsilon: 4
neighbours: replace
metrics:
  - {name: all, kind: count}
  - {name: values, kind: count, column: value, domain: values.txt}
  - {name: shares, kind: histogram, column: value, domain: values.txt, min_reports: 1000}
  - {name: spread, kind: distribution, drawn_by: shuffler, column: real, bounds: "0,300", bins: 64}
"""


QUERY = (
    "query",
    "SELECT value, COUNT(*) AS n, AVG(real, contribution_bounds_per_row => (0, 300)) AS mean "
    "FROM 'log/*.parquet' GROUP BY value",
    "--groups", "value=values.txt", "--epsilon", "4",
)  # fmt: skip


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A page of each kind in each form, those of a plan, and one of a comparison."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        log = prepared()
        Path("plan.yaml").write_text(PLAN)
        for place, request in enumerate(requests()):
            released(request, log, f"out/{place}")
        assert cli.main(["run", "plan.yaml"]) == 0
        assert cli.main([*QUERY, "--output", "out/query"]) == 0
        assert cli.main(["compare", "out/0", "--values", *VALUES, "--output", "changes.html"]) == 0
    return sorted([*folder.rglob("report.html"), folder / "changes.html"])


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_every_page_is_readable_on_every_screen(page: Page, reports, width, scheme) -> None:
    assert len(reports) == len(requests()) + 9
    page.set_viewport_size({"width": width, "height": 800 if width == 1280 else 844})
    page.emulate_media(color_scheme=scheme)
    for path in reports:
        page.goto(path.as_uri())
        if path.name == "report.html" and path.parent.name not in OF_NO_METRIC:
            require_first_screen(page)
        if path.name == "report.html" and path.parent.name not in {*WHOLE, *OF_NO_METRIC}:
            require_order(page)
        require_short(page)
        unfold(page)
        require_readable(page, scheme)
        files = [each.name for each in path.parent.glob("*.parquet")]
        require_plain(page.inner_text("body"), [*ALLOWED, *files])
        require_drawn_within(page)
        if width == 1280:
            require_heads_whole(page)


def test_a_querys_page_begins_with_its_figures(page: Page, reports: list[Path]) -> None:
    (query,) = [path for path in reports if path.parent.name == "query"]
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(query.as_uri())
    assert page.locator("h1").inner_text() == "n, mean by value"
    parts = [".headline", "details.promise", "figure", ".numbers", ".whole"]
    places = [page.locator(part).first.bounding_box()["y"] for part in parts]
    assert places == sorted(places)
    inside = "(one) => one.scrollWidth <= one.clientWidth"
    assert page.locator(".scroll", has=page.locator(".whole")).evaluate(inside)


def test_a_plans_page_leads_to_its_metrics_and_back(page: Page, reports: list[Path]) -> None:
    (plan,) = [path for path in reports if path.parent.name == "plan"]
    page.goto(plan.as_uri())
    assert page.locator("figure").count() == 2  # of what has several figures and is no curve
    assert "median" in page.locator("tr", has=page.get_by_role("link", name="spread")).inner_text()
    page.get_by_role("link", name="values").first.click()
    assert page.locator("h1").inner_text() == "value: rows"
    page.get_by_role("link", name="canaries").click()
    assert page.url == plan.as_uri()
