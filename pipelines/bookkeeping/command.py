"""`hushbeam ledger` on the command line."""

from __future__ import annotations

from typing import Any

from pipelines.request.commands import deferred

_DOC = "The budget of a population: begun once, spent by releases, and never forgotten."

_EXAMPLE = """\
examples:
  hushbeam ledger init plan.yaml
  hushbeam ledger init --ledger ledger.sqlite --population riders --budget 2.5,1e-6
  hushbeam ledger show --ledger ledger.sqlite
  hushbeam ledger explain --ledger gs://bucket/ledger.json --collection trips
  hushbeam ledger check --ledger ledger.sqlite --releases 'releases/*'
  hushbeam ledger log --ledger ledger.sqlite --output public/log
  hushbeam ledger settle 3f2a --not-run --ledger ledger.sqlite
  hushbeam ledger archive 3f2a 77c0 --ledger ledger.sqlite

A reservation whose run was lost counts as spent, and the next run of its window goes on with it.
Settle it as not run only if nothing that it made was seen by anyone: no release, and no reports
either. What `hushbeam parties collect` has reserved cannot be settled so, for the collector has the
reports; to collect them again is free. Keys, witnesses, backup and restore: docs/ledger.md.
"""

_PARTS = {
    "init": "begin a ledger, or give a population a budget in it",
    "show": "list the entries",
    "explain": "how the total is composed, and what still fits",
    "check": "verify it against the witness and the releases that stand",
    "settle": "end a reservation",
    "archive": "say that releases were moved or have expired",
    "log": "write the public log of its changes, for witnesses to mirror",
    "introduce": "sign that releases and logs will have another key",
    "adopt": "take over a ledger that has lost its end, or its witness",
}


_ACCOUNT = "pipelines.ledger.account"
_DOES = {"show": f"{_ACCOUNT}:show", "explain": f"{_ACCOUNT}:explain"}


def add_to(commands: Any) -> None:
    """Add the command and what can be done with it."""
    parser = commands.add_parser("ledger", description=_DOC, epilog=_EXAMPLE)
    subparsers = parser.add_subparsers(title="what to do", metavar="|".join(_PARTS), required=True)
    parts = {}
    for name, does in _PARTS.items():
        part = parts[name] = subparsers.add_parser(name, help=does, description=does)
        if name != "introduce":
            part.add_argument(
                "--ledger", required=name != "init", metavar="PATH",
                help="a local file, or gs://BUCKET/ledger.json",
            )  # fmt: skip
        part.set_defaults(command=deferred(_DOES.get(name, f"pipelines.bookkeeping.upkeep:{name}")))
    for name in ("show", "explain"):
        parts[name].add_argument(
            "--collection", metavar="ID", help="only this collection or population"
        )
    parts["show"].add_argument("--all", action="store_true", help="every entry, not the last 50")
    for name in ("check", "adopt"):
        parts[name].add_argument(
            "--releases", action="append", default=[], metavar="GLOB",
            help="of folders of releases",
        )  # fmt: skip
    for name in ("settle", "archive"):
        parts[name].add_argument(
            "id", nargs="+" if name == "archive" else None, metavar="ID",
            help="of the entry, or how it begins",
        )  # fmt: skip
    parts["log"].add_argument(
        "--output", required=True, metavar="FOLDER", help="local; a log that stands there goes on"
    )
    parts["log"].add_argument(
        "--key", action="append", default=[], metavar="FILE",
        help="a public key that has signed earlier heads, where the present one is another",
    )  # fmt: skip
    parts["introduce"].add_argument(
        "--new-key", required=True, metavar="FILE", help="its public half, .pem"
    )
    parts["introduce"].add_argument(
        "--output", required=True, metavar="FILE", help="new; readers name it by --key"
    )
    outcome = parts["settle"].add_mutually_exclusive_group(required=True)
    outcome.add_argument("--spent", action="store_true", help="it counts for good")
    outcome.add_argument(
        "--not-run", action="store_true", help="nothing that it made was seen: the budget is free"
    )
    _add_beginnings(parts["init"], parts["adopt"])


def _add_beginnings(init: Any, adopt: Any) -> None:
    init.add_argument(
        "plan", nargs="?", metavar="PLAN", help="says all of it: its ledger, population and budget"
    )
    init.add_argument("--population", metavar="NAME", help="whom releases are about")
    init.add_argument(
        "--unit", choices=("user", "user per window", "row"), default="user",
        help="whose contribution is protected (default: user)",
    )  # fmt: skip
    init.add_argument(
        "--budget", metavar="EPSILON[,DELTA]", help="for all releases together (DELTA: 1e-6)"
    )
    init.add_argument(
        "--amend", action="store_true", help="give an existing population another budget"
    )
    adopt.add_argument(
        "--lost", metavar="EPSILON[,DELTA]",
        help="the most that was spent and it does not know of, counted for every population "
        "(DELTA: 0)",
    )  # fmt: skip
    adopt.add_argument(
        "--neighbours", choices=("add or remove", "replace", "zero-out"),
        help="of the lost releases (default: as of the known ones of each population)",
    )  # fmt: skip
    for part in (init, adopt):
        part.add_argument(
            "--witness", metavar="PLACE",
            help="a file, or gs://BUCKET/witness.json, that is not restored with the ledger "
            "(default: beside the plan's releases, or in this account's state folder)",
        )  # fmt: skip
