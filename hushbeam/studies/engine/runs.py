"""Simulated releases on every core, each with a seed of its own, resumable at any point."""

from __future__ import annotations

import logging
import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hushbeam.studies.engine.cells import Cell, Outcome, Simulation
from hushbeam.studies.engine.journal import Entry, Journal
from mechanisms.randomness import SeededRandom
from pipelines.errors import FailedError, reason


@dataclass
class Bench:
    """Measures cells, one after another; each worker process has a copy.

    Attributes:
        fit: (cell, its population) -> its simulation; a ValueError says why there is none.
        cells: every setting.
        populations: name -> population.
        seed: of the study.
        longest: seconds after which it hands in what it has, so that little can be lost.
    """

    fit: Callable[[Cell, Any], Simulation]
    cells: Sequence[Cell]
    populations: Mapping[str, Any]
    seed: int
    longest: float = 15.0
    # Pieces of one cell mostly come in a row, and fitting may take longer than a release.
    _last: tuple[int, Simulation] | None = field(default=None, init=False)

    def piece(self, index: int, repetitions: Sequence[int]) -> Entry:
        """An entry for the journal: a refusal, or as many of the repetitions as time allows."""
        try:
            simulation = self._fitted(index)
            known = simulation.known
        except (ValueError, ArithmeticError) as error:
            return {"cell": index, "refused": reason(error)}
        runs: list[dict[str, float]] = []
        begin = time.monotonic()
        for repetition in repetitions:
            rng = SeededRandom(self.cells[index].seed(self.seed, repetition))
            spent = time.process_time()
            errors = simulation.release(rng)
            seconds = time.process_time() - spent
            runs.append({"repetition": repetition, **errors, "seconds": seconds})
            if time.monotonic() - begin > self.longest:
                break
        return {"cell": index, "known": known, "runs": runs}

    def _fitted(self, index: int) -> Simulation:
        """What simulates a cell."""
        if self._last is None or self._last[0] != index:
            cell = self.cells[index]
            self._last = index, self.fit(cell, self.populations[cell.data])
        return self._last[1]


def run(
    bench: Bench,
    repetitions: int,
    journal: Journal,
    jobs: int,
    watch: Callable[[int], None],
) -> list[Outcome]:
    """Measure what the journal does not have yet.

    Args:
        bench: what measures; the order of its cells is that of the journal's numbers.
        repetitions: of each.
        journal: what is known already; results are added to it.
        jobs: how many processes.
        watch: gets how many repetitions are done, of cells * repetitions.

    Returns:
        (cells,) outcomes. A cell that failed, which is no refusal, says with what; it is not in the
        journal, so that the next run tries it again.

    Raises:
        FailedError: a worker died.
    """
    outcomes = [Outcome() for _ in bench.cells]
    for entry in journal.entries:
        outcomes[entry["cell"]].add(entry)
    missing = [outcome.missing(repetitions) for outcome in outcomes]
    queue = deque((index, left) for index, left in enumerate(missing) if left)
    remaining = sum(map(len, missing))
    pending: dict[Future[Entry], int] = {}
    with _workers(bench, jobs) as submit:
        while True:
            watch(repetitions * len(bench.cells) - remaining)
            while queue and len(pending) < 2 * jobs:
                index, left = queue.popleft()
                pending[submit(index, left)] = index
            if not pending:
                break
            for done in wait(pending, return_when=FIRST_COMPLETED).done:
                index = pending.pop(done)
                entry = _result(done, bench.cells[index])
                if "failed" not in entry:
                    journal.append(entry)
                remaining -= len(outcomes[index].missing(repetitions))
                outcomes[index].add(entry)
                if left := outcomes[index].missing(repetitions):
                    queue.appendleft((index, left))
                remaining += len(left)
    return outcomes


def _result(done: Future[Entry], cell: Cell) -> Entry:
    """What a worker hands in, or with what it stumbled, so that the others go on."""
    try:
        return done.result()
    except BrokenProcessPool:
        raise
    except Exception as error:  # its text may be a stranger's, so only its type is kept
        logging.getLogger(__name__).error("%s failed", cell, exc_info=error)
        return {"failed": type(error).__name__}


@contextmanager
def _workers(bench: Bench, jobs: int) -> Iterator[Callable[[int, Sequence[int]], Future[Entry]]]:
    """Where pieces are run: in processes of their own, or right here if one is enough."""
    if jobs == 1:
        yield partial(_at_once, bench)
        return
    before = set(multiprocessing.active_children())
    # Not forked: threads of ours (a progress line, Arrow's) would leave locks behind in a copy.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, context, initializer=_open_bench, initargs=(bench,))
    try:
        yield lambda index, repetitions: pool.submit(_piece, index, repetitions)
        pool.shutdown()
    except BrokenProcessPool:
        raise FailedError(
            "a worker process died, perhaps for lack of memory: fewer --jobs need less; "
            "the same command goes on from here"
        ) from None
    except BaseException:
        # Whoever interrupts does not want to wait for pieces that nobody will take in.
        for worker in set(multiprocessing.active_children()) - before:
            worker.terminate()
        pool.shutdown(cancel_futures=True)
        raise


def _at_once(bench: Bench, index: int, repetitions: Sequence[int]) -> Future[Entry]:
    """A piece that is done when this returns."""
    done: Future[Entry] = Future()
    try:
        done.set_result(bench.piece(index, repetitions))
    except Exception as error:
        done.set_exception(error)
    return done


_bench: Bench  # of a worker process


def _open_bench(bench: Bench) -> None:
    """Make a process a worker, which ends with the process that started it, however that ends."""
    global _bench
    _bench = bench
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _piece(index: int, repetitions: Sequence[int]) -> Entry:
    return _bench.piece(index, repetitions)
