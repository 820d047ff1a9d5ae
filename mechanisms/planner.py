"""Which mechanism, with which parameters, meets a privacy target with the least error."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from mechanisms import catalog
from mechanisms.channel import FrequencyOracle, Guarantee, require_epsilon
from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.frequency.primes import next_prime, previous_prime
from mechanisms.privacy import amplification

AUTO = "auto"


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
        if self.model == "local" and self.delta != 0:
            raise ValueError(f"delta must be 0 in the local model, not {self.delta}")
        if self.model == "shuffle":
            amplification.require_batch(self.delta, self.n)


@dataclass(frozen=True)
class Design:
    """One way to meet a target.

    Attributes:
        name: of the mechanism, in the catalogue.
        mechanism: with its parameters.
        local: what one report reveals to whoever sees it.
        release: what the published result reveals.
        mean_squared_error: predicted per value before post-processing, in squared frequency
            units, for the least batch.
    """

    name: str
    mechanism: FrequencyOracle
    local: Guarantee
    release: Guarantee
    mean_squared_error: float


def design(target: Target, name: str = AUTO) -> Design:
    """The design of a mechanism that has the least predicted error, or the best of all of them.

    Args:
        target: what must hold.
        name: a frequency mechanism of the catalogue, or "auto".

    Returns:
        The best design.

    Raises:
        ValueError: the name is unknown, or nothing meets the target.
    """
    names = list(catalog.FREQUENCY) if name == AUTO else [name]
    return min(
        (found for each in names for found in designs(target, each)),
        key=lambda found: found.mean_squared_error,
    )


def designs(target: Target, name: str) -> list[Design]:
    """The parameter choices of one mechanism that are worth comparing; at least one."""
    limits = [e for e in (target.epsilon, target.epsilon_local) if e is not None]
    if target.model == "local" or target.epsilon is None:
        mechanism = catalog.build_frequency(
            name, epsilon=min(limits), domain_size=target.domain_size
        )
        return [_design(target, name, mechanism)]
    return [
        _design(target, name, LinearHash(budget, target.domain_size, hash_range))
        for hash_range in _hash_ranges(target, name)
        for budget in [_local_budget(target, hash_range)]
    ]


def _design(target: Target, name: str, mechanism: FrequencyOracle) -> Design:
    """A mechanism with what it guarantees and what it costs."""
    local = replace(mechanism.guarantee, unit=target.unit)
    release = local
    if target.model == "shuffle":
        epsilon, how = amplification.batch_epsilon(mechanism, target.n, target.delta)
        release = Guarantee("shuffle", epsilon, target.delta, target.unit, how)
    return Design(name, mechanism, local, release, mechanism.average_variance(target.n))


def _local_budget(target: Target, hash_range: int) -> float:
    """The most a client may spend at a hash range."""
    assert target.epsilon is not None
    cap = math.inf if target.epsilon_local is None else target.epsilon_local
    return amplification.local_budget(target.epsilon, target.delta, target.n, hash_range, cap)


def _hash_ranges(target: Target, name: str) -> list[int]:
    """The ranges a mechanism of this name may use in a shuffled batch."""
    assert target.epsilon is not None
    budget = amplification.theorem_1_budget(target.epsilon, target.n, target.delta)
    centre = {"grr": math.inf, "hadamard": 2, "olh": budget / 2 + 1, "srr": (budget + 2) / 3}[name]
    if centre >= target.domain_size:
        return [target.domain_size]
    return sorted({previous_prime(round(centre)), next_prime(round(centre))})
