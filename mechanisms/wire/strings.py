"""Strings sealed so that equal ones are equal words: a shuffler counts what it cannot read.

A seal is that of `sealing` (HPKE in base mode), and opens like any other; but its ephemeral key is
not drawn. It is a function of the string, the plan and the window that a party of its own evaluates
without seeing them (`oblivious`), under a key of the window: equal strings of a window are equal
words, and who has not that key can seal no guess to compare it with what came. Empty slots are
sealed with fresh keys, so that no two are alike, and none can be told from a rare string.

Source: an ephemeral key from a pseudo-random function of the message is what RFC 6979 does for
    signatures. Different messages have independent keys, so none is used for two. That a party
    evaluates it obliviously is Davidson et al., "STAR: secret sharing for private threshold
    aggregation reporting", CCS 2022, section 4.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from numpy.typing import ArrayLike, NDArray

from mechanisms.wire.hpke import KEY, TAG, Context
from mechanisms.wire.report import SEALED, Form, Reports
from mechanisms.wire.sealing import KeyRing, groups, info, key_id

Words = NDArray[np.uint32]

NULL = 0xFFFFFFFF  # the first word of an empty slot, which no string has: see `StringEncoder`
_EMPTY = NULL.to_bytes(4, "little")

_STRING = b"hushbeam string"


def seals_of(width: int) -> int:
    """How many seals of a report a string takes the room of: all strings of a metric as many.

    Args:
        width: words of a string.

    >>> [seals_of(width) for width in (1, 2, 3, 17)]
    [1, 1, 2, 3]
    """
    return -(-(4 * width + KEY + TAG) // SEALED)


def string_inputs(
    fingerprint: bytes, metric: int, strings: Words, key: X25519PublicKey
) -> list[bytes]:
    """What the oblivious function is asked of strings.

    Args:
        fingerprint, metric, strings, key: as of `seal_strings`.

    Returns:
        n times k inputs, those of empty slots too: a device asks for all, or it would be seen how
        many strings it has.
    """
    return [plain for plain, _ in _inputs(fingerprint, metric, strings, key)]


def seal_strings(
    fingerprint: bytes,
    metric: int,
    strings: Words,
    ids: ArrayLike,
    outputs: Mapping[bytes, bytes],
    key: X25519PublicKey,
) -> Reports:
    """Reports of units, each with as many strings.

    Args:
        fingerprint: of the plan and the window, 16 bytes.
        metric: its place in the plan.
        strings: (n, k, w) words of k strings of each unit; `NULL` first in a slot that is empty.
        ids: (n, 2) uint64 report ids.
        outputs: input -> `oblivious.OUTPUT` bytes that the window's key makes of it; those of
            empty slots are not used.
        key: the collector's public key.

    Returns:
        n sealed reports, of k times `seals_of(w)` slots.

    Raises:
        ValueError: the output of a string is missing.
    """
    n, k, width = strings.shape
    name, context = key_id(key), Context(key, _bound(fingerprint, metric, key))
    boxes: dict[bytes, bytes] = {}
    sealed = []
    for plain, padded in _inputs(fingerprint, metric, strings, key):
        if padded.startswith(_EMPTY):
            sealed.append(context.seal(padded))
            continue
        if plain not in boxes:
            if plain not in outputs:  # whose text must not stand in an error
                raise ValueError("a string was not evaluated: ask for all of `string_inputs`")
            ephemeral = X25519PrivateKey.from_private_bytes(outputs[plain][:KEY])
            boxes[plain] = context.seal(padded, ephemeral)
        sealed.append(boxes[plain])
    form = Form(sealed=True, slots=k * seals_of(width))
    records = form.empty(n)
    records["metric"], records["report_id"] = metric, ids
    records["key_id"] = int.from_bytes(name, "little")
    records["sealed"] = np.frombuffer(b"".join(sealed), np.uint8).reshape(n, form.slots, SEALED)
    return Reports(fingerprint, form, records)


def _bound(fingerprint: bytes, metric: int, key: X25519PublicKey) -> bytes:
    """What seals and inputs are bound to."""
    return info(fingerprint, metric, key_id(key), _STRING)


def _inputs(
    fingerprint: bytes, metric: int, strings: Words, key: X25519PublicKey
) -> Iterator[tuple[bytes, bytes]]:
    """Each slot's input, and the padded string in it."""
    bound, width = _bound(fingerprint, metric, key), strings.shape[-1]
    room = seals_of(width) * SEALED - KEY - TAG
    for string in strings.reshape(-1, width).astype("<u4"):
        padded = string.tobytes().ljust(room, b"\0")
        yield bound + padded, padded


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
