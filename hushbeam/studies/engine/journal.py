"""The folder of a study: what was requested, and a journal of what has been measured so far.

The journal only grows, a line for each piece of work, and each line is on the disk before the next
piece counts as done. So a study that is killed loses the pieces it was at, and nothing else.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO

from pipelines.errors import RequestError, reason
from pipelines.storage.formats import numbered

REQUEST, JOURNAL = "request.json", "journal.jsonl"
_VERSION = 1  # of both

Entry = dict[str, Any]


class Journal:
    """An open journal: what it has already, and a way to add to it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.entries = _recovered(stream)

    def append(self, entry: Entry) -> None:
        """Add one entry, durably. Doubles keep all their digits."""
        line = json.dumps(entry, allow_nan=False, separators=(",", ":")) + "\n"
        self._stream.write(line.encode())
        self._stream.flush()
        os.fsync(self._stream.fileno())


@contextmanager
def journal(folder: str, request: Mapping[str, Any], data: str) -> Iterator[Journal]:
    """Open the journal of a request, new or begun.

    Args:
        folder: of the study; made if need be.
        request: the options, as far as results depend on them; of JSON's types.
        data: a fingerprint of the data.

    Yields:
        The journal. Nobody else can open it meanwhile.

    Raises:
        RequestError: the folder belongs to another request, is in use, of another format, or
            damaged, or cannot be written.
    """
    try:
        os.makedirs(folder, exist_ok=True)
        _require_ours(folder)
        path = os.path.join(folder, JOURNAL)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        raise RequestError(f"--output: cannot write in {folder}: {reason(error)}") from None
    with os.fdopen(descriptor, "a+b") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RequestError(
                f"--output: {folder} is in use by another evaluation that is still running"
            ) from None
        _claim(folder, request, data)
        yield Journal(stream)


def write_whole(folder: str, name: str, content: bytes) -> None:
    """Write a file so that no reader ever sees a part of it."""
    partial = os.path.join(folder, f".{name}.partial")
    with open(partial, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(partial, os.path.join(folder, name))


def _require_ours(folder: str) -> None:
    """Refuse a folder in which somebody keeps something else."""
    names = set(os.listdir(folder))
    # A start that was killed before it could note its request is ours, too: it has no entry yet.
    begun = names <= {JOURNAL, f".{REQUEST}.partial"} and not (
        JOURNAL in names and os.path.getsize(os.path.join(folder, JOURNAL))
    )
    if REQUEST not in names and not begun:
        raise RequestError(f"--output: {folder} holds other files; name a new folder")


def _claim(folder: str, request: Mapping[str, Any], data: str) -> None:
    """Note the request in a new folder; refuse to mix it with another one."""
    text = json.dumps(request, sort_keys=True)
    fingerprint = hashlib.sha256(f"{text} {data}".encode()).hexdigest()
    path = os.path.join(folder, REQUEST)
    if not os.path.exists(path):
        claim = {"version": _VERSION, "request": request, "fingerprint": fingerprint}
        write_whole(folder, REQUEST, (json.dumps(claim, indent=2) + "\n").encode())
        return
    with open(path, "rb") as stream:
        content = stream.read()
    noted = numbered(f"--output: {path}", content, _VERSION, "or name a new folder")
    try:
        before, same = dict(noted["request"]), noted["fingerprint"] == fingerprint
    except (ValueError, KeyError, TypeError):
        raise RequestError(f"--output: {folder} holds other files; name a new folder") from None
    if same:
        return
    now = json.loads(text)
    differ = ", ".join(name for name in now if before.get(name) != now[name]) or "the data"
    raise RequestError(
        f"--output: {folder} holds an evaluation of another request ({differ} differ); "
        "name a new folder"
    )


def _recovered(stream: BinaryIO) -> list[Entry]:
    """The entries of a journal; a last line that was never finished is cut off."""
    stream.seek(0)
    content = stream.read()
    whole = content.rfind(b"\n") + 1
    entries = []
    for number, line in enumerate(content[:whole].splitlines(), 1):
        try:
            entries.append(dict(json.loads(line)))
        except (TypeError, ValueError):
            raise RequestError(
                f"line {number} of {JOURNAL} is damaged; name a new folder to start again"
            ) from None
    stream.truncate(whole)
    stream.seek(0, os.SEEK_END)
    return entries
