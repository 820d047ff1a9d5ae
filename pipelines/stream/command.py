"""`hushbeam stream` on the command line."""

from __future__ import annotations

import argparse
from typing import Any

_ABOUT = """\
Serve a plan for as long as files land: rows are put into windows by the time at which they
happened, and each window is released once, when time has passed it. See docs/streams.md.
"""

_MORE = """\
examples:
  hushbeam stream trips.yaml
  hushbeam stream trips.yaml --once           (from a scheduler)
  hushbeam stream status trips.yaml           (also while it runs)
  hushbeam stream trips.yaml --subscription projects/my-project/subscriptions/my-reports

Stop it with Ctrl-C or SIGTERM: it finishes its batch, and goes on from there when it is started
again. Every option that hushbeam does not know goes to Beam.
exit codes: 0 stopped or done; 1 something waits: a window for its budget, or files that are held;
2 the plan is wrong; 3 the run failed.
"""


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    parser = commands.add_parser("stream", description=_ABOUT, epilog=_MORE)
    parser.add_argument(
        "part", nargs="?", choices=["status"], metavar="status",
        help="tell how far time has come, what waits, and why; nothing is changed",
    )  # fmt: skip
    parser.add_argument("plan", metavar="PLAN", help="a YAML file that says `stream:`")
    ends = parser.add_mutually_exclusive_group()
    ends.add_argument("--once", action="store_true", help="end when what has landed is taken in")
    ends.add_argument(
        "--drain", action="store_true", help="so, and end every window: nothing more will come"
    )
    parser.add_argument(
        "--every", type=float, default=10.0, metavar="SECONDS", help="between two looks (10)"
    )
    parser.add_argument(
        "--subscription", metavar="NAME",
        help="of Pub/Sub: its messages are clients' reports, and no files are looked for",
    )  # fmt: skip
    parser.add_argument(
        "--accept-clock", action="store_true",
        help="this machine's clock is right: take in the files that are held, without their rows "
        "that are ahead, and believe what time the latest files say it is",
    )  # fmt: skip
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Serve a plan, or tell how it is served."""
    if arguments.part == "status":
        from pipelines.stream.status import show

        return show(arguments.plan, beam_arguments)
    # Beam takes a second to import, and warns while it does: by now logs are silent.
    from pipelines.stream.run import run as serve

    return serve(
        arguments.plan, arguments.once, arguments.drain, arguments.every,
        arguments.subscription, arguments.accept_clock, beam_arguments,
    )  # fmt: skip
