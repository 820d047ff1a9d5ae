"""What a shuffler has sent on, so that no report goes on twice, whoever hands it in again.

Of each report that was sent on the shuffler keeps the id, enciphered under its secret: who finds
the folder without the secret learns how many there were. It is never the collector's.

A folder of the memory is a shuffle's. It is begun before the shuffle; what would be sent on is
written before the summary makes the shuffle whole, and counts once the summary stands. So a shuffle
that is killed, at whatever moment, and run again sends each report on once: of one without a
summary nothing counts, for no collector takes it; of one with a summary everything does.

Of noisy counters a window is shuffled once: its dummies are drawn once, and the words of reports
would be known from those of dummies by standing in two batches. So its batch is made here, where no
collector sees it, and handed over when it is whole: what is handed over again is the same bytes.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from apache_beam.io.filesystem import BeamIOError
from apache_beam.io.filesystems import FileSystems
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipelines.errors import FailedError, RequestError, because, reason
from pipelines.parties import summary
from pipelines.parties.batches import left_by, remove
from pipelines.parties.samples import key_name
from pipelines.storage import secrets
from pipelines.storage.formats import numbered
from pipelines.storage.paths import beside, flush, make_folders, new_file

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


SENT_BEFORE = "sent on before"

_CLOSING, _SENT, _LOCK = "closing.json", "sent.json", "lock"
_MADE = "made.json"
_WINDOWS = 100  # of a collection that are remembered: older ones were released long since


class LostMemoryError(FailedError):
    """A shuffle must not be handed on, for nobody would know what was in it."""


class EarlierShuffle(NamedTuple):
    """An earlier shuffle of the same window.

    Attributes:
        folder: of the memory.
        output: its folder of reports, where that was.
        sent: what it has sent on.
    """

    folder: str
    output: str
    sent: Sent


@dataclass(frozen=True)
class ShufflerMemory:
    """A shuffler's memory of one window.

    Attributes:
        place: the folder of all windows.
        fingerprint: of the plan and the window, 16 bytes.
        secret: the file of the shuffler's secret.
    """

    place: str
    fingerprint: bytes
    secret: str

    @property
    def folder(self) -> str:
        """Of this window."""
        return FileSystems.join(self.place, self.fingerprint.hex())

    def of(self, shuffle: str) -> str:
        """The folder of one shuffle, by its id."""
        return FileSystems.join(self.folder, shuffle)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other shuffles of this window out meanwhile; in an object store nobody can.

        Raises:
            RequestError: there is one, or the memory cannot be written.
        """
        if "://" in self.place:
            yield
            return
        with contextlib.ExitStack() as stack:
            try:
                for changed in make_folders(self.folder):
                    flush(changed)
                lock = stack.enter_context(open(os.path.join(self.folder, _LOCK), "a"))
            except OSError as error:
                raise RequestError(f"{MEMORY.flag}: {self.place}: {reason(error)}") from None
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise RequestError(
                    "--window: another shuffle of this window is running, and each of its reports "
                    "may go on in one of them only: wait for it"
                ) from None
            yield

    def begin(self, shuffle: str, begun: Begun) -> None:
        """Note that a shuffle begins."""
        known = (old.number for folder in folders(self.place) for _, old in shuffles(folder))
        begun = begun.model_copy(update={"number": max(known, default=0) + 1})
        if "://" not in self.place:
            os.makedirs(self.of(shuffle), mode=0o700)
            flush(self.folder)
        put(FileSystems.join(self.of(shuffle), BEGUN), begun)

    def take_up(self, output: str) -> str | None:
        """Look for what was killed on its way into a folder; only while this memory is held.

        Args:
            output: of the shuffle that is to begin.

        Returns:
            The id of the shuffle that the folder holds whole, if it was killed after its summary:
            it is to be checked and committed. What is left of one that was killed before is
            removed, for nobody takes it; not if others have put something beside it.
        """
        if "://" in self.place:  # nobody is kept out: it may still be at work
            return None
        for shuffle, begun in shuffles(self.folder):
            sent = self._sent(shuffle) is not None
            if sent or not begun.here or begun.output != beside("", output):
                continue
            if stands(output, shuffle):
                return shuffle
            if ("://" in output or os.path.isdir(output)) and left_by(shuffle, output):
                remove(output)
                self.forget(shuffle)
        return None

    def sent_into(self, output: str, inputs: str) -> summary.Summary | None:
        """The summary of just these files in this folder, if they were handed over there.

        A shuffle may be killed when all is done but its last word.

        Args:
            output: of the shuffle.
            inputs: the mark of its files; an empty one is nobody's.
        """
        for shuffle, begun in shuffles(self.folder) if inputs else ():
            mine = (begun.inputs, begun.output) == (inputs, beside("", output))
            if mine and self._sent(shuffle) is not None and stands(output, shuffle):
                return summary.read(output)
        return None

    def _sent(self, shuffle: str) -> Sent | None:
        return read_note(Sent, FileSystems.join(self.of(shuffle), _SENT))

    def close(self, shuffle: str, sent: Sent) -> None:
        """Note what a shuffle sends on; its summary may be written now, and not earlier."""
        put(FileSystems.join(self.of(shuffle), _CLOSING), sent)

    def commit(self, shuffle: str, output: str) -> None:
        """Count what a shuffle has sent on, whose summary stands.

        Raises:
            LostMemoryError: it has noted nothing here.
        """
        closing = read_note(Sent, FileSystems.join(self.of(shuffle), _CLOSING))
        if closing is None:
            raise LostMemoryError(
                f"{MEMORY.flag}: the workers have left nothing in {self.place}, so nobody would "
                f"know what {output} holds: name a folder that they share"
            )
        self._settle(shuffle, output, closing)

    def _settle(self, shuffle: str, output: str, sent: Sent) -> None:
        """Note that an output is handed on."""
        # The memory must not outlive in a power cut what it is of: reports would be lost.
        outlast(output)
        put(FileSystems.join(self.of(shuffle), _SENT), sent)

    def make(self, shuffle: str, made: Made) -> None:
        """Note that a batch is whole: from now on it is this one, and no other."""
        for name in made.files.values():
            if "://" not in self.place:
                flush(os.path.join(self.of(shuffle), name))
        put(FileSystems.join(self.of(shuffle), _MADE), made)

    def made(self, shuffle: str) -> Made | None:
        """The batch that a shuffle has made; None if it has not yet."""
        return read_note(Made, FileSystems.join(self.of(shuffle), _MADE))

    def handed(self) -> str | None:
        """The one shuffle of this window whose batch was handed over; None if there is none yet."""
        for shuffle, begun in shuffles(self.folder):
            if begun.once and self._sent(shuffle) is not None:
                return shuffle
        return None

    def only(self) -> str | None:
        """The one shuffle of this window, if it is made and to be handed over.

        What is left of one that was killed earlier is removed: nobody has seen of its draw.

        Raises:
            RequestError: it was handed over, or may be at work elsewhere.
        """
        for shuffle, begun in shuffles(self.folder):
            if self._sent(shuffle) is not None:
                self._destroy(shuffle)
                raise RequestError(
                    f"--window: was shuffled before, into {begun.output}: the dummies of a window "
                    "are drawn once, and reports that come later cannot go on"
                )
            if self.made(shuffle) is not None:
                return shuffle
            if not begun.here or "://" in self.place:
                raise RequestError(
                    "--window: a shuffle of it began and may still be at work; its dummies are "
                    f"drawn once: wait for it, or, if it has failed, remove {self.of(shuffle)}"
                )
            self.forget(shuffle)
        return None

    def require_alone(self, shuffle: str) -> None:
        """Take back a shuffle that has begun while another did, where nobody keeps them apart.

        Raises:
            RequestError: there is another one.
        """
        if any(other != shuffle for other, _ in shuffles(self.folder)):
            self.forget(shuffle)
            raise RequestError(
                "--window: another shuffle of it has begun, and its dummies are drawn once: wait "
                "for it"
            )

    def hand(self, shuffle: str, output: str) -> None:
        """Note that a batch is handed over, and destroy what tells its draw."""
        self._settle(shuffle, output, Sent(files=(), batches={}, reports=0))
        self._destroy(shuffle)

    def _destroy(self, shuffle: str) -> None:
        """Remove the files of a batch that was handed over."""
        folder, keep = self.of(shuffle), {BEGUN, _SENT, KEPT, LAYERS}
        paths = [path for path in match(folder, "*") if FileSystems.split(path)[1] not in keep]
        if paths:
            FileSystems.delete(paths)

    def forget(self, shuffle: str) -> None:
        """Remove what is kept of a shuffle that has come to nothing."""
        remove_notes(self.of(shuffle), "*")

    def recall(self, apart: str | None = None) -> tuple[EarlierShuffle, ...]:
        """The shuffles of this window that have sent something on.

        Args:
            apart: the id of one that is left out.

        Raises:
            RequestError: of one it cannot be told whether it has, or what.
        """
        known = [(shuffle, begun) for shuffle, begun in shuffles(self.folder) if shuffle != apart]
        memories = (self._recalled(shuffle, begun) for shuffle, begun in known)
        return tuple(earlier for earlier in memories if earlier is not None)

    def _recalled(self, shuffle: str, begun: Begun) -> EarlierShuffle | None:
        folder = self.of(shuffle)
        if begun.key != key_name(secrets.read(secrets.SHUFFLE.flag, self.secret)):
            raise RequestError(
                f"{secrets.SHUFFLE.flag}: this window was shuffled under another secret before, so "
                "nobody can tell which of the reports were sent on: name that secret"
            )
        sent = self._sent(shuffle)
        closing = read_note(Sent, FileSystems.join(folder, _CLOSING))
        if sent is None and stands(begun.output, shuffle):
            self.commit(shuffle, begun.output)
            sent = closing
        elif sent is None and closing is not None and not FileSystems.exists(begun.output):
            raise RequestError(
                f"--window: a shuffle into {begun.output} ended before it was known to be whole, "
                "and is not there: if it was handed on, put it back until this one has begun; if "
                f"it was removed, remove {folder}, too"
            )
        return None if sent is None else EarlierShuffle(folder, begun.output, sent)

    def trim(self, collection: str) -> None:
        """Forget the oldest windows of a collection, beyond the last hundred."""
        latest: dict[str, tuple[int, str]] = {}
        for folder in folders(self.place):
            mine = [begun for _, begun in shuffles(folder) if begun.collection == collection]
            if any(begun.once for begun in mine):
                continue
            if mine and folder.rstrip("/") != self.folder:
                latest[folder] = max((begun.number, begun.created) for begun in mine)
        for folder in sorted(latest, key=lambda name: latest[name], reverse=True)[_WINDOWS - 1 :]:
            remove_notes(folder, "*", "*")


def outlast(output: str) -> None:
    """Make all that is in a folder, if it is one of this machine, outlive a power cut."""
    if "://" not in output:
        for name in sorted(os.listdir(output)):
            flush(os.path.join(output, name))
        flush(output)
        flush(os.path.dirname(os.path.abspath(output)))


def stands(output: str, shuffle: str) -> bool:
    """Whether a folder is what some shuffle has left, whole."""
    said = summary.whole(output)
    return said is not None and said.shuffle_id == shuffle
