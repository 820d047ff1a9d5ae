"""Commands that begin at once, in forks of a process that has imported everything, and die."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # a fork takes no threads along
os.environ["COLUMNS"] = "200"

# Whatever a command would import: a kill is to hit its work, not four seconds of imports.
import google.cloud.storage  # noqa: F401
import scipy.stats  # noqa: F401
from apache_beam.internal.gcp import auth

from pipelines.cli import cli
from tests.fakes.waiting import HANGS

# Beam would look for credentials for half a minute before it goes on without.
auth._Credentials._credentials_init = True


@dataclass
class Attempt:
    """A command that was begun.

    Attributes:
        process: its number, and its group's.
        log: what it says.
        begun: when.
    """

    process: int
    log: Path
    begun: float

    def ended(self, within: float = HANGS) -> int | None:
        """Its exit code; None if it goes on."""
        with _descriptor(self.process) as watched:
            if not select.select([watched], [], [], within)[0]:
                return None
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])

    def killed(self, after: float) -> int | None:
        """Its exit code if it has ended by then; else it is killed, with all that it has begun."""
        code = self.ended(max(0.0, self.begun + after - time.monotonic()))
        if code is None:
            self.signal(signal.SIGKILL)
            self.ended()
        return code

    def last(self) -> str:
        """The last line that it said."""
        return (self.log.read_text().strip().splitlines() or ["nothing"])[-1]

    def signal(self, number: int) -> None:
        """To it and to all that it has begun."""
        os.killpg(self.process, number)


@contextlib.contextmanager
def _descriptor(process: int) -> Any:
    number = os.pidfd_open(process)
    try:
        yield number
    finally:
        os.close(number)


def begun(words: list[str], folder: Path, before: Callable[[], None] = lambda: None) -> Attempt:
    """Begin a command in a process of its own.

    Args:
        words: after `hushbeam`.
        folder: in which it is typed.
        before: is called in that process first.
    """
    log = folder / "log.txt"

    def command() -> None:
        os.chdir(folder)
        said = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(said, 1)
        os.dup2(said, 2)
        before()
        sys.argv = ["hushbeam", *words]
        cli.entry()

    return Attempt(_forked(command), log, time.monotonic())


def asked(question: Callable[..., Any], *about: Any) -> Any:
    """What a function says in a process of its own: this one is to start no thread."""
    reading, writing = os.pipe()

    def answer() -> None:
        os.close(reading)
        with open(writing, "w") as stream:
            json.dump(question(*about), stream)

    process = _forked(answer)
    os.close(writing)
    with open(reading) as stream:
        said = stream.read()
    if os.waitpid(process, 0)[1] != 0:
        raise RuntimeError(f"{question.__name__} failed")
    return json.loads(said)


def _forked(work: Callable[[], None]) -> int:
    """A process that does this and nothing else."""
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        code = 70
        try:
            os.setpgid(0, 0)
            work()
            code = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(code)
    with contextlib.suppress(OSError):
        os.setpgid(process, process)  # whoever comes first
    return process
