"""A budget is never overspent: not by rivals, and not by runs that are killed.

A larger form of both, with 200 rounds and 50 kills, is `python -m benchmarks ledger`.
"""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path

import pytest

from mechanisms.randomness import SeededRandom
from pipelines.errors import Caution
from pipelines.ledger.ledger import CollectionLedger
from tests.fakes import ledger_rivals
from tests.fakes.waiting import HANGS

pytestmark = pytest.mark.filterwarnings("ignore::pipelines.errors.Caution")

ROUNDS, KILLS, WINDOWS = 5, 6, 8


@pytest.mark.verify
def test_of_sixteen_processes_that_want_the_last_share_one_gets_it(tmp_path: Path) -> None:
    with ledger_rivals.rivals() as pool:
        for number in range(ROUNDS):
            folder = str(tmp_path / str(number))
            path = str(tmp_path / f"{number}.sqlite")
            won, spent = ledger_rivals.one_round(pool, path, folder)
            assert (won, spent) == (1, 1.0)


def releases(folder: Path) -> dict[str, str]:
    """Output folder -> release id, of the releases that stand."""
    statements = folder.glob("[!.]*/statement.json")
    return {str(s.parent): json.loads(s.read_text())["release_id"] for s in statements}


def require_accounted(ledger: Path, folder: Path) -> dict[str, str]:
    """No release without its counted entry, no half release; the ids of entries -> states."""
    entries = CollectionLedger.open(str(ledger)).entries() if ledger.exists() else ()
    counted = {(entry.output, entry.release_id) for entry in entries if entry.counted}
    assert set(releases(folder).items()) <= counted
    for visible in folder.glob("[!.]*"):
        assert sorted(path.name for path in visible.iterdir()) == [
            "signature.json", "statement.json", "table",
        ]  # fmt: skip
    committed = [entry for entry in entries if entry.state == "committed"]
    assert {(entry.output, entry.release_id) for entry in committed} <= set(
        releases(folder).items()
    )
    return {entry.id: entry.state for entry in entries}


def require_completion(ledger: Path, folder: Path) -> None:
    """A rerun finds what was published, and publishes the rest once."""
    before = releases(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Caution)
        ledger_rivals.publish_windows(str(ledger), str(folder), WINDOWS)
    after = releases(folder)
    assert len(after) == WINDOWS
    assert before.items() <= after.items()
    entries = CollectionLedger.open(str(ledger)).entries()
    committed = [entry for entry in entries if entry.state == "committed"]
    assert {entry.output: entry.release_id for entry in committed} == after
    # Each window was paid for once, whoever died over it.
    counted = [entry.window for entry in entries if entry.counted]
    assert sorted(counted) == sorted(f"window {number}" for number in range(WINDOWS))
    assert [entry for entry in entries if entry.state == "reserved"] == []


@pytest.mark.verify
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(
    ("step", "call"), [("write", 1), ("write", 2), ("publish", 1), ("rename", 1), ("fsync", 3)]
)
def test_a_run_that_is_killed_at_a_step_loses_no_entry(
    tmp_path: Path, step: str, call: int, before: bool
) -> None:
    ledger, folder = tmp_path / "ledger.sqlite", tmp_path / "out"
    folder.mkdir()
    process = ledger_rivals.started(
        ledger_rivals.publish_windows, str(ledger), str(folder), WINDOWS, step, before, call
    )
    process.join(HANGS)
    assert process.exitcode == -9
    held = require_accounted(ledger, folder)
    assert len(held) == ((step, call, before) != ("write", 1, True))  # it died over the first
    published = bool(releases(folder))
    done = [("write", 2, True), ("write", 2, False), ("publish", 1, False), ("rename", 1, False)]
    assert published == ((step, call, before) in done)
    require_completion(ledger, folder)
    # What was reserved is gone on with in the same entry: what was published, or was whole before
    # it was renamed, is not made again, and what was not is tried once more for the same price.
    first, *others = CollectionLedger.open(str(ledger)).entries()
    assert {first.id} >= {*held}
    whole = published or (step, before) == ("rename", True)
    assert first.attempt == (2 if held and not whole else 1)
    assert [entry.attempt for entry in others] == [1] * (WINDOWS - 1)


@pytest.mark.verify
def test_runs_that_are_killed_at_random_moments_lose_no_entry(tmp_path: Path) -> None:
    ledger, folder = tmp_path / "ledger.sqlite", tmp_path / "out"
    folder.mkdir()
    seen: dict[str, str] = {}
    pauses = SeededRandom(5).integers(400, KILLS)
    for pause in pauses.tolist():
        process = ledger_rivals.started(
            ledger_rivals.publish_windows, str(ledger), str(folder), WINDOWS
        )
        time.sleep(pause / 1000)
        process.kill()
        process.join(HANGS)
        now = require_accounted(ledger, folder)
        assert set(seen) <= set(now)
        assert all(now[id] == "committed" for id, state in seen.items() if state == "committed")
        seen = now
    require_completion(ledger, folder)
