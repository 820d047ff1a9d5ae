"""Every mechanism by name, for command lines and configuration."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from mechanisms.channel import Mechanism, require_integer
from mechanisms.frequency import linear_hash, projective_geometry, unary
from mechanisms.frequency.correlated_noise import CorrelatedNoise
from mechanisms.frequency.count_sketch import CountSketch
from mechanisms.frequency.dummies import Aue, PoissonDummies
from mechanisms.frequency.dump import MixDump, PureDump
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.frequency.random_projection import RandomProjection
from mechanisms.frequency.rappor import Rappor
from mechanisms.frequency.subset_selection import SubsetSelection
from mechanisms.mean import hybrid, two_point, widths
from mechanisms.mean.additive import laplace
from mechanisms.mean.gaussian import gaussian, gaussian_analytic
from mechanisms.mean.optimal import Optimal
from mechanisms.mean.published import dct_published, im_published
from mechanisms.mean.scalar import ScalarMean
from mechanisms.vector import meanest, multi
from mechanisms.vector.base import VectorMean
from mechanisms.vector.laplace_vector import laplace_vector
from mechanisms.vector.privunit import privunit
from mechanisms.vector.random_projection import multi_rphm

LOCAL: dict[str, Callable[..., FrequencyOracle]] = {
    "grr": linear_hash.k_ary,
    "olh": linear_hash.optimal_local,
    "srr": linear_hash.shuffled,
    "hadamard": linear_hash.hadamard,
    "projective": projective_geometry.optimal,
    "sue": unary.symmetric,
    "oue": unary.optimised,
    "subset": SubsetSelection,
    "rappor": Rappor,
    "shist": RandomProjection,
    "treehist": CountSketch,
}
"""Every report is private by itself: they take epsilon and domain_size at the least."""

BATCH: dict[str, Callable[..., FrequencyOracle]] = {
    "poisson": PoissonDummies,
    "correlated": CorrelatedNoise,
    "puredump": PureDump,
    "mixdump": MixDump,
    "aue": Aue,
}
"""Only a shuffled batch is private: they take epsilon, delta, n and domain_size at the least."""

FREQUENCY = LOCAL | BATCH

MEAN: dict[str, Callable[..., ScalarMean]] = {
    "pm": widths.piecewise,
    "nm": widths.noise,
    "im": widths.improved,
    "window_optimal": widths.window_optimal,
    "dct": widths.dct,
    "laplace": laplace,
    "gaussian": gaussian,
    "gaussian_analytic": gaussian_analytic,
    "duchi": two_point.duchi,
    "ndm": two_point.ndm,
    "hm": hybrid.hm,
    "hybrid_optimal": hybrid.hybrid_optimal,
    "optimal": Optimal,
}
"""Of numbers in [-1, 1]: they take epsilon at the least, and `cells`; some take delta."""

VECTOR: dict[str, Callable[..., VectorMean]] = {
    "multi_hm": multi.multi_hm,
    "multi_optimal": multi.multi_optimal,
    "meanest": meanest.Meanest,
    "laplace_vector": laplace_vector,
    "multi_rphm": multi_rphm,
    "privunit": privunit,
}
"""Of many numbers at once: they take epsilon and dimension at the least."""

PUBLISHED: dict[str, Callable[..., ScalarMean]] = {
    "im_published": im_published,
    "dct_published": dct_published,
}
"""As their papers have them, with claims that do not hold: for evaluation alone."""

_SIZES = {"domain_size", "hash_range", "n", "cells", "dimension"}  # parameters that count something

_M = TypeVar("_M")

_ALL: dict[str, Callable[..., Mechanism]] = {
    **FREQUENCY,
    **MEAN,
    **VECTOR,
    **PUBLISHED,
    "meanest_published": meanest.MeanestPublished,
}


def names() -> list[str]:
    """The names that `build` knows.

    >>> "olh" in names()
    True
    """
    return list(_ALL)


def build(name: str, **parameters: Any) -> Mechanism:
    """A mechanism from its name and parameters.

    Args:
        name: one of `names()`.
        **parameters: what its constructor takes: epsilon, domain_size, hash_range, ...

    Returns:
        The mechanism.

    Raises:
        ValueError: unknown name; unknown or missing parameter; a value out of range. The message
            lists what exists.

    >>> build("olh", epsilon=1.0, domain_size=100).guarantee.epsilon
    1.0
    """
    if name not in _ALL:
        raise ValueError(f"unknown mechanism {name!r}; there are: {', '.join(_ALL)}")
    return _call(name, _ALL[name], parameters)


def build_frequency(name: str, **parameters: Any) -> FrequencyOracle:
    """`build`, for mechanisms that estimate frequencies only."""
    if name not in FREQUENCY:
        raise ValueError(f"unknown frequency mechanism {name!r}; there are: {', '.join(FREQUENCY)}")
    return _call(name, FREQUENCY[name], parameters)


def build_mean(name: str, **parameters: Any) -> ScalarMean:
    """`build`, for mechanisms that estimate means only, and keep what they claim."""
    if name not in MEAN:
        raise ValueError(f"unknown mean mechanism {name!r}; there are: {', '.join(MEAN)}")
    return _call(name, MEAN[name], parameters)


def _call(name: str, constructor: Callable[..., _M], parameters: dict[str, Any]) -> _M:
    signature = inspect.signature(constructor)
    try:
        signature.bind(**parameters)
    except TypeError as error:
        accepted = ", ".join(
            key if p.default is p.empty else f"{key} (optional)"
            for key, p in signature.parameters.items()
        )
        raise ValueError(f"{name}: {error}; it takes: {accepted}") from None
    for key in _SIZES & parameters.keys():
        if not (parameters[key] is None and signature.parameters[key].default is None):
            require_integer(key, parameters[key])
    return constructor(**parameters)
