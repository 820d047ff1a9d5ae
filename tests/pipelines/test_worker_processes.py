"""Forked workers: what they draw, what they share, and when a process may be copied at all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.forked_draws import ELEMENTS, LARGE, WORKERS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a job in forked workers has left."""
    folder = tmp_path_factory.mktemp("forked")
    subprocess.run(
        [sys.executable, "-m", "tests.fakes.forked_draws", str(folder)], check=True, cwd=ROOT
    )
    return folder


@pytest.fixture
def told(job: Path) -> list[dict[str, Any]]:
    """What each process has told; the last is the one that was copied."""
    said = [json.loads(path.read_text()) for path in job.glob("*-*")]
    parents = {one["parent"] for one in said} & {one["process"] for one in said}
    return sorted(said, key=lambda one: one["process"] in parents)


def test_workers_are_copies_of_their_command(told: list[dict[str, Any]]) -> None:
    *workers, command = told
    assert len({one["process"] for one in workers}) == WORKERS
    assert {one["parent"] for one in workers} == {command["process"]}


def test_no_two_workers_draw_the_same(told: list[dict[str, Any]]) -> None:
    """Two copies of one stream would give two people the same noise, whose difference has none."""
    drawn = [
        number
        for one in told
        for numbers in one["drawn"].values()
        for number in (numbers if isinstance(numbers, list) else [numbers])
    ]
    # Of the 64-bit words of fair streams two are equal with a probability below 1e-14.
    assert len(drawn) == 11 * len(told) == len({*drawn})


def test_a_repeatable_stream_is_not_continued_in_two_places(told: list[dict[str, Any]]) -> None:
    *workers, command = told
    assert {one["seeded"] for one in workers} == {None}
    assert command["seeded"] is not None


def test_pieces_arrive_whole_from_the_memory_of_others(job: Path) -> None:
    groups = json.loads((job / "groups").read_text())
    numbers = {key: [n for n in range(ELEMENTS) if n % 7 == key] for key in range(7)}
    assert groups == [
        [key, 2 * len(mine), sum(mine) * (LARGE + 1)] for key, mine in numbers.items()
    ]


def test_who_watches_sees_what_workers_count(job: Path) -> None:
    reported, seen = json.loads((job / "counted").read_text())
    assert reported == seen == {"drawn": ELEMENTS}


@pytest.mark.parametrize(
    ("before", "may"),
    [
        ("", True),
        ("from tests.fakes.forked_draws import use_arrow; use_arrow()", True),
        ("from pipelines.ledger.alive import alive; c = alive(print); c.__enter__()", True),
        ("import threading as t; t.Thread(target=t.Event().wait, daemon=True).start()", False),
        ("import grpc; c = grpc.insecure_channel('localhost:1'); c.subscribe(id, True)", False),
    ],
    ids=["alone", "arrow", "signs of life", "thread", "grpc"],
)
def test_a_process_with_strange_threads_is_not_copied(before: str, may: bool) -> None:
    # It ends at once: gRPC waits for a server that is not there.
    asked = "import os; from pipelines.worker_processes import may_fork; print(may_fork())"
    program = f"{before}\n{asked}; print(end='', flush=True); os._exit(0)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{may}\n"
