"""Signs of life: a run that other machines cannot see says now and then that it goes on."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone

from pipelines.errors import FailedError, RequestError

EVERY = 300.0  # seconds between two signs
# Without one for so long, a run is taken for lost. If it is not, it has worked in vain: neither
# ledger nor folder takes anything from an attempt that was overtaken.
SILENCE = timedelta(seconds=3 * EVERY)
THREAD = "signs of life"

_giving = threading.Lock()  # a sign


@contextmanager
def alive(sign: Callable[[], object]) -> Iterator[None]:
    """Give a sign every few minutes, as long as the block goes on."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(EVERY):
            # A ledger out of reach now may be there in time for the next sign.
            with _giving, contextlib.suppress(RequestError, FailedError):
                sign()

    thread = threading.Thread(target=beat, name=THREAD, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()


@contextmanager
def at_rest() -> Iterator[None]:
    """Give no sign meanwhile: the thread that would holds no lock but its own, and may be copied.

    A copy of a process has none of its threads, and all the locks that they held.
    """
    with _giving:
        yield


def is_silent(since: str) -> bool:
    """Whether the last sign of life, an ISO 8601 time, is too long ago; or of a wrong clock."""
    return abs(datetime.now(timezone.utc) - datetime.fromisoformat(since)) > SILENCE
