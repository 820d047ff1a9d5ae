"""What holds for every page on every screen, as a browser and a reader for the blind see it."""

from __future__ import annotations

import re

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


# Heads over nothing, and those that say what the head above them has said.
_IDLE_HEADS = """() => [...document.querySelectorAll("h2, h3")].filter((head) => {
  const after = head.nextElementSibling;
  const deeper = after && /^H[2-6]$/.test(after.tagName) && after.tagName > head.tagName;
  return !after || (/^H[1-6]$/.test(after.tagName) && !deeper) ||
    (deeper && after.textContent === head.textContent);
}).map((head) => head.textContent)"""


def require_readable(page: Page, scheme: str) -> None:
    """Nothing reaches over the side, no letter is too small, no word is broken, no head idle.

    And axe has nothing to say.

    Args:
        page: that was opened.
        scheme: "light" or "dark", as the reader's machine asks for.
    """
    where = page.url.rpartition("/")[2]
    assert page.evaluate(_WIDE) <= 0, where
    assert page.evaluate(_SMALL) == [], where
    assert page.evaluate(_IDLE_HEADS) == [], where
    broken = page.evaluate(_BROKEN)
    assert broken == [], (where, broken)
    paper = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    found = Axe().run(page).response["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in found] == [], where


# What is drawn in a picture, and the box of it.
_DRAWN = """() => [...document.querySelectorAll("svg.picture")].map((picture) => {
  const whole = picture.getBoundingClientRect();
  const parts = [...picture.querySelectorAll("path, circle")].filter((part) =>
    part.getAttribute("height") !== "8").map((part) => part.getBoundingClientRect());
  const least = (side) => Math.min(...parts.map((part) => part[side]));
  const most = (side) => Math.max(...parts.map((part) => part[side]));
  return [whole.left, whole.right, whole.top, whole.bottom,
    least("left"), most("right"), least("top"), most("bottom")];
})"""
# Heads of tables that are cut off at the side of what they scroll in.
_CUT = """() => [...document.querySelectorAll("thead th")].filter((head) => {
  const box = head.closest(".scroll");
  return box && head.parentElement.children.length <= 8 &&
    head.getBoundingClientRect().right > box.getBoundingClientRect().right + 1;
}).map((head) => head.textContent)"""
# Bars beyond their track, and tracks of which bars and whiskers take less than a tenth.
_TRACKS = """() => [...document.querySelectorAll(".bars")].map((bars) => {
  const ends = [...bars.querySelectorAll(".track")].flatMap((track) => {
    const box = track.getBoundingClientRect();
    return [...track.children].map((part) => part.getBoundingClientRect()).flatMap((part) =>
      [(part.left - box.left) / box.width, (part.right - box.left) / box.width]);
  });
  return [Math.min(...ends), Math.max(...ends)];
})"""
MOST_PIXELS = 6000


def require_drawn_within(page: Page) -> None:
    """Pictures hold all that is drawn in them, and axes are not ten times as long."""
    for left, right, top, bottom, *parts in page.evaluate(_DRAWN):
        assert left - 3 <= parts[0] <= parts[1] <= right + 3, (page.url, parts)
        assert top - 3 <= parts[2] <= parts[3] <= bottom + 3, (page.url, parts)
    for low, high in page.evaluate(_TRACKS):
        assert -0.02 <= low <= high <= 1.02, (page.url, low, high)
        assert high - low >= 0.1, (page.url, low, high)


def require_heads_whole(page: Page) -> None:
    """On a wide screen no head of a table of up to eight columns is cut off."""
    assert page.evaluate(_CUT) == [], page.url


def require_short(page: Page) -> None:
    """A page is at most six or seven screens long; long tables scroll in their own boxes."""
    height = page.evaluate("() => document.documentElement.scrollHeight")
    assert height <= MOST_PIXELS, (page.url, height)


# What is seen before anything is scrolled: texts of elements that end above the edge.
_FIRST = """() => [...document.querySelectorAll("main *")].filter((one) => {
  const box = one.getBoundingClientRect();
  return !one.children.length && box.height && box.bottom <= innerHeight && box.right <= innerWidth;
}).map((one) => one.textContent).concat([...document.querySelectorAll(
  ".about, .headline li, .promise .first")]
  .filter((one) => one.getBoundingClientRect().bottom <= innerHeight)
  .map((one) => one.textContent)).join("\\n")"""


def require_first_screen(page: Page) -> None:
    """The figure, its error, its unit, and the cost with its unit are seen without scrolling.

    A release of which nothing stands out of the noise says that in place of a figure.

    Args:
        page: at the size of a screen of its kind.
    """
    seen = page.evaluate(_FIRST)
    figures = page.locator(".headline strong").all_inner_texts()
    if not figures:
        assert "nothing stands out" in seen or "ithheld" in seen, (page.url, seen)
    for figure in figures:
        assert figure in seen, (page.url, figure)
        assert re.search(r" ± [\d.]|\(.* to .*\)", figure), (page.url, figure)
    assert "changes the probability of any outcome by a factor of at most" in seen, page.url
    assert re.search(r"[Ee]psilon [\d.]+ per \w+", seen), (page.url, seen)


# In which order a reader meets the parts of a page.
ORDER = (
    "h1", ".lead", ".headline", ".about", "details.promise", ".first", "figure", ".numbers tbody",
    "details:has(> summary:text-is('Reading this page'))",
    "details:has(> summary:text-is('What was left out or truncated'))",
    "details:has(> summary:text-is('How it was made'))", "a[href='statement.json']",
)  # fmt: skip


def require_order(page: Page) -> None:
    """The parts of a page stand in the order in which readers want them; none comes twice."""
    places = []
    for selector in ORDER:
        parts = page.locator(f"main {selector}")
        if parts.count():
            box = parts.first.bounding_box()
            assert box is not None, selector
            places.append((selector, box["y"]))
        else:
            assert selector in {".headline", "figure"}, (page.url, selector)
    assert places == sorted(places, key=lambda part: part[1]), (page.url, places)


def unfold(page: Page) -> None:
    """Open all that a reader may open."""
    page.evaluate("() => document.querySelectorAll('details').forEach((one) => one.open = true)")
