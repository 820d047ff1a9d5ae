"""Histogram systems under attack: who lies, how, and what it does to the counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushbeam.studies.engine.cells import Cell, FigureLine
from hushbeam.studies.systems import histograms
from mechanisms.channel import Counts
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.randomness import SeededRandom

Targets = NDArray[np.int64]


def _nobody(oracle: FrequencyOracle, targets: Targets, users: int, rng: SeededRandom) -> Counts:
    raise ValueError("nobody lies")


def _random(oracle: FrequencyOracle, targets: Targets, users: int, rng: SeededRandom) -> Counts:
    """Reports at random."""
    return oracle.scattered(users, rng)


def _input(oracle: FrequencyOracle, targets: Targets, users: int, rng: SeededRandom) -> Counts:
    """The client's own reports of a target."""
    even = np.full(targets.size, 1 / targets.size)
    histogram = np.zeros(oracle.domain_size, np.int64)
    histogram[targets] = rng.generator().multinomial(users, even)
    return oracle.reported(histogram, rng)


def _target(oracle: FrequencyOracle, targets: Targets, users: int, rng: SeededRandom) -> Counts:
    """Reports that support as many targets as they can."""
    return oracle.forged(targets, users, rng)


Reports = Callable[[FrequencyOracle, Targets, int, SeededRandom], Counts]

ATTACKS: Mapping[str, Reports] = {
    "none": _nobody,
    "random": _random,
    "input": _input,
    "target": _target,
    "adaptive": _target,  # which differs in single reports alone
}
"""Name -> what liars send; the names of Cao, Jia, Gong (USENIX Security 2021) are, but for none:
random perturbed-value attack (RPA), random item attack (RIA), maximal gain attack (MGA); and one
whose reports are as large as honest ones (Li, Li, Wang, Sun, 2025: adaptive pattern attack)."""


class Poisoned(NamedTuple):
    """What a collector is handed.

    Attributes:
        counts: (codes,).
        targets: the values that liars push up.
        honest: (d,) how many honest users hold each value.
    """

    counts: Counts
    targets: Targets
    honest: Counts


@dataclass(frozen=True)
class AttackedSystem(FigureLine):
    """A histogram system, and how some of its users lie.

    Attributes:
        name: one of `histograms.SYSTEMS`.
        attack: one of `ATTACKS`.
        share: of the users who lie, where systems differ in it.
    """

    name: str = ""
    attack: str = "none"
    share: float = 0.0

    def columns(self, cell: Cell) -> dict[str, Any]:
        return {
            **super().columns(cell),
            "system": self.name,
            "attack": self.attack,
            "liars": self.share,
            "honest": str(self).removesuffix(_lying(self.share)),
            "lying": f"-liars-{self.share:g}" if self.share else "",
        }

    def poisoned(
        self, oracle: FrequencyOracle, histogram: Counts, liars: int, size: int, rng: SeededRandom
    ) -> Poisoned:
        """What comes of a population of whom some lie, whoever they are.

        Args:
            oracle: what the others run.
            histogram: (d,) how many hold each value.
            liars: how many of them lie.
            size: how many values are pushed up; drawn at random.
            rng: repeatable randomness.
        """
        source = rng.generator()
        targets = np.sort(source.choice(histogram.size, size, replace=False)).astype(np.int64)
        if self.attack == "none":
            return Poisoned(oracle.simulate(histogram, rng), targets, histogram)
        lying = source.multivariate_hypergeometric(histogram, liars, method="marginals")
        honest = histogram - lying
        counts = oracle.simulate(honest, rng) + ATTACKS[self.attack](oracle, targets, liars, rng)
        return Poisoned(counts, targets, honest)


def lines(names: Sequence[str], attacks: Sequence[str]) -> list[AttackedSystem]:
    """Every system under every attack.

    Args:
        names: of systems, as `histograms.lines` takes them.
        attacks: names of attacks.
    """
    return [
        AttackedSystem(
            f"{line}, {attack}", line.bound, line.model, label=f"{line}, {attack}",
            name=line.system, attack=attack,
        )
        for line in histograms.lines(names, "exact")
        for attack in attacks
    ]  # fmt: skip


def pushed(names: Sequence[str], bound: str, shares: Sequence[float]) -> list[AttackedSystem]:
    """Every system, with each share of users who push one value up as far as they can.

    Args:
        names, bound: as `histograms.lines` takes them.
        shares: in [0, 1); a system with none is called as it is without liars.
    """
    return [
        AttackedSystem(
            f"{line.system}{_lying(share)}", line.bound, line.model, label=f"{line}{_lying(share)}",
            name=line.system, attack="target" if share else "none", share=share,
        )
        for line in histograms.lines(names, bound)
        for share in shares
    ]  # fmt: skip


def _lying(share: float) -> str:
    return f", {100 * share:g} % malicious clients" if share else ""
