"""Ways to a linear model: mechanisms for gradients, sums, and what needs no privacy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from hushbeam.studies.engine.cells import FigureLine, expanded
from hushbeam.studies.papers import pm
from hushbeam.studies.systems.sums import SUMS
from mechanisms.catalog import of_task
from mechanisms.channel import Guarantee
from mechanisms.mean.scalar import ScalarMean
from mechanisms.papers.learning.gradient_reports import gradient_mechanism
from mechanisms.papers.published import dct_published
from mechanisms.vector.multi import multi_optimal
from mechanisms.vector.rows import equal_share
from mechanisms.vector.sampled import SampledCoordinates

DEFAULT = "default"  # sampled coordinates, chosen for gradients
NO_NOISE, EXACT, CONSTANT = "no_noise", "least_squares", "constant"
REFERENCES = (NO_NOISE, EXACT, CONSTANT)  # what needs no privacy, to compare with

_PUBLISHED = "dct_published"


class Unguarded(SampledCoordinates):
    """Sampled coordinates of a mechanism that guarantees nothing."""

    def __post_init__(self) -> None:
        self._require_room()

    @property
    def guarantee(self) -> Guarantee:
        return self.mechanism.guarantee


def _by_rule(name: str) -> Callable[[float, int], SampledCoordinates]:
    """Coordinates of a scalar mechanism, as many as papers send."""

    def build(epsilon: float, dimension: int) -> SampledCoordinates:
        sampled = pm.sampled(epsilon, dimension)
        share = equal_share(epsilon, sampled)
        if name == _PUBLISHED:
            return Unguarded(epsilon, dimension, sampled, dct_published(share))
        scalar = of_task("mean")[name].build(epsilon=share, cells=1024)
        return SampledCoordinates(epsilon, dimension, sampled, cast(ScalarMean, scalar))

    return build


MECHANISMS: dict[str, Callable[[float, int], SampledCoordinates]] = {
    DEFAULT: gradient_mechanism,
    "optimal": multi_optimal,
    **{name: _by_rule(name) for name in (*pm.SYSTEMS, "dct", _PUBLISHED)},
}
"""Name -> the mechanism of an epsilon and a dimension."""

SETS = {
    "all": (*MECHANISMS, *SUMS, *REFERENCES),
    "paper": (*MECHANISMS, EXACT),
}


def lines(names: Sequence[str]) -> tuple[FigureLine, ...]:
    """The lines of a request, each once; the default is always among them.

    Raises:
        RequestError: a name is unknown.
    """
    return tuple(
        FigureLine(
            name, "published" if name == _PUBLISHED else "exact", reference=name in REFERENCES
        )
        for name in expanded([DEFAULT, *names], SETS["all"], SETS)
    )
