"""Runs of pytest in copies of one process, which has imported what no bug can be in.

To import Beam, Arrow and scipy takes longer than most tests that are tried. So a process does it
once, and forks for each run; of the tree itself it imports nothing, for each run has another one.

    python tests/mutants/forks.py

reads a run a line, in JSON, and answers each with how pytest ended.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_IMPORTED = (
    "numpy", "scipy.optimize", "scipy.signal", "scipy.special", "scipy.stats", "pyarrow.compute",
    "pyarrow.csv", "pyarrow.parquet", "pydantic", "rich.console", "rich.table", "pytest",
    "pytest_timeout", "hypothesis", "dp_accounting.pld.privacy_loss_distribution",
    "cryptography.hazmat.primitives.ciphers.aead", "apache_beam",
    "apache_beam.runners.portability.fn_api_runner.fn_runner", "apache_beam.testing.util",
)  # fmt: skip
_LOOK = 0.02  # seconds between two looks at a run


class Forks:
    """One such process; one run at a time.

    It takes some seconds to begin, so it does with the first run.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, folder: Path, words: Sequence[str], seconds: float) -> int | None:
        """The exit code of pytest; None if it did not end in time.

        Args:
            folder: of the tree.
            words: of pytest's command line.
            seconds: that it has.
        """
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, __file__], env=_alone(os.environ), text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
        told = {"folder": str(folder), "words": [*words], "seconds": seconds}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(told), file=self._process.stdin, flush=True)
        code: int | None = json.loads(self._process.stdout.readline())
        return code

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()


def _alone(environment: Mapping[str, str]) -> dict[str, str]:
    """Without threads, which a fork would lose, and without a tree."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    left = {name: said for name, said in environment.items() if name != "PYTHONPATH"}
    return left | threads


def _serve() -> None:
    """Answer runs until there are no more."""
    for name in _IMPORTED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    # The folder of this file is nobody's place to import from.
    here, told = os.path.dirname(os.path.abspath(__file__)), os.fdopen(os.dup(1), "w")
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    for line in sys.stdin:
        print(json.dumps(_forked(**json.loads(line))), file=told, flush=True)


def _forked(folder: str, words: list[str], seconds: float) -> int | None:
    """One run, and an end of all that it has begun."""
    child = os.fork()
    if not child:
        try:
            code: Any = _run(folder, words)
        except BaseException:
            code = 3
        os._exit(int(code))  # whatever threads a test has left
    ends, code = time.monotonic() + seconds, None
    while code is None and time.monotonic() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
        else:
            time.sleep(_LOOK)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if code is None:
        os.waitpid(child, 0)
    return code


def _run(folder: str, words: list[str]) -> int:
    """Become a run of pytest in a tree."""
    import pytest

    os.setsid()  # so that programs which tests have begun end with it
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.chdir(folder)
    sys.path.insert(0, folder)
    # Plugins that nothing here needs take longer to load than most of these tests to run; but
    # for the one whose option stands in pyproject.toml.
    os.environ |= {
        "PYTHONPATH": folder, "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"
    }  # fmt: skip
    return int(pytest.main(["-p", "pytest_timeout", "-p", "no:cacheprovider", "-q", *words]))


if __name__ == "__main__":
    _serve()
