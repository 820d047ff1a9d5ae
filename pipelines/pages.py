"""Pages that people read instead of the files beside them: one file each, with one style."""

from __future__ import annotations

from importlib import resources
from string import Template


def page(package: str, **parts: object) -> bytes:
    """A folder's `page.html`, filled in.

    Args:
        package: whose folder holds it, as in "pipelines.mean".
        **parts: what stands for the template's names; HTML, escaped by whoever made it.
    """
    template = resources.files(package).joinpath("page.html").read_text("utf-8")
    style = resources.files("pipelines").joinpath("page.css").read_text("utf-8")
    return Template(template).substitute(style=style.rstrip(), **parts).encode()
