"""Silence while a job runs: what Beam says of a failure may quote the data."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from typing import TextIO

from pipelines.errors import Caution


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Let nobody but us speak on stderr: a traceback in Beam's log could quote the data.

    Beam logs with the root logger; worker processes inherit our stderr and log on their own.
    """
    root = logging.getLogger()
    level = root.level
    with warnings.catch_warnings(), open(os.devnull, "w") as nowhere:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", Caution)
        root.setLevel(logging.CRITICAL)
        try:
            with elsewhere(2, nowhere):
                yield
        finally:
            root.setLevel(level)


@contextlib.contextmanager
def elsewhere(number: int, file: TextIO) -> Iterator[None]:
    """Let a file have what is written to 1, stdout, or 2, stderr, also by another process."""
    stream = (sys.stdout, sys.stderr)[number - 1]
    stream.flush()
    before = os.dup(number)
    os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        stream.flush()
        os.dup2(before, number)
        os.close(before)
