"""`hushbeam compare` on the command line."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pipelines import answers
from pipelines.errors import DONE, RequestError

if TYPE_CHECKING:
    from pipelines.compare.pairs import Found
    from pipelines.compare.result import Comparison

_DOC = (
    "What has changed between two releases beyond noise, or differs between two groups or values "
    "of one: each difference with an interval, all of them tested together. It costs no privacy."
)

_EXAMPLE = """\
examples:
  hushbeam compare releases/2026-11-20 releases/2026-11-21
  hushbeam compare gs://bucket/releases/2026-11-20 gs://bucket/releases/2026-11-21 --json
  hushbeam compare releases/2026-11-21 --values Oslo Bergen
  hushbeam compare releases/2026-11-20 releases/2026-11-21 --output changes.csv

Releases of a plan are compared metric by metric. If nothing has changed, one request in twenty
shows a change all the same, however many values it looks at; docs/compare.md says how.
"""

_ROWS = 20  # on a screen; all are in --json and --output


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "compare",
        description=_DOC,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "releases", nargs="+", metavar="RELEASE",
        help="two folders of releases, the earlier first; or one; local or gs://",
    )  # fmt: skip
    parser.add_argument(
        "--groups", nargs=2, metavar=("G", "H"), help="two groups of one release: H less G"
    )
    parser.add_argument(
        "--values", nargs=2, metavar=("V", "W"), help="two values of one release: W less V"
    )
    parser.add_argument(
        "--confidence", default="0.95", metavar="C",
        help="that nothing is shown as beyond noise that is not (default: 0.95)",
    )  # fmt: skip
    parser.add_argument(
        "--output", metavar="FILE", help="all differences, in a new file: .parquet or .csv"
    )
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace, rest: list[str]) -> int:
    """Compare, and show what is beyond noise.

    Raises:
        RequestError: the request says no comparison, or the releases allow none.
    """
    from pipelines.requests import no_more

    no_more(rest)
    confidence = _confidence(arguments.confidence)
    parts = {
        column: names
        for column in ("group", "value")
        if (names := getattr(arguments, f"{column}s")) is not None
    }
    if len(arguments.releases) + len(parts) != 2:
        raise RequestError(
            "name two releases, or one with --groups G H or --values V W (hushbeam compare --help)"
        )
    from pipelines import table_files

    if arguments.output is not None:
        table_files.require_writable(arguments.output)
    found = _found(arguments.releases, parts)
    from pipelines.compare.result import SCHEMA, Comparison

    comparison = Comparison(found.pairs, confidence)
    if arguments.output is not None:
        table_files.write(arguments.output, SCHEMA, [comparison.table])
        answers.tell(output=arguments.output)
    answers.tell(
        compared=comparison.compared, beyond_noise=comparison.beyond, confidence=confidence,
        rows=comparison.rows, left_out=dict(found.left_out),
    )  # fmt: skip
    _show(comparison, found)
    return DONE


def _confidence(text: str) -> float:
    try:
        confidence = float(text)
    except ValueError:
        confidence = 0.0
    if not 0.5 <= confidence < 1:
        raise RequestError(f"--confidence: a number of at least 0.5 and less than 1, not {text!r}")
    return confidence


def _found(folders: list[str], parts: dict[str, list[str]]) -> Found:
    """What is to be compared."""
    from pipelines import history
    from pipelines.compare.pairs import between, within

    releases = [history.found([folder]) for folder in folders]
    for folder, published in zip(folders, releases, strict=True):
        if len({one.whole["release_id"] for one in published}) > 1:
            raise RequestError(f"{folder}: there are several releases; name one")
    for column, names in parts.items():
        return within(releases[0], column, names)
    return between(releases[0], releases[1])


def _show(comparison: Comparison, found: Found) -> None:
    """The clearest differences, and what they were among."""
    from pipelines.compare.result import least_detectable
    from pipelines.views.console import Screen
    from pipelines.views.digits import digits

    screen = Screen()
    many, beyond = comparison.compared, comparison.beyond
    for table in comparison.shown(max(_ROWS, min(beyond, 3 * _ROWS))):
        screen.print(table)
    chance = f"{100 * (1 - comparison.confidence):g} %"
    lines = [
        f"beyond noise: {beyond:,} of {many:,} differences; were there none, one would be shown as "
        f"such with a probability of at most {chance}"
    ]
    for metric, figure, least, most in least_detectable(comparison):
        percent, unit = (100, " %") if figure == "share" else (1, "")
        sizes = dict.fromkeys(digits(percent * size, percent * least / 4) for size in (least, most))
        lines.append(
            f"{metric}: a difference of {' to '.join(sizes)}{unit} would be found nine times in ten"
        )
    lines += [f"left out: {name}: {why}" for name, why in found.left_out]
    for line in lines:
        screen.print(line, highlight=False, markup=False, soft_wrap=True)
