"""Unary reports seen whole, before anybody shuffles them: what their sizes give away."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushbeam.studies.systems.set_sizes import SetSizes
from mechanisms.channel import Counts, Floats
from mechanisms.frequency.unary import Unary
from mechanisms.randomness import SeededRandom

_BLOCK = 1 << 24  # bits drawn at a time
_LARGEST = 1 << 28  # bits in all: some seconds

Targets = NDArray[np.int64]


def sifted(
    mechanism: Unary, honest: Counts, attack: str, targets: Targets, liars: int, rng: SeededRandom
) -> tuple[Floats, float]:
    """Shares from the reports whose sizes are trusted, and how many of the honest ones are not.

    Args:
        mechanism: what honest users run.
        honest: (d,) how many of them hold each value.
        attack: what the others do, by its name in `liars.ATTACKS`.
        targets: the values that they push up.
        liars: how many they are.
        rng: repeatable randomness.

    Raises:
        ValueError: there are too many bits, or hardly any size is trusted.
    """
    d = mechanism.domain_size
    if not d * (int(honest.sum()) + liars) <= _LARGEST:
        raise ValueError("too many bits to look at one by one")
    values = np.repeat(np.arange(d), honest)
    supports, own = np.zeros((d + 1, d), np.int64), np.zeros(d + 1, np.int64)
    step = max(1, _BLOCK // d)
    for start in range(0, values.size, step):
        bits = _honest(mechanism, values[start : start + step], rng)
        _add(bits, supports, own)
    sizes = own.copy()
    for start in range(0, liars if attack != "none" else 0, step):
        some = min(step, liars - start)
        _add(_lying(mechanism, attack, targets, some, rng), supports, sizes)
    known = SetSizes(mechanism)
    lost = own[~known.trusted(sizes)].sum() / max(own.sum(), 1)
    return known.estimate(supports, sizes), float(lost)


def _honest(mechanism: Unary, values: NDArray[np.int64], rng: SeededRandom) -> NDArray[np.bool_]:
    """(users, d) reports of the client."""
    messages, senders = mechanism.send(values, rng)
    bits = np.zeros((values.size, mechanism.domain_size), np.bool_)
    bits[senders, messages.astype(np.int64)] = True
    return bits


def _lying(
    mechanism: Unary, attack: str, targets: Targets, users: int, rng: SeededRandom
) -> NDArray[np.bool_]:
    """(users, d) reports of liars."""
    source, d = rng.generator(), mechanism.domain_size
    if attack == "input":
        return _honest(mechanism, source.choice(targets, users), rng)
    if attack == "random":
        return np.asarray(source.random((users, d)) < 0.5)
    # All targets, and so many others that every report has the usual number of bits, or as many as
    # some honest report has.
    usual = np.full(users, round(mechanism.messages))
    if attack == "adaptive":
        law = SetSizes(mechanism).law
        usual = source.choice(law.size, users, p=law / law.sum())
    places = source.random((users, d))
    places[:, targets] = -1.0  # the first
    ranks = places.argsort(axis=1).argsort(axis=1)
    return np.asarray(ranks < np.maximum(usual, targets.size)[:, None])


def _add(bits: NDArray[np.bool_], supports: Counts, sizes: Counts) -> None:
    """Count reports by their sizes."""
    sizes_of_reports = bits.sum(axis=1)
    for size in np.unique(sizes_of_reports).tolist():
        supports[size] += bits[sizes_of_reports == size].sum(axis=0)
    sizes += np.bincount(sizes_of_reports, minlength=sizes.size)
