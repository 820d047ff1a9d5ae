"""`hushbeam parties` on the command line: client, shuffler and collector, and their keys."""

from __future__ import annotations

from typing import Any, Literal

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
    "tokens": "what a report is admitted by, once",
    "keys": "keys of parties",
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
Make the keys of sealed reports, which the shuffler cannot read; and, for each window, those of the
parties that issue tokens and evaluate strings, with a signed list that all devices are given.
"""

_TOKENS = """\
Where the plan says `tokens`, each report is posted with a token: the issuer gives every device so
many a window, and cannot tell who spends one. See docs/parties.md.
"""

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
    strings: str | None = option(
        "of sealed strings: the party that evaluates them, https://...; or, for a trial on one "
        "machine, its folder",
        None, metavar="URL",
    )  # fmt: skip
    query_tokens: str | None = option(
        "what that party is paid with, of `hushbeam parties tokens fetch --queries`",
        None, metavar="FILE",
    )  # fmt: skip
    keys: str | None = option("the published list of keys of windows", None, metavar="keys.json")
    signer: str | None = option("who signs that list", None, metavar="PUBLIC.pem")
    seen_keys: str | None = option(
        "the keys that this device has seen: another one for a window is refused (default: a file "
        "for this account)",
        None, metavar="FILE",
    )  # fmt: skip
    user_secret: str | None = option(
        "32 random bytes: all values are this one user's, one of them is reported, and equal ones "
        "get equal noise, today and next year; the plan must name a user_column",
        None, metavar="FILE",
    )  # fmt: skip


class FetchRequest(RequestOptions):
    """What a device is asked that fetches its tokens of a window."""

    plan: str = option("a YAML file, the same for all parties", metavar="PLAN", positional=True)
    window: str | None = option("in which the tokens are good", None, metavar="NAME")
    issuer: str = option("who gives them, https://...", metavar="URL")
    output: str = option("a new file", metavar="FILE")
    queries: bool = option("fetch what strings are paid for with, not reports", False)
    device_secret: str | None = option(
        "32 random bytes by which the issuer knows this device, made on first use (default: one "
        "for this account)",
        None, metavar="FILE",
    )  # fmt: skip
    keys: str = option("the published list of keys of windows", metavar="keys.json")
    signer: str = option("who signs that list", metavar="PUBLIC.pem")
    seen_keys: str | None = option(
        "the keys that this device has seen: another one for a window is refused (default: a file "
        "for this account)",
        None, metavar="FILE",
    )  # fmt: skip


class DeviceRequest(RequestOptions):
    """What a device is asked that is to be known to an issuer."""

    secret: str | None = option(
        "32 random bytes, made on first use (default: one for this account)", None,
        metavar="FILE", positional=True,
    )  # fmt: skip


class SpendRequest(PartyOptions):
    """What is asked of who posts reports, each with a token of its own."""

    seal: str | None = option("reports are sealed, to this key", None, metavar="PUBLIC.pem")
    tokens: str = option("as many as reports, or more", metavar="FILE")
    to: str = option("the endpoint of the shuffler, https://...", metavar="URL")


class WindowKeysRequest(RequestOptions):
    """What a party is asked that has keys of windows."""

    plan: str = option("a YAML file, the same for all parties", metavar="PLAN", positional=True)
    windows: tuple[str, ...] = option("those that are to have keys", metavar="NAME")
    folder: str = option("that this party alone can read; made if need be", metavar="FOLDER")


class ForgetRequest(RequestOptions):
    """What a party is asked whose window is over."""

    window: str = option("whose keys are destroyed", metavar="WINDOW", positional=True)
    folder: str = option("of the party", metavar="FOLDER")


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
    tokens: Literal["checked", "none"] | None = option(
        "where the plan has tokens: whether an endpoint of yours has taken one with each report; "
        "the statement says it",
        None,
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
    options: type[RequestOptions]
    for name, options, does, about, more in (
        ("client", ClientRequest, "client:client", _CLIENT, _MORE_CLIENT),
        ("shuffle", ShuffleRequest, "shuffler:shuffle", _SHUFFLE, ""),
        ("collect", CollectRequest, "collector:collect", _COLLECT, ""),
    ):
        place, epilog = f"pipelines.parties.{does}", f"{more}\n{_CODES}"
        add(parts, name, options, place, about, epilog, beam=True, help=_PARTS[name])
    tokens = parts.add_parser("tokens", description=_TOKENS, help=_PARTS["tokens"])
    uses = tokens.add_subparsers(title="tokens", metavar="device|fetch|spend", required=True)
    for name, options, about in (
        ("device", DeviceRequest, "Make the secret by which an issuer knows this device."),
        ("fetch", FetchRequest, "Fetch a device's tokens of a window, before it begins."),
        ("spend", SpendRequest, "Post reports, each alone and with a token."),
    ):
        add(uses, name, options, f"pipelines.parties.spending:{name}", about, _CODES, help=about)
    keys = parts.add_parser("keys", description=_KEYS, help=_PARTS["keys"])
    kinds = keys.add_subparsers(title="keys", metavar="new|issuer|strings|forget", required=True)
    about = "Make a pair of keys of the collector."
    new = kinds.add_parser("new", help=about, description=about)
    new.add_argument("place", metavar="FOLDER", help="a folder that only the collector can read")
    new.set_defaults(command=deferred("pipelines.parties.keys:new"))
    for name, options, about in (
        ("issuer", WindowKeysRequest, "Make the keys under which tokens of windows are issued."),
        ("strings", WindowKeysRequest, "Make the keys under which strings of windows are sealed."),
        ("forget", ForgetRequest, "Destroy a window's keys, and what was kept with them."),
    ):
        add(
            kinds, name, options, f"pipelines.parties.window_keys:{name}", about, _CODES, help=about
        )
