"""`hushbeam compare` on the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.errors import DONE, RequestError
from pipelines.request import answers
from pipelines.request.commands import add
from pipelines.request.options import option
from pipelines.request.requests import RequestOptions

if TYPE_CHECKING:
    from pipelines.compare.pairs import Pairing
    from pipelines.releases.history import Published

_DOC = (
    "What has changed between two releases beyond noise, or differs between two groups or values "
    "of one: each difference with an interval, all of them tested together. It costs no privacy."
)

_EXAMPLE = """\
examples:
  hushbeam compare releases/2026-11-20 releases/2026-11-21
  hushbeam compare gs://bucket/releases/2026-11-20 gs://bucket/releases/2026-11-21 --json
  hushbeam compare releases/2026-11-21 --values Oslo Bergen
  hushbeam compare releases/2026-11-20 releases/2026-11-21 --output changes.html

Releases of a plan are compared metric by metric. If nothing has changed, one request in twenty
shows a change all the same, however many values it looks at; docs/compare.md says how.
"""

_PAGE = ".html"


class CompareOptions(RequestOptions):
    """What is to be compared."""

    releases: tuple[str, ...] = option(
        "two folders of releases, the earlier first; or one; local or gs://",
        metavar="RELEASE", positional=True,
    )  # fmt: skip
    groups: tuple[str, str] | None = option(
        "two groups of one release: H less G", None, metavar="G H"
    )
    values: tuple[str, str] | None = option(
        "two values of one release: W less V", None, metavar="V W"
    )
    confidence: float = option(
        "that nothing is shown as beyond noise that is not (default: 0.95)",
        0.95, metavar="C", ge=0.5, lt=1,
    )  # fmt: skip
    output: str | None = option(
        "all differences, in a new file: .parquet or .csv; or a page of the clearest: .html",
        None, metavar="FILE",
    )  # fmt: skip


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    add(commands, "compare", CompareOptions, run, _DOC, _EXAMPLE)


def run(options: CompareOptions) -> int:
    """Compare, and show what is beyond noise.

    Raises:
        RequestError: the request says no comparison, or the releases allow none.
    """
    both = {"group": options.groups, "value": options.values}
    parts = {column: names for column, names in both.items() if names is not None}
    if len(options.releases) + len(parts) != 2:
        raise RequestError(
            "name two releases, or one with --groups G H or --values V W (hushbeam compare --help)"
        )
    from pipelines.storage import table_files

    output, confidence = options.output, options.confidence
    if output is not None:
        table_files.require_writable(output, _PAGE)
    releases = _releases(options.releases)
    pairing = _pairing(releases, parts)
    from pipelines.compare import view
    from pipelines.compare.view import SCHEMA, Comparison
    from pipelines.views.console import Screen

    comparison = Comparison(pairing.pairs, confidence)
    if output is not None:
        if output.endswith(_PAGE):
            names = [published[0].whole["release_id"] for published in releases]
            table_files.write_whole(output, view.page(comparison, pairing.left_out, names))
        else:
            table_files.write(output, SCHEMA, [comparison.table])
        answers.tell(output=output)
    answers.tell(
        compared=comparison.compared, beyond_noise=comparison.beyond, confidence=confidence,
        covers=comparison.covers, rows=comparison.rows, left_out=dict(pairing.left_out),
    )  # fmt: skip
    view.show(Screen(), comparison, pairing.left_out)
    return DONE


def _releases(folders: Sequence[str]) -> list[list[Published]]:
    """What each folder has published.

    Raises:
        RequestError: one of them holds none, or several releases.
    """
    from pipelines.releases import history

    releases = [history.releases_in([folder]) for folder in folders]
    for folder, published in zip(folders, releases, strict=True):
        if len({one.whole["release_id"] for one in published}) > 1:
            raise RequestError(f"{folder}: there are several releases; name one")
    return releases


def _pairing(releases: list[list[Published]], parts: Mapping[str, Sequence[str]]) -> Pairing:
    """What is to be compared."""
    from pipelines.compare.pairs import between, within

    for column, names in parts.items():
        return within(releases[0], column, names)
    return between(releases[0], releases[1])
