"""Which mechanism estimates the mean of rows with the least worst-case error within a target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mechanisms import catalog
from mechanisms.design import ReleaseDesign
from mechanisms.shuffled_rows import LARGEST_SHARE, SAMPLED, shuffled_mechanism
from mechanisms.vector.base import VectorMean
from mechanisms.vector.row_error import worst_error
from mechanisms.vector_target import VectorTarget, build

AUTO = "auto"  # the mechanism of least worst-case error

# What auto compares: the unbiased ones. A projection's bias stays, however many users report.
SEARCHED = ("multi_optimal", "multi_hm", "meanest", "laplace_vector")
SEARCHED_IN_A_BALL = (*SEARCHED, "privunit")


@dataclass(frozen=True)
class VectorDesign(ReleaseDesign):
    """A design for the mean of rows of numbers."""

    target: VectorTarget
    mechanism: VectorMean

    @property
    def error(self) -> float:
        """The largest mean squared error of a coordinate, on average over them, for n rows."""
        return worst_error(self.mechanism, self.target.mean_square, self.target.n)


def design(target: VectorTarget, name: str = AUTO) -> VectorDesign:
    """The design of least worst-case error, of one mechanism or of all.

    Args:
        target: what must hold.
        name: of a mechanism of the task "vector", or "auto".

    Returns:
        The design; auto compares unbiased mechanisms. With a radius these include PrivUnit, whose
        clients compare a row with some hundred random lines: slow where d is large.

    Raises:
        ValueError: the name is unknown, or the target is out of reach.

    >>> found = design(VectorTarget("local", 1.0, 0.0, n=10_000, dimension=400))
    >>> found.name, round(found.error, 3)
    ('multi_optimal', 0.2)
    """
    if name != AUTO:
        catalog.find(name, catalog.of_task("vector"))
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
