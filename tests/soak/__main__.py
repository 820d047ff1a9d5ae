"""`make soak`: kill, stop, cut the power, live through a month, and look at what is left."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.fakes.cloud_storage import BUCKET
from tests.soak import month, power, servers, stops
from tests.soak.attempts import asked
from tests.soak.kills import Killed, Kills

COMMANDS = ("run", "stream", "client", "shuffle", "collect")
PLACES = ("folder", "bucket", "stranger's bucket")
PARTS = ("kills", "stops", "month", "power")


def main() -> int:
    """Everything that was asked for; 0 if there is nothing to complain of."""
    parser = argparse.ArgumentParser(prog="make soak ARGS=", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="of each command in each place (20)")
    parser.add_argument("--month-kills", type=int, default=50, help="in a month (50)")
    parser.add_argument("--days", type=int, default=30, help="of a month (30)")
    parser.add_argument("--cuts", type=int, default=1000, help="of the power (1,000)")
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--commands", nargs="+", default=COMMANDS, choices=COMMANDS)
    parser.add_argument("--places", nargs="+", default=PLACES, choices=PLACES)
    parser.add_argument("--seed", type=int, default=14)
    options = parser.parse_args()
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        # Secrets of clients and shufflers, and keys of ledgers: never in the home of who runs this.
        os.environ["XDG_STATE_HOME"] = str(folder / "home")
        for part in options.parts:
            faults += _PARTS[part](folder / part, options)
    for line in faults:
        print(line)
    print("clean" if not faults else f"{len(faults)} faults")
    return int(bool(faults))


def _kills(folder: Path, options: argparse.Namespace) -> list[str]:
    """Kills of each command in each place, as a table."""
    table = Table(title=f"SIGKILL at random moments, seed {options.seed}")
    for heading in ("killed", "kills", "where", "windows", "completed", "paid twice", "unsettled"):
        table.add_column(heading)
    faults = []
    for place in options.places:
        with ExitStack() as stack:
            root = _opened(place, folder, stack)
            for command in options.commands if root else ():
                if place == PLACES[2] and command in ("client", "shuffle"):
                    continue  # Beam moves files in batches of requests, which it does not serve
                work = folder / place / command
                there = f"{root}/{command}" if "://" in root else str(work)
                reports = str(work) if place == PLACES[2] else there
                result = Kills(command, work, there, options.seed, reports).until(options.kills)
                result.what = f"{command}, {place}"
                table.add_row(*_row(result))
                faults += result.complaints
    Console(width=120).print(table)
    return faults


def _row(result: Killed) -> tuple[str, ...]:
    stages = ", ".join(f"{size} {stage}" for stage, size in sorted(result.stages.items()))
    numbers = (result.windows, result.completed, result.paid_twice, result.unsettled)
    return result.what, str(result.stages.total()), stages, *map(str, numbers)


def _opened(place: str, folder: Path, stack: ExitStack) -> str:
    """Where things go; nothing if there is no such place here."""
    if place == "folder":
        return str(folder)
    os.environ["GOOGLE_CLOUD_PROJECT"] = "project"
    if place == "bucket":
        os.environ["STORAGE_EMULATOR_HOST"] = stack.enter_context(servers.emulator())
    else:
        program = servers.stranger(folder / "bin")
        if program is None:
            print("no stranger's bucket: fake-gcs-server is built with Go, which is not here")
            return ""
        os.environ["STORAGE_EMULATOR_HOST"] = stack.enter_context(servers.strangers(program))
    return f"gs://{BUCKET}"


def _stops(folder: Path, options: argparse.Namespace) -> list[str]:
    """Runs that are stopped, overtaken and woken."""
    stages, faults = stops.overtaken(folder, str(folder), options.kills, options.seed)
    print(f"stopped, overtaken and woken: {stages}")
    return faults


def _month(folder: Path, options: argparse.Namespace) -> list[str]:
    """A month of a stream, twice: killed again and again, and in one process."""
    lived, counts = month.simulated(
        folder / "killed", options.days, options.month_kills, options.seed
    )
    print(f"{options.days} days with {lived.kills} kills: {counts}")
    samples = asked(month.held, str(folder / "whole"), options.days, options.seed)
    memory, handles = zip(*samples[options.days // 3 :], strict=True)
    print(
        f"memory in the last two thirds: {min(memory):,} to {max(memory):,} KiB; "
        f"file handles: {max(handles)}"
    )
    grown = max(memory) > 1.1 * memory[0] or max(handles) > handles[0] + 2
    return lived.faults + (["memory or file handles grow"] if grown else [])


def _power(folder: Path, options: argparse.Namespace) -> list[str]:
    """Power cuts."""
    faults = power.cut(folder, options.cuts, options.seed)
    print(f"{options.cuts:,} power cuts: {len(faults)} faults")
    return faults


_PARTS = {"kills": _kills, "stops": _stops, "month": _month, "power": _power}

if __name__ == "__main__":
    sys.exit(main())
