"""Files of a release that say something to people: written again, or listed as not checked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from typing import Any

import pyarrow as pa

from pipelines.errors import RequestError
from pipelines.releases import schema, statements
from pipelines.releases.history import Published
from pipelines.releases.release import REPORT, STATEMENT
from pipelines.verify.verdict import Check, fault, holds, shown, unchecked
from pipelines.views import plan_page, report
from pipelines.views.headline import chosen
from pipelines.views.pages import placed
from pipelines.wording import number_of

_SUBJECT, _PAGES = "files", "pages"
# What statements and tables of anybody may raise on their way to a page.
_STRANGE = (
    ValueError, TypeError, KeyError, AttributeError, IndexError, ArithmeticError, RuntimeError,
    OSError, RequestError,
)  # fmt: skip

Metrics = Mapping[str, Published]


def of_release(
    folder: str, names: Collection[str], whole: Mapping[str, Any], metrics: Metrics
) -> Iterator[Check]:
    """Whether a release has no file but those of its metrics, and its pages say what these say.

    Args:
        folder: of the release.
        names: of all its files, but for the signature.
        whole: the statement of all of it.
        metrics: what was published, by name.
    """
    parts = {one.folder.removeprefix(folder).lstrip("/"): one for one in metrics.values()}
    outside = {name.rpartition("/")[0] for name in names} - parts.keys() - {""}
    for part in sorted(outside):
        yield fault(_SUBJECT, f"{shown(part)}/ is no folder of a metric that was published")
    written = dict[str, bytes | None]()
    for part, one in parts.items():
        written |= {_in(part, file): None for file in (STATEMENT, *one.figures)}
        written |= _again(_in(part, REPORT), one.statement, partial(_of_metric, one))
    if whole["release"] == "plan":
        written |= {STATEMENT: None}
        written |= _again(REPORT, whole, partial(_of_plan, whole, metrics))
    pages = {name: page for name, page in written.items() if page is not None and name in names}
    differing = [name for name, page in pages.items() if page != _read(folder, name)]
    for name in differing:
        yield fault(_PAGES, f"{shown(name)} is not the page of its statement and tables")
    if pages and not differing:
        yield holds(_PAGES, f"{len(pages):,}, written again from statements and tables")
    rest = sorted(name for name in names if name not in written)
    if rest:
        said = f"{number_of(len(rest), 'file')} of which nothing is known but who signed them"
        yield unchecked(_SUBJECT, said, map(shown, rest))


def _in(part: str, name: str) -> str:
    return f"{part}/{name}" if part else name


def _again(
    name: str, said: Mapping[str, Any], page: Callable[[], bytes]
) -> dict[str, bytes | None]:
    """A page by its name, if this version wrote it and can write it from what is published."""
    own = (said["release"] == "plan" and not said.get("queries")) or report.OWN in said
    try:
        if not own or said["versions"]["hushbeam"] != version("hushbeam"):
            return {}
        return {name: page()}
    except _STRANGE:
        return {name: b""}  # no page at all: whatever stands there is another one


def _of_metric(one: Published) -> bytes:
    page = report.page({file: schema.own(table) for file, table in _tables(one)}, one.statement)
    return page if one.whole is one.statement else placed(page, one.statement)


def _of_plan(whole: Mapping[str, Any], metrics: Metrics) -> bytes:
    said = {name: one.statement for name, one in metrics.items()}
    first = {
        name: dict(_tables(one)).get(chosen(said[name])["table"]) for name, one in metrics.items()
    }
    tables = {name: table for name, table in first.items() if table is not None}
    shares = [name for name, one in whole["missing"].items() if "why" in one]
    return plan_page.page([*whole["metrics"], *whole["withheld"]], said, whole, tables, shares)


def _tables(one: Published) -> Iterator[tuple[str, pa.Table]]:
    for file in one.figures:
        with suppress(FileNotFoundError):  # a kind that may publish it, and did not
            yield file, statements.read_table(one.folder, file, shared=False)


def _read(folder: str, name: str) -> bytes:
    try:
        return statements.read_file(folder, name)
    except OSError:
        return b""  # a fault of its own
