"""What is left when a run is killed: `hushbeam run`, SIGKILL at random moments, then once more.

Every round checks that there is no release without an entry of the ledger, no half release, no
entry lost, and that the rerun completes. HUSHBEAM_ROUNDS says how many rounds (50).
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROUNDS = int(os.environ.get("HUSHBEAM_ROUNDS", "50"))
_FLIGHTS = Path(__file__).parents[1] / "examples" / "flights.parquet"

_PLAN = """\
collection: crashes
version: 1
unit: user
user_column: tail_number
input: {input}
output: out/{{window}}
ledger: ledger.sqlite
budget: {{epsilon: 600, delta: 1.0e-3}}
epsilon: 2.0
min_reports: 3000
metrics:
  - {{name: distance, kind: mean, column: distance, bounds: "0,5000"}}
  - {{name: delay, kind: mean, column: departure_delay, bounds: "-30,180"}}
"""


def main() -> None:
    """Kill, look, run again, and print where runs were when they died."""
    dice = random.Random(20261121)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "plan.yaml").write_text(_PLAN.format(input=_FLIGHTS))
        took = _timed(work, "whole")
        table = Table(title=f"{ROUNDS} runs of {took:.1f} s killed at random moments")
        for heading in ("killed after, s", "release", "entries", "states", "rerun"):
            table.add_column(heading)
        for number in range(ROUNDS):
            table.add_row(*_round(work, f"w{number}", dice.uniform(0, 1.1 * took)))
    Console().print(table)


def _start(work: Path, window: str) -> subprocess.Popen[bytes]:
    words = ["-m", "pipelines.cli", "run", "plan.yaml", "--window", window]
    return subprocess.Popen(
        [sys.executable, *words], cwd=work, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
    )  # fmt: skip


def _timed(work: Path, window: str) -> float:
    begun = time.monotonic()
    if _start(work, window).wait() != 0:
        raise RuntimeError("the run itself fails")
    return time.monotonic() - begun


def _round(work: Path, window: str, after: float) -> tuple[str, ...]:
    """One kill and one rerun."""
    before = len(_entries(work))
    process = _start(work, window)
    time.sleep(after)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    left = _left(work, window)
    held = [entry for entry in _entries(work) if entry["window"] == window]
    if len(_entries(work)) < before:
        raise RuntimeError(f"{window}: an entry was lost")
    if left == "whole" and _release_id(work, window) not in {e["release_id"] for e in held}:
        raise RuntimeError(f"{window}: a release without an entry")
    code = _start(work, window).wait()
    held = [entry for entry in _entries(work) if entry["window"] == window]
    made = [entry for entry in held if entry["state"] == "committed"]
    if code != 0 or len(made) != 1 or _left(work, window) != "whole":
        raise RuntimeError(f"{window}: the rerun ended with {code} and {len(made)} releases")
    if _release_id(work, window) != made[0]["release_id"]:
        raise RuntimeError(f"{window}: the ledger knows another release")
    states = ", ".join(entry["state"] for entry in held)
    return f"{after:.2f}", left, str(len(held)), states, "complete"


def _left(work: Path, window: str) -> str:
    """What stands in the output folder: nothing or all of it."""
    folder = work / "out" / window
    if not folder.exists():
        return "none"
    said = json.loads((folder / "statement.json").read_text())
    for name in said["metrics"]:
        for file in ("mean.parquet", "statement.json", "report.html"):
            if not (folder / name / file).stat().st_size:
                raise RuntimeError(f"{window}: half a release")
    return "whole"


def _release_id(work: Path, window: str) -> str:
    return str(json.loads((work / "out" / window / "statement.json").read_text())["release_id"])


def _entries(work: Path) -> list[dict[str, str]]:
    from pipelines.ledger.ledger import Ledger

    if not (work / "ledger.sqlite").exists():
        return []
    ledger = Ledger.open(str(work / "ledger.sqlite"), begin=False)
    return [entry.model_dump() for entry in ledger.entries()]
