"""How much a designed release reveals, as a curve and not as one point: what composition needs.

A shuffled batch's promise is one (epsilon, delta). Where the same accountant says what delta is at
two dozen other epsilons, thirty releases come to a fifth of what thirty such promises would.
"""

import math
from functools import lru_cache
from itertools import islice
from typing import Any, Protocol

from mechanisms.channel import Guarantee, Mechanism
from mechanisms.privacy.amplification import BatchAccounted, upper_laws
from mechanisms.privacy.blanket import upper_delta
from mechanisms.privacy.divergence import Spectrum
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.privacy.search import around

_CELLS = 1 << 11  # of the accountant's lattice: a thousandth dearer than the finest, and fast
_PAIRS, _CODES = 8, 1 << 12  # of a channel that is enumerated in a moment
_NEAR = 2.0  # times the last epsilon, within which one report's own is worth a point
_LARGEST = 700.0  # e^epsilon beyond it leaves the range of doubles

_Point = tuple[float, float]  # (epsilon, delta)


class ReleasedDesign(Protocol):
    """What a curve follows from: a `Design`, or what a statement says of one."""

    @property
    def mechanism(self) -> Any:
        """That a unit runs."""

    @property
    def local(self) -> Guarantee:
        """What a single report reveals."""

    @property
    def release(self) -> Guarantee:
        """What is published of them."""

    @property
    def counted_on(self) -> int:
        """How many reports of the least batch the promise counts on."""


def release_profile(design: ReleasedDesign) -> PrivacyLoss:
    """The profile of what a design releases, from above.

    Args:
        design: a mechanism that meets its target.

    Returns:
        In the shuffle model the certified accountant's deltas at some twenty epsilons; in the local
        model the exact ones of the channel, where it is small; else what the promise alone says.

    Raises:
        ValueError: the release promises nothing.

    Source: Balle, Bell, Gascon, Nissim, "The privacy blanket of the shuffle model", CRYPTO 2019,
        Lemma 5.3, evaluated at each epsilon (see `blanket.dominated_delta`).

    >>> from mechanisms.frequency.task import FrequencyTask
    >>> from mechanisms.planner.search import search
    >>> from mechanisms.targets.rules import Target
    >>> day = search(Target("shuffle", 0.13, 1e-8, 15_000, FrequencyTask(50)), "grr")
    >>> promised = PrivacyLoss.from_guarantee(day.release)
    >>> release_profile(day).delta(0.0) < 0.2 * promised.delta(0.0)
    True
    """
    released, local = design.release, design.local
    if not released.epsilon < math.inf:
        raise ValueError(f"a release without a guarantee has no profile: {released.how}")
    points = [(released.epsilon, released.delta), *_computed(design, released)]
    # A batch shows no more than one user's messages alone would. Where that is far off, what is
    # left of delta is next to nothing, and a far point would only make composition coarse.
    if local.epsilon <= _NEAR * max(epsilon for epsilon, _ in points):
        points.append((local.epsilon, local.delta))
    # Where several bounds speak of one epsilon all of them hold, so the least does.
    bounds = {epsilon: min(d for e, d in points if e == epsilon) for epsilon, _ in points}
    ascending = sorted(bounds)
    return PrivacyLoss.from_profile(ascending, [bounds[epsilon] for epsilon in ascending])


def _computed(design: ReleasedDesign, released: Guarantee) -> tuple[_Point, ...]:
    """Further points of a release, if its mechanism has an accountant that is fast."""
    mechanism = design.mechanism
    if released.model == "central" or not 0 < released.epsilon <= _LARGEST:
        return ()
    epsilons = tuple(e for e in around(released.epsilon, released.delta) if e <= _LARGEST)
    if released.model == "shuffle":
        return _of_batch(mechanism, design.counted_on, epsilons)
    return _of_channel(mechanism, epsilons)


@lru_cache(maxsize=256)
def _of_batch(mechanism: Mechanism, n: int, epsilons: tuple[float, ...]) -> tuple[_Point, ...]:
    """Upper bounds of the deltas of n shuffled reports."""
    if isinstance(mechanism, BatchAccounted):
        return tuple((e, mechanism.batch_delta(n, e)[1]) for e in epsilons)
    laws = upper_laws(mechanism)
    return tuple((e, upper_delta(laws, n, e, _CELLS)) for e in epsilons)


@lru_cache(maxsize=256)
def _of_channel(mechanism: Mechanism, epsilons: tuple[float, ...]) -> tuple[_Point, ...]:
    """The exact deltas of one report, if there are few pairs of inputs and few codes."""
    small = mechanism.messages == 1 and mechanism.codes <= _CODES
    if not small or len(list(islice(mechanism.pairs(), _PAIRS + 1))) > _PAIRS:
        return ()
    spectrum = Spectrum.of(mechanism)
    return tuple((e, spectrum.worst(e)[1]) for e in epsilons)
