"""The signature of a release: by whom it was made, and that nobody has changed a file since.

Ed25519 over the digests of all files. Whoever publishes has the key, and gives its public half to
those who verify; a verifier needs no secret.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)

from pipelines.errors import RequestError, because, reason
from pipelines.storage.formats import numbered
from pipelines.storage.paths import new_file
from pipelines.storage.secrets import KeptSecret, default_place, made_once, read

SIGNATURE = "signature.json"
VARIABLE = "HUSHBEAM_SIGNING_KEY"
PUBLIC = ".public.pem"
_SIGNING = KeptSecret(
    "--signing-key",
    f"under which releases are signed: keep it to yourself, and give what is beside it, {PUBLIC}, "
    f"to who verifies them; {VARIABLE} names another place",
)
_VERSION = 1
# What is signed says what it is: a signature of one kind is never taken for that of another.
_RELEASE = b"hushbeam release 1\n"
_INTRODUCED = b"hushbeam key 1\n"

Keys = tuple[Ed25519PublicKey, ...]
"""Of who publishes, each introduced by one before it: what any of them has signed counts."""


class SignatureError(ValueError):
    """It is not signed by that key, or not as it was signed."""


def signing_key() -> Ed25519PrivateKey:
    """The key of who publishes; made on first use, with its public half beside it.

    Raises:
        RequestError: it cannot be read, or made.
    """
    place = os.environ.get(VARIABLE) or default_place(_SIGNING)
    file = made_once(_SIGNING, os.environ.get(VARIABLE))
    key = Ed25519PrivateKey.from_private_bytes(read(VARIABLE, file))
    beside = place + PUBLIC
    if "://" not in place and not os.path.exists(beside):
        try:
            with new_file(beside, over=True) as stream:
                stream.write(written(key.public_key()))
        except OSError as error:
            raise RequestError(f"{VARIABLE}: cannot write {beside}: {reason(error)}") from None
    return key


def written(key: Ed25519PublicKey) -> bytes:
    """A public key as a file."""
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def public_key(flag: str, file: str) -> Ed25519PublicKey:
    """The key in a file.

    Args:
        flag: by which it is named.
        file: PEM.

    Raises:
        RequestError: it cannot be read, or holds no such key.
    """
    return _key(f"{flag}: {file}", _content(flag, file))


def public_keys(flag: str, files: Sequence[str]) -> Keys:
    """The keys in some files, and those that statements signed by them introduce.

    Args:
        flag: by which the files are named.
        files: PEM, or as of `introduction`; in any order.

    Raises:
        RequestError: one cannot be read, holds no such key, or is signed by none of the others.
    """
    keys, introduced = dict[str, Ed25519PublicKey](), dict[str, bytes]()
    for file in files:
        content = _content(flag, file)
        if content.lstrip().startswith(b"{"):
            introduced[file] = content
        else:
            key = _key(f"{flag}: {file}", content)
            keys[key_id(key)] = key
    for _ in files:  # a key that was introduced may introduce the next
        for file, content in introduced.items():
            new = _introduced(f"{flag}: {file}", content, tuple(keys.values()))
            keys |= {} if new is None else {key_id(new): new}
    for file, content in introduced.items():
        if _introduced(f"{flag}: {file}", content, tuple(keys.values())) is None:
            raise RequestError(
                f"{flag}: {file} is signed by none of the keys: name the {PUBLIC} that the "
                "publisher had before, too"
            )
    return tuple(keys.values())


def introduction(key: Ed25519PublicKey) -> bytes:
    """A statement, signed by the present key, that another one is of the same publisher; a file.

    Args:
        key: under which releases and heads will be signed from now on.
    """
    said = {"introduction_version": _VERSION, "key": key.public_bytes_raw().hex()}
    signature = signing_key().sign(_INTRODUCED + canonical(said)).hex()
    return json.dumps(said | {"signature": signature}, indent=1).encode() + b"\n"


def _content(flag: str, file: str) -> bytes:
    try:
        with open(file, "rb") as stream:
            return stream.read(1 << 14)
    except OSError as error:
        raise RequestError(f"{flag}: {file} cannot be read{because(error)}") from None


def _key(where: str, content: bytes) -> Ed25519PublicKey:
    """What a PEM file holds, if that is a public key."""
    if b"PRIVATE KEY" in content:
        raise RequestError(
            f"{where} holds a private key, which stays with its owner: name the {PUBLIC}"
        )
    try:
        key: object = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):  # whose texts name no file
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise RequestError(f"{where} holds no Ed25519 public key (-----BEGIN PUBLIC KEY-----)")
    return key


def _introduced(where: str, content: bytes, keys: Keys) -> Ed25519PublicKey | None:
    """The key that a statement introduces; None if none of the keys has signed it."""
    try:
        said = numbered(where, content, _VERSION, "sign it again", "introduction_version")
        signature = bytes.fromhex(said.pop("signature"))
        new = Ed25519PublicKey.from_public_bytes(bytes.fromhex(said["key"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RequestError(f"{where} introduces no key") from None
    return new if is_signed(_INTRODUCED + canonical(said), signature, keys) else None


def is_signed(content: bytes, signature: bytes, keys: Keys) -> bool:
    """Whether any of the keys has signed something."""
    for key in keys:
        try:
            key.verify(signature, content)
        except InvalidSignature:
            continue
        return True
    return False


def named(keys: Keys) -> str:
    """What tells keys apart, for messages."""
    return " or ".join(map(key_id, keys))


def key_id(key: Ed25519PublicKey) -> str:
    """What tells public keys apart: the first 16 hexadecimal digits of their SHA-256."""
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]


def signed(files: Mapping[str, bytes]) -> bytes:
    """The signature of a release, as a file of it.

    Args:
        files: name -> content, of all others.
    """
    return _signed(_digests(files))


def signed_again(before: bytes, changed: Mapping[str, bytes]) -> bytes:
    """The signature of a release in which files have grown; of the others it says what it said.

    Args:
        before: the signature's file.
        changed: name -> content.
    """
    return _signed({**json.loads(before)["files"], **_digests(changed)})


def _digests(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}


def _signed(digests: Mapping[str, str]) -> bytes:
    key = signing_key()
    said = {
        "signature_version": _VERSION, "key": key_id(key.public_key()), "files": digests,
        "signature": key.sign(_RELEASE + canonical(digests)).hex(),
    }  # fmt: skip
    return json.dumps(said, indent=1).encode() + b"\n"


def require_signed(where: str, content: bytes, keys: Keys) -> dict[str, str]:
    """The digests that a signature speaks of, by the names of files.

    Args:
        where: its name, for messages.
        content: of its file, which anybody may have written.
        keys: of which one has to have signed.

    Raises:
        SignatureError: it is of another key, or none.
    """
    try:
        said = numbered(where, content, _VERSION, "sign it again", "signature_version")
        digests, signature = said["files"], bytes.fromhex(said["signature"])
        own = is_signed(_RELEASE + canonical(digests), signature, keys)
    except (RequestError, ValueError, KeyError, TypeError, RecursionError):
        raise SignatureError(f"{where} is no signature of this format") from None
    if not own:
        raise SignatureError(f"{where} is not signed by key {named(keys)}")
    if not (isinstance(digests, dict) and all(isinstance(one, str) for one in digests.values())):
        raise SignatureError(f"{where} is no signature of this format")
    return digests


def canonical(said: Any) -> bytes:
    """The one JSON of what is signed."""
    return json.dumps(said, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
