"""A mechanism over so many bins, and the span of its limits, that meet a privacy target."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mechanisms.catalog import of_task
from mechanisms.channel import require_integer
from mechanisms.distribution import LEAST_BINS, MOST_BINS
from mechanisms.distribution.estimator import DistributionEstimator
from mechanisms.distribution.ramps import best_ramps
from mechanisms.distribution.reconstruction import Reconstruction
from mechanisms.frequency.task import FrequencyTask
from mechanisms.mean.scalar import ScalarMean
from mechanisms.mean.task import MeanTask, UsableMeanTask
from mechanisms.mean.window import Window
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.planner import AUTO
from mechanisms.planner.search import Design, search
from mechanisms.postprocess.expectation_maximisation import bins_for
from mechanisms.registry import Registration
from mechanisms.targets.rules import Target

_FEWEST, _MOST = 8, 512  # where nobody says


@dataclass(frozen=True)
class DistributionDesign:
    """One way to meet a target.

    Attributes:
        design: the mechanism and what it guarantees.
        span: over how many grid points sure limits of F average.
        expected_length: of the 95 % limits of cumulative shares, on average, for uniform values.
        sure_length: the same of sure limits; more than 1 where noise is all there is.
        hides: whether the last input of the mechanism stands for no number.
    """

    design: Design[Any]
    span: int
    expected_length: float
    sure_length: float
    hides: bool = False

    @property
    def bins(self) -> int:
        """How many grid points there are."""
        return int(self.design.mechanism.inputs) - self.hides

    def estimator(self, smooth: bool = False) -> DistributionEstimator:
        """The collector."""
        return DistributionEstimator(self.design.mechanism, self.span, smooth, self.hides)

    @property
    def rounding(self) -> ScalarMean:
        """What takes values of [-1, 1] to grid points: all scalar mechanisms round alike."""
        mechanism = self.design.mechanism
        if isinstance(mechanism, (ScalarMean, WithUnusable)):
            return mechanism.rounding
        return Window(1.0, self.bins - 1, 1)


def oracles() -> Mapping[str, Registration]:
    """Frequency mechanisms of one message each that are compared, here over the grid points."""
    return {
        name: one
        for name, one in of_task("frequency").items()
        if "local" in one.searched and not one.several
    }


def preferred() -> list[str]:
    """What auto takes, the first that serves."""
    ranked = {**of_task("mean"), **oracles()}
    known = {name: one.distributions for name, one in ranked.items()}
    return sorted((n for n, rank in known.items() if rank is not None), key=lambda n: known[n] or 0)


def default_bins(n: int) -> int:
    """How many bins n reports are given: 2^floor(log2 sqrt n), from 8 to 512.

    >>> default_bins(1), default_bins(10_000), default_bins(10**9)
    (8, 64, 512)
    """
    return min(max(bins_for(n), _FEWEST), _MOST)


def design(
    target: Target[MeanTask], bins: int, expected: int, name: str = AUTO, hides: bool = False
) -> DistributionDesign:
    """The design of one mechanism, or of the one that auto takes.

    Args:
        target: what must hold; its cells are ignored.
        bins: how many grid points values are rounded to, 2 .. 1024.
        expected: how many reports errors are predicted for.
        name: of a mechanism of the task "mean", or of `oracles()`, or "auto".
        hides: whether users may have no number, which is as private as one.

    Returns:
        The design. Its span follows from the mechanism and the expected number of reports alone:
        nothing is asked of the data.

    Raises:
        ValueError: the name is unknown, the target is out of reach, or the mechanism's reports do
            not determine the shares of so many bins.

    >>> from dataclasses import replace
    >>> local = Target("local", 1.0, 0.0, 1, MeanTask())
    >>> design(local, 64, 10_000).design.name, design(replace(local, epsilon=6.0), 64, 10_000).span
    ('nm', 1)
    """
    require_integer("bins", bins)
    if not LEAST_BINS <= bins <= MOST_BINS:
        raise ValueError(f"bins must lie in {LEAST_BINS} .. {MOST_BINS}, not {bins}")
    refusal = ValueError("there is no mechanism")
    for candidate in preferred() if name == AUTO else (name,):
        try:
            return _planned(_fitted(target, bins, candidate, hides), expected, hides)
        except ValueError as error:
            refusal = error
    raise refusal


def _fitted(target: Target[MeanTask], bins: int, name: str, hides: bool) -> Design[Any]:
    """A mechanism at the epsilon_local that the target allows."""
    if name in of_task("mean"):
        if hides:
            return search(target.asking(UsableMeanTask(bins - 1)), name)
        return search(target.asking(MeanTask(bins - 1)), name)
    if name not in oracles():
        known = ", ".join((AUTO, *of_task("mean"), *oracles()))
        raise ValueError(f"{name!r} does not serve distributions; there are: {known}")
    delta = target.delta if target.model == "shuffle" else 0.0
    return search(target.asking(FrequencyTask(bins + hides), delta=delta), name)


def _planned(fitted: Design[Any], expected: int, hides: bool) -> DistributionDesign:
    """A design with the span of its limits."""
    try:
        reconstruction = Reconstruction.of(fitted.mechanism, hides)
    except ValueError as error:
        raise ValueError(
            f"{fitted.name} does not serve {fitted.mechanism.inputs - hides} bins here: {error}; "
            f"{', '.join(preferred())} serve any number"
        ) from None
    ramps = best_ramps(reconstruction, expected)
    collector = DistributionEstimator.around(ramps, fitted.mechanism)
    length = collector.expected_length(expected, 0.95)
    sure = collector.sure_length(expected, 0.95)
    return DistributionDesign(fitted, ramps.span, length, sure, hides)
