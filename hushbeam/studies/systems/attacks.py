"""Mechanisms for means whose reports somebody looks at, and what these reveal at most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

from hushbeam.studies.engine.cells import Cell
from hushbeam.studies.systems.means import MeanSystem
from mechanisms.mean.scalar import ScalarMean
from mechanisms.privacy.divergence import Spectrum
from mechanisms.randomness import SeededRandom


class ReportAudit(NamedTuple):
    """What one report is certain to reveal at most, by enumeration of the channel.

    Attributes:
        epsilon: the least one for which the report is private with delta 0; may be infinite.
        delta: the least one for which it is private at the epsilon that is wanted.
    """

    epsilon: float
    delta: float


@lru_cache(maxsize=64)
def audit(mechanism: ScalarMean, epsilon: float) -> ReportAudit:
    """What a mechanism guarantees in truth, exactly."""
    spectrum = Spectrum.of(mechanism)
    return ReportAudit(spectrum.epsilon, spectrum.worst(epsilon)[1])


@dataclass(frozen=True, eq=False)
class Attacked:
    """A mechanism whose reports somebody looks at.

    Attributes:
        system: which.
        epsilon: wanted of one report, in nats.
        delta: that the system claims.
        mechanism: with these parameters.
    """

    system: MeanSystem
    epsilon: float
    delta: float
    mechanism: ScalarMean

    def rng(self, name: str, seed: int) -> SeededRandom:
        """What its reports are drawn with, in an attack of some name."""
        return SeededRandom(Cell(name, self.system, self.epsilon, self.delta).seed(seed, 0))

    @property
    def columns(self) -> dict[str, Any]:
        """What tables say of it."""
        return {
            "system": self.system.name, "alpha": self.system.alpha, "epsilon": self.epsilon
        }  # fmt: skip


def attacked(
    systems: Sequence[MeanSystem], epsilons: Sequence[float], deltas: Sequence[float]
) -> Iterator[Attacked]:
    """Every mechanism that can be had; a delta that a system does not take changes nothing."""
    for system, epsilon in product(systems, epsilons):
        for delta in sorted({system.claimed_delta(delta) for delta in deltas}):
            with suppress(ValueError):  # refused.json says why
                yield Attacked(system, epsilon, delta, system.build(epsilon, delta))
