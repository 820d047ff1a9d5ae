"""Reports by levels: what one of them reveals, and what a shuffled batch does."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from mechanisms.algebra.rounding import exponential_bounds
from mechanisms.catalog import build
from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.frequency.projective_geometry import ProjectiveGeometry
from mechanisms.heavy_hitters.levels import Levels
from mechanisms.privacy.amplification import shuffled_delta, shuffled_epsilon
from mechanisms.privacy.blanket import delta_bounds
from mechanisms.privacy.divergence import tight_delta, tight_epsilon
from mechanisms.randomness import SeededRandom
from tests.oracles.privacy import Tabulated, clones_epsilon, exact_shuffled_delta, value_weights
from tests.oracles.statistics import follows, sample_size, tilted

ORACLES = [
    k_ary(1.0, 4),
    LinearHash(1.5, 8, 2),
    LinearHash(2.0, 8, 3),
    ProjectiveGeometry(1.0, 7, 2),
]
SHARES = (1, 3, 2)


@pytest.fixture(params=ORACLES, ids=lambda oracle: f"{type(oracle).__name__}-{oracle.hash_range}")
def levels(request) -> Levels:
    return Levels(request.param, SHARES)


def test_cells_are_groups_times_buckets(levels) -> None:
    d, codes = levels.oracle.inputs, levels.oracle.codes
    for group, bucket in itertools.product(range(3), range(d)):
        law, denominator = levels.weights(group * d + bucket)
        assert sum(map(int, law)) == denominator
        alone, same = levels.oracle.weights(bucket)
        assert denominator == same
        blocks = law.reshape(3, codes)
        np.testing.assert_array_equal(blocks[group], alone)
        assert not np.delete(blocks, group, axis=0).any()


def test_privacy_holds_exactly_for_any_two_values(levels) -> None:
    """Whatever buckets two values have in the groups: alike in some, different in others."""
    largest, _ = exponential_bounds(levels.guarantee.epsilon)
    rng = SeededRandom(1)
    tuples = rng.integers(levels.oracle.inputs, 90).reshape(30, 3).tolist()
    for one, other in itertools.pairwise([*tuples, tuples[0]]):
        p, total = value_weights(levels, one)
        q, same = value_weights(levels, other)
        assert total == same == sum(p.tolist())
        assert all(Fraction(a) <= largest * b for a, b in zip(p.tolist(), q.tolist(), strict=True))


def test_the_audit_finds_the_loss_of_the_oracle(levels) -> None:
    alone = tight_epsilon(levels.oracle)
    assert tight_epsilon(levels) == alone <= levels.guarantee.epsilon
    assert alone > levels.guarantee.epsilon * (1 - 1e-6)
    assert tight_delta(levels, 0.3) == tight_delta(levels.oracle, 0.3) > 0


def test_kinds_in_closed_form_are_those_of_the_weights(levels) -> None:
    d = levels.oracle.inputs
    kinds, denominators = levels.kinds(d + 1, d + 2)
    listed, same = super(Levels, levels).kinds(d + 1, d + 2)
    assert denominators == same
    listed = {kind: n for kind, n in listed.items() if kind != (0, 0)}
    assert {kind: n for kind, n in kinds.items() if kind != (0, 0)} == listed
    apart, _ = levels.kinds(1, d + 1)  # of two groups: who sees a report knows which
    assert all(a == 0 or b == 0 for a, b in apart)


# ---- shuffled ------------------------------------------------------------------------------------


class Values:
    """The channel of values, as far as an enumeration needs it: a row for each tuple of buckets."""

    def __init__(self, levels: Levels) -> None:
        tuples = itertools.product(range(levels.oracle.inputs), repeat=levels.groups)
        laws = (value_weights(levels, buckets) for buckets in tuples)
        self.rows = [np.array([float(Fraction(w, d)) for w in law.tolist()]) for law, d in laws]
        self.inputs = len(self.rows)

    def channel(self, cell: int) -> np.ndarray:
        return self.rows[cell]


@pytest.mark.parametrize(
    ("oracle", "shares"),
    [
        (k_ary(1.0, 2), (1, 1)),
        (k_ary(2.0, 3), (1, 1)),
        (k_ary(1.5, 2), (1, 2, 1)),
        (LinearHash(1.5, 3, 2), (2, 1)),
        (ProjectiveGeometry(1.0, 3, 2), (1, 1)),
    ],
)
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.7])
def test_a_shuffled_batch_loses_what_the_oracles_would(oracle, shares, epsilon) -> None:
    """All neighbouring batches of three values are enumerated, those that collide included."""
    n = 3
    exact = exact_shuffled_delta(Values(Levels(oracle, shares)), n, epsilon)
    lower, upper = shuffled_delta(Levels(oracle, shares), n, epsilon)
    assert exact <= upper * (1 + 1e-10)
    # Of one bit more is known than the blanket, but not of one bit beside the group's name.
    assert (lower, upper) == delta_bounds(oracle.shuffle_laws(), n, epsilon)
    # All n reports hide a user: those of the own group alone would hide it less.
    assert upper < tight_delta(oracle, epsilon)


@pytest.mark.parametrize("oracle", [k_ary(1.2, 3), LinearHash(1.5, 4, 2)])
def test_values_that_collide_somewhere_are_harder_to_tell_apart(oracle) -> None:
    """The convex order behind the claim: the blanket's bound, evaluated by enumeration."""
    n, epsilon = 3, 0.2
    odds = float(np.exp(epsilon))
    table = np.array([oracle.channel(bucket) for bucket in range(oracle.inputs)])
    blanket = table.min(axis=0)

    def bound(pairs: list[tuple[int, int]]) -> float:
        """E[(L_1 + L_2 + L_3)_+] / n over draws from the blanket, or silence."""
        first = np.concatenate([table[a] for a, _ in pairs]) / len(pairs)
        second = np.concatenate([table[b] for _, b in pairs]) / len(pairs)
        others = np.tile(blanket, len(pairs)) / len(pairs)
        loss = np.append((first - odds * second) / others, 0.0)
        law = np.append(others, 1 - others.sum())
        sums = loss[:, None, None] + loss[:, None] + loss
        chance = law[:, None, None] * law[:, None] * law
        return float((chance * np.maximum(sums, 0)).sum() / n)

    apart, half, same = bound([(0, 1)] * 2), bound([(0, 1), (2, 2)]), bound([(2, 2)] * 2)
    assert apart == pytest.approx(bound([(0, 1)]), rel=1e-12)
    assert same < half < apart


class Opaque(Tabulated, FrequencyOracle):
    """An oracle without shuffle laws of its own."""

    domain_size = 2
    keep, other, contrast = 0.75, 0.25, 0.5

    def support(self, counts):
        raise NotImplementedError


def test_of_other_oracles_nothing_is_used_but_epsilon() -> None:
    levels = Levels(Opaque(((3, 1), (1, 3))), (1, 1))
    assert shuffled_epsilon(levels, 1000, 1e-6)[1] == clones_epsilon(
        tight_epsilon(levels.oracle), 1000, 1e-6
    )


# ---- client and collector ------------------------------------------------------------------------


def test_the_sampler_follows_the_law_of_a_value_and_no_other(levels) -> None:
    """The whole client: the group drawn, then the bucket that it looks at perturbed."""
    buckets = np.array([1, 0, 2])
    numerators, denominator = value_weights(levels, buckets.tolist())
    law = np.array([float(Fraction(int(w), denominator)) for w in numerators])
    n = sample_size(law, tilted(law))
    rng = SeededRandom(5)
    groups = levels.draw(n, rng)
    counts = levels.count(levels.perturb(groups * levels.oracle.inputs + buckets[groups], rng))
    assert follows(counts, law)
    assert not follows(counts, tilted(law))


def test_estimates_are_those_of_each_groups_oracle(levels) -> None:
    rng, d = SeededRandom(6), levels.oracle.inputs
    cells = rng.integers(levels.inputs - d, 5000)  # nobody is in the last group
    counts = levels.count(levels.perturb(cells, rng))
    found = levels.estimate(counts).reshape(3, d)
    for group in range(2):
        own = levels.divided(counts)[group]
        np.testing.assert_array_equal(found[group], levels.oracle.estimate(own))
    assert not found[2].any()


@pytest.mark.parametrize("shares", [(), (0,), (1, -1), (2, 0)])
def test_shares_that_mean_nothing_are_refused(shares) -> None:
    with pytest.raises(ValueError, match="shares"):
        Levels(k_ary(1.0, 4), shares)


@pytest.mark.parametrize(
    ("name", "match"), [("oue", "one message"), ("shist", "hash its values itself")]
)
def test_oracles_that_cannot_be_run_by_levels_are_refused(name, match) -> None:
    with pytest.raises(ValueError, match=match):
        Levels(build(name, epsilon=1.0, domain_size=8), (1, 1))


def test_more_counters_than_can_be_held_are_refused() -> None:
    with pytest.raises(ValueError, match="counters"):
        Levels(k_ary(1.0, 1 << 20), (1,) * 65)


@pytest.mark.parametrize("cells", [[-1], [12], np.array([0.5])])
def test_cells_out_of_range_are_refused(cells) -> None:
    with pytest.raises(ValueError, match="cells"):
        Levels(k_ary(1.0, 4), (1, 1, 1)).perturb(cells, SeededRandom(1))
