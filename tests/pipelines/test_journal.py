"""A journal gives back what was added, to one writer at a time, and nothing that was altered."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.errors import FailedError, RequestError
from pipelines.journal import journal as journals
from pipelines.journal.checkpoint import Checkpoint, Fact, Leaf, root, with_leaf
from pipelines.journal.journal import FactJournal, JournalState, RivalError
from pipelines.journal.tables import chunk_of, merged, opened, written
from tests.fakes.journals import (
    BUCKETS,
    FORM,
    KEY,
    PLACES,
    CloudObject,
    PowerCut,
    in_bucket,
    in_folder,
    in_sqlite,
)

Place = Callable[..., FactJournal]


@pytest.fixture(params=PLACES, ids=lambda place: place.__name__)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    yield request.param
    BUCKETS.clear()


def add(journal: FactJournal, *facts: Fact) -> JournalState:
    return journal.add(journal.read(), facts)


# ---- adding and reading --------------------------------------------------------------------------


def test_what_was_added_is_read_again(place: Place, tmp_path: Path) -> None:
    journal = place(tmp_path)
    with pytest.raises(RequestError, match="none was begun"):
        journal.read()
    assert journal.begin("mine", [Fact("terms", "epsilon", 1.5)])
    assert not journal.begin("another", [])
    added = add(journal, Fact("a", "x", [1, "\udcff"]), Fact("a", "y", {"b": None}))
    added = add(journal, Fact("a", "x", 2), Fact("a", "y", None), Fact("a", "z", ()))
    again = place(tmp_path).read()
    assert again.tables == added.tables
    assert again.tables == {"terms": {"epsilon": 1.5}, "a": {"x": 2, "z": []}}
    assert (again.account, again.segment.last, again.rows("none")) == ("mine", 6, {})
    # A writer may go on from what it has added, without reading it.
    assert journal.add(added, [Fact("a", "z", 3)]).rows("a") == {"x": 2, "z": 3}


def test_of_two_writers_who_saw_the_same_one_goes_on(place: Place, tmp_path: Path) -> None:
    one, other = place(tmp_path), place(tmp_path)
    one.begin("mine")
    before = other.read()
    add(one, Fact("a", "x", 1))
    with pytest.raises(RivalError, match="--journal: here was changed meanwhile"):
        other.add(before, [Fact("a", "x", 2)])
    assert other.read().rows("a") == {"x": 1}
    assert add(other, Fact("a", "x", 2)).rows("a") == {"x": 2}


def test_a_journal_that_was_put_back_does_not_go_on_from_what_was_seen(tmp_path: Path) -> None:
    journal = in_sqlite(tmp_path)
    journal.begin("mine")
    copy = (tmp_path / "facts.sqlite").read_bytes()
    state = add(journal, Fact("a", "x", 1))
    (tmp_path / "facts.sqlite").write_bytes(copy)
    with pytest.raises(RivalError, match="nothing was added"):
        journal.add(state, [Fact("a", "x", 2)])


def test_a_number_that_json_has_not_is_never_written(place: Place, tmp_path: Path) -> None:
    journal = place(tmp_path)
    journal.begin("mine")
    with pytest.raises(ValueError, match="not JSON compliant"):
        add(journal, Fact("a", "x", float("nan")))
    assert journal.read().segment.last == 0


# ---- what was altered ----------------------------------------------------------------------------


def damage(folder: Path, change: Callable[[list[Any], dict[str, Any]], None]) -> None:
    """Change the facts of a document, or its checkpoint."""
    path = folder / "facts.json"
    said = json.loads(path.read_text())
    change(said["facts"], said)
    path.write_text(json.dumps(said))


def altered(facts: list[Any], _: Any) -> None:
    facts[1][3] = "more"


def removed(facts: list[Any], _: Any) -> None:
    del facts[1]


def removed_last(facts: list[Any], _: Any) -> None:
    facts.pop()


def renumbered(facts: list[Any], _: Any) -> None:
    del facts[1]
    for number, fact in enumerate(facts, 1):
        fact[0] = number


def reordered(facts: list[Any], _: Any) -> None:
    facts[0][1:], facts[1][1:] = facts[1][1:], facts[0][1:]


def inserted(facts: list[Any], _: Any) -> None:
    facts.append([4, "a", "w", "forged", "00" * 16])


def salted(facts: list[Any], _: Any) -> None:
    facts[1][4] = "00" * 16


def of_another(_: Any, said: dict[str, Any]) -> None:
    said["checkpoint"]["account"] = "yours"


def with_tables(_: Any, said: dict[str, Any]) -> None:
    said["checkpoint"]["tables"] = {"windows": {"monday": 1}}


def with_count(_: Any, said: dict[str, Any]) -> None:
    said["checkpoint"]["count"] = -1


def with_frontier(_: Any, said: dict[str, Any]) -> None:
    said["checkpoint"]["frontier"] = ["00" * 32]


def unsigned(_: Any, said: dict[str, Any]) -> None:
    del said["signature"]


def of_no_text(facts: list[Any], _: Any) -> None:
    facts[0][4] = "no digits"


CHANGES = (
    altered, removed, removed_last, renumbered, reordered, inserted, salted, of_another,
    with_tables, with_count, with_frontier, unsigned, of_no_text,
)  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_altered_is_refused_in_one_line(change: Any, tmp_path: Path) -> None:
    journal = in_folder(tmp_path)
    journal.begin("mine")
    add(journal, *(Fact("a", name, name) for name in "xyz"))
    damage(tmp_path, change)
    with pytest.raises(RequestError, match=r"--journal: here is damaged \(.*\): restore") as error:
        journal.read()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE facts SET body = '9' WHERE number = 2",
        "DELETE FROM facts WHERE number = 2",
        "INSERT INTO facts VALUES (4, 'a', 'w', '9', '00', '')",
        "UPDATE facts SET number = number + 9 WHERE number < 3",
        "UPDATE checkpoints SET account = 'yours'",
        'UPDATE checkpoints SET tables = \'{"a": {"w": 1}}\'',
        "UPDATE checkpoints SET tables = 'x'",
        "DELETE FROM checkpoints",
        "DROP TABLE facts",
    ],
)
def test_a_database_that_was_altered_is_refused(change: str, tmp_path: Path) -> None:
    journal = in_sqlite(tmp_path)
    journal.begin("mine")
    add(journal, *(Fact("a", name, name) for name in "xyz"))
    with closing(sqlite3.connect(tmp_path / "facts.sqlite")) as database:
        if not change.startswith(("INSERT", "DROP")):
            with pytest.raises(sqlite3.IntegrityError, match="only grows"):
                database.execute(change)
        names = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (name,) in names.fetchall():
            database.execute(f"DROP TRIGGER {name}")
        database.execute(change)
        database.commit()
    with pytest.raises(RequestError, match=r"--journal: here is damaged \(.*\): restore"):
        journal.read()


def test_who_has_not_the_key_can_neither_read_nor_forge(place: Place, tmp_path: Path) -> None:
    place(tmp_path).begin("mine", [Fact("a", "x", 1)])
    with pytest.raises(RequestError, match="its checkpoint is not as it was written"):
        place(tmp_path, b"another").read()


def test_other_formats_and_other_stores_are_refused(tmp_path: Path) -> None:
    in_folder(tmp_path).begin("mine")
    in_sqlite(tmp_path).begin("mine")
    whole = (tmp_path / "facts.json").read_text()
    for old, new, said in (
        ('"version": 7', '"version": 8', "is of format 8, and this hushbeam keeps format 7"),
        ('"version": 7', '"version": "7"', "has no format number"),
        ('"store": "test"', '"store": "ask"', "of another kind of journal"),
    ):
        (tmp_path / "facts.json").write_text(whole.replace(old, new))
        with pytest.raises(RequestError, match=said):
            in_folder(tmp_path).read()
    for pragma, said in (
        ("user_version", "is of format 8"),
        ("application_id", "no format number"),
    ):
        with closing(sqlite3.connect(tmp_path / "facts.sqlite")) as database:
            database.execute(f"PRAGMA {pragma} = 8")
        with pytest.raises(RequestError, match=said):
            in_sqlite(tmp_path).read()
    (tmp_path / "facts.sqlite").write_bytes(b"garbage" * 99)
    with pytest.raises(RequestError, match="no format number"):
        in_sqlite(tmp_path).read()


# ---- crashes -------------------------------------------------------------------------------------


def test_a_process_that_ends_at_any_write_leaves_all_or_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a fact, and of the segment that it begins.

    Chunks of two tables are written, then the archive, and then the object.
    """
    monkeypatch.setattr(journals, "_LEAST", 1)
    for arrived, cut in product(range(4), ("cut before", "cut after")):
        target = CloudObject()
        BUCKETS[Path()] = target
        journal = in_bucket(Path())
        journal.begin("mine", [Fact("a", "w", 0), Fact("a", "x", 1)])
        target.ahead[:] = [*["ok"] * arrived, cut]
        last = 3 if (arrived, cut) == (3, "cut after") else 2
        with pytest.raises(PowerCut):
            add(journal, Fact("a", "y", 2))
        assert journal.read().segment.last == last
        # Whoever comes next adds it, or finds it, and the archive has the segment before.
        if last == 2:
            add(journal, Fact("a", "y", 2))
        assert journal.read().rows("a") == {"w": 0, "x": 1, "y": 2}
        (kept,) = (name for name in target.bucket if name.startswith("gs://bucket/facts-2-"))
        chunks = {*target.bucket} - {target.name, kept}
        assert len(chunks) == 2
        assert all(name.endswith(".arrow") for name in chunks)
    BUCKETS.clear()


def test_a_bucket_that_does_not_answer_adds_once() -> None:
    target = BUCKETS[Path()] = CloudObject()
    journal = in_bucket(Path())
    journal.begin("mine")
    target.ahead[:] = ["lost", "late"]
    assert add(journal, Fact("a", "x", 1)).segment.last == 1
    assert (journal.read().segment.last, target.ahead) == (1, [])
    BUCKETS.clear()


@pytest.mark.parametrize("arrived", [True, False])
def test_a_write_is_recognised_behind_new_segments(
    monkeypatch: pytest.MonkeyPatch, arrived: bool
) -> None:
    monkeypatch.setattr(journals, "_LEAST", 2)
    target = BUCKETS[Path()] = CloudObject()
    mine, rival = in_bucket(Path()), in_bucket(Path())
    mine.begin("mine")
    before = mine.read()
    swap = CloudObject.swap

    def overtaken(self: CloudObject, content: bytes, generation: int) -> None:
        monkeypatch.setattr(CloudObject, "swap", swap)
        if arrived:
            swap(self, content, generation)
        for number in range(9):
            add(rival, Fact("b", str(number), number))
        self.ahead[:] = ["lost"]
        swap(self, content, generation)

    monkeypatch.setattr(CloudObject, "swap", overtaken)
    if arrived:
        assert mine.add(before, [Fact("a", "x", 1)]).segment.last == 1
    else:
        with pytest.raises(RivalError, match="nothing was added"):
            mine.add(before, [Fact("a", "x", 1)])
    assert mine.read().rows("a") == ({"x": 1} if arrived else {})
    assert len(target.bucket) > 2
    assert target.ahead == []
    BUCKETS.clear()


def test_a_full_disk_adds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.storage import local_object

    journal = in_folder(tmp_path)
    journal.begin("mine")
    whole = (tmp_path / "facts.json").read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(local_object.os, "fsync", full)
        with pytest.raises(RequestError, match="No space left"):
            add(journal, Fact("a", "x", 1))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"facts.json": whole}


def test_a_database_that_is_locked_or_was_cut_off_says_so(tmp_path: Path) -> None:
    journal = in_sqlite(tmp_path)
    journal.begin("mine")
    state = journal.read()
    with closing(sqlite3.connect(tmp_path / "facts.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(FailedError, match=r"locked for 0\.1 s"):
            journal.add(state, [Fact("a", "x", 1)])
        other.execute("ROLLBACK")
    (tmp_path / "facts.sqlite").unlink()
    with pytest.raises(RequestError, match="cannot be read"):
        journal.add(state, [Fact("a", "x", 1)])
    with pytest.raises(RequestError, match="cannot be begun"):
        in_sqlite(tmp_path / "none").begin("mine")


# ---- segments ------------------------------------------------------------------------------------


def test_a_run_reads_no_more_than_the_last_segment(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "_LEAST", 4)
    journal = place(tmp_path)
    journal.begin("mine")
    for number in range(50):
        state = add(journal, Fact("windows", f"w{number % 3}", number))
        last = journal.read().segment
        assert len(last.leaves) <= 5
        assert last.leaves[-1].number == last.last == number + 1
        assert journal.read().tables == state.tables
    assert journal.read().rows("windows") == {"w0": 48, "w1": 49, "w2": 47}
    assert journal.read().segment.checkpoint.account == "mine"


def test_segments_before_the_last_are_kept_and_never_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "_LEAST", 4)
    journal = in_folder(tmp_path)
    journal.begin("mine")
    for number in range(10):
        add(journal, Fact("a", str(number % 2), number))
    names = {path.name for path in tmp_path.iterdir()}
    archived = sorted(name for name in names - {"facts.json"} if name.endswith(".json"))
    assert [name.rpartition("-")[0] for name in archived] == ["facts-4", "facts-8"]
    for name in archived:
        (tmp_path / name).write_text("garbage")
    assert journal.read().rows("a") == {"0": 8, "1": 9}


def test_heads_are_read_back_as_far_as_they_are_needed(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "_LEAST", 4)
    journal = place(tmp_path)
    journal.begin("mine")
    known = {0: journal.read().segment.head}
    for number in range(15):
        state = add(journal, Fact("a", str(number % 2), number))
        known[state.segment.last] = state.segment.head
    assert journal.heads(state, range(16)) == known
    assert {*journal.heads(state, [14])} == {12, 13, 14, 15}
    # Where segments began is signed, so only those are read that something else falls into.
    assert {*journal.heads(state, [4])} == {0, 4, 8, *range(12, 16)}
    assert {*journal.heads(state, [2, 9, 99])} == {*range(5), *range(8, 16)}
    assert all(known[count] == head for count, head in journal.heads(state, [2]).items())


def test_a_journal_goes_on_as_another_account_under_another_key(
    place: Place, tmp_path: Path
) -> None:
    mine, other = place(tmp_path), place(tmp_path, b"another")
    mine.begin("mine", [Fact("a", "x", 1)])
    before = other.unverified()
    after = other.add(before, [Fact("a", "y", 2)], "yours")
    assert (after.account, after.segment.last) == ("yours", 2)
    assert after.rows("a") == {"x": 1, "y": 2}
    assert other.read().tables == after.tables
    assert {*other.heads(after, [0])} == {1, 2}  # what the other account had is not its history
    with pytest.raises(RequestError, match="its checkpoint is not as it was written"):
        mine.read()
    with pytest.raises(RivalError):
        mine.add(before, [Fact("a", "z", 3)])


def test_an_earlier_segment_that_is_gone_or_of_another_history_is_no_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "_LEAST", 4)
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        journal = in_folder(tmp_path / folder)
        journal.begin("mine")
        for number in range(6):
            state = add(journal, Fact("a", "x", number))
    (own,), (others,) = ((tmp_path / folder).glob("facts-*.json") for folder in ("two", "one"))
    whole = own.read_bytes()
    for content, said in (
        (others.read_bytes(), "of another history"),
        (whole.replace(b'"x", 2', b'"x", 7'), "not as it was written"),
        (None, "the segment that ends at fact 4 is missing"),
    ):
        own.unlink() if content is None else own.write_bytes(content)
        with pytest.raises(RequestError, match=said):
            journal.heads(state, [3])
        with pytest.raises(RequestError, match=said):
            journal.require_replayed(state)
        assert {*journal.heads(state, [5])} == {4, 5, 6}


def test_a_checkpoint_is_signed_with_its_account_its_root_and_its_tables() -> None:
    own = Checkpoint("mine", 1, "head", ("00" * 32,), {"a": [("11" * 32, 1)]})
    others = (
        replace(own, account="yours"),
        replace(own, count=2),
        replace(own, head="other"),
        replace(own, frontier=("11" * 32,)),
        replace(own, tables={"b": [("11" * 32, 1)]}),
        replace(own, tables={"a": [("22" * 32, 1)]}),
        replace(own, tables={"a": [("11" * 32, 2)]}),
    )
    signatures = {one.signature(KEY) for one in (own, *others)} | {own.signature(b"another")}
    assert len(signatures) == 9


def chunked(place: Place, folder: Path) -> FactJournal:
    """A journal whose rows are in chunks, but for the last ones."""
    journal = place(folder)
    journal.begin("mine")
    for number in range(14):
        add(journal, Fact("a", f"r{number}", {"of": number}))
    return journal


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Segments of few facts."""
    monkeypatch.setattr(journals, "_LEAST", 4)
    journals._columns.cache_clear()  # as in a new process
    yield
    journals._columns.cache_clear()


def without(chunk: pa.Table) -> pa.Table | None:
    return chunk.slice(1)


def with_one_more(chunk: pa.Table) -> pa.Table | None:
    return merged([chunk, chunk_of({"forged": {"of": 99}})], True)


def with_other(chunk: pa.Table) -> pa.Table | None:
    return merged([chunk, chunk_of({"r1": {"of": 99}})], True)


def none(_: pa.Table) -> pa.Table | None:
    return None


@pytest.mark.parametrize("change", [without, with_one_more, with_other, none])
@pytest.mark.parametrize("kept", [in_folder, in_sqlite])
def test_an_old_row_that_was_altered_removed_or_added_is_refused(
    kept: Place, change: Callable[[pa.Table], pa.Table | None], tmp_path: Path, short: None
) -> None:
    journal = chunked(kept, tmp_path)
    segment = journal.read().segment
    (digest, rows), *_ = segment.checkpoint.tables["a"]
    assert (segment.checkpoint.count, rows) == (12, 8)
    new = change(opened(journal.keeping.chunk(digest) or b""))
    if kept is in_folder:
        path = tmp_path / f"facts-{digest[:32]}.arrow"
        path.unlink() if new is None else path.write_bytes(written(new))
    else:
        with closing(sqlite3.connect(tmp_path / "facts.sqlite")) as database:
            database.executescript("DROP TRIGGER chunks_unchanged; DROP TRIGGER chunks_kept")
            if new is None:
                database.execute("DELETE FROM chunks WHERE digest = ?", (digest,))
            else:
                row = (written(new), digest)
                database.execute("UPDATE chunks SET content = ? WHERE digest = ?", row)
            database.commit()
    journals._columns.cache_clear()  # as in a new process
    with pytest.raises(RequestError, match=r"damaged \(rows of its checkpoint .*\): restore"):
        replace(journal).read()


def test_what_was_read_is_not_hashed_again(place: Place, tmp_path: Path, monkeypatch) -> None:
    journal, hashed = place(tmp_path), list[str]()
    journal.begin("mine")
    real = FactJournal._after
    monkeypatch.setattr(
        FactJournal, "_after", lambda own, *said: hashed.append(said[1]) or real(own, *said)
    )
    add(journal, *(Fact("a", f"r{k}", k) for k in range(5)))
    journal.read()
    before = len(hashed)
    assert journal.read().rows("a") == {f"r{k}": k for k in range(5)}
    assert len(hashed) == before
    add(journal, Fact("a", "r5", 5))
    assert journal.read().rows("a")["r5"] == 5
    assert len(hashed) == before + 2  # by who adds it, and by who reads it


def test_a_fact_that_was_read_and_is_altered_since_then_is_seen(tmp_path: Path) -> None:
    journal = in_sqlite(tmp_path)
    journal.begin("mine")
    add(journal, Fact("a", "r", 1), Fact("a", "s", 2))
    assert journal.read().rows("a") == {"r": 1, "s": 2}
    with closing(sqlite3.connect(tmp_path / "facts.sqlite")) as database:
        database.executescript("DROP TRIGGER facts_unchanged")
        database.execute("UPDATE facts SET body = '7' WHERE name = 'r'")
        database.commit()
    with pytest.raises(RequestError, match="its history is not as it was written"):
        journal.read()


def test_all_facts_come_to_the_tables(place: Place, tmp_path: Path, short: None) -> None:
    journal = chunked(place, tmp_path)
    add(journal, Fact("a", "r3", None), Fact("b", "x", 1))
    for number in range(9):
        add(journal, Fact("a", "r5", number))
    journal.require_replayed(journal.read())


def test_tables_that_are_signed_and_not_what_the_facts_come_to_are_refused(
    place: Place, tmp_path: Path, short: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = place(tmp_path)
    journal.begin("mine")
    with monkeypatch.context() as faulty:
        faulty.setattr(
            journals.tables, "chunk_of", lambda later: chunk_of({**later, "99": ["you", ""]})
        )
        for number in range(9):
            add(journal, Fact("a", str(number), {"of": number}))
    with pytest.raises(RequestError, match="its tables are not what its facts come to"):
        journal.require_replayed(journal.read())


def test_chunks_are_few_and_a_fact_is_written_again_few_times(tmp_path: Path, short: None) -> None:
    journal = in_folder(tmp_path)
    journal.begin("mine")
    for number in range(260):
        add(journal, Fact("a", str(number), {"of": number}))
    chunks = journal.read().segment.checkpoint.tables["a"]
    sizes = [rows for _, rows in chunks]
    assert sum(sizes) == 256
    assert all(a >= 2 * b for a, b in pairwise(sizes))
    kept = [opened(path.read_bytes()) for path in tmp_path.glob("*.arrow")]
    assert sum(len(one) for one in kept) < 2 * 7 * 260  # of two tables, log2(256 / 4) + 1 times


# ---- leaves --------------------------------------------------------------------------------------


def tree(leaves: Sequence[bytes]) -> bytes:
    """The Merkle tree hash of RFC 6962, Section 2.1, word for word; of hashes of leaves."""
    if len(leaves) == 1:
        return leaves[0]
    half = 1
    while 2 * half < len(leaves):
        half *= 2
    return sha256(b"\1" + tree(leaves[:half]) + tree(leaves[half:])).digest()


def path_of(place: int, leaves: Sequence[bytes]) -> list[tuple[bool, bytes]]:
    """RFC 6962, Section 2.1.1: (whether it stands to the left, hash) from a leaf up."""
    if len(leaves) == 1:
        return []
    half = 1
    while 2 * half < len(leaves):
        half *= 2
    if place < half:
        return [*path_of(place, leaves[:half]), (False, tree(leaves[half:]))]
    return [*path_of(place - half, leaves[half:]), (True, tree(leaves[:half]))]


def test_roots_are_those_of_certificate_transparency() -> None:
    """The leaves and roots of that project's own tests."""
    inputs = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657",
              "606162636465666768696a6b6c6d6e6f"]  # fmt: skip
    frontier: tuple[str, ...] = ()
    for count, said in enumerate(inputs):
        frontier = with_leaf(frontier, count, sha256(b"\0" + bytes.fromhex(said)).hexdigest())
    assert root(frontier) == "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"
    assert root(()) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_salted_leaves_verify_against_the_root_of_a_later_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "_LEAST", 4)
    journal = in_sqlite(tmp_path)
    journal.begin("mine")
    for number in range(21):
        add(journal, Fact("a", str(number), "the same"))
    with closing(sqlite3.connect(tmp_path / "facts.sqlite")) as database:
        rows = database.execute("SELECT number, kind, name, body, salt FROM facts").fetchall()
    leaves = [Leaf(n, kind, name, json.loads(body), salt) for n, kind, name, body, salt in rows]
    digests = [bytes.fromhex(leaf.digest) for leaf in leaves]
    top = journal.read().root
    assert tree(digests).hex() == top
    for place, leaf in enumerate(leaves):
        known = bytes.fromhex(leaf.digest)
        for left, other in path_of(place, digests):
            known = sha256(b"\1" + (other + known if left else known + other)).digest()
        assert known.hex() == top
        # Who guesses the fact and has not the salt learns nothing from the leaf.
        assert leaf._replace(salt="00" * 16).digest != leaf.digest
    assert len({leaf.salt for leaf in leaves}) == len(leaves)


def test_the_form_says_what_to_do() -> None:
    assert str(FORM.damaged("why")) == (
        "--journal: here is damaged (why): restore it from a copy (it says what was done)"
    )
