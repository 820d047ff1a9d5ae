"""Projective spaces, spelt out: every point's vector, every inner product."""

from __future__ import annotations

import numpy as np

from mechanisms.algebra.finite_field import Elements, FiniteField


def inner_product(left: np.ndarray, right: np.ndarray, q: int) -> np.ndarray:
    """sum_i left_i right_i in GF(q), over the last axis."""
    field = FiniteField(q)
    terms = field.products[left, right].astype(np.int64)
    return np.bitwise_xor.reduce(terms, axis=-1) if q % 2 == 0 else terms.sum(axis=-1) % q


def value_vectors(q: int, t: int) -> np.ndarray:
    """(points, t): value c < q^(t-1) is its digits and then 1; the others end in 0."""
    if t == 0:
        return np.zeros((0, 0), int)
    first = np.arange(q ** (t - 1))[:, None] // q ** np.arange(t - 1) % q
    others = value_vectors(q, t - 1)
    return np.vstack([np.insert(first, t - 1, 1, axis=1), np.insert(others, t - 1, 0, axis=1)])


def code_vectors(q: int, t: int) -> np.ndarray:
    """(points, t): code a q + y is code a of one digit less and then -y; the last is (0, 1)."""
    if t == 0:
        return np.zeros((0, 0), int)
    negatives = FiniteField(q).negatives.astype(int)
    longer = [[*form, y] for form in code_vectors(q, t - 1) for y in negatives]
    return np.array([*longer, [0] * (t - 1) + [1]], int)


def incidences(q: int, t: int) -> np.ndarray:
    """(values, codes) bool: whether a code lies on the hyperplane of a value."""
    codes = code_vectors(q, t)
    return np.array([inner_product(codes, value, q) == 0 for value in value_vectors(q, t)])


def inverses(field: FiniteField) -> Elements:
    """(q,) what each element must be multiplied with to give 1; 0 for 0, which has none."""
    return (field.products == 1).argmax(axis=1).astype(np.uint16)
