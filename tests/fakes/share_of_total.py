"""`hushbeam share-of-total`: which part of what all have lies in each group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mechanisms.mean.fieller import quotients
from pipelines.logs.numbers import open_numbers, read_bounds
from pipelines.metrics.counting.design import declared
from pipelines.metrics.counting.options import CountingOptions, require_bounded
from pipelines.metrics.heading import Heading
from pipelines.metrics.options import published
from pipelines.metrics.statistics.labels import group_names
from pipelines.metrics.statistics.statistic import Statistic, Workload
from pipelines.metrics.statistics.wording import ErrorTerms, Forecast, Wording
from pipelines.request.options import option
from transforms.encoders.groups import GroupEncoder


class ShareOfTotalOptions(CountingOptions):
    """Input, output, users, losses and who draws the noise are there already."""

    metric: ClassVar[str] = "share_of_total:ShareOfTotal"
    files: ClassVar[tuple[str, ...]] = ("groups",)
    brief: ClassVar[str] = "the part of a total that lies in each group"
    description: ClassVar[str] = "The part of the total of a column that lies in each group."

    column: str = option("the column of numbers, none of them below 0")
    bounds: str = option("0, and the largest number of a unit; public knowledge", metavar="0,U")
    group_by: str = option("the column of groups", metavar="COLUMN")
    groups: str = option("the groups: a file with one a line, or a range", metavar="FILE|LOW..HIGH")
    output: str = published("share-of-total.parquet")


@dataclass(frozen=True, kw_only=True)
class ShareOfTotal(Statistic):
    """Sums over what they add up to."""

    kind = "share-of-total"

    bounds: tuple[float, float]

    @classmethod
    def read(cls, options, source):
        telemetry = open_numbers(options, source, empty=True)
        pair = ("--group-by", options.group_by, "--groups", options.groups)
        bounds = read_bounds(options.bounds)
        statistic = cls(options=options, domains=declared(telemetry, pair), bounds=bounds)
        require_bounded(options, statistic.encoder.size)
        return statistic, telemetry

    @property
    def workload(self):
        groups, k = self.encoder.size, self.options.rows_per_user
        return Workload(groups, k, amount=self.bounds, limited=True)

    @property
    def encoder(self):
        return GroupEncoder(self.domains, self.options.column)

    @property
    def heading(self):
        title = f"{self.options.column}: share of the total by {self.options.group_by}"
        return Heading(title, {"share-of-total.parquet": "share"}, group_names(self.domains))

    @property
    def wording(self):
        reading = "A share is a noisy sum over what all noisy sums add up to; all other rows count."
        return Wording(ErrorTerms(reading, divides=True))

    def columns(self, evidence, confidence):
        one, totals = evidence.accuracy.total, evidence.totals
        every = one.times(totals.size)  # the noises of groups are independent

        def within(confidence):
            far = max(one.far(confidence), every.far(confidence))
            errors, own = (one.standard_error, every.standard_error), one.standard_error**2
            whole = np.full(totals.size, totals.sum())
            return quotients(totals, whole, *errors, far, own)

        shares, wide = within(confidence), within(confidence ** (1 / totals.size))
        return {
            "estimate": shares.ratio,
            "standard_error": shares.error,
            "lower": np.fmin(np.maximum(shares.lower, 0), shares.ratio),
            "upper": shares.upper,
            "lower_simultaneous": np.fmin(np.maximum(wide.lower, 0), shares.ratio),
            "upper_simultaneous": wide.upper,
        }

    def forecast(self, accuracy, people):
        usual = people * (self.bounds[0] + self.bounds[1]) / 2
        noise = accuracy.total.standard_error / usual
        error = min(noise, 1.0)
        words = f"share ± {100 * error:.2g} % of {people:,}"
        return Forecast(1 / self.encoder.size, noise, error, words)
