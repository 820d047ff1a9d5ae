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

_SIZES = {"domain_size", "hash_range", "n"}  # parameters that count something

_M = TypeVar("_M")

_ALL: dict[str, Callable[..., Mechanism]] = {**FREQUENCY}


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
