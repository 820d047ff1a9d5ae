"""The finite fields: their axioms, exhaustively, and the transforms that rest on them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from mechanisms.algebra.finite_field import FiniteField, irreducible, is_order
from tests.oracles.geometry import inverses

SMALL = [q for q in range(65) if is_order(q)]
LARGE = [101, 127, 128, 211, 256, 509, 512]


def times(left: int, right: int, q: int) -> int:
    """The product by school arithmetic: all of it, then the remainder."""
    if q % 2:
        return left * right % q
    product = 0
    for i, j in itertools.product(range(10), repeat=2):
        product ^= (left >> i & 1) * (right >> j & 1) << (i + j)
    modulus = irreducible(q.bit_length() - 1)
    for bit in reversed(range(q.bit_length() - 1, 20)):
        product ^= (product >> bit & 1) * modulus << (bit - q.bit_length() + 1)
    return product


def axioms_hold(field: FiniteField, x, y, z) -> None:
    add, table = field.add, field.products

    def multiply(left, right):
        return table[left, right]

    for operation, neutral in [(add, 0), (multiply, 1)]:
        np.testing.assert_array_equal(operation(x, y), operation(y, x))
        np.testing.assert_array_equal(operation(operation(x, y), z), operation(x, operation(y, z)))
        np.testing.assert_array_equal(operation(x, np.full_like(x, neutral)), x)
        assert operation(x, y).max() < field.order
    np.testing.assert_array_equal(multiply(x, add(y, z)), add(multiply(x, y), multiply(x, z)))


def test_the_orders_up_to_64_are_the_primes_and_the_powers_of_two():
    assert SMALL == [
        2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 19, 23, 29, 31, 32, 37, 41, 43, 47, 53, 59, 61, 64,
    ]  # fmt: skip


@pytest.mark.parametrize("q", SMALL)
def test_axioms_for_all_triples(q):
    x, y, z = np.indices((q, q, q), np.uint16).reshape(3, -1)
    axioms_hold(FiniteField(q), x, y, z)


@pytest.mark.parametrize("q", LARGE)
def test_axioms_for_some_triples(q):
    rng = np.random.default_rng(q)
    axioms_hold(FiniteField(q), *rng.integers(0, q, (3, 200_000)).astype(np.uint16))


@pytest.mark.parametrize("q", SMALL + LARGE)
def test_every_element_has_a_negative_and_every_one_but_0_an_inverse(q):
    field, elements = FiniteField(q), np.arange(q, dtype=np.uint16)
    assert not field.add(elements, field.negatives).any()
    inverse = inverses(field)
    assert (field.products[elements, inverse][1:] == 1).all()
    assert inverse[0] == 0


@pytest.mark.parametrize("q", SMALL + LARGE)
def test_products_by_school_arithmetic(q):
    rng = np.random.default_rng(q)
    pairs = itertools.product(range(q), repeat=2) if q <= 16 else rng.integers(0, q, (300, 2))
    products = FiniteField(q).products
    for left, right in pairs:
        assert products[left, right] == times(int(left), int(right), q)


@pytest.mark.parametrize("q", SMALL + LARGE)
def test_powers_of_some_element_run_through_all_but_0(q):
    """A finite field's multiplicative group is cyclic; other tables rarely have such a row."""
    products = FiniteField(q).products

    def powers(x: int) -> int:
        seen, power = {1}, x
        while power not in seen:
            seen.add(power)
            power = int(products[power, x])
        return len(seen)

    assert any(powers(x) == q - 1 for x in range(1, q))


@pytest.mark.parametrize("degree", range(1, 8))
def test_irreducible_is_no_product_and_the_least_such(degree):
    """Against all products of two polynomials of positive degree."""

    def product(f: int, g: int) -> int:
        total = 0
        for bit in range(degree + 1):
            total ^= (f << bit) * (g >> bit & 1)
        return total

    lesser = range(2, 1 << degree)
    composite = {product(f, g) for f in lesser for g in lesser}
    found = irreducible(degree)
    assert found not in composite
    # x + 0 is irreducible, too, but a modulus that is a power of x divides no other.
    assert all(f in composite for f in range(max(1 << degree, 3), found))


@pytest.mark.parametrize("q", SMALL + LARGE)
def test_what_is_transformed_is_multiplied_with_characters(q):
    field, elements = FiniteField(q), np.arange(q, dtype=np.uint16)
    characters = field.transform(np.eye(q, dtype=np.int32))
    assert np.isrealobj(characters) == (q % 2 == 0)
    np.testing.assert_array_equal(characters, characters.T)
    np.testing.assert_allclose(characters @ characters.conj(), q * np.eye(q), atol=1e-10)
    for shift in {1, q // 2, q - 1}:
        moved = field.add(elements, np.full_like(elements, shift))
        np.testing.assert_allclose(
            characters[:, moved], characters * characters[:, [shift]], atol=1e-12
        )


@pytest.mark.parametrize("q", SMALL + LARGE)
def test_the_trace_is_additive_and_onto_the_prime_field(q):
    field = FiniteField(q)
    x, y = np.indices((q, q), np.uint16).reshape(2, -1)
    p = field.characteristic
    total = (field.traces[x] + field.traces[y]) % p
    np.testing.assert_array_equal(field.traces[field.add(x, y)], total)
    assert np.bincount(field.traces).tolist() == [q // p] * p


@pytest.mark.parametrize("order", [-4, 0, 1, 6, 9, 12, 27, 513, 521, 1024, math.nan])
def test_other_orders_are_refused_with_the_limit(order):
    with pytest.raises(ValueError, match=r"prime or a power of two in 2 \.\. 512"):
        FiniteField(order)
