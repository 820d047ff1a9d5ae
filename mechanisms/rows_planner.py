"""Which mechanisms serve rows of numbers and categories best within a target."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mechanisms.design import ReleaseDesign
from mechanisms.shuffled_rows import ROUGH, most_shuffled
from mechanisms.vector.mixed_choice import log_error, mixed_rows
from mechanisms.vector.mixed_rows import MixedRows
from mechanisms.vector_target import VectorTarget

NAME = "mixed_rows"

_BEST_SHARE = 2.1  # of epsilon, for each attribute sent


@dataclass(frozen=True)
class RowsDesign(ReleaseDesign):
    """A design for rows of numbers and categories."""

    target: VectorTarget
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
    return RowsDesign(target, NAME, _best_shuffled(target, sizes))


def _best_shuffled(target: VectorTarget, sizes: Sequence[int | None]) -> MixedRows:
    """The mechanism of least error that spends what a shuffled batch lets it."""
    # What a batch hides of k attributes hardly depends on k: one of them ranks all.
    spent = most_shuffled(target, _family(target, sizes, 1), tolerance=ROUGH)
    near = {round_(spent / _BEST_SHARE) for round_ in (math.floor, math.ceil)}
    tried = sorted({1} | {max(1, min(len(sizes), k)) for k in near})
    best = min((_family(target, sizes, k)(spent) for k in tried), key=log_error)
    family = _family(target, sizes, best.sampled)
    return family(most_shuffled(target, family, guess=spent))


def _family(
    target: VectorTarget, sizes: Sequence[int | None], sampled: int
) -> Callable[[float], MixedRows]:
    """The mechanisms of a given k, by what a user's messages spend."""

    def family(epsilon: float) -> MixedRows:
        return mixed_rows(epsilon, sizes, target.grid, sampled)

    return family
