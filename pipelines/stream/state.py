"""What a stream remembers, in a folder of this machine: a restart goes on where it stopped.

A journal says what counts; files that it does not name belong to a batch that was cut off, and are
removed. In the folder there is nothing raw: messages were perturbed before they were written, users
are digests under a key that is the stream's and the window's. Numbers of a window and its users
stand in files, and go with it: the journal has their names, and a digest of what they hold.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pipelines.errors import FailedError, RequestError
from pipelines.storage.paths import flush
from pipelines.stream import intake
from pipelines.stream.clocks import ClockEvidence, ClockReading, passed
from pipelines.stream.memory import (
    COUNTERS,
    DIGESTS,
    FILES,
    NOTES,
    StreamMemory,
    by_window,
    flush_all,
    joined,
)
from pipelines.stream.release import Backlog, backlogs
from transforms.units.once_per_window import merge

WINDOWS = "windows"  # a kind of facts


class State(StreamMemory):
    """The memory of one stream, with the files that it names."""

    def __init__(self, folder: str, plan: str, most_digests: int = 8) -> None:
        """See `StreamMemory`.

        Args:
            folder: is made if it is not there.
            plan: what tells this stream from others, in hexadecimal digits.
            most_digests: files of users that one window may have before they are put together.
        """
        super().__init__(folder, plan)
        self._most_digests = most_digests
        self._sweep()

    # ---- files that land

    def file(self, path: str) -> tuple[int, int, str]:
        """What is known of a file: its size, how often it was tried in vain, and its state."""
        size, tries, state = self.rows(FILES).get(path, (-1, 0, "new"))[:3]
        return size, tries, state

    def note_file(
        self, path: str, size: int, tries: int, state: str, due: int | None = None
    ) -> None:
        """What was found of a file: "waiting" to be whole, "out of reach", "held", "given up"."""
        self.put(files={path: [size, tries, state, due]})

    def files(self, state: str) -> dict[str, int]:
        """Files in one such state: path -> how often they were tried."""
        return {path: row[1] for path, row in self.rows(FILES).items() if row[2] == state}

    def waiting(self) -> dict[str, tuple[int, int]]:
        """Files whose rows are ahead: path -> size, and the moment for which they wait."""
        files = self.rows(FILES).items()
        return {path: (row[0], row[3]) for path, row in files if row[2] == "held"}

    def forget(self, paths: Collection[str]) -> None:
        """Files that wait no more: somebody has moved them away."""
        self.put(files=dict.fromkeys(paths))

    def accept(self, clock: int | None = None) -> None:
        """The operator knows better: what is held is taken in, and what files say is the time.

        Args:
            clock: the time by this machine's clock, where that ends windows.
        """
        evidence, said = self.evidence, {}
        files = self.rows(FILES).items()
        accepted = {path: [*row[:2], "accepted", row[3]] for path, row in files if row[2] == "held"}
        if evidence.reached is not None:
            later = evidence.recent if clock is None else (clock,)
            said["reached"] = max(evidence.reached, *later)
        self.put(files=accepted, said=said)

    # ---- batches

    def begin_batch(self) -> str:
        """An empty folder for one."""
        self._sweep()
        folder = self.folder / "batch.partial"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return str(folder)

    def commit(
        self,
        folder: str,
        files: Mapping[str, int],
        counted: Mapping[str, int],
        evidence: ClockEvidence,
        read: ClockReading,
    ) -> None:
        """Take a batch over whole: from now on it counts.

        Args:
            folder: of the batch.
            files: path -> size, of what it was made of.
            counted: by name, what was dropped and why.
            evidence: how far time has come with it.
            read: when.
        """
        number = (self.said("batches") or 0) + 1
        name = f"batch-{number}"
        notes = joined(folder, intake.manifest(folder))
        named = by_window(folder, name, notes)
        # Files first, then the name, then the journal: a cut at any point leaves a batch whole or
        # not begun.
        flush_all(folder)
        os.rename(folder, self.folder / name)
        flush(str(self.folder))
        said: dict[str, Any] = {"batches": number, "arrived": [*read], "recent": [*evidence.recent]}
        if evidence.reached != self.evidence.reached:
            said |= {"reached": evidence.reached, "moved": [*read]}
        starts = {note.start for note in notes}
        counters = self.after(counted) if counted else {}
        rows = {"said": said, "windows": self._opened(starts), "files": _done(files)}
        self.put(**rows, **named, counters=counters)
        self._compact(starts, number)

    @property
    def evidence(self) -> ClockEvidence:
        """How far time has come."""
        return ClockEvidence(self.said("reached"), tuple(self.said("recent") or ()))

    @property
    def arrived(self) -> ClockReading | None:
        """When the last batch was read."""
        return self._reading("arrived")

    @property
    def moved(self) -> ClockReading | None:
        """When time last went on."""
        return self._reading("moved")

    def go_on(self, read: ClockReading) -> int:
        """Go on by as much as has passed here, and no further than the clock: the time then."""
        reached, moved = self.evidence.reached, self.moved
        if reached is None or moved is None:
            reached = read.wall
        else:
            reached = max(reached, min(reached + (passed(moved, read) or 0), read.wall))
        self.put(said={"reached": reached})
        self.begin_anew(read)
        return reached

    def begin_anew(self, read: ClockReading) -> None:
        """Count from now on: nothing says how long it has been since the last batch."""
        self.put(said={"arrived": [*read], "moved": [*read]})

    def _reading(self, name: str) -> ClockReading | None:
        said = self.said(name)
        return None if said is None else ClockReading(*said)

    # ---- windows

    @property
    def ended(self) -> int | None:
        """Windows that begin before this moment take no more rows."""
        return self.said("ended")

    def end_before(self, moment: int) -> None:
        """Let windows that begin before a moment take no more rows."""
        self.put(said={"ended": moment})

    def open_windows(self, starts: Iterable[int]) -> None:
        """Windows of a calendar, whether there are rows of them or not."""
        self.put(windows=self._opened(starts))

    def _opened(self, starts: Iterable[int]) -> dict[str, list[Any]]:
        """Rows of windows that there are not yet."""
        known = self.rows(WINDOWS)
        return {str(start): [start, "open"] for start in starts if str(start) not in known}

    def _windows(self) -> list[tuple[int, int, str]]:
        """(start, start of the first one in it, state) of all windows, in their order."""
        return sorted((int(start), *row) for start, row in self.rows(WINDOWS).items())

    def newest(self) -> int | None:
        """The start of the last window that there is, of whatever state."""
        return max((start for start, _, _ in self._windows()), default=None)

    def done(self, files: Mapping[str, int]) -> None:
        """Files (path -> size) of which nothing more is read."""
        self.put(files=_done(files))

    def due(self) -> list[tuple[int, int]]:
        """Ended windows that wait for their release: (start, start of the first one in it)."""
        ended = self.ended if self.ended is not None else -(1 << 62)
        windows = self._windows()
        return [
            (start, first) for start, first, state in windows if state == "open" and start < ended
        ]

    def explain(self, start: int, why: str) -> None:
        """Why a window that has ended is not released."""
        # A full disk must not hide the reason from who is told it next.
        with contextlib.suppress(RequestError, FailedError):
            self.put(said={"why": [start, why]})

    def open(self) -> dict[int, str]:
        """Windows that wait for their end or their release: start -> why, if that was said."""
        explained, why = self.said("why") or (None, "")
        starts = [start for start, _, state in self._windows() if state == "open"]
        return {start: why if start == explained else "" for start in starts}

    def latest(self, limit: int) -> int | None:
        """The start of the last window that is open, and begins no later than a moment."""
        return max((start for start in self.open() if start <= limit), default=None)

    def backlog(self, start: int) -> dict[str, Backlog]:
        """What there is of a window: metric -> messages, users and tallies."""
        notes = self._notes(start)
        return backlogs(
            (kind, metric, str(self.folder / name) if kind == intake.MESSAGES else name, amount)
            for kind, metric, name, amount in notes
        )

    def seen(self) -> dict[int, list[str]]:
        """Files of the users of every open window, by its start."""
        files: dict[int, list[str]] = {}
        for name, (start,) in self.rows(DIGESTS).items():
            files.setdefault(start, []).append(str(self.folder / name))
        return files

    def _notes(self, start: int | None = None) -> list[tuple[str, str, str, int]]:
        """(kind, metric, name, amount) of what there is of a window, or of all."""
        named = ((name, *row) for name, row in self.rows(NOTES).items())
        mine = [(name, digest) for name, of, digest in named if start in (None, of)]
        return [note for name, digest in mine for note in self.noted(name, digest)]

    def settle(self, start: int, state: str) -> None:
        """A window is "released" or "withheld": nothing of it is kept."""
        first, _ = self.rows(WINDOWS)[str(start)]
        gone = {kind: dict.fromkeys(self._named(kind, start)) for kind in (NOTES, DIGESTS)}
        self.put(windows={str(start): [first, state]}, **gone)
        self._sweep()

    def _named(self, kind: str, start: int) -> list[str]:
        return [name for name, row in self.rows(kind).items() if row[0] == start]

    def merge(self, start: int, into: int) -> None:
        """Add what there is of a window to a later one; its users may report there again."""
        windows = self.rows(WINDOWS)
        first, _ = windows[str(start)]
        _, state = windows.get(str(into), (None, "open"))
        notes = {name: [into, self.rows(NOTES)[name][1]] for name in self._named(NOTES, start)}
        self.put(
            windows={str(into): [first, state], str(start): [first, "merged"]}, notes=notes,
            digests=dict.fromkeys(self._named(DIGESTS, start)),
        )  # fmt: skip
        self._sweep()

    # ---- files that are kept

    def _compact(self, starts: Iterable[int], number: int) -> None:
        """Put many files of digests into one, so that looking a user up stays quick."""
        seen = self.seen()
        for start in (start for start in starts if len(seen.get(start, [])) > self._most_digests):
            name = f"digests-{number}-{start}"
            merge(seen[start], str(self.folder / name))
            flush_all(str(self.folder))
            gone = dict.fromkeys(self._named(DIGESTS, start))
            self.put(digests={**gone, name: [start]})
            self._sweep()

    def _sweep(self) -> None:
        """Remove what no window holds any more, and what a batch that was cut off has left."""
        messages = {name for kind, _, name, _ in self._notes() if kind == intake.MESSAGES}
        kept = {*self.rows(NOTES), *self.rows(DIGESTS), *self.rows(COUNTERS), *messages}
        for path in (*self.folder.glob("digests-*"), *self.folder.glob(f"{COUNTERS}-*")):
            if path.name not in kept:
                path.unlink()
        for batch in self.folder.glob("batch*"):
            for path in batch.iterdir():
                if f"{batch.name}/{path.name}" not in kept:
                    path.unlink()
            if not any(batch.iterdir()):
                batch.rmdir()


def _done(files: Mapping[str, int]) -> dict[str, list[Any]]:
    """Rows of files (path -> size) of which nothing more is read."""
    return {path: [size, 0, "done", None] for path, size in files.items()}
