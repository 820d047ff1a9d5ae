"""The documentation's site in a real browser, from the disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.looks import LOOKS
from tests.test_documentation import site  # noqa: F401

_WIDE = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture
def reader(browser: Browser) -> Iterator[Page]:
    """A page that asks nobody else for anything, and in which no script fails."""
    page, failures = browser.new_page(), list[str]()
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.on("console", lambda said: said.type == "error" and failures.append(said.text))
    page.on("request", lambda asked: asked.url.startswith("http") and failures.append(asked.url))
    yield page
    assert failures == []
    page.close()


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_pages_fit_every_screen(reader: Page, site: Path, width, scheme) -> None:  # noqa: F811
    reader.set_viewport_size({"width": width, "height": 844})
    reader.emulate_media(color_scheme=scheme)
    for name in ("index", "tutorial", "choosing", "counts", "reference/hushbeam"):
        reader.goto((site / f"{name}.html").as_uri())
        reader.wait_for_selector("h1")
        assert reader.evaluate(_WIDE) <= 0, name
        paper = reader.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light"), name


def test_what_is_searched_for_is_found_without_a_server(
    reader: Page,
    site: Path,  # noqa: F811
) -> None:
    reader.goto((site / "index.html").as_uri())
    reader.get_by_role("textbox", name="Search").click()
    reader.keyboard.type("split and mix", delay=20)
    reader.locator(".md-search-result__link").first.click()
    reader.wait_for_selector("h1")
    assert not reader.url.split("?")[0].endswith("index.html")
