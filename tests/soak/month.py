"""A month of a stream, under a clock of ours, in which everything goes wrong that can."""

from __future__ import annotations

import functools
import json
import os
import random
import resource
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import pipelines.stream.run
from pipelines.cli import cli
from pipelines.ledger.ledger import CollectionLedger
from pipelines.stream.driver import Driver
from tests.fakes import canaries
from tests.soak.attempts import asked, begun

_BEGIN = datetime(2026, 10, 1, tzinfo=timezone.utc)
_FILES, _ROWS = 4, 100  # of a day
_LATE, _TOO_LATE, _TWICE, _FORGED = 0.03, 0.02, 0.02, 0.01
_KILLED_A_DAY = 3  # at most

_PLAN = """\
collection: month
version: 1
unit: user per window
user_column: user
input: landing/*.parquet
output: out/{window}
ledger: ledger.sqlite
budget: {epsilon: 5, delta: 1.0e-5}
epsilon: 2.0
model: local
min_reports: 100
stream: {window: 1d, state: state, time: at, lateness: 6h}
metrics:
  - {name: value, kind: histogram, column: value, domain: domain.txt, mechanism: grr}
"""


class Month:
    """A stream's folder, and who belongs into which of its windows.

    Args:
        folder: to work in, empty.
        days: how many.
        seed: of all that goes wrong.
    """

    def __init__(self, folder: Path, days: int, seed: int) -> None:
        self.folder, self.days, self.dice = folder, days, random.Random(seed)
        (folder / "landing").mkdir(parents=True)
        (folder / "plan.yaml").write_text(_PLAN)
        (folder / "domain.txt").write_text("\n".join(canaries.DECLARED) + "\n")
        self.sure = [0] * days  # users who are in a day's window
        self.perhaps = [0] * days  # and those whose file went away while it was read
        self.grown: list[tuple[Path, bytes]] = []
        self.waiting: dict[int, list[tuple[datetime, str]]] = {}  # rows that come on a later day
        self.kills, self.faults = 0, list[str]()
        if begun(["ledger", "init", "plan.yaml"], folder).ended() != 0:
            self.faults.append("the ledger cannot be made")

    def landed(self, day: int) -> list[Path]:
        """A day's files; those that may vanish."""
        for path, content in self.grown:
            path.write_bytes(content)
        self.grown.clear()
        rows = self._rows(day)
        self.dice.shuffle(rows)
        parts = [rows[k::_FILES] for k in range(_FILES)]
        paths = [self._written(f"{day:02}-{k}", part) for k, part in enumerate(parts)]
        if self.dice.random() < 0.2:
            self._halve(paths[0])
            for moment, _ in parts[0]:  # what was late is too late by then
                if moment < _BEGIN + timedelta(days=day):
                    self._doubt(moment)
        if self.dice.random() < 0.2:
            for moment, _ in {user: (moment, user) for moment, user in parts[1]}.values():
                self._doubt(moment)
            return [paths[1]]
        return []

    def _rows(self, day: int) -> list[tuple[datetime, str]]:
        """A day's rows and those that come too late, twice, or from nobody."""
        rows = self.waiting.pop(day, [])
        for number in range(_FILES * _ROWS):
            row = (
                _BEGIN + timedelta(days=day, hours=24 * number / (_FILES * _ROWS)),
                f"CANARY-USER-{day}-{number}",
            )
            lot = self.dice.random()
            if lot < _TOO_LATE:
                self.waiting.setdefault(day + 3, []).append(row)
                continue
            self.sure[day] += 1
            if lot < _TOO_LATE + _LATE and day + 1 < self.days:
                self.waiting.setdefault(day + 1, []).append(row)
            else:
                rows.append(row)
            if lot > 1 - _TWICE:
                rows.append(row)
            if self.dice.random() < _FORGED:
                rows.append(
                    (_BEGIN + timedelta(days=self.dice.choice([-9000, 90000])), "CANARY-USER-0")
                )
        return rows

    def _doubt(self, moment: datetime) -> None:
        """A user may be missing whose file goes away."""
        day = (moment - _BEGIN).days
        if 0 <= day < self.days:
            self.sure[day] -= 1
            self.perhaps[day] += 1

    def _written(self, name: str, rows: list[tuple[datetime, str]]) -> Path:
        moments, users = zip(*rows, strict=True)
        table = pa.table({
            "at": pa.array(moments, pa.timestamp("us", tz="UTC")),
            "user": pa.array(users),
            "value": pa.array([canaries.DECLARED[len(user) % 4] for user in users]),
        })  # fmt: skip
        path = self.folder / "landing" / f"{name}.parquet"
        pq.write_table(table, self.folder / "partial")
        os.replace(self.folder / "partial", path)
        return path

    def _halve(self, path: Path) -> None:
        """The file grows: whole on the next day."""
        content = path.read_bytes()
        self.grown.append((path, content))
        path.write_bytes(content[: len(content) // 2])

    def day(self, day: int, kills: int) -> None:
        """A day's files, and the attempts to take them in; the last one goes well.

        Args:
            day: of the month.
            kills: of its attempts.
        """
        vanishing = self.landed(day)
        # A file that is half there is given up after five looks, of which there may be three more.
        kills = min(kills, 1) if self.grown else kills
        evening = _BEGIN + timedelta(days=day + 1, minutes=30)
        for _ in range(kills):
            attempt = self._begun(evening)
            after = self.dice.uniform(0, 1.5)
            if attempt.killed(after) is None:
                self.kills += 1
                print(f"month, day {day}: killed after {after:.3f} s")
        if self.dice.random() < 0.1:
            step = self.dice.choice([-400, -1, 1, 4000])
            print(f"month, day {day}: the clock is wrong by {step} days")
            self._begun(evening + timedelta(days=step)).ended()
        if self.dice.random() < 0.1:
            print(f"month, day {day}: the disk is full")
            self._begun(evening, full).ended()
        attempt = self._begun(evening)
        for path in vanishing:
            time.sleep(self.dice.uniform(0, 1.5))
            path.unlink()
        self._done(attempt, f"day {day}")
        if vanishing:  # what was begun while it was there may have failed
            self._done(self._begun(evening), f"day {day}, again")

    def end(self) -> None:
        """Every window ends."""
        evening = _BEGIN + timedelta(days=self.days, hours=12)
        for path, content in self.grown:
            path.write_bytes(content)
        self._done(self._begun(evening, words=["--drain"]), "the end")

    def _begun(
        self, moment: datetime, more: Callable[[], None] = lambda: None, words: Any = ("--once",)
    ) -> Any:
        def before() -> None:
            set_clock(moment)
            more()

        return begun(["stream", "plan.yaml", *words], self.folder, before)

    def _done(self, attempt: Any, when: str) -> None:
        if (code := attempt.ended()) != 0:
            self.faults.append(f"{when}: ends with {code}: {attempt.last()}")


def set_clock(moment: datetime) -> None:
    """What time it is for a stream in this process."""
    micro = int(moment.timestamp() * 1_000_000)
    pipelines.stream.run.Driver = functools.partial(Driver, clock=lambda: micro)


def full() -> None:
    """Nothing more than a few bytes can be written to a file, as on a full disk."""
    sys.dont_write_bytecode = True  # nor half of a module's
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))


def simulated(folder: Path, days: int, kills: int, seed: int) -> tuple[Month, dict[str, int]]:
    """A month with so many kills, and what became of its windows."""
    month = Month(folder, days, seed)
    for day in range(days):
        left = kills - month.kills
        month.day(day, min(_KILLED_A_DAY, -(-left // (days - day))))
    month.end()
    counts = asked(looked, str(folder), month.sure, month.perhaps)
    month.faults += counts.pop("faults")
    return month, counts


def looked(folder: str, sure: list[int], perhaps: list[int]) -> dict[str, Any]:
    """What became of each window: right, withheld, or a fault."""
    entries = CollectionLedger.open(f"{folder}/ledger.sqlite").entries()
    counted = [entry for entry in entries if entry.counted]
    found: dict[str, Any] = {"right": 0, "withheld": 0, "faults": []}
    for day in range(len(sure)):
        name = (_BEGIN + timedelta(days=day)).date().isoformat()
        paid = [entry for entry in counted if entry.window == name]
        statement = Path(folder, "out", name, "value", "statement.json")
        n = json.loads(statement.read_text())["n"] if statement.exists() else 0
        if not statement.exists() and not paid:
            found["withheld"] += 1
        elif not sure[day] <= n <= sure[day] + perhaps[day]:
            found["faults"].append(
                f"{name}: {n} reports of {sure[day]} to {sure[day] + perhaps[day]}"
            )
        elif [entry.state for entry in paid] != ["committed"]:
            found["faults"].append(f"{name}: {len(paid)} entries that count")
        else:
            found["right"] += 1
    for path in Path(folder).rglob("*"):
        inside = path.relative_to(folder).parts[0]
        if path.is_file() and inside != "landing" and b"CANARY-USER" in path.read_bytes():
            found["faults"].append(f"{path.name} holds a user")
    return found


def held(folder: str, days: int, seed: int) -> list[tuple[int, int]]:
    """(memory in KiB, file handles) after each day of a month that one process lives through."""
    month, samples = Month(Path(folder), days, seed), []
    os.chdir(folder)
    for day in range(days):
        month.landed(day)
        set_clock(_BEGIN + timedelta(days=day + 1, minutes=30))
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        cli.main(["stream", "plan.yaml", "--once"])
        # Its own pages, wherever they are: those of files come and go as others need the machine.
        memory = sum(
            int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines()
            if line.startswith(("RssAnon", "VmSwap"))
        )  # fmt: skip
        samples.append((memory, len(os.listdir("/proc/self/fd"))))
    return samples
