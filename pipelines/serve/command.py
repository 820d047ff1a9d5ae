"""`hushbeam serve` on the command line."""

from __future__ import annotations

from typing import Any

from pipelines.request.commands import add
from pipelines.request.options import option
from pipelines.request.requests import RequestOptions

_DOC = """\
Take what devices post over HTTP, and keep it until the window is closed: sealed reports for the
shuffler's landing folder; with --devices, requests for tokens, as their issuer; with --strings,
requests of the OPRF party. A window that is opened beside a running service is served at once. See
docs/serve.md.
"""

_MORE = """\
examples:
  hushbeam serve plan.yaml --window 2026-11-20 --landing landing --processes 2
  hushbeam serve plan.yaml --window 2026-11-21 --landing landing --open     # served at once
  hushbeam serve plan.yaml --window 2026-11-20 --landing landing --close    # landing/*.reports

exit codes: 0 done; 2 the plan or its input is wrong; 3 the run failed.
"""


class ServeRequest(RequestOptions):
    """What is served."""

    plan: str = option("a YAML file, the same for all parties", metavar="PLAN", positional=True)
    window: str | None = option(
        "what stands for {window} in the plan, as in 2026-11-20; it is opened unless it is already "
        "(default: all that are open)",
        None, metavar="NAME",
    )  # fmt: skip
    landing: str = option(
        "where reports land when a window is closed; of each party a folder of its own, on a disk "
        "of this machine",
        metavar="FOLDER",
    )  # fmt: skip
    open: bool = option("open the window for services that run, and serve nothing", False)
    close: bool = option(
        "close the window: take no more, land its reports, and forget spent tokens", False
    )
    keys: str | None = option(
        "the folder with the seeds of windows, as of `hushbeam parties keys`: of the tokens that "
        "pay for posts or are issued, and of the OPRF party",
        None, metavar="FOLDER",
    )  # fmt: skip
    devices: str | None = option(
        "issue tokens, once a window, to devices that are listed as `hushbeam parties tokens "
        "device` says, a line each",
        None, metavar="FILE",
    )  # fmt: skip
    queries: bool = option("issue tokens that pay for strings, not for reports", False)
    strings: bool = option("be the OPRF party: evaluate strings that it cannot see", False)
    most: int | None = option(
        "reports a window takes (default: 10,000,000); or elements of a request (default: as the "
        "plan says)",
        None, metavar="N", gt=0,
    )  # fmt: skip
    port: int = option("on this machine alone", 8080, metavar="PORT", ge=0, lt=1 << 16)
    processes: int = option("that share the port and the folder", 1, metavar="N", gt=0)


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    add(commands, "serve", ServeRequest, "pipelines.serve.running:serve", _DOC, _MORE)
