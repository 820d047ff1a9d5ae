"""Duchi's mechanism in many dimensions (MeanEST), as corrected and as published.

In an even dimension some corners are on neither side of the user's own. Whoever counts them with
both sides makes them as likely as both together, which loses ln(1 + e^epsilon) instead of epsilon.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Guarantee
from mechanisms.randomness import RandomSource, Words
from mechanisms.registry import register
from mechanisms.vector.corners import Corners

_WORD = 1 << 64


@register(
    "meanest",
    task="vector",
    sends="a corner of the cube, in d messages",
    source="Duchi, Jordan, Wainwright, JASA 2018, corrected for even dimensions",
    searched=["local"],
    small=[
        {"epsilon": 2.0, "dimension": 1},
        {"epsilon": 1.0, "dimension": 2},
        {"epsilon": 0.5, "dimension": 3},
        {"epsilon": 2.0, "dimension": 4},
    ],
)
@dataclass(frozen=True)
class Meanest(Corners):
    """MeanEST with ties that stay where they are: they are as likely under every input.

    A corner is drawn uniformly, turned to the user's side if it is on the other, and turned round
    with probability 1 / (e^epsilon + 1): linear time, and no corner is ever searched for.

    Attributes:
        epsilon: privacy loss of the messages of a user together, in nats.
        dimension: d, how many numbers a row has.

    Source: Duchi, Jordan, Wainwright, "Minimax optimal procedures for locally private
        estimation", JASA 2018, section 4.2.3; MeanEST in Sun, Yang, Cheng, Su, "High-dimensional
        numeric data collection under local differential privacy based on random projection", Big
        Data Research 2020. Corrected for even d, where the published form is not private; see
        `MeanestPublished`.

    >>> mechanism = Meanest(epsilon=1.0, dimension=2)
    >>> mechanism.codes, round(mechanism.scale, 3)
    (4, 4.328)
    """

    @property
    def side(self) -> int:
        return self.outcomes

    @property
    def tie_weight(self) -> int:
        return _WORD // 2

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            "local",
            self.epsilon,
            0.0,
            "report",
            "closed form: a corner's probability takes three values, by the side it is on, that of "
            "neither side between the two others, whose ratio in integers is at most e^epsilon",
        )

    def pairs(self) -> Iterable[tuple[int, int]]:
        """One pair: opposite corners, either way round alike.

        Between two other corners some reports are a tie for one of the two alone. As many are the
        one as the other, and together they tell less than as many that are on opposite sides.
        """
        return [(0, self.inputs - 1)]


@register(
    "meanest_published",
    task="vector",
    sends="as published, where an even d loses ln(1 + e^epsilon)",
    source="Duchi, Jordan, Wainwright, JASA 2018",
    models=["local"],
    claims_hold=False,
    small=[{"epsilon": 1.0, "dimension": dimension} for dimension in (2, 3, 4)],
)
@dataclass(frozen=True)
class MeanestPublished(Corners):
    """MeanEST as published: corners on neither side are drawn with both. For comparison only.

    Attributes:
        epsilon: the loss that the paper claims, in nats. In an even dimension it is
            ln(1 + e^epsilon).
        dimension: d, how many numbers a row has.

    Source: Duchi, Jordan, Wainwright, JASA 2018, section 4.2.3, whose sets are closed half-spaces.

    >>> MeanestPublished(epsilon=1.0, dimension=2).guarantee.model
    'none'
    """

    @property
    def side(self) -> int:
        return self.outcomes + self.ties

    @property
    def tie_weight(self) -> int:
        return _WORD

    def _near(self, own: Words, rng: RandomSource) -> tuple[Words, NDArray[np.int64]]:
        corners, product = self._uniform(own, rng)
        left = np.arange(0 if self.dimension % 2 else len(own))
        # Turning round would leave ties half as likely as the others, of which half are refused.
        while (left := left[(product[left] != 0) & rng.bernoulli(_WORD // 2, left.size)]).size:
            corners[left], product[left] = self._uniform(own[left], rng)
        return corners, product

    @property
    def claimed(self) -> Guarantee:
        """What the paper says of the mechanism."""
        return Guarantee("local", self.epsilon, 0.0, "report", "claimed by Duchi et al. 2018")

    @property
    def guarantee(self) -> Guarantee:
        if self.dimension % 2:
            return Guarantee(
                "local", self.epsilon, 0.0, "report", "closed form: an odd dimension has no ties"
            )
        return Guarantee.none(
            "as published: corners that are on neither side are as likely as both sides together, "
            "so that in an even dimension one report loses ln(1 + e^epsilon) where an epsilon of "
            f"{self.epsilon} is claimed"
        )

    def pairs(self) -> Iterable[tuple[int, int]]:
        """One for each number of signs that differ: permuting and turning signs does the rest."""
        return [(0, (1 << apart) - 1) for apart in range(1, self.dimension + 1)]
