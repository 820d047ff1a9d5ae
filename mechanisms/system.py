"""What a histogram system is: a mechanism, a rule that chooses its parameters, and what follows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mechanisms.central.histogram import CentralHistogram
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.target import Target

Fitted = FrequencyOracle | CentralHistogram
Fit = Callable[[Target], Fitted]


@dataclass(frozen=True)
class System:
    """One way to make a histogram.

    Attributes:
        name: as people type it.
        fits: (model, bound) -> the rule that chooses parameters for a target.
        postprocess: what the system does with its unbiased estimates: "pop" or "none".
        searched: whether "auto" looks at it; papers' systems are there to be named.
        several: whether its users send several messages.
        most: users of a shuffled batch beyond which "auto" does not wait for its accounting.
        source: who published it.
    """

    name: str
    fits: Mapping[tuple[str, str], Fit]
    source: str
    postprocess: str = "pop"
    searched: bool = False
    several: bool = False
    most: int = 1 << 40

    def serves(self, target: Target) -> bool:
        """Whether "auto" should consider it for a target."""
        allowed = target.max_messages > 1 or not self.several
        quick = target.model != "shuffle" or target.n <= self.most
        return self.searched and allowed and quick and (target.model, target.bound) in self.fits

    def fit(self, target: Target) -> Fitted:
        """Its best parameters for a target.

        Raises:
            ValueError: the system does not serve that model or bound, or cannot meet the target.
        """
        fit = self.fits.get((target.model, target.bound))
        if fit is not None:
            return fit(target)
        asked = _phrase(target.model, target.bound)
        serves = ", ".join(_phrase(*served) for served in self.fits)
        raise ValueError(f"{self.name} does not serve the {asked}; it serves the {serves}")


def _phrase(model: str, bound: str) -> str:
    return f"{model} model" if bound == "exact" else f"{model} model by its published bound"
