"""The signed list of keys: what devices check a party's answers by, the same for all of them.

A party that gave one device a key of its own would know that device's tokens or seals again. So
each window's keys are published in one list before they are used, and a device that has once seen
another key for a window refuses the list.
"""

from __future__ import annotations

import os
from typing import Annotated, Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mechanisms.wire.fingerprint import canonical
from pipelines.errors import RequestError, because
from pipelines.releases.signature import public_key
from pipelines.storage.formats import numbered
from pipelines.storage.paths import new_file

Role = Literal["issuer", "queries", "strings"]
"""What a key is for: tokens of reports, tokens of queries, strings that are sealed alike."""

_FORMAT: Literal[1] = 1
_PURPOSE = b"hushbeam keys\n"
_WHY = "or fetch the list again from where it is published"


class WindowKey(BaseModel):
    """A party's public key of one window.

    Attributes:
        window: its name.
        fingerprint: that its reports carry, in hexadecimal digits.
        role: what the key is for.
        public: an element of ristretto255, in hexadecimal digits.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    window: Annotated[str, Field(min_length=1)]
    fingerprint: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    role: Role
    public: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class KeyList(BaseModel):
    """Keys of windows.

    Attributes:
        keys: at most one of a window and role, and no two alike.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = _FORMAT
    keys: tuple[WindowKey, ...] = ()

    def of(self, fingerprint: bytes, role: Role) -> WindowKey | None:
        """A window's key, if it is published."""
        mine = (k for k in self.keys if (k.fingerprint, k.role) == (fingerprint.hex(), role))
        return next(mine, None)

    def joined(self, other: KeyList) -> KeyList:
        """Both lists' keys.

        Raises:
            ValueError: a window has two keys of one role, or two windows or roles have one key,
                under which a token of one is good in the other.
        """
        joined = {(key.fingerprint, key.role): key for key in self.keys}
        owners = {key.public: key for key in self.keys}
        for key in other.keys:
            if joined.setdefault((key.fingerprint, key.role), key).public != key.public:
                raise ValueError(f"another key of window {key.window} than before")
            owner = owners.setdefault(key.public, key)
            if (owner.fingerprint, owner.role) != (key.fingerprint, key.role):
                raise ValueError(
                    f"one key as {owner.role} key of window {owner.window} and as {key.role} key "
                    f"of window {key.window}"
                )
        return KeyList(keys=tuple(joined.values()))


def signed(keys: KeyList, signer: Ed25519PrivateKey) -> bytes:
    """The list as a file: JSON, with the signature of its canonical form (RFC 8785) in it."""
    content = keys.model_dump(mode="json")
    signature = signer.sign(_PURPOSE + canonical(content)).hex()
    return canonical(content | {"signature": signature}) + b"\n"


def verified(content: bytes, signer: Ed25519PublicKey, where: str = "--keys") -> KeyList:
    """A list that somebody has published.

    Args:
        content: of its file, whatever it is.
        signer: whose list it has to be.
        where: the option that names it, and its place.

    Raises:
        RequestError: it is none, is signed by somebody else, has two keys of one window, or one
            key twice.
    """
    document = numbered(where, content, _FORMAT, _WHY, "format")
    signature = document.pop("signature", None)
    try:
        signer.verify(bytes.fromhex(str(signature)), _PURPOSE + canonical(document))
    except (InvalidSignature, ValueError, RecursionError):
        raise RequestError(
            f"{where} is not signed by --signer, or was changed since: use none of its keys"
        ) from None
    try:
        return KeyList().joined(KeyList.model_validate(document))
    except ValidationError:
        raise RequestError(f"{where} is no list of keys: {_WHY}") from None
    except ValueError as error:
        raise RequestError(f"{where} has {error}: use none of its keys") from None


def read_list(file: str, signer: str, seen: str | None = None) -> KeyList:
    """A published list, which agrees with all that this device has seen before.

    Args:
        file: the list.
        signer: a PEM file, the Ed25519 public key of who publishes it.
        seen: where the keys are kept that this device has seen; None keeps none.

    Raises:
        RequestError: as `verified`; or a window had another key, or another window this one.
    """
    where = f"--keys: {file}"
    published = verified(_content("--keys", file), public_key("--signer", signer), where)
    if seen is None:
        return published
    before = KeyList()
    if os.path.exists(seen):
        place = f"--seen-keys: {seen}"
        try:
            content = numbered(place, _content("--seen-keys", seen), _FORMAT, _WHY, "format")
            before = KeyList.model_validate(content)
        except ValidationError:
            raise RequestError(f"{place} is no list of keys: restore it from a copy") from None
    try:
        joined = before.joined(published)
    except ValueError as error:
        raise RequestError(
            f"{where} and what this device has seen ({seen}) have {error}: use none of its keys, "
            "for a key of one's own tells a device from others; ask who publishes it"
        ) from None
    if joined != before:
        with new_file(seen) as stream:
            stream.write(canonical(joined.model_dump(mode="json")) + b"\n")
    return published


def published_key(keys: KeyList, fingerprint: bytes, role: Role, window: str) -> bytes:
    """A window's key, of 32 bytes.

    Raises:
        RequestError: it is not in the list.
    """
    key = keys.of(fingerprint, role)
    if key is None:
        raise RequestError(
            f"--keys: no {role} key of window {window} of this plan: fetch the newest list, or ask "
            "its publisher whether the plan is the same"
        )
    return bytes.fromhex(key.public)


def _content(flag: str, file: str) -> bytes:
    try:
        with open(file, "rb") as stream:
            return stream.read()
    except OSError as error:
        raise RequestError(f"{flag}: {file} cannot be read{because(error)}") from None
