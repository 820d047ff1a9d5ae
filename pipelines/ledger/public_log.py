"""The public chain of a ledger: a log of its changes that witnesses mirror, and that tells nothing.

Each change of a ledger is a leaf: the salted hash under which its journal keeps it, and a salted
commitment of its window and price. Who sees leaves learns how many changes there were; withheld
and failed windows look like all others. A release shows what the leaf of its reservation commits
to, and no more. The head, signed by who publishes, names the number of leaves and their root:
whoever has one notices a log that was rolled back, or that forked.

Source: Laurie, Langley, Kasper, "Certificate Transparency", RFC 6962, 2013.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipelines.errors import RequestError, reason
from pipelines.journal.checkpoint import Leaf, canonical
from pipelines.ledger import merkle
from pipelines.ledger.entries import Entry
from pipelines.releases.signature import Keys, is_signed, key_id, named, signing_key
from pipelines.storage.paths import new_file
from pipelines.wording import number_of

LEAVES, HEAD = "leaves", "head.json"
_FLAG = "--output"
_HASH = 32  # bytes of a leaf in its file
_SALT = 16  # bytes
_LARGEST = 1 << 30  # bytes of a log: thirty million changes
_HEAD = b"hushbeam log head 1\n"  # a signature of one kind is never taken for another's
_SALTED = b"hushbeam salt of what is opened 1\n"


class LogError(ValueError):
    """A log is not as it was published, or does not go on from what was seen of it."""


class UnreadableLogError(LogError):
    """A file of a log, or a head, cannot be read, so nothing is known of it."""


class Opened(NamedTuple):
    """What a release shows of the leaf of its reservation.

    Attributes:
        window: by its name.
        prices: (epsilon, delta) that were set aside, in the order of the release's accounts.
        salt: of their commitment, in hexadecimal digits.
        sealed: the journal's own hash of the change, which hides all else of it.
    """

    window: str
    prices: tuple[tuple[float, float], ...]
    salt: str
    sealed: str

    @property
    def hash(self) -> bytes:
        """Of the leaf."""
        shown = canonical([self.window, self.prices])
        return _hash(self.sealed, bytes.fromhex(self.salt), shown)


def opened(leaf: Leaf) -> Opened:
    """What may be seen of a reservation."""
    prices = tuple((loss["epsilon"], loss["delta"]) for loss in leaf.body["losses"])
    return Opened(leaf.body["window"], prices, _salt(leaf).hex(), leaf.digest)


def _salt(leaf: Leaf) -> bytes:
    # From it the leaf's own salt, which hides the rest, cannot be had.
    return hashlib.sha256(_SALTED + bytes.fromhex(leaf.salt)).digest()[:_SALT]


def hash_of(leaf: Leaf) -> bytes:
    """Of any change: those that are never opened look like the others."""
    if leaf.kind == Entry.table and leaf.body is not None:
        return opened(leaf).hash
    return _hash(leaf.digest, _salt(leaf), b"")


def _hash(sealed: str, salt: bytes, shown: bytes) -> bytes:
    return merkle.leaf_hash(bytes.fromhex(sealed) + hashlib.sha256(salt + shown).digest())


class LogHead(BaseModel):
    """A log at one moment, signed.

    Attributes:
        ledger: its id.
        after: how many changes came before the first leaf, of a ledger that was adopted.
        size: how many leaves there are.
        root: of their tree, in hexadecimal digits.
        key: which one has signed; see `signature.key_id`.
        signature: Ed25519, in hexadecimal digits.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    log_version: int = Field(default=1, ge=1, le=1)
    ledger: str = Field(pattern="^[0-9a-f]{16}$")
    after: int = Field(ge=0)
    size: int = Field(ge=1)
    root: str = Field(pattern="^[0-9a-f]{64}$")
    key: str = Field(pattern="^[0-9a-f]{16}$")
    signature: str = Field(default="", pattern="^[0-9a-f]*$")

    @property
    def signed(self) -> bytes:
        """What the signature is of."""
        return _HEAD + canonical(self.model_dump(exclude={"signature"}))


@dataclass(frozen=True)
class PublicLog:
    """A log as it was published.

    Attributes:
        head: signed.
        leaves: their hashes; as many as the head says.
    """

    head: LogHead
    leaves: tuple[bytes, ...]

    def require(self, number: int, leaf: bytes) -> None:
        """Refuse a log that does not hold a leaf.

        Args:
            number: of the change, from 1 on.
            leaf: its hash.

        Raises:
            LogError: it is not there, so the log is older than the leaf, or another history.
        """
        index, head = number - self.head.after - 1, self.head
        if not 0 <= index < head.size:
            raise LogError(
                f"the log has changes {head.after + 1:,} to {head.after + head.size:,}, and the "
                f"release was paid for by change {number:,}: the log is older, or was rolled back"
            )
        proof, top = merkle.inclusion(self.leaves, index), bytes.fromhex(head.root)
        if not merkle.is_included(leaf, index, head.size, proof, top):
            raise LogError(f"change {number:,} of the log is another one: its history was forked")

    def require_later(self, seen: LogHead) -> None:
        """Refuse a log that does not go on from, or up to, what somebody has seen of it.

        Args:
            seen: a head that was kept.

        Raises:
            LogError: it is shorter, so it was rolled back, or it forked.
        """
        head = self.head
        if (seen.ledger, seen.after) != (head.ledger, head.after):
            raise LogError("the head that was seen is of another ledger")
        if seen.size > head.size:
            raise LogError(
                f"the log has {number_of(head.size, 'leaf')}, and {seen.size:,} were seen: it was "
                "rolled back"
            )
        proof = merkle.consistency(self.leaves, seen.size)
        roots = bytes.fromhex(seen.root), bytes.fromhex(head.root)
        if not merkle.is_consistent(seen.size, head.size, proof, *roots):
            raise LogError(
                f"its leaves up to {seen.size:,} are not those that were seen: it forked"
            )


def read_head(file: str, keys: Keys) -> LogHead:
    """A head that somebody has kept.

    Raises:
        LogError: it is no head, or is signed by none of the keys; an UnreadableLogError if it
            cannot be read.
    """
    try:
        head = LogHead.model_validate_json(_read(Path(file), 1 << 12))
        own = is_signed(head.signed, bytes.fromhex(head.signature), keys)
    except OSError as error:
        raise UnreadableLogError(f"{file} cannot be read: {reason(error)}") from None
    except (ValidationError, ValueError):
        raise LogError(f"{file} is no head of a log") from None
    if not own:
        raise LogError(f"{file} is not signed by key {named(keys)}")
    return head


def read_log(folder: str, keys: Keys) -> PublicLog:
    """A log that somebody has published, or mirrors.

    Raises:
        LogError: its leaves are gone, or are not those that its head has signed; an
            UnreadableLogError if it cannot be read.
    """
    head = read_head(os.path.join(folder, HEAD), keys)
    try:
        content = _read(Path(folder, LEAVES), _LARGEST)
    except FileNotFoundError:
        content = b""
    except OSError as error:
        raise UnreadableLogError(f"{folder}/{LEAVES} cannot be read: {reason(error)}") from None
    # More than were signed may stand there: leaves are written before the head is.
    leaves = tuple(content[k : k + _HASH] for k in range(0, _HASH * head.size, _HASH))
    if len(content) < _HASH * head.size or merkle.root(leaves).hex() != head.root:
        raise LogError(f"{folder}/{LEAVES} does not hold the leaves that {HEAD} has signed")
    return PublicLog(head, leaves)


def _read(path: Path, most: int) -> bytes:
    with path.open("rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise LogError(f"{path} is larger than any that hushbeam writes")
    return content


def extended(
    folder: str, ledger: str, after: int, leaves: Iterable[bytes], before: Keys = ()
) -> LogHead:
    """Write a log, or write it on.

    Args:
        folder: of this machine; made if it is not there.
        ledger: its id.
        after: as of `LogHead`.
        leaves: hashes of all its changes.
        before: keys that have signed earlier heads, where the present one is another.

    Returns:
        The new head.

    Raises:
        RequestError: what stands there is another log, or one that these leaves do not go on from;
            or it cannot be written.
    """
    key, hashes = signing_key(), tuple(leaves)
    head = LogHead(
        ledger=ledger, after=after, size=len(hashes), root=merkle.root(hashes).hex(),
        key=key_id(key.public_key()),
    )  # fmt: skip
    head = head.model_copy(update={"signature": key.sign(head.signed).hex()})
    try:
        if os.path.exists(os.path.join(folder, HEAD)):
            seen = read_head(os.path.join(folder, HEAD), (key.public_key(), *before))
            PublicLog(head, hashes).require_later(seen)
        os.makedirs(folder, exist_ok=True)
        for name, content in ((LEAVES, b"".join(hashes)), (HEAD, _written(head))):
            with new_file(os.path.join(folder, name)) as stream:
                stream.write(content)
    except LogError as error:
        raise RequestError(
            f"{_FLAG}: {folder} holds a log that this ledger does not go on from: {error}; put the "
            "newest copy of the ledger back, or, where it was adopted, name a new folder"
        ) from None
    except OSError as error:
        raise RequestError(f"{_FLAG}: cannot write in {folder}: {reason(error)}") from None
    return head


def _written(head: LogHead) -> bytes:
    return json.dumps(head.model_dump(), indent=1).encode() + b"\n"


def shown(leaf: Leaf) -> dict[str, Any]:
    """What a statement says of the leaf of its reservation."""
    return opened(leaf)._asdict()


def of_statement(said: Mapping[str, Any]) -> Opened:
    """What a statement shows of a leaf.

    Raises:
        ValueError, TypeError, KeyError: it is none.
    """
    prices = tuple((float(epsilon), float(delta)) for epsilon, delta in said["prices"])
    return Opened(str(said["window"]), prices, str(said["salt"]), str(said["sealed"]))
