"""The best mechanisms for rows of numbers and categories, and how many attributes to report."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

from mechanisms.channel import require_epsilon, require_integer
from mechanisms.frequency import hashed_responses, projective_geometry
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.mean.hybrid import hm
from mechanisms.mean.optimal import Optimal
from mechanisms.mean.scalar import LARGEST_ALPHABET, ScalarMean
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.registry import register
from mechanisms.targets.rules import Target, most_shuffled
from mechanisms.vector.attribute_reports import Attribute
from mechanisms.vector.mixed_rows import MixedRows
from mechanisms.vector.rows import equal_share
from mechanisms.vector.shuffled_rows import ROUGH
from mechanisms.vector.task import AttributeTask, grid

_SHARES = (2.1, 2.5)  # what an attribute is best given: as we find it, and by the paper's rule
_FINEST = 1024  # cells


@register(
    "mixed_rows",
    task="attributes",
    sends="k of the attributes, numbers through `optimal`, categories through an oracle",
    source="Wang, Xiao, Yang et al., ICDE 2019, Algorithm 4 and section IV-C",
    searched=True,
    small=[
        {"epsilon": 1.0, "sizes": (None, 2), "cells": 2},
        {"epsilon": 2.0, "sizes": (3, 2), "sampled": 2},
    ],
    rules={"shuffle": lambda target: best_shuffled(target)},
)
def mixed_rows(
    epsilon: float,
    sizes: Sequence[int | None],
    cells: int = _FINEST,
    sampled: int | None = None,
    hides: bool = False,
) -> MixedRows:
    """The mechanism for rows whose attributes are numbers and categories.

    Args:
        epsilon: privacy loss of one user's report, in nats.
        sizes: of each attribute how many values it has, or None for a number in [-1, 1].
        cells: how many cells [-1, 1] is cut into; fewer if counters would not fit.
        sampled: k, how many attributes a user reports; by default the one of 1, epsilon / 2.1 and
            epsilon / 2.5 (rounded) at which the product of all attributes' variances is least,
            which does not depend on the units that they are measured in.
        hides: whether attributes may have no value, which is as private as one.

    Returns:
        Numbers through the optimal mean, or through the hybrid mechanism where epsilon / k is out
        of its range; categories through k-ary response, local hashing or projective geometry
        response, whichever has the least average variance.

    Raises:
        ValueError: a parameter is out of range.

    Source: Wang et al., ICDE 2019, section IV-C, with max(1, min(a, floor(epsilon / 2.5))).

    >>> rows = mixed_rows(1.0, [None, 2, 100])
    >>> rows.sampled, [type(x).__name__ for x in rows.attributes], rows.codes
    (1, ['Optimal', 'LinearHash', 'LinearHash'], 465)
    """
    require_epsilon(epsilon)
    if not len(sizes) >= 1:
        raise ValueError("there is no attribute to report")
    if sampled is not None:
        require_integer("sampled", sampled, 1, len(sizes))
        return _built(epsilon, sizes, cells, sampled, hides)
    # One attribute is always tried: with little epsilon, more of them only share it out.
    near = {1, *(r(epsilon / share) for share in _SHARES for r in (math.floor, math.ceil))}
    tried = sorted({max(1, min(len(sizes), k)) for k in near})
    built = [_built(epsilon, sizes, cells, k, hides) for k in tried]
    return min(built, key=_log_error)


def best_shuffled(target: Target[AttributeTask]) -> MixedRows:
    """The mechanism of least error that spends what a shuffled batch lets it."""
    sizes = target.task.sizes
    cells = grid(target.model, len(sizes))

    def reporting(sampled: int) -> Callable[[float], MixedRows]:
        return lambda epsilon: mixed_rows(epsilon, sizes, cells, sampled, target.task.hides)

    # What a batch hides of k attributes hardly depends on k: one of them ranks all.
    spent = most_shuffled(target, reporting(1), tolerance=ROUGH)
    near = {round_(spent / _SHARES[0]) for round_ in (math.floor, math.ceil)}
    tried = sorted({1} | {max(1, min(len(sizes), k)) for k in near})
    best = min((reporting(k)(spent) for k in tried), key=_log_error)
    family = reporting(best.sampled)
    return family(most_shuffled(target, family, guess=spent))


def _log_error(rows: MixedRows) -> float:
    return rows.log_error


def _built(
    epsilon: float, sizes: Sequence[int | None], cells: int, sampled: int, hides: bool
) -> MixedRows:
    """The mechanisms for a given k."""
    share = equal_share(epsilon, sampled)
    oracles = {size: oracle(share, size + hides) for size in set(sizes) if size is not None}
    numbers = sum(size is None for size in sizes)
    room = LARGEST_ALPHABET - sum(oracles[size].codes for size in sizes if size is not None)
    number: Attribute | None = None
    if numbers:
        usual = _number(share, cells, room // numbers - hides)
        number = WithUnusable(usual) if hides else usual
    chosen = (number if size is None else oracles[size] for size in sizes)
    return MixedRows(epsilon, sampled, tuple(x for x in chosen if x is not None), hides)


def _number(epsilon: float, cells: int, room: int) -> ScalarMean:
    """What randomises a number, with at most `room` codes if that is possible."""
    try:
        best: ScalarMean = Optimal(epsilon, cells)
    except ValueError:  # outside of the epsilons that it is made for
        best = hm(epsilon, cells)
    # A coarser grid costs little; the alphabet of all attributes together has a limit.
    while not best.codes <= room and cells > 1:
        cells //= 2
        best = hm(epsilon, cells)
    return best


@lru_cache(maxsize=256)
def oracle(epsilon: float, domain_size: int) -> FrequencyOracle:
    """The frequency oracle of one message a report that has the least average variance.

    Args:
        epsilon: of a report, in nats.
        domain_size: how many values.

    Raises:
        ValueError: a parameter is out of range.
    """
    tried = [
        hashed_responses.k_ary(epsilon, domain_size),
        hashed_responses.optimal_local(epsilon, domain_size),
        projective_geometry.optimal(epsilon, domain_size),
    ]
    return min(tried, key=lambda mechanism: mechanism.average_variance(1))
