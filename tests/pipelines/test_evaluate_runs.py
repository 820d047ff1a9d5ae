"""Runs are the same however many processes there are, in whatever order, however often killed."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mechanisms.randomness import SeededRandom
from pipelines.errors import FailedError
from pipelines.evaluate import runs as evaluate_runs
from pipelines.evaluate.cells import Cell, Line, Outcome
from pipelines.evaluate.journal import Entry, Journal, journal
from pipelines.evaluate.runs import Bench, run

LINES = (Line("sh", "exact", "shuffle"), Line("sh", "published", "shuffle"))
CELLS = [
    Cell(data, line, epsilon, delta)
    for data, line, epsilon, delta in itertools.product("ab", LINES, (0.5, 1.0), (1e-6, 1e-9))
]
REFUSED, FAILING = CELLS[3], CELLS[5]


@dataclass(frozen=True)
class Draws:
    """Measures a random word; says which process did it."""

    kill: bool = False
    fail: bool = False

    def fit(self, cell: Cell) -> int:
        if cell == REFUSED:
            raise ValueError("out of\nrange")
        return os.getpid()

    def known(self, fitted: int) -> dict[str, Any]:
        return {"process": fitted}

    def measure(self, cell: Cell, fitted: int, rng: SeededRandom) -> dict[str, float]:
        if self.fail and cell == FAILING:
            raise KeyError("a secret")
        if self.kill and cell == FAILING:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"mse": float(rng.words(1)[0])}


def drawn(outcomes: list[Outcome], cells: list[Cell]) -> Mapping[Cell, list[float]]:
    return {
        cell: [outcome.runs[each]["mse"] for each in sorted(outcome.runs)]
        for cell, outcome in zip(cells, outcomes, strict=True)
    }


def measured(
    folder: Path,
    cells: list[Cell] = CELLS,
    jobs: int = 1,
    repetitions: int = 4,
    experiment: Draws = Draws(),
    seed: int = 7,
) -> list[Outcome]:
    with journal(str(folder), {}, "") as record:
        bench = Bench(experiment, cells, seed)
        return run(bench, cells, repetitions, record, jobs, lambda done: None)


@pytest.fixture
def plain(tmp_path: Path) -> Mapping[Cell, list[float]]:
    return drawn(measured(tmp_path / "plain"), CELLS)


def test_every_repetition_of_every_cell_has_noise_of_its_own(plain) -> None:
    words = [word for cell, found in plain.items() for word in found]
    assert len(words) == 4 * (len(CELLS) - 1)
    assert len(set(words)) == len(words)
    assert plain[REFUSED] == []


def test_another_seed_is_other_noise(tmp_path, plain) -> None:
    other = drawn(measured(tmp_path / "other", seed=8), CELLS)
    assert not set(itertools.chain(*other.values())) & set(itertools.chain(*plain.values()))


def test_neither_order_nor_company_nor_processes_matter(tmp_path, plain) -> None:
    cells = CELLS[::-2]
    outcomes = measured(tmp_path / "other", cells, jobs=2, repetitions=2)
    assert drawn(outcomes, cells) == {cell: plain[cell][:2] for cell in cells}
    assert all(each.known["process"] != os.getpid() for each in outcomes if each.runs)


def test_killed_anywhere_it_goes_on_to_the_same_end(tmp_path, plain, monkeypatch) -> None:
    monkeypatch.setattr(evaluate_runs, "_PIECE", 0.0)  # a piece is one repetition
    append, deaths = Journal.append, 0
    while True:
        monkeypatch.setattr(Journal, "append", _dying(append, after=5))
        try:
            outcomes = measured(tmp_path / "killed")
            break
        except KeyboardInterrupt:
            deaths += 1
    assert drawn(outcomes, CELLS) == plain
    assert deaths == ((len(CELLS) - 1) * 4 + 1) // 5


def test_killed_workers_leave_what_another_number_of_them_finishes(
    tmp_path, plain, monkeypatch
) -> None:
    folder, append = tmp_path / "killed", Journal.append
    monkeypatch.setattr(Journal, "append", _dying(append, after=5))
    with pytest.raises(KeyboardInterrupt):
        measured(folder, jobs=2)
    assert not multiprocessing.active_children()
    monkeypatch.setattr(Journal, "append", append)
    assert drawn(measured(folder, jobs=1), CELLS) == plain


def _dying(append: Any, after: int) -> Any:
    """An `append` that is killed in the middle of a write, once some have gone well."""
    left = itertools.count(after, -1)

    def dying(record: Journal, entry: Entry) -> None:
        if next(left) <= 0:
            record._stream.write(b'{"cell": 2, "ru')
            record._stream.flush()
            raise KeyboardInterrupt
        append(record, entry)

    return dying


def test_what_is_done_is_not_done_again(tmp_path) -> None:
    first = measured(tmp_path, repetitions=4)

    class Never(Draws):
        def fit(self, cell: Cell) -> int:
            raise AssertionError

    again = measured(tmp_path, experiment=Never())
    assert drawn(again, CELLS) == drawn(first, CELLS)
    assert again[3].refused == "out of range"


def test_progress_counts_to_the_end(tmp_path) -> None:
    seen: list[int] = []
    with journal(str(tmp_path), {}, "") as record:
        run(Bench(Draws(), CELLS, 0), CELLS, 3, record, 1, seen.append)
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0, 3 * len(CELLS))


def test_one_that_stumbles_does_not_stop_the_others(tmp_path, plain) -> None:
    outcomes = measured(tmp_path / "failing", experiment=Draws(fail=True))
    failed = CELLS.index(FAILING)
    assert outcomes[failed].failed == "KeyError"
    found = drawn(outcomes, CELLS)
    assert found == {cell: [] if cell == FAILING else plain[cell] for cell in CELLS}
    assert "secret" not in (tmp_path / "failing" / "journal.jsonl").read_text()
    assert drawn(measured(tmp_path / "failing"), CELLS) == plain


def test_a_worker_that_dies_is_told(tmp_path, plain) -> None:
    with pytest.raises(FailedError, match="a worker process died"):
        measured(tmp_path / "killed", jobs=2, experiment=Draws(kill=True))
    assert drawn(measured(tmp_path / "killed"), CELLS) == plain


def test_workers_end_with_the_process_that_started_them(tmp_path) -> None:
    context = multiprocessing.get_context("spawn")
    parent = context.Process(target=_start_worker, args=(str(tmp_path / "pid"),))
    parent.start()
    worker = _eventually(lambda: int((tmp_path / "pid").read_text()))
    os.kill(parent.pid or 0, signal.SIGKILL)
    parent.join()

    def gone() -> bool:
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            return True
        # Nobody may be there to take leave of it.
        state = Path(f"/proc/{worker}/stat")
        if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        raise ValueError("still there")

    assert _eventually(gone)


def _start_worker(path: str) -> None:
    with evaluate_runs._workers(Bench(Sleeps(path=path), CELLS, 0), 2) as submit:
        submit(0, [0]).result()


@dataclass(frozen=True)
class Sleeps(Draws):
    path: str = ""

    def measure(self, cell: Cell, fitted: int, rng: SeededRandom) -> dict[str, float]:
        partial = Path(f"{self.path}.partial")
        partial.write_text(str(os.getpid()))
        partial.rename(self.path)
        time.sleep(600)
        return {}


def _eventually(look: Any, backoff: float = 60.0) -> Any:
    """What `look` returns once it does not fail any more."""
    end = time.monotonic() + backoff
    while True:
        try:
            return look()
        except (OSError, ValueError):
            if time.monotonic() > end:
                raise
            time.sleep(0.02)
