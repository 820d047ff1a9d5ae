"""Sites in a real browser: Debian's chromium, headless. `make test-site` runs it.

It is no `test_*.py`, for `make test` works where there is no browser; here the lack of one fails.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from playwright.sync_api import Page

from pipelines import cli
from pipelines.metrics.metric import PAGE, Content
from pipelines.metrics.statement import parquet
from tests.browser.looks import LOOKS, require_readable
from tests.pipelines.test_export import publish, publish_day, publish_week_day, statement

HOSTILE = '<img src=x onerror="alert(1)">'
VALUES = 42_178


def publish_large(folder: Path) -> None:
    """A histogram of many values, one of which no page may take for markup."""
    rng = np.random.default_rng(3)
    for day in (10, 11):
        share = rng.exponential(size=VALUES) / VALUES
        names = [HOSTILE, *(f"value {k}" for k in range(1, VALUES))]
        ends = {"lower": share - 1e-5, "upper": share + 1e-5}
        ends |= {f"{name}_simultaneous": column for name, column in ends.items()}
        columns = {"value": names, "estimate": share, "standard_error": [5e-6] * VALUES, **ends}
        files = {"histogram.parquet": parquet(pa.table(columns)), PAGE: b""}
        said = statement("histogram", {"histogram.parquet": "share"}, n=10**6)
        publish(day, {"large": Content(files, said)}, folder)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    for day in (1, 2, 4):
        publish_day(day, folder / "releases")
    for day in range(14, 17):
        publish_week_day(day, folder / "releases")
    publish_large(folder / "more")
    public = folder / "public"
    words = ["site", str(folder / "releases"), str(folder / "more"), "--output", str(public)]
    assert cli.main(words) == 0
    return public


def pages(public: Path) -> list[Path]:
    return [public / "index.html", *sorted(public.glob("rides/*.html"))]


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_every_page_is_readable_on_every_screen(page: Page, site: Path, width, scheme) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.emulate_media(color_scheme=scheme)
    for path in pages(site):
        page.goto(path.as_uri())
        page.wait_for_selector("h1")
        require_readable(page, scheme)


def test_what_is_searched_for_is_found_and_drawn(page: Page, site: Path) -> None:
    page.goto((site / "index.html").as_uri())
    page.get_by_role("searchbox", name="Search").fill("oslo")
    page.get_by_role("link", name="Oslo").first.click()
    page.wait_for_selector(".chart canvas")
    assert page.url.endswith("rides/cities.html#value=Oslo")
    assert page.get_by_role("checkbox", name="Oslo").is_checked()
    assert not page.get_by_role("checkbox", name="Bergen").is_checked()
    assert "Oslo" in str(page.locator(".chart").get_attribute("aria-label"))
    page.get_by_role("searchbox", name="Search").fill("nowhere at all")
    assert page.get_by_text("nothing is called so").is_visible()


def test_all_of_it_can_be_done_by_keyboard(page: Page, site: Path) -> None:
    page.goto((site / "index.html").as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent") == "Skip to the figures"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type("delay")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('delay')")


def test_a_fall_beyond_noise_is_shown(page: Page, site: Path) -> None:
    page.goto((site / "rides" / "cities.html").as_uri())
    row = page.locator("tr:has-text('Oslo') .down")
    assert row.first.inner_text() == "−40.0 %"


def test_many_values_are_found_without_being_drawn(page: Page, site: Path) -> None:
    page.goto((site / "rides" / "large.html").as_uri())
    page.wait_for_selector("section tbody tr")
    assert page.locator("section .numbers tbody tr").count() < 200
    assert page.get_by_text(f"50 of {VALUES:,}").is_visible()
    page.get_by_role("searchbox", name="Find a figure").fill("value 42177")
    assert page.get_by_role("rowheader", name="value 42177").is_visible()
    page.get_by_role("searchbox", name="Find a figure").fill("onerror")
    assert page.get_by_role("rowheader", name=HOSTILE).is_visible()


def test_a_pages_statement_is_one_click_away_and_leads_back(page: Page, site: Path) -> None:
    page.goto((site / "rides" / "delay.html").as_uri())
    page.get_by_role("link", name="its statement").click()
    assert '"release": "mean"' in page.content()
