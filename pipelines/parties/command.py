"""`hushbeam parties` on the command line: client, shuffler and collector, and their keys."""

from __future__ import annotations

import argparse
from typing import Any

_DOC = """\
Publish a plan as three parties that need not trust each other. Clients randomise values, a shuffler
mixes their reports, and a collector publishes. Each runs on its own machine. See docs/parties.md.
"""

_PARTS = {
    "client": "values to randomised reports, on the device",
    "shuffle": "reports to shuffled reports",
    "collect": "shuffled reports to a release",
    "keys": "keys for sealed reports",
}

_CLIENT = """\
Randomise values where they are, and write reports of them: what a device sends. The values stay; a
report says which plan and metric it belongs to, and nothing of its sender. See docs/parties.md.
"""

_MORE_CLIENT = """\
examples:
  hushbeam parties client plan.yaml --input day.parquet --output reports.parquet
  echo EWR | hushbeam parties client plan.yaml --metric origin --input - --output one.bin
  head -c 32 /dev/urandom > secret    # once for each user, and kept
  hushbeam parties client plan.yaml --input mine.parquet --user-secret secret --output mine.bin
"""

_SHUFFLE = """\
Mix the reports of a window: drop what cannot be a report of the plan, and what came twice, take the
ids away, and write the rest in random order, each metric only if it has min_reports. Nothing is
decoded; sealed reports are not even read. Of counts and sums the dummies are drawn,
sealed alike and mixed with the reports: once for each window, also for one without any report.
"""

_COLLECT = """\
Publish a window of a plan from its shuffled reports: the release, and the entry in the ledger, that
`hushbeam run` would have made of the same messages if it counted on as many users.
"""

_KEYS = """\
Make the keys of sealed reports, which the shuffler cannot read.
"""

_PLACES = {
    "new": "a folder that only the collector can read",
    "crowd": "a file that the shuffler must never see",
}

_CODES = """\
exit codes: 0 done; 1 withheld, too few reports or too little budget; 2 the plan or its input is
wrong; 3 the run failed.
"""


def add_to(commands: Any) -> None:
    """Add the command, its parts and their options."""
    parser = commands.add_parser("parties", description=_DOC, epilog=_CODES)
    parts = parser.add_subparsers(title="parties", metavar="|".join(_PARTS), required=True)
    _add_client(parts)
    _add_shuffle(parts)
    _add_collect(parts)
    _add_keys(parts)


def _add_keys(parts: Any) -> None:
    parser = parts.add_parser("keys", description=_KEYS, help=_PARTS["keys"])
    kinds = parser.add_subparsers(title="keys", metavar="new|crowd", required=True)
    for name, place, does, make in (
        ("new", "FOLDER", "a pair of keys of the collector", new_pair),
        ("crowd", "FILE", "the key that all devices share, for sealed strings", new_crowd),
    ):
        kind = kinds.add_parser(name, help=does, description=f"Make {does}.")
        kind.add_argument("place", metavar=place, help=_PLACES[name])
        kind.set_defaults(command=make)


def _party(
    parts: Any, name: str, description: str, more: str = "", needs_input: bool = True
) -> Any:
    """What all three parties need: the plan, its window, and their input."""
    parser = parts.add_parser(
        name, description=description, epilog=f"{more}\n{_CODES}", help=_PARTS[name]
    )
    parser.add_argument("plan", metavar="PLAN", help="a YAML file, the same for all parties")
    parser.add_argument(
        "--window", metavar="NAME", help="what stands for {window} in the plan, as in 2026-11-20"
    )
    parser.add_argument(
        "--input", required=needs_input, nargs="+", default=(), metavar="FILE",
        help="files or globs" if needs_input else "files or globs; none of a later pass",
    )  # fmt: skip
    return parser


def _add_client(parts: Any) -> None:
    parser = _party(parts, "client", _CLIENT, _MORE_CLIENT)
    parser.add_argument(
        "--output", required=True, metavar="FILE",
        help="Parquet if its name ends in .parquet, binary if not",
    )  # fmt: skip
    parser.add_argument(
        "--metric", nargs="+", default=(), metavar="NAME", help="report these alone (default: all)"
    )
    parser.add_argument("--seal", metavar="PUBLIC.pem", help="the collector's public key")
    parser.add_argument(
        "--report-secret", metavar="FILE",
        help="32 random bytes that stay here, made on first use: a user's second report of a "
        "window is known by them, and dropped by the shuffler (default: one for this account)",
    )  # fmt: skip
    parser.add_argument(
        "--devices", metavar="FILE",
        help="where devices draw the dummies: those whose rows the files hold, a user a line; each "
        "of them sends, with rows or without",
    )  # fmt: skip
    parser.add_argument(
        "--crowd-key", metavar="FILE",
        help="of sealed strings: the file of `hushbeam parties keys crowd`, one for all devices",
    )  # fmt: skip
    parser.add_argument(
        "--user-secret", metavar="FILE",
        help="32 random bytes: all values are this one user's, one of them is reported, and equal "
        "ones get equal noise, today and next year; the plan must name a user_column",
    )  # fmt: skip
    parser.set_defaults(command=client)


def _add_shuffle(parts: Any) -> None:
    parser = _party(parts, "shuffle", _SHUFFLE, needs_input=False)
    parser.add_argument("--output", required=True, metavar="FOLDER", help="a new folder")
    parser.add_argument(
        "--seal", nargs="+", default=(), metavar="PUBLIC.pem",
        help="reports are sealed, to one of these keys; each needs min_reports of its own (of "
        "counts and sums there is one key, and no least number)",
    )  # fmt: skip
    parser.add_argument(
        "--shuffle-secret", metavar="FILE",
        help="32 random bytes that stay here, made on first use: by them it is seen that two "
        "shuffles share reports (default: one for this account)",
    )  # fmt: skip
    parser.add_argument(
        "--shuffle-memory", metavar="FOLDER",
        help="what was sent on of each window, enciphered under that secret, so that no report "
        "goes on twice; not the collector's to see (default: one for this account)",
    )  # fmt: skip
    parser.add_argument(
        "--share", nargs="+", default=(), metavar="SHARE",
        help="of epsilon, as in 0.25: a quick look at a batch of noisy counters; while the plan's "
        "ask_again lasts it is asked again at other shares that are named now, and at the rest",
    )  # fmt: skip
    parser.set_defaults(command=shuffle)


def _add_collect(parts: Any) -> None:
    parser = _party(parts, "collect", _COLLECT)
    parser.add_argument(
        "--output", metavar="FOLDER", help="of the release (default: what the plan says)"
    )
    parser.add_argument(
        "--key", nargs="+", default=(), metavar="PRIVATE.pem",
        help="reports are sealed: the keys that open them, the old ones too",
    )  # fmt: skip
    parser.set_defaults(command=collect)


# Beam takes a second to import, and warns while it does: by the time these run, logs are silent.


def client(arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Write reports."""
    from pipelines.parties.client import ClientRequest
    from pipelines.parties.client import client as run

    request = ClientRequest(
        arguments.plan, arguments.window, tuple(arguments.input), arguments.output,
        tuple(arguments.metric), arguments.seal, arguments.user_secret, arguments.report_secret,
        arguments.devices, arguments.crowd_key,
    )  # fmt: skip
    return run(request, beam_arguments)


def shuffle(arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Shuffle reports."""
    from pipelines.parties.shuffler import ShuffleRequest
    from pipelines.parties.shuffler import shuffle as run

    request = ShuffleRequest(
        arguments.plan, arguments.window, tuple(arguments.input), arguments.output,
        tuple(arguments.seal), arguments.shuffle_secret, arguments.shuffle_memory,
        tuple(arguments.share),
    )  # fmt: skip
    return run(request, beam_arguments)


def collect(arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Publish from shuffled reports."""
    from pipelines.parties.collector import CollectRequest
    from pipelines.parties.collector import collect as run

    request = CollectRequest(
        arguments.plan, arguments.window, tuple(arguments.input), arguments.output,
        tuple(arguments.key),
    )  # fmt: skip
    return run(request, beam_arguments)


def new_pair(arguments: argparse.Namespace, rest: list[str]) -> int:
    """Make a pair of keys."""
    from pipelines.parties.keys import new
    from pipelines.request.requests import no_more

    no_more(rest)
    return new(arguments.place)


def new_crowd(arguments: argparse.Namespace, rest: list[str]) -> int:
    """Make the key of all devices."""
    from pipelines.parties.keys import crowd
    from pipelines.request.requests import no_more

    no_more(rest)
    return crowd(arguments.place)
