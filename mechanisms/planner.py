"""Which mechanism, with which parameters, meets a privacy target with the least error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from scipy import optimize, special

from mechanisms import systems
from mechanisms.channel import Floats
from mechanisms.design import ReleaseDesign
from mechanisms.postprocess.simplex import project
from mechanisms.randomness import SeededRandom
from mechanisms.system import Fitted
from mechanisms.systems import AUTO
from mechanisms.target import Target

_OUT_OF_REACH = 1e3  # in logarithms of an error


@dataclass(frozen=True)
class Design(ReleaseDesign):
    """One way to make a histogram.

    Attributes:
        target: what had to hold; errors are predicted for its least batch.
        name: of the system.
        mechanism: with its parameters.
        postprocess: what the system does with its unbiased estimates: "pop" or "none".
    """

    target: Target
    mechanism: Fitted
    postprocess: str = "pop"

    @property
    def mean_squared_error(self) -> float:
        """Predicted per value before post-processing, in squared frequency units."""
        return self.mechanism.average_variance(self.target.n)

    @property
    def messages(self) -> float:
        """How many messages a user sends on average."""
        return self.mechanism.messages


@lru_cache(maxsize=64)  # metrics of a plan often ask for the same
def design(target: Target, name: str = AUTO) -> Design:
    """The design with the least predicted error, of one mechanism or of all.

    Args:
        target: what must hold.
        name: of a system, or "auto".

    Raises:
        ValueError: the name is unknown, or the target is out of reach.
    """
    if name != AUTO:
        return _design(target, name)
    return min(designs(target), key=lambda found: found.mean_squared_error)


def designs(target: Target) -> list[Design]:
    """The best design of each searched system that can serve the target.

    Those whose users would send more than `target.max_messages` on average are left out.

    Raises:
        ValueError: none can; the reason of the last one.
    """
    found, refusal = [], ValueError(_nobody(target))
    for system in systems.SYSTEMS.values():
        if not system.serves(target):
            continue
        try:
            fitted = _design(target, system.name)
        except ValueError as error:  # a table too large for this domain, say
            refusal = error
            continue
        if fitted.messages <= target.max_messages:
            found.append(fitted)
    if not found:
        raise refusal
    return found


def _nobody(target: Target) -> str:
    """Why "auto" has nothing to choose from."""
    named = [s.name for s in systems.SYSTEMS.values() if (target.model, target.bound) in s.fits]
    return (
        f"no mechanism is chosen by itself in the {target.model} model by a {target.bound} bound; "
        f"name one of: {', '.join(named) or 'none'}"
    )


def _design(target: Target, name: str) -> Design:
    """The best parameters of one system."""
    system = systems.find(name)
    return Design(target, name, system.fit(target), system.postprocess)


def error_after_projection(design: Design, frequencies: Floats, runs: int = 3) -> float:
    """Predicted mean squared error per value after POP, for a guess of the truth.

    Args:
        design: the mechanism.
        frequencies: (domain_size,) the guess; adds up to 1.
        runs: how many simulated releases are averaged.

    Returns:
        In squared frequency units. The noise is simulated as independent and normal, with a fixed
        seed, so that equal questions get equal answers.
    """
    rng, d = SeededRandom(0), len(frequencies)
    scale = np.sqrt(design.mechanism.variance(frequencies, design.target.n))
    squares = []
    for _ in range(runs):
        uniform = (rng.words(d) >> np.uint64(11)) * 2.0**-53 + 2.0**-54
        released = project(frequencies + scale * special.ndtri(uniform))
        squares.append(float(np.mean((released - frequencies) ** 2)))
    return float(np.mean(squares))


def zipf(domain_size: int, exponent: float = 1.1) -> Floats:
    """Zipf frequencies: the usual guess for telemetry."""
    weights = np.arange(1, domain_size + 1, dtype=np.float64) ** -exponent
    return np.asarray(weights / weights.sum())


def least_epsilon(target: Target, error: float, name: str = AUTO) -> Design:
    """The most private design whose standard error per value is at most `error`.

    Args:
        target: its epsilon is ignored.
        error: root of the mean squared error per value, in frequency units.
        name: a mechanism, or "auto".

    Raises:
        ValueError: no epsilon up to 30 reaches the error.
    """

    def at(log_epsilon: float, name: str) -> Design:
        return design(replace(target, epsilon=math.exp(log_epsilon)), name)

    no = f"no epsilon up to 30 at n = {target.n:,}"
    return _least(at, error, math.log(1e-4), math.log(30), name, no)


def least_reports(target: Target, error: float, name: str = AUTO) -> Design:
    """The design with the fewest reports whose standard error per value is at most `error`.

    Args:
        target: its n is ignored.
        error: root of the mean squared error per value, in frequency units.
        name: a mechanism, or "auto".

    Raises:
        ValueError: no n up to 10^12 reaches the error.
    """

    def at(log_n: float, name: str) -> Design:
        return design(replace(target, n=math.ceil(math.exp(log_n))), name)

    return _least(at, error, math.log(2), math.log(1e12), name, "no n up to 10^12")


def _least(
    at: Callable[..., Design], error: float, low: float, high: float, name: str, no: str
) -> Design:
    """The least argument at which some design reaches an error, to 0.1 %, from that side."""
    if not 0 < error < 1:
        raise ValueError(f"the error must lie between 0 and 1, not {error}")
    if name != AUTO:
        return _least_of_one(partial(at, name=name), error, low, high, no)
    # Search with one mechanism at a time, until none is better where the search ends.
    found: dict[str, Design] = {}
    best = at(high, AUTO).name
    while best not in found:
        found[best] = _least_of_one(partial(at, name=best), error, low, high, no)
        best = design(found[best].target).name
    return found[best]


def _least_of_one(
    at: Callable[[float], Design], error: float, low: float, high: float, no: str
) -> Design:
    def excess(x: float) -> float:
        try:
            squared = at(x).mean_squared_error
        except ValueError:  # nothing meets such a target: as far from the error as can be
            return _OUT_OF_REACH
        return 0.5 * math.log(max(squared, math.ulp(0.0))) - math.log(error)

    if excess(high) > 0:
        raise ValueError(f"{no} reaches a standard error of {error:g}")
    if excess(low) <= 0:
        return at(low)
    # Errors fall nearly like powers of epsilon and of n, so in logarithms few steps are needed.
    root = optimize.brentq(excess, low, high, xtol=3e-4)
    steps = (root + step * 4e-4 for step in range(1 << 20))
    return next(found for found in map(at, steps) if found.mean_squared_error <= error**2)
