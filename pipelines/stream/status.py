"""`hushbeam stream status`: how far a stream's time has come, what waits, and why.

It names windows and files, and says how many reports a window has no more than the stream does:
who looks twice would see whose report came in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pipelines.errors import DONE
from pipelines.plan.loading import load
from pipelines.request import answers
from pipelines.request.requests import no_more
from pipelines.stream.clocks import FILES, MOST, ClockReading, iso, jumped, lead, read, spelt
from pipelines.stream.landing import TRIES, UNREACHED
from pipelines.stream.state import State
from pipelines.stream.windows import Streamed, require_stream
from pipelines.views.console import Screen
from transforms.files.partitions import shown
from transforms.windows import SECOND


def show(path: str, rest: Sequence[str]) -> int:
    """Tell how a plan is served; nothing is changed, and it may be at work meanwhile.

    Args:
        path: of the plan.
        rest: of the command line, which should be empty.

    Returns:
        The exit code.

    Raises:
        RequestError: the plan is no stream, or none has begun.
    """
    no_more(rest)
    plan = load(path)
    streamed = Streamed(plan, require_stream(plan), ())
    state = State.looked_at(streamed.stream.state)
    facts = status(streamed, state, read())
    answers.give(facts)
    screen = Screen()
    for line in _lines(facts):
        screen.say(line)
    return DONE


def status(streamed: Streamed, state: State, clocks: ClockReading) -> dict[str, Any]:
    """What a stream has come to.

    Args:
        streamed: the plan.
        state: what is remembered.
        clocks: of this machine, now.
    """
    evidence, ended, arrived = state.evidence, state.ended, state.arrived
    window = streamed.windows.start  # whose beginning is told in place of a row's own moment
    return {
        "clock": iso(clocks.wall),
        "clock_jumped": jumped(arrived, clocks) // SECOND if arrived else 0,
        "time": "by the rows" if streamed.calendar is None else "by this machine's clock",
        "reached": None if evidence.reached is None else iso(window(evidence.reached)),
        "ended_before": iso(ended),
        "last_files": iso(arrived.wall) if arrived else None,
        "later_files": [iso(window(end)) for end in sorted(evidence.beyond)],
        "windows": [
            {
                "window": streamed.windows.name(start),
                "state": "open" if ended is None or start >= ended else "waits",
                "until": iso(start + streamed.windows.length + streamed.lateness),
                "why": why,
            }
            for start, why in state.open().items()
        ],
        "held": [
            {
                "file": path,
                "until": iso(window(due)),
                "ready": due <= clocks.wall + streamed.ahead,
                "ahead": lead(due, clocks.wall, streamed.windows.length),
            }
            for path, (_, due) in sorted(state.waiting().items())
        ],
        "waiting": state.files("waiting"),
        "out_of_reach": sorted(state.files(UNREACHED)),
        "given_up": sorted(state.files("given up")),
        "counted": state.counters(),
    }


def _lines(facts: dict[str, Any]) -> Iterator[str]:
    yield f"{facts['time']}, time has reached the window of {facts['reached'] or 'no time yet'}"
    yield f"this machine's clock says {facts['clock']}; files last came at {facts['last_files']}"
    if abs(leap := facts["clock_jumped"]) > 60:
        way = "forward" if leap > 0 else "back"
        yield f"since then it went {way} by {spelt(abs(leap) * SECOND)} that nothing has measured"
    if later := facts["later_files"]:
        yield (
            f"{len(later)} of the last {FILES} files say that it is {later[0]} or later: time "
            f"does not follow until {MOST} do"
        )
    for window in facts["windows"]:
        why = f"open until time reaches {window['until']}"
        if window["state"] == "waits":
            why = f"over, and waits for its release: {window['why'] or 'at the next look'}"
        yield f"window {window['window']}: {why}"
    for file in facts["held"]:
        if file["ready"]:
            yield f"held {file['file']}: the clock has reached its rows; taken in at the next look"
            continue
        yield (
            f"held {file['file']}: its rows are {file['ahead']} ahead of this machine's clock; "
            f"taken in when it reaches {file['until']}"
        )
    for path, tries in facts["waiting"].items():
        yield f"waiting {shown(path)}: cannot be read ({tries} of {TRIES} looks)"
    for path in facts["out_of_reach"]:
        yield f"waiting {shown(path)}: the system refuses to read it; it is looked at again"
    for path in facts["given_up"]:
        yield f"given up {shown(path)}"
    for name, amount in facts["counted"].items():
        yield f"{amount:,} {name}"
