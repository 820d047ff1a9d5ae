"""A ledger in a bucket: compare-and-swap over an object that has bad days."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mechanisms.randomness import SecureRandom, SeededRandom
from pipelines.errors import FailedError, RequestError, WithheldError
from pipelines.journal.object_keeping import ObjectKeeping
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.snapshot import ledger_format
from pipelines.storage.backoff import Backoff
from pipelines.storage.objects import Changed, Unavailable
from tests.fakes.ledger_rivals import request
from tests.fakes.ledgers import begun
from tests.fakes.waiting import HANGS


@dataclass
class MemoryObject:
    """An object that can be told how to fail.

    Attributes:
        faults: of the next writes: "refuse" (nothing is written), "lost" (it is, and nobody says
            so), "rival" (another entry is put in between first).
        overtake: what others do after the next write, which nobody confirms.
    """

    content: bytes = b""
    generation: int = 0
    faults: deque[str] = field(default_factory=deque)
    silent: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    name: str = "gs://bucket/ledger.json"
    overtake: Callable[[], Any] | None = None

    def fetch(self) -> tuple[bytes, int]:
        with self.lock:
            if self.silent:
                raise Unavailable
            return self.content, self.generation

    def swap(self, content: bytes, generation: int) -> None:
        with self.lock:
            fault = self.faults.popleft() if self.faults else ""
            if fault == "refuse" or self.silent:
                raise Unavailable
            if fault == "rival":
                self.generation += 1
            if generation != self.generation:
                raise Changed
            self.content, self.generation = content, self.generation + 1
            overtake, self.overtake = self.overtake, None
        if overtake is not None:
            overtake()
            raise Unavailable
        with self.lock:
            if fault == "lost":
                raise Unavailable
            if fault == "lost for good":
                self.silent = True
                raise Unavailable


def opened(target: MemoryObject, seconds: float = HANGS) -> CollectionLedger:
    backoff = Backoff(SecureRandom(), seconds, sleep=lambda _: None)
    keeping = ObjectKeeping(target, ledger_format(target.name), backoff)
    return CollectionLedger(target.name, keeping, SecureRandom(), backoff)


def first(target: MemoryObject, folder: Path, seconds: float = HANGS) -> CollectionLedger:
    """The same, begun."""
    return begun(target.name, ledger=opened(target, seconds), witness=folder / "witness.json")


@pytest.mark.parametrize(
    "faults",
    [
        [], ["refuse"] * 3, ["lost"], ["refuse", "lost"], ["rival"],
        ["rival", "lost", "rival", "refuse"],
    ],
)  # fmt: skip
def test_every_change_is_made_once(tmp_path: Path, faults: list[str]) -> None:
    target = MemoryObject()
    ledger, output = first(target, tmp_path), str(tmp_path / "out")
    target.faults.extend(faults)
    with ledger.spend(request("monday", output)) as reservation:
        assert [entry.state for entry in ledger.entries()] == ["reserved"]
        target.faults.extend(faults)
        reservation.commit()
    (entry,) = ledger.entries()
    assert entry.state == "committed"
    assert len(entry.operations) == 2


def test_a_write_that_was_lost_and_overtaken_is_recognised(tmp_path: Path) -> None:
    target = MemoryObject()
    ledger = first(target, tmp_path)
    with ledger.spend(request("monday", str(tmp_path / "a"))) as reservation:
        entry, before = reservation.entry, ledger.read()
        changed = entry.model_copy(update={"operations": (*entry.operations, "mine")})
        # A settlement by somebody else, on top of ours.
        target.overtake = lambda: opened(target).change(entry.id, lambda _: {"state": "spent"})
        after = ledger.write(changed, before)
        assert after is not None
        assert after.seen.changes == before.seen.changes + 1
        assert ledger.read().seen.changes == before.seen.changes + 2
        assert ledger.entries()[0].state == "spent"
        assert "mine" in ledger.entries()[0].operations


@pytest.mark.parametrize("fault", ["refuse", "lost for good"])
def test_a_bucket_that_stays_silent_is_given_up(tmp_path: Path, fault: str) -> None:
    target = MemoryObject()
    ledger = first(target, tmp_path, seconds=0.2)
    target.faults.extend([fault] * 1_000_000)
    with (
        pytest.raises(FailedError, match=r"did not answer within 0.2 s"),
        ledger.spend(request("monday", str(tmp_path / "a"))),
    ):
        pytest.fail("nothing may be read")
    target.faults.clear()
    target.silent = False
    # In doubt it counts: the write that nobody confirmed has arrived.
    assert sum(entry.counted for entry in ledger.entries()) == (fault == "lost for good")


def test_of_sixteen_rivals_one_has_the_last_share(tmp_path: Path) -> None:
    target = MemoryObject()
    ledger = first(target, tmp_path)
    with ledger.spend(request("before", str(tmp_path / "before"), 0.9)) as reservation:
        reservation.commit()
    won: list[int] = []
    barrier = threading.Barrier(16)

    def compete(number: int) -> None:
        mine, output = opened(target), str(tmp_path / str(number))
        target.faults.append("lost" if number % 3 else "refuse")
        barrier.wait(HANGS)
        try:
            with mine.spend(request(f"window {number}", output)) as reservation:
                reservation.commit()
                won.append(number)
        except WithheldError:
            pass

    threads = [threading.Thread(target=compete, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS)
    assert len(won) == 1
    assert [entry.window for entry in ledger.entries()] == ["before", f"window {won[0]}"]


def test_a_missing_object_is_no_empty_ledger() -> None:
    ledger = opened(MemoryObject())
    with pytest.raises(RequestError, match=r"there is no gs://bucket/ledger.json"):
        ledger.read()
    with pytest.raises(RequestError, match=r"there is no gs://bucket/ledger.json"):
        ledger.unverified()


def test_pauses_grow_and_differ() -> None:
    pauses: list[float] = []
    backoff = Backoff(SeededRandom(3), 60.0, sleep=pauses.append)
    attempts = backoff.attempts()
    assert [next(attempts) for _ in range(20)] == list(range(20))
    assert len(set(pauses)) == 19
    assert all(pause <= min(2.0, 0.01 * 2**k) for k, pause in enumerate(pauses))
    assert sum(pauses[:4]) < sum(pauses[-4:])
    assert list(Backoff(SeededRandom(3), 0.0, sleep=pauses.append).attempts()) == [0]
