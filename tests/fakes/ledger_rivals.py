"""Processes that spend from one ledger: against each other, and killed in the middle."""

from __future__ import annotations

import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mechanisms.channel import Guarantee
from pipelines.errors import Caution, WithheldError
from pipelines.journal.sqlite_keeping import SqliteKeeping
from pipelines.ledger.entries import Budget
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.rules import Spend
from pipelines.releases import release
from tests.fakes.ledgers import begun
from tests.fakes.waiting import HANGS

RIVALS = 16
SHARES = 10  # of a budget of epsilon 1

_barrier: Any = None


def request(window: str, output: str, epsilon: float = 0.1, **changes: Any) -> Spend:
    """A release of one metric about users; delta 0, so that losses simply add up."""
    loss = Guarantee("shuffle", epsilon, 0.0, "user", "closed form")
    asked: dict[str, Any] = {
        "collection": "trips", "version": 1, "fingerprint": "f00d", "window": window,
        "scope": "user", "budget": Budget(epsilon=1.0, delta=0.0), "losses": (loss,),
        "output": output, "metrics": ("city",),
    }  # fmt: skip
    return Spend(**(asked | changes))


def leave_one_share(path: str, folder: str) -> None:
    """Spend all of a new ledger's budget but one share."""
    ledger = begun(path, witness=f"{folder}.witness")
    with ledger.spend(request("until now", f"{folder}/until-now", 0.9)) as reservation:
        reservation.commit()


@contextmanager
def rivals(server: str | None = None) -> Iterator[Any]:
    """A pool of processes, each of which takes one task of a round."""
    context = multiprocessing.get_context("forkserver")  # imports once, then forks
    context.set_forkserver_preload(["tests.fakes.ledger_rivals"])
    barrier = context.Barrier(RIVALS)
    with context.Pool(RIVALS, _enter, (barrier, server)) as pool:
        yield pool


def _enter(barrier: Any, server: str | None) -> None:
    global _barrier
    _barrier = barrier
    if server is not None:
        os.environ["STORAGE_EMULATOR_HOST"] = server


def compete(task: tuple[str, str, int]) -> bool:
    """Try to spend the last share when all others do; whether it was had."""
    path, folder, number = task
    ledger = CollectionLedger.open(path)
    output = f"{folder}/{number}"
    _barrier.wait(HANGS)
    try:
        with ledger.spend(request(f"window {number}", output)) as reservation:
            reservation.commit()
    except WithheldError:
        return False
    return True


def one_round(pool: Any, path: str, folder: str) -> tuple[int, float]:
    """(how many rivals had the last share, how much is counted as spent after)."""
    leave_one_share(path, folder)
    tasks = [(path, folder, k) for k in range(RIVALS)]
    won = pool.map_async(compete, tasks, chunksize=1).get(HANGS)  # a pool waits for the dead, too
    counted = [entry for entry in CollectionLedger.open(path).entries() if entry.counted]
    return sum(won), sum(loss.epsilon for entry in counted for loss in entry.losses)


def publish_windows(
    path: str, folder: str, windows: int, step: str = "", before: bool = True, call: int = 1,
    first: int = 0,
) -> None:  # fmt: skip
    """Release window after window; with a step, die at the given call of it."""
    ledger = begun(path)
    if step:
        _die_at(step, before, call)
    for number in range(first, windows):
        output = f"{folder}/{number}"
        asked = request(f"window {number}", output, epsilon=1e-3)
        with ledger.spend(asked) as reservation:
            if not reservation.published:
                statement = reservation.stamp
                release.publish(output, {"table": bytes(10_000)}, statement)
                reservation.commit()


STEPS: dict[str, tuple[Any, str]] = {
    "write": (SqliteKeeping, "write"),
    "publish": (release, "publish"),
    "rename": (release.os, "rename"),
    "fsync": (release.os, "fsync"),
}


def _die_at(step: str, before: bool, call: int) -> None:
    """Kill this process, as nobody can prevent, just before or after some call of a function."""
    owner, name = STEPS[step]
    honest: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def deadly(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call and before:
            os.kill(os.getpid(), signal.SIGKILL)
        result = honest(*args, **options)
        if calls == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, deadly)


def started(target: Callable[..., None], *args: Any) -> Any:
    """A process that runs a function of this module."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.fakes.ledger_rivals"])
    process = context.Process(target=_silently, args=(target, *args), daemon=True)
    process.start()
    return process


def _silently(target: Callable[..., None], *args: Any) -> None:
    warnings.simplefilter("ignore", Caution)  # of a new ledger
    target(*args)
