"""PrivUnit on a finite code: how good, how unbiased, and what one seed costs."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from mechanisms.privacy.audit import audit
from mechanisms.privacy.divergence import tight_epsilon
from mechanisms.randomness import SeededRandom
from mechanisms.vector.cap_law import CapLaw, largest_projections
from mechanisms.vector.directions import PublicDirections
from mechanisms.vector.privunit import PrivUnit, privunit
from mechanisms.vector.rows import shortened
from tests.oracles import mean as oracles_mean
from tests.oracles import vector as oracle

Z = 6.5  # standard errors that nothing is off by


# ---- the sphere ----------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", oracles_mean.vectors("privunit"), ids=lambda e: str(e["params"]))
def test_reference_constants(entry):
    """The continuous mechanism, and how near 64 directions come to it."""
    epsilon, sphere = entry["params"]["eps"], entry["params"]["d"]
    cap = oracle.best_cap(epsilon, sphere)
    np.testing.assert_allclose(cap.length, entry["constants"]["m"], rtol=1e-9)
    # The optimum is flat: height and chance are determined to half as many digits.
    np.testing.assert_allclose(cap.gamma, entry["constants"]["gamma"], rtol=1e-6)
    np.testing.assert_allclose(cap.chance, entry["constants"]["p"], rtol=1e-6)
    best = entry["unit_vector_total_variance"]
    np.testing.assert_allclose(1 / cap.length**2 - 1, best, rtol=1e-9)
    finite = 1 / privunit(epsilon, sphere - 1, radius=1.0).length ** 2 - 1
    assert best < finite < 1.02 * best


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 6.0, 8.0])
def test_more_lines_come_nearer_to_the_continuous_cap(epsilon):
    limit = oracle.best_cap(epsilon, 101).length
    lengths = [PrivUnit(epsilon, 100, 1.0, lines=h, codebooks=1).length for h in (1, 8, 64, 512)]
    assert all(
        more > less * (1 - 1e-12) for less, more in pairwise(lengths)
    )  # equal but for rounding
    assert lengths[-1] < limit < 1.035 * lengths[-1]
    assert limit < 1.035 * privunit(epsilon, 100, radius=1.0).length


def test_order_statistics_in_three_dimensions_are_those_of_uniform_numbers():
    h = 9
    sums, squares = largest_projections(3, h)
    j = np.arange(h, 0, -1)  # the j-th of h uniform numbers has mean j / (h + 1)
    np.testing.assert_allclose(sums, np.cumsum(j / (h + 1)), rtol=1e-9)
    np.testing.assert_allclose(squares, np.cumsum(j * (j + 1) / ((h + 1) * (h + 2))), rtol=1e-9)


@pytest.mark.parametrize("sphere", [2, 5, 400, 100_000])
def test_all_lines_together_have_known_moments(sphere):
    sums, squares = largest_projections(sphere, 4)
    logs = math.lgamma(sphere / 2) - math.lgamma((sphere + 1) / 2)
    np.testing.assert_allclose(sums[-1], 4 * math.exp(logs) / math.sqrt(math.pi), rtol=1e-9)
    np.testing.assert_allclose(squares[-1], 4 / sphere, rtol=1e-9)


def test_directions_are_unit_vectors_without_a_preference():
    directions = PublicDirections(seed=3, length=5)
    rows = directions.rows(np.arange(40_000))
    np.testing.assert_allclose((rows**2).sum(axis=1), 1, rtol=1e-12)
    # E c = 0 and E c c' = I / 5, within what 40,000 of them allow.
    assert np.abs(rows.mean(axis=0)).max() < Z / math.sqrt(5 * 40_000)
    assert np.abs(rows.T @ rows / 40_000 - np.eye(5) / 5).max() < Z * 0.2 / math.sqrt(40_000)
    neighbours = (rows[1:] * rows[:-1]).sum(axis=1)
    assert abs(neighbours.mean()) < Z / math.sqrt(5 * 40_000)


def test_directions_are_the_same_everywhere_and_one_by_one():
    directions = PublicDirections(seed=3, length=5)
    rows = directions.rows([7, 0, 7])
    np.testing.assert_array_equal(rows[0], directions.rows([7])[0])
    np.testing.assert_array_equal(rows[0], rows[2])
    np.testing.assert_allclose(rows[0], oracle.direction(3, 5, 7), rtol=1e-9)
    np.testing.assert_allclose(rows[1], oracle.direction(3, 5, 0), rtol=1e-9)
    assert np.abs(rows - PublicDirections(4, 5).rows([7, 0, 7])).max() > 0.1


# ---- the mechanism -------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_any_code_is_private_exactly(epsilon, lines):
    mechanism = PrivUnit(epsilon, 4, radius=1.0, lines=lines, codebooks=2)
    assert audit(mechanism).holds
    assert epsilon * (1 - 1e-9) < tight_epsilon(mechanism) <= epsilon


def test_the_real_size_is_audited_too():
    for epsilon in (0.5, 1.0, 8.0):
        assert epsilon * (1 - 1e-9) < tight_epsilon(privunit(epsilon, 400)) <= epsilon


def test_every_draw_leads_where_the_weights_say():
    """Whatever the ranks, every integer below the total, one by one."""
    law = CapLaw(lines=4, size=2, inside=7, outside=3)
    draws = np.arange(law.total, dtype=np.uint64)
    for ranked in ([0, 2, 4, 6], [7, 1, 4, 3], [3, 6, 5, 0]):
        found = law.pick(draws, np.tile(ranked, (law.total, 1)))
        np.testing.assert_array_equal(np.bincount(found), law.weights(np.array(ranked[:2])))


def test_caps_are_numbered_each_once():
    law = CapLaw(lines=4, size=2, inside=7, outside=3)
    caps = {tuple(law.cap(number).tolist()) for number in range(law.caps)}
    assert len(caps) == law.caps == 24
    assert all(len({end // 2 for end in cap}) == 2 for cap in caps)


def test_a_row_is_reported_by_the_law_of_its_ranks():
    """The whole client against laws that are ranked and weighted by brute force."""
    mechanism = PrivUnit(2.0, 3, radius=2.0, lines=3, codebooks=2, seed=4)
    row = np.array([0.9, -0.4, 1.1])
    unit = np.append(row, math.sqrt(4 - row @ row)) / 2
    law = np.zeros(mechanism.codes)
    for book in range(2):
        lines = mechanism.directions.rows(book * 3 + np.arange(3))
        nearest = sorted(range(3), key=lambda i: -abs(lines[i] @ unit))[: mechanism.cap_size]
        part = np.full(6, mechanism.law.outside / mechanism.law.total / 2)
        for i in nearest:
            part[2 * i + (lines[i] @ unit < 0)] = mechanism.law.inside / mechanism.law.total / 2
        law[6 * book : 6 * book + 6] = part
    rng = SeededRandom(5)

    def draw(size):
        return mechanism.report(np.tile(row, (size, 1)), rng).astype(np.int64)

    oracles_mean.sampler_follows(draw, law)


CODE = PrivUnit(1.5, 3, radius=2.0, lines=4, codebooks=4000, seed=11)
ROWS = {
    "axis": np.array([1.9, 0.0, 0.0]),
    "diagonal": np.array([1.0, -1.0, 1.0]),
    "short": np.array([0.1, 0.0, -0.2]),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_over_the_seed_reports_are_unbiased_with_the_closed_form_variance(row):
    """From the exact laws of 4,000 codebooks, each of which is a seed of its own."""
    means, squares = oracle.ranked_means(CODE, row)
    errors = means.std(axis=0) / math.sqrt(CODE.codebooks)
    assert errors.max() < 0.05  # a length 30 % off would show by more than 10 of them
    assert (np.abs(means.mean(axis=0) - row) < Z * errors).all()
    variance = squares.mean(axis=0) - row**2
    spread = squares.std(axis=0) / math.sqrt(CODE.codebooks)
    assert (np.abs(variance - CODE.variance(row)) < Z * spread).all()
    assert spread.max() < 0.03 * variance.min()


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_what_one_seed_costs_is_bounded_and_not_by_far(row):
    means, _ = oracle.ranked_means(CODE, row)
    between = means.var(axis=0).mean() / CODE.codebooks
    assert 0.3 * CODE.seed_variance < between < 1.05 * CODE.seed_variance


def test_measured_error_is_the_predicted_one():
    """60 seeds, 20 coordinates: the ratio's standard deviation is 4 %; 30 % are more than 6."""
    rows = shortened(oracle.source_rows(300, 20, SeededRandom(1)), radius=2.2)
    errors, judged, rng = [], [], SeededRandom(2)
    for seed in range(60):
        mechanism = privunit(1.0, 20, radius=2.2, seed=seed)
        counts = mechanism.count(mechanism.report(rows, rng))
        errors.append(mechanism.estimate(counts) - rows.mean(axis=0))
        judged.append(mechanism.estimated_variance(counts).mean())
    predicted = (mechanism.variance(rows).sum(axis=0) / 300**2).mean()
    assert mechanism.seed_variance < 0.01 * predicted
    assert 0.7 < np.mean(np.square(errors)) / predicted < 1.3
    assert 0.97 < np.mean(judged) / predicted < 1.03
    assert np.abs(np.mean(errors, axis=0)).max() < Z * math.sqrt(predicted / 60)


def test_it_beats_sampled_coordinates_where_rows_are_short():
    """As at d = 400, epsilon = 1: 0.053 against 0.178 at n = 10^4, a million codes included."""
    mechanism = privunit(1.0, 400, radius=1.1 * math.sqrt(400 * 0.17298))
    assert 0.0525 < float(mechanism.variance(1 / 3)) / 10**4 < 0.0545
    assert mechanism.seed_variance < 0.001


def test_shortened_rows_are_admitted():
    rows = oracle.source_rows(100, 7, SeededRandom(1)) * 5
    short = shortened(rows, 1.5)
    lengths = np.linalg.norm(rows, axis=1)
    np.testing.assert_allclose(np.linalg.norm(short, axis=1), np.minimum(lengths, 1.5))
    mechanism = PrivUnit(1.0, 7, radius=1.5, lines=4, codebooks=8)
    assert mechanism.report(short, SeededRandom(1)).size == 100
    assert mechanism.report(np.zeros((3, 7)), SeededRandom(1)).size == 3
    with pytest.raises(ValueError, match="rows are longer than radius") as caught:
        mechanism.report(rows, SeededRandom(1))
    assert str(rows.max())[:5] not in str(caught.value)
    with pytest.raises(ValueError, match="radius must be"):
        shortened(rows, math.nan)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"radius": 0.0}, "radius must be a positive"),
        ({"radius": math.nan}, "radius must be a positive"),
        ({"radius": math.inf}, "radius must be a positive"),
        ({"lines": 0}, "lines must lie in"),
        ({"lines": 1 << 16}, "lines must lie in"),
        ({"lines": 2.0}, "lines must be an integer"),
        ({"codebooks": 0}, "codebooks must lie in 1 .. 262144"),
        ({"codebooks": 1 << 19}, "codebooks must lie in"),
        ({"seed": 1.5}, "seed must be an integer"),
    ],
)
def test_what_means_nothing_is_refused(parameters, match):
    with pytest.raises(ValueError, match=match):
        PrivUnit(**({"epsilon": 1.0, "dimension": 5, "radius": 1.0} | parameters))


def test_caps_that_are_none_are_refused():
    mechanism = PrivUnit(1.0, 3, 1.0, lines=3, codebooks=2)
    for bad in ([[0, 2]], [[0, 1, 2]], [[0, 2, 6]], [0, 2, 4]):
        with pytest.raises(ValueError, match="an end of each"):
            mechanism.perturb(bad, SeededRandom(1))
    assert mechanism.perturb([[5, 0, 3]], SeededRandom(1)).size == 1
    with pytest.raises(ValueError, match="value must lie in"):
        mechanism.variance(1.5)
