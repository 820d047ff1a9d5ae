"""What a reader holds against a page: its words, its figures and its axes, by means of its own.

Nothing here asks the code that makes pages: numbers are read back from what is shown, and compared
with the tables of the release.
"""

from __future__ import annotations

import importlib
import math
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa

_MACHINE = {
    "an object of a script": re.compile(r"\[object"),
    "nothing, of a script": re.compile(r"\b(?:undefined|null)\b(?! (?:value|user|time))"),
    "no number": re.compile(r"\b(?:NaN|Infinity|inf|nan)\b"),
    "a word of Python": re.compile(r"\b(?:None|True|False)\b"),
    "a representation": re.compile(r"\b[A-Za-z_]\w*\((?:\w+=|\()|\[['\"]|\{['\"]"),
    "a backtick": re.compile("`"),
    "a time of nanoseconds": re.compile(r"\d\d:\d\d:\d\d\.\d{4,}"),
    "a path": re.compile(r"(?<![\w.])/(?:tmp|home|root|work|usr|var)/|\b[\w/-]+\.(?:py|md)\b"),
    "an option by its name in Python": re.compile(r"\b(?!by_group\b)[a-z]+_[a-z_]+\b"),
}
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")


def require_plain(text: str, allowed: Sequence[str] = ()) -> None:
    """Nothing of the machine stands in what is seen.

    Args:
        text: that a reader sees.
        allowed: names that the request gave, and names of files.
    """
    for word in sorted(allowed, key=len, reverse=True):
        text = text.replace(word, "")
    for what, pattern in _MACHINE.items():
        found = [text[max(0, m.start() - 40) : m.end() + 40] for m in pattern.finditer(text)]
        assert found == [], (what, found[:3])
    words = {*re.findall(r"\b[A-Z]\w+\b", text)}
    assert words.isdisjoint(class_names()), sorted(words & class_names())


@lru_cache
def class_names() -> frozenset[str]:
    """Names of classes of ours that nobody writes by chance: of two words or more."""
    found = set()
    for package in ("mechanisms", "pipelines.metrics", "transforms.encoders"):
        root = importlib.import_module(package)
        for module in pkgutil.walk_packages(root.__path__, f"{package}."):
            origin = str(getattr(find_spec(module.name), "origin", ""))
            text = Path(origin).read_text("utf-8") if origin.endswith(".py") else ""
            found |= {*re.findall(r"^class (\w+)", text, re.MULTILINE)}
    return frozenset(name for name in found if re.fullmatch(r"(?:[A-Z][a-z]+){2,}", name))


def require_promise(text: str, statement: Mapping[str, Any]) -> None:
    """One sentence of the page says whom it protects and by which factor, rounded up; the head
    says epsilon and unit, and the statement has the very same sentence."""
    promised, text = statement["guarantees"]["release"], _spaced(text)
    sentences = re.findall(
        r"(?:Adding|Changing|Counting) [^.]* changes the probability of any outcome by .*?\.(?!\d)",
        text,
    )
    assert sentences, "nothing is promised"
    sentence = sentences[0]
    said = [words.replace("`", "") for words in statement["in_words"]]
    assert any(words.startswith(sentence) for words in said), sentence
    numbers = re.findall(
        r"\d[\d.,]*\d(?:e-?\d+)?|\d(?:e-?\d+)?", sentence.partition(" outcome ")[2]
    )
    factor = math.exp(promised["epsilon"])
    assert factor * (1 - 1e-9) <= float(numbers[0].replace(",", "")) <= factor * 1.01, sentence
    deltas = [float(number) for number in numbers[1:]]
    assert bool(deltas) == bool(promised["delta"]), sentence
    assert all(promised["delta"] <= delta <= promised["delta"] * 1.01 for delta in deltas)
    assert promised["unit"] in sentence
    begun = ("Changing",) if promised["neighbours"] == "replace" else ("Adding", "Counting")
    assert sentence.startswith(begun), sentence
    (epsilon, *_) = re.findall(rf"epsilon ([\d.]+) per {re.escape(promised['unit'])}", text)
    assert promised["epsilon"] <= float(epsilon) <= promised["epsilon"] * 1.01


def require_title(title: str, statement: Mapping[str, Any], brief: str) -> None:
    """A title says what was counted: the columns of the request, and no help text."""
    assert brief not in title
    assert title == statement["title"]
    asked = statement["request"]
    for name in ("column", "group_by", "by"):
        if asked.get(name) is not None:
            assert str(asked[name]) in title, (name, title)


def shown_as(text: str, value: float | None) -> bool:
    """Whether a text shows a number, to the digits that it has.

    >>> shown_as("1,230", 1234.4), shown_as("0.12", 0.1249), shown_as("0.12", 0.126)
    (True, True, False)
    """
    if value is None:
        return text in {"unknown", "—", "withheld"}
    plain = text.replace(",", "")
    if not _NUMBER.fullmatch(text):
        return False
    if "e" in plain:
        return abs(float(plain) - value) <= 1e-5 * abs(value)
    _, point, after = plain.partition(".")
    zeros = len(plain) - len(plain.rstrip("0")) if plain.strip("-0") else 0
    step = 10.0 ** (-len(after) if point else zeros)
    return abs(float(plain) - value) <= step / 2 * (1 + 1e-9) + 1e-9 * abs(value)


class _Reader(HTMLParser):
    """Tables, first figures, title and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[tuple[str, list[list[str]]]] = []
        self.figures: list[tuple[str, str]] = []  # (number, all that is beside it)
        self.title, self.pieces = "", list[str]()
        self._open: list[str] = []
        self._figure: list[str] | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        kind = dict(attrs).get("class") or ""
        self._open.append(f"{tag}.{kind}")
        if tag == "table":
            self.tables.append((kind, []))
        elif tag == "tr" and self.tables:
            self.tables[-1][1].append([])
        elif tag in ("td", "th") and self.tables and self.tables[-1][1]:
            self.tables[-1][1][-1].append("")
        elif tag == "li" and "ul.headline" in self._open:
            self._figure = ["", ""]
        if tag in ("meta", "br", "link"):
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        self._open.pop()
        if tag == "li" and self._figure is not None:
            number, beside = self._figure
            self.figures.append((number, beside.strip()))
            self._figure = None

    def handle_data(self, data: str) -> None:
        tags = [each.partition(".")[0] for each in self._open]
        if "style" in tags or "script" in tags:
            return
        if "title" in tags:
            self.title += data
            return
        self.pieces.append(data)
        if self._figure is not None:
            self._figure["strong" not in tags] += data
        if tags and any(tag in ("td", "th") for tag in tags) and "svg" not in tags:
            # Digits that a number has not are spaces, so that points stand below each other.
            self.tables[-1][1][-1][-1] += data.rstrip("\u2007\u2008")


class Read:
    """A page, read.

    Attributes:
        title: of the window.
        text: that is seen.
        figures: (number, what is beside it) that come first.
        numbers: the first table of numbers: heads, and rows.
    """

    def __init__(self, page: bytes) -> None:
        self.source = page.decode()
        reader = _Reader(self.source)
        self.title, self.text, self.figures = reader.title, "".join(reader.pieces), reader.figures
        whole = [rows for kind, rows in reader.tables if kind == "numbers"]
        self.numbers = whole[0] if whole else []


def require_figures(
    page: Read, table: pa.Table, statement: Mapping[str, Any], key: str | None = None
) -> None:
    """The figures that come first are those of the table, with their errors, each by its label.

    Args:
        page: of a release.
        table: with the columns that all kinds share.
        statement: of the release.
        key: the column of own labels, where the shared ones do not have them.
    """
    share = statement["figures"][statement["headline"]["table"]] == "share"
    assert page.figures
    for number, beside in page.figures:
        estimate, error = _parted(number)
        rows = [row for row in table.to_pylist() if _labelled(row, beside, key)]
        assert rows, (beside, "is no row of the table")
        assert any(
            _shows(estimate, row, "estimate", share)
            and (error is None or _shows(error, row, "standard_error", share))
            for row in rows
        ), (number, beside, rows[:3])


def _parted(number: str) -> tuple[str, str | None]:
    estimate, plus, error = number.partition(" ± ")
    return (estimate, error) if plus else (number.partition(" (")[0], None)


def _shows(text: str, row: Mapping[str, Any], name: str, share: bool) -> bool:
    value = row.get(name)
    return shown_as(text, None if value is None else (100 if share else 1) * value)


def _labelled(row: Mapping[str, Any], beside: str, key: str | None) -> bool:
    """Whether all that names a row stands beside a figure."""
    names = [row.get(name) for name in ((key,) if key else ("group", "value"))]
    told = [str(name) for name in names if name is not None]
    return not told or all(name in beside for name in told) or beside.endswith("in all")


def require_table(page: Read, table: pa.Table, share: bool) -> None:
    """What the first table of a page shows is a row of the release's, number by number.

    Args:
        page: of a release.
        table: as its kind made it.
        share: whether numbers are shown in percent.
    """
    if not page.numbers:
        return
    heads, *rows = page.numbers
    places = [at for at, head in enumerate(heads) if head.startswith(("estimate", "share, %"))]
    assert places, heads
    values = table["estimate"].to_pylist()
    for row in rows:
        shown = row[places[0]]
        assert any(
            shown_as(shown, None if value is None else (100 if share else 1) * value)
            for value in values
        ), (row, values[:5])


def pictures(source: str) -> Iterator[tuple[float, float]]:
    """(low, high) in 0 .. 1 of what is drawn along the axis of its numbers, of each picture.

    Bars lie along the axis across, everything else along that which goes up.
    """
    for whole in source.split('<ol class="bars">')[1:]:
        drawn = whole.partition("</ol>")[0]
        rects = re.findall(r'<rect class="bar[^"]*" x="([\d.]+)%"[^>]*width="([\d.]+)%"', drawn)
        lines = re.findall(r'class="arm" x1="([\d.]+)%" x2="([\d.]+)%"', drawn)
        dots = re.findall(r'class="dot" cx="([\d.]+)%"', drawn)
        ends = [float(x) + part * float(w) for x, w in rects for part in (0, 1)]
        ends += [float(x) for pair in lines for x in pair] + [float(x) for x in dots]
        if ends:
            yield min(ends) / 100, max(ends) / 100
    for whole in re.split(r'<svg xmlns[^>]*class="picture"', source)[1:]:
        picture = whole.split("</figure>")[0].split("</div>")[0]
        drawn = re.findall(r'viewBox="0 0 \d+ (\d+)"[^>]*><path[^>]* d="M([^"Z]*)', picture)
        pairs = [(pair, float(box)) for box, path in drawn for pair in path.split("L")]
        heights = [float(pair.split(" ")[1]) / box for pair, box in pairs]
        if heights:
            yield min(heights), max(heights)


def require_axes(source: str) -> None:
    """Axes hold all that is drawn, and are not ten times as long."""
    for low, high in pictures(source):
        assert -1e-9 <= low <= high <= 1 + 1e-9, (low, high)
        assert high - low >= 0.1, f"what is drawn takes {100 * (high - low):.3g} % of its axis"


def _spaced(text: str) -> str:
    return " ".join(text.split())
