"""`hushbeam heavy-hitters` on the command line."""

from __future__ import annotations

import argparse
from typing import Any

_DESCRIPTION = """\
The frequent strings of a telemetry log, of which none was declared: addresses, versions, queries,
words. No list of candidates is needed; a string that few hold stays unknown to everybody.
"""

_MORE = """\
how it works: each user looks at a beginning of its string, of a length that dice choose, and
reports in which of some 100,000 buckets a public hash puts it, randomised. Afterwards the
collector builds strings up from their beginnings, and follows those whose buckets hold more than
chance explains. Each length is looked at under several hashes, so that strings which share a
bucket by chance are told apart.

what is found: before the run a line tells which share of the users must hold a string for it to
be found. It falls with more users, a larger epsilon, the shuffle model, a smaller --alphabet and
a shorter --max-length. Strings longer than that are published by their beginning, and marked.

example, with the files of the repository:
  hushbeam heavy-hitters --input examples/flights.parquet --column destination \\
      --alphabet upper --max-length 3 --epsilon 1 --output flights-destinations

Every option that hushbeam does not know goes to Beam: --runner DataflowRunner --project ...
exit codes: 0 done; 1 withheld, too few reports; 2 the request or its input is wrong;
3 the run failed.
"""


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "heavy-hitters",
        help="the frequent strings, of which none was declared",
        description=_DESCRIPTION,
        epilog=_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    what = parser.add_argument_group("what is looked for")
    what.add_argument(
        "--input", nargs="+", required=True, metavar="FILE",
        help="Parquet files or globs, local or gs://",
    )  # fmt: skip
    what.add_argument(
        "--column", required=True,
        help="the column whose strings are looked for; integers are taken as their digits",
    )  # fmt: skip
    what.add_argument(
        "--user-column", metavar="COLUMN",
        help="protect users, not rows: one uniformly chosen string of each user is used",
    )  # fmt: skip
    what.add_argument(
        "--alphabet", nargs="+", metavar="SET",
        help="which characters a string may hold: bytes (all text), printable, digits, lower, "
        "upper, or characters as they are, as in: lower digits ./-_ ; rows with others are dropped "
        "and counted (default: bytes, or digits for integers). It must be public knowledge",
    )  # fmt: skip
    what.add_argument(
        "--max-length", metavar="L",
        help="how many characters (of all text: bytes) are looked at (default: 32, or 10 for "
        "integers)",
    )  # fmt: skip

    privacy = parser.add_argument_group("what is promised")
    privacy.add_argument(
        "--model", choices=("local", "shuffle"), default="shuffle",
        help="local: every report alone is epsilon-private. shuffle: the release is "
        "(epsilon, delta)-private, and finds far rarer strings (default: %(default)s)",
    )  # fmt: skip
    privacy.add_argument(
        "--epsilon", help="the privacy loss of the release; 1 is a common choice, less is safer"
    )
    privacy.add_argument(
        "--delta",
        help="shuffle model: the probability that epsilon may fail (default: 1e-6, less for "
        "batches of a million and more)",
    )
    privacy.add_argument(
        "--min-reports", metavar="N",
        help="withhold the release if fewer reports come; the search is planned for so many "
        "(default: planned for nine tenths of the rows; needed with --user-column)",
    )  # fmt: skip
    privacy.add_argument(
        "--epsilon-local", metavar="E",
        help="shuffle model: the most that one report may reveal to the shuffler; "
        "without --epsilon it is what each report spends",
    )  # fmt: skip

    how = parser.add_argument_group("how it is searched")
    how.add_argument(
        "--system", choices=("pem", "treehist"), default="pem",
        help="pem: several characters a level, as finds the rarest strings. treehist: one "
        "character a level, with one-bit reports (default: %(default)s)",
    )  # fmt: skip
    how.add_argument(
        "--oracle", default="auto", metavar="NAME",
        help="what reports the buckets: grr, olh, srr, hadamard, projective, or auto for the one "
        "that finds the rarest strings (default: %(default)s)",
    )  # fmt: skip

    result = parser.add_argument_group("what comes out")
    result.add_argument(
        "--output", required=True, metavar="FOLDER",
        help="a new folder, local or gs://: heavy_hitters.parquet, statement.json, report.html",
    )  # fmt: skip
    result.add_argument(
        "--top", metavar="K", help="the K most frequent only (default: all that stand out)"
    )
    result.add_argument(
        "--false-strings", metavar="F",
        help="how many strings that nobody holds may be in the release on average; below 1 it "
        "bounds the probability that there is any. More lets rarer strings in (default: 0.01)",
    )  # fmt: skip
    result.add_argument(
        "--confidence", default="0.95", help="of the intervals (default: %(default)s)"
    )
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Publish the frequent strings, and show the top of them."""
    # Beam takes a second to import, and warns while it does: other commands need not wait, and
    # by now logs are silent.
    from pipelines.single import publish_one

    asked = {k: v for k, v in vars(arguments).items() if k != "command"}
    return publish_one("heavy-hitters", asked, beam_arguments)
