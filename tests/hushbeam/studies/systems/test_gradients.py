"""Which mechanisms gradients are reported through."""

from __future__ import annotations

import math

import pytest

from hushbeam.studies.systems.gradients import DEFAULT, MECHANISMS, SETS, Unguarded, lines
from mechanisms.mean.optimal import Optimal
from mechanisms.vector.sampled import SampledCoordinates
from pipelines.errors import RequestError


def test_what_is_published_without_privacy_says_so() -> None:
    published = MECHANISMS["dct_published"](1.0, 5)
    assert isinstance(published, Unguarded)
    assert published.guarantee.epsilon == math.inf
    for name in SETS["all"]:
        if name in MECHANISMS and name != "dct_published":
            assert MECHANISMS[name](3.0, 5).guarantee.epsilon <= 3.0
    with pytest.raises(ValueError, match="may spend"):
        SampledCoordinates(1.0, 5, 1, Optimal(1.1, 16))


def test_the_default_is_always_among_the_lines() -> None:
    assert [line.system for line in lines(["pm", "pm"])] == [DEFAULT, "pm"]
    papers = ["duchi", "pm", "hm", "dct", "dct_published", "optimal", "least_squares"]
    assert {line.system for line in lines(["paper"])} == {DEFAULT, *papers}
    with pytest.raises(RequestError, match="unknown system 'grr'"):
        lines(["grr"])
