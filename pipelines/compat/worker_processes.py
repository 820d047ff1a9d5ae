"""Beam's worker processes on this machine: forked where that is safe, and watched.

Beam would start each as a new Python, which imports for three CPU seconds what this process has in
memory already. And it waits for a dead one for ever: what a worker was sent, and all that it was to
answer, is lost with it, so the job is over. Beam says so in a thread that nobody listens to. A
machine short of memory kills so.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from multiprocessing import Pipe, current_process, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, TypeVar

from apache_beam.runners.portability import local_job_service
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.runners.worker import sdk_worker_main

from mechanisms.compat.switch import on
from pipelines.errors import STOPPED, FailedError
from pipelines.storage import alive
from transforms.elements.pieces import be_worker, shared
from transforms.elements.progress import count, pass_on
from transforms.encoders.texts import pickled_whole

Result = TypeVar("Result")

_NONE: Any = SimpleNamespace(poll=lambda: 1)  # stands for a worker that could not be started

_EVERY = 0.5  # seconds between two looks at the workers
_PATIENCE = 10  # seconds for threads that end with their worker
_ENDING = ("run_worker", "hushbeam_count")  # Beam's name of such threads, and ours

# A thread that minds a fork itself (pthread_atfork), of Arrow's allocator. Those of Arrow's pools
# and of OpenBLAS do, too, and have the name of their process.
_MINDFUL = "jemalloc_bg_thd"

_PR_SET_PDEATHSIG = 1  # of prctl.h

_GROUPS = Path("/sys/fs/cgroup")  # of this process, where it is a container's

# Whoever stops a command may stop its whole group: the command says why, and ends its workers.
_THE_COMMANDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


# Workers of one job at most, for the command groups what all of them send; and the memory of this
# machine that each should have, several times what one was seen to take (0.3 to 0.6 GB).
_MOST, _MEMORY_PER_PROCESS = 8, 2 << 30


def may_fork() -> bool:
    """Whether a copy of this process can go on alone: on Linux, with no thread that it would miss.

    A lock that a thread holds while the process is copied stays locked in the copy for ever. gRPC,
    once it was started, and notebooks have such threads. Libraries of other systems forbid it, and
    so does `multiprocessing` to the workers of a pool.
    """
    ours = {threading.main_thread().name, alive.THREAD}
    if not on() or sys.platform != "linux" or current_process().daemon:
        return False
    if not {thread.name for thread in threading.enumerate()} <= ours:
        return False
    names = {(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()}
    return names <= {Path("/proc/self/comm").read_text().strip(), _MINDFUL}


def cores() -> int:
    """How many workers may run at once: one for each core that this process may use.

    A container's share of a machine counts, and not the machine.
    """
    if sys.platform != "linux":
        return 1
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    share = (
        min([memory, *_limits("memory.max", "memory/memory.limit_in_bytes")]) / _MEMORY_PER_PROCESS
    )
    quota = _limits("cpu.max", "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")
    return max(1, int(min([len(os.sched_getaffinity(0)), _MOST, share, *quota])))


def _limits(second: str, *first: str) -> Iterator[float]:
    """What control groups allow, under either version's names: an amount, or one in a period."""
    for names in ([second], [*first]):
        with contextlib.suppress(OSError, ValueError):
            words = " ".join((_GROUPS / name).read_text() for name in names).split()
            amount, period = [*map(int, words), 1][:2]  # "max" is no number
            if amount > 0:  # -1: none
                yield amount / period


@contextlib.contextmanager
def worker_processes(number: int) -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """Worker processes for the runs that Beam begins meanwhile; forked at once, if that is safe.

    Yields:
        What takes a run, and returns or raises what it does; a FailedError if a worker dies. In the
        end none of them is left: who outlives its job could publish what has been given up.
    """
    with contextlib.ExitStack() as stack:
        stack.callback(_join)
        with alive.at_rest():
            forked = stack.enter_context(_copies(number)) if may_fork() else []
        waiting = iter(forked)
        workers: list[Any] = [*forked]

        def start(command: str, env: Mapping[str, str], **_: object) -> Any:
            try:
                copy = next(waiting, None)
                if copy is not None:
                    copy.begin(env)
                    return copy
                workers.append(_new(command, env))
            except Exception:  # in a thread of Beam's, which nobody listens to either
                workers.append(_NONE)
                raise
            stack.callback(_end, workers[-1])
            return workers[-1]

        stack.callback(setattr, local_job_service, "subprocess", local_job_service.subprocess)
        # Beam keeps its processes to itself; this is where it starts them.
        local_job_service.subprocess = SimpleNamespace(Popen=start)
        over = threading.Event()
        handler: Any = worker_handlers.GrpcWorkerHandler
        stack.callback(setattr, handler, "close", handler.close)
        handler.close = _closing(handler.close, workers, over)
        # A copy has the texts that this process has; a new Python has none.
        yield lambda run: _watched(run if forked else pickled_whole()(run), workers, over)


def _kill(workers: Sequence[Any]) -> None:
    for worker in workers:
        worker.kill()


def _closing(
    close: Callable[[Any], None], workers: Sequence[Any], over: threading.Event
) -> Callable[[Any], None]:
    """Beam's end of a job's workers; who does not end when told to is killed.

    Where a bundle failed in one worker, another may wait for its data for ever, and Beam for it.
    """

    def closed(handler: Any) -> None:
        over.set()
        late = threading.Timer(_PATIENCE, _kill, [workers])
        late.daemon = True
        late.start()
        try:
            close(handler)
        finally:
            late.cancel()

    return closed


@contextlib.contextmanager
def _copies(number: int) -> Iterator[list[_Forked]]:
    """Forked workers that share memory; none if the system refuses one of them."""
    with contextlib.ExitStack() as stack:
        forked: list[_Forked] = []
        # In a copy garbage stays: to end a temporary folder or a connection is up to whose it was.
        gc.freeze()
        try:
            stack.enter_context(shared(number))
            with warnings.catch_warnings():
                # From 3.12 on Python warns of threads, mindful or not, once the copy is made: who
                # has warnings raised would have an error, and a copy that nobody ends.
                warnings.simplefilter("ignore", DeprecationWarning)
                for place in range(number):
                    forked.append(_Forked(place))
                    stack.callback(_end, forked[-1])
        except OSError:  # processes, memory or files are used up
            stack.close()
            forked = []
        finally:
            gc.unfreeze()
        yield forked


def _join() -> None:
    """Wait for the threads that end with their worker."""
    for thread in threading.enumerate():
        if thread.name in _ENDING:
            thread.join(_PATIENCE)


def _watched(run: Callable[[], Result], workers: Sequence[Any], over: threading.Event) -> Result:
    """What a run returns or raises, while all workers live, those that still wait among them.

    Once it is over, they may die: Beam knows by then what came of it.
    """
    result: Future[Result] = Future()

    def work() -> None:
        try:
            result.set_result(run())
        except BaseException as error:
            result.set_exception(error)

    # Where it waits it cannot be interrupted; a daemon keeps no process from its end.
    here = contextvars.copy_context()  # in which texts stay, or do not
    threading.Thread(target=here.run, args=(work,), name="hushbeam_run", daemon=True).start()
    while not wait([result], _EVERY).done:
        if STOPPED.is_set():
            raise KeyboardInterrupt
        if not over.is_set() and any(worker.poll() for worker in workers):
            raise FailedError(
                "a worker process died, or could not be started, perhaps for want of memory, and "
                "the job with it; see what stands in the output folder, and run it again, with "
                "fewer --direct_num_workers if memory or processes are short"
            )
    return result.result()


def _end(worker: Any) -> None:
    worker.kill()
    worker.wait()


def _new(command: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """A worker as Beam would start it."""
    here = {"", os.getcwd()} & {*sys.path}
    # An installed script does not import from the current folder, nor must its workers: a folder
    # `pipelines` of the user's own may be there.
    safe = {} if here else {"PYTHONSAFEPATH": "1"}
    # In the place of the shell: who kills a shell leaves alive what it has started.
    return subprocess.Popen(f"exec {command}", shell=True, env={**env, **safe})


class _Forked:
    """A copy of this process that waits until Beam wants a worker."""

    def __init__(self, place: int) -> None:
        self._orders, theirs = Pipe()
        self._process = get_context("fork").Process(
            target=_work, args=(place, theirs, os.getpid()), daemon=True
        )
        self._process.start()
        theirs.close()

    def begin(self, environment: Mapping[str, str]) -> None:
        """Let it be the worker that Beam describes so."""
        self._orders.send({**environment})
        threading.Thread(target=self._count, name=_ENDING[1], daemon=True).start()

    def _count(self) -> None:
        """Count here what it counts there, for whoever watches, until its end."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                count(*self._orders.recv())

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> None:
        self._process.join()

    def kill(self) -> None:
        self._process.kill()


def _work(place: int, orders: Connection, parent: int) -> NoReturn:
    """All that a forked worker does; its randomness is its own, as `mechanisms.randomness` says."""
    for stop in _THE_COMMANDS:
        signal.signal(stop, signal.SIG_IGN)
    # A command that is killed outright takes its workers along.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    os.environ.update(orders.recv())
    logging.getLogger().handlers.clear()  # Beam sends a worker's log to the command
    # And prints what a step has raised: an error's text might quote the data.
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for as long as it lives
    be_worker(place)
    pass_on(lambda name, amount: orders.send((name, amount)))
    sdk_worker_main.main([])
    os._exit(0)  # as the command ends; see pipelines.cli.cli.entry
