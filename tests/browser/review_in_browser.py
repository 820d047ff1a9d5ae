"""The sheet of a plan in a real browser: it reads on every screen, and its sliders move."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page

from pipelines.cli import cli
from tests.browser.looks import LOOKS, require_readable, require_short, unfold
from tests.oracles.read_pages import require_plain
from tests.pipelines.test_review import LEDGER, PLAN


@pytest.fixture(scope="module")
def sheet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("review"))
        Path("cities.txt").write_text("Oslo\nBergen\nBod\u00f8\n")
        Path("plan.yaml").write_text(PLAN.format(unit="user", ledger=LEDGER))
        assert cli.main(["check", "plan.yaml", "--output", "review.html"]) == 0
        return Path("review.html").resolve()


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_sheet_is_readable_on_every_screen(page: Page, sheet: Path, width, scheme) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)
    page.goto(sheet.as_uri())
    require_short(page)
    unfold(page)
    require_readable(page, scheme)
    require_plain(page.inner_text("body"))


def test_no_number_is_broken(page: Page, sheet: Path) -> None:
    """2.5e-7 was two lines, of which one said 2.5e-."""
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(sheet.as_uri())
    unfold(page)
    numbers = page.get_by_text("1e-6", exact=True)
    assert numbers.count() > 0
    page.add_style_tag(content="td { width: 1ch; display: block; }")
    assert set(numbers.evaluate_all("all => all.map(one => one.getClientRects().length)")) == {1}


def test_sliders_draw_the_error_that_the_plan_would_have(page: Page, sheet: Path) -> None:
    page.goto(sheet.as_uri())
    visits = page.locator("#charts details").first
    epsilon, rows = page.locator("input[type=range]").all()

    def error() -> float:
        return float(
            visits.locator(".number").first.inner_text().partition(" ± ")[2].replace(",", "")
        )

    planned = error()
    assert visits.locator(".number").count() == 7
    epsilon.press("ArrowRight")
    assert page.locator("output").first.inner_text() == "2"
    assert 1.5 < planned / error() < 2.5
    epsilon.press("ArrowLeft")
    assert page.locator("output").last.inner_text() == "as the plan says"
    rows.press("ArrowRight")
    assert error() == planned  # the plan counts one row of a user
    rows.press("ArrowRight")
    assert 2.6 < error() / planned < 5.4
