"""Encoders done slowly: rows one at a time; and whole tables through an encoder, without Beam."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mechanisms.randomness import RandomSource, SeededRandom
from transforms.encoders.domain import Domain, IntegerRange
from transforms.encoders.encoder import NULL_USER, NULL_VALUE, OUTSIDE_DOMAIN, Encoder
from transforms.encoders.encoder import encoded as encoded_batch
from transforms.encoders.users import UserDigest

# ---- rows, one at a time -----------------------------------------------------------------------


def cell(domain: Domain, value: Any) -> int:
    """Where a value goes: its place among the declared ones, -1 for a null, -2 for an outsider."""
    if value is None:
        return -1
    if isinstance(domain, IntegerRange):
        declared: list[Any] = list(range(domain.low, domain.high + 1))
    elif isinstance(value, bool):
        declared, value = list(domain.values), {True: "true", False: "false"}[value]
    elif isinstance(value, int):
        declared = [int(text) for text in domain.values]
    else:
        declared = list(domain.values)
    if value in declared:
        return declared.index(value)
    return len(declared) if domain.other else -2


def encoded(domain: Domain, values: Sequence[Any], ids: Sequence[Any] | None):
    """The usable rows as (cell, id) pairs, and the rejects: each row under one reason at most."""
    rows, rejects = [], Counter()
    for value, user in zip(values, [0] * len(values) if ids is None else ids, strict=True):
        place = cell(domain, value)
        if user is None:
            rejects[NULL_USER] += 1
        elif place == -1:
            rejects[NULL_VALUE] += 1
        elif place == -2:
            rejects[OUTSIDE_DOMAIN] += 1
        else:
            rows.append((place, user))
    return rows, dict(rejects)


def mix(word: int) -> int:
    """SplitMix64's finaliser, in Python's own integers."""
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
    return word ^ word >> 31


def stored(users: int) -> dict[str, list[pa.Array]]:
    """0, 1, .. as every type of column that a log may hold users in; numbers, and texts."""
    texts = pa.array([f"user {k}" for k in range(users)])
    widths = [getattr(pa, f"{sign}int{8 << k}")() for sign in ("", "u") for k in range(4)]
    numbers = [pa.array(range(users), kind) for kind in widths]
    kinds = (pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view())
    others = [texts.cast(kind) for kind in kinds]
    coded = pa.array(range(users), pa.uint16())
    return {
        "numbers": [*numbers, *(each.dictionary_encode() for each in numbers[::3])],
        "texts": [
            texts, *others, texts.dictionary_encode(),
            *(pa.DictionaryArray.from_arrays(coded, each) for each in (*others[:2], *others[3:])),
        ],
    }  # fmt: skip


def digest(user: int | str | bytes, key: int) -> int:
    """A user's digest: an integer mixed, or a text absorbed eight bytes at a time, and sealed."""
    if isinstance(user, int):
        state = mix(user % 2**64 ^ key)
    else:
        text = user.encode() if isinstance(user, str) else user
        state = mix(len(text) ^ key)
        for start in range(0, len(text), 8):
            state = mix(state ^ int.from_bytes(text[start : start + 8], "little"))
    return mix((state + key) % 2**64)


def unmix(word: int) -> int:
    """The word that `mix` maps to this one."""
    word ^= word >> 31 ^ word >> 62
    word = word * pow(0x94D049BB133111EB, -1, 2**64) % 2**64
    word ^= word >> 27 ^ word >> 54
    word = word * pow(0xBF58476D1CE4E5B9, -1, 2**64) % 2**64
    return word ^ word >> 30 ^ word >> 60


def arrow(values: Sequence[Any], kind: pa.DataType, before: int = 0, after: int = 0) -> pa.Array:
    """A column that is a slice of a longer one, its neighbours copies of its own values."""
    values = list(values)
    around = values or [None]
    padded = [around[i % len(around)] for i in range(before)] + values + around[:1] * after
    return pa.array(padded, kind).slice(before, len(values))


def dictionary(
    values: Sequence[Any], kind: pa.DataType, entries: Iterable[Any], hide_nulls: bool
) -> pa.Array:
    """A dictionary column that also holds unused entries, its nulls in the indices or inside."""
    held = list(dict.fromkeys([*entries, *(v for v in values if v is not None)]))
    held += [None] if hide_nulls else []
    places = [held.index(v) if v is not None or hide_nulls else None for v in values]
    return pa.DictionaryArray.from_arrays(pa.array(places, pa.int16()), pa.array(held, kind))


# ---- whole tables --------------------------------------------------------------------------------


def encode_table(
    encoder: Encoder,
    table: pa.Table,
    users: UserDigest | None = None,
    rng: RandomSource | None = None,
    size: int | None = None,
) -> tuple[Any, dict[str, int]]:
    """The usable rows of a table as one block, and the rejects.

    Args:
        encoder: of the values.
        table: with its columns.
        users: the privacy unit, or None.
        rng: draws; by default what `SeededRandom(1)` does.
        size: how many rows are encoded at a time; by default as many as the encoder likes.
    """
    rng = SeededRandom(1) if rng is None else rng
    batches = table.to_batches(max_chunksize=size or encoder.batch_size)
    parts = [encoded_batch(encoder, batch, users, rng) for batch in batches]
    if not parts:  # a table without rows
        nothing = pa.RecordBatch.from_pylist([], table.schema)
        parts = [encoded_batch(encoder, nothing, users, rng)]
    blocks, rejects = [part.block for part in parts], Counter[str]()
    for part in parts:
        assert type(part.block) is encoder.kind
        assert all(amount > 0 for amount in part.rejects.values())
        rejects += part.rejects
    joined = (None if a[0] is None else np.concatenate(a) for a in zip(*blocks, strict=True))
    return encoder.kind(*joined), dict(rejects)
