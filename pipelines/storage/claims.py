"""A claim on a folder of an object store: of two runs that publish in one folder, one goes on.

Locally a folder is renamed into its place, which only one run can do. An object store has no such
step, so a run puts up a claim before its first file, and takes it down after its last, the
statement. Cloud Storage makes an object only if there is none (`if_generation_match=0`), so one of
any number of runs wins. Other stores promise at best that who lists a folder sees what was written
before: there every run writes a claim of its own name and then looks for others. Of two runs the
later one sees the earlier one's claim; where both see both, both stop.

Two attempts at one release have one claim, and there the later writer's stands: each reads it again
and goes on with what it holds. One that looked before it was taken, and writes it after the other
has read it again, would still draw anew; other stores have nothing that could prevent it. It takes
an attempt that was overtaken and wakes within that moment; only `gs://` is proof against it.

A claim holds the whole release. Whoever finds the claim of a run that died comes to its end, with
the noise that was drawn: files of another draw would show two draws for one price.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from mechanisms.randomness import SecureRandom
from pipelines.errors import FailedError, RequestError
from pipelines.storage.backoff import Backoff
from pipelines.storage.formats import require_known
from pipelines.storage.google_object import GoogleObject
from pipelines.storage.objects import Changed, Unavailable
from transforms.files.systems import FileSystems

TAKEN = "output taken meanwhile"  # counted, for what a step raises reaches nobody

_CLAIM = "claim"
_VERSION = 1
_WHY = "another draw would be published beside what was begun"
_CLOUD = "gs://"
_TIMEOUT = 60.0  # seconds that a bucket may be silent


class TakenError(RequestError):
    """Another run publishes in the folder, or has done so; this one has published nothing."""


@dataclass(frozen=True)
class Claim:
    """One run's claim.

    Attributes:
        folder: of an object store.
        release_id: of what the run publishes.
        timeout: how long a bucket may be silent, in seconds.
    """

    folder: str
    release_id: str
    timeout: float = _TIMEOUT

    @property
    def path(self) -> str:
        """Where it is put up."""
        own = "" if self._by_generation else f"-{self.release_id}"
        return FileSystems.join(self.folder, f"{_CLAIM}{own}.json")

    def files(self) -> dict[str, bytes] | None:
        """The files of the release, if this run, or an earlier attempt at it, has put it up.

        Raises:
            TakenError: the attempt was of another format, or what stands there is none.
        """
        content = _content(self.path)
        files = self._files(_said(content))
        if content and files is None and not self._by_generation:  # where it is of all runs
            raise TakenError(refusal(self.folder))
        return files

    def take(self, files: Mapping[str, bytes]) -> dict[str, bytes]:
        """Put it up.

        Args:
            files: of the release, in the order in which they are to be written.

        Returns:
            The files to write: of several attempts at one release those of the first.

        Raises:
            TakenError: another run was faster.
            FailedError: the store does not answer.
        """
        if self._by_generation:
            return self._take_by_generation(files)
        own = self.files()
        if own is not None:
            return own
        with FileSystems.create(self.path) as stream:
            stream.write(self._words(files))
        if any(path != self.path for path in claims(self.folder)):
            self.give_back()
            raise TakenError(refusal(self.folder))
        # Another attempt may have written it meanwhile; if it has ended, the release stands.
        return self.files() or {**files}

    def give_back(self) -> None:
        """Take it down."""
        FileSystems.delete([self.path])

    def _take_by_generation(self, files: Mapping[str, bytes]) -> dict[str, bytes]:
        target = _object(self.path)
        for _ in _attempts(self.timeout):
            try:
                content, generation = target.fetch()
                if generation == 0:
                    target.swap(self._words(files), 0)
                    return {**files}
            except (Changed, Unavailable):
                continue  # the next look tells whose it is, and whether ours arrived
            own = self._files(_said(content))
            if own is None:
                raise TakenError(refusal(self.folder))
            return own
        raise FailedError(f"{self.path} could not be written within {self.timeout:g} s; try again")

    def _files(self, said: Mapping[str, Any]) -> dict[str, bytes] | None:
        if said.get("release_id") != self.release_id:
            return None
        try:
            require_known(f"--output: {self.path}", said.get("version"), _VERSION, _WHY)
        except RequestError as error:
            raise TakenError(str(error)) from None
        return {name: base64.b64decode(text) for name, text in said["files"].items()}

    @property
    def _by_generation(self) -> bool:
        return self.folder.startswith(_CLOUD)

    def _words(self, files: Mapping[str, bytes]) -> bytes:
        claimed_at = datetime.now(timezone.utc).isoformat(timespec="seconds")
        whole = {name: base64.b64encode(data).decode() for name, data in files.items()}
        said = {"release_id": self.release_id, "claimed_at": claimed_at, "files": whole}
        return json.dumps({"version": _VERSION, **said}).encode()


def claims(folder: str) -> list[str]:
    """The claims that are put up in a folder."""
    files = FileSystems.match([FileSystems.join(folder, f"{_CLAIM}*.json")])[0].metadata_list
    return [file.path for file in files]


def refusal(folder: str) -> str:
    """That a folder is claimed, since when, and what to do."""
    since = [f" since {_said(_content(path)).get('claimed_at')}" for path in claims(folder)]
    return (
        f"--output: another run has claimed {folder}{''.join(since[:1])}: wait for its release; if "
        "no run is at work there any more, remove the objects of that folder and run again"
    )


def _said(content: bytes) -> dict[str, Any]:
    """What a claim says; nothing if it is none of ours."""
    try:
        claim = json.loads(content)
    except ValueError:
        return {}
    return claim if isinstance(claim, dict) else {}


def _content(path: str) -> bytes:
    """What stands at a path; nothing if there is nothing, or nothing any more."""
    if not path.startswith(_CLOUD):
        try:
            with FileSystems.open(path) as stream:
                return bytes(stream.read())
        except (OSError, ValueError):
            return b""
    for _ in _attempts(_TIMEOUT):
        with contextlib.suppress(Unavailable):
            return _object(path).fetch()[0]
    raise FailedError(f"{path} could not be read within {_TIMEOUT:g} s; try again")


def _object(path: str) -> GoogleObject:
    return GoogleObject(path, _TIMEOUT, flag="--output")


def _attempts(seconds: float) -> Iterator[int]:
    return Backoff(SecureRandom(), seconds).attempts()
