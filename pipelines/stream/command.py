"""`hushbeam stream` on the command line."""

from __future__ import annotations

from typing import Any, Literal

from pipelines.compat import sparing
from pipelines.request.commands import add
from pipelines.request.options import option
from pipelines.request.requests import RequestOptions

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
2 the plan is wrong; 3 the run failed; 4 a figure that is watched has shifted.
"""


class StreamOptions(RequestOptions):
    """Which plan is served, and for how long."""

    part: Literal["status"] | None = option(
        "tell how far time has come, what waits, and why; nothing is changed",
        None, positional=True,
    )  # fmt: skip
    plan: str = option("a YAML file that says `stream:`", metavar="PLAN", positional=True)
    once: bool = option("end when what has landed is taken in", False)
    drain: bool = option("so, and end every window: nothing more will come", False)
    every: float = option("between two looks (10)", 10.0, metavar="SECONDS", gt=0, lt=86_400)
    subscription: str | None = option(
        "of Pub/Sub: its messages are clients' reports, and no files are looked for",
        None, metavar="NAME",
    )  # fmt: skip
    accept_clock: bool = option(
        "this machine's clock is right: take in the files that are held, without their rows that "
        "are ahead, and believe what time the latest files say it is",
        False,
    )  # fmt: skip

    @property
    def ends(self) -> bool:
        """Whether something is asked that files alone have: an end, or a clock."""
        return self.once or self.drain or self.accept_clock


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    add(commands, "stream", StreamOptions, run, _ABOUT, _MORE, beam=True)


def run(options: StreamOptions, beam_arguments: list[str]) -> int:
    """Serve a plan, or tell how it is served."""
    if options.part == "status":
        from pipelines.stream.status import show

        return show(options.plan, beam_arguments)
    if options.subscription is not None:
        sparing.end()  # Beam's source of Pub/Sub
    # Beam takes a second to import, and warns while it does: by now logs are silent.
    from pipelines.stream.run import run as serve

    return serve(options, beam_arguments)
