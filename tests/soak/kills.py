"""SIGKILL at random moments of every command that matters, and what the rerun makes of it."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.io.filesystems import FileSystems

from pipelines.ledger.ledger import CollectionLedger
from tests.fakes import canaries
from tests.fakes.waiting import HANGS
from tests.soak.attempts import asked, begun

_PLAN = """\
collection: {collection}
version: 1
unit: user per window
user_column: user
input: {input}
output: {root}/out/{{window}}
ledger: {root}/ledger.{form}
budget: {{epsilon: 5, delta: 1.0e-5}}
epsilon: 2.0
model: local
min_reports: 100
{more}metrics:
  - {{name: value, kind: histogram, column: value, domain: domain.txt, mechanism: grr}}
"""
_STREAM = "stream: {window: 1d, state: state, time: at}\n"
_DAYS = 3  # of a stream; each begins and ends its windows in one command
_AGAIN = 1 / 3  # how often a rerun is killed, too
_ROWS = 600


@dataclass
class Killed:
    """What became of one command's kills.

    Attributes:
        what: was killed, and where it worked.
        stages: how often it was hit where.
        windows: that were to be released.
        completed: of them, those that were, whole and once.
        paid_twice: entries that count beside those of the windows' releases.
        unsettled: entries that wait for somebody, and reruns that did.
        faults: whatever must not be, in words.
    """

    what: str
    stages: Counter[str] = field(default_factory=Counter)
    windows: int = 0
    completed: int = 0
    paid_twice: int = 0
    unsettled: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def complaints(self) -> list[str]:
        """In words, whatever is not as it should be."""
        numbers = {
            "windows are not out": self.windows - self.completed,
            "entries are paid twice": self.paid_twice,
            "entries or reruns wait for somebody": self.unsettled,
        }
        counts = [f"{number} {words}" for words, number in numbers.items() if number]
        return [f"{self.what}: {line}" for line in [*counts, *self.faults]]


class Kills:
    """One command, in one place.

    Args:
        command: run, stream, client, shuffle or collect.
        folder: to work in, empty.
        root: of ledger, reports and releases: the same folder, or a bucket's.
        seed: of the moments.
        reports: where those are, if not there.
    """

    def __init__(
        self, command: str, folder: Path, root: str, seed: int, reports: str | None = None
    ) -> None:
        self.command, self.folder, self.root = command, folder, root
        self._reports = root if reports is None else reports
        self.result = Killed(f"{command}, {'bucket' if '://' in root else 'folder'}")
        self._dice = random.Random(f"{seed} {self.result.what}")
        (folder / "in").mkdir(parents=True)
        (folder / "domain.txt").write_text("\n".join(canaries.DECLARED) + "\n")
        stream = command == "stream"
        # A shuffler remembers what it has sent on of a collection's window: each case is its own.
        collection = f"kills-{crc32(bytes(folder)):08x}"
        text = _PLAN.format(
            collection=collection,
            input="in/*.parquet" if stream else "in/{window}.parquet", root=root,
            form="json" if "://" in root else "sqlite", more=_STREAM if stream else "",
        )  # fmt: skip
        (folder / "plan.yaml").write_text(text)
        self._done(["ledger", "init", "plan.yaml"])
        self._length, self._fresh = 0.0, True
        self.windows: list[str] = []

    def until(self, kills: int) -> Killed:
        """Kill so often, and look at what is left."""
        self._length = self.timed()
        number = 0
        while self.result.stages.total() < kills:
            self._round(number, kills)
            number += 1
        for line in asked(faults, str(self.folder), self.root, self.windows):
            self.result.faults.append(line)
        counts = asked(counted, self.root, self.windows)
        self.result.completed = counts["completed"]
        self.result.paid_twice = counts["paid twice"]
        self.result.unsettled += counts["unsettled"]
        return self.result

    def timed(self) -> float:
        """How long the command takes, in seconds, if nobody kills it."""
        for name in ("first", "whole"):  # the first one finds nothing in the machine's memory
            *before, last = self._steps(self.landed(name), name)
            for words in before:
                self._done(words)
            start = time.monotonic()
            self._done(last)
            length = time.monotonic() - start
            for words in self._after(name):
                self._done(words)
        return length

    def _round(self, number: int, kills: int) -> None:
        """Some windows: the command is killed at least once on its way to them."""
        name = f"w{number:04}"
        windows = self.landed(name)
        *before, words = self._steps(windows, name)
        for each in before:
            self._done(each)
        while True:
            left = kills - self.result.stages.total()
            first = self.result.stages.total() == 0 or self._fresh
            self._fresh = False
            deadly = left > 0 and (first or self._dice.random() < _AGAIN)
            after = self._dice.uniform(0.0, 1.05 * self._length) if deadly else HANGS
            attempt = begun(words, self.folder)
            code = attempt.killed(after)
            if code is None and not deadly:
                self._unfinished(f"{name}: a rerun hangs: {attempt.last()}")
                return
            if code is None:
                stage = asked(stage_of, str(self.folder), self.root, self.command, name, windows)
                self.result.stages[stage] += 1
                print(f"{self.result.what}, {name}: killed after {after:.3f} s: {stage}")
                continue
            # A client's reports are never drawn anew: it says that they are there, and they are.
            written = self.command == "client" and "is there already" in attempt.last()
            if code == 0 or written:
                break
            self._unfinished(f"{name}: a rerun ends with {code}: {attempt.last()}")
            return
        for each in self._after(name):
            self._done(each)

    def _unfinished(self, fault: str) -> None:
        self.result.unsettled += 1
        self.result.faults.append(fault)

    def landed(self, name: str) -> list[str]:
        """The input of a round, and the windows that it makes."""
        self._fresh = True
        if self.command != "stream":
            write_input(self.folder / "in" / f"{name}.parquet")
            self.windows.append(name)
            self.result.windows += 1
            return [name]
        first = len(self.windows)
        for day in range(first, first + _DAYS):
            write_input(self.folder / "in" / f"{day:05}.parquet", day)
            self.windows.append(str(np.datetime64("2020-01-01") + day))
        self.result.windows += _DAYS
        return self.windows[first:]

    def _steps(self, windows: list[str], name: str) -> list[list[str]]:
        """What is typed for a round, up to the command that is killed."""
        if self.command == "stream":
            return [["stream", "plan.yaml", "--drain"]]
        if self.command == "run":
            return [["run", "plan.yaml", "--window", name]]
        roads = self._parties(name)
        return roads[: 1 + [words[1] for words in roads].index(self.command)]

    def _after(self, name: str) -> list[list[str]]:
        """What is typed after it."""
        if self.command not in ("client", "shuffle"):
            return []
        roads = self._parties(name)
        return roads[1 + [words[1] for words in roads].index(self.command) :]

    def _parties(self, name: str) -> list[list[str]]:
        reports, mixed = f"{self._reports}/reports/{name}.bin", f"{self._reports}/mixed/{name}"
        window = ["plan.yaml", "--window", name]
        return [
            ["parties", "client", *window, "--input", f"in/{name}.parquet", "--output", reports],
            ["parties", "shuffle", *window, "--input", reports, "--output", mixed],
            ["parties", "collect", *window, "--input", mixed],
        ]

    def _done(self, words: list[str]) -> None:
        """A command that nobody kills."""
        attempt = begun(words, self.folder)
        if (code := attempt.ended()) != 0:
            self.result.faults.append(f"{' '.join(words)} ends with {code}: {attempt.last()}")


def write_input(path: Path, day: int = 0) -> None:
    """A day's rows, whose users are canaries."""
    begins = np.datetime64("2020-01-01", "us") + np.timedelta64(day, "D")
    at = begins + (np.arange(_ROWS) * (86_400_000_000 // _ROWS)).astype("timedelta64[us]")
    rows = pa.table({
        "at": pa.array(at),
        "user": pa.array([f"CANARY-USER-{k:04}" for k in range(_ROWS)]),
        "value": pa.array([canaries.DECLARED[k % 4] for k in range(_ROWS)]),
    })  # fmt: skip
    pq.write_table(rows, path)


def ledger_of(root: str) -> Any:
    """The entries of the ledger, whichever it is."""
    return CollectionLedger.open(f"{root}/ledger.{'json' if '://' in root else 'sqlite'}").entries()


def _statement(root: str, window: str) -> dict[str, Any] | None:
    """Of the release that stands; None if there is none."""
    path = f"{root}/out/{window}/statement.json"
    if not FileSystems.exists(path):
        return None
    with FileSystems.open(path) as stream:
        return json.loads(stream.read())


def stage_of(folder: str, root: str, command: str, name: str, windows: list[str]) -> str:
    """How far a command had come when it was killed."""
    if command == "client":
        return "written" if FileSystems.exists(f"{root}/reports/{name}.bin") else "before"
    if command == "shuffle":
        if FileSystems.exists(f"{root}/mixed/{name}/shuffle.json"):
            return "written"
        return "half" if any(files_in(f"{root}/mixed/{name}")) else "before"
    entries = {entry.window: entry.state for entry in ledger_of(root)}
    states = [entries.get(window, "before") for window in windows]
    if command == "stream":
        done = states.count("committed")
        if "reserved" not in states:
            return f"{done} of {_DAYS}"
        window = windows[states.index("reserved")]
        return f"{done} of {_DAYS}, {'out' if _statement(root, window) else 'paid'}"
    if states[0] == "reserved" and _statement(root, windows[0]) is not None:
        return "out"
    return {"reserved": "paid", "committed": "committed"}.get(states[0], "before")


def counted(root: str, windows: list[str]) -> dict[str, int]:
    """How many windows are out as the ledger says, and what was paid beside."""
    entries = [entry for entry in ledger_of(root) if entry.counted]
    made = [entry for entry in entries if entry.state == "committed"]
    whole = [
        entry for entry in made
        if (_statement(root, entry.window) or {}).get("release_id") == entry.release_id
    ]  # fmt: skip
    return {
        "completed": len({entry.window for entry in whole} & {*windows}),
        "paid twice": len(entries) - len({entry.window for entry in entries}),
        "unsettled": sum(entry.state == "reserved" for entry in entries),
    }


def faults(folder: str, root: str, windows: list[str]) -> list[str]:
    """Whatever stands where nothing should, or lacks a part, or tells of a user."""
    return [*_halves(root, windows), *_leaks(Path(folder))]


def _halves(root: str, windows: list[str]) -> Iterator[str]:
    """Releases that are not whole, and folders that are none."""
    for window in windows:
        statement = _statement(root, window)
        for name in () if statement is None else statement["metrics"]:
            for file in ("histogram.parquet", "statement.json", "report.html"):
                if not FileSystems.exists(f"{root}/out/{window}/{name}/{file}"):
                    yield f"{window}: {name}/{file} is missing"
    for path in files_in(f"{root}/out"):
        part, inside, _ = path.partition("/out/")[2].partition("/")
        # A file beside the releases may be a witness of the ledger's.
        if inside and not part.startswith(".") and _statement(root, part) is None:
            yield f"{path} is no release's"


def files_in(folder: str) -> Iterator[str]:
    """All that is in a folder, or in those inside."""
    for match in FileSystems.match([f"{folder}/**"])[0].metadata_list:
        yield match.path


def _leaks(folder: Path) -> Iterator[str]:
    """Files other than the input that hold a user."""
    for path in folder.rglob("*"):
        if path.is_file() and path.parent.name != "in" and b"CANARY-USER" in path.read_bytes():
            yield f"{path.name} holds a user"
