"""Attempts at one release: whoever dies, stops or is late, one draw is seen, and paid for once."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import Caution, FailedError
from pipelines.ledger.entries import Owner
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.outcomes import publication
from pipelines.ledger.owner import this_process
from pipelines.ledger.rules import BudgetExceeded, InProgressError
from pipelines.metrics.metric import Content
from pipelines.metrics.release import PublishDoFn
from pipelines.plan.run import ReleaseTarget
from pipelines.releases import release
from pipelines.storage import alive
from pipelines.storage.claims import Claim
from tests.fakes.ledger_rivals import request
from tests.fakes.ledgers import begun
from tests.fakes.memory_files import MemoryFileSystem
from tests.fakes.waiting import HANGS

BUCKET = "memory://bucket/out"
NAMES = [
    "claim",
    "table",
    "report",
    "signature.json",
    "statement.json",
]  # in the order in which they are written
DEAD = Owner(host=this_process().host, process=2**22 + 1, started="long ago")
ELSEWHERE = Owner(host="0" * 12, process=7, started="long ago")


class KilledError(BaseException):
    """What ends a process, and lets nothing clean up."""


@pytest.fixture
def ledger(tmp_path: Path) -> CollectionLedger:
    MemoryFileSystem.reset()
    return begun(tmp_path / "ledger.sqlite")


def publish(draw: bytes, stamp: dict[str, object]) -> None:
    release.publish(BUCKET, {"table": draw, "report": draw}, stamp)


def dies_at(write: int, ledger: CollectionLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is killed before one of its four writes, or before its claim is taken down."""
    create, count = MemoryFileSystem.create, iter(range(9))

    def deadly(self: MemoryFileSystem, path: str, *rest: object, **more: object) -> object:
        if next(count) == write:
            raise KilledError
        return create(self, path, *rest, **more)

    def nothing(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "create", deadly)
        patch.setattr(MemoryFileSystem, "delete", nothing)  # the dead clean up nothing
        patch.setattr("pipelines.ledger.reservation.Reservation.close", lambda _: None)
        with pytest.raises(KilledError), ledger.spend(request("monday", BUCKET)) as reservation:
            publish(b"first draw", reservation.stamp)
    entry = ledger.entries()[0]
    ledger.change(entry.id, lambda _: {"owner": DEAD})


@pytest.mark.parametrize("write", range(6))
def test_a_run_killed_in_a_bucket_is_brought_to_its_end(
    ledger: CollectionLedger, monkeypatch: pytest.MonkeyPatch, write: int
) -> None:
    """Before its claim stands nothing was seen, and the noise is drawn anew; after it, never."""
    dies_at(write, ledger, monkeypatch)
    with ledger.spend(request("monday", BUCKET)) as reservation:
        assert reservation.published == (write > 0)
        if not reservation.published:
            publish(b"second draw", reservation.stamp)
            reservation.commit()
    assert release.read(BUCKET, "table") == (b"second draw" if write == 0 else b"first draw")
    assert release.read(BUCKET, "report") == release.read(BUCKET, "table")
    (entry,) = ledger.entries()
    assert (entry.state, entry.attempt) == ("committed", 1 + (write == 0))
    left = {path.rpartition("/")[2] for path in MemoryFileSystem.objects}
    assert left == {"table", "report", "signature.json", "statement.json"}


def test_an_attempt_that_stops_in_the_middle_of_a_bucket_mixes_nothing(
    ledger: CollectionLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops after its first file, is taken for lost, overtaken, and wakes up."""
    create, stopped, wake = MemoryFileSystem.create, threading.Event(), threading.Event()

    def stops(self: MemoryFileSystem, path: str, *rest: object, **more: object) -> object:
        if threading.current_thread() is sleeper and path.endswith("report"):
            stopped.set()
            assert wake.wait(HANGS)
        return create(self, path, *rest, **more)

    with ledger.spend(request("monday", BUCKET)) as reservation:
        reservation.hand_over()
    (entry,) = ledger.entries()
    sleeper = threading.Thread(target=publish, args=(b"first draw", reservation.stamp))
    monkeypatch.setattr(MemoryFileSystem, "create", stops)
    sleeper.start()
    assert stopped.wait(HANGS)
    ledger.change(entry.id, lambda _: {"owner": DEAD, "handed_over": False})
    with CollectionLedger.open(ledger.where).spend(request("monday", BUCKET)) as late:
        assert late.published  # the claim held all of it
    before = dict(MemoryFileSystem.objects)
    wake.set()
    sleeper.join(HANGS)
    assert MemoryFileSystem.objects == before
    assert release.read(BUCKET, "table") == b"first draw"


def test_what_an_operator_gave_up_is_not_brought_to_its_end(
    ledger: CollectionLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    dies_at(2, ledger, monkeypatch)
    (entry,) = ledger.entries()
    given_up = ledger.change(entry.id, lambda _: {"state": "not run"})
    assert publication(given_up) == "something"
    assert not release.holds_release(BUCKET)


def test_a_claim_is_taken_once(ledger: CollectionLedger) -> None:
    first = Claim(BUCKET, "a" * 32)
    assert first.files() is None
    assert first.take({"table": b"1"}) == first.take({"table": b"2"}) == {"table": b"1"}
    assert Claim(BUCKET, "b" * 32).files() is None


def test_a_run_out_of_sight_is_overtaken_when_it_is_silent_too_long(
    ledger: CollectionLedger, tmp_path: Path
) -> None:
    """A container that was killed, for the one that is started after it."""
    asked = request("monday", str(tmp_path / "out"))
    with ledger.spend(asked) as lost:
        lost.hand_over()
    for silence, overtaken in ((alive.SILENCE / 2, False), (alive.SILENCE * 1.1, True)):
        when = (datetime.now(timezone.utc) - silence).isoformat(timespec="seconds")
        entry = ledger.entries()[0].model_copy(
            update={"owner": ELSEWHERE, "handed_over": False, "changed_at": when}
        )
        assert ledger.write(entry, ledger.read())
        if not overtaken:
            with pytest.raises(InProgressError), ledger.spend(asked):
                pytest.fail("it may be alive")
    doubt = "stays reserved and counts as spent"  # for the first may live, and publish after all
    with pytest.warns(Caution, match=doubt), ledger.spend(asked) as next_one:
        assert (next_one.entry.id, next_one.entry.attempt) == (entry.id, 2)
    assert ledger.entries()[0].counted
    late = ledger.change(entry.id, lambda _: {"state": "not run"})
    release.publish(asked.output, {}, next_one.stamp)  # as it did
    with pytest.warns(Caution, match="was 'not run', and has published: it counts"):
        CollectionLedger.open(ledger.where, [str(tmp_path / "*")])
    assert (late.counted, ledger.entries()[0].counted) == (False, True)


def test_a_clock_that_was_ahead_stops_nobody_for_ever() -> None:
    for days, silent in ((4000, True), (-4000, True), (0, False)):
        moment = datetime.now(timezone.utc) + timedelta(days=days)
        assert alive.is_silent(moment.isoformat()) == silent


def test_a_refund_of_a_run_that_gives_signs_of_life_is_refused(
    ledger: CollectionLedger, tmp_path: Path
) -> None:
    with ledger.spend(request("monday", str(tmp_path / "out"))) as reservation:
        ledger.change(reservation.entry.id, lambda _: {"owner": ELSEWHERE})
        with pytest.raises(InProgressError):
            ledger.settle(reservation.entry.id, spent=False)


def test_a_run_killed_beside_its_folder_is_brought_to_its_end(
    ledger: CollectionLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All was written under a hidden name: it is that draw which is published, and no other."""

    def killed(*_: object) -> None:
        raise KilledError

    asked = request("monday", str(tmp_path / "out"))
    with monkeypatch.context() as patch:
        patch.setattr("os.rename", killed)
        patch.setattr("shutil.rmtree", lambda *_, **__: None)
        patch.setattr("pipelines.ledger.reservation.Reservation.close", lambda _: None)
        with pytest.raises(KilledError), ledger.spend(asked) as lost:
            release.publish(asked.output, {"table": b"first draw"}, lost.stamp)
    assert release.newest([str(tmp_path / "*")], None) == []
    ledger.change(lost.entry.id, lambda _: {"owner": DEAD})
    with ledger.spend(asked) as next_one:
        assert next_one.published
    assert release.read(asked.output, "table") == b"first draw"
    assert not list(tmp_path.glob(".out*"))


def test_a_bucket_that_breaks_is_gone_on_with(
    ledger: CollectionLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first draw's table was there for a moment, so a second one must never be."""
    create = MemoryFileSystem.create

    def breaks(self: MemoryFileSystem, path: str, *rest: object, **more: object) -> object:
        if path.endswith("report"):
            raise OSError(5, "the store does not answer")
        return create(self, path, *rest, **more)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "create", breaks)
        with (
            pytest.warns(Caution, match="stays reserved and counts as spent"),
            pytest.raises(OSError, match="does not answer"),
            ledger.spend(request("monday", BUCKET)) as reservation,
        ):
            publish(b"first draw", reservation.stamp)
    with ledger.spend(request("monday", BUCKET)) as next_one:
        assert next_one.published
    assert release.read(BUCKET, "report") == b"first draw"
    assert len(ledger.entries()) == 1


def test_who_cannot_tell_whether_it_goes_on_is_not_at_work(
    ledger: CollectionLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its change arrived, and the answer did not: the same process tries again."""
    asked = request("monday", str(tmp_path / "out"))
    with ledger.spend(asked) as lost:
        lost.hand_over()
    ledger.change(lost.entry.id, lambda _: {"owner": DEAD, "handed_over": False})
    honest = CollectionLedger.write

    def unanswered(self: CollectionLedger, *change: Any) -> None:
        honest(self, *change)
        raise FailedError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(CollectionLedger, "write", unanswered)
        with pytest.raises(FailedError, match="no answer"), ledger.spend(asked):
            pytest.fail("nothing may be read")
    with ledger.spend(asked) as next_one:
        assert not next_one.published


def test_a_command_that_was_overtaken_publishes_nothing(
    ledger: CollectionLedger, tmp_path: Path
) -> None:
    asked = request("monday", str(tmp_path / "out"))
    with ledger.spend(asked) as lost:
        lost.hand_over()
    ledger.change(lost.entry.id, lambda _: {"attempt": 2})
    PublishDoFn(asked.output, lost.stamp, ledger.where).process(Content({"t": b"x"}, {}))
    assert not release.holds_release(asked.output)
    ledger.change(lost.entry.id, lambda _: {"attempt": 1})
    PublishDoFn(asked.output, lost.stamp, ledger.where).process(Content({"t": b"x"}, {}))
    assert release.holds_release(asked.output)


def test_a_run_gives_signs_of_life_as_long_as_it_lasts(
    ledger: CollectionLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alive, "EVERY", 0.01)
    given = threading.Event()
    with ledger.spend(request("monday", str(tmp_path / "out"))) as reservation:
        sign = reservation.sign
        with alive.alive(lambda: (sign(), given.set())):
            assert given.wait(HANGS)
        operations = len(ledger.entries()[0].operations)
        assert operations >= 2
    assert not alive.is_silent(ledger.entries()[0].changed_at)
    assert alive.SILENCE >= timedelta(seconds=300) * 3


def test_a_worker_that_lives_on_is_told_that_its_attempt_was_overtaken(
    ledger: CollectionLedger, tmp_path: Path
) -> None:
    asked = request("monday", str(tmp_path / "out"))
    with ledger.spend(asked) as lost:
        lost.hand_over()
    target = ReleaseTarget(asked.output, lost.stamp, ledger.where)
    assert target.stands()
    ledger.change(lost.entry.id, lambda _: {"owner": DEAD, "handed_over": False})
    with ledger.spend(asked) as next_one:
        assert not target.stands()
        assert ReleaseTarget(asked.output, next_one.stamp, ledger.where).stands()


def test_who_goes_on_is_accounted_by_what_is_read_now(tmp_path: Path) -> None:
    """Monday's run was lost; by now its folder holds Sunday's file, too, which has cost 0.7."""
    ledger = begun(tmp_path / "windows.sqlite", scope="user per window")
    asked = partial(request, scope="user per window")
    sunday, monday = "0" * 12, "1" * 12
    with ledger.spend(asked("sunday", str(tmp_path / "a"), 0.7, files=(sunday,))) as made:
        made.commit()
    with ledger.spend(asked("monday", str(tmp_path / "b"), 0.5, files=(monday,))) as lost:
        lost.hand_over()
    ledger.change(lost.entry.id, lambda _: {"owner": DEAD, "handed_over": False})
    more = asked("monday", str(tmp_path / "b"), 0.5, files=(sunday, monday))
    with pytest.raises(BudgetExceeded), ledger.spend(more):
        pytest.fail("Sunday's users would lose 1.2")
    again = asked("monday", str(tmp_path / "b"), 0.5, files=(monday, "2" * 12))
    with ledger.spend(again) as next_one:
        assert (next_one.entry.id, next_one.entry.files) == (lost.entry.id, again.files)


def test_draws_of_killed_attempts_do_not_stay(tmp_path: Path) -> None:
    (tmp_path / ".out.partial-abc").mkdir()
    (tmp_path / ".out.partial-abc" / "table").write_bytes(b"another draw")
    (tmp_path / ".other.partial-abc").mkdir()
    release.publish(str(tmp_path / "out"), {"table": b"x"}, {"release_id": "a"})
    assert {path.name for path in tmp_path.iterdir()} == {"out", ".other.partial-abc"}
