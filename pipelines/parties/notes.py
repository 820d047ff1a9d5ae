"""The notes of a shuffler's memory, and where they lie: written whole or not at all.

A folder of the memory is a window's, and holds those of its shuffles.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
from datetime import datetime
from typing import Any

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipelines.errors import RequestError, because, reason
from pipelines.storage import secrets
from pipelines.storage.formats import numbered
from pipelines.storage.paths import new_file

MEMORY = secrets.KeptSecret("--shuffle-memory", "of what was sent on")
BEGUN = "begun.json"
KEPT, LAYERS = "kept.json", "layers.npy"
WHY = "without it nobody knows what was sent on"
_VERSION = 1


class Begun(BaseModel):
    """A shuffle that has begun.

    Attributes:
        collection: of its plan.
        created: when, in UTC.
        output: its folder.
        key: the name of the secret that ids are enciphered under.
        here: whether it ends with the process that began it.
        number: greater than of all that began before it, whatever a clock says.
        once: whether its window is never shuffled again, and never forgotten.
        inputs: the mark of the files that it shuffles; empty where it draws counters.
    """

    model_config = ConfigDict(frozen=True)

    collection: str
    created: str
    output: str
    key: str
    here: bool = False
    number: int = 0
    once: bool = False
    inputs: str = ""


class Sent(BaseModel):
    """What a shuffle sends on.

    Attributes:
        files: of enciphered ids, in its folder of the memory.
        batches: place of a metric -> those of its batches that were large enough.
        reports: how many are in them.
    """

    model_config = ConfigDict(frozen=True)

    files: tuple[str, ...]
    batches: dict[int, tuple[int, ...]]
    reports: int


class Made(BaseModel):
    """A batch of noisy counters that is to be handed over.

    Attributes:
        files: name in the batch -> name in the shuffle's folder of the memory.
        words: how many there are, of reports and dummies.
        reports: how many came.
        dropped: reason -> how many of them were dropped.
    """

    model_config = ConfigDict(frozen=True)

    files: dict[str, str]
    words: int
    reports: int
    dropped: dict[str, int]


class KeptBatch(BaseModel):
    """What is kept of a batch that may be asked again, beside the file of its layers.

    Attributes:
        shares: of epsilon, ascending: of the batch's first pass, and of others before the last one.
        until: when the layers are destroyed, in UTC.
        passes: share -> the folder that the pass was handed over in.
    """

    model_config = ConfigDict(frozen=True)

    shares: tuple[float, ...]
    until: datetime
    passes: dict[float, str] = Field(default_factory=dict)


def folders(place: str) -> list[str]:
    """Those that hold shuffles."""
    paths = match(place, "*", "*", BEGUN)
    return sorted({FileSystems.split(FileSystems.split(path)[0])[0] for path in paths})


def shuffles(folder: str) -> list[tuple[str, Begun]]:
    """(id, what was begun) of the shuffles in a window's folder."""
    paths = match(folder, "*", BEGUN)
    named = ((FileSystems.split(FileSystems.split(path)[0])[1], path) for path in sorted(paths))
    noted = ((shuffle, read_note(Begun, path)) for shuffle, path in named)
    return [(shuffle, begun) for shuffle, begun in noted if begun is not None]


def match(folder: str, *pattern: str) -> list[str]:
    """The files below a folder; no character of its own name is a pattern's."""
    if "://" not in folder:
        return glob.glob(os.path.join(glob.escape(folder), *pattern))
    try:
        entries = FileSystems.match([FileSystems.join(folder, *pattern)])[0].metadata_list
        return [file.path for file in entries]
    except (OSError, BeamIOError, ValueError) as error:
        raise RequestError(f"{MEMORY.flag}: cannot be read: {reason(error)}") from None


def remove_notes(folder: str, *pattern: str) -> None:
    """Remove a folder; of an object store what is in it, which is all that there is."""
    if "://" not in folder:
        shutil.rmtree(folder, ignore_errors=True)
        return
    with contextlib.suppress(OSError, BeamIOError, ValueError, RequestError):
        FileSystems.delete(match(folder, *pattern))


def put(path: str, note: BaseModel) -> None:
    """Write a note whole or not at all; here it outlives a power cut."""
    data = json.dumps({"version": _VERSION, **note.model_dump(mode="json")}).encode()
    if "://" in path:
        with FileSystems.create(path) as stream:
            stream.write(data)
        return
    with new_file(path) as stream:
        stream.write(data)


def read_note(kind: type[Any], path: str) -> Any:
    """A note; None if there is none.

    Raises:
        RequestError: it cannot be read, or is of another format.
    """
    try:
        if not FileSystems.exists(path):
            return None
        with FileSystems.open(path) as stream:
            said = numbered(f"{MEMORY.flag}: {path}", stream.read(), _VERSION, WHY)
            return kind.model_validate(said)
    except (OSError, BeamIOError, ValidationError) as error:
        raise RequestError(
            f"{MEMORY.flag}: {path} cannot be read, or is damaged{because(error)}"
        ) from None
