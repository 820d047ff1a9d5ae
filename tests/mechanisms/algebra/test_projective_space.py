"""The points of the projective space, and counts on its hyperplanes, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.algebra.finite_field import FiniteField
from mechanisms.algebra.linear_forms import LinearForms
from mechanisms.algebra.projective_space import ProjectiveSpace
from mechanisms.randomness import SeededRandom
from tests.oracles.geometry import code_vectors, incidences, inner_product, inverses, value_vectors

SPACES = [
    (2, 1), (2, 2), (2, 3), (2, 7), (3, 2), (3, 3), (3, 5), (4, 2), (4, 3), (4, 5), (5, 2), (5, 4),
    (7, 3), (8, 2), (8, 4), (11, 2), (13, 3), (16, 3), (32, 2), (61, 2), (64, 2), (509, 2),
]  # fmt: skip


def space(q: int, t: int) -> ProjectiveSpace:
    return ProjectiveSpace(FiniteField(q), t)


def normalised(vectors: np.ndarray, field: FiniteField) -> set[tuple[int, ...]]:
    """One vector of each class: the first nonzero digit is made 1."""
    first = vectors[np.arange(len(vectors)), (vectors != 0).argmax(axis=1)]
    return set(map(tuple, field.products[vectors, inverses(field)[first][:, None]].tolist()))


@pytest.mark.parametrize(("q", "t"), SPACES)
def test_values_and_codes_each_name_every_point_once(q, t):
    found, field = space(q, t), FiniteField(q)
    assert found.points == (q**t - 1) // (q - 1)
    for vectors in (value_vectors(q, t), code_vectors(q, t)):
        assert vectors.shape == (found.points, t)
        assert vectors.any(axis=1).all()
        assert len(normalised(vectors, field)) == found.points


@pytest.mark.parametrize(("q", "t"), SPACES)
def test_hyperplanes_are_where_the_inner_product_vanishes(q, t):
    found = space(q, t)
    brute = incidences(q, t)
    for value in {0, 1, found.points // 2, max(found.points - 2, 0), found.points - 1}:
        if value < found.points:
            np.testing.assert_array_equal(found.hyperplane(value), brute[value])
    assert set(brute.sum(axis=1)) == {found.on_hyperplane}


@pytest.mark.parametrize(("q", "t"), [(2, 2), (2, 4), (3, 3), (4, 3), (5, 2), (7, 3), (8, 3)])
def test_any_two_hyperplanes_meet_alike(q, t):
    brute = incidences(q, t).astype(np.int64)
    meets = brute @ brute.T
    assert set(meets[~np.eye(len(meets), dtype=bool)]) == {space(q, t).on_both}


@pytest.mark.parametrize(("q", "t"), SPACES)
def test_support_equals_brute_force(q, t):
    found = space(q, t)
    counts = SeededRandom(q + t).integers(1000, found.points).astype(np.int64)
    brute = incidences(q, t) @ counts
    reach = q ** (t - 1)
    for values in {1, reach // 2 + 1, reach, min(reach + 1, found.points), found.points}:
        np.testing.assert_array_equal(found.support(counts, values), brute[:values])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_support_equals_brute_force_for_any_counts(data):
    q, t = data.draw(st.sampled_from([(2, 5), (3, 4), (4, 3), (5, 3), (8, 3), (9 + 2, 2)]))
    found = space(q, t)
    counts = np.zeros(found.points, np.int64)
    for code in data.draw(st.lists(st.integers(0, found.points - 1), max_size=30)):
        counts[code] += data.draw(st.integers(1, 10**9))
    np.testing.assert_array_equal(found.support(counts, found.points), incidences(q, t) @ counts)


@pytest.mark.parametrize(("q", "t"), [(2, 8), (3, 5), (4, 4), (7, 3), (509, 2)])
def test_support_is_exact_up_to_the_limit_that_is_refused(q, t):
    """The largest batch let through lies on one code; all rounding works in one direction."""
    found, brute = space(q, t), incidences(q, t)
    limit = (1 << 53) // (16 * t * (q + 3))
    rng = SeededRandom(1)
    spread = rng.integers(limit // found.points, found.points).astype(np.int64)
    single = np.zeros(found.points, np.int64)
    single[found.points // 3] = limit
    for counts in (spread, single):
        np.testing.assert_array_equal(found.support(counts, found.points), brute @ counts)
    with pytest.raises(ArithmeticError, match="exactly"):
        found.support(single + 1, found.points)


@pytest.mark.parametrize(("q", "t"), [(2, 8), (4, 4)])
@pytest.mark.parametrize("kind", [np.int32, np.uint32, np.int64, np.uint64])
def test_support_is_exact_on_either_side_of_32_bits(q, t, kind):
    found, brute = space(q, t), incidences(q, t)
    for n in (((1 << 31) - 1) // q, (1 << 31) // q, (1 << 31) - 1):
        counts = np.zeros(found.points, kind)
        counts[found.points // 3] = n
        expected = brute @ counts.astype(np.int64)
        np.testing.assert_array_equal(found.support(counts, found.points), expected)


@pytest.mark.parametrize(("q", "m"), [(2, 0), (2, 20), (3, 7), (4, 9), (5, 5), (64, 3), (509, 2)])
def test_forms_are_evaluated_limb_by_limb(q, m):
    forms, rng = LinearForms(FiniteField(q), m), SeededRandom(m)
    points = rng.integers(forms.points + 1, 500)
    vectors = rng.integers(q**m, 500)
    vector_digits = vectors[:, None].astype(np.int64) // q ** np.arange(m) % q
    padded = np.append(forms.representatives, np.uint32(0)).astype(np.int64)
    form_digits = padded[points.astype(np.int64)][:, None] // q ** np.arange(m) % q
    np.testing.assert_array_equal(
        forms.evaluate(points, vectors.astype(np.uint32)),
        inner_product(form_digits, vector_digits, q),
    )
