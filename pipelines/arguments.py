"""The options on the command line that publishing commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

_END = """
Every option that hushbeam does not know goes to Beam: --runner DataflowRunner --project ...
exit codes: 0 done; 1 withheld, {withheld}; 2 the request or its input is wrong;
3 the run failed{failed}.
"""

Run = Callable[[argparse.Namespace, list[str]], int]


def command(
    commands: Any,
    name: str,
    brief: str,
    description: str,
    more: str,
    withheld: str = "too few reports",
    failed: str = "",
) -> argparse.ArgumentParser:
    """A command that publishes.

    Args:
        commands: where it is added.
        name: as it is typed.
        brief: for the list of commands.
        description: for its own page.
        more: examples, at the end of the page.
        withheld: what exit code 1 means besides.
        failed: what exit code 3 means besides, after a comma.
    """
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=brief,
        description=description,
        epilog=more + _END.format(withheld=withheld, failed=failed),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    return parser


def publishing(kind: str) -> Run:
    """What a command does that publishes one metric.

    Args:
        kind: of metric, see `kinds`.
    """

    def run(arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
        # Beam takes a second to import, and warns while it does: other commands need not wait, and
        # by now logs are silent.
        from pipelines.single import publish_one

        return publish_one(kind, asked(arguments), beam_arguments)

    return run


def asked(arguments: argparse.Namespace) -> dict[str, Any]:
    """What was typed, by option."""
    return {name: value for name, value in vars(arguments).items() if name != "command"}


def add_input(group: Any) -> None:
    """Where rows come from: --input."""
    group.add_argument(
        "--input", nargs="+", required=True, metavar="FILE",
        help="Parquet files or globs, local or gs://",
    )  # fmt: skip


def add_users(group: Any, what: str = "value") -> None:
    """Whose contribution is protected: --user-column.

    Args:
        group: of arguments.
        what: of a user is used.
    """
    group.add_argument(
        "--user-column", metavar="COLUMN",
        help=f"protect users, not rows: one uniformly chosen {what} of each user is used",
    )  # fmt: skip


def add_column(group: Any, bounds_required: bool = True) -> None:
    """A column of numbers: --input, --column, --bounds, --user-column."""
    add_input(group)
    group.add_argument("--column", required=True, help="the column of numbers")
    group.add_argument(
        "--bounds", required=bounds_required, metavar="L,U",
        help="the least and the largest value (--bounds=-5,5, with an equals sign, if L is below "
        "0); values beyond are clipped, uncounted. They must be public knowledge, not taken from "
        "the data; narrow ones give a small error",
    )  # fmt: skip
    add_users(group)


def add_privacy(
    group: Any,
    models: Sequence[str] = ("local", "shuffle"),
    model: str | None = "shuffle",
    gain: str = "at a far smaller error",
    least: str = "",
) -> None:
    """What is promised: --model, --epsilon, --delta, --epsilon-local, --min-reports.

    Args:
        group: of arguments.
        models: that can be asked for.
        model: the default; None for what the mechanism serves.
        gain: what the shuffle model is good for.
        least: what min_reports is besides.
    """
    central = "central: the collector counts raw values and the release is epsilon-private "
    group.add_argument(
        "--model", choices=models, default=model,
        help="local: every report alone is epsilon-private. shuffle: the release is "
        f"(epsilon, delta)-private, {gain}. " + (central if "central" in models else "")
        + f"(default: {model or 'shuffle, or what --mechanism serves'})",
    )  # fmt: skip
    add_loss(group)
    group.add_argument(
        "--epsilon-local", metavar="E",
        help="shuffle model: the most that one report may reveal to the shuffler; without "
        "--epsilon it is what each report spends",
    )  # fmt: skip
    group.add_argument(
        "--min-reports", metavar="N",
        help=f"withhold the release if fewer reports come{least} (default: nine tenths of the rows "
        "in the shuffle model; needed there with --user-column)",
    )  # fmt: skip


def add_loss(group: Any) -> None:
    """How much may be lost: --epsilon, --delta."""
    group.add_argument(
        "--epsilon", help="the privacy loss of the release; 1 is a common choice, less is safer"
    )
    group.add_argument(
        "--delta",
        help="the probability that epsilon may fail (default: in the shuffle model 1e-6, less for "
        "batches of a million and more; in the local model 0)",
    )  # fmt: skip


def add_output(group: Any, holds: str) -> None:
    """What comes out: --output, --confidence.

    Args:
        group: of arguments.
        holds: the files of the release.
    """
    group.add_argument(
        "--output", required=True, metavar="FOLDER",
        help=f"a new folder, local or gs://: {holds}",
    )  # fmt: skip
    group.add_argument(
        "--confidence", default="0.95", help="of the intervals (default: %(default)s)"
    )
