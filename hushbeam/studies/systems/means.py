"""Mechanisms for means, and how each turns its counts into a mean."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from hushbeam.studies.engine.cells import Cell, FigureLine, expanded
from hushbeam.studies.systems.bins import UniformBins, mean_of_bins
from hushbeam.studies.systems.number_sums import SYSTEMS as SUMS
from hushbeam.studies.systems.number_sums import SumSystem
from mechanisms.catalog import of_task, published
from mechanisms.channel import Counts
from mechanisms.mean.scalar import ScalarMean
from mechanisms.mean.window import Window
from mechanisms.postprocess import expectation_maximisation
from mechanisms.registry import Registration
from pipelines.errors import RequestError

BEST = "best"  # the alpha of least worst-case variance

ITERATED = {"nm-em": False, "nm-ems": True}
"""Name -> whether expectation maximisation over the reports of NM is smoothed."""

MEANS, PUBLISHED = of_task("mean"), published("mean")

SUMMED: Mapping[str, str] = {
    f"{name}@central" if system.model == "central" else name: name for name, system in SUMS.items()
}
"""Name -> the system for sums; curators' have names that reports have, too."""

NAMES = (*MEANS, *ITERATED, *PUBLISHED, *SUMMED)


@dataclass(frozen=True)
class MeanSystem(FigureLine):
    """A mechanism by name, with the parameters that are not privacy's.

    Attributes:
        name: of a mechanism, or of what iterates over its reports.
        alpha: DCT's; None for its best, and for mechanisms that have none.
    """

    name: str = ""
    alpha: float | None = None

    @property
    def published(self) -> bool:
        """Whether its claim is its paper's, and does not hold."""
        return self.bound == "published"

    @property
    def unbiased(self) -> bool:
        """Whether the mean is decoded, and not iterated."""
        return self.name not in ITERATED

    def estimate(self, mechanism: ScalarMean, counts: Counts, n: int) -> dict[str, float]:
        """The mean, from the counts of n reports alone, and how it was come by."""
        if self.unbiased:
            return {"estimate": float(mechanism.estimate(counts))}
        return iterated_mean(mechanism, counts, n, smooth=ITERATED[self.name])

    def columns(self, cell: Cell) -> dict[str, Any]:
        family = str(self) if self.alpha is None else self.name
        return {
            **super().columns(cell), "system": self.name, "alpha": self.alpha, "family": family
        }  # fmt: skip

    def claimed_delta(self, delta: float) -> float:
        """What the system says it spends, of what is allowed: 0 where it takes no delta."""
        return delta if "delta" in _reports(self.name).parameters else 0.0

    def build(self, epsilon: float, delta: float) -> ScalarMean:
        """The mechanism.

        Raises:
            ValueError: a parameter is out of its range.
        """
        known = {"epsilon": epsilon, "delta": delta, "alpha": self.alpha}
        registration = _reports(self.name)
        taken = {key: known[key] for key in known if key in registration.parameters}
        return cast(ScalarMean, registration.constructor(**taken))


@dataclass(frozen=True)
class SummedMean(SumSystem):
    """A system for sums: its release is private as a whole; how many users there are is public."""

    def columns(self, cell: Cell) -> dict[str, Any]:
        return {
            **super().columns(cell), "system": self.system, "alpha": None, "family": str(self)
        }  # fmt: skip


def iterated_mean(mechanism: ScalarMean, counts: Counts, n: int, smooth: bool) -> dict[str, float]:
    """The mean by expectation maximisation, from the counts of n reports alone; it is biased."""
    if not isinstance(mechanism, Window):
        raise TypeError("expectation maximisation is for window mechanisms here")
    bins = min(expectation_maximisation.bins_for(n), mechanism.cells)
    channel = UniformBins(mechanism.law.products, bins)
    fitted = expectation_maximisation.fit(counts, channel, smooth=smooth, accelerate=not smooth)
    mean = mean_of_bins(fitted.distribution)
    return {"estimate": mean, "iterations": fitted.iterations}


def lines(
    names: Sequence[str], alphas: Sequence[str], sets: Mapping[str, Sequence[str]]
) -> tuple[MeanSystem | SummedMean, ...]:
    """The lines of a request.

    Args:
        names: of systems or of sets.
        alphas: numbers, or "best", for each DCT among them; as published it has no best.
        sets: name -> systems.

    Returns:
        Each line once, in the order of the request.

    Raises:
        RequestError: a name or an alpha is none, or a system is left without any.

    >>> [str(line) for line in lines(["a"], ["2", "best"], {"a": ["duchi", "dct"]})]
    ['duchi', 'dct, alpha 2', 'dct, best alpha']
    """
    numbers = list(dict.fromkeys(_alpha(text) for text in alphas))
    members = expanded(names, NAMES, sets)
    return tuple(system for name in members for system in _variants(name, numbers))


def _variants(name: str, alphas: Sequence[float | None]) -> Sequence[MeanSystem | SummedMean]:
    """A system for each alpha that it can take; legends leave out what goes without saying."""
    if name in SUMMED:
        model = SUMS[SUMMED[name]].model
        central = model == "central"
        return [SummedMean(name, "exact", model, reference=central, name=SUMMED[name])]
    published = name in PUBLISHED
    bound = "published" if published else "exact"
    if "alpha" not in _reports(name).parameters:
        return [MeanSystem(name, bound, name=name)]
    able = [alpha for alpha in alphas if alpha is not None or not published]
    if not able:
        raise RequestError(f"--alphas: {name} needs a number; {BEST} is for dct")
    if len(able) == 1 and able[0] is not None:
        return [MeanSystem(f"{name}:{able[0]:g}", bound, name=name, alpha=able[0], label=name)]
    words = [BEST if alpha is None else f"{alpha:g}" for alpha in able]
    labels = [f"{BEST} alpha" if word == BEST else f"alpha {word}" for word in words]
    return [
        MeanSystem(f"{name}:{word}", bound, name=name, alpha=alpha, label=f"{name}, {label}")
        for alpha, word, label in zip(able, words, labels, strict=True)
    ]


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


def _reports(name: str) -> Registration:
    """The mechanism whose reports a system collects."""
    return {**MEANS, **PUBLISHED}["nm" if name in ITERATED else name]
