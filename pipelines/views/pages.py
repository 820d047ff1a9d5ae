"""Pages that people read instead of the files beside them: one file each, with one style."""

from __future__ import annotations

import html
from collections.abc import Mapping
from importlib import resources
from string import Template
from typing import Any

from pipelines.releases.release import REPORT, STATEMENT
from pipelines.views.headline import Head

STATEMENT_LINK = f'<p><a href="{STATEMENT}">Statement (JSON)</a></p>\n'
"""The same for machines, beside the page."""

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


def page(package: str, head: Head, **parts: object) -> bytes:
    """A folder's `page.html`, filled in.

    Args:
        package: whose folder holds it, as in "pipelines.plan".
        head: how the page begins.
        **parts: what stands for the template's names; HTML, escaped by whoever made it.
    """
    template = resources.files(package).joinpath("page.html").read_text("utf-8")
    return whole(head, Template(template).substitute(**parts))


def whole(head: Head, body: str) -> bytes:
    """A page.

    Args:
        head: how it begins.
        body: what comes then, as HTML.
    """
    title = html.escape(head.title)
    return _FRAME.format(style=styles(), title=title, head=head.body, body=body).encode()


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
    return made.replace(b"</h1>\n", f"</h1>\n{line}\n".encode(), 1)
