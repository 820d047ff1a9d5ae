"""What every mechanism of the catalogue must show, whatever it is."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

from mechanisms import catalog
from mechanisms.frequency.rappor import Rappor
from mechanisms.frequency.several_messages import SeveralMessages
from mechanisms.randomness import SeededRandom
from mechanisms.rounding import exponential_bounds
from tests.oracles.statistics import follows, population, sample_size, tilted, zipf

LOCAL = [name for name, one in catalog.of_task("frequency").items() if "local" in one.models]

# Of these the reports of small domains would be too many to list.
SMALLER = {
    "rappor": {"bits": 4, "hashes": 2, "cohorts": 2},
    "shist": {"rows": 8},
    "treehist": {"width": 4, "sketches": 2},
}
# Unbiased over the reports and a public seed: their own tests draw many seeds.
SEEDED = set(SMALLER)

SMALL = [
    (name, epsilon, domain_size)
    for name in LOCAL
    for epsilon, domain_size in [(0.1, 2), (1.0, 10), (2.5, 7), (6.0, 8)]
]


def build(name: str, **parameters):
    """A mechanism of the catalogue, small enough to list what it may send."""
    return catalog.build(name, **parameters, **SMALLER.get(name, {}))


@pytest.fixture(params=SMALL, ids=lambda case: "-".join(map(str, case)))
def mechanism(request):
    name, epsilon, domain_size = request.param
    return build(name, epsilon=epsilon, domain_size=domain_size)


def decoded(mechanism) -> np.ndarray:
    """(outcomes, d) the estimate from each report alone."""
    if isinstance(mechanism, SeveralMessages):
        counts = [mechanism.count(np.array(report, np.uint64)) for report in mechanism.reports]
    else:
        counts = np.eye(mechanism.codes, dtype=np.int64)
    return np.array([mechanism.estimate(row, 1) for row in counts])


def exact(mechanism, cell) -> tuple[list[int], int]:
    numerators, denominator = mechanism.weights(cell)
    return [int(x) for x in numerators], denominator


def test_channel_is_a_distribution(mechanism):
    for cell in range(mechanism.inputs):
        numerators, denominator = exact(mechanism, cell)
        assert len(numerators) == mechanism.outcomes
        assert sum(numerators) == denominator
        np.testing.assert_allclose(mechanism.channel(cell).sum(), 1, rtol=1e-12)


def test_privacy_holds_exactly_for_every_pair_of_inputs(mechanism):
    claim = mechanism.guarantee
    assert claim.model == "local"
    largest, _ = exponential_bounds(claim.epsilon)  # a rational below e^epsilon
    channels = [exact(mechanism, cell)[0] for cell in range(mechanism.inputs)]
    denominators = {exact(mechanism, cell)[1] for cell in range(mechanism.inputs)}
    assert len(denominators) == 1  # so that numerators compare
    for p in channels:
        for q in channels:
            excess = sum(max(a - largest * b, Fraction(0)) for a, b in zip(p, q, strict=True))
            assert excess <= claim.delta * next(iter(denominators))


def test_privacy_is_not_wasted(mechanism):
    """The worst ratio is within a part in a million of the claim: accuracy is not given away."""
    if isinstance(mechanism, Rappor):
        return  # its claim is for filters without a bit in common, which two values need not have
    channels = [mechanism.channel(cell) for cell in range(mechanism.inputs)]
    worst = max(float((p / q).max()) for p in channels for q in channels)
    assert math.log(worst) > mechanism.guarantee.epsilon * (1 - 1e-6)


def test_declared_pairs_stand_for_all_pairs(mechanism):
    def loss(pair):
        p, q = (exact(mechanism, cell)[0] for cell in pair)
        return sorted(zip(p, q, strict=True))

    declared = {tuple(loss(pair)) for pair in mechanism.pairs()}
    for x in range(mechanism.inputs):
        for y in range(mechanism.inputs):
            assert x == y or tuple(loss((x, y))) in declared


def together(law: np.ndarray) -> np.ndarray:
    """(outcomes,) groups of outcomes: sets of messages that hardly ever come share one."""
    if law.size <= 64:
        return np.arange(law.size)
    order = np.argsort(law)
    group = np.empty(law.size, np.int64)
    group[order] = np.floor(np.cumsum(law[order]) * 200)  # of at least half a percent, but one
    return np.unique(group, return_inverse=True)[1]


def test_sampler_follows_its_channel_and_no_other(mechanism):
    for cell in {0, 1, mechanism.inputs - 1}:
        whole = mechanism.channel(cell)
        group = together(whole)
        law = np.bincount(group, whole)
        wrong = tilted(law)
        n = sample_size(law, wrong)
        counts = np.bincount(group, mechanism.tally(cell, n, SeededRandom(1000 + cell)))
        assert follows(counts, law)
        assert not follows(counts, wrong)


def test_one_report_is_unbiased_with_the_closed_form_variance(mechanism):
    """From the channel, not from samples: exact up to rounding."""
    if getattr(mechanism, "public_seed", False):
        return  # over one seed alone it is biased by design, which its own tests measure
    estimates = decoded(mechanism)
    for cell in range(mechanism.inputs):
        law = mechanism.channel(cell)
        mean = law @ estimates
        variance = law @ estimates**2 - mean**2
        holder = np.arange(mechanism.inputs) == cell
        scale = np.abs(estimates).max()
        np.testing.assert_allclose(mean, holder, atol=1e-12 * scale)
        expected = np.where(holder, mechanism.variance(1.0, 1), mechanism.variance(0.0, 1))
        np.testing.assert_allclose(variance, expected, rtol=1e-9, atol=1e-12 * scale**2)


def test_variance_is_linear_so_its_average_is_known(mechanism):
    frequencies = zipf(mechanism.inputs)
    average = mechanism.variance(frequencies, 1000).mean()
    if getattr(mechanism, "public_seed", False):  # not linear: collisions depend on who collides
        assert mechanism.average_variance(1000) >= average
        return
    np.testing.assert_allclose(mechanism.average_variance(1000), average, rtol=1e-12)


def test_any_split_counts_alike(mechanism):
    rng = SeededRandom(5)
    messages = mechanism.perturb(rng.integers(mechanism.inputs, 5000), rng)
    whole = mechanism.count(messages)
    assert whole.dtype == np.int64
    for pieces in (2, 7, 5000):
        parts = [mechanism.count(piece) for piece in np.array_split(messages, pieces)]
        np.testing.assert_array_equal(sum(parts), whole)
    assert mechanism.count([]).sum() == 0


def test_travels_as_its_fields(mechanism):
    assert mechanism.estimate(mechanism.count([0, 0]), 2).size == mechanism.inputs  # fills caches
    parcel = pickle.dumps(mechanism)
    again = pickle.loads(parcel)
    assert len(parcel) < 500
    assert again == mechanism
    assert again.codes == mechanism.codes


@pytest.mark.parametrize(
    "cells",
    [[-1], [10**9], np.array([0.5]), np.array(["a"]), np.array([[0]]), np.array([np.nan])],
    ids=["negative", "too large", "float", "text", "matrix", "nan"],
)
def test_cells_out_of_range_are_refused_without_being_quoted(mechanism, cells):
    with pytest.raises(ValueError, match="cells") as caught:
        mechanism.perturb(cells, SeededRandom(1))
    assert "1000000000" not in str(caught.value)


def test_impossible_messages_are_refused_and_told_apart(mechanism):
    forged = np.array([0, mechanism.codes, 2**64 - 1], np.uint64)
    assert mechanism.valid(forged).tolist() == [True, False, False]
    with pytest.raises(ValueError, match="2 of 3 messages"):
        mechanism.count(forged)
    for forged in ([1.5], [-1], ["a"], [math.nan]):
        with pytest.raises(ValueError, match="messages"):
            mechanism.count(forged)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, -math.inf, 1e-30, "1", None])
@pytest.mark.parametrize("name", LOCAL)
def test_epsilon_that_means_nothing_is_refused(name, epsilon):
    with pytest.raises(ValueError, match="epsilon"):
        catalog.build(name, epsilon=epsilon, domain_size=10)


@pytest.mark.parametrize("size", [10.5, 10.0, "10", None, 1, 0, -3])
@pytest.mark.parametrize("name", LOCAL)
def test_a_domain_that_is_no_number_of_values_is_refused(name, size):
    with pytest.raises(ValueError, match="domain_size"):
        catalog.build(name, epsilon=1.0, domain_size=size)


@pytest.mark.parametrize("name", LOCAL)
def test_an_epsilon_beyond_64_bits_is_still_met(name):
    mechanism = build(name, epsilon=700.0, domain_size=5)
    laws = [exact(mechanism, cell)[0] for cell in range(5)]
    worst = max(Fraction(a, b) for p in laws for q in laws for a, b in zip(p, q, strict=True))
    assert worst <= exponential_bounds(700.0)[0]


def drawn(mechanism, cells, seed: int) -> np.ndarray:
    """What a population's reports are counted to; its long reports only in their sums."""
    if mechanism.messages > 1:
        return mechanism.simulate(
            np.bincount(cells, minlength=mechanism.inputs), SeededRandom(seed)
        )
    return mechanism.count(mechanism.perturb(cells, SeededRandom(seed)))


@pytest.mark.parametrize("name", [name for name in LOCAL if name not in SEEDED])
def test_measured_error_is_the_predicted_one(name):
    """30 runs over 600 bins: the ratio's standard deviation is about 1 %, so 10 % is 9 of them."""
    n, d = 600_000, 600
    mechanism = catalog.build(name, epsilon=2.0, domain_size=d)
    frequencies = zipf(d)
    expected = mechanism.variance(frequencies, n).mean()
    cells = population(frequencies, n)
    truth = np.bincount(cells, minlength=d) / n
    errors = []
    for run in range(30):
        counts = drawn(mechanism, cells, run)
        errors.append(np.mean((mechanism.estimate(counts, n) - truth) ** 2))
    assert 0.9 < np.mean(errors) / expected < 1.1
