"""Strings sealed so that equal ones are equal words: a shuffler counts what it cannot read.

A seal is that of `sealing` (HPKE in base mode), and opens like any other; but its ephemeral key is
not drawn. It is a keyed function of the string, the plan and the window, under a *crowd key* that
all devices have and the shuffler has not: equal strings of a window are equal words, and who lacks
the key can neither seal a guess to compare it with what came, nor link two windows. Empty slots are
sealed with fresh keys, so that no two are alike, and none can be told from a rare string.

Source: an ephemeral key from a pseudo-random function of the message is what RFC 6979 does for
    signatures. Different messages have independent keys, so none is used for two.
"""

import hmac

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from numpy.typing import ArrayLike, NDArray

from mechanisms.wire.hpke import KEY, TAG, Context
from mechanisms.wire.report import SEALED, Form, Reports
from mechanisms.wire.sealing import KeyRing, groups, info, key_id

Words = NDArray[np.uint32]

NULL = 0xFFFFFFFF  # the first word of an empty slot, which no string has: see `StringEncoder`

_STRING, _EPHEMERAL = b"hushbeam string", b"hushbeam crowd 1"
_CROWD = 32  # bytes of a crowd key


def seals_of(width: int) -> int:
    """How many seals of a report a string takes the room of: all strings of a metric as many.

    Args:
        width: words of a string.

    >>> [seals_of(width) for width in (1, 2, 3, 17)]
    [1, 1, 2, 3]
    """
    return -(-(4 * width + KEY + TAG) // SEALED)


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
    if len(crowd_key) != _CROWD:
        raise ValueError(
            f"a crowd key has {_CROWD} bytes that all devices share, not {len(crowd_key)}"
        )
    size, name = seals_of(width), key_id(key)
    bound, room = info(fingerprint, metric, name, _STRING), size * SEALED - KEY - TAG
    context = Context(key, bound)
    boxes: dict[bytes, bytes] = {}
    sealed = []
    for string in strings.reshape(n * k, width).astype("<u4"):
        plain = string.tobytes().ljust(room, b"\0")
        if string[0] == NULL:
            sealed.append(context.seal(plain))
            continue
        if plain not in boxes:
            drawn = hmac.digest(crowd_key, _EPHEMERAL + bound + plain, "sha256")
            ephemeral = X25519PrivateKey.from_private_bytes(drawn)
            boxes[plain] = context.seal(plain, ephemeral)
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
    room, size = crowds.form.seals * SEALED, 4 * width
    sealed = crowds.records["sealed"].reshape(len(crowds), room)[:, : seals_of(width) * SEALED]
    opened, words = np.zeros(len(crowds), np.bool_), np.full((len(crowds), width), NULL, np.uint32)
    for name, metric, _, mine in groups(crowds):
        context = info(crowds.fingerprint, metric, name, _STRING)
        opened[mine], plains = ring.decrypt(name, sealed[mine], context)
        words[mine] = np.where(opened[mine, None], plains[:, :size].copy().view("<u4"), NULL)
    return opened, words
