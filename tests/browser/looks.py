"""What holds for every page on every screen, as a browser and a reader for the blind see it."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

LOOKS = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]

# Letters of less than 12 px, and text that reaches over the side, by what a reader would see.
_SMALL = """() => [...document.querySelectorAll("body *")].filter((one) =>
  [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()) &&
  one.getClientRects().length && one.closest("script,style,noscript") === null &&
  parseFloat(getComputedStyle(one).fontSize) * (one.ownerSVGElement
    ? one.ownerSVGElement.getScreenCTM().a : 1) < 12).map((one) => one.textContent.slice(0, 40))"""
_WIDE = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
# Short words and numbers of tables that go on in another line.
_BROKEN = """() => [...document.querySelectorAll("th, td")].flatMap((cell) =>
  [...cell.childNodes].filter((node) => node.nodeType === 3).flatMap((node) =>
    [...node.textContent.matchAll(/(?<!\\S)(?:\\d[\\d.,:-]*|\\w{1,12})(?!\\S)/g)].filter((word) => {
      const part = document.createRange();
      part.setStart(node, word.index); part.setEnd(node, word.index + word[0].length);
      return new Set([...part.getClientRects()].map((box) => box.top)).size > 1;
    }).map((word) => word[0])))"""


def require_readable(page: Page, scheme: str) -> None:
    """Nothing reaches over the side, no letter is too small, no short word of a table is broken.

    And axe has nothing to say.

    Args:
        page: that was opened.
        scheme: "light" or "dark", as the reader's machine asks for.
    """
    where = page.url.rpartition("/")[2]
    assert page.evaluate(_WIDE) <= 0, where
    assert page.evaluate(_SMALL) == [], where
    broken = page.evaluate(_BROKEN)
    assert broken == [], (where, broken)
    paper = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    found = Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in found] == [], where
