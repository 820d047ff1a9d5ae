"""The pages of single releases in a real browser, one of each kind. `make test-site` runs it."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page

from pipelines import cli
from tests.browser.looks import LOOKS, require_readable
from tests.fakes import canaries

ALL = "--epsilon 4 --output {}"
COMMANDS = {
    "histogram": "--column value --domain values.txt --out-of-domain other",
    "heavy-hitters": "--column value --max-length 20",
    "mean": "--column real --bounds 0,300 --group-by value --groups values.txt",
    "distribution": "--column real --bounds 0,300 --bins 64",
    "vector-mean": "--number real=0,300 --number number=-3,3 --category value=values.txt",
    "count": "--column value --domain values.txt",
    "sum": "--column real --bounds 0,300",
    "active-users": "--user-column user --time moment --day 2026-11-21",
    "cross-tab": "--columns value,number --domains value=values.txt number=-3..3",
    "unknown-strings": "--column value --max-length 20",
    "total": "--column value --domain values.txt --window a --horizon 30 --secret secrets/total",
    "train": "--number number=-3,3 --target real=0,300 --dummies shuffler",
}
VALUES = canaries.DECLARED[:2]
MORE = {"distribution": "--dummies shuffler", "vector-mean": "--dummies shuffler"}

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
  - {name: spread, kind: distribution, dummies: shuffler, column: real, bounds: "0,300", bins: 64}
"""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A page of each kind, those of a plan, and one of a comparison."""
    folder = tmp_path_factory.mktemp("pages")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        log = canaries.write(Path("log"), canaries.table())
        Path("values.txt").write_text("\n".join(canaries.DECLARED) + "\n")
        Path("plan.yaml").write_text(PLAN)
        asked = list(COMMANDS.items())
        asked += [(kind, f"{COMMANDS[kind]} {more}") for kind, more in MORE.items()]
        for place, (kind, words) in enumerate(asked):
            request = f"--input {log} {words} {ALL.format(f'out/{place}')}"
            assert cli.main([kind, *request.split()]) == 0, kind
        assert cli.main(["run", "plan.yaml"]) == 0
        assert cli.main(["compare", "out/0", "--values", *VALUES, "--output", "changes.html"]) == 0
    return sorted([*folder.rglob("report.html"), folder / "changes.html"])


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_every_page_is_readable_on_every_screen(page: Page, reports, width, scheme) -> None:
    assert len(reports) == len(COMMANDS) + len(MORE) + 6
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)
    for path in reports:
        page.goto(path.as_uri())
        require_readable(page, scheme)


def test_a_plans_page_leads_to_its_metrics_and_back(page: Page, reports: list[Path]) -> None:
    (plan,) = [path for path in reports if path.parent.name == "plan"]
    page.goto(plan.as_uri())
    assert page.locator("figure svg").count() == 2  # of what has several figures and is no curve
    page.get_by_role("link", name="values").first.click()
    assert page.locator("h1").inner_text().startswith("Private count")
    page.get_by_role("link", name="canaries").click()
    assert page.url == plan.as_uri()
