"""`hushbeam ledger` on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

_DOC = "What was spent, how it adds up, and what to do about a run that was lost."

_EXAMPLE = """\
examples:
  hushbeam ledger show --ledger ledger.sqlite
  hushbeam ledger explain --ledger gs://bucket/ledger.json --collection trips
  hushbeam ledger settle 3f2a --not-run --ledger ledger.sqlite

A reservation whose run was lost counts as spent until it is settled. Settle it as not run only if
nothing that it made was seen by anyone: no release, and no reports either. What `hushbeam collect`
has reserved cannot be settled so, for the collector has the reports; to collect them again is free.
"""


def add_to(commands: Any) -> None:
    """Add the command and what can be done with it."""
    parser = commands.add_parser(
        "ledger",
        description=_DOC,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parts = parser.add_subparsers(title="what to do", metavar="show|explain|settle", required=True)
    show = parts.add_parser("show", help="list the entries", allow_abbrev=False)
    explain = parts.add_parser(
        "explain", help="how the total is composed, and what still fits", allow_abbrev=False
    )
    settle = parts.add_parser("settle", help="end a reservation", allow_abbrev=False)
    for name, part in (("show", show), ("explain", explain), ("settle", settle)):
        part.add_argument(
            "--ledger", required=True, metavar="PATH",
            help="a local file, or gs://BUCKET/ledger.json",
        )  # fmt: skip
        part.add_argument("--json", action="store_true", help="for programs")
        part.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help="show tracebacks"
        )
        part.set_defaults(command=run, part=name)
    for part in (show, explain):
        part.add_argument("--collection", metavar="ID", help="only this collection or population")
    settle.add_argument("id", metavar="ID", help="of the entry, or how it begins")
    outcome = settle.add_mutually_exclusive_group(required=True)
    outcome.add_argument("--spent", action="store_true", help="it counts for good")
    outcome.add_argument(
        "--not-run", action="store_true", help="nothing that it made was seen: the budget is free"
    )


def run(arguments: argparse.Namespace, rest: Sequence[str]) -> int:
    """Show, explain or settle."""
    # Beam, which opens files, takes a second to import, and warns while it does: by now logs are
    # silent.
    from pipelines.ledger import account

    return account.PARTS[arguments.part](arguments, rest)
