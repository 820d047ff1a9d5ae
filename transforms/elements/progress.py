"""Counters a person watches: Beam metrics everywhere, and a live copy in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Lock

NAMESPACE = "hushbeam"
ROWS = "rows read"
READ, FILES = "rows of files that were read", "files that were read"
REPORTS = "reports"
WITHHELD = "withheld"
CHANGED = "files changed"  # while they were read
UNREADABLE = "unreadable: "  # and then which file, and why; nothing of what it holds
SETTLED = "settled meanwhile"  # the price of a release, by an operator who took its run for lost
LOST = "lost on the way"  # by the engine, between two steps
DIVERGED = "diverged at step"  # of a training run; the counter holds the number of the step

# Local runners report metrics only when they have finished; the workers that share this process
# can be watched while they run, and those that were forked from it pass on what they count.
# Elsewhere this stays empty and Beam's own metrics are polled.
_live: Counter[str] = Counter()
_ever: Counter[str] = Counter()
_lock = Lock()
_pass_on: list[Callable[[str, int], None]] = []


def tally(name: str, amount: int) -> None:
    """Add to a counter. Names and amounts only: a counter never carries a value of the data."""
    # Beam takes a second to import: who reads counters alone need not wait.
    from apache_beam.metrics import Metrics

    Metrics.counter(NAMESPACE, name).inc(amount)
    count(name, amount)


def count(name: str, amount: int) -> None:
    """Add to the live copy alone, what a worker has told Beam of itself."""
    with _lock:
        _live[name] += amount
        _ever[name] += amount
        for tell in _pass_on:
            tell(name, amount)


def pass_on(tell: Callable[[str, int], None]) -> None:
    """Have another process told, too, of all that this one counts from now on."""
    _pass_on.append(tell)


def live() -> dict[str, int]:
    """What the workers in this process have counted so far."""
    with _lock:
        return dict(_live)


def ever() -> Counter[str]:
    """What they have counted since this process began, whatever jobs have been started since."""
    with _lock:
        return Counter(_ever)


def reset() -> None:
    """Start a new job's counting."""
    with _lock:
        _live.clear()
