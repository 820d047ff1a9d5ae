"""The public hash: incremental, uniform, and alike for everybody."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from mechanisms.heavy_hitters.prefix_hash import PrefixHash
from mechanisms.randomness import SeededRandom
from tests.oracles.statistics import follows, sample_size, tilted

LENGTHS = (2, 2, 3, 5, 5)
HASHED = PrefixHash(3, 1 << 10, LENGTHS, 7)


def some_codes(size: int) -> np.ndarray:
    return SeededRandom(size).integers(7, size * 5).reshape(size, 5).astype(np.uint16)


def test_a_group_looks_at_its_first_symbols_only() -> None:
    codes = some_codes(50)
    for group, length in enumerate(LENGTHS):
        groups = np.full(50, group)
        cut = codes.copy()
        cut[:, length:] = 6 - cut[:, length:]
        assert (HASHED.buckets(codes, groups) == HASHED.buckets(cut, groups)).all()
        cut[:, length - 1] = (cut[:, length - 1] + 1) % 7
        assert (HASHED.buckets(codes, groups) != HASHED.buckets(cut, groups)).mean() > 0.9


def test_hashes_are_made_of_parts() -> None:
    codes, groups = some_codes(40), np.array([3, 4])
    whole = np.stack([HASHED.buckets(codes, np.full(40, group)) for group in groups])
    first, second = HASHED.part(codes[:, :2], groups, 0), HASHED.part(codes[:, 2:], groups, 2)
    np.testing.assert_array_equal(first ^ second, whole)
    codes[:, 3:] = 0
    padded = np.stack([HASHED.buckets(codes, np.full(40, group)) for group in groups])
    ending = HASHED.ending(groups, 3)[:, None]
    np.testing.assert_array_equal(HASHED.part(codes[:, :3], groups, 0) ^ ending, padded)
    assert not HASHED.ending(groups, 5).any()


def test_buckets_are_uniform_and_pairs_independent_over_seeds() -> None:
    """The joint law of the buckets of two prefixes, and of one prefix in two groups."""
    codes = np.array([[1, 2], [1, 3]], np.uint16)
    law = np.full(16, 1 / 16)
    seeds = sample_size(law, tilted(law))
    pairs, groups = np.zeros(16, int), np.zeros(16, int)
    for seed in range(seeds):
        hashed = PrefixHash(seed, 4, (2, 2), 4)
        one, other = hashed.buckets(codes, np.array([0, 0])).tolist()
        pairs[4 * one + other] += 1
        groups[4 * one + int(hashed.buckets(codes[:1], np.array([1]))[0])] += 1
    assert follows(pairs, law)
    assert follows(groups, law)


def test_equal_seeds_give_equal_functions() -> None:
    again = pickle.loads(pickle.dumps(HASHED))
    assert len(pickle.dumps(HASHED)) < 300
    np.testing.assert_array_equal(again.tables, HASHED.tables)
    assert (PrefixHash(4, 1 << 10, LENGTHS, 7).tables != HASHED.tables).any()


@pytest.mark.parametrize("width", [0, 1, 3, 1000, 1 << 33])
def test_other_widths_are_refused(width: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        PrefixHash(1, width, (1,), 2)
