"""Silence while a job runs: what Beam says of a failure may quote the data."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator

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
        sys.stderr.flush()
        stderr = os.dup(2)
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(stderr, 2)
            os.close(stderr)
            root.setLevel(level)
