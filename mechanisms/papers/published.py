"""Two mechanisms as their papers have them, whose claims do not hold: for comparison only."""

from dataclasses import dataclass
from functools import cached_property

from mechanisms.channel import Guarantee
from mechanisms.mean.scalar import require_cells
from mechanisms.mean.window import Window, WindowLaw
from mechanisms.papers.windows import improved_shape, published_reach, require_improved
from mechanisms.registry import register


@dataclass(frozen=True)
class PublishedImproved(Window):
    """IM as published: delta is added to the window's density, whatever mass that comes to.

    Attributes:
        delta: what the report does spend at epsilon.
        claimed_delta: what the paper says it spends.
    """

    claimed_delta: float = 0.0

    @property
    def claimed(self) -> Guarantee:
        """What the paper says of the mechanism."""
        return Guarantee.of_report(self.epsilon, self.claimed_delta, "claimed by Zhang et al. 2023")

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.none(
            "as published: delta bounds the densities and not the probabilities, so that at "
            f"epsilon {self.epsilon} one report spends a delta of {self.delta:.3g} where "
            f"{self.claimed_delta:.3g} is claimed"
        )


@dataclass(frozen=True)
class PublishedDct(Window):
    """DCT as published: the report is uniform on a range around the value.

    Attributes:
        epsilon: the loss that the paper claims; no epsilon bounds the report's.
        width: how many codes the range has.
    """

    @property
    def claimed(self) -> Guarantee:
        """What the paper says of the mechanism."""
        return Guarantee.of_report(self.epsilon, 0.0, "claimed by Zhu, Wang, Sun")

    @cached_property
    def law(self) -> WindowLaw:
        """All weight is in the window."""
        return WindowLaw(self.cells, self.width, self.margin, 1, 0)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee.none(
            "as published: the report is uniform on a range around the value, so two values are "
            f"told apart with certainty in {min(1.0, self.cells / self.width):.3g} of the reports "
            "whatever epsilon is"
        )


@register(
    "im_published",
    task="mean",
    sends="as published, where its delta does not hold",
    source="Zhang, Zhu, Zhou, Yuan, J. Electronics and Information Technology 2023",
    models=["local"],
    claims_hold=False,
    small=[
        {"epsilon": 1.0, "delta": 0.05, "cells": 7},
        {"epsilon": 0.5, "delta": 0.01, "cells": 12},
    ],
)
def im_published(epsilon: float, delta: float, cells: int = 1024) -> PublishedImproved:
    """IM as published. It violates its delta for epsilon below 2 ln 3, by up to a factor of 39.

    Args:
        epsilon: the loss that the paper claims, in nats; above 2 ln(1 + 4 delta).
        delta: the delta that the paper claims, in [0, 1).
        cells: how many cells [-1, 1] is cut into.

    Returns:
        The mechanism, which guarantees nothing.

    Raises:
        ValueError: a parameter is out of range.

    Source: Zhang, Zhu, Zhou, Yuan, "Mean estimation mechanisms under (epsilon, delta)-local
        differential privacy", J. Electronics and Information Technology 2023, Algorithm 1.
    """
    require_improved(epsilon, delta)
    require_cells(cells)
    shape = improved_shape(epsilon, delta)
    width = max(1, round(shape.ratio * cells))
    return PublishedImproved(epsilon, cells, width, delta * shape.outside, 0, delta)


@register(
    "dct_published",
    task="mean",
    sends="as published, where no epsilon bounds it",
    source="Zhu, Wang, Sun, J. Computer Research and Development",
    models=["local"],
    claims_hold=False,
    small=[{"epsilon": 0.05, "cells": 7}, {"epsilon": 1.0, "cells": 12}],
)
def dct_published(epsilon: float, cells: int = 1024, alpha: float = 5.0) -> PublishedDct:
    """DCT as published: the value plus uniform noise on [-d, d], d = 1 / (alpha epsilon).

    The paper flips a fair coin, randomises it, and reports from the inner or the outer half of
    the range accordingly. A randomised fair coin is a fair coin.

    Args:
        epsilon: the loss that the paper claims, in nats.
        cells: how many cells [-1, 1] is cut into.
        alpha: the paper's parameter.

    Returns:
        The mechanism, which guarantees nothing.

    Raises:
        ValueError: a parameter is out of range.

    Source: Zhu, Wang, Sun, "A perturbation mechanism for classified transformation satisfying
        LDP", J. Computer Research and Development, Algorithm 3. The variance it states is not
        that of its report, which is d^2 / 3.
    """
    reach = published_reach(epsilon, cells, alpha)
    return PublishedDct(epsilon, cells, max(1, round(reach * cells)))
