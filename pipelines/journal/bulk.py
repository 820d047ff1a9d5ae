"""Bulk: files that a journal names by a digest of what they hold, and that can be deleted.

What is to be forgotten stands here, for a fact in the journal stays in its segments for ever.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from pipelines.errors import RequestError
from pipelines.journal.checkpoint import canonical
from pipelines.storage.paths import flush


def put_down(path: Path, said: Any) -> str:
    """The digest of a new file that holds something as JSON, and outlives a power cut."""
    content = canonical(said)
    path.write_bytes(content)
    flush(str(path))
    flush(str(path.parent))
    return hashlib.sha256(content).hexdigest()


def noted(path: Path, digest: str, where: str) -> Any:
    """What was put down.

    Args:
        path: of the file.
        digest: that the journal has of it.
        where: what names the journal, for messages.

    Raises:
        RequestError: it is not there, or another thing.
    """
    content = path.read_bytes() if path.exists() else b""
    if hashlib.sha256(content).hexdigest() != digest:
        raise RequestError(
            f"{where}: {path.name} is gone, or not as it was written: look again, and if it is so "
            "still, restore all of it from a copy"
        )
    return json.loads(content)
