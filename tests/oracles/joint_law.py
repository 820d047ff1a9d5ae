"""The exact law of all that a collector sees of noisy counters, outcome by outcome."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Counts
from mechanisms.counters.design import Counters
from mechanisms.counters.dummies import complete
from mechanisms.counters.noise import ShufflerNoise

_LARGEST = 1 << 20  # outcomes that are listed


def joint(design: Counters, raised: ArrayLike) -> dict[tuple[int, ...], Fraction]:
    """The exact law of all counts, nulls included: for audits of small batches.

    Args:
        raised: as in `Counters.simulate`.

    Returns:
        (codes,) counts -> their probability.

    Raises:
        ValueError: there are too many outcomes to list.
    """
    start = np.array(raised, np.int64)
    for code, mean in _offsets(design):
        start[code] += mean
    law = {tuple(start.tolist()): Fraction(1)}
    for noise, effect in _noises(design):
        if not len(law) * noise.pmf.size <= _LARGEST:
            raise ValueError(f"more than {_LARGEST:,} outcomes cannot be listed")
        after: dict[tuple[int, ...], Fraction] = {}
        for counts, chance in law.items():
            for z, weight in enumerate(noise.weights.tolist(), -noise.mu):
                seen = tuple((np.array(counts) + z * effect).tolist())
                after[seen] = after.get(seen, Fraction(0)) + chance * Fraction(weight, 1 << 64)
        law = after
    return law


def _offsets(design: Counters) -> Iterator[tuple[int, int]]:
    """(code, how many dummies it has if all noises are 0)."""
    for i, (level, mean) in enumerate(zip(design.levels, design.dummies.means, strict=True)):
        for code in range(design.layout.starts[i], design.layout.starts[i + 1]):
            yield code, mean
        own = sum(law.mu for law in design.dummies.null_laws(i)) * level.slots
        full = complete(level, design.neighbours)
        yield int(design.layout.nulls[i]), mean * level.counters if full else own


def _noises(design: Counters) -> Iterator[tuple[ShufflerNoise, Counts]]:
    """Every noise that is drawn, and what it adds to each code."""
    for part in design.dummies.parts:
        columns = design.levels[int(np.flatnonzero(part.effect)[0])].counters
        for column in range(columns):
            effect = np.zeros(design.layout.codes, np.int64)
            for i in np.flatnonzero(part.effect).tolist():
                effect[design.layout.starts[i] + column] = part.effect[i]
                if complete(design.levels[i], design.neighbours):
                    effect[design.layout.nulls[i]] -= part.effect[i]
            yield part.law, effect
    for i, level in enumerate(design.levels):
        if not complete(level, design.neighbours):
            effect = np.zeros(design.layout.codes, np.int64)
            effect[design.layout.nulls[i]] = 1
            for law in design.dummies.null_laws(i) * level.slots:
                yield law, effect
