"""`hushbeam mean --dummies shuffler`: a sum over a count, both of noisy counters."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mechanisms.channel import Floats
from mechanisms.counters.amounts import LARGEST, Amounts, units
from mechanisms.counters.choose import NoisyCounters
from mechanisms.counters.solve import MOST_DUMMIES
from mechanisms.mean.fieller import quotients
from mechanisms.randomness import SecureRandom
from pipelines import inputs
from pipelines.errors import RequestError
from pipelines.metrics.counting import result
from pipelines.metrics.counting.design import MOST_SEALED, declared, designed
from pipelines.metrics.counting.metric import Counting
from pipelines.metrics.counting.options import require_bounded, require_counted, require_pairs
from pipelines.metrics.mean.options import MeanOptions
from pipelines.numbers import open_numbers, read_bounds
from transforms.blocks import Generator
from transforms.collect_counts import Counted
from transforms.encoders.bounds import Bounds
from transforms.encoders.groups import GroupEncoder
from transforms.encoders.reports import LIMITED, UNUSABLE, Clip, Reporting

if TYPE_CHECKING:
    from typing_extensions import Self

_OTHERS = frozenset({"choose_bounds", "groups_public", "mechanism", "cells", "interval"})
_SHARES = (0.2, 0.35)  # of epsilon, for the count that sums are divided by
_USUAL = 0.5  # how far from the middle a mean may be expected, of half the range


@dataclass(frozen=True, kw_only=True)
class CountedMean(Counting):
    """The average number of those who have one, of everybody or of each group.

    Attributes:
        bounds: what numbers are clipped to; they are told from the middle of them.
    """

    kind = "mean"
    Options = MeanOptions
    unstated = _OTHERS

    bounds: Bounds

    @classmethod
    def resolve(
        cls,
        options: MeanOptions,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Self:
        require_counted(options, _OTHERS)
        pair = ("--group-by", options.group_by, "--groups", options.groups)
        require_pairs(pair)
        bounds = read_bounds(options.bounds)
        telemetry = open_numbers(options, source, empty=True)
        domains = declared(telemetry, pair)
        groups = GroupEncoder(domains).size
        require_bounded(options, groups)
        reporting = _reporting(options, bounds, groups)
        return cls(
            options=options, telemetry=telemetry, open_rng=open_rng, domains=domains,
            design=_designed(options, reporting), reporting=reporting, bounds=bounds,
        )  # fmt: skip

    def divided(self) -> Self:
        return replace(self, design=_designed(self.options, self.reporting, MOST_SEALED))

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return super().line_types | {self.options.column: pa.float64()}

    def encoder(self, coins: Any = None) -> GroupEncoder:
        return GroupEncoder(self.domains, self.options.column)

    @property
    def error(self) -> float:
        """Of a mean of all who are expected, or of a group that has its part of them."""
        amounts = self.reporting.amounts
        of_group = self.expected * amounts.most_groups / amounts.groups
        spread = math.hypot(self._sigmas[0], _USUAL * self._sigmas[1])
        return min(self.bounds.half * spread / of_group, 2 * self.bounds.half)

    @property
    def prospect(self) -> str | None:
        return f"{super().prospect}, if {self.expected:,} {self.unit}s take part"

    @property
    def error_statement(self) -> dict[str, Any]:
        return {
            "standard_error_if": {f"{self.unit}s": self.expected, "standard_error": self.error},
            "covers": "the noise of the dummies, and roundings; not what was cut",
            "reading": "A mean is a noisy sum over a noisy count, and its standard error, by the "
            f"delta method, stands beside it: the fewer {self.unit}s, the larger.",
        }

    @property
    def drowns(self) -> tuple[float, str] | None:
        if self.options.expected is None:
            return None
        return self.bounds.half, "fewer groups, a smaller --rows-per-user"

    @property
    def expected_error(self) -> str:
        return f"mean ± {self.error:.3g} of {self.expected:,}"

    @property
    def _sigmas(self) -> tuple[float, float]:
        """The standard deviations of a group's sum, in halves of the range, and of its count."""
        steps = self.reporting.amounts.most
        sums = math.sqrt(2 * self.design.column_variance) / steps
        # A coin's variance is a quarter of a squared unit at the most.
        rounded = math.sqrt(self.expected) / 2 / steps
        return math.hypot(sums, rounded), math.sqrt(self.design.variances[-2])

    def totals(self, counts: Any) -> Floats:
        raise TypeError("a mean is no total")

    def errors(self) -> result.Errors:
        """Of a group's sum, in halves of the range."""
        return result.Errors.of(self.design, 2, 1, unit=1 / self.reporting.amounts.most)

    @property
    def _people(self) -> result.Errors:
        """Of a group's count."""
        law = self.design.level_law(len(self.reporting.amounts.levels))
        return result.Errors(law, self._sigmas[1])

    @property
    def figures(self) -> dict[str, str]:
        return {"mean.parquet": "mean"}

    def tables(self, estimate: Counted) -> dict[str, pa.Table]:
        centred = self.design.centred(estimate.counts)
        amounts, sigmas = self.reporting.amounts, self._sigmas
        sums = amounts.estimate(centred[: len(amounts.levels)]) / amounts.most
        people = centred[-2]

        def columns(confidence: float) -> dict[str, Floats]:
            # Heavier tails than a normal law's count for both.
            far = max(self.errors().far(confidence), self._people.far(confidence))
            ratio, error, lower, upper = quotients(sums, people, *sigmas, far)
            scaled = {"estimate": np.clip(ratio, -1, 1), "lower": lower, "upper": upper}
            found = {
                name: self.bounds.low + (x + 1) * self.bounds.half for name, x in scaled.items()
            }
            return found | {"standard_error": error * self.bounds.half}

        one = columns(self.options.confidence)
        table = {name: one[name] for name in ("estimate", "standard_error", "lower", "upper")}
        if people.size > 1:
            wider = columns(self.options.confidence ** (1 / people.size))
            table |= {f"{name}_simultaneous": wider[name] for name in ("lower", "upper")}
        table |= {
            f"{self.unit}s": people,
            f"{self.unit}s_standard_error": np.full_like(people, sigmas[1]),
        }
        # Where there is no number, there is a null.
        arrays = {name: pa.array(column, from_pandas=True) for name, column in table.items()}
        return {"mean.parquet": pa.table(self.labels() | arrays)}

    @property
    def influence(self) -> float:
        """Of a sum; of a mean it is so much over how many there are."""
        amounts = self.reporting.amounts
        return super().influence / amounts.most * self.bounds.half

    @property
    def words(self) -> list[str]:
        users = self.unit == "user"
        whose = "The average of all rows of a user" if users else "The number of a row"
        groups = ", in each of its groups," * (users and bool(self.domains))
        return [
            f"{whose}{groups} counts once, clipped to "
            f"{self.bounds.low:g} .. {self.bounds.high:g}. What a liar moves is said of the sum: a "
            f"mean moves by that over the number of {self.unit}s. Intervals are Fieller's: where "
            "nobody may have a number they are all between the bounds."
        ]


def _reporting(options: MeanOptions, bounds: Bounds, groups: int) -> Reporting:
    """What users send: their number from the middle of the bounds, and that they have one."""
    noise = 2 / (options.epsilon or 1.0)  # of the best noise that there is, so never too few
    least = units(noise, options.usual, 1.0)
    steps = min((1 << least.bit_length()) - 1, LARGEST)
    clip = Clip(bounds.low, bounds.high, steps, bounds.unscale(0.0))
    amounts = Amounts(groups, options.rows_per_user, steps, signed=True)
    return Reporting(amounts, clip, (LIMITED, UNUSABLE), averaged=True)


def _designed(
    options: MeanOptions, reporting: Reporting, most: int = MOST_DUMMIES
) -> NoisyCounters:
    """The counters with the least predicted error of a mean that is usual; arguments of `designed`.

    Raises:
        RequestError: the target is out of reach.
    """

    def error(design: NoisyCounters) -> float:
        sums = 2 * design.column_variance / reporting.amounts.most**2
        return sums + _USUAL**2 * design.variances[-2]

    found, why = [], RequestError("")
    for share in _SHARES:
        try:
            found.append(designed(options, reporting, most, share=share))
        except RequestError as refused:
            why = refused
    if not found:
        raise why
    return min(found, key=error)
