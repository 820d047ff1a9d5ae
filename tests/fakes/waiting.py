"""Waiting for what another process or thread will do, however slow the machine is."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any

# Seconds after which something hangs, and the run with it: nothing that ends at all takes so long.
HANGS = 600.0


def until(happened: Callable[[], Any], process: subprocess.Popen[Any] | None = None) -> None:
    """Look until something has happened.

    Args:
        happened: whether it has.
        process: that it is expected of; if it ends without, nobody waits any longer.
    """
    end = time.monotonic() + HANGS
    while not happened():
        assert process is None or process.poll() is None or happened(), "it ended without"
        assert time.monotonic() < end, "it hangs"
        time.sleep(0.01)
