"""Which mechanisms serve rows of numbers and categories best within a target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mechanisms.vector.mixed_choice import log_error, mixed_rows
from mechanisms.vector.mixed_rows import MixedRows
from mechanisms.vector_planner import BatchDesign, VectorTarget, most_shuffled

NAME = "mixed_rows"
SOURCE = "Wang, Xiao, Yang et al., ICDE 2019, section IV-C"

_BEST_SHARE = 2.1  # of epsilon, for each attribute sent


@dataclass(frozen=True)
class RowsDesign(BatchDesign):
    """A design for rows of numbers and categories."""

    mechanism: MixedRows


def design_rows(target: VectorTarget, sizes: Sequence[int | None]) -> RowsDesign:
    """The design for rows of numbers and categories.

    Args:
        target: what must hold; its dimension is the number of attributes.
        sizes: of each attribute how many values it has, or None for a number.

    Returns:
        The number k of attributes that a user reports is the one of least error (see
        `mixed_choice.mixed_rows`); in the shuffle model each k tried spends what its batch hides.

    Raises:
        ValueError: sizes of another number of attributes, or the target is out of reach.

    >>> target = VectorTarget("local", 1.0, 0.0, n=10_000, dimension=3)
    >>> design_rows(target, [None, 2, 50]).mechanism.sampled
    1
    """
    if len(sizes) != target.dimension:
        raise ValueError(f"there are {len(sizes)} attributes where {target.dimension} are meant")
    if target.model == "local" or target.epsilon is None:
        return RowsDesign(target, NAME, mixed_rows(target.spent, sizes, target.grid))
    one = _shuffled(target, sizes, 1)
    # What a batch hides of k attributes hardly depends on k: one of them ranks all.
    near = {round_(one.epsilon / _BEST_SHARE) for round_ in (math.floor, math.ceil)}
    tried = sorted({min(len(sizes), k) for k in near} - {0, 1})
    several = [mixed_rows(one.epsilon, sizes, target.grid, k) for k in tried]
    best = min([one, *several], key=log_error)
    if best is not one:
        best = min(one, _shuffled(target, sizes, best.sampled), key=log_error)
    return RowsDesign(target, NAME, best)


def _shuffled(target: VectorTarget, sizes: Sequence[int | None], sampled: int) -> MixedRows:
    """The mechanism of a given k that spends what a shuffled batch lets it."""

    def family(epsilon: float) -> MixedRows:
        return mixed_rows(epsilon, sizes, target.grid, sampled)

    return family(most_shuffled(target, family))
