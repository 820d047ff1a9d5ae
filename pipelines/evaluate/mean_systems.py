"""Which mechanisms for means are compared, and how each turns its counts into a mean."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from mechanisms import catalog
from mechanisms.mean.scalar import ScalarMean
from mechanisms.privacy.divergence import Spectrum
from pipelines.errors import RequestError
from pipelines.evaluate.cells import Line

BEST = "best"  # the alpha of least worst-case variance
EM, EMS = "nm-em", "nm-ems"

_MEANS = catalog.of_task("mean")
_PUBLISHED = catalog.published("mean")

NAMES = (*_MEANS, EM, EMS, *_PUBLISHED)

SETS: dict[str, tuple[str, ...]] = {
    "all": (*_MEANS, EM, EMS),
    "dct-paper": ("duchi", "pm", "dct_published", "dct"),
    "im-paper": ("gaussian", "gaussian_analytic", "ndm", "im_published", "im", "nm", EM),
}

_CONSTRUCTORS: Mapping[str, Callable[..., ScalarMean]] = {
    name: registration.constructor
    for name, registration in {
        **_MEANS,
        **_PUBLISHED,
        EM: _MEANS["nm"],
        EMS: _MEANS["nm"],
    }.items()
}


class Audit(NamedTuple):
    """What one report is certain to reveal at most, by enumeration of the channel.

    Attributes:
        epsilon: the least one for which the report is private with delta 0; may be infinite.
        delta: the least one for which it is private at the epsilon that was asked.
    """

    epsilon: float
    delta: float


@dataclass(frozen=True)
class System:
    """A mechanism by name, with the parameters that are not privacy's.

    Attributes:
        name: one of `NAMES`.
        alpha: DCT's; None for its best, and for mechanisms that have none.
    """

    name: str
    alpha: float | None = None

    @property
    def has_alpha(self) -> bool:
        """Whether it is a DCT."""
        return "alpha" in _parameters(self.name)

    @property
    def key(self) -> str:
        """A name that no other system has."""
        if not self.has_alpha:
            return self.name
        return f"{self.name}:{BEST if self.alpha is None else f'{self.alpha:g}'}"

    @property
    def published(self) -> bool:
        """Whether its claim is its paper's, and does not hold."""
        return self.name in _PUBLISHED

    @property
    def smooth(self) -> bool | None:
        """Whether expectation maximisation smooths; None if there is none, but decoding."""
        return {EM: False, EMS: True}.get(self.name)

    def claimed_delta(self, delta: float) -> float:
        """What the system says it spends, of what was asked: 0 where it takes no delta."""
        return delta if "delta" in _parameters(self.name) else 0.0

    def build(self, epsilon: float, delta: float) -> ScalarMean:
        """The mechanism.

        Raises:
            ValueError: a parameter is out of its range.
        """
        given = {"epsilon": epsilon, "delta": delta, "alpha": self.alpha}
        taken = {name: given[name] for name in _parameters(self.name) if name in given}
        return _CONSTRUCTORS[self.name](**taken)


@lru_cache(maxsize=64)
def audit(mechanism: ScalarMean, epsilon: float) -> Audit:
    """What a mechanism guarantees in truth, exactly."""
    spectrum = Spectrum.of(mechanism)
    return Audit(spectrum.epsilon, spectrum.worst(epsilon)[1])


def systems(names: Sequence[str], alphas: Sequence[str]) -> dict[Line, System]:
    """The systems that a person asked for.

    Args:
        names: of systems or of sets.
        alphas: numbers, or "best", for each DCT among them; as published it has no best.

    Returns:
        A line for each system, in the order asked for.

    Raises:
        RequestError: a name or an alpha is none, or a system is left without any.

    >>> [str(line) for line in systems(["duchi", "dct", "dct_published"], ["2", "best"])]
    ['duchi', 'dct, alpha 2', 'dct, best alpha', 'dct_published']
    """
    wanted = dict.fromkeys(member for name in names for member in _members(name))
    numbers = [_alpha(text) for text in dict.fromkeys(alphas)]
    found: dict[Line, System] = {}
    for name in wanted:
        for system, label in _variants(name, numbers):
            bound = "published" if system.published else "exact"
            found[Line(system.key, bound, "local", label)] = system
    return found


def _variants(name: str, alphas: Sequence[float | None]) -> list[tuple[System, str]]:
    """One system for each alpha that it can take, and what legends call it."""
    if not System(name).has_alpha:
        return [(System(name), name)]
    able = [each for each in alphas if each is not None or not System(name).published]
    if not able:
        raise RequestError(f"--alphas: {name} needs a number; {BEST} is for dct")
    if len(able) == 1 and able[0] is not None:
        return [(System(name, able[0]), name)]
    labels = (f"{BEST} alpha" if each is None else f"alpha {each:g}" for each in able)
    return [(System(name, a), f"{name}, {label}") for a, label in zip(able, labels, strict=True)]


def _members(name: str) -> tuple[str, ...]:
    """A set's systems, or a system."""
    if name in SETS:
        return SETS[name]
    if name not in NAMES:
        known = ", ".join([*SETS, *NAMES])
        raise RequestError(f"--systems: unknown system {name!r}; there are: {known}")
    return (name,)


def _alpha(text: str) -> float | None:
    """A number, or None for the best."""
    if text == BEST:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise RequestError(f"--alphas must be positive, finite numbers or {BEST}, not {text!r}")
    return number


def _parameters(name: str) -> tuple[str, ...]:
    """What a constructor takes."""
    return tuple(inspect.signature(_CONSTRUCTORS[name]).parameters)
