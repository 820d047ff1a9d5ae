"""`hushbeam heavy-hitters` on the command line."""

from __future__ import annotations

from typing import Any

from pipelines.arguments import (
    add_input,
    add_output,
    add_privacy,
    add_users,
    command,
    publishing,
)

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
"""


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    parser = command(
        commands,
        "heavy-hitters",
        brief="the frequent strings, of which none was declared",
        description=_DESCRIPTION,
        more=_MORE,
    )
    what = parser.add_argument_group("what is looked for")
    add_input(what)
    what.add_argument(
        "--column", required=True,
        help="the column whose strings are looked for; integers are taken as their digits",
    )  # fmt: skip
    add_users(what, "string")
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
    add_privacy(
        privacy, gain="and finds far rarer strings", least="; the search is planned for so many"
    )

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
    add_output(result, "heavy_hitters.parquet, statement.json, report.html")
    result.add_argument(
        "--top", metavar="K", help="the K most frequent only (default: all that stand out)"
    )
    result.add_argument(
        "--false-strings", metavar="F",
        help="how many strings that nobody holds may be in the release on average; below 1 it "
        "bounds the probability that there is any. More lets rarer strings in (default: 0.01)",
    )  # fmt: skip
    parser.set_defaults(command=publishing("heavy-hitters"))
