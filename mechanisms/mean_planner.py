"""Which mechanism estimates a mean with the least worst-case variance within a privacy target."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from functools import lru_cache

from mechanisms import catalog
from mechanisms.channel import Mechanism
from mechanisms.design import ReleaseDesign
from mechanisms.mean.key_value import KeyValue
from mechanisms.mean.scalar import ScalarMean, require_cells, require_slack
from mechanisms.privacy.budget import largest_local_epsilon, largest_shuffled
from mechanisms.target import ReleaseTarget

AUTO = "auto"  # the mechanism of least worst-case variance
KEY_VALUE = "key_value"

LOCAL_CELLS, SHUFFLE_CELLS = 1024, 256

_KEY_VALUE_CELLS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


@dataclass(frozen=True)
class MeanTarget(ReleaseTarget):
    """What a mean must satisfy.

    Attributes:
        model: "local" or "shuffle".
        epsilon: of the release, in nats; None in the shuffle model derives it from epsilon_local.
        delta: of the release; of every single report in the local model.
        n: the least number of reports.
        epsilon_local: the most that one report may reveal, or None.
        unit: whose value is protected: "row" or "user".
        cells: how finely values are rounded; None chooses.

    Raises:
        ValueError: one of them is out of range.
    """

    model: str
    epsilon: float | None
    delta: float
    n: int
    epsilon_local: float | None = None
    unit: str = "row"
    cells: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cells is not None:
            require_cells(self.cells)

    def _require_delta_unshuffled(self) -> None:
        """Refuse what no single report may have."""
        require_slack(self.delta)

    @property
    def grid(self) -> int:
        """How many cells, where nobody said."""
        if self.cells is not None:
            return self.cells
        return SHUFFLE_CELLS if self.model == "shuffle" else LOCAL_CELLS


@dataclass(frozen=True)
class MeanDesign(ReleaseDesign):
    """A design for means, or for what is made of the same grid points."""

    target: MeanTarget
    mechanism: Mechanism


@dataclass(frozen=True)
class ScalarDesign(MeanDesign):
    """A design for one mean, or for the mean of each public group."""

    mechanism: ScalarMean


@dataclass(frozen=True)
class KeyValueDesign(MeanDesign):
    """A design for the mean of each private group."""

    mechanism: KeyValue


@lru_cache(maxsize=64)  # metrics of a plan often ask for the same
def design(target: MeanTarget, name: str = AUTO) -> ScalarDesign:
    """The design with the least worst-case variance, of one mechanism or of all.

    Args:
        target: what must hold.
        name: of a mechanism of the task "mean", or "auto".

    Raises:
        ValueError: the name is unknown, or the target is out of reach.

    >>> design(MeanTarget("local", 1.0, 0.0, n=1)).name
    'optimal'
    """
    if name != AUTO:
        catalog.find(name, catalog.of_task("mean"))
    if target.model == "local" or target.epsilon is None:
        return _best(target, name, target.spent)
    if name == AUTO:
        # What a batch lets a report spend hardly depends on the family: k-ary response, whose
        # accountant is the fastest, ranks them all.
        spend = largest_local_epsilon(
            target.epsilon, target.delta, target.n, target.grid + 1, cap=target.cap
        )
        name = _best(target, name, spend).name
    return ScalarDesign(target, name, _build(target, name, _amplified(target, name)))


def _best(target: MeanTarget, name: str, epsilon: float) -> ScalarDesign:
    """The least worst-case variance at a given epsilon_local."""
    found: list[ScalarDesign] = []
    refusals: list[ValueError] = []
    means = catalog.of_task("mean")
    searched = [each for each, one in means.items() if target.model in one.searched]
    for each in searched if name == AUTO else (name,):
        spent = min(epsilon, means[each].largest_epsilon) if name == AUTO else epsilon
        try:
            found.append(ScalarDesign(target, each, _build(target, each, spent)))
        except ValueError as error:  # outside the range of this one, say
            refusals.append(error)
    if not found:
        raise refusals[0]
    return min(found, key=lambda design: design.mechanism.worst_variance)


def _build(target: MeanTarget, name: str, epsilon: float) -> ScalarMean:
    """A mechanism; in the local model it spends delta too, if it can."""
    parameters: dict[str, float] = {"epsilon": epsilon, "cells": target.grid}
    taken = catalog.of_task("mean")[name].parameters
    if target.model == "local" and target.delta > 0 and "delta" in taken:
        parameters["delta"] = target.delta
    elif "delta" in taken and taken["delta"].default is inspect.Parameter.empty:
        where = "the local model" if target.model == "local" else "the shuffle model"
        raise ValueError(
            f"{name} needs a delta of every single report, which is 0 here in {where}; "
            + ("name a --delta" if target.model == "local" else "use the local model")
        )
    return catalog.build_mean(name, **parameters)


def _amplified(target: MeanTarget, name: str) -> float:
    """The most that a report of a mechanism may spend in a shuffled batch."""
    if target.epsilon is None:
        return target.spent

    def family(epsilon: float) -> Mechanism:
        return _build(target, name, epsilon)

    cap = min(target.cap, catalog.of_task("mean")[name].largest_epsilon)
    return largest_shuffled(target.epsilon, target.delta, target.n, family, cap)


def design_groups(target: MeanTarget, groups: int) -> KeyValueDesign:
    """The joint response on (group, value) whose grid has the least error for groups of equal size.

    Args:
        target: what must hold; epsilon protects group and value together.
        groups: how many, at least 2.

    Raises:
        ValueError: the target is out of reach.

    >>> design_groups(MeanTarget("local", 1.0, 0.0, n=1), 5).mechanism.cells
    1
    """
    grids = _KEY_VALUE_CELLS if target.cells is None else (target.cells,)
    best: KeyValueDesign | None = None
    error = math.inf
    for cells in grids:
        mechanism = _key_value(target, groups, cells)
        expected = mechanism.worst_variance(1 / groups)
        if not expected < error:
            break  # finer grids lie more, and round no better by as much
        best, error = KeyValueDesign(target, KEY_VALUE, mechanism), expected
    if best is None:
        raise ValueError("epsilon is too small for so many groups")
    return best


def _key_value(target: MeanTarget, groups: int, cells: int) -> KeyValue:
    if target.model == "local" or target.epsilon is None:
        return KeyValue(target.spent, groups, cells)

    def family(epsilon: float) -> KeyValue:
        return KeyValue(epsilon, groups, cells)

    codes = family(1.0).codes
    args: tuple[float, float, int, int] = (target.epsilon, target.delta, target.n, codes)
    return family(largest_local_epsilon(*args, cap=target.cap))
