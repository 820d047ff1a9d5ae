"""An object in a bucket that several machines replace, each only if no other was faster."""

from __future__ import annotations

from typing import Protocol


class Unavailable(Exception):
    """The bucket has not done what was asked for; a write that timed out it may have done."""


class Changed(Exception):
    """The object is no longer of the generation that was asked for."""


class StoredObject(Protocol):
    """An object in a bucket, as far as compare-and-swap needs it."""

    @property
    def name(self) -> str:
        """gs://bucket/name."""

    def beside(self, name: str) -> StoredObject:
        """The object of another name, reached alike."""

    def fetch(self) -> tuple[bytes, int]:
        """Content and generation; (b"", 0) if there is no object.

        Raises:
            Unavailable: try again.
            RequestError: there is no such bucket, or it may not be read.
        """

    def swap(self, content: bytes, generation: int) -> None:
        """Replace the content, or make the object if the generation is 0.

        Raises:
            Changed: the object is of another generation.
            Unavailable: it may or may not have been replaced.
            RequestError: it may not be written.
        """
