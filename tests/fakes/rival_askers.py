"""Processes that ask one session at the same time."""

from __future__ import annotations

import multiprocessing
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from mechanisms.privacy.gaussian_filter import WHOLE
from mechanisms.randomness import SecureRandom
from pipelines.ask import questions
from pipelines.ask.session import answered, begun
from pipelines.errors import WithheldError
from pipelines.journal.ask_session import AskSession
from pipelines.logs.inputs import UNREAD, Source
from pipelines.metrics.counting.options import CountOptions
from pipelines.metrics.resolving import resolve

RIVALS = 16
TERMS = {"epsilon": 1.0, "delta": 1e-6, "unit": "row", "user_column": None}

_barrier: Any = None


def count(kind: str = "count", values: int = 0, threshold: int = 0) -> questions.Question:
    """A question about counts, in all or of each of many values."""
    named: Any = {"column": "n", "domain": f"1..{values}"} if values else {}
    options = CountOptions(
        input=("log.parquet",), output="out", epsilon=1.0, drawn_by="shuffler", **named
    )
    metric = resolve(options, Source(telemetry=UNREAD))
    return questions.question(kind, metric, named, threshold)


def ask(
    folder: str, question: questions.Question, parts: int, exact: Any, rng: Any = None, **more: Any
) -> AskSession:
    """An answer from exact counts, without a job."""
    levels = [np.asarray(exact, float)]
    rng, id = rng or SecureRandom(), more.get("id", uuid.uuid4().hex)
    return answered(folder, question, "count", parts, "files", id, levels, rng)


@contextmanager
def rivals() -> Iterator[Any]:
    """A pool of processes, each of which takes one task of a round."""
    context = multiprocessing.get_context("forkserver")  # imports once, then forks
    context.set_forkserver_preload(["tests.fakes.rival_askers"])
    with context.Pool(RIVALS, _enter, (context.Barrier(RIVALS),)) as pool:
        yield pool


def _enter(barrier: Any) -> None:
    global _barrier
    _barrier = barrier


def _rival(task: tuple[str, int]) -> bool:
    folder, parts = task
    question = count()
    _barrier.wait()
    try:
        ask(folder, question, parts, [100])
    except WithheldError:
        return False
    return True


def one_round(pool: Any, folder: str, share: float) -> tuple[int, AskSession]:
    """(how many of sixteen got an answer, the session) where each wants the same share."""
    begun(folder, TERMS, None)
    tasks = [(folder, int(share * WHOLE))] * RIVALS
    return sum(pool.map(_rival, tasks, chunksize=1)), AskSession.read(folder)
