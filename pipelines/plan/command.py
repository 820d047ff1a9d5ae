"""`hushbeam init`, `hushbeam run` and `hushbeam check` on the command line."""

from __future__ import annotations

import argparse
from typing import Any

from pipelines.request.commands import deferred

_RUN = """\
Publish every metric of a plan, reading the log once. A plan is one YAML file that is reviewed; see
docs/plans.md. With a ledger, what the release costs is set aside before a row is read, and a window
that was released before is not randomised a second time.
"""

_MORE_RUN = """\
examples:
  hushbeam run examples/flights.yaml
  hushbeam run trips.yaml --window 2026-11-20
  hushbeam run trips.yaml --windows 2026-11-01..2026-11-14

Every option that hushbeam does not know goes to Beam: --runner DataflowRunner --project ...
Here all cores take part in a large job; --direct_num_workers 1 leaves it to one.
exit codes: 0 done; 1 withheld, too few reports or too little budget; 2 the plan or its input is
wrong; 3 the run failed; 4 published, and a figure that the plan watches has shifted.
"""

_CHECK = """\
Validate a plan, and show what each metric costs and how exact it will be. No row is read, of files
that are here the columns alone: errors are predicted for min_reports. --json prints the resolved
plan, with every constant of its mechanisms. Exit codes: 0 done; 1 the budget does not hold one
window, so a run would be refused; 2 the plan is wrong, or its files lack what it asks for.
"""


_INIT = """\
Draft a plan from the names and types of a log's columns. Types of text are guessed from the first
rows, here alone, and written down. No value is in the draft, and what only people can know, such as
bounds, is left for them to say.
"""


_LOOK = """\
Show the owner of a log what is in it, from a sample, before anything is published: columns, which
share of each parses, matches the plan's domain and lies in its bounds; users, and rows a user; what
is likely wrong, and the line of the plan to add. It is exact, and so for the owner's eyes alone: no
release, statement, ledger or exit code depends on it. It says shares and kinds, and no cell of the
log. Exit codes: 0 whatever it finds; 2 where it cannot read.
"""

_MORE_LOOK = """\
examples:
  hushbeam look trips.csv
  hushbeam look 'logs/2026-11-*.parquet' trips.yaml
  hushbeam look trips.yaml --window 2026-11-20
"""


def add_to(commands: Any) -> None:
    """Add the commands and their options."""
    looker = commands.add_parser("look", description=_LOOK, epilog=_MORE_LOOK)
    looker.add_argument(
        "log", nargs="+", metavar="LOG",
        help="files, globs or folders, and perhaps a plan (.yaml) after them; a plan alone looks "
        "at its own input",
    )  # fmt: skip
    looker.add_argument(
        "--window", metavar="NAME", help="that stands for {window} in the plan, as in 2026-11-20"
    )
    looker.set_defaults(command=deferred(look))
    drafter = commands.add_parser("init", description=_INIT)
    drafter.add_argument(
        "log", nargs="+", metavar="LOG", help="files, globs or folders, local or gs://"
    )
    drafter.add_argument(
        "--output", metavar="PLAN", help="a new file (default: the standard output)"
    )
    drafter.set_defaults(command=deferred(init))
    runner = commands.add_parser("run", description=_RUN, epilog=_MORE_RUN)
    runner.add_argument("plan", metavar="PLAN", help="a YAML file, local or gs://")
    time = runner.add_mutually_exclusive_group()
    time.add_argument(
        "--window", metavar="NAME",
        help="the part of the time that stands for {window} in the plan, as in 2026-11-20",
    )  # fmt: skip
    time.add_argument(
        "--windows", metavar="DAY..DAY",
        help="each day from one to another, as in 2026-11-01..2026-11-14: one that fails or is "
        "withheld keeps none of the others from its turn; ends with the worst exit code",
    )  # fmt: skip
    runner.set_defaults(command=run)
    checker = commands.add_parser("check", description=_CHECK)
    what = checker.add_mutually_exclusive_group(required=True)
    what.add_argument("plan", nargs="?", metavar="PLAN", help="a YAML file, local or gs://")
    what.add_argument(
        "--schema", action="store_true", help="print the JSON Schema of plans, for editors"
    )
    checker.add_argument(
        "--window", metavar="NAME", help="with --json, the window whose reports are to be made"
    )
    checker.add_argument(
        "--clients", action="store_true",
        help="also what is other where each user's own client draws the noise: their design, which "
        "clients, shuffler and collector must agree on; takes as long again",
    )  # fmt: skip
    checker.add_argument(
        "--look",
        action="store_true",
        help="also what `hushbeam look` says of the plan's own input, for the log's owner alone; "
        "and refuse, as a run would, files that do not fit the plan",
    )
    checker.add_argument(
        "--output", metavar="HTML",
        help="a new file: the sheet that a privacy engineer reads and signs, with errors drawn on "
        "simulated data",
    )  # fmt: skip
    checker.set_defaults(command=deferred(check))


def look(arguments: argparse.Namespace) -> int:
    """Show the owner of a log what is in it."""
    from pipelines.plan.look import look as show

    return show(arguments.log, arguments.window)


def init(arguments: argparse.Namespace) -> int:
    """Draft a plan."""
    from pipelines.plan.draft import init as write

    return write(arguments.log, arguments.output)


def run(arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Publish a window of a plan."""
    # Beam takes a second to import, and warns while it does: by now logs are silent.
    if arguments.windows is not None:
        from pipelines.plan.run import backfill

        return backfill(arguments.plan, arguments.windows, beam_arguments)
    from pipelines.plan.run import code_of
    from pipelines.plan.run import run as publish

    return code_of(publish(arguments.plan, arguments.window, beam_arguments))


def check(arguments: argparse.Namespace) -> int:
    """Validate a plan, or print the schema of plans."""
    from pipelines.plan.check import check as validate
    from pipelines.plan.described import print_schema

    if arguments.schema:
        return print_schema()
    seen = None
    if arguments.look:
        from pipelines.plan.look import look_too

        seen = look_too(arguments.plan, arguments.window)
    return validate(arguments.plan, arguments.window, arguments.clients, seen, arguments.output)
