"""Which mechanism, with which parameters, meets a privacy target with the least error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from scipy import optimize, special

from mechanisms import catalog
from mechanisms.channel import Floats, Guarantee, require_epsilon
from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.postprocess.simplex import project
from mechanisms.privacy import budget
from mechanisms.privacy.amplification import shuffled_epsilon
from mechanisms.privacy.blanket import require_batch, require_delta
from mechanisms.randomness import SeededRandom

AUTO = "auto"

_HOW_SHUFFLED = (
    "numerical accountant: the privacy blanket (Balle, Bell, Gascon, Nissim 2019, Lemma 5.3) of "
    "the exact channel, tails added; batches exist that lose {lower:.6g}"
)


@dataclass(frozen=True)
class Target:
    """What a histogram must satisfy.

    Attributes:
        model: "local" or "shuffle".
        epsilon: of the release, in nats; None in the shuffle model derives it from epsilon_local.
        delta: 0 in the local model.
        n: the least number of reports.
        domain_size: how many values.
        epsilon_local: the most that one report may reveal, or None.
        unit: whose value is protected: "row" or "user".

    Raises:
        ValueError: one of them is out of range.
    """

    model: str
    epsilon: float | None
    delta: float
    n: int
    domain_size: int
    epsilon_local: float | None = None
    unit: str = "row"

    def __post_init__(self) -> None:
        if self.model not in ("local", "shuffle"):
            raise ValueError(f"model must be local or shuffle, not {self.model}")
        if self.epsilon is None and self.epsilon_local is None:
            raise ValueError("epsilon is missing: name the privacy loss that you accept")
        for epsilon in (self.epsilon, self.epsilon_local):
            if epsilon is not None:
                require_epsilon(epsilon)
        require_batch(self.n)
        if self.model == "shuffle":
            require_delta(self.delta)
        elif self.delta != 0:
            raise ValueError(f"delta must be 0 in the local model, not {self.delta}")

    @property
    def cap(self) -> float:
        """The most a client may spend."""
        return math.inf if self.epsilon_local is None else self.epsilon_local


@dataclass(frozen=True)
class Design:
    """One way to meet a target.

    Attributes:
        target: what had to hold; errors are predicted for its least batch.
        name: of the mechanism, in the catalogue.
        mechanism: with its parameters.
    """

    target: Target
    name: str
    mechanism: FrequencyOracle

    @property
    def local(self) -> Guarantee:
        """What one report reveals to whoever sees it."""
        return replace(self.mechanism.guarantee, unit=self.target.unit)

    @cached_property
    def release(self) -> Guarantee:
        """What the published result reveals."""
        if self.target.model == "local":
            return self.local
        lower, upper = shuffled_epsilon(self.mechanism, self.target.n, self.target.delta)
        if self.target.epsilon is not None:
            # The budget was solved for exactly this epsilon, and both searches end on the
            # private side: the smaller of two bounds that hold.
            upper = min(upper, self.target.epsilon)
        how = _HOW_SHUFFLED.format(lower=lower)
        return Guarantee("shuffle", upper, self.target.delta, self.target.unit, how)

    @property
    def mean_squared_error(self) -> float:
        """Predicted per value before post-processing, in squared frequency units."""
        return self.mechanism.average_variance(self.target.n)

    @property
    def messages(self) -> float:
        """How many messages a user sends on average."""
        return 1.0

    @property
    def bits(self) -> int:
        """How many bits a message takes on the wire at the least."""
        return max(1, (self.mechanism.codes - 1).bit_length())


def default_delta(model: str, n: int) -> float:
    """delta where nobody asked for one: 10^-6, or less than a tenth of 1/n for larger batches.

    >>> default_delta("shuffle", 1000), default_delta("shuffle", 10**8), default_delta("local", 9)
    (1e-06, 1e-09, 0.0)
    """
    return 10.0 ** min(-6, -1 - math.floor(math.log10(n))) if model == "shuffle" else 0.0


def design(target: Target, name: str = AUTO) -> Design:
    """The design with the least predicted error, of one mechanism or of all.

    Args:
        target: what must hold.
        name: a frequency mechanism of the catalogue, or "auto".

    Raises:
        ValueError: the name is unknown, or the target is out of reach.
    """
    if name != AUTO:
        return _design(target, name)
    return min(designs(target), key=lambda found: found.mean_squared_error)


def designs(target: Target) -> list[Design]:
    """The best design of each mechanism in the catalogue that can serve the target.

    Raises:
        ValueError: none can; the reason of the last one.
    """
    found, refusal = [], ValueError("there is no mechanism")
    for name in catalog.FREQUENCY:
        try:
            found.append(_design(target, name))
        except ValueError as error:  # a table too large for this domain, say
            refusal = error
    if not found:
        raise refusal
    return found


def _design(target: Target, name: str) -> Design:
    """The best parameters of one mechanism."""
    if target.model == "local" or target.epsilon is None:
        spent = min(e for e in (target.epsilon, target.epsilon_local) if e is not None)
        mechanism = catalog.build_frequency(name, epsilon=spent, domain_size=target.domain_size)
    elif name in _SHUFFLED:
        mechanism = _SHUFFLED[name](target.epsilon, target)
    else:
        raise ValueError(
            f"{name} is unknown in the shuffle model; there are: {', '.join(_SHUFFLED)}"
        )
    return Design(target, name, mechanism)


def _k_ary(epsilon: float, target: Target) -> FrequencyOracle:
    return _ranged(epsilon, target, target.domain_size)


def _one_bit(epsilon: float, target: Target) -> FrequencyOracle:
    return _ranged(epsilon, target, 2)


def _optimal_local(epsilon: float, target: Target) -> FrequencyOracle:
    """OLH at the epsilon_local that the batch allows."""
    d, cap = target.domain_size, target.cap
    p = budget.local_optimal_range(epsilon, target.delta, target.n, d, cap)
    return _ranged(epsilon, target, p)


def _best_hash(epsilon: float, target: Target) -> FrequencyOracle:
    found = budget.best_histogram(epsilon, target.delta, target.n, target.domain_size, target.cap)
    return found.k_ary if found.hashed is None else found.hashed


def _best_geometry(epsilon: float, target: Target) -> FrequencyOracle:
    return budget.best_projective(epsilon, target.delta, target.n, target.domain_size, target.cap)


def _ranged(epsilon: float, target: Target, hash_range: int) -> FrequencyOracle:
    """The largest epsilon_local at a given hash range."""
    d, cap = target.domain_size, target.cap
    spent = budget.largest_local_epsilon(epsilon, target.delta, target.n, d, hash_range, cap)
    return LinearHash(spent, d, hash_range)


_SHUFFLED: dict[str, Callable[[float, Target], FrequencyOracle]] = {
    "grr": _k_ary,
    "olh": _optimal_local,
    "srr": _best_hash,
    "hadamard": _one_bit,
    "projective": _best_geometry,
}


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
        return 0.5 * math.log(at(x).mean_squared_error) - math.log(error)

    if excess(high) > 0:
        raise ValueError(f"{no} reaches a standard error of {error:g}")
    if excess(low) <= 0:
        return at(low)
    # Errors fall nearly like powers of epsilon and of n, so in logarithms few steps are needed.
    root = optimize.brentq(excess, low, high, xtol=3e-4)
    steps = (root + step * 4e-4 for step in range(1 << 20))
    return next(found for found in map(at, steps) if found.mean_squared_error <= error**2)
