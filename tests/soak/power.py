"""Power cuts: what a run wrote is recorded, and rebuilt as a disk might hold it at any moment.

What was not followed by a sync of its file or folder may be lost, in any part: a write, or all of
it but some sectors; a name that was made, moved or taken away. That is more than file systems with
a journal lose.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.errors import FailedError, RequestError
from pipelines.ledger.ledger import CollectionLedger
from tests.fakes import canaries
from tests.soak.kills import write_input

_RECORDER = Path(__file__).with_name("recorder.c")
_SECTOR = 512
_WHOLE, _ORDERED = 0.25, 0.5  # how often everything pending arrives; or names in their order


@dataclass(frozen=True)
class Step:
    """One thing that a process did to the disk.

    Attributes:
        what: create, write, truncate, sync, rename, link, unlink, mkdir or rmdir.
        path: to what.
        other: the new name, of a rename or link.
        number: an offset or a size.
        data: that was written.
    """

    what: str
    path: str
    other: str
    number: int
    data: bytes


@dataclass
class _File:
    """A file, whatever its names: each write with whether a sync has followed it."""

    writes: list[tuple[Step, bool]] = field(default_factory=list)


def recorded(folder: Path, commands: Sequence[Sequence[str]]) -> tuple[list[Step], list[int]]:
    """Run commands and note what they write below a folder.

    Args:
        folder: absolute; the commands are typed there.
        commands: words after `hushbeam`.

    Returns:
        The steps, and how many of them had been taken when each command had ended.
    """
    library, journal = folder.with_name("recorder.so"), folder.with_name("journal")
    words = ["cc", "-O1", "-shared", "-fPIC", "-o", library, _RECORDER, "-ldl", "-lpthread"]
    subprocess.run(words, check=True)
    ends = []
    for command in commands:
        # No bytecode: it is no part of what is looked at.
        subprocess.run(
            [sys.executable, "-m", "pipelines.cli.cli", *command], cwd=folder, check=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=os.environ | {
                "LD_PRELOAD": str(library), "RECORDED_FOLDER": str(folder),
                "RECORDED_JOURNAL": str(journal), "PYTHONPATH": os.pathsep.join(sys.path),
            },
        )  # fmt: skip
        ends.append(len(journal.read_bytes().splitlines()))
    fields = (line.split("\t") for line in journal.read_text().splitlines())
    steps = [
        Step(what, path, other, int(number), bytes.fromhex(data))
        for what, path, other, number, data in fields
    ]
    return steps, ends


class Disk:
    """What may stand on a disk after some steps.

    Args:
        before: the files that were there, as they were: path -> content.
        steps: that were taken.
    """

    def __init__(self, before: dict[str, bytes], steps: Sequence[Step]) -> None:
        self._names: dict[str, _File] = {}  # as processes see them
        self._changes: list[tuple[Step, _File | None, bool]] = []
        self._before: dict[str, _File] = {}
        self._root = os.path.commonpath([os.path.dirname(path) for path in before])
        self._folders = {folder for path in before for folder in self._inside(path)}
        for path, data in before.items():
            self._before[path] = self._names[path] = _File(
                [(Step("write", path, "", 0, data), True)]
            )
        for step in steps:
            self._take(step)

    def _inside(self, path: str) -> list[str]:
        """The folders around a path, up to the one that was looked at."""
        folders = []
        while (path := os.path.dirname(path)) != self._root:
            folders.append(path)
        return folders

    def _take(self, step: Step) -> None:
        if step.what in ("write", "truncate"):
            self._names[step.path].writes.append((step, False))
        elif step.what == "sync":
            self._sync(step.path)
        else:
            self._name(step)

    def _sync(self, path: str) -> None:
        if path in self._names:
            file = self._names[path]
            file.writes = [(step, True) for step, _ in file.writes]
        self._changes = [
            (step, file, done or path in _folders(step)) for step, file, done in self._changes
        ]

    def _name(self, step: Step) -> None:
        names, inside = self._names, f"{step.path}/"
        if step.what == "create":
            names[step.path] = _File()
        elif step.what == "link":
            names[step.other] = names[step.path]
        elif step.what == "unlink":
            del names[step.path]
        elif step.what == "rename":
            for path in [path for path in names if path == step.path or path.startswith(inside)]:
                names[step.other + path.removeprefix(step.path)] = names.pop(path)
        self._changes.append((step, names.get(step.other or step.path), False))

    def after_cut(self, dice: random.Random, lost: float = 1 - _WHOLE) -> dict[str, bytes]:
        """One of the states that it may be found in.

        Args:
            dice: draws it.
            lost: how likely anything pending is lost at all.
        """
        whole, ordered = dice.random() >= lost, dice.random() < _ORDERED
        pending = [k for k, (_, _, done) in enumerate(self._changes) if not done]
        last = dice.choice([*pending, len(self._changes)]) if ordered else None
        names, folders = dict(self._before), {*self._folders}
        for k, (step, file, done) in enumerate(self._changes):
            arrived = done or whole or (k < last if last is not None else dice.random() < 0.5)
            if arrived:
                _apply(step, file, names, folders)
        kept: dict[int, bytes] = {}
        for file in names.values():
            if id(file) not in kept:
                kept[id(file)] = _content(file, whole, dice)
        # What is in a folder whose own name was lost is lost with it.
        made = {path for path in names if all(up in folders for up in self._inside(path))}
        return {path: kept[id(names[path])] for path in made}


def _folders(step: Step) -> set[str]:
    """Those whose names a step has changed."""
    return {os.path.dirname(path) for path in (step.path, step.other) if path}


def _apply(step: Step, file: _File | None, names: dict[str, _File], folders: set[str]) -> None:
    """Change names, if what it needs is there."""
    if step.what == "mkdir":
        folders.add(step.path)
    elif step.what == "rmdir":
        folders.discard(step.path)
    elif step.what == "unlink":
        names.pop(step.path, None)
    elif step.what in ("create", "link"):
        names[step.other or step.path] = file
    elif step.path in names:
        names[step.other] = names.pop(step.path)
    elif step.path in folders:
        inside = f"{step.path}/"
        folders.discard(step.path)
        folders.add(step.other)
        for path in [path for path in folders if path.startswith(inside)]:
            folders.discard(path)
            folders.add(step.other + path.removeprefix(step.path))
        for path in [path for path in names if path.startswith(inside)]:
            names[step.other + path.removeprefix(step.path)] = names.pop(path)


def _content(file: _File, whole: bool, dice: random.Random) -> bytes:
    data = bytearray()
    for step, done in file.writes:
        part = step.data
        if not (done or whole):
            lot = dice.random()
            if lot < 1 / 3:
                continue
            if lot < 2 / 3:  # some sectors of it, from the first
                part = part[: dice.randrange(0, len(part) + 1, _SECTOR)]
        if step.what == "truncate":
            data = data[: step.number].ljust(step.number, b"\0")
            continue
        data = data.ljust(step.number, b"\0")
        data[step.number : step.number + len(part)] = part
    return bytes(data)


def rebuild(folder: Path, files: dict[str, bytes]) -> None:
    """Make a folder what a disk holds."""
    shutil.rmtree(folder)
    folder.mkdir()
    for path, data in files.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as stream:
            stream.write(data)


def contents(folder: Path) -> dict[str, bytes]:
    """All that stands in a folder."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


_PLAN = """\
collection: power
version: 1
unit: user per window
user_column: user
input: in.parquet
output: out/{window}
ledger: ledger.sqlite
budget: {epsilon: 5, delta: 1.0e-5}
epsilon: 2.0
model: local
min_reports: 100
metrics:
  - {name: value, kind: histogram, column: value, domain: domain.txt, mechanism: grr}
"""


def cut(work: Path, cuts: int, seed: int) -> list[str]:
    """Record two runs with a local ledger, cut the power so often, and look each time.

    Returns:
        Whatever must not be, in words.
    """
    folder = work / "power"
    folder.mkdir(parents=True)
    (folder / "plan.yaml").write_text(_PLAN)
    (folder / "domain.txt").write_text("\n".join(canaries.DECLARED) + "\n")
    write_input(folder / "in.parquet")
    os.environ["XDG_STATE_HOME"] = str(folder / "home")
    before = contents(folder)
    commands = [["ledger", "init", "plan.yaml"]]
    commands += [["run", "plan.yaml", "--window", name] for name in ("monday", "tuesday")]
    steps, ends = recorded(folder, commands)
    final = contents(folder)
    faults = _unlike(before, steps, final)
    dice = random.Random(seed)
    for number in range(cuts):
        moment = (len(steps) * (2 * number + 1)) // (2 * cuts)  # evenly
        rebuild(folder, Disk(before, steps[:moment]).after_cut(dice))
        ended = sum(moment >= end for end in ends)
        faults += [
            f"cut after step {moment} of {len(steps)}: {line}"
            for line in _wrong(folder, final, ended)
        ]
    return faults


def _unlike(before: dict[str, bytes], steps: Sequence[Step], final: dict[str, bytes]) -> list[str]:
    """A recording that missed something proves nothing."""
    replayed = Disk(before, steps).after_cut(random.Random(0), lost=0.0)
    missed = sorted(replayed.items() ^ final.items())
    return [f"the recording lacks {path}" for path, _ in missed[:1]]


def _wrong(folder: Path, final: dict[str, bytes], ended: int) -> Iterator[str]:
    """What is wrong with a folder after a power cut.

    Args:
        folder: as it was found.
        final: what it would have come to.
        ended: how many of the commands had ended by then.
    """
    path = folder / "ledger.sqlite"
    if not path.exists():
        if ended:
            yield "the ledger is gone"
        return
    try:
        entries = CollectionLedger.open(str(path)).entries()
    except (RequestError, FailedError) as error:
        yield f"the ledger is refused: {error}"
        return
    committed = {entry.output: entry.release_id for entry in entries if entry.state == "committed"}
    if len(committed) < ended - 1:
        yield "a release that was committed is not any more"
    whole = {path: data for path, data in final.items() if "/out/" in path}
    there = {
        path: data
        for path, data in contents(folder).items()
        if "/out/" in path and "/." not in path
    }
    for output in committed:
        expected = {path for path in whole if path.startswith(f"{output}/")}
        if any(there.get(path) != whole[path] for path in expected):
            yield f"{Path(output).name} is committed, and not whole"
    for found in (path for path in (folder / "out").glob("[!.]*") if path.is_dir()):
        if not (found / "statement.json").exists():
            yield f"{found.name} is half a release"
            continue
        try:
            said: Any = json.loads((found / "statement.json").read_bytes())
        except ValueError:
            yield f"{found.name} is half a release"
            continue
        counted = {entry.release_id for entry in entries if entry.counted}
        if said["release_id"] not in counted:
            yield f"{found.name} is a release without an entry that counts"
