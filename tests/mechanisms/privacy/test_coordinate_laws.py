"""One law for all pairs of rows: it exceeds every pair's, and brute force never exceeds it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mechanisms import catalog
from mechanisms.frequency.hashed_responses import k_ary, optimal_local
from mechanisms.frequency.projective_geometry import ProjectiveGeometry
from mechanisms.frequency.subset_selection import SubsetSelection
from mechanisms.mean.hybrid import hm
from mechanisms.mean.optimal import Optimal
from mechanisms.mean.two_point import duchi
from mechanisms.papers.laplace_vector import laplace_vector
from mechanisms.papers.two_points import ndm
from mechanisms.privacy.amplification import laws_of, shuffled_delta, shuffled_epsilon
from mechanisms.privacy.blanket import dominated_delta, epsilon_bounds
from mechanisms.privacy.coordinate_laws import (
    Blanket,
    bounded_law,
    common_blanket,
    mixed_law,
    sampled_laws,
)
from mechanisms.privacy.pair_law import PairLaw
from mechanisms.vector.multi import multi_hm, multi_optimal
from mechanisms.vector.sampled import SampledCoordinates
from tests.oracles.coordinates import excess, law_excess, least_slack, levels
from tests.oracles.privacy import Tabulated, clones_epsilon, exact_shuffled_delta

PURE = [n for n in catalog.of_task("mean") if not n.startswith("gaussian") and n not in ("ndm",)]
LOSSES = (0.0, 0.05, 0.4, 1.0, 1.9, 2.5)
ORACLES = {
    "grr": k_ary(2.0, 5),
    "olh": optimal_local(1.0, 7, hash_range=3),
    "projective": ProjectiveGeometry(1.0, 6, 2),
    "subset": SubsetSelection(1.0, 5),
}


def channel_of(mechanism) -> np.ndarray:
    return np.array([mechanism.channel(cell) for cell in range(mechanism.inputs)])


# ---- the law exceeds every pair's in convex order ------------------------------------------------


@pytest.mark.parametrize("name", PURE)
@pytest.mark.parametrize("epsilon", [0.7, 4.0])
def test_no_pair_of_values_of_a_scalar_mechanism_exceeds_the_law(name, epsilon):
    mechanism = catalog.build(name, epsilon=epsilon, cells=6)
    law = bounded_law(common_blanket(laws_of(mechanism)))
    channel = channel_of(mechanism)
    for loss in LOSSES:
        assert least_slack(channel, law, loss) > -1e-10 * math.exp(epsilon + loss)


@pytest.mark.parametrize("mechanism", ORACLES.values(), ids=ORACLES)
def test_no_pair_of_values_of_a_frequency_oracle_exceeds_the_law(mechanism):
    law = bounded_law(common_blanket(laws_of(mechanism)))
    for loss in LOSSES:
        assert least_slack(channel_of(mechanism), law, loss) > -1e-10


def test_no_pair_of_any_channel_exceeds_the_law():
    draws = np.random.default_rng(7)
    for _ in range(40):
        channel = draws.dirichlet(np.ones(6), size=4) + draws.uniform(0.01, 0.3)
        channel /= channel.sum(axis=1, keepdims=True)
        least = channel.min(axis=0)
        blanket = Blanket(float(least.sum()), float((channel / least).max()) * (1 + 1e-12))
        for loss in LOSSES:
            assert least_slack(channel, bounded_law(blanket), loss) > -1e-10


def test_a_law_with_less_alone_is_exceeded():
    """The check above has power: 2 % less chance of one high coin alone is found."""
    mechanism = hm(2.0, cells=6)
    mass, ratio = common_blanket(laws_of(mechanism))
    high = (1 - mass) / (ratio - 1)
    alone = 0.98 * min(high, mass - high)
    kept = np.array([alone, alone, high - alone, mass - high - alone])
    first, second = kept * [ratio, 1, ratio, 1], kept * [1, ratio, ratio, 1]
    law = PairLaw(np.append(first, 0), np.append(second, 0), np.append(kept, 1 - mass))
    assert law.first.sum() == pytest.approx(1) == law.second.sum()
    assert least_slack(channel_of(mechanism), law, 0.4) < -1e-3


@pytest.mark.parametrize("blanket", [Blanket(0.5, 4.0), Blanket(0.9, 1.2), Blanket(1 / 3, 3.0)])
def test_the_law_is_of_two_distributions_under_one_blanket(blanket):
    law = bounded_law(blanket)
    for part in (law.first, law.second, law.others):
        assert part.min() >= 0
        assert part.sum() == pytest.approx(1, rel=1e-12)
    sent = law.first > 0
    assert (law.first[sent] / law.others[sent]).max() <= blanket.ratio * (1 + 1e-12)
    assert (law.first[sent] / law.others[sent]).min() >= 1 - 1e-12
    assert law.others[sent].sum() <= blanket.mass * (1 + 1e-12)


def test_a_mixture_of_pairs_is_exceeded_too():
    """Rows that differ in one coordinate, agree in another and differ the other way in a third."""
    mechanism = Optimal(2.0, cells=4)
    channel = channel_of(mechanism)
    law = bounded_law(common_blanket(laws_of(mechanism)))
    at = levels(law, 0.5)
    mixed = np.mean(
        [
            excess(channel[a], channel[b], channel.min(axis=0), 0.5, at)
            for a, b in [(0, 4), (2, 2), (4, 0), (1, 3)]
        ],
        axis=0,
    )
    assert (law_excess(law, 0.5, at) - mixed).min() > -1e-10


# ---- the scalar's own bound, whatever the dimension ----------------------------------------------


@pytest.mark.verify
@pytest.mark.parametrize("dimension", [7, 100_000])
@pytest.mark.parametrize(
    ("build", "scalar"), [(multi_hm, hm(4.0, 64)), (multi_optimal, Optimal(4.0, 64))]
)
def test_one_coordinate_is_hidden_as_well_as_one_number(build, scalar, dimension):
    mechanism = build(4.0, dimension, cells=64, sampled=1)
    lower, upper = shuffled_epsilon(mechanism, 100_000, 1e-6)
    own_lower, own_upper = shuffled_epsilon(scalar, 100_000, 1e-6)
    assert lower == pytest.approx(own_lower, rel=1e-6)
    assert upper == pytest.approx(own_upper, rel=1e-4)
    assert lower <= upper < 1.1 * lower


def test_several_coordinates_are_hidden_better_than_by_clones():
    for mechanism in (multi_hm(5.0, 10, cells=64, sampled=2), multi_optimal(7.5, 10, sampled=3)):
        _, upper = shuffled_epsilon(mechanism, 100_000, 1e-6)
        assert upper < 0.75 * clones_epsilon(mechanism.epsilon, 100_000, 1e-6)


def test_what_has_too_many_codes_to_tabulate_gets_the_clones():
    mechanism = laplace_vector(2.0, 3)
    _, upper = shuffled_epsilon(mechanism, 10_000, 1e-6)
    assert upper == pytest.approx(clones_epsilon(2.0, 10_000, 1e-6), rel=1e-3)


# ---- brute force ---------------------------------------------------------------------------------

TINY = {
    "duchi": SampledCoordinates(1.5, 2, 1, duchi(1.5, cells=1)),
    "duchi-grid": SampledCoordinates(1.5, 2, 1, duchi(1.5, cells=2)),
    "hm": multi_hm(2.0, 2, cells=1),
    "hm-3": multi_hm(1.0, 3, cells=1),
    "pm": SampledCoordinates(1.0, 2, 1, catalog.build("pm", epsilon=1.0, cells=2)),
    "both": SampledCoordinates(2.0, 2, 2, duchi(1.0, cells=1)),
    "delta": SampledCoordinates(1.0, 2, 1, ndm(1.0, 0.05, cells=1)),
    "both-delta": SampledCoordinates(1.0, 2, 2, ndm(0.5, 0.05, cells=1)),
    "two-of-three": SampledCoordinates(2.0, 3, 2, duchi(1.0, cells=1)),
}


@pytest.mark.parametrize("mechanism", TINY.values(), ids=TINY)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_neighbouring_batches_differ_by_more(mechanism, n):
    if n == 3 and mechanism.outcomes > 8:
        n = 2  # three such reports have too many multisets to list
    for share in (0.05, 0.4, 0.9, 1.02):
        epsilon = share * mechanism.epsilon
        exact = exact_shuffled_delta(mechanism, n, epsilon)
        lower, upper = shuffled_delta(mechanism, n, epsilon)
        assert lower * (1 - 1e-9) <= exact <= upper * (1 + 1e-9)
        if mechanism.sampled == 1:
            assert exact <= upper <= 1.6 * exact + 1e-4  # and it is not idle


def test_brute_force_finds_a_law_that_is_too_small():
    mechanism = TINY["duchi"]
    law = mechanism.shuffle_laws().dominating[0]
    closer = PairLaw(
        0.9 * law.first + 0.1 * law.second, 0.9 * law.second + 0.1 * law.first, law.others
    )
    assert exact_shuffled_delta(mechanism, 3, 0.3) > 1.1 * dominated_delta(closer, 3, 0.3)


# ---- attributes of several kinds -----------------------------------------------------------------


def test_a_mixture_lies_between_its_parts():
    weak, strong = duchi(1.0, cells=1), k_ary(2.0, 3)
    mixed = sampled_laws({weak: 3, strong: 2}, 1)
    found = [epsilon_bounds(x, 1000, 1e-5)[1] for x in (laws_of(weak), mixed, laws_of(strong))]
    assert found[0] < found[1] < found[2]
    assert mixed.epsilon == pytest.approx(2.0)


def test_mixed_laws_keep_the_parts_in_proportion():
    law = mixed_law([bounded_law(Blanket(0.5, 4.0)), bounded_law(Blanket(0.8, 2.0))], [0.25, 0.75])
    assert law.first.sum() == pytest.approx(1)
    assert law.others.sum() == pytest.approx(1)
    assert law.others[law.first > 0].sum() == pytest.approx(0.25 * 0.5 + 0.75 * 0.8)


def test_sets_of_attributes_are_mixed_by_their_number():
    """Two of {duchi, duchi, grr}: one set of three has duchi twice."""
    a, b = duchi(1.0, cells=1), k_ary(1.0, 3)
    laws = sampled_laws({a: 2, b: 1}, 2)
    one, other = (common_blanket(laws_of(x)) for x in (a, b))
    covered = (one.mass**2 + 2 * one.mass * other.mass) / 3
    law = laws.dominating[0]
    assert law.others[law.first > 0].sum() == pytest.approx(covered)
    assert laws.attained == ()
    assert laws.epsilon == pytest.approx(2.0)


# ---- what cannot be ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "blanket", [(0.0, 2.0), (1.1, 2.0), (0.2, 4.0), (math.nan, 2.0), (0.5, math.nan)]
)
def test_a_blanket_that_no_randomiser_has_is_refused(blanket):
    with pytest.raises(ValueError, match="no randomiser has a blanket"):
        bounded_law(Blanket(*blanket))


def test_a_report_without_a_finite_epsilon_is_refused():
    with pytest.raises(ValueError, match="no epsilon up to 700"):
        sampled_laws({Tabulated(((1, 1, 0), (0, 1, 1))): 5}, 1)
