"""What else knows how long a ledger is: a small file or object that is not restored with it.

The ledger is written first and the witness after it. So a ledger that is longer than its witness
has seen is sound, and one that is shorter is an older copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipelines.errors import FailedError, RequestError
from pipelines.storage.backoff import Backoff
from pipelines.storage.formats import numbered
from pipelines.storage.google_object import GoogleObject
from pipelines.storage.local_object import LocalObject
from pipelines.storage.objects import Changed, StoredObject, Unavailable

_FLAG = "--witness"
_VERSION = 1
_WHY = "without it nobody would notice an older copy of the ledger"


class Seen(BaseModel):
    """A ledger at one moment, as others than itself know it.

    Attributes:
        ledger: its id.
        changes: how many it had.
        head: it had after them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["hushbeam witness"] = "hushbeam witness"
    version: int = _VERSION
    ledger: str
    changes: int = Field(ge=0)
    head: str


@dataclass(frozen=True)
class Witness:
    """The witness of one ledger.

    Attributes:
        target: where it stands.
        backoff: how long to go on when a bucket is slow.
    """

    target: StoredObject
    backoff: Backoff

    def seen(self) -> Seen | None:
        """The longest that the ledger was seen; None if nothing stands there.

        Raises:
            RequestError: it cannot be read, or is something else, or of another format.
            FailedError: it does not answer.
        """
        return self._look()[0]

    def follow(self, now: Seen, over: bool = False) -> None:
        """Let it know of a ledger that has become longer.

        Args:
            now: the ledger.
            over: whether in the place of what it knows of another one.

        Raises:
            RequestError: it cannot be written, or knows of another ledger or another history.
            FailedError: it does not answer.
        """
        for _ in self.backoff.attempts():
            known, generation = self._look()
            if known is not None and not over:
                if known.ledger != now.ledger:
                    raise RequestError(f"{_FLAG}: {self.target.name} is of another ledger")
                if known.changes == now.changes and known.head != now.head:
                    raise RequestError(f"{_FLAG}: {self.target.name} has seen another history")
                if known.changes >= now.changes:
                    return
            try:
                self.target.swap(now.model_dump_json().encode() + b"\n", generation)
            except (Changed, Unavailable):
                continue
            return
        raise FailedError(self._silent)

    def _look(self) -> tuple[Seen | None, int]:
        for _ in self.backoff.attempts():
            try:
                content, generation = self.target.fetch()
                return self._read(content) if generation else None, generation
            except Unavailable:
                continue
        raise FailedError(self._silent)

    def _read(self, content: bytes) -> Seen:
        where = f"{_FLAG}: {self.target.name}"
        try:
            return Seen.model_validate(numbered(where, content, _VERSION, _WHY))
        except ValidationError:
            raise RequestError(f"{where} is no witness") from None

    @property
    def _silent(self) -> str:
        return f"{self.target.name} did not answer within {self.backoff.seconds:g} s"


def witness_at(place: str, backoff: Backoff) -> Witness:
    """The witness at a place: a local file, or gs://bucket/object."""
    if place.startswith("gs://"):
        return Witness(GoogleObject(place, flag=_FLAG), backoff)
    if "://" in place:
        raise RequestError(f"{_FLAG}: {place}: name a local file or gs://BUCKET/witness.json")
    return Witness(LocalObject(place, _FLAG), backoff)
