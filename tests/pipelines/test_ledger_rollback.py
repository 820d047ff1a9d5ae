"""An older copy of a ledger, a cut or rewritten one, a second one: each is refused, and said."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mechanisms.randomness import SecureRandom
from pipelines.errors import Caution, FailedError, RequestError
from pipelines.journal import journal as journals
from pipelines.journal.checkpoint import Leaf, keyed
from pipelines.journal.journal import FactJournal
from pipelines.journal.sqlite_keeping import SqliteKeeping
from pipelines.ledger.beginning import LedgerRequest, adopt, init
from pipelines.ledger.entries import Budget, Entry, Population
from pipelines.ledger.evidence import standing
from pipelines.ledger.key import key
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.rules import BudgetExceeded
from pipelines.ledger.snapshot import fact_of
from pipelines.ledger.witness import Seen, Witness
from pipelines.releases import release
from pipelines.storage.backoff import Backoff
from pipelines.storage.local_object import LocalObject
from pipelines.storage.paths import siblings
from tests.fakes.ledger_rivals import request
from tests.fakes.ledgers import begun

ONE = Budget(epsilon=1.0, delta=0.0)
LITTLE = Budget(epsilon=0.05, delta=0.0)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A ledger with a budget of 1, and five releases of 0.1."""
    path = str(tmp_path / "ledger.sqlite")
    begun(path, budget=ONE, witness=tmp_path / "out" / "witness.json")
    for day in range(5):
        publish(path, day)
    return path


def publish(path: str, day: int, epsilon: float = 0.1) -> Entry:
    """What a run does."""
    output = os.path.join(os.path.dirname(path), "out", str(day))
    ledger = CollectionLedger.open(path, [os.path.join(os.path.dirname(output), "*")])
    with ledger.spend(request(f"day {day}", output, epsilon)) as reservation:
        if not reservation.published:
            statement = {**reservation.stamp, "plan": {"collection": "trips"}}
            release.publish(output, {"table": b"x"}, statement)
            reservation.commit()
    return reservation.entry


def test_what_nobody_has_touched_goes_on(path: str) -> None:
    for day in range(5, 10):
        publish(path, day)
    with pytest.raises(BudgetExceeded):
        publish(path, 10)
    assert sum(entry.counted for entry in CollectionLedger.open(path).entries()) == 10


def put_back(path: str, copy: str) -> None:
    shutil.copyfile(copy, path)


def cut(path: str, _: str) -> None:
    """The last changes are taken out, as a text editor for databases can."""
    database = sqlite3.connect(path)
    database.executescript("DROP TRIGGER facts_kept; DELETE FROM facts WHERE number > 8")
    database.close()


def rewrite(path: str, _: str) -> None:
    """One price is made smaller, and all heads after it are made anew: without the key."""
    database = sqlite3.connect(path)
    rows = database.execute("SELECT number, kind, name, body, salt FROM facts ORDER BY number")
    ((head,),) = database.execute("SELECT head FROM checkpoints").fetchall()
    database.execute("DROP TRIGGER facts_unchanged")
    for number, kind, name, text, salt in rows.fetchall():
        text = text.replace('"epsilon":0.1', '"epsilon":0.0')
        head = keyed(bytes(32), head, Leaf(number, kind, name, json.loads(text), salt).digest)
        database.execute(
            "UPDATE facts SET body = ?, head = ? WHERE number = ?", (text, head, number)
        )
    database.commit()
    database.close()


def alter(path: str, _: str) -> None:
    """One early price is made smaller, and nothing else is touched."""
    database = sqlite3.connect(path)
    database.execute("DROP TRIGGER facts_unchanged")
    database.execute(
        "UPDATE facts SET body = replace(body, '\"epsilon\":0.1', '\"epsilon\":0.0') "
        "WHERE number = 4"
    )
    database.commit()
    database.close()


def fork(path: str, copy: str) -> None:
    """An older copy that has gone on by itself, and is as long as the other by now."""
    ledger = CollectionLedger.at(copy)
    journal, last = FactJournal(ledger.keeping, key()), CollectionLedger.at(path).read().seen
    while (now := ledger.read()).seen.changes < last.changes:
        journal.add(now.state, [fact_of(now.entries[0])])  # the witness is not told
    put_back(path, copy)


@pytest.mark.parametrize(
    ("tampered", "said"),
    [
        (put_back, "it is an older copy; put the newest copy back"),
        (cut, "it is an older copy; put the newest copy back"),
        (rewrite, "its history is not as it was written"),
        (alter, "its history is not as it was written"),
        (fork, "has another history than"),
    ],
)
@pytest.mark.parametrize("witness", ["stands", "is put back, too", "is gone"])
def test_rollbacks_are_refused_all_of_them(
    path: str, tmp_path: Path, tampered: Callable[[str, str], None], said: str, witness: str
) -> None:
    """By the witness; if that was put back or taken away with it, by the releases that stand."""
    copy, seen = str(tmp_path / "copy.sqlite"), tmp_path / "out" / "witness.json"
    shutil.copyfile(path, copy)
    before = seen.read_bytes()
    for day in range(5, 8):
        publish(path, day)
    tampered(path, copy)
    if witness != "stands":
        seen.unlink()
    if witness == "is put back, too":
        seen.write_bytes(before)
    content = Path(path).read_bytes()
    with pytest.raises(RequestError) as refusal:
        publish(path, 8)
    by_witness = witness == "is gone" and tampered not in (rewrite, alter)
    assert ("the witness of" if by_witness else said) in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert Path(path).read_bytes() == content
    assert not (tmp_path / "out" / "8").exists()


@pytest.mark.parametrize(
    ("tampered", "said"), [(put_back, "it is an older copy"), (fork, "has another history than")]
)
@pytest.mark.parametrize("witness", ["stands", "is put back, too"])
def test_rollbacks_are_refused_across_segments(
    path: str, tmp_path: Path, tampered: Callable[[str, str], None], said: str, witness: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """What releases and witness know of is read back as far as that, and no farther."""
    monkeypatch.setattr(journals, "_LEAST", 4)
    copy, seen = str(tmp_path / "copy.sqlite"), tmp_path / "out" / "witness.json"
    for day in range(5, 8):
        publish(path, day)
    CollectionLedger.open(path, [str(tmp_path / "out" / "*")])  # the first release, too
    assert CollectionLedger.open(path).read().state.segment.checkpoint.count > 0
    shutil.copyfile(path, copy)
    before = seen.read_bytes()
    publish(path, 8)
    tampered(path, copy)
    if witness != "stands":
        seen.write_bytes(before)
    with pytest.raises(RequestError, match=said):
        publish(path, 9)


def test_a_ledger_that_is_ahead_of_its_witness_is_sound(path: str, tmp_path: Path) -> None:
    """A run died between its two writes: the next one tells the witness."""
    seen = tmp_path / "out" / "witness.json"
    before = seen.read_bytes()
    publish(path, 5)
    seen.write_bytes(before)
    CollectionLedger.open(path)
    assert json.loads(seen.read_text())["changes"] == CollectionLedger.at(path).read().seen.changes


def test_a_witness_that_cannot_be_written_ends_nothing(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    ledger = CollectionLedger.open(path)
    entry = ledger.entries()[0]
    with monkeypatch.context() as patch:
        patch.setattr("pipelines.storage.local_object.os.fsync", full)
        with pytest.warns(Caution, match=r"No space left.*nobody would notice an older copy"):
            ledger.change(entry.id, lambda _: {"archived": True})
    assert ledger.entries()[0].archived
    assert not list((tmp_path / "out").glob(".*"))


def test_a_second_ledger_is_not_begun_where_releases_stand(path: str, tmp_path: Path) -> None:
    os.rename(path, f"{path}.away")
    (tmp_path / "out" / "witness.json").unlink()
    population = Population(name="trips", unit="user", scope="user", budget=ONE)
    place = str(tmp_path / "other.json")
    asked = LedgerRequest(path, population, place, [str(tmp_path / "out" / "*")])
    with pytest.raises(RequestError, match=r"was paid for from a ledger that is not at .*: put it"):
        init(asked)
    assert not os.path.exists(path)
    # Begun without a word of the releases, it is found out by the next run.
    begun(path, budget=ONE, witness=place)
    ledger = CollectionLedger.open(path)
    with ledger.spend(request("day 9", str(tmp_path / "elsewhere"))) as reservation:
        reservation.commit()
    with pytest.raises(RequestError, match="two ledgers have two budgets"):
        publish(path, 8)


def test_a_witness_is_no_other_ledger_s(path: str, tmp_path: Path) -> None:
    place = tmp_path / "out" / "witness.json"
    with pytest.raises(RequestError, match=r"has seen a ledger of \d+ changes that is not at"):
        begun(tmp_path / "second.sqlite", witness=place)
    assert not (tmp_path / "second.sqlite").exists()
    begun(tmp_path / "second.sqlite", witness=tmp_path / "second.json")
    shutil.copyfile(tmp_path / "second.json", place)
    with pytest.raises(RequestError, match="is of another ledger than"):
        CollectionLedger.open(path)


def test_a_key_that_is_absent_or_another_is_told(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUSHBEAM_LEDGER_KEY", str(tmp_path / "key"))
    with pytest.raises(RequestError, match=r"there is no key of ledgers in .*: copy it from"):
        CollectionLedger.open(path)
    assert not (tmp_path / "key").exists()
    (tmp_path / "key").write_bytes(bytes(32))
    with pytest.raises(RequestError, match=r"is kept under another key than this machine's"):
        CollectionLedger.open(path)
    assert len(CollectionLedger.at(path).unverified().entries) == 5  # as a worker reads it


def test_a_missing_release_stops_its_own_window_alone(path: str, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "out" / "2")
    with pytest.raises(RequestError, match=r"its release is not in .*/2: put it back from a copy"):
        publish(path, 2)
    publish(path, 5)
    (entry,) = [entry for entry in CollectionLedger.open(path).entries() if entry.window == "day 2"]
    ledger = CollectionLedger.open(path)
    with pytest.raises(RequestError, match=r"stands in .*: nothing to archive"):
        ledger.archive(ledger.entries()[0].id)
    assert ledger.archive(entry.id).archived
    assert publish(path, 2).id == entry.id
    assert not (tmp_path / "out" / "2").exists()
    assert sum(entry.counted for entry in ledger.entries()) == 6


def test_a_ledger_that_lost_its_end_goes_on_by_an_operator_s_word(
    path: str, tmp_path: Path
) -> None:
    copy, witness = str(tmp_path / "copy.sqlite"), str(tmp_path / "out" / "witness.json")
    with pytest.raises(RequestError, match="is sound: there is nothing to adopt"):
        adopt(path, witness, None, False)
    shutil.copyfile(path, copy)
    publish(path, 5, 0.3)
    put_back(path, copy)
    with pytest.raises(RequestError, match="--lost is missing: the most that was spent"):
        adopt(path, witness, None, False)
    assert "5 entries" in adopt(path, witness, Budget(epsilon=0.3, delta=0), False)
    publish(path, 6, 0.2)  # 0.5 and 0.3 are spent
    with pytest.raises(BudgetExceeded):
        publish(path, 7, 0.01)
    seen = [stand.seen.ledger for stand in standing([str(tmp_path / "out" / "*")])]
    assert len(set(seen)) == 2  # what the old one has paid for is not held against the new one


def test_budgets_are_amended_and_units_are_not(path: str, tmp_path: Path) -> None:
    more = Population(
        name="trips", unit="user", scope="user", budget=Budget(epsilon=2.0, delta=0.0)
    )
    with pytest.raises(RequestError, match="--amend gives it another budget"):
        init(LedgerRequest(path, more))
    assert "epsilon 2" in init(LedgerRequest(path, more, amend=True))
    for other in ({"unit": "row"}, {"scope": "user per window"}):
        with pytest.raises(RequestError, match=r"knows 'trips', per user"):
            init(LedgerRequest(path, more.model_copy(update=other), amend=True))
    new = more.model_copy(update={"name": "rides"})
    init(LedgerRequest(path, new))
    assert "epsilon 2" in init(
        LedgerRequest(path, new.model_copy(update={"unit": "row"}), amend=True)
    )
    asked = request("w", str(tmp_path / "w"), 0.1, budget=Budget(epsilon=3.0, delta=0.0))
    with pytest.raises(RequestError, match=r"has one of epsilon 2, delta 0 .* not of 3, 0"), \
            CollectionLedger.open(path).spend(asked):  # fmt: skip
        pytest.fail("nothing may be read")


def test_what_is_damaged_or_rewritten_is_not_adopted(path: str, tmp_path: Path) -> None:
    """Whatever --lost says: the lost ones are no excuse for those that were altered."""
    witness, copy = tmp_path / "out" / "witness.json", str(tmp_path / "copy.sqlite")
    shutil.copyfile(path, copy)
    database = sqlite3.connect(path)
    database.executescript("DROP TRIGGER facts_kept; DELETE FROM facts WHERE number IN (5, 6)")
    database.close()
    for lost, surely in ((None, False), (None, True), (LITTLE, False)):
        with pytest.raises(RequestError, match="its facts are none"):
            adopt(path, str(witness), lost, surely)
    put_back(path, copy)
    alter(path, copy)
    witness.unlink()
    for lost, surely in ((None, False), (None, True), (LITTLE, False)):
        with pytest.raises(RequestError, match="its history is not as it was written"):
            adopt(path, str(witness), lost, surely)


def test_who_has_another_key_says_that_something_was_lost(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUSHBEAM_LEDGER_KEY", str(tmp_path / "key"))
    (tmp_path / "key").write_bytes(bytes(32))
    witness = str(tmp_path / "out" / "witness.json")
    with pytest.raises(RequestError, match=r"kept under another key .* say more than 0"):
        adopt(path, witness, None, True)
    adopt(path, witness, LITTLE, False)
    assert len(CollectionLedger.open(path).entries()) == 6


def test_a_copy_that_was_adopted_and_the_original_do_not_both_go_on(
    path: str, tmp_path: Path
) -> None:
    copy, away = str(tmp_path / "copy.sqlite"), str(tmp_path / "other.json")
    shutil.copyfile(path, copy)
    publish(path, 5)
    everywhere = [str(tmp_path / "out" / "*")]
    with pytest.raises(RequestError, match="more than 0, the most that the lost ones have spent"):
        adopt(copy, away, None, True)
    (tmp_path / "out" / "witness.json").rename(tmp_path / "seen.json")
    with pytest.raises(RequestError, match=r"a release knows of .*: say more than 0"):
        adopt(copy, away, None, True, [*standing(everywhere)])
    adopt(copy, away, LITTLE, False, [*standing(everywhere)])
    CollectionLedger.open(copy, everywhere)  # what stood when it was adopted is what was lost
    (tmp_path / "seen.json").rename(tmp_path / "out" / "witness.json")
    publish(path, 6)
    with pytest.raises(RequestError, match="both have gone on"):
        CollectionLedger.open(copy, everywhere)
    with pytest.raises(RequestError, match="say more than 0"):
        adopt(copy, away, None, True, [*standing(everywhere)])
    adopt(copy, away, LITTLE, False, [*standing(everywhere)])
    CollectionLedger.open(copy, everywhere)


def test_what_is_spent_while_a_ledger_is_adopted_stays(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile() -> bytes:
        publish(path, 5)
        return key()

    witness = str(tmp_path / "out" / "witness.json")
    with monkeypatch.context() as patch:
        patch.setattr("pipelines.ledger.beginning.key_to_begin", meanwhile)
        with pytest.raises(FailedError, match="changed meanwhile; nothing was added: run again"):
            adopt(path, witness, None, True)
    assert len(CollectionLedger.open(path, [str(tmp_path / "out" / "*")]).entries()) == 6


def test_who_waits_for_a_ledger_that_is_replaced_writes_nothing(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file under its lock has no name any more: what it took would be forgotten."""
    ledger = CollectionLedger.open(path)
    snapshot = ledger.read()
    honest = SqliteKeeping._open

    @contextmanager
    def late(self: SqliteKeeping) -> Iterator[sqlite3.Connection]:
        with honest(self) as database:
            shutil.copyfile(path, f"{path}.new")
            os.replace(f"{path}.new", path)
            yield database

    with monkeypatch.context() as patch:
        patch.setattr(SqliteKeeping, "_open", late)
        assert ledger.write(snapshot.entries[0], snapshot) is None
    assert ledger.read().seen == snapshot.seen


def test_a_second_ledger_is_found_out_by_its_first_run(path: str, tmp_path: Path) -> None:
    os.rename(path, f"{path}.away")
    everywhere = [str(tmp_path / "out" / "*")]
    begun(path, budget=ONE, witness=tmp_path / "other.json")
    with pytest.raises(RequestError, match="two ledgers have two budgets"):
        CollectionLedger.open(path, everywhere)  # the population is the same
    os.remove(path)
    begun(path, "other", budget=ONE, witness=tmp_path / "third.json")
    CollectionLedger.open(path, everywhere)
    with pytest.raises(RequestError, match="two ledgers have two budgets"):
        CollectionLedger.open(path, everywhere, "trips")


def test_a_ledger_is_begun_beside_another_collection_s_releases(path: str, tmp_path: Path) -> None:
    releases, new = [str(tmp_path / "out" / "*")], str(tmp_path / "new.sqlite")
    for name, collection, stands in (("trips", "a", True), ("a", "trips", True), ("a", "a", False)):
        people = Population(name=name, unit="user", scope="user", budget=ONE)
        asked = LedgerRequest(new, people, f"{new}.json", releases, collection=collection)
        if stands:
            with pytest.raises(RequestError, match="was paid for from a ledger that is not at"):
                init(asked)
        else:
            init(asked)


def test_a_copy_from_before_the_first_entry_needs_its_witness(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger.sqlite")
    begun(path, budget=ONE, witness=tmp_path / "witness.json")
    (tmp_path / "witness.json").unlink()
    with pytest.raises(RequestError, match=r"the witness of .* is not there"):
        CollectionLedger.open(path)


def test_a_forged_release_is_named(path: str, tmp_path: Path) -> None:
    stamp = json.loads((tmp_path / "out" / "4" / "statement.json").read_text())["ledger"]
    (tmp_path / "out" / "evil").mkdir()
    (tmp_path / "out" / "evil" / "statement.json").write_text(
        json.dumps({"statement_version": 1, "ledger": {**stamp, "changes": 1000}})
    )
    with pytest.raises(RequestError, match=r"in .*/evil knows of 1000.*Its witness agrees with it"):
        publish(path, 5)


def test_a_release_from_before_its_ledger_was_adopted_is_forged(path: str, tmp_path: Path) -> None:
    adopt(path, str(tmp_path / "out" / "witness.json"), LITTLE, False)
    entry, seen = publish(path, 5).id, CollectionLedger.open(path).read().seen
    (tmp_path / "out" / "evil").mkdir()
    said = {"id": seen.ledger, "changes": 3, "head": seen.head, "entry": entry}
    (tmp_path / "out" / "evil" / "statement.json").write_text(
        json.dumps({"statement_version": 1, "ledger": said})
    )
    with pytest.raises(RequestError, match=r"another history than the release in .*/evil has seen"):
        publish(path, 6)


def test_a_witness_follows_one_ledger_alone(tmp_path: Path) -> None:
    witness = Witness(
        LocalObject(str(tmp_path / "w.json"), "--witness"), Backoff(SecureRandom(), 1.0)
    )
    first = Seen(ledger="a", changes=3, head="x")
    witness.follow(first)
    with pytest.raises(RequestError, match="is of another ledger"):
        witness.follow(Seen(ledger="b", changes=9, head="y"))
    with pytest.raises(RequestError, match="has seen another history"):
        witness.follow(Seen(ledger="a", changes=3, head="y"))
    witness.follow(Seen(ledger="a", changes=2, head="y"))
    assert witness.seen() == first
    witness.follow(Seen(ledger="b", changes=0, head="y"), over=True)
    assert witness.seen() != first


def test_releases_are_seen_in_folders_whose_names_are_globs(tmp_path: Path) -> None:
    for name in ("[prod]", "a*b?"):
        folder = tmp_path / name
        (folder / "out" / "mon").mkdir(parents=True)
        (folder / "out" / "mon" / release.STATEMENT).write_text("{}")
        found = release.newest([siblings(str(folder / "out" / "tue"))], None)
        assert found == [str(folder / "out" / "mon")]


def test_a_ledger_that_was_deleted_is_not_begun_anew(tmp_path: Path) -> None:
    """Its witness stands in a place that is known by the ledger's own."""
    path = str(tmp_path / "one.sqlite")
    population = Population(name="trips", unit="user", scope="user", budget=ONE)
    init(LedgerRequest(path, population, None))
    os.rename(path, f"{path}.away")
    with pytest.raises(RequestError, match=r"has seen a ledger of \d+ changes that is not at"):
        init(LedgerRequest(path, population, None))
    assert not os.path.exists(path)
    os.rename(f"{path}.away", path)
    with CollectionLedger.open(path).spend(request("day 1", str(tmp_path / "out"))) as reservation:
        reservation.commit()
