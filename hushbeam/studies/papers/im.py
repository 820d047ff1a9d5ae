"""IM: windows whose delta is larger than claimed, which reports show; and means by EM.

Whoever knows that a value is one of the two that the channel tells apart best decides by the report
alone, which measures delta.

Source: Zhang, Zhu, Zhou, Yuan, "Mean estimation mechanisms under (epsilon, delta)-local
differential privacy", J. Electronics and Information Technology 2023; run again in
docs/appendix/reproduction-means.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hushbeam.studies.engine.figures import Drawn
from hushbeam.studies.systems.attacks import Attacked, audit
from hushbeam.studies.systems.means import MeanSystem
from mechanisms.mean.scalar import ScalarMean
from mechanisms.privacy.divergence import worst_pair
from mechanisms.randomness import SeededRandom

SYSTEMS = ("gaussian", "gaussian_analytic", "ndm", "im_published", "im", "nm", "nm-em")
"""What its figures compare, the mechanism as published and as corrected."""

TABLE = "attack-delta.parquet"

COLUMNS = pa.schema(
    [
        ("system", pa.string()),
        ("alpha", pa.float64()),  # of DCT
        ("epsilon", pa.float64()),
        ("claimed_delta", pa.float64()),
        ("true_delta", pa.float64()),  # by enumeration
        ("measured_delta", pa.float64()),  # from simulated reports of two values
        ("standard_error", pa.float64()),  # of measured_delta
    ]
)

_REPORTS = 2_000_000  # from either value of the pair that is told apart best
_LEAST = 1e-9  # the smallest delta that is drawn


@dataclass(frozen=True)
class MeasuredDelta:
    """A delta.

    Attributes:
        attacked: the mechanism whose it is.
        exact: what it is, by enumeration.
        measured: what shows in simulated reports.
        error: the standard error of `measured`.
    """

    attacked: Attacked
    exact: float
    measured: float
    error: float

    @property
    def row(self) -> dict[str, Any]:
        """The columns of a table."""
        return {
            **self.attacked.columns,
            "claimed_delta": self.attacked.delta,
            "true_delta": self.exact,
            "measured_delta": self.measured,
            "standard_error": self.error,
        }

    def __str__(self) -> str:
        one = self.attacked
        return (
            f"attack: {one.system} at epsilon {one.epsilon:g} claims delta {one.delta:g}; it "
            f"is {self.exact:.3g} exactly, {self.measured:.3g} +- {self.error:.1g} in simulated "
            "reports"
        )


def attack(attacked: Sequence[Attacked], seed: int) -> Iterator[MeasuredDelta]:
    """Measure the delta of each mechanism, and enumerate it."""
    for one in attacked:
        rng = one.rng("attack", seed)
        measured, error = measured_delta(one.mechanism, one.epsilon, _REPORTS, rng)
        yield MeasuredDelta(one, audit(one.mechanism, one.epsilon).delta, measured, error)


def measured_delta(
    mechanism: ScalarMean, epsilon: float, reports: int, rng: SeededRandom
) -> tuple[float, float]:
    """Delta as it shows in reports of two values: (measured, its standard error).

    The set of codes that are more than e^epsilon times as likely under one value has delta more
    probability under it than e^epsilon times that under the other.
    """
    one, other = worst_pair(mechanism, epsilon)
    growth = math.exp(epsilon)
    tells = mechanism.channel(one) > growth * mechanism.channel(other)
    p, q = (
        float(mechanism.tally(cell, reports, rng)[tells].sum()) / reports for cell in (one, other)
    )
    variance = (p * (1 - p) + growth**2 * q * (1 - q)) / reports
    return p - growth * q, math.sqrt(variance)


def figures(deltas: Sequence[MeasuredDelta], systems: Sequence[MeanSystem]) -> Drawn:
    """Delta against epsilon, where there are several: exact, measured and claimed."""
    from hushbeam.studies.engine import drawing

    if len({one.attacked.epsilon for one in deltas}) < 2:
        return
    lines: dict[tuple[MeanSystem, float], list[MeasuredDelta]] = {}
    for one in deltas:
        lines.setdefault((one.attacked.system, one.attacked.delta), []).append(one)
    with drawing.styled():
        figure, (axis,) = drawing.canvas(1, 1 + (len(systems) - 1) // 5)
        for (system, claimed), line in lines.items():
            if not any(one.exact >= _LEAST for one in line):
                continue
            colour = drawing.colour(systems.index(system))
            epsilons = [one.attacked.epsilon for one in line]
            axis.plot(epsilons, [one.exact for one in line], "-", color=colour, linewidth=1.4)
            seen = [one for one in line if one.measured > max(3 * one.error, _LEAST)]
            axis.errorbar(
                [one.attacked.epsilon for one in seen], [one.measured for one in seen],
                [3 * one.error for one in seen],
                fmt="o", color=colour, markersize=3.5, linewidth=1,
            )  # fmt: skip
            if claimed:
                axis.axhline(claimed, linestyle="--", color=colour, linewidth=0.9)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("epsilon of one report (nats)")
        axis.set_ylabel("delta of one report (a probability)")
        drawing.frame(axis, "lines: exact; points: measured, ± 3 standard errors; dashes: claimed")
        drawing.legend_of_colours(figure, [str(system) for system in systems])
    yield "attack-delta", figure
