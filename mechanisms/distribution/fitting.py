"""A mechanism over so many bins, and the span of its limits, that meet a privacy target."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mechanisms import catalog, mean_planner, planner
from mechanisms.channel import require_integer
from mechanisms.distribution.estimator import DistributionEstimator
from mechanisms.distribution.ramps import best_ramps
from mechanisms.distribution.reconstruction import Reconstruction
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.mean.scalar import ScalarMean
from mechanisms.mean.window import Window
from mechanisms.mean_planner import MeanDesign, MeanTarget
from mechanisms.postprocess.expectation_maximisation import bins_for
from mechanisms.target import Target

AUTO = "auto"  # the first of `PREFERRED` that serves

ORACLES = ("grr", "olh", "srr", "hadamard", "projective")
"""Frequency mechanisms of one message each, here over the grid points."""

PREFERRED = ("nm", "grr")
"""What auto takes. At local epsilons of 0.5 to 6 and in shuffled batches, cumulative shares
estimated from the square wave were the nearest to the truth on smooth and uniform data. Of spikes
others are at times nearer, by up to a half. Response on the grid point, up to 6 times farther off,
is left where a large delta rules the wave out. See docs/distributions.md."""

LEAST_BINS, MOST_BINS = 2, 1024
_FEWEST, _MOST = 8, 512  # where nobody says


@dataclass(frozen=True)
class DistributionDesign:
    """One way to meet a target.

    Attributes:
        design: the mechanism and what it guarantees.
        span: over how many grid points limits of F average.
        expected_length: of the 95 % limits of F, on average over the grid, for uniform values.
    """

    design: MeanDesign
    span: int
    expected_length: float

    def estimator(self, smooth: bool = False) -> DistributionEstimator:
        """The collector."""
        return DistributionEstimator(self.design.mechanism, self.span, smooth)

    @property
    def rounding(self) -> ScalarMean:
        """What takes values of [-1, 1] to grid points: all scalar mechanisms round alike."""
        mechanism = self.design.mechanism
        if isinstance(mechanism, ScalarMean):
            return mechanism
        return Window(1.0, mechanism.inputs - 1, 1)

    @property
    def source(self) -> str:
        """Who published the mechanism."""
        name = self.design.name
        return catalog.of_task("frequency" if name in ORACLES else "mean")[name].source


def default_bins(n: int) -> int:
    """How many bins n reports are given: 2^floor(log2 sqrt n), from 8 to 512.

    >>> default_bins(1), default_bins(10_000), default_bins(10**9)
    (8, 64, 512)
    """
    return min(max(bins_for(n), _FEWEST), _MOST)


def design(target: MeanTarget, bins: int, expected: int, name: str = AUTO) -> DistributionDesign:
    """The design of one mechanism, or of the one that auto takes.

    Args:
        target: what must hold; its cells are ignored.
        bins: how many grid points values are rounded to, 2 .. 1024.
        expected: how many reports errors are predicted for.
        name: of a mechanism of the task "mean" or of `ORACLES`, or "auto".

    Returns:
        The design. Its span follows from the mechanism and the expected number of reports alone:
        nothing is asked of the data.

    Raises:
        ValueError: the name is unknown, the target is out of reach, or the mechanism's reports do
            not determine the shares of so many bins.

    >>> local = MeanTarget("local", 1.0, 0.0, n=1)
    >>> design(local, 64, 10_000).design.name, design(replace(local, epsilon=6.0), 64, 10_000).span
    ('nm', 1)
    """
    require_integer("bins", bins)
    if not LEAST_BINS <= bins <= MOST_BINS:
        raise ValueError(f"bins must lie in {LEAST_BINS} .. {MOST_BINS}, not {bins}")
    refusal = ValueError("there is no mechanism")
    for each in PREFERRED if name == AUTO else (name,):
        try:
            return _planned(_fitted(target, bins, each), expected)
        except ValueError as error:
            refusal = error
    raise refusal


def _fitted(target: MeanTarget, bins: int, name: str) -> MeanDesign:
    """A mechanism at the epsilon_local that the target allows."""
    target = replace(target, cells=bins - 1)
    if name in ORACLES:
        asked = Target(
            model=target.model,
            epsilon=target.epsilon,
            delta=target.delta if target.model == "shuffle" else 0.0,
            n=target.n,
            domain_size=bins,
            epsilon_local=target.epsilon_local,
            unit=target.unit,
        )
        mechanism = planner.design(asked, name).mechanism
        if not isinstance(mechanism, FrequencyOracle):
            raise TypeError(f"{name} is no frequency mechanism")
        return MeanDesign(target, name, mechanism)
    if name not in catalog.of_task("mean"):
        known = ", ".join((AUTO, *catalog.of_task("mean"), *ORACLES))
        raise ValueError(f"{name!r} does not serve distributions; there are: {known}")
    return mean_planner.design(target, name)


def _planned(fitted: MeanDesign, expected: int) -> DistributionDesign:
    """A design with the span of its limits."""
    try:
        reconstruction = Reconstruction.of(fitted.mechanism)
    except ValueError as error:
        raise ValueError(
            f"{fitted.name} does not serve {fitted.mechanism.inputs} bins here: {error}; "
            f"{', '.join(PREFERRED)} serve any number"
        ) from None
    ramps = best_ramps(reconstruction, expected)
    return DistributionDesign(fitted, ramps.span, ramps.expected_length(expected, 0.95))
