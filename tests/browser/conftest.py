"""The browser: Debian's chromium, headless."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.fail("there is no chromium: `apt-get install chromium`, and run this again")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    opened = browser.new_page()
    opened.failures = []  # type: ignore[attr-defined]
    opened.on("pageerror", lambda error: opened.failures.append(str(error)))
    opened.on("dialog", lambda dialog: opened.failures.append(dialog.message))
    opened.on("console", lambda said: said.type == "error" and opened.failures.append(said.text))
    opened.on("request", lambda asked: _alone(opened, asked.url))
    yield opened
    assert opened.failures == []  # type: ignore[attr-defined]
    opened.close()


def _alone(page: Any, url: str) -> None:
    """Nothing is loaded from elsewhere, and no script or style but the page's own."""
    if not url.startswith("file://") or url.endswith((".js", ".css")):
        page.failures.append(f"asked for {url}")
