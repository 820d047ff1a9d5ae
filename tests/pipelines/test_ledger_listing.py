"""Entries by columns are those that one finds by looking at each."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import RequestError
from pipelines.journal import journal as journals
from pipelines.journal.tables import Columns, FactTable, chunk_of
from pipelines.ledger.entries import Entry
from pipelines.ledger.listing import Entries
from pipelines.ledger.reservation import begun
from pipelines.ledger.rules import losses_of, together
from pipelines.ledger.snapshot import ledger_format
from pipelines.ledger.spans import meet, span_of
from tests.fakes import ledgers
from tests.fakes.ledger_rivals import request

WINDOWS = ("2026-11-20", "2026-11-21", "2026-11", "2026-11-21T13", "monday", "2026-11-20~0.5")
FILES = (None, ("a" * 12,), ("a" * 12, "b" * 12), ("c" * 12,))


@pytest.fixture
def entries() -> list[Entry]:
    numbers = count()
    made = []
    for k, window in enumerate(WINDOWS * 6):
        wanted = request(
            window, f"out/{k}", 0.1 * (1 + k % 2), collection=f"c{k % 2}", files=FILES[k % 4],
            fingerprint="f00d" if k % 5 else "beef", span=span_of(window) if k % 3 else None,
            scope="user per window", population=None if k % 4 else "all",
        )  # fmt: skip
        entry = begun(wanted, lambda: f"{next(numbers):016x}")
        state = ("reserved", "committed", "returned", "spent")[k % 4]
        made.append(entry.model_copy(update={"state": state}))
    return made


@pytest.fixture(params=[0, 20, 36])
def listed(request: pytest.FixtureRequest, entries: list[Entry]) -> Entries:
    """So many of them in a chunk, where some have another state, and the others after it."""
    rows: dict[Any, Any] = {entry.id: entry.model_dump(mode="json") for entry in entries}
    old: dict[Any, Any] = {
        id: row | {"state": "reserved"} for id, row in [*rows.items()][: request.param]
    }
    changed: dict[Any, Any] = {id: row for id, row in rows.items() if old.get(id) != row}
    return Entries.all(FactTable(Columns([chunk_of(old)]), changed), ledger_format("l"))


def test_what_is_picked_is_what_one_finds(listed: Entries, entries: list[Entry]) -> None:
    assert [*listed] == [*listed.stream()] == entries
    assert [*listed.counted] == [e for e in entries if e.counted]
    assert [*listed.where(fingerprint="f00d", window="monday")] == [
        e for e in entries if (e.fingerprint, e.window) == ("f00d", "monday")
    ]
    assert listed.people == [*dict.fromkeys(e.people for e in entries)]
    for people in listed.people:
        assert [*listed.of_people(people)] == [e for e in entries if e.people == people]
    assert [*listed.without(entries[3].id)] == entries[:3] + entries[4:]
    assert [*listed.named(entries[3].id[:15])] == [
        e for e in entries if e.id.startswith(entries[3].id[:15])
    ]
    assert listed.latest == max(entries, key=lambda e: (e.reserved_at, e.version))
    assert sum(times for _, times in listed.kinds()) == len(entries)


def test_what_meets_a_release_is_not_left_out(listed: Entries, entries: list[Entry]) -> None:
    for release in entries:
        assert [*together(listed, release, "user per window")] == [
            e for e in entries if e.counted and meet(e, release)
        ]


def test_losses_are_as_many_as_entries_have(entries: list[Entry]) -> None:
    fresh = [e for e in entries if "~" not in e.window]
    losses = losses_of(Entries.of(fresh))
    assert losses.total() == len(fresh)
    assert losses[fresh[0].losses[0]] == sum(e.losses == fresh[0].losses for e in fresh)


def test_a_row_that_is_no_entry_is_refused_when_it_is_looked_at(entries: list[Entry]) -> None:
    rows: dict[Any, Any] = {e.id: e.model_dump(mode="json") for e in entries}
    rows[entries[2].id]["version"] = "latest"
    listed = Entries.all(FactTable(Columns(()), rows), ledger_format("l"))
    assert listed[1] == entries[1]
    with pytest.raises(RequestError, match=r"l is damaged \(field version of an entry\)"):
        _ = listed[2]


def test_a_ledger_of_many_segments_spends_and_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "_LEAST", 4)
    ledger = ledgers.begun(tmp_path / "ledger.sqlite")
    for day in range(12):
        wanted = replace(request(f"d{day}", str(tmp_path / f"{day}")), budget=ledgers.AMPLE)
        with ledger.spend(wanted) as reservation:
            reservation.spend()
    assert ledger.read().state.segment.checkpoint.count > 12
    assert len(ledger.require_replayed().entries) == 12
    assert losses_of(ledger.read().entries.counted).total() == 12
    assert [e.window for e in ledger.entries()] == [f"d{day}" for day in range(12)]
