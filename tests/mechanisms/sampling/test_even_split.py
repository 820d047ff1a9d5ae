"""Balls into urns at once: the law is that of an urn drawn for each ball."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mechanisms.randomness import SeededRandom
from mechanisms.sampling.even_split import even_split
from tests.oracles.statistics import follows, sample_size, tilted


@pytest.mark.parametrize(("balls", "urns"), [(3, 3), (5, 2), (2, 5), (66, 2)])
def test_counts_are_multinomial(balls, urns):
    """Of every way to fall, against the law; each colour is one draw, for colours are alike."""
    ways = [way for way in np.ndindex(*[balls + 1] * (urns - 1)) if sum(way) <= balls]
    full = [(*way, balls - sum(way)) for way in ways]
    many = math.factorial(balls)
    law = np.array([many // math.prod(map(math.factorial, way)) / urns**balls for way in full])
    # Of the rarest ways together: a sample that told each apart would be without end.
    rare = law < 1e-3
    place = {way: i for i, way in enumerate(full)}
    merged = np.append(law[~rare], law[rare].sum()) if rare.any() else law
    to = np.cumsum(~rare) - 1
    to[rare] = (~rare).sum()
    runs = sample_size(merged, tilted(merged))
    split = even_split(np.full(runs, balls), urns, SeededRandom(7))
    found = np.bincount(
        [to[place[way]] for way in map(tuple, split.T.tolist())], minlength=merged.size
    )
    assert follows(found, merged)


def test_urns_and_colours_are_independent():
    """Two colours of one ball each: all pairs of urns are as likely."""
    law = np.full(9, 1 / 9)
    runs, rng = sample_size(law, tilted(law)), SeededRandom(8)
    first, second = even_split(np.ones(2 * runs, np.int64), 3, rng).argmax(axis=0).reshape(2, runs)
    assert follows(np.bincount(3 * first + second, minlength=9), law)


@pytest.mark.parametrize("urns", [1, 2, 3, 64, 152, 256])
def test_no_ball_is_lost(urns):
    counts = np.array([0, 1, 63, 64, 65, 0, 100_000, 0])
    split = even_split(counts, urns, SeededRandom(urns))
    assert split.shape == (urns, counts.size)
    assert (split.sum(axis=0) == counts).all()
    assert split.min() >= 0


def test_nothing_to_throw_and_nowhere_to_throw_it():
    assert even_split(np.zeros(3, np.int64), 4, SeededRandom(1)).tolist() == [[0] * 3] * 4
    assert even_split(np.empty(0, np.int64), 4, SeededRandom(1)).shape == (4, 0)
    with pytest.raises(ValueError, match="at least 1 urn"):
        even_split(np.ones(1, np.int64), 0, SeededRandom(1))
