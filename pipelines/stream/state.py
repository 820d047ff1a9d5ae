"""What a stream remembers, in a folder of this machine: a restart goes on where it stopped.

A database says what counts; files that it does not name belong to a batch that was cut off, and
are removed. In the folder there is nothing raw: messages were perturbed before they were written,
users are digests under a key that is the stream's and the window's, and go with the window.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
from collections.abc import Collection, Iterable, Mapping

from pipelines.storage.paths import flush
from pipelines.stream import intake
from pipelines.stream.clocks import ClockEvidence, ClockReading, passed
from pipelines.stream.folder import flush_all, joined, kept
from pipelines.stream.memory import StreamMemory
from pipelines.stream.release import Backlog
from transforms.units.once_per_window import merge


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
        row = self.database.execute(
            "SELECT size, tries, state FROM files WHERE path = ?", (path,)
        ).fetchone()
        return row or (-1, 0, "new")

    def note_file(
        self, path: str, size: int, tries: int, state: str, due: int | None = None
    ) -> None:
        """What was found of a file: "waiting" to be whole, "out of reach", "held", "given up"."""
        with self.change() as database:
            row = (path, size, tries, state, due)
            database.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)", row)

    def files(self, state: str) -> dict[str, int]:
        """Files in one such state: path -> how often they were tried."""
        rows = self.database.execute("SELECT path, tries FROM files WHERE state = ?", (state,))
        return dict(rows.fetchall())

    def waiting(self) -> dict[str, tuple[int, int]]:
        """Files whose rows are ahead: path -> size, and the moment for which they wait."""
        rows = self.database.execute("SELECT path, size, due FROM files WHERE state = 'held'")
        return {path: (size, due) for path, size, due in rows}

    def forget(self, paths: Collection[str]) -> None:
        """Files that wait no more: somebody has moved them away."""
        with self.change() as database:
            gone = [(path,) for path in paths]
            database.executemany("DELETE FROM files WHERE path = ?", gone)

    def accept(self, clock: int | None = None) -> None:
        """The operator knows better: what is held is taken in, and what files say is the time.

        Args:
            clock: the time by this machine's clock, where that ends windows.
        """
        evidence = self.evidence
        with self.change() as database:
            database.execute("UPDATE files SET state = 'accepted' WHERE state = 'held'")
            if evidence.reached is not None:
                later = evidence.recent if clock is None else (clock,)
                self.say("reached", str(max(evidence.reached, *later)))

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
        notes = joined(folder, intake.manifest(folder))
        number = int(self.said("batches", "0")) + 1
        name = f"batch-{number}"
        # Files first, then the name, then the database: a cut at any point leaves a batch whole or
        # not begun.
        flush_all(folder)
        os.rename(folder, self.folder / name)
        flush(str(self.folder))
        mine = kept(notes, name)
        moved = evidence.reached != self.evidence.reached
        with self.change() as database:
            self.say("batches", str(number))
            self.say("arrived", json.dumps(read))
            if moved:
                self.say("reached", str(evidence.reached))
                self.say("moved", json.dumps(read))
            self.say("recent", json.dumps(evidence.recent))
            for start in {note.start for note in mine}:
                row = (start, start, "open")
                database.execute("INSERT OR IGNORE INTO windows VALUES (?, ?, ?)", row)
            database.executemany("INSERT INTO notes VALUES (?, ?, ?, ?, ?)", mine)
            done = [(path, size, 0, "done", None) for path, size in files.items()]
            database.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)", done)
            self.add(counted)
        self._compact({note.start for note in mine}, number)

    @property
    def evidence(self) -> ClockEvidence:
        """How far time has come."""
        said = self.said("reached", "")
        recent = json.loads(self.said("recent", "[]"))
        return ClockEvidence(int(said) if said else None, tuple(recent))

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
        with self.change():
            self.say("reached", str(reached))
        self.begin_anew(read)
        return reached

    def begin_anew(self, read: ClockReading) -> None:
        """Count from now on: nothing says how long it has been since the last batch."""
        with self.change():
            self.say("arrived", json.dumps(read))
            self.say("moved", json.dumps(read))

    def _reading(self, name: str) -> ClockReading | None:
        said = json.loads(self.said(name, "null"))
        return None if said is None else ClockReading(*said)

    # ---- windows

    @property
    def ended(self) -> int | None:
        """Windows that begin before this moment take no more rows."""
        said = self.said("ended", "")
        return int(said) if said else None

    def end_before(self, moment: int) -> None:
        """Let windows that begin before a moment take no more rows."""
        with self.change():
            self.say("ended", str(moment))

    def open_windows(self, starts: Iterable[int]) -> None:
        """Windows of a calendar, whether there are rows of them or not."""
        with self.change() as database:
            rows = [(start, start, "open") for start in starts]
            database.executemany("INSERT OR IGNORE INTO windows VALUES (?, ?, ?)", rows)

    def newest(self) -> int | None:
        """The start of the last window that there is, of whatever state."""
        latest: int | None = self.database.execute("SELECT max(start) FROM windows").fetchone()[0]
        return latest

    def done(self, files: Mapping[str, int]) -> None:
        """Files (path -> size) of which nothing more is read."""
        with self.change() as database:
            rows = [(path, size, 0, "done", None) for path, size in files.items()]
            database.executemany("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?)", rows)

    def due(self) -> list[tuple[int, int]]:
        """Ended windows that wait for their release: (start, start of the first one in it)."""
        rows = self.database.execute(
            "SELECT start, first FROM windows WHERE state = 'open' AND start < ? ORDER BY start",
            (self.ended if self.ended is not None else -(1 << 62),),
        )
        return rows.fetchall()

    def explain(self, start: int, why: str) -> None:
        """Why a window that has ended is not released."""
        # A full disk must not hide the reason from who is told it next.
        with contextlib.suppress(sqlite3.Error), self.change():
            self.say("why", json.dumps([start, why]))

    def open(self) -> dict[int, str]:
        """Windows that wait for their end or their release: start -> why, if that was said."""
        rows = self.database.execute(
            "SELECT start FROM windows WHERE state = 'open' ORDER BY start"
        )
        explained, why = json.loads(self.said("why", "[null, null]"))
        return {start: why if start == explained else "" for (start,) in rows}

    def latest(self, limit: int) -> int | None:
        """The start of the last window that is open, and begins no later than a moment."""
        open_until = "SELECT max(start) FROM windows WHERE state = 'open' AND start <= ?"
        return self.database.execute(open_until, (limit,)).fetchone()[0]

    def backlog(self, start: int) -> dict[str, Backlog]:
        """What there is of a window: metric -> messages, users and tallies."""
        files: dict[str, list[str]] = {}
        sizes: dict[tuple[str, str], int] = {}
        tallies: dict[str, dict[str, int]] = {}
        flows: dict[str, dict[str, int]] = {}
        rows = self.database.execute(
            "SELECT kind, metric, name, amount FROM notes WHERE start = ?", (start,)
        )
        for kind, metric, name, amount in rows:
            sizes[metric, kind] = sizes.get((metric, kind), 0) + amount
            if kind == intake.MESSAGES:
                files.setdefault(metric, []).append(str(self.folder / name))
            elif kind in (intake.TALLY, intake.FLOW):
                mine = (tallies if kind == intake.TALLY else flows).setdefault(metric, {})
                mine[name] = mine.get(name, 0) + amount
        return {
            metric: Backlog(
                tuple(files.get(metric, ())),
                sizes.get((metric, intake.MESSAGES), 0),
                sizes.get((metric, intake.USERS)),
                tallies.get(metric, {}),
                flows.get(metric, {}),
            )
            for metric in {metric for metric, kind in sizes if kind != intake.DIGESTS}
        }

    def seen(self) -> dict[int, list[str]]:
        """Files of the users of every open window, by its start."""
        files: dict[int, list[str]] = {}
        rows = self.database.execute(
            "SELECT start, name FROM notes WHERE kind = ?", (intake.DIGESTS,)
        )
        for start, name in rows:
            files.setdefault(start, []).append(str(self.folder / name))
        return files

    def settle(self, start: int, state: str) -> None:
        """A window is "released" or "withheld": nothing of it is kept."""
        with self.change() as database:
            database.execute("UPDATE windows SET state = ? WHERE start = ?", (state, start))
            database.execute("DELETE FROM notes WHERE start = ?", (start,))
        self._sweep()

    def merge(self, start: int, into: int) -> None:
        """Add what there is of a window to a later one; its users may report there again."""
        with self.change() as database:
            (first,) = database.execute(
                "SELECT first FROM windows WHERE start = ?", (start,)
            ).fetchone()
            row = (into, first, "open")
            database.execute("INSERT OR IGNORE INTO windows VALUES (?, ?, ?)", row)
            database.execute("UPDATE windows SET first = ? WHERE start = ?", (first, into))
            database.execute("UPDATE windows SET state = 'merged' WHERE start = ?", (start,))
            gone = (start, intake.DIGESTS)
            database.execute("DELETE FROM notes WHERE start = ? AND kind = ?", gone)
            database.execute("UPDATE notes SET start = ? WHERE start = ?", (into, start))
        self._sweep()

    # ---- files that are kept

    def _compact(self, starts: Iterable[int], number: int) -> None:
        """Put many files of digests into one, so that looking a user up stays quick."""
        seen = self.seen()
        for start in (start for start in starts if len(seen.get(start, [])) > self._most_digests):
            name = f"digests-{number}-{start}"
            size = merge(seen[start], str(self.folder / name))
            flush_all(str(self.folder))
            with self.change() as database:
                gone = (start, intake.DIGESTS)
                database.execute("DELETE FROM notes WHERE start = ? AND kind = ?", gone)
                row = (intake.DIGESTS, start, "", name, size)
                database.execute("INSERT INTO notes VALUES (?, ?, ?, ?, ?)", row)
            self._sweep()

    def _sweep(self) -> None:
        """Remove what no window holds any more, and what a batch that was cut off has left."""
        kinds = (intake.MESSAGES, intake.DIGESTS)
        rows = self.database.execute("SELECT name FROM notes WHERE kind IN (?, ?)", kinds)
        kept = {name for (name,) in rows}
        for path in self.folder.glob("digests-*"):
            if path.name not in kept:
                path.unlink()
        for batch in self.folder.glob("batch*"):
            for path in batch.iterdir():
                if f"{batch.name}/{path.name}" not in kept:
                    path.unlink()
            if not any(batch.iterdir()):
                batch.rmdir()
