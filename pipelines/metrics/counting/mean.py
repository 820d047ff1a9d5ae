"""`hushbeam mean --dummies shuffler`: a sum over a count, both of noisy counters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from mechanisms.channel import Floats
from mechanisms.counters.amounts import LARGEST, Ends, units
from mechanisms.counters.split_mean import Moments
from mechanisms.mean.fieller import quotients
from mechanisms.randomness import SecureRandom
from pipelines.logs import inputs
from pipelines.logs.numbers import open_numbers, read_bounds
from pipelines.metrics.counting import result
from pipelines.metrics.counting.design import declared, rounded
from pipelines.metrics.counting.drowned import Typical
from pipelines.metrics.counting.metric import Counting
from pipelines.metrics.counting.options import require_bounded, require_counted, require_pairs
from pipelines.metrics.mean.options import MeanOptions
from pipelines.metrics.unusable.share import Share
from transforms.encoders.bounds import Bounds
from transforms.encoders.groups import GroupEncoder
from transforms.encoders.reports import LIMITED, UNUSABLE, Clip, Reporting

if TYPE_CHECKING:
    from typing_extensions import Self

    from transforms.collector.collect_counts import Counted
    from transforms.elements.blocks import Generator

_OTHERS = frozenset({"choose_bounds", "groups_public", "mechanism", "cells", "interval"})
_FAR = 3  # standard deviations of a count, to which roundings are allowed for
_USUAL = 0.5  # how far from the middle a mean may be expected, of half the range


@dataclass(frozen=True, kw_only=True)
class CountedMean(Counting):
    """The average number of those who have one, of everybody or of each group.

    Attributes:
        bounds: what numbers are clipped to; they are told from the middle of them.
    """

    kind = "mean"
    Options = MeanOptions
    grouped = True
    unstated = _OTHERS

    bounds: Bounds

    @classmethod
    def resolve(
        cls,
        options: MeanOptions,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Self:
        require_counted(options, cls.unstated)
        pair = ("--group-by", options.group_by, "--groups", options.groups)
        require_pairs(pair)
        bounds = read_bounds(options.bounds)
        telemetry = open_numbers(options, source, empty=True)
        domains = declared(telemetry, pair)
        groups = GroupEncoder(domains).size
        require_bounded(options, groups)
        design, reporting = cls._least(options, bounds, groups)
        return cls(
            options=options, telemetry=telemetry, open_rng=open_rng, domains=domains,
            design=design, reporting=reporting, bounds=bounds,
        )  # fmt: skip

    def redesigned(self) -> Self:
        groups = self.reporting.amounts.groups
        design, reporting = self._least(self.options, self.bounds, groups, self.sealed)
        return replace(self, design=design, reporting=reporting)

    @classmethod
    def _least(
        cls, options: MeanOptions, bounds: Bounds, groups: int, sealed: bool = False
    ) -> tuple[Any, Any]:
        """What users send, and what hides it, with the least error of a mean.

        Args:
            options: of the request.
            bounds: of numbers.
            groups: how many means there are.
            sealed: as of `rounded`.

        Raises:
            RequestError: the target is out of reach.
        """

        def reporting(steps: int, shared: bool) -> Reporting:
            # From both ends, so that all that is sent of a number adds up to a count.
            clip = Clip(bounds.low, bounds.high, steps, bounds.low)
            amounts = Ends(groups, options.rows_per_user, steps)
            return Reporting(amounts, clip, (LIMITED, UNUSABLE), averaged=True)

        return rounded(options, finest(options), 1, reporting, sealed)

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return super().line_types | {self.options.column: pa.float64()}

    def encoder(self, coins: Any = None) -> GroupEncoder:
        return GroupEncoder(self.domains, self.options.column)

    @property
    def error(self) -> float:
        """Of a mean of all who are expected, or of a group that has its part of them."""
        usual = self._typical.error / self.options.rows_per_user
        return min(usual, 2 * self.bounds.half)

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
    def _typical(self) -> Typical:
        of_group = self.expected / GroupEncoder(self.domains).size
        spread = math.hypot(self.moments.total, self.rounding, _USUAL * self.moments.people)
        return Typical(self.bounds.half, self.bounds.half * spread / of_group)

    @property
    def expected_error(self) -> str:
        return f"mean ± {self.error:.3g} of {self.expected:,}"

    @property
    def moments(self) -> Moments:
        """Of the noise of a group's sum, in halves of the range, and of its count."""
        # What is told from one end of the bounds adds to both, and from the other to one of them.
        own = math.sqrt(2 * self.design.column_variance) / self.reporting.amounts.most
        return Moments(own, own, 0.0)

    @property
    def rounding(self) -> float:
        """The standard deviation of what rounding adds to a sum, at the most, as of `moments`."""
        return float(self._rounding(self.expected))

    def _rounding(self, people: Any) -> Any:
        # A coin's variance is a quarter of a squared unit at the most.
        return np.sqrt(people) / cast(Clip, self.reporting.clip).units

    def totals(self, counts: Any) -> Floats:
        raise TypeError("a mean is no total")

    def errors(self) -> result.Errors:
        """Of a group's sum, in halves of the range."""
        return result.Errors.of(self.design, 2, 1, unit=1 / self.reporting.amounts.most)

    @property
    def _people(self) -> result.Errors:
        """Of a group's count."""
        return result.Errors.of(self.design, 2, unit=1 / self.reporting.amounts.most)

    def found(self, estimate: Counted) -> tuple[Floats, Floats]:
        """((groups,) sums from the middle of the bounds, in halves of the range, (groups,) counts).

        Args:
            estimate: of the collector.
        """
        amounts = cast(Ends, self.reporting.amounts)
        counts = self.design.centred(estimate.counts)[: len(amounts.levels)]
        return amounts.estimate(counts) / amounts.most, amounts.number(counts) / amounts.most

    def unusable_parts(self, estimate: Counted, confidence: float) -> Mapping[str, Share]:
        """Of all that were counted, with a number and without: a user may be among both."""
        half = (1 + confidence) / 2
        none = self.beside(UNUSABLE, estimate, half)
        if none is None:
            return {}
        people, amounts = self.found(estimate)[1], self.reporting.amounts
        far = result.Errors.of(self.design, 2 * people.size, unit=1 / amounts.most).half(half)
        return {"": Share.of_counts(none, (float(people.sum()), far))}

    @property
    def figures(self) -> dict[str, str]:
        return {"mean.parquet": "mean"}

    @property
    def title(self) -> str:
        by = f" by {self.options.group_by}" if self.options.group_by else ""
        return f"{self.options.column}: mean{by}"

    def tables(self, estimate: Counted) -> dict[str, pa.Table]:
        (sums, people), noise = self.found(estimate), self.moments
        # However many there are: as many as the count does not rule out.
        most = np.maximum(people + _FAR * noise.people, 0)
        sigmas = np.hypot(noise.total, self._rounding(most)), noise.people

        def columns(confidence: float) -> dict[str, Floats]:
            # Heavier tails than a normal law's count for both.
            far = max(self.errors().far(confidence), self._people.far(confidence))
            ratio, error, lower, upper = quotients(sums, people, *sigmas, far, noise.covariance)
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
        # A digit that is a lie counts for the one end of the bounds and not for the other.
        return super().influence / amounts.most * self.bounds.half

    @property
    def words(self) -> list[str]:
        users = self.unit == "user"
        whose = "The average of all rows of a user" if users else "The number of a row"
        groups = ", in each of its groups," * (users and bool(self.domains))
        return [
            f"{whose}{groups} counts once, clipped to "
            f"{self.bounds.low:g} .. {self.bounds.high:g}. "
            + f"What a liar moves is said of the sum: a mean moves by that over the number of "
            f"{self.unit}s. "
            * math.isfinite(self.influence)
            + "Intervals are Fieller's: where nobody may have a number they are all between the "
            "bounds."
        ]


def finest(options: MeanOptions) -> int:
    """How many units the range has, at the most: so that rounding does not show."""
    noise = 2 / (options.epsilon or 1.0)  # of the best noise that there is, so never too few
    return min((1 << units(noise, options.usual, 2.0).bit_length()) - 1, LARGEST)
