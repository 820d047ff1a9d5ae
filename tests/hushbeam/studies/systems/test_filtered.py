"""A filter among dummies: its price by enumeration, what passes it, and with what error."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest

from hushbeam.studies.systems.augmented_systems import best_design
from hushbeam.studies.systems.dummy_laws import ThinnedLaw
from hushbeam.studies.systems.filtered import ALPHA, Filtered
from mechanisms.frequency.task import FrequencyTask
from mechanisms.privacy.two_bins import two_bins_delta
from mechanisms.randomness import SeededRandom
from mechanisms.sampling.integer_noise import IntegerNoise
from mechanisms.targets.rules import Target

N, D = 20_000, 100_000
HASHES = (0, 1, 0)  # of three values
SMALL = Filtered(
    1.0, 0.1, 2, 3, 1.0,
    parts=ThinnedLaw(1.0, IntegerNoise(0, np.array([0.1, 0.3, 0.4, 0.2]))),
    buckets=2,
    filters=ThinnedLaw(1.0, IntegerNoise(0, np.array([0.2, 0.5, 0.3]))),
)  # fmt: skip


def of(epsilon: float = 1.0, n: int = N, d: int = D) -> Filtered:
    mechanism = best_design(Target("shuffle", epsilon, 1e-6, n, FrequencyTask(d)), "fme").mechanism
    assert isinstance(mechanism, Filtered)
    return mechanism


def seen(batch: tuple[int, ...], hidden_nulls: bool) -> Counter[tuple[int, ...]]:
    """The law of all that a collector sees of a batch, round by round; threshold 2."""
    hashes = [sum(HASHES[value] == cell for value in batch) for cell in range(2)]
    law: Counter[tuple[int, ...]] = Counter()
    first, second = SMALL.filters.law.pmf, SMALL.parts.law.pmf
    for dummies in product(range(first.size), repeat=2):
        shown = tuple(count + more for count, more in zip(hashes, dummies, strict=True))
        passed = [value for value in range(3) if shown[HASHES[value]] >= 2]
        counts = [batch.count(value) for value in passed]
        # Whatever did not pass comes back as a null, and so does every dummy of a hash.
        nulls = sum(shown) - sum(counts)
        drawn = [range(second.size)] * len(passed) + [range(second.size if hidden_nulls else 1)]
        for extra in product(*drawn):
            chances = [*first[list(dummies)], *second[list(extra[:-1])]]
            chances += [second[extra[-1]]] if hidden_nulls else []
            noisy = [count + more for count, more in zip([*counts, nulls], extra, strict=True)]
            law[(*shown, *noisy)] += math.prod(chances)
    return law


def divergence(epsilon: float, hidden_nulls: bool) -> float:
    """The greatest over all pairs of batches of two users that differ in one."""
    laws = {batch: seen(batch, hidden_nulls) for batch in product(range(3), repeat=2)}
    return max(
        sum(
            max(chance - math.exp(epsilon) * laws[other, rest][view], 0)
            for view, chance in laws[one, rest].items()
        )
        for one, other, rest in product(range(3), repeat=3)
    )


def test_two_rounds_cost_no_more_than_two_levels_of_counters() -> None:
    law = SMALL.bin_law(2)
    for epsilon in (0.2, 0.5, 1.0, 2.0):
        price = two_bins_delta(law, law, epsilon)
        exact = divergence(epsilon, hidden_nulls=True)
        assert 0.5 * price[0] < exact <= price[1]


def test_nulls_without_dummies_would_tell() -> None:
    """How many nulls come back says exactly how many users hold values that passed."""
    law, epsilon = SMALL.bin_law(2), 3.0
    assert divergence(epsilon, hidden_nulls=False) > two_bins_delta(law, law, epsilon)[1]


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_the_target_is_kept_and_little_is_wasted(epsilon: float) -> None:
    law = of(epsilon).bin_law(N)
    assert two_bins_delta(law, law, epsilon)[1] <= 1e-6
    assert two_bins_delta(law, law, 0.95 * epsilon)[0] > 1e-6


def test_what_passes_is_unbiased_and_what_does_not_is_nothing() -> None:
    mechanism, runs = of(n=2000, d=2000), 400
    assert mechanism.buckets < 2000
    holders = np.zeros(2000, np.int64)
    holders[:3] = 900, 900, 200
    rng = SeededRandom(5)
    shares = np.array([mechanism.release(holders, rng, 2000)[0] for _ in range(runs)])
    errors, variance = (shares - holders / 2000)[:, :3], mechanism.law.var() / 2000**2
    assert (shares[:, :3] != 0).all()
    # Six and a half standard errors, and a variance that is not 40 % off.
    assert (np.abs(errors.mean(axis=0)) < 6.5 * math.sqrt(variance / runs)).all()
    assert np.mean(errors**2, axis=0) == pytest.approx(np.full(3, variance), rel=0.4)
    # Values that nobody holds pass as their hash does, three of which are held as well: the count
    # of one of so many hashes is all but free of the others.
    passed = np.mean(shares[:, 3:] != 0)
    free = 1 - 3 / mechanism.buckets
    dummies = mechanism.filters.law
    rate = dummies.pmf[mechanism.threshold - int(dummies.first) :].sum()
    assert rate <= ALPHA
    # 400 runs of some 700 hashes: the standard error is 0.0004.
    assert passed == pytest.approx(1 - free * (1 - rate), abs=0.003)


def test_a_small_domain_is_refused() -> None:
    with pytest.raises(ValueError, match="it is for large domains"):
        of(n=600_000, d=600)
