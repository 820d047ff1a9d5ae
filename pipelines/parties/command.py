"""`hushbeam parties` on the command line: client, shuffler and collector, and their keys."""

from __future__ import annotations

from typing import Any

from pipelines.request.commands import add, deferred
from pipelines.request.options import option
from pipelines.request.requests import RequestOptions

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


class PartyOptions(RequestOptions):
    """What all three parties need: the plan, its window, and their input."""

    plan: str = option("a YAML file, the same for all parties", metavar="PLAN", positional=True)
    window: str | None = option(
        "what stands for {window} in the plan, as in 2026-11-20", None, metavar="NAME"
    )
    input: tuple[str, ...] = option("files or globs", metavar="FILE")


class ClientRequest(PartyOptions):
    """What a client is asked; `-` in the place of files are values, one a line."""

    output: str = option("Parquet if its name ends in .parquet, binary if not", metavar="FILE")
    metric: tuple[str, ...] = option("report these alone (default: all)", (), metavar="NAME")
    seal: str | None = option("the collector's public key", None, metavar="PUBLIC.pem")
    second: str | None = option(
        "seal reports once more, to this second shuffler's public key: neither shuffler then knows "
        "the whole order",
        None, metavar="PUBLIC.pem",
    )  # fmt: skip
    report_secret: str | None = option(
        "32 random bytes that stay here, made on first use: a user's second report of a window is "
        "known by them, and dropped by the shuffler (default: one for this account)",
        None, metavar="FILE",
    )  # fmt: skip
    devices: str | None = option(
        "where devices draw the dummies: those whose rows the files hold, a user a line; each of "
        "them sends, with rows or without",
        None, metavar="FILE",
    )  # fmt: skip
    crowd_key: str | None = option(
        "of sealed strings: the file of `hushbeam parties keys crowd`, one for all devices",
        None, metavar="FILE",
    )  # fmt: skip
    user_secret: str | None = option(
        "32 random bytes: all values are this one user's, one of them is reported, and equal ones "
        "get equal noise, today and next year; the plan must name a user_column",
        None, metavar="FILE",
    )  # fmt: skip


class ShuffleRequest(PartyOptions):
    """What a shuffler is asked."""

    input: tuple[str, ...] = option("files or globs; none of a later pass", (), metavar="FILE")
    output: str = option("a new folder", metavar="FOLDER")
    seal: tuple[str, ...] = option(
        "reports are sealed, to one of these keys; each needs min_reports of its own (of counts "
        "and sums there is one key, and no least number)",
        (), metavar="PUBLIC.pem",
    )  # fmt: skip
    second: str | None = option(
        "reports are sealed once more, to this key: mix them, for its owner to shuffle again",
        None, metavar="PUBLIC.pem",
    )  # fmt: skip
    key: tuple[str, ...] = option(
        "--input is what a first shuffler has sent on, sealed once more: the keys that open it",
        (), metavar="PRIVATE.pem",
    )  # fmt: skip
    shuffle_secret: str | None = option(
        "32 random bytes that stay here, made on first use: by them it is seen that two shuffles "
        "share reports (default: one for this account)",
        None, metavar="FILE",
    )  # fmt: skip
    shuffle_memory: str | None = option(
        "what was sent on of each window, enciphered under that secret, so that no report goes on "
        "twice; not the collector's to see (default: one for this account)",
        None, metavar="FOLDER",
    )  # fmt: skip
    share: tuple[str, ...] = option(
        "of epsilon, as in 0.25: a quick look at a batch of noisy counters; while the plan's "
        "ask_again lasts it is asked again at other shares that are named now, and at the rest",
        (), metavar="SHARE",
    )  # fmt: skip


class CollectRequest(PartyOptions):
    """What a collector is asked."""

    output: str | None = option(
        "of the release (default: what the plan says)", None, metavar="FOLDER"
    )
    key: tuple[str, ...] = option(
        "reports are sealed: the keys that open them, the old ones too",
        (), metavar="PRIVATE.pem",
    )  # fmt: skip


def add_to(commands: Any) -> None:
    """Add the command, its parts and their options."""
    parser = commands.add_parser("parties", description=_DOC, epilog=_CODES)
    parts = parser.add_subparsers(title="parties", metavar="|".join(_PARTS), required=True)
    for name, options, does, about, more in (
        ("client", ClientRequest, "client:client", _CLIENT, _MORE_CLIENT),
        ("shuffle", ShuffleRequest, "shuffler:shuffle", _SHUFFLE, ""),
        ("collect", CollectRequest, "collector:collect", _COLLECT, ""),
    ):
        place, epilog = f"pipelines.parties.{does}", f"{more}\n{_CODES}"
        add(parts, name, options, place, about, epilog, beam=True, help=_PARTS[name])
    keys = parts.add_parser("keys", description=_KEYS, help=_PARTS["keys"])
    kinds = keys.add_subparsers(title="keys", metavar="new|crowd", required=True)
    for name, place, does in (
        ("new", "FOLDER", "a pair of keys of the collector"),
        ("crowd", "FILE", "the key that all devices share, for sealed strings"),
    ):
        kind = kinds.add_parser(name, help=does, description=f"Make {does}.")
        kind.add_argument("place", metavar=place, help=_PLACES[name])
        kind.set_defaults(command=deferred(f"pipelines.parties.keys:{name}"))
