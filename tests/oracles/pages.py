"""What a browser would make of a page: read by a parser of its own."""

from __future__ import annotations

import re
from html.parser import HTMLParser

# Of this page, to one of the same plan, or to a file beside it.
_LINK = re.compile(r"#.*|(\.\./|[\w.-]+/)?[\w.-]+\.html|[\w-]+\.(json|parquet)")


class Page(HTMLParser):
    """Collects what a browser would act on: elements, attributes and visible text."""

    def __init__(self, page: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self._goes_on = False  # in or after a number that is not broken: no word begins there
        self.feed(page.decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self._goes_on = (tag, attrs) == ("span", [("class", "n")])
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self._goes_on = self._goes_on and tag == "span"

    def handle_data(self, data: str) -> None:
        if self._goes_on and self.text:
            self.text[-1] += data
        else:
            self.text.append(data)


def require_alone(content: bytes) -> None:
    """A page is well formed, runs nothing, and loads nothing from elsewhere."""
    page = Page(content)
    assert page.open == []  # every element that was opened was closed, in order
    active = "script img image link iframe object embed base form foreignobject"
    assert set(page.elements).isdisjoint(active.split())
    for _, name, value in page.attributes:
        assert not name.startswith("on")
        assert name not in ("src", "srcset", "action", "data", "background")
        assert name not in ("href", "xlink:href") or _LINK.fullmatch(value)
        assert "http" not in value or name.startswith("xmlns")
        assert "url(" not in value.replace("url(#", "")
    style = re.search(r"<style>(.*?)</style>", content.decode(), re.DOTALL)
    assert style is not None
    assert "url(" not in style[1]
    assert "@import" not in style[1]
