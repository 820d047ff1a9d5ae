"""Beam's worker processes on this machine, watched: its runner waits for a dead one for ever.

What a worker was sent, and all that it was to answer, is lost with it, so the job is over. Beam
says so in a thread that nobody listens to, and goes on waiting. A machine short of memory kills so.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from types import SimpleNamespace
from typing import Any, TypeVar

from apache_beam.runners.portability import local_job_service

from pipelines.errors import FailedError

Result = TypeVar("Result")

_EVERY = 0.5  # seconds between two looks at the workers
_PATIENCE = 10  # seconds for threads that end with their worker


def run_watched(run: Callable[[], Result]) -> Result:
    """What a run in worker processes returns or raises; none of them is left when it has not.

    Args:
        run: returns when all workers have answered.

    Raises:
        FailedError: a worker died.
    """
    result: Future[Result] = Future()

    def work() -> None:
        try:
            result.set_result(run())
        except BaseException as error:
            result.set_exception(error)

    with _started() as workers:
        # Where it waits it cannot be interrupted; a daemon keeps no process from its end.
        threading.Thread(target=work, name="hushbeam_run", daemon=True).start()
        while not wait([result], _EVERY).done:
            if any(worker.poll() for worker in workers):
                raise FailedError(
                    "a worker process died, perhaps for want of memory, and the job with it; see "
                    "what stands in the output folder, and run it again, with fewer "
                    "--direct_num_workers if memory is short"
                )
        return result.result()


def _looks_here() -> bool:
    """Whether this process imports from the current folder, as an installed script does not."""
    return bool({"", os.getcwd()} & {*sys.path})


@contextlib.contextmanager
def _started() -> Iterator[list[subprocess.Popen[bytes]]]:
    """The worker processes that Beam starts meanwhile; who still lives in the end is killed.

    A worker that outlives its job could publish what has been given up.
    """
    workers: list[subprocess.Popen[bytes]] = []

    def start(command: str, **options: Any) -> subprocess.Popen[bytes]:
        if not _looks_here():  # nor must they: a folder `pipelines` of the user's own may be there
            options["env"] = {**options.get("env", os.environ), "PYTHONSAFEPATH": "1"}
        # In the place of the shell: who kills a shell leaves alive what it has started.
        workers.append(subprocess.Popen(f"exec {command}", **options))
        return workers[-1]

    usual = local_job_service.subprocess
    # Beam keeps its processes to itself; this is where it starts them.
    local_job_service.subprocess = SimpleNamespace(Popen=start)
    try:
        yield workers
    finally:
        local_job_service.subprocess = usual
        for worker in workers:
            worker.kill()
            worker.wait()
        for thread in threading.enumerate():
            if thread.name == "run_worker":
                thread.join(_PATIENCE)
