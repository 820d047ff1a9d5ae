"""`hushbeam site` on the command line."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pipelines.errors import DONE, RequestError
from pipelines.request import answers
from pipelines.request.commands import deferred
from pipelines.wording import number_of

if TYPE_CHECKING:
    from pipelines.verify.verify import Report

_DOC = (
    "A static site over releases: each metric over time, with bands; what has changed beyond "
    "noise; missing, late and withheld windows; what is left of the budget. It needs no server and "
    "no network."
)

_EXAMPLE = """\
examples:
  hushbeam site releases --output public
  hushbeam site 'releases/2026-*' --ledger ledger.sqlite --output public
  hushbeam site gs://bucket/releases --output public --serve

Open public/index.html, or copy the folder to wherever files are served. An existing site is
made again, whole. docs/site.md shows what is on it.
"""


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    parser = commands.add_parser("site", description=_DOC, epilog=_EXAMPLE)
    parser.add_argument(
        "releases", nargs="+", metavar="RELEASES",
        help="folders of releases, folders that hold such, or globs of them; local or gs://",
    )  # fmt: skip
    parser.add_argument("--output", required=True, metavar="DIR", help="a local folder")
    parser.add_argument(
        "--ledger", action="append", default=[], metavar="PATH",
        help="show what is spent and left of its budgets; a file, or gs://BUCKET/ledger.json",
    )  # fmt: skip
    parser.add_argument(
        "--key", action="append", default=[], metavar="FILE",
        help="the public key of who publishes: add a page of what `hushbeam verify` finds",
    )  # fmt: skip
    parser.add_argument(
        "--log", metavar="FOLDER", help="the ledger's public log, for the page of --key"
    )
    parser.add_argument("--head", metavar="FILE", help="a head of that log that was kept")
    parser.add_argument(
        "--serve", nargs="?", type=int, const=8000, metavar="PORT",
        help="show it in a browser on this machine alone, until Ctrl-C (default: 8000)",
    )  # fmt: skip
    parser.set_defaults(command=deferred(run))


def run(arguments: argparse.Namespace) -> int:
    """Make a site, and serve it if that is asked.

    Raises:
        RequestError: there is nothing to show, or the folder holds something else.
    """
    from pipelines.ledger.account import accounts
    from pipelines.releases import history
    from pipelines.site.build import build

    if arguments.serve is not None and not 0 <= arguments.serve < 1 << 16:
        raise RequestError("--serve: a port is a number up to 65535")
    if arguments.serve is not None and answers.wanted():
        raise RequestError("--serve ends with Ctrl-C, and --json answers at the end: name one")
    published = history.releases_in(arguments.releases)
    budgets = [account for path in arguments.ledger for account in accounts(path)]
    report = _verification(arguments)
    if report is None:
        pages = build(published, arguments.output, budgets)
    else:
        from pipelines.verify.page import page

        pages = build(published, arguments.output, budgets, page(report), report.faulty)
    index = f"{arguments.output}/index.html"
    answers.tell(pages=pages, releases=len(published), index=index)
    made = f"{number_of(pages, 'page')} over {number_of(len(published), 'release')} of metrics"
    print(f"{made}: {index}")
    if arguments.serve is not None:
        from pipelines.site.serve import serve

        serve(arguments.output, arguments.serve)
    return DONE


def _verification(arguments: argparse.Namespace) -> Report | None:
    """What holds of the releases, if a key is named.

    Raises:
        RequestError: the key, the log or its head cannot be read; or one of them alone is named.
    """
    if not arguments.key:
        if arguments.log or arguments.head:
            raise RequestError("--log and --head are for verification: name the --key as well")
        return None
    from pipelines.verify.verify import opened, verified

    verifier = opened(arguments.key, arguments.log, arguments.head)
    return verified(arguments.releases, verifier)
