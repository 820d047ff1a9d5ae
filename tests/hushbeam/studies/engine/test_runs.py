"""Runs are the same however many processes there are, in whatever order, however often killed."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hushbeam.studies.engine import runs
from hushbeam.studies.engine.cells import Cell, FigureLine, Outcome
from hushbeam.studies.engine.journal import Entry, Journal, journal
from hushbeam.studies.engine.runs import Bench, run
from mechanisms.randomness import SeededRandom
from pipelines.errors import FailedError
from tests.fakes.waiting import HANGS

LINES = (FigureLine("sh", "exact", "shuffle"), FigureLine("sh", "published", "shuffle"))
CELLS = [
    Cell(data, line, epsilon, delta)
    for data, line, epsilon, delta in itertools.product("ab", LINES, (0.5, 1.0), (1e-6, 1e-9))
]
REFUSED, FAILING = CELLS[3], CELLS[5]


NOBODY = dict.fromkeys("ab")


@dataclass(frozen=True)
class Draws:
    """Simulates a cell by a random word; says which process did it."""

    cell: Cell
    kill: bool = False
    fail: bool = False

    @property
    def known(self) -> dict[str, Any]:
        return {"process": os.getpid()}

    def release(self, rng: SeededRandom) -> dict[str, float]:
        if self.fail and self.cell == FAILING:
            raise KeyError("a secret")
        if self.kill and self.cell == FAILING:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"mse": float(rng.words(1)[0])}


def fit(cell: Cell, population: None, kind: type[Draws] = Draws, **more: Any) -> Draws:
    if cell == REFUSED:
        raise ValueError("out of\nrange")
    return kind(cell, **more)


def never(cell: Cell, population: None) -> Draws:
    raise AssertionError


def drawn(outcomes: list[Outcome], cells: list[Cell]) -> Mapping[Cell, list[float]]:
    return {
        cell: [run["mse"] for _, run in sorted(outcome.runs.items())]
        for cell, outcome in zip(cells, outcomes, strict=True)
    }


def measured(
    folder: Path,
    cells: list[Cell] = CELLS,
    jobs: int = 1,
    repetitions: int = 4,
    fit: Any = fit,
    seed: int = 7,
    longest: float = 60.0,
) -> list[Outcome]:
    with journal(str(folder), {}, "") as record:
        bench = Bench(fit, cells, NOBODY, seed, longest)
        return run(bench, repetitions, record, jobs, lambda done: None)


@pytest.fixture
def plain(tmp_path: Path) -> Mapping[Cell, list[float]]:
    return drawn(measured(tmp_path / "plain"), CELLS)


def test_every_repetition_of_every_cell_has_noise_of_its_own(plain) -> None:
    words = [word for row in plain.values() for word in row]
    assert len(words) == 4 * (len(CELLS) - 1)
    assert len(set(words)) == len(words)
    assert plain[REFUSED] == []


def test_neither_order_nor_company_nor_processes_matter(tmp_path, plain) -> None:
    cells = CELLS[::-2]
    outcomes = measured(tmp_path / "other", cells, jobs=2, repetitions=2)
    assert drawn(outcomes, cells) == {cell: plain[cell][:2] for cell in cells}
    assert all(one.known["process"] != os.getpid() for one in outcomes if one.runs)


def test_killed_anywhere_it_goes_on_to_the_same_end(tmp_path, plain, monkeypatch) -> None:
    append, deaths = Journal.append, 0
    while True:
        monkeypatch.setattr(Journal, "append", _dying(append, after=5))
        try:
            outcomes = measured(tmp_path / "killed", longest=0.0)  # a piece is one repetition
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
    again = measured(tmp_path, fit=never)
    assert drawn(again, CELLS) == drawn(first, CELLS)
    assert again[3].refused == "out of range"


def test_progress_counts_to_the_end(tmp_path) -> None:
    seen: list[int] = []
    with journal(str(tmp_path), {}, "") as record:
        run(Bench(fit, CELLS, NOBODY, 0), 3, record, 1, seen.append)
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0, 3 * len(CELLS))


def test_one_that_stumbles_does_not_stop_the_others(tmp_path, plain) -> None:
    outcomes = measured(tmp_path / "failing", fit=partial(fit, fail=True))
    failed = CELLS.index(FAILING)
    assert outcomes[failed].failed == "KeyError"
    assert drawn(outcomes, CELLS) == plain | {FAILING: []}
    assert "secret" not in (tmp_path / "failing" / "journal.jsonl").read_text()
    assert drawn(measured(tmp_path / "failing"), CELLS) == plain


def test_a_worker_that_dies_is_told(tmp_path, plain) -> None:
    with pytest.raises(FailedError, match="a worker process died"):
        measured(tmp_path / "killed", jobs=2, fit=partial(fit, kill=True))
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
    asleep = partial(fit, kind=Sleeps, path=path)
    with runs._workers(Bench(asleep, CELLS, NOBODY, 0), 2) as submit:
        submit(0, [0]).result()


@dataclass(frozen=True)
class Sleeps(Draws):
    path: str = ""

    def release(self, rng: SeededRandom) -> dict[str, float]:
        unfinished = Path(f"{self.path}.partial")
        unfinished.write_text(str(os.getpid()))
        unfinished.rename(self.path)
        time.sleep(600)
        return {}


def _eventually(look: Any) -> Any:
    """What `look` returns once it does not fail any more."""
    end = time.monotonic() + HANGS
    while True:
        try:
            return look()
        except (OSError, ValueError):
            if time.monotonic() > end:
                raise
            time.sleep(0.02)
