"""The short form of `make soak`: whatever a run dies of, its windows are out once and paid once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.waiting import HANGS

pytestmark = pytest.mark.verify

PARTS = {
    "kills in a folder": "--parts kills --places folder --kills 2",
    "kills in a bucket": "--parts kills --places bucket --kills 1",
    "stops": "--parts stops --kills 3",
    "month": "--parts month --days 6 --month-kills 8",
    "power cuts": "--parts power --cuts 50",
}


@pytest.mark.parametrize("part", PARTS)
def test_whatever_a_run_dies_of_its_windows_are_out_once(part: str) -> None:
    words = [sys.executable, "-m", "tests.soak", *PARTS[part].split()]
    root = Path(__file__).parents[2]
    # Of a command that hangs within, the soak itself gives notice.
    soak = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=1.2 * HANGS)
    assert soak.returncode == 0, soak.stdout + soak.stderr
    assert soak.stdout.endswith("clean\n")
