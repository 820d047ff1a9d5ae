"""SIGSTOP: an attempt that is stopped, overtaken by another that publishes, and woken again."""

from __future__ import annotations

import hashlib
import random
import signal
import time
from pathlib import Path
from typing import Any

from apache_beam.io.filesystems import FileSystems

from pipelines.ledger import owner
from tests.soak.attempts import asked, begun
from tests.soak.kills import Kills, files_in, ledger_of, stage_of


def overtaken(folder: Path, root: str, times: int, seed: int) -> tuple[dict[str, int], list[str]]:
    """Stop so many runs after they have paid, overtake and wake them.

    Returns:
        How often they were stopped where, and whatever must not be, in words.
    """
    dice, stages, faults = random.Random(seed), dict[str, int](), list[str]()
    kills = Kills("run", folder, root, seed)
    length = kills.timed()
    while sum(stages.values()) < times:
        name = f"w{len(kills.windows):04}"
        kills.landed(name)
        words = ["run", "plan.yaml", "--window", name]
        stopped = begun(words, folder)
        time.sleep(dice.uniform(0.3, 1.0) * length)
        stopped.signal(signal.SIGSTOP)
        while _locks(stopped.process):  # or everybody else would wait for it, as they should
            stopped.signal(signal.SIGCONT)
            time.sleep(0.01)
            stopped.signal(signal.SIGSTOP)
        stage = asked(stage_of, str(folder), root, "run", name, [name])
        stages[stage] = stages.get(stage, 0) + 1
        print(f"stop, {name}: {stage}")
        other = begun(words, folder, _takes_others_for_lost)
        if (code := other.ended()) != 0:
            faults.append(f"{name}: who overtakes ends with {code}: {other.last()}")
        before = asked(standing, root, name)
        stopped.signal(signal.SIGCONT)
        stopped.ended()
        after = asked(standing, root, name)
        if before != after or len(after["made"]) != 1 or not after["files"]:
            faults.append(f"{name}: who was woken changed something")
    return stages, faults + kills.result.faults


def _locks(process: int) -> bool:
    """Whether a process holds a lock on any file, as it does for a moment where it writes."""
    holders = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    return any(words[1] != "->" and int(words[4]) == process for words in holders)


def _takes_others_for_lost() -> None:
    """As after a quarter of an hour of silence."""
    owner.may_run = lambda _: False


def standing(root: str, window: str) -> dict[str, Any]:
    """What of a window is in the ledger and in its folder."""
    entries = [entry for entry in ledger_of(root) if entry.window == window and entry.counted]
    files = {}
    for path in files_in(f"{root}/out/{window}"):
        with FileSystems.open(path) as stream:
            files[path] = hashlib.sha256(stream.read()).hexdigest()
    return {
        "made": [[entry.id, entry.release_id, entry.state] for entry in entries],
        "files": files,
    }
