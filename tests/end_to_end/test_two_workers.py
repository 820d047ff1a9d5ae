"""Every kind of metric in two forked workers: what is counted does not depend on who counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.examples import CASES, DOMAIN, Case
from tests.fakes import canaries
from tests.fakes.waiting import HANGS

pytestmark = pytest.mark.usefixtures("beams_runner")


ROOT = Path(__file__).parents[2]


SHUFFLED = [case for case in CASES if case.model == "shuffle"]


@pytest.mark.verify
@pytest.mark.parametrize("case", SHUFFLED, ids=lambda case: f"{case.kind}-{case.unit}")
def test_two_workers_count_what_one_would(case: Case, log: str, workspace: Path) -> None:
    (workspace / DOMAIN).write_text("".join(f"{v}\n" for v in canaries.DECLARED))
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.cli.cli", *case.words(log), "--direct_num_workers=2"],
        cwd=workspace, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        timeout=HANGS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not canaries.found(done.stdout + done.stderr, declared=False)
    statement = json.loads((workspace / "out" / "statement.json").read_text())
    assert statement["n"] == case.n
    assert statement.get("rows_read") == case.rows_read
    assert statement["rejects"] == case.rejects
