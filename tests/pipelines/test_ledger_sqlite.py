"""A ledger in a file: only whole, only growing, never begun twice."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from pipelines.errors import FailedError, RequestError
from pipelines.ledger.beginning import adopt
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.snapshot import ledger_format
from tests.fakes.ledger_rivals import request
from tests.fakes.ledgers import begun

VERSION = ledger_format("").version

pytestmark = pytest.mark.filterwarnings("ignore::pipelines.errors.Caution")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A ledger with forty committed releases, several pages long."""
    path = str(tmp_path / "ledger.sqlite")
    ledger = begun(path)
    with ledger.spend(request("0", str(tmp_path / "out"), 0.001)) as reservation:
        reservation.commit()
    entry = ledger.entries()[0]
    for k in range(40):
        assert ledger.write(entry.model_copy(update={"id": f"{k:016x}"}), ledger.read())
    return path


def test_what_is_written_is_read(path: str) -> None:
    snapshot = CollectionLedger.at(path).unverified()
    # Its beginning, a population, two changes of the first entry, and forty.
    assert snapshot.seen.changes == 44
    assert len(snapshot.entries) == 41
    assert [entry.id for entry in snapshot.entries[1:]] == [f"{k:016x}" for k in range(40)]
    assert not list(Path(path).parent.glob(".*"))  # no leftovers


def test_of_two_writers_one_is_too_late(path: str) -> None:
    ledger = CollectionLedger.at(path)
    snapshot = ledger.read()
    entry = snapshot.entries[0]
    assert ledger.write(entry.model_copy(update={"state": "spent"}), snapshot)
    assert ledger.write(entry.model_copy(update={"state": "not run"}), snapshot) is None
    assert ledger.read().entries[0].state == "spent"


def test_rows_cannot_be_changed_or_removed(path: str) -> None:
    database = sqlite3.connect(path)
    for statement in ("DELETE FROM facts", "UPDATE facts SET body = ''"):
        with pytest.raises(sqlite3.IntegrityError, match="only grows"):
            database.execute(statement)
    database.close()


@pytest.mark.verify
@pytest.mark.parametrize("share", [0.0, 0.0005, 0.02, 0.3, 0.5, 0.77, 0.99])
def test_a_truncated_ledger_is_refused_and_left_alone(path: str, share: float) -> None:
    content = Path(path).read_bytes()
    cut = content[: int(share * len(content))]
    Path(path).write_bytes(cut)
    with pytest.raises(RequestError, match=r"--ledger: .*restore it from a copy \("):
        CollectionLedger.open(path)
    assert Path(path).read_bytes() == cut


@pytest.mark.verify
@pytest.mark.parametrize("place", range(2, 8))
def test_a_ledger_with_a_page_overwritten_is_refused(path: str, place: int) -> None:
    content = bytearray(Path(path).read_bytes())
    start = place * len(content) // 8
    content[start : start + 512] = bytes(512)
    Path(path).write_bytes(content)
    with pytest.raises(RequestError, match="ledger"):
        CollectionLedger.open(path).entries()


def test_a_single_digit_that_changed_is_noticed(path: str) -> None:
    content = Path(path).read_bytes()
    before, found, after = content.rpartition(b'"epsilon":0.001')
    Path(path).write_bytes(before + found.replace(b"1", b"0") + after)
    with pytest.raises(RequestError, match="its history is not as it was written"):
        CollectionLedger.open(path)


def test_missing_changes_are_noticed(path: str) -> None:
    database = sqlite3.connect(path)
    database.execute("DROP TRIGGER facts_kept")
    database.execute("DELETE FROM facts WHERE number = 7")
    database.commit()
    database.close()
    with pytest.raises(RequestError, match=r"is damaged \(its facts are none\)"):
        CollectionLedger.open(path)


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1])
def test_a_ledger_of_another_format_is_refused_and_left_alone(path: str, version: int) -> None:
    """Also where it is to be begun or adopted: it would forget what was spent."""
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA user_version = {version}")
    database.close()
    content = Path(path).read_bytes()
    for use in (CollectionLedger.open, lambda path: adopt(path, f"{path}.adopted", None, True)):
        with pytest.raises(RequestError, match=rf"of format {version}, and .* keeps format"):
            use(path)
    assert Path(path).read_bytes() == content


def test_other_files_are_refused(tmp_path: Path) -> None:
    text, database = tmp_path / "notes.txt", tmp_path / "other.sqlite"
    text.write_text("meet at noon, " * 100)
    other = sqlite3.connect(database)
    other.execute("CREATE TABLE changes (revision, id, entry)")
    other.close()
    for path in (text, database, tmp_path):
        with pytest.raises(RequestError, match="--ledger"):
            CollectionLedger.open(str(path))


def test_a_locked_ledger_is_waited_for_and_then_given_up(path: str) -> None:
    rival = sqlite3.connect(path, isolation_level=None)
    rival.execute("BEGIN EXCLUSIVE")
    with pytest.raises(FailedError, match=r"was locked for 0.2 s by another process"):
        CollectionLedger.open(path, timeout=0.2)
    rival.execute("ROLLBACK")
    rival.execute("BEGIN IMMEDIATE")  # readers may, writers have to wait
    ledger = CollectionLedger.open(path, timeout=0.2)
    with pytest.raises(FailedError, match="was locked"), ledger.spend(request("new", "out")):
        pytest.fail("nothing may be read")
    rival.close()
    assert len(ledger.entries()) == 41


def test_a_missing_ledger_is_begun_only_where_one_is_wanted(tmp_path: Path) -> None:
    path = tmp_path / "a #1?%41.sqlite"
    with pytest.raises(RequestError, match=r"there is no .*: `hushbeam ledger init PLAN` begins"):
        CollectionLedger.open(str(path))
    assert not path.exists()
    assert begun(path).entries() == ()
    assert sorted(os.listdir(tmp_path)) == [path.name, f"{path.name}.witness"]
    with pytest.raises(RequestError, match="cannot be begun"):
        begun(tmp_path / "no" / "folder" / "ledger.sqlite", witness=tmp_path / "other")


def test_a_failing_disk_leaves_no_half_ledger(tmp_path: Path, monkeypatch) -> None:
    def broken(_: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pipelines.journal.sqlite_keeping.flush", broken)
    with pytest.raises(RequestError, match=r"cannot be begun: No space left"):
        begun(tmp_path / "ledger.sqlite")
    assert os.listdir(tmp_path) == []
