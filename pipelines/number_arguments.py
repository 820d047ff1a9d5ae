"""The options on the command line that the commands about a column of numbers share."""

from __future__ import annotations

from typing import Any


def add_column(group: Any, bounds_required: bool = True) -> None:
    """What is looked at: --input, --column, --bounds, --user-column."""
    group.add_argument(
        "--input", nargs="+", required=True, metavar="FILE",
        help="Parquet files or globs, local or gs://",
    )  # fmt: skip
    group.add_argument("--column", required=True, help="the column of numbers")
    group.add_argument(
        "--bounds", required=bounds_required, metavar="L,U",
        help="the least and the largest value (--bounds=-5,5, with an equals sign, if L is below "
        "0); values beyond are clipped, uncounted. They must be public knowledge, not taken from "
        "the data; narrow ones give a small error",
    )  # fmt: skip
    group.add_argument(
        "--user-column", metavar="COLUMN",
        help="protect users, not rows: one uniformly chosen value of each user is used",
    )  # fmt: skip


def add_privacy(group: Any) -> None:
    """What is promised: --model, --epsilon, --delta, --epsilon-local, --min-reports."""
    group.add_argument(
        "--model", choices=("local", "shuffle"), default="shuffle",
        help="local: every report alone is epsilon-private. shuffle: the release is "
        "(epsilon, delta)-private, at a far smaller error (default: %(default)s)",
    )  # fmt: skip
    group.add_argument(
        "--epsilon", help="the privacy loss of the release; 1 is a common choice, less is safer"
    )
    group.add_argument(
        "--delta",
        help="the probability that epsilon may fail (default: in the shuffle model 1e-6, less for "
        "batches of a million and more; in the local model 0)",
    )  # fmt: skip
    group.add_argument(
        "--epsilon-local", metavar="E",
        help="shuffle model: the most that one report may reveal to the shuffler; without "
        "--epsilon it is what each report spends",
    )  # fmt: skip
    group.add_argument(
        "--min-reports", metavar="N",
        help="withhold the release if fewer reports come (default: nine tenths of the rows in the "
        "shuffle model; needed there with --user-column)",
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
