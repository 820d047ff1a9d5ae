"""Which mechanism estimates the mean of rows with the least worst-case error within a target."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from mechanisms import catalog
from mechanisms.channel import Guarantee, Mechanism, require_epsilon
from mechanisms.mean.scalar import LARGEST_ALPHABET
from mechanisms.mean_planner import MODELS
from mechanisms.privacy.amplification import shuffled_epsilon
from mechanisms.privacy.blanket import require_batch, require_delta
from mechanisms.privacy.budget import largest_shuffled
from mechanisms.vector.base import VectorMean
from mechanisms.vector.row_error import worst_error
from mechanisms.vector.rows import require_dimension

AUTO = "auto"  # the mechanism of least worst-case error

# What auto compares: the unbiased ones. A projection's bias stays, however many users report.
SEARCHED = ("multi_optimal", "multi_hm", "meanest", "laplace_vector")
SEARCHED_IN_A_BALL = (*SEARCHED, "privunit")
SAMPLED = ("multi_optimal", "multi_hm")  # whose shuffled batches are accounted for best

_LOCAL_CELLS, _SHUFFLE_CELLS = 1024, 256
_LARGEST_SHARE = 8.0  # up to which epsilon of one coordinate `Optimal` is made
_BEST_SHARE = {"multi_optimal": 2.1, "multi_hm": 2.5}  # of epsilon, for each coordinate sent
_LARGEST_MATRIX = 1 << 24  # entries of a projection

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
class VectorTarget:
    """What the mean of rows must satisfy.

    Attributes:
        model: "local" or "shuffle".
        epsilon: of the release, in nats; None in the shuffle model derives it from epsilon_local.
        delta: of the release; 0 in the local model.
        n: the least number of rows.
        dimension: d, how many numbers a row has, each in [-1, 1].
        epsilon_local: the most that one user's report may reveal, or None.
        unit: whose row is protected: "row" or "user".
        radius: a length that no row exceeds (public, on the scale of [-1, 1]), or None.

    Raises:
        ValueError: one of them is out of range.
    """

    model: str
    epsilon: float | None
    delta: float
    n: int
    dimension: int
    epsilon_local: float | None = None
    unit: str = "row"
    radius: float | None = None

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise ValueError(f"model must be one of {', '.join(MODELS)}, not {self.model}")
        if self.epsilon is None and self.epsilon_local is None:
            raise ValueError("epsilon is missing: name the privacy loss that you accept")
        for epsilon in (self.epsilon, self.epsilon_local):
            if epsilon is not None:
                require_epsilon(epsilon)
        require_batch(self.n)
        require_dimension(self.dimension)
        if self.radius is not None and not 0 < self.radius < math.inf:
            raise ValueError(f"radius must be a positive, finite number, not {self.radius}")
        if self.model == "shuffle":
            require_delta(self.delta)
        elif self.delta != 0:
            raise ValueError(
                f"delta must be 0 in the local model, not {self.delta}: no mechanism for rows "
                "makes use of it"
            )

    @property
    def cap(self) -> float:
        """The most a client may spend."""
        return math.inf if self.epsilon_local is None else self.epsilon_local

    @property
    def spent(self) -> float:
        """What a report spends where nothing amplifies: the least of the epsilons named."""
        return min(e for e in (self.epsilon, self.epsilon_local) if e is not None)

    @property
    def grid(self) -> int:
        """How many cells: a power of two of which windows' codes fit the counters."""
        cells = _SHUFFLE_CELLS if self.model == "shuffle" else _LOCAL_CELLS
        while cells > 1 and self.dimension * (2 * cells + 2) > LARGEST_ALPHABET:
            cells //= 2
        return cells

    @property
    def mean_square(self) -> float:
        """The most that the squares of a row's numbers average."""
        return 1.0 if self.radius is None else min(1.0, self.radius**2 / self.dimension)


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
    tried = [name] if name != AUTO else list(_searched(target, amplified))
    found: list[VectorDesign] = []
    refusals: list[ValueError] = []
    for each in tried:
        try:
            found += _amplified(target, each) if amplified else [_spending(target, each)]
        except ValueError as error:  # outside the range of this one, say
            refusals.append(error)
        if amplified and found and each in SAMPLED and name == AUTO:
            break  # the next one is worse wherever this one works
    if not found:
        raise refusals[0]
    return min(found, key=lambda design: design.error)


def _searched(target: VectorTarget, amplified: bool) -> Sequence[str]:
    """What auto compares; of corners and Laplace noise a batch is known to hide too little."""
    if amplified:
        return SAMPLED if target.radius is None else ("privunit", *SAMPLED)
    return SEARCHED if target.radius is None else SEARCHED_IN_A_BALL


def _spending(target: VectorTarget, name: str) -> VectorDesign:
    """A design whose clients spend all that may be spent."""
    most = _LARGEST_SHARE * target.dimension if name == "multi_optimal" else math.inf
    return VectorDesign(target, name, build(target, name, min(target.spent, most)))


def _amplified(target: VectorTarget, name: str) -> list[VectorDesign]:
    """Designs whose clients spend what a shuffled batch lets them, of one k or of two."""
    if name not in SAMPLED:
        return [_shuffled(target, name)]
    # What a batch hides of k coordinates hardly depends on k: one of them ranks all.
    one = _shuffled(target, name, sampled=1)
    spent = one.mechanism.epsilon
    near = {round_(spent / _BEST_SHARE[name]) for round_ in (math.floor, math.ceil)}
    tried = [
        VectorDesign(target, name, build(target, name, spent, sampled=k))
        for k in sorted({min(target.dimension, k) for k in near} - {0, 1})
    ]
    best = min([one, *tried], key=lambda design: design.error)
    if best is one:
        return [one]
    return [one, _shuffled(target, name, sampled=round(best.mechanism.messages))]


def _shuffled(target: VectorTarget, name: str, **more: int) -> VectorDesign:
    """The design of one family of mechanisms."""

    def family(epsilon: float) -> VectorMean:
        return build(target, name, epsilon, **more)

    cap = _LARGEST_SHARE * more["sampled"] if name == "multi_optimal" else math.inf
    return VectorDesign(target, name, family(most_shuffled(target, family, cap)))


def most_shuffled(
    target: VectorTarget, family: Callable[[float], Mechanism], cap: float = math.inf
) -> float:
    """The most that a user's messages may spend in a shuffled batch.

    Args:
        target: of the shuffle model.
        family: the mechanism of an epsilon_local.
        cap: the most that the family can spend.
    """
    if target.epsilon is None:
        return min(target.spent, cap)
    cap = min(target.cap, cap)
    return largest_shuffled(target.epsilon, target.delta, target.n, family, cap)


def build(target: VectorTarget, name: str, epsilon: float, **more: int) -> VectorMean:
    """A mechanism of the catalogue for a target's rows.

    Args:
        target: its dimension, radius and grid.
        name: in `catalog.VECTOR`.
        epsilon: what a user's report spends.
        **more: other parameters.

    Raises:
        ValueError: a parameter is out of range.
    """
    constructor = catalog.VECTOR[name]
    offered = {
        "cells": target.grid if name != "laplace_vector" else None,
        "radius": target.radius,
        "projected": max(
            1, min(round(0.3 * target.dimension), _LARGEST_MATRIX // target.dimension)
        ),
    }
    taken = inspect.signature(constructor).parameters
    fitting = {key: value for key, value in offered.items() if key in taken and value is not None}
    return constructor(epsilon=epsilon, dimension=target.dimension, **(fitting | more))
