"""Strings sealed so that equal ones are equal words: a shuffler counts what it cannot read.

A seal is that of `sealing` (HPKE in base mode), and opens like any other; but its ephemeral key is
not drawn. It is a keyed function of the string, the plan and the window, under a *crowd key* that
all devices have and the shuffler has not: equal strings of a window are equal words, and who lacks
the key can neither seal a guess to compare it with what came, nor link two windows. Empty slots are
sealed with fresh keys, so that no two are alike, and none can be told from a rare string.

Source: an ephemeral key from a pseudo-random function of the message is what RFC 6979 does for
    signatures; the words of RFC 9180, "Hybrid Public Key Encryption", 2022, sections 4.1 and 5.1,
    are spelt out here since the library draws its own keys. Different messages have independent
    keys, so none is used for two.
"""

from __future__ import annotations

import hmac

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import ArrayLike, NDArray

from mechanisms.wire.report import SEALED, Form, Reports
from mechanisms.wire.sealing import SUITE, KeyRing, info, key_id

Words = NDArray[np.uint32]

NULL = 0xFFFFFFFF  # the first word of an empty slot, which no string has: see `StringEncoder`

_STRING, _EPHEMERAL = b"hushbeam string", b"hushbeam crowd 1"
_TAG, _KEY = 16, 32  # bytes
_KEM, _HPKE = b"KEM\x00\x20", b"HPKE\x00\x20\x00\x01\x00\x01"  # X25519, HKDF-SHA256, AES-128-GCM


def seals_of(width: int) -> int:
    """How many seals of a report a string takes the room of: all strings of a metric as many.

    Args:
        width: words of a string.

    >>> [seals_of(width) for width in (1, 2, 3, 17)]
    [1, 1, 2, 3]
    """
    return -(-(4 * width + _KEY + _TAG) // SEALED)


def seal_strings(
    fingerprint: bytes,
    metric: int,
    strings: Words,
    ids: ArrayLike,
    crowd_key: bytes,
    key: X25519PublicKey,
) -> Reports:
    """Reports of units, each with as many strings.

    Args:
        fingerprint: of the plan and the window, 16 bytes.
        metric: its place in the plan.
        strings: (n, k, w) words of k strings of each unit; `NULL` first in a slot that is empty.
        ids: (n, 2) uint64 report ids.
        crowd_key: 32 bytes that all devices share.
        key: the collector's public key.

    Returns:
        n sealed reports, of k times `seals_of(w)` slots.

    Raises:
        ValueError: there is no such crowd key.
    """
    n, k, width = strings.shape
    if len(crowd_key) != _KEY:
        raise ValueError(
            f"a crowd key has {_KEY} bytes that all devices share, not {len(crowd_key)}"
        )
    size, name = seals_of(width), key_id(key)
    context, room = info(fingerprint, metric, name, _STRING), size * SEALED - _KEY - _TAG
    boxes: dict[bytes, bytes] = {}
    sealed = []
    for string in strings.reshape(n * k, width).astype("<u4"):
        plain = string.tobytes().ljust(room, b"\0")
        if string[0] == NULL:
            sealed.append(SUITE.encrypt(plain, key, context))
            continue
        if plain not in boxes:
            drawn = hmac.digest(crowd_key, _EPHEMERAL + context + plain, "sha256")
            ephemeral = X25519PrivateKey.from_private_bytes(drawn)
            boxes[plain] = sealed_under(ephemeral, plain, key, context)
        sealed.append(boxes[plain])
    form = Form(sealed=True, slots=k * size)
    records = form.empty(n)
    records["metric"], records["report_id"] = metric, ids
    records["key_id"] = int.from_bytes(name, "little")
    records["sealed"] = np.frombuffer(b"".join(sealed), np.uint8).reshape(n, form.slots, SEALED)
    return Reports(fingerprint, form, records)


def open_strings(crowds: Reports, width: int, ring: KeyRing) -> tuple[NDArray[np.bool_], Words]:
    """The strings of one metric's crowds.

    Args:
        crowds: m of them, as the shuffler sends them on.
        width: words of a string.
        ring: the collector's.

    Returns:
        (m,) which seals open, and (m, width) the words in them; `NULL` in those that do not.
    """
    records, plains, sealed = crowds.records, [], seals_of(width) * SEALED
    for number, metric, box in zip(
        records["key_id"].tolist(), records["metric"].tolist(), records["sealed"], strict=True
    ):
        name = number.to_bytes(8, "little")
        context = info(crowds.fingerprint, metric, name, _STRING)
        plains.append(ring.decrypt(name, box.tobytes()[:sealed], context))
    size = 4 * width
    data = b"".join((plain or b"\xff" * size)[:size] for plain in plains)
    mask = np.array([plain is not None for plain in plains], np.bool_)
    return mask, np.frombuffer(data, "<u4").reshape(-1, width).astype(np.uint32)


def sealed_under(
    ephemeral: X25519PrivateKey, plain: bytes, key: X25519PublicKey, context: bytes
) -> bytes:
    """HPKE in base mode with an ephemeral key that is given: RFC 9180, `SealBase` without `aad`.

    Args:
        ephemeral: for this message alone.
        plain: the message.
        key: the receiver's.
        context: `info`.

    Returns:
        The encapsulated key, the encrypted message and its tag.
    """
    encapsulated = ephemeral.public_key().public_bytes_raw()
    both = encapsulated + key.public_bytes_raw()
    shared = _extract(_KEM, b"", b"eae_prk", ephemeral.exchange(key))
    shared = _expand(_KEM, shared, b"shared_secret", both, 32)
    schedule = b"\0" + _extract(_HPKE, b"", b"psk_id_hash", b"")
    schedule += _extract(_HPKE, b"", b"info_hash", context)
    secret = _extract(_HPKE, shared, b"secret", b"")
    opens = AESGCM(_expand(_HPKE, secret, b"key", schedule, 16))
    nonce = _expand(_HPKE, secret, b"base_nonce", schedule, 12)
    return encapsulated + opens.encrypt(nonce, plain, None)


def _extract(suite: bytes, salt: bytes, label: bytes, data: bytes) -> bytes:
    """`LabeledExtract` of the RFC."""
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + data, "sha256")


def _expand(suite: bytes, secret: bytes, label: bytes, data: bytes, size: int) -> bytes:
    """`LabeledExpand` of the RFC, of no more than one block."""
    labelled = size.to_bytes(2, "big") + b"HPKE-v1" + suite + label + data
    return hmac.digest(secret, labelled + b"\x01", "sha256")[:size]
