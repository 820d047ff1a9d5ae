"""`hushbeam verify` on the command line."""

from __future__ import annotations

import argparse
from typing import Any

from pipelines.errors import DONE, WITHHELD, RequestError
from pipelines.request import answers
from pipelines.request.commands import deferred
from pipelines.views.console import Screen

_DOC = (
    "Verify releases without a secret: that who publishes has signed them, what their noise costs, "
    "their tables, and the public log of their ledger. It cannot show that noise was drawn."
)

_EXAMPLE = """\
examples:
  hushbeam verify releases/2026-11-20 --key publisher.public.pem
  hushbeam verify 'releases/*' --key publisher.public.pem --log public/log --head kept/head.json

The exit code is 0 if nothing is wrong, also where something is "not checked", and 1 if something
is. Have the key from who publishes, and keep the head of the log where nobody restores it:
docs/verify.md.
"""


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    parser = commands.add_parser("verify", description=_DOC, epilog=_EXAMPLE)
    parser.add_argument(
        "releases", nargs="+", metavar="RELEASE",
        help="folders of releases, folders that hold such, or globs of them; local or gs://",
    )  # fmt: skip
    parser.add_argument(
        "--key", action="append", required=True, metavar="FILE",
        help="the public key of who publishes, .pem; again for what introduces the next key",
    )  # fmt: skip
    parser.add_argument(
        "--log", metavar="FOLDER", help="the public log of the ledger, or a mirror of it"
    )
    parser.add_argument(
        "--head", metavar="FILE", help="a head of that log that you, or a witness, have kept"
    )
    parser.add_argument(
        "--keys", action="append", default=[], metavar="FILE",
        help="a signed list of window keys; again for the list that somebody else was given",
    )  # fmt: skip
    parser.add_argument("--signer", metavar="FILE", help="the public key of who signs --keys, .pem")
    parser.add_argument(
        "--registry", metavar="FILE",
        help="write an entry for the deployments registry of NIST and OpenDP, a new .yaml",
    )  # fmt: skip
    parser.set_defaults(command=deferred(run))


def run(arguments: argparse.Namespace) -> int:
    """Verify releases: 1 if something is wrong with one of them.

    Raises:
        RequestError: there is no release, or the key, the log or its head cannot be read.
    """
    from pipelines.verify.verify import opened, verified

    verifier = opened(arguments.key, arguments.log, arguments.head)
    if bool(arguments.keys) != bool(arguments.signer):
        raise RequestError("--keys and --signer go together: name both, or none")
    report = verified(arguments.releases, verifier, arguments.keys, arguments.signer or "")
    screen = Screen()
    screen.say(report.limit)
    for where, findings in report.findings.items():
        screen.rule(where, align="left")
        for one in sorted(findings, key=lambda one: bool(one.lines)):  # long lists come last
            screen.print(
                f"{one.outcome}: {one.subject}: {one.said}",
                *(f"  {line}" for line in one.lines),
                sep="\n", highlight=False, markup=False, soft_wrap=True,
            )  # fmt: skip
    answers.tell(**report.as_dict())
    sound = not report.faults and (arguments.registry is None or report.priced)
    if arguments.registry is not None and sound:
        from pipelines.verify.registry import write

        write(arguments.registry, arguments.releases)
        screen.say(f"registry: {arguments.registry}")
    elif arguments.registry is not None:
        screen.say("--registry: no entry was written: a release has faults, or an unknown price")
    screen.say(report.counts)
    return DONE if sound else WITHHELD
