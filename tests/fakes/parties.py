"""What the three parties type in a folder with `plan.yaml` and the collector's `keys`."""

from __future__ import annotations

import re
from pathlib import Path


def key(kind: str = "public") -> str:
    """The file of one half of the collector's key."""
    return str(next(Path("keys").glob(f"*.{kind}.pem")))


def client(*words: str, window: str = "d1") -> list[str]:
    return ["parties", "client", "plan.yaml", "--window", window, "--seal", key(), *words]


def shuffle(*files: str, into: str = "out", window: str = "d1") -> list[str]:
    words = ["parties", "shuffle", "plan.yaml", "--window", window, "--input", *files]
    return [*words, "--seal", key(), "--output", into]


def collect(folder: str = "out", window: str = "d1") -> list[str]:
    words = ["parties", "collect", "plan.yaml", "--window", window, "--input", folder]
    return [*words, "--key", key("private")]


def masked(text: str, window: str, drawn: str = "created|release_id") -> str:
    """A statement without what is drawn: ids, times, and what was estimated of what was cut."""
    text = re.sub(r'"estimate": -?[0-9.e]+', '"estimate": ...', text.replace(window, "window"))
    return re.sub(rf'"({drawn})": "[^"]*"', '"drawn"', text)
