"""POP: the exact projection, its certificate, and that it cannot hurt."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.postprocess.simplex import project
from tests.oracles.simplex import kkt_residual
from tests.oracles.statistics import simplex_projection

VECTORS = json.loads(Path(__file__).parents[2].joinpath("data/vectors.json").read_text())

reals = st.floats(-1e3, 1e3, allow_nan=False)
vectors = st.lists(reals, min_size=1, max_size=40).map(np.array)


@pytest.mark.parametrize("case", VECTORS["simplex_projection"])
def test_vectors(case):
    v = np.array(case["params"]["v"])
    w = project(v)
    np.testing.assert_allclose(w, case["out"], rtol=1e-9, atol=1e-12)
    assert np.count_nonzero(w) == case["support"]


@settings(max_examples=300, deadline=None)
@given(vectors)
def test_is_the_projection(v):
    w = project(v)
    assert kkt_residual(v, w) < 1e-9
    np.testing.assert_allclose(w, simplex_projection(v), atol=1e-9)


def test_extremes():
    np.testing.assert_array_equal(project([5.0]), [1.0])
    np.testing.assert_array_equal(project([1e300, 0.0]), [1.0, 0.0])
    np.testing.assert_allclose(project(np.full(10**6, -3.0)), np.full(10**6, 1e-6), rtol=1e-9)
    assert kkt_residual([0.5, 0.5], [0.0, 0.0]) == math.inf


@pytest.mark.parametrize("bad", [[], [[1.0]], [math.nan, 1.0], [math.inf], 3.0])
def test_bad_vectors_are_refused(bad):
    with pytest.raises(ValueError, match=r"entry|finite"):
        project(bad)
