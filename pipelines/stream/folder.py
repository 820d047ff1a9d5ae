"""A stream's folder: who holds it, what a batch has left there, and what outlives a crash."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.errors import RequestError
from pipelines.journal.bulk import put_down
from pipelines.storage.paths import flush
from pipelines.stream import intake
from pipelines.stream.intake import Note

NOTES, DIGESTS = "notes", "digests"  # kinds of facts that name files


def joined(folder: str, notes: Sequence[Note]) -> list[Note]:
    """The notes of a batch, with one file of digests for each window in place of one a bucket."""
    buckets: dict[int, list[Note]] = {}
    for note in sorted(note for note in notes if note.kind == intake.DIGESTS):
        buckets.setdefault(note.start, []).append(note)
    joined = [note for note in notes if note.kind != intake.DIGESTS]
    for start, pieces in buckets.items():
        name = f"digests{start}"
        with open(Path(folder, name), "wb") as file:
            for piece in pieces:
                file.write(Path(folder, piece.name).read_bytes())
        size = sum(piece.amount for piece in pieces)
        joined.append(Note(intake.DIGESTS, start, "", name, size))
    named = {note.name for note in joined}
    for path in Path(folder).iterdir():
        # Left by bundles that were tried again: their notes did not reach the manifest.
        if path.name not in named:
            path.unlink()
    return joined


def by_window(folder: str, batch: str, notes: Sequence[Note]) -> dict[str, dict[str, Any]]:
    """Write what a batch has of each window into a file that goes with the window.

    Args:
        folder: of the batch, as yet.
        batch: its name in the stream's folder, from now on.
        notes: of `joined`.

    Returns:
        Facts for the journal, by the names of files.
    """
    users = [note for note in notes if note.kind == intake.DIGESTS]
    digests = {f"{batch}/{note.name}": [note.start] for note in users}
    windows: dict[int, list[tuple[Any, ...]]] = {}
    for kind, start, metric, name, amount in sorted(notes):
        if kind != intake.DIGESTS:
            place = f"{batch}/{name}" if kind == intake.MESSAGES else name
            windows.setdefault(start, []).append((kind, metric, place, amount))
    rows = {
        f"{batch}/notes{start}": [start, put_down(Path(folder, f"notes{start}"), mine)]
        for start, mine in windows.items()
    }
    return {NOTES: rows, DIGESTS: digests}


def locked(folder: Path) -> int:
    """Holds the folder as long as this process lives."""
    lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        # The system lets go of it when the process dies, however it does.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise RequestError(f"stream.state: another stream is at work in {folder}") from None
    return lock


def flush_all(folder: str) -> None:
    """Make what is in a folder outlive a power cut."""
    for path in [*(p for p in Path(folder).iterdir() if p.is_file()), Path(folder)]:
        flush(str(path))
