"""Pages that people read instead of the files beside them: one file each, with one style."""

from __future__ import annotations

import html
from collections.abc import Mapping
from importlib import resources
from string import Template
from typing import Any

REPORT = "report.html"

_PLACE = "<!-- where this page belongs -->"

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
{place}
<main>
{body}</main>
</body>
</html>
"""


def page(package: str, **parts: object) -> bytes:
    """A folder's `page.html`, filled in.

    Args:
        package: whose folder holds it, as in "pipelines.metrics.mean". Its first line is the title.
        **parts: what stands for the template's names; HTML, escaped by whoever made it. A time
            that is called `created` is ISO 8601, in UTC.
    """
    if "created" in parts:
        parts["created"] = str(parts["created"]).replace("T", " ").replace("+00:00", " UTC")
    template = resources.files(package).joinpath("page.html").read_text("utf-8")
    style = resources.files("pipelines.views").joinpath("page.css").read_text("utf-8")
    title, body = (Template(part).substitute(**parts) for part in template.split("\n", 1))
    return _FRAME.format(title=title, style=style, place=_PLACE, body=body).encode()


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
    return made.replace(_PLACE.encode(), line.encode(), 1)
