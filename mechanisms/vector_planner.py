"""Which mechanism estimates the mean of rows with the least worst-case error within a target."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from mechanisms import catalog
from mechanisms.channel import Guarantee, Mechanism
from mechanisms.privacy.amplification import shuffled_epsilon
from mechanisms.shuffled_rows import LARGEST_SHARE, SAMPLED, shuffled_mechanism
from mechanisms.vector.base import VectorMean
from mechanisms.vector.row_error import worst_error
from mechanisms.vector_target import VectorTarget, build

AUTO = "auto"  # the mechanism of least worst-case error

# What auto compares: the unbiased ones. A projection's bias stays, however many users report.
SEARCHED = ("multi_optimal", "multi_hm", "meanest", "laplace_vector")
SEARCHED_IN_A_BALL = (*SEARCHED, "privunit")

_HOW_SHUFFLED = (
    "numerical accountant: the privacy blanket (Balle, Bell, Gascon, Nissim 2019, Lemma 5.3) of "
    "what a user reports, whichever coordinates differ, tails added"
)

SOURCES: Mapping[str, str] = {
    "multi_hm": "Wang, Xiao, Yang et al., ICDE 2019",
    "multi_optimal": "coordinate sampling of Wang et al., ICDE 2019, over the optimal scalar mean",
    "meanest": "Duchi, Jordan, Wainwright, JASA 2018, corrected for even dimensions",
    "laplace_vector": "Dwork, McSherry, Nissim, Smith, TCC 2006, as discrete noise",
    "multi_rphm": "Sun, Yang, Cheng, Su, Big Data Research 2020",
    "privunit": "Bhowmick, Duchi, Freudiger, Kapoor, Rogers 2018, on a finite code",
}
"""Who published each mechanism."""


@dataclass(frozen=True)
class BatchDesign:
    """One way to meet a target with messages that say nothing of who sent them.

    Attributes:
        target: what had to hold.
        name: of the mechanism.
        mechanism: with its parameters.
    """

    target: VectorTarget
    name: str
    mechanism: Mechanism

    @property
    def local(self) -> Guarantee:
        """What one user's messages reveal to whoever sees them before the shuffle."""
        return replace(self.mechanism.local, unit=self.target.unit)

    @cached_property
    def release(self) -> Guarantee:
        """What the published result reveals."""
        target = self.target
        if target.model == "local":
            return self.local
        lower, upper = shuffled_epsilon(self.mechanism, target.n, target.delta)
        if target.epsilon is not None:
            # The budget was solved for exactly this epsilon, and both searches end on the
            # private side: the smaller of two bounds that hold.
            upper = min(upper, target.epsilon)
        how = _HOW_SHUFFLED + (f"; batches exist that lose {lower:.6g}" if lower else "")
        return Guarantee("shuffle", upper, target.delta, target.unit, how)

    @property
    def bits(self) -> int:
        """How many bits a message takes on the wire at the least."""
        return max(1, (self.mechanism.codes - 1).bit_length())


@dataclass(frozen=True)
class VectorDesign(BatchDesign):
    """A design for the mean of rows of numbers."""

    mechanism: VectorMean

    @property
    def error(self) -> float:
        """The largest mean squared error of a coordinate, on average over them, for n rows."""
        return worst_error(self.mechanism, self.target.mean_square, self.target.n)


def design(target: VectorTarget, name: str = AUTO) -> VectorDesign:
    """The design of least worst-case error, of one mechanism or of all.

    Args:
        target: what must hold.
        name: of a mechanism in `catalog.VECTOR`, or "auto".

    Returns:
        The design; auto compares unbiased mechanisms. With a radius these include PrivUnit, whose
        clients compare a row with some hundred random lines: slow where d is large.

    Raises:
        ValueError: the name is unknown, or the target is out of reach.

    >>> found = design(VectorTarget("local", 1.0, 0.0, n=10_000, dimension=400))
    >>> found.name, round(found.error, 3)
    ('multi_optimal', 0.2)
    """
    if name != AUTO and name not in catalog.VECTOR:
        raise ValueError(f"unknown mechanism {name!r}; there are: {', '.join(catalog.VECTOR)}")
    amplified = target.model == "shuffle" and target.epsilon is not None
    fitted = shuffled_mechanism if amplified else _spending
    tried = [name] if name != AUTO else list(searched(target, amplified))
    found: list[VectorDesign] = []
    refusals: list[ValueError] = []
    for each in tried:
        try:
            found.append(VectorDesign(target, each, fitted(target, each)))
        except ValueError as error:  # outside the range of this one, say
            refusals.append(error)
        if amplified and found and each in SAMPLED and name == AUTO:
            break  # the next one is worse wherever this one works
    if not found:
        raise refusals[0]
    return min(found, key=lambda design: design.error)


def searched(target: VectorTarget, amplified: bool) -> Sequence[str]:
    """What auto compares: of corners and Laplace noise a batch is known to hide too little.

    Args:
        target: what must hold.
        amplified: whether what reports spend is derived from what a batch hides.
    """
    if amplified:
        return SAMPLED if target.radius is None else ("privunit", *SAMPLED)
    return SEARCHED if target.radius is None else SEARCHED_IN_A_BALL


def _spending(target: VectorTarget, name: str) -> VectorMean:
    """A mechanism whose clients spend all that may be spent."""
    most = LARGEST_SHARE * target.dimension if name == "multi_optimal" else math.inf
    return build(target, name, min(target.spent, most))
