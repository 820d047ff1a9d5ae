"""A file of this machine that is replaced whole, or not at all, if nobody else was faster."""

from __future__ import annotations

import fcntl
import hashlib
import os
from dataclasses import dataclass, replace

from pipelines.errors import RequestError, reason
from pipelines.storage.objects import Changed
from pipelines.storage.paths import flush, make_folders, new_file


@dataclass(frozen=True)
class LocalObject:
    """A file that is replaced whole, if it is still the one that was read.

    Attributes:
        name: its path.
        flag: what named it, for messages.
    """

    name: str
    flag: str

    def beside(self, name: str) -> LocalObject:
        """See `StoredObject`."""
        return replace(self, name=name)

    def fetch(self) -> tuple[bytes, int]:
        """See `StoredObject`; a content is its own generation."""
        try:
            with open(self.name, "rb") as stream:
                content = stream.read()
        except FileNotFoundError:
            return b"", 0
        except OSError as error:
            raise self._refused("read", error) from None
        return content, int.from_bytes(hashlib.sha256(content).digest()[:8], "big") or 1

    def swap(self, content: bytes, generation: int) -> None:
        """See `StoredObject`."""
        folder = os.path.dirname(os.path.abspath(self.name))
        try:
            changed = make_folders(folder)
            lock = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
                if self.fetch()[1] != generation:
                    raise Changed
                with new_file(self.name) as stream:
                    stream.write(content)
                for outside in changed:
                    flush(outside)
            finally:
                os.close(lock)
        except OSError as error:
            raise self._refused("write", error) from None

    def _refused(self, what: str, error: OSError) -> RequestError:
        return RequestError(f"{self.flag}: cannot {what} {self.name}: {reason(error)}")
