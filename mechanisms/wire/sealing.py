"""Reports sealed to the collector's key, so that the shuffler cannot read what it shuffles.

Each message is sealed on its own by HPKE in base mode, X25519 with HKDF-SHA256 and AES-128-GCM.
What the shuffler may see but not change (format, plan, metric, key) goes into `info`, where RFC
9180, section 8.1, wants it for messages that are sealed one by one: a seal opens for no other plan.
The library draws the ephemeral keys, from the operating system.

Source: Barnes, Bhargavan, Lipp, Wood, "Hybrid Public Key Encryption", RFC 9180, 2022, section 6.1.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import numpy as np
from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from numpy.typing import NDArray

from mechanisms.channel import Messages
from mechanisms.wire import screening
from mechanisms.wire.report import SEALED, VERSION, Reports
from mechanisms.wire.screening import Screened, tallied

_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
_INFO = struct.Struct("<15sHH8s16s")


def key_id(key: X25519PublicKey) -> bytes:
    """The name of a key: the first 8 bytes of the SHA-256 of its 32."""
    return hashlib.sha256(key.public_bytes_raw()).digest()[:8]


def info(fingerprint: bytes, metric: int, key: bytes) -> bytes:
    """What a seal is bound to.

    Args:
        fingerprint: of the plan, 16 bytes.
        metric: 0 .. 65,535.
        key: a key's id, 8 bytes.

    Returns:
        43 bytes: "hushbeam report", then version, metric, key id and fingerprint.
    """
    return _INFO.pack(b"hushbeam report", VERSION, metric, key, fingerprint)


def seal(reports: Reports, key: X25519PublicKey) -> Reports:
    """Reports whose messages only the holder of a private key can read.

    Args:
        reports: n plain ones.
        key: the collector's.

    Returns:
        n sealed ones, in the same order and with the same report ids, if they have any.
    """
    sealed, name = reports.recast(replace(reports.form, sealed=True)), key_id(key)
    sealed.records["key_id"] = int.from_bytes(name, "little")
    words = reports.records["message"].tobytes()
    boxes = [
        # One by one, since the shuffler parts a user's messages from each other.
        _SUITE.encrypt(words[8 * i : 8 * i + 8], key, info(reports.fingerprint, metric, name))
        for i, metric in enumerate(reports.records["metric"].tolist())
    ]
    sealed.records["sealed"] = np.frombuffer(b"".join(boxes), np.uint8).reshape(-1, SEALED)
    return sealed


class KeyRing:
    """The collector's private keys by id: new clients use the newest, late ones an older.

    Args:
        keys: one or more.
        suite: what opens a seal.

    >>> key = X25519PrivateKey.generate()
    >>> sealed = seal(Reports.shuffled(bytes(16), metric=0, messages=[7]), key.public_key())
    >>> KeyRing([key]).open(sealed).reports.records["message"].tolist()
    [7]
    """

    def __init__(self, keys: Iterable[X25519PrivateKey], suite: Suite = _SUITE) -> None:
        self._suite = suite
        self._keys = {key_id(key.public_key()): key for key in keys}
        if not self._keys:
            raise ValueError("a key ring needs at least one private key")

    @classmethod
    def of(cls, files: Iterable[bytes]) -> KeyRing:
        """The ring of some PEM files' contents.

        Raises:
            ValueError: one of them is not an unencrypted X25519 private key.
        """
        return cls(map(_private, files))

    @classmethod
    def read(cls, folder: Path) -> KeyRing:
        """The ring of all private keys that `create_key` left in a folder."""
        return cls.of(path.read_bytes() for path in sorted(folder.glob("*.private.pem")))

    @property
    def ids(self) -> list[bytes]:
        """The ids of the keys."""
        return list(self._keys)

    def open(self, reports: Reports) -> Screened:
        """The messages inside the seals.

        Args:
            reports: n sealed ones.

        Returns:
            Plain reports of the same shuffling, in the same order, less what does not open.
        """
        plain = reports.recast(replace(reports.form, sealed=False))
        opened, unknown = np.zeros(len(reports), np.bool_), 0
        for number, metric, mine in _groups(reports):
            name = number.to_bytes(8, "little")
            if (key := self._keys.get(name)) is None:
                unknown += mine.size
                continue
            boxes = reports.records["sealed"][mine].tobytes()
            opened[mine], plain.records["message"][mine] = _opened(
                self._suite, boxes, key, info(reports.fingerprint, metric, name)
            )
        unopened = len(reports) - unknown - int(np.count_nonzero(opened))
        dropped = tallied({screening.UNKNOWN_KEY: unknown, screening.UNOPENED: unopened})
        return Screened(plain.where(opened), dropped)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a KeyRing must not be pickled or copied: read it where it is used")


def create_key(folder: Path) -> bytes:
    """A new pair of keys as two PEM files, `<key id>.private.pem` and `<key id>.public.pem`.

    Args:
        folder: where; the private file can be read by its owner alone.

    Returns:
        The key id.
    """
    key = X25519PrivateKey.generate()
    name = key_id(key.public_key())
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    # Created closed: between creating and closing it, others could open it.
    secret = os.open(
        folder / f"{name.hex()}.private.pem", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600
    )
    with os.fdopen(secret, "wb") as file:
        file.write(private)
    (folder / f"{name.hex()}.public.pem").write_bytes(public)
    return name


def public_key(pem: bytes) -> X25519PublicKey:
    """The key of a `.public.pem` file.

    Raises:
        ValueError: it is not an X25519 public key.
    """
    key = _parsed(serialization.load_pem_public_key, pem)
    if not isinstance(key, X25519PublicKey):
        raise ValueError("the file does not hold an X25519 public key (-----BEGIN PUBLIC KEY-----)")
    return key


def _private(pem: bytes) -> X25519PrivateKey:
    """The key of a `.private.pem` file."""
    key = _parsed(lambda data: serialization.load_pem_private_key(data, None), pem)
    if not isinstance(key, X25519PrivateKey):
        raise ValueError(
            "the file does not hold an unencrypted X25519 private key (-----BEGIN PRIVATE KEY-----)"
        )
    return key


def _parsed(load: Callable[[bytes], object], pem: bytes) -> object:
    """What a file holds, or None; what the parser says may quote it, so it is not passed on."""
    try:
        return load(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None


def _groups(reports: Reports) -> Iterator[tuple[int, int, NDArray[np.intp]]]:
    """Key id, metric, and the places of the reports that have both."""
    pairs = np.stack([reports.records["key_id"], reports.records["metric"]])
    distinct, which, sizes = np.unique(pairs, axis=1, return_inverse=True, return_counts=True)
    places = np.split(np.argsort(which.ravel(), kind="stable"), np.cumsum(sizes)[:-1])
    for (number, metric), mine in zip(distinct.T.tolist(), places, strict=False):
        yield number, metric, mine


def _opened(
    suite: Suite, boxes: bytes, key: X25519PrivateKey, context: bytes
) -> tuple[NDArray[np.bool_], Messages]:
    """(n,) which of n sealed messages open, and (n,) the messages; zero where they do not."""
    words: list[bytes | None] = []
    for start in range(0, len(boxes), SEALED):
        try:
            words.append(suite.decrypt(boxes[start : start + SEALED], key, context))
        except InvalidTag:
            words.append(None)
    messages = np.frombuffer(b"".join(word or bytes(8) for word in words), "<u8")
    return np.array([word is not None for word in words], np.bool_), messages
