"""Slow, obvious versions of what the mean mechanisms compute: everything from the exact channel."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from functools import lru_cache
from itertools import permutations
from pathlib import Path

import numpy as np

from tests.oracles.statistics import follows, sample_size, tilted

VECTORS = json.loads(Path(__file__).parents[1].joinpath("data/vectors.json").read_text())


class Dealt:
    """A generator that hands out given words in turn."""

    def __init__(self, words) -> None:
        self.left = np.array(words, np.uint64)

    def words(self, size: int) -> np.ndarray:
        out, self.left = self.left[:size], self.left[size:]
        return out


def vectors(name: str) -> list[dict]:
    """The reference constants of one mechanism."""
    return VECTORS[name]


def law(mechanism, cell: int) -> list[Fraction]:
    """P(code | cell), exactly."""
    numerators, denominator = mechanism.weights(cell)
    return [Fraction(int(weight), denominator) for weight in numerators]


def window(cells: int, width: int, margin: int, chance: Fraction, cell: int) -> list[Fraction]:
    """A window of given probability, code by code, straight from its definition."""
    codes = range(cells + width + 2 * margin)
    inside = [margin + cell <= code < margin + cell + width for code in codes]
    rest = len(inside) - width
    return [chance / width if hit else (1 - chance) / rest for hit in inside]


@lru_cache(maxsize=16)
def _tables(mechanism) -> tuple[list[np.ndarray], int]:
    """Every input's weights, as integers of any size, and the denominator that they share."""
    tables, denominators = zip(*map(mechanism.weights, range(mechanism.inputs)), strict=True)
    (denominator,) = set(denominators)
    return [table.astype(object) for table in tables], denominator


def _surplus(mechanism, pairs, multiplier: Fraction) -> Fraction:
    """The largest hockey-stick divergence between two inputs' laws of some pairs, exactly."""
    up, down = multiplier.numerator, multiplier.denominator
    laws, denominator = _tables(mechanism)
    most = max(np.maximum(laws[i] * down - laws[j] * up, 0).sum() for i, j in pairs)
    return Fraction(most, denominator * down)


def declared_divergence(mechanism, multiplier: Fraction) -> Fraction:
    """The divergence, maximised over the pairs that the mechanism says stand for all."""
    return _surplus(mechanism, mechanism.pairs(), multiplier)


def worst_divergence(mechanism, multiplier: Fraction) -> Fraction:
    """The same, over all ordered pairs of inputs, whatever the mechanism says."""
    return _surplus(mechanism, permutations(range(mechanism.inputs), 2), multiplier)


def rounding(cells: int, value: Fraction) -> dict[int, Fraction]:
    """The law of the cell that a value is rounded to."""
    position = (value + 1) * cells / 2
    below = math.floor(position)
    share = position - below
    return {below: 1 - share} | ({below + 1: share} if share else {})


def lumped(probabilities: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray]:
    """Outcomes put together until each has some probability: (their groups, the groups' law)."""
    groups, group, mass = np.zeros(len(probabilities), int), 0, 0.0
    for outcome, probability in enumerate(probabilities):
        groups[outcome] = group
        mass += probability
        if mass >= least:
            group, mass = group + 1, 0.0
    if mass:  # what is left at the end joins the last group that is complete
        groups[groups == group] = max(0, group - 1)
    return groups, np.bincount(groups, probabilities)


def sampler_follows(draw, probabilities: np.ndarray) -> None:
    """Assert that draws follow a law, and that the same test rejects one that is 30 % off.

    Args:
        draw: how many -> codes.
        probabilities: (codes,) their law; rare codes are put together.
    """
    groups, coarse = lumped(probabilities, 2e-3)
    wrong = tilted(coarse)
    codes = draw(sample_size(coarse, wrong))
    assert probabilities[codes].all()  # nothing impossible came
    counts = np.bincount(groups[codes], minlength=len(coarse))
    assert follows(counts, coarse)
    assert not follows(counts, wrong)
