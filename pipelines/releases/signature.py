"""The signature of a release: by whom it was made, and that nobody has changed a file since.

Ed25519 over the digests of all files. Whoever publishes has the key, and gives its public half to
those who verify; a verifier needs no secret.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
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

    Raises:
        RequestError: it cannot be read, or holds no such key.
    """
    try:
        with open(file, "rb") as stream:
            content = stream.read(1 << 14)
    except OSError as error:
        raise RequestError(f"{flag}: {file} cannot be read{because(error)}") from None
    if b"PRIVATE KEY" in content:
        raise RequestError(
            f"{flag}: {file} holds a private key, which stays with its owner: name the {PUBLIC}"
        )
    try:
        key: object = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):  # whose texts name no file
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise RequestError(
            f"{flag}: {file} holds no Ed25519 public key (-----BEGIN PUBLIC KEY-----)"
        )
    return key


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


def require_signed(where: str, content: bytes, key: Ed25519PublicKey) -> dict[str, str]:
    """The digests that a signature speaks of, by the names of files.

    Args:
        where: its name, for messages.
        content: of its file, which anybody may have written.
        key: of who has to have signed.

    Raises:
        SignatureError: it is of another key, or none.
    """
    try:
        said = numbered(where, content, _VERSION, "sign it again", "signature_version")
        digests, signature = said["files"], bytes.fromhex(said["signature"])
        key.verify(signature, _RELEASE + canonical(digests))
    except InvalidSignature:
        raise SignatureError(f"{where} is not signed by key {key_id(key)}") from None
    except (RequestError, ValueError, KeyError, TypeError, RecursionError):
        raise SignatureError(f"{where} is no signature of this format") from None
    if not (isinstance(digests, dict) and all(isinstance(one, str) for one in digests.values())):
        raise SignatureError(f"{where} is no signature of this format")
    return digests


def canonical(said: Any) -> bytes:
    """The one JSON of what is signed."""
    return json.dumps(said, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
