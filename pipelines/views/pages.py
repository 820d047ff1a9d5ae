"""Pages that people read instead of the files beside them: one file each, with one style."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from itertools import starmap
from typing import Any

from pipelines.releases.release import REPORT, STATEMENT
from pipelines.views import facts
from pipelines.views.headline import Head

_OF = ' class="of"'
_NUMBER = re.compile(r"(?:\S+ (?:to|±) )?[+−-]?[\d,]+(?:\.(\d+))?(e[+-]\d+)?")
_POINT, _DIGIT = "\u2008", "\u2007"  # spaces of the width of a point, and of a digit
_STATEMENT = f'<a href="{STATEMENT}">Statement (JSON)</a>'

_FRAME = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<main>
{head}
{body}</main>
</body>
</html>
"""


def whole(head: Head, body: str) -> bytes:
    """A page.

    Args:
        head: how it begins.
        body: what comes then, as HTML.
    """
    title = html.escape(head.title)
    return _FRAME.format(style=styles(), title=title, head=head.body, body=body).encode()


def boxed(
    label: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    labels: int = 1,
    kind: str = "numbers",
) -> str:
    """A table in a box, which scrolls where it is long or wide.

    Args:
        label: of the box, for readers for the blind.
        heads: of the columns.
        rows: of texts.
        labels: how many columns say what a row is of.
        kind: its class.
    """
    columns = [[*column] for column in zip(*rows, strict=True)] or [[] for _ in heads]
    words = [
        at < labels or not any(text == "—" or _NUMBER.fullmatch(text) for text in column)
        for at, column in enumerate(columns)
    ]
    top = "".join(
        f'<th scope="col"{_OF * words[at]}>{html.escape(head)}</th>'
        for at, head in enumerate(heads)
    )

    def cell(at: int, text: str) -> str:
        # A label that there is none of is no heading, which readers for the blind would stop at.
        if at < labels and text:
            return f"<th>{html.escape(text)}</th>"
        return f"<td{_OF * words[at]}>{facts.unbroken(text)}</td>"

    shown = [column if words[at] else aligned(column) for at, column in enumerate(columns)]
    body = "".join(
        f"<tr>{''.join(starmap(cell, enumerate(row)))}</tr>\n" for row in zip(*shown, strict=True)
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{html.escape(label)}">\n'
        f'<table class="{kind}">\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}</tbody>\n'
        "</table>\n</div>\n"
    )


def aligned(texts: Sequence[str]) -> list[str]:
    """Numbers of a column, point below point: what digits one has not is space, as wide as they.

    >>> aligned(["1.25", "10", "—", "0.5 to 1.5"])
    ['1.25', '10\\u2008\\u2007\\u2007', '—', '0.5 to 1.5\\u2007']
    """
    known = [_NUMBER.fullmatch(text) for text in texts]
    fine = [len(one[1] or "") if one and not one[2] else None for one in known]
    most = max((digits for digits in fine if digits is not None), default=0)
    return [
        text
        if digits is None
        else text + _POINT * (not digits and most > 0) + _DIGIT * (most - digits)
        for text, digits in zip(texts, fine, strict=True)
    ]


def folds(
    reading: Sequence[str], statement: Mapping[str, Any], own: Iterable[facts.Fact] = ()
) -> str:
    """What a reader opens at the end of a page.

    Args:
        reading: how to read the figures, in sentences.
        statement: of the release.
        own: what is said of how this kind was made.
    """
    made = facts.listed(facts.made(statement, own)) + facts.constants(statement)
    return folded({
        "Reading this page": facts.paragraphs(reading),
        "What was left out or truncated": facts.paragraphs(facts.left_out(statement)),
        "How it was made": made,
    })  # fmt: skip


def folded(sections: Mapping[str, str]) -> str:
    """Sections that a reader opens, side by side; on paper they are open.

    Args:
        sections: name -> content, as HTML.
    """
    parts = (
        f"<details>\n<summary>{html.escape(name)}</summary>\n{content}\n</details>\n"
        for name, content in sections.items()
        if content
    )
    return f'<div class="folds">\n{"".join(parts)}</div>\n'


def files(names: Iterable[str]) -> str:
    """The same for machines, beside the page."""
    links = (f'<a href="{html.escape(name)}">{html.escape(name)}</a>' for name in names)
    return f'<p class="files">{" · ".join([_STATEMENT, *links])}</p>\n'


def styles() -> str:
    """How pages look."""
    return resources.files("pipelines.views").joinpath("page.css").read_text("utf-8")


def placed(made: bytes, statement: Mapping[str, Any]) -> bytes:
    """The page of a metric, with a line that leads back to the release that it belongs to.

    Args:
        made: by `page`.
        statement: of the metric; it names collection, window and metric.
    """
    words = [statement["collection"], statement["window"]["name"], statement["metric"]]
    collection, window, metric = map(html.escape, words)
    line = (
        f'<nav aria-label="where this page belongs"><a href="../{REPORT}">{collection}</a> · '
        f"window {window} · {metric}</nav>"
    )
    return made.replace(b'<p class="lead">', f'{line}\n<p class="lead">'.encode(), 1)
