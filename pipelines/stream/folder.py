"""A stream's folder: who holds it, what a batch has left there, and what outlives a crash."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

from pipelines.errors import RequestError
from pipelines.storage.paths import flush
from pipelines.stream import intake
from pipelines.stream.intake import Note


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


def kept(notes: Sequence[Note], batch: str) -> list[Note]:
    """The notes that a window has, with the names of files as the stream's folder has them."""
    files = (intake.MESSAGES, intake.DIGESTS)
    return [n._replace(name=f"{batch}/{n.name}") if n.kind in files else n for n in sorted(notes)]


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
