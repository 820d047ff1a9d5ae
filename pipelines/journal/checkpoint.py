"""Leaves and checkpoints: what a journal has come to, so that nobody reads what was before.

A leaf is the hash of a fact and of random salt. All leaves of a journal are those of a Merkle tree,
of which a checkpoint keeps the roots of the complete subtrees: a public log can take leaves and
roots, and learns nothing of a fact until somebody shows its salt. Heads chain the leaves under the
journal's key, so who has it not can neither alter, take out, reorder nor add a fact.

Source: RFC 6962, Section 2.1 (hashes of leaves and nodes).
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.errors import RequestError
from pipelines.storage.paths import flush

Rows = Mapping[str, Any]

Chunks = Sequence[tuple[str, int]]
"""(SHA-256 in hexadecimal digits, rows) of the chunks of a table, the oldest first."""


class Fact(NamedTuple):
    """What is noted.

    Attributes:
        kind: of facts; each kind has a table.
        name: in that table.
        body: what stands there from now on, as JSON has it; None takes the row out.
    """

    kind: str
    name: str
    body: Any


class Leaf(NamedTuple):
    """A fact as a journal keeps it.

    Attributes:
        number: from 1 on.
        kind, name, body: as of `Fact`.
        salt: 32 random hexadecimal digits.
    """

    number: int
    kind: str
    name: str
    body: Any
    salt: str

    @property
    def digest(self) -> str:
        """Its hash, in hexadecimal digits."""
        said = canonical([self.number, self.kind, self.name, self.body])
        return hashlib.sha256(b"\0" + bytes.fromhex(self.salt) + said).hexdigest()


@dataclass(frozen=True)
class Checkpoint:
    """All facts up to one, in tables.

    Attributes:
        account: whose journal it is.
        count: how many facts there were.
        head: after the last of them.
        frontier: roots of the complete subtrees of their leaves, the largest first.
        tables: kind -> its chunks. Whoever alters, takes out or adds a row changes a digest.
    """

    account: str
    count: int
    head: str
    frontier: tuple[str, ...]
    tables: Mapping[str, Chunks]

    @property
    def root(self) -> str:
        """Of the tree of all leaves.

        >>> Checkpoint("a", 0, "", (), {}).root[:8]  # of no leaf
        'e3b0c442'
        """
        return root(self.frontier)

    def signature(self, key: bytes) -> str:
        """Under a journal's key."""
        said = [self.account, self.count, self.root, self.frontier, self.head, self.tables]
        return keyed(key, "checkpoint", canonical(said).decode())


_JSON = json.JSONEncoder(allow_nan=False, separators=(",", ":"))  # to make one takes as long again


def canonical(said: Any) -> bytes:
    """The one JSON of something that is hashed; ASCII, for names of files may be no text at all."""
    return _JSON.encode(said).encode()


def keyed(key: bytes, *parts: str) -> str:
    """A digest that only who has the key can make, in hexadecimal digits."""
    return hmac.digest(key, "\n".join(parts).encode(), "sha256").hex()


def with_leaf(frontier: tuple[str, ...], count: int, digest: str) -> tuple[str, ...]:
    """The complete subtrees after one more leaf.

    Args:
        frontier: before it.
        count: how many leaves there were.
        digest: of the leaf.
    """
    while count & 1:
        frontier, digest, count = frontier[:-1], _node(frontier[-1], digest), count >> 1
    return (*frontier, digest)


def root(frontier: tuple[str, ...]) -> str:
    """The root of a tree, by its complete subtrees."""
    if not frontier:
        return hashlib.sha256().hexdigest()
    *larger, top = frontier
    for subtree in reversed(larger):
        top = _node(subtree, top)
    return top


def _node(left: str, right: str) -> str:
    return hashlib.sha256(b"\1" + bytes.fromhex(left + right)).hexdigest()


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
