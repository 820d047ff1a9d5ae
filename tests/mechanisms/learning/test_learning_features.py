"""Rows from attributes: against one built by hand, through JSON, and back in the user's units."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from mechanisms.learning.features import Features
from tests.oracles import learning as oracles_learning

FEATURES = Features(
    (("age", 0.0, 100.0), ("pay", -10.0, 30.0)),
    (("city", ("Bern", "Pavia", "Lund")), ("only", ("one",)), ("sex", ("f", "m"))),
)


def people(n: int, dtype=np.float64):
    """Scaled numbers and places of values."""
    rng = np.random.default_rng(1)
    sizes = [len(values) for _, values in FEATURES.categories]
    return rng.uniform(-1, 1, (n, 2)).astype(dtype), rng.integers(0, sizes, (n, 3)).astype(np.int32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_what_one_would_write_by_hand(dtype):
    numbers, places = people(50, dtype)
    rows = FEATURES.rows(numbers, places)
    assert rows.dtype == dtype
    expected = [
        oracles_learning.design_row(FEATURES, *one) for one in zip(numbers, places, strict=True)
    ]
    np.testing.assert_array_equal(rows, expected)
    assert rows.shape[1] == FEATURES.inputs == len(FEATURES.names) == 6
    assert (np.square(rows).sum(axis=1) <= FEATURES.longest).all()


def test_columns_have_names():
    assert FEATURES.names == ("age", "pay", "city=Pavia", "city=Lund", "sex=m", "1")


def test_a_file_says_all_that_there_is_of_them():
    said = json.loads(json.dumps(FEATURES.as_dict()))
    numbers = tuple((x["name"], x["low"], x["high"]) for x in said["numbers"])
    categories = tuple((x["name"], tuple(x["values"])) for x in said["categories"])
    assert Features(numbers, categories) == FEATURES


@pytest.mark.parametrize("target", [None, (5.0, 25.0)])
def test_weights_in_the_users_units_predict_the_same(target):
    numbers, places = people(20)
    weights = np.random.default_rng(2).normal(size=(FEATURES.inputs, 2))
    scaled = FEATURES.rows(numbers, places) @ weights
    if target is not None:
        scaled = (scaled + 1) / 2 * (target[1] - target[0]) + target[0]
    held = [
        (x + 1) / 2 * (high - low) + low
        for x, (_, low, high) in zip(numbers.T, FEATURES.numbers, strict=True)
    ]
    inner, intercept = FEATURES.unscaled(weights, target)
    raw = np.column_stack([*held, FEATURES.rows(numbers, places)[:, 2:-1]])
    np.testing.assert_allclose(raw @ inner + intercept, scaled, atol=1e-12)


def test_numbers_alone_and_categories_alone_will_do():
    assert Features((("x", -1.0, 1.0),)).rows(np.zeros((2, 1)), np.zeros((2, 0))).shape == (2, 2)
    places = np.array([[0], [1]])
    rows = Features((), (("c", ("a", "b")),)).rows(np.zeros((2, 0)), places)
    assert rows.tolist() == [[0, 1], [1, 1]]
    assert Features((), (("c", ("a", "b")),)).unscaled([3.0, 4.0])[1].tolist() == [4.0]


@pytest.mark.parametrize("place", [-1, 2])
def test_a_place_without_a_value_is_counted_not_shown(place):
    features = Features((), (("sex", ("f", "m")),))
    with pytest.raises(ValueError, match=r"^1 of 3 rows hold no value of 'sex'$"):
        features.rows(np.zeros((3, 0)), [[0], [place], [1]])


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: Features((("x", 1.0, 1.0),)), "must be finite and ascend"),
        (lambda: Features((("x", 0.0, math.nan),)), "must be finite and ascend"),
        (lambda: Features((), (("c", ("a", "a")),)), "each once"),
        (lambda: Features((), (("c", ()),)), "each once"),
        (lambda: Features(()), "needs an attribute"),
        (
            lambda: FEATURES.rows(np.zeros((2, 3)), np.zeros((2, 3), int)),
            "rows must have 2 numbers",
        ),
        (
            lambda: FEATURES.rows(np.zeros((2, 2)), np.zeros((2, 1), int)),
            "3 categories, not 2 and 1",
        ),
    ],
)
def test_what_means_nothing_is_refused(build, match):
    with pytest.raises(ValueError, match=match):
        build()
