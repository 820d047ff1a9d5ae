"""Pages that people read instead of the files beside them: one file each, with one style."""

from __future__ import annotations

from importlib import resources
from string import Template

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
{body}</body>
</html>
"""


def page(package: str, **parts: object) -> bytes:
    """A folder's `page.html`, filled in.

    Args:
        package: whose folder holds it, as in "pipelines.metrics.mean". Its first line is the title.
        **parts: what stands for the template's names; HTML, escaped by whoever made it.
    """
    template = resources.files(package).joinpath("page.html").read_text("utf-8")
    style = resources.files("pipelines.views").joinpath("page.css").read_text("utf-8")
    title, body = (Template(part).substitute(**parts) for part in template.split("\n", 1))
    return _FRAME.format(title=title, style=style, body=body).encode()
