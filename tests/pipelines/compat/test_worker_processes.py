"""Forked workers: what they draw, what they share, and when a process may be copied at all."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import pytest
from apache_beam import coders

from pipelines.compat import worker_processes
from pipelines.errors import FailedError
from tests.fakes.forked_draws import ELEMENTS, LARGE, WORKERS
from tests.fakes.waiting import HANGS
from transforms.elements.pieces import Piece

ROOT = Path(__file__).parents[3]


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
    """Two copies of one stream would give two people the same noise, whose difference has none.

    And two seals under one ephemeral key would be under one nonce: equal words would look alike.
    """
    drawn = [
        number
        for one in told
        for numbers in one["drawn"].values()
        for number in (numbers if isinstance(numbers, list) else [numbers])
    ]
    # Of the 64-bit words of fair streams two are equal with a probability below 1e-14.
    assert len(drawn) == 12 * len(told) == len({*drawn})


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
        ("from pipelines.storage.alive import alive; c = alive(print); c.__enter__()", True),
        ("import multiprocessing as m; m.current_process().daemon = True", False),
        ("import threading as t; t.Thread(target=t.Event().wait, daemon=True).start()", False),
        ("import grpc; c = grpc.insecure_channel('localhost:1'); c.subscribe(id, True)", False),
    ],
    ids=["alone", "arrow", "signs of life", "pool", "thread", "grpc"],
)
def test_a_process_with_strange_threads_is_not_copied(said, before: str, may: bool) -> None:
    # It ends at once: gRPC waits for a server that is not there.
    asked = "import os; from pipelines.compat.worker_processes import may_fork; print(may_fork())"
    program = f"{before}\n{asked}; print(end='', flush=True); os._exit(0)"
    assert said(program) == f"{may}\n"


# Imports take all of the time, so that programs are run in copies of one that has made them.
NURSERY = """
import json, os, sys
from pipelines.compat import worker_processes
for line in sys.stdin:
    reader, writer = os.pipe()
    if not (child := os.fork()):
        os.dup2(writer, 1)
        exec(json.loads(line), {})
        sys.stdout.flush()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        said = told.read()
    print(json.dumps([said, os.waitpid(child, 0)[1]]), flush=True)
"""


@pytest.fixture(scope="module")
def said() -> Iterator[Callable[[str], str]]:
    """What a program prints, in a process that has no threads yet."""
    with subprocess.Popen(
        [sys.executable, "-c", NURSERY], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    ) as nursery:  # fmt: skip
        assert nursery.stdin is not None
        assert nursery.stdout is not None

        def said(program: str) -> str:
            print(json.dumps(program), file=nursery.stdin, flush=True)
            printed, status = json.loads(nursery.stdout.readline())
            assert status == 0
            return str(printed)

        yield said


DIES = """
import multiprocessing, threading
from pipelines.errors import FailedError
from pipelines.compat.worker_processes import worker_processes
with worker_processes(2) as run:
    multiprocessing.active_children()[0].kill()
    try:
        run(threading.Event().wait)  # as Beam does for who was to begin
    except FailedError:
        print("failed")
print(multiprocessing.active_children())
"""


def test_a_worker_that_dies_before_it_begins_ends_the_job(said) -> None:
    assert said(DIES) == "failed\n[]\n"


STAYS = """
from contextlib import contextmanager
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from pipelines.compat import worker_processes
worker_processes._PATIENCE = 0.1
class Handler(worker_handlers.GrpcWorkerHandler):
    def __init__(self): pass
worker_handlers.GrpcWorkerHandler.close = lambda handler: workers[0].wait()
before = worker_handlers.GrpcWorkerHandler.close
copies, workers = worker_processes._copies, []

@contextmanager
def kept(number):
    with copies(number) as made:
        workers.extend(made)
        yield made

worker_processes._copies = kept
with worker_processes.worker_processes(1) as run:
    try:
        run(lambda: (Handler().close(), 1 / 0))
    except ZeroDivisionError:
        print("what failed is said")
print(worker_handlers.GrpcWorkerHandler.close is before, workers[0].returncode)
"""


def test_a_worker_that_does_not_end_holds_up_no_job(said) -> None:
    """Beam waits for it: where a bundle failed elsewhere, it might wait for that one's data."""
    assert said(STAYS) == "what failed is said\nTrue -9\n"


DROPS = """
import signal, threading, time
from pipelines.compat.worker_processes import worker_processes
from pipelines.errors import STOPPED

def stop(*_):
    STOPPED.set()
    raise KeyboardInterrupt

class Left:  # what Python ends raises to nobody
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, stop)
with worker_processes(1) as run:
    Left()
    print("goes on")
    try:
        run(threading.Event().wait)
    except KeyboardInterrupt:
        print("and ends")
"""


def test_an_interrupt_that_is_lost_ends_the_job(said) -> None:
    assert said(DROPS) == "goes on\nand ends\n"


GARBAGE = """
import gc, os
from pipelines.compat import worker_processes

class Left:
    def __init__(self):
        self.itself, self.whose = self, os.getpid()
    def __del__(self):
        os.write(1, b"mine\\n" if self.whose == os.getpid() else b"another's\\n")

worker_processes._work = lambda *_: gc.collect()
gc.disable()
Left()
with worker_processes._copies(2) as copies:
    for copy in copies:
        copy.wait()
gc.collect()
"""


def test_a_copy_ends_nothing_that_its_command_left(said) -> None:
    assert said(GARBAGE) == "mine\n"


def test_workers_are_started_anew_where_the_system_refuses_a_copy(monkeypatch) -> None:
    ended: list[int] = []

    class Refused:
        def __init__(self, place: int) -> None:
            if place:
                raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

        def kill(self) -> None:
            ended.append(1)

        wait = kill

    monkeypatch.setattr(worker_processes, "_Forked", Refused)
    with worker_processes._copies(2) as copies:
        assert copies == []
        assert ended == [1, 1]
        assert isinstance(coders.registry.get_coder(Piece), coders.BytesCoder)  # none is shared


def test_a_worker_that_cannot_be_started_ends_the_job(monkeypatch) -> None:
    """Where processes are used up neither a copy is to be had nor a new one, and Beam waits."""

    def refused(*_: object) -> NoReturn:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(worker_processes, "_Forked", refused)
    monkeypatch.setattr(worker_processes, "_new", refused)

    ended = threading.Event()

    def begins() -> None:
        start: Any = worker_processes.local_job_service.subprocess.Popen
        with suppress(BlockingIOError):
            start("a worker", {})
        ended.wait(HANGS)

    with worker_processes.worker_processes(2) as run, pytest.raises(FailedError, match="died"):
        run(begins)
    ended.set()


def test_python_may_warn_of_a_copy(monkeypatch) -> None:
    monkeypatch.setattr(worker_processes, "_end", lambda _: None)
    monkeypatch.setattr(
        worker_processes, "_Forked", lambda _: warnings.warn("threads", DeprecationWarning, 1)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with worker_processes._copies(2) as copies:
            assert len(copies) == 2


@pytest.mark.parametrize(
    ("limits", "number"),
    [
        ({}, 8),
        ({"cpu.max": "max 100000", "memory.max": "max"}, 8),
        ({"cpu.max": "100000 100000", "memory.max": "max"}, 1),
        ({"cpu.max": "350000 100000", "memory.max": "max"}, 3),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "max 100000", "memory.max": f"{5 << 30}"}, 2),
        ({"memory.max": f"{1 << 30}"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ({"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}, 2),
        ({"memory/memory.limit_in_bytes": f"{7 << 30}"}, 3),
        ({"memory/memory.limit_in_bytes": "9223372036854771712"}, 8),
    ],
)
def test_a_container_has_its_share_of_a_machine(
    limits: dict[str, str], number: int, tmp_path: Path, monkeypatch
) -> None:
    for name, text in limits.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    monkeypatch.setattr(worker_processes, "_GROUPS", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))
    monkeypatch.setattr(os, "sysconf", lambda name: 1 << (12 if "SIZE" in name else 26))
    assert worker_processes.cores() == number
