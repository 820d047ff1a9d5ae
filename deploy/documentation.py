"""What mkdocs is told of the project: pages beside docs, notebooks, functions made at run time."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from griffe import Docstring, DocstringSectionKind, Extension, Object
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbconvert import MarkdownExporter

import hushbeam

_ROOT = Path(__file__).parents[1]
_LINK = re.compile(r"(?<!!)\[([^][]+)\]\(([^)#\s:]+)(#[^)\s]*)?\)")
_FUNCTIONS = "<!-- functions -->"
_EXAMPLE = re.compile(r"^>>> (?:.+\n?)+", re.MULTILINE)


class Examples(Extension):
    """Examples in docstrings stand as code: to Markdown `>>>` would be a quotation."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Fence the examples of one object."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(
                lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", obj.docstring.value
            )


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Bring in what pages link to beside docs, the README as the first page; and notebooks."""
    for path in _beside():
        files.append(
            File.generated(config, _address(path), content=(_ROOT / path).read_text("utf-8"))
        )
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        files.remove(notebook)
        text, resources = MarkdownExporter().from_filename(str(_ROOT / "docs" / notebook.src_uri))
        files.append(File.generated(config, _page(notebook.src_uri), content=text))
        for name, content in resources["outputs"].items():
            place = posixpath.join(posixpath.dirname(notebook.src_uri), name)
            files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Have links lead where their pages are in the site, and list the functions of `hushbeam`."""
    here = page.file.src_uri

    def moved(link: re.Match[str]) -> str:
        text, target, anchor = link[1], _named(_path(here), link[2]), link[3] or ""
        if not target.endswith((".md", ".ipynb")) and not target.startswith("docs/"):
            return text  # a source file, which the site does not have
        there = posixpath.relpath(_page(_address(target)), posixpath.dirname(here) or ".")
        return f"[{text}]({there}{anchor})"

    return _LINK.sub(moved, markdown).replace(_FUNCTIONS, "\n".join(_functions()))


def _beside() -> list[str]:
    """All pages beside docs to which some page leads, from the README on."""
    pages = sorted((_ROOT / "docs").rglob("*.md"))
    waiting = ["README.md", *(path.relative_to(_ROOT).as_posix() for path in pages)]
    seen: dict[str, None] = {}
    while waiting:
        path = waiting.pop()
        if path not in seen and path.endswith(".md"):
            seen[path] = None
            text = (_ROOT / path).read_text("utf-8")
            waiting += [_named(path, link[2]) for link in _LINK.finditer(text)]
    return [path for path in seen if not path.startswith("docs/")]


def _named(path: str, target: str) -> str:
    """What a link on a page means, from the root of the repository."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))


def _address(path: str) -> str:
    """Where in the site a file of the repository is."""
    return "index.md" if path == "README.md" else path.removeprefix("docs/")


def _path(address: str) -> str:
    """The same, back."""
    inside = (_ROOT / "docs" / address).exists() or address.startswith("notebooks/")
    return "README.md" if address == "index.md" else f"docs/{address}" if inside else address


def _page(address: str) -> str:
    return re.sub(r"\.ipynb$", ".md", address)


def _functions() -> Iterator[str]:
    """What the functions say of themselves: none of them stands in a file."""
    for name in hushbeam.__all__:
        function = getattr(hushbeam, name)
        if type(function).__name__ != "function":
            continue
        yield f"\n## `hushbeam.{name}`\n"
        docstring = Docstring(function.__doc__, parser="google")
        for section in docstring.parse(warnings=False):
            if section.kind is DocstringSectionKind.text:
                yield f"{section.value}\n"
            if section.kind is DocstringSectionKind.parameters:
                yield from (_argument(one.name, one.description) for one in section.value)


def _argument(name: str, text: str) -> str:
    return f"* `{name}`: " + re.sub(r"([*_<])", r"\\\1", " ".join(text.split()))
