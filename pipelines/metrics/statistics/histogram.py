"""`histogram`: the share of the units that have each declared value, and how many they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from mechanisms.channel import Floats
from mechanisms.postprocess.simplex import project
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.metrics.counting.options import require_bounded
from pipelines.metrics.heading import Heading
from pipelines.metrics.histogram.options import HistogramOptions
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from pipelines.metrics.statistics.labels import value_names
from pipelines.metrics.statistics.statistic import Statistic, Workload
from pipelines.metrics.statistics.wording import ErrorTerms, Forecast, Wording
from pipelines.metrics.unusable.share import Share
from transforms.encoders.domain import Domain

_ERRORS = ErrorTerms(
    "A share is of all that took part, of whom there were about as many as the statement says; it "
    "is a noisy count over a noisy count. Intervals belong to the unbiased share, and hold "
    "whatever the data are. The larger a share, the less it is known, for the noise of the number "
    "of all counts in proportion: the table has the standard error of each.",
    "the noise of the dummies; not what was truncated",
    "standard_error_of_a_rare_value",
    " of the share of a rare value",
    divides=True,
)


@dataclass(frozen=True, kw_only=True)
class Histogram(Statistic):
    """Shares of values; behind the declared ones comes what has none.

    Where a unit has one value the totals are of all units, and add up to their number; where it
    has several, their number is counted beside.
    """

    kind = "histogram"

    options: HistogramOptions

    @classmethod
    def read(
        cls, options: HistogramOptions, source: inputs.Source
    ) -> tuple[Histogram, inputs.Telemetry]:
        counted = options.hides_presence
        if counted:
            _require_postprocess(options)
        telemetry = source.open(options, empty=counted)
        kind = telemetry.column_type(options.column, "--column")
        other = options.out_of_domain == "other"
        domain = inputs.read_domain(options.domain, kind, other, 1)
        if not (counted or domain.size > 1):
            raise RequestError(
                "--domain: reports of one value say nothing: declare at least 2 values, or add "
                "--out-of-domain other"
            )
        statistic = cls(options=options, domains=((options.column, domain),))
        require_bounded(options, statistic.encoder.size)
        return statistic, telemetry

    @property
    def workload(self) -> Workload:
        groups, k = self.encoder.size, self.options.rows_per_user
        limited = self.options.user_column is not None and groups > k
        limited &= not self._shared
        return Workload(groups, k, people="all", limited=limited)

    @property
    def domain(self) -> Domain:
        """The declared values."""
        return self.domains[0][1]

    @property
    def _shared(self) -> bool:
        """Whether the values of a unit share its one."""
        return self.options.shared and not self.several

    @property
    def several(self) -> bool:
        """Whether a unit may have several values."""
        return self.options.rows_per_user > 1

    @property
    def postprocess(self) -> str:
        """What is done with the shares."""
        if self.options.postprocess == "none":
            return "none"
        return "truncated to 0 .. 1" if self.several else "pop"

    @property
    def heading(self) -> Heading:
        title = f"{self.options.column}: share of {self.options.unit}s"
        return Heading(title, {f"{self.kind}.parquet": "share"}, value_names(self.domains))

    @property
    def wording(self) -> Wording:
        k, unit = self.options.rows_per_user, self.options.unit
        values = "one value" if k == 1 else f"{k:,} different values"
        several = f"; a user counts for {values} at the most, drawn uniformly"
        if self._shared:
            several = "; different values of a user share its one alike"
        words = (
            f"Shares are of all {unit}s{several * (unit == 'user')}. The bound on poisoning "
            f"is for a count; for a share, divide it by the number of {unit}s."
        )
        return Wording(_ERRORS, [words])

    def columns(self, evidence: Evidence, confidence: float) -> dict[str, Any]:
        alone = evidence.shares(confidence, 1)
        every = evidence.shares(confidence, evidence.totals.size)
        unbiased, unit = alone.ratio, self.options.unit
        estimates = self._moved(unbiased) if evidence.moved is None else evidence.moved
        columns = {"estimate": estimates, "unbiased": unbiased, "standard_error": alone.error}
        for suffix, shares in (("", alone), ("_simultaneous", every)):
            columns[f"lower{suffix}"] = np.minimum(shares.lower, estimates)
            columns[f"upper{suffix}"] = np.maximum(shares.upper, estimates)
        return columns | {f"{unit}s": evidence.totals, f"{unit}s_standard_error": evidence.errors}

    def _moved(self, unbiased: Floats) -> Floats:
        if self.postprocess == "pop":
            return project(unbiased)
        return unbiased if self.postprocess == "none" else np.clip(unbiased, 0, 1)

    def tables(self, evidence: Evidence) -> dict[str, pa.Table]:
        columns, values = self.columns(evidence, self.options.confidence), self.domain.labels()
        if self.domain.other:
            values = pa.concat_arrays([values, pa.nulls(1, values.type)])
        declared = {name: column[: self.domain.size] for name, column in columns.items()}
        return {f"{self.kind}.parquet": pa.table({"value": values} | declared)}

    def statement(self, evidence: Evidence) -> dict[str, Any]:
        """What is said of it beside what all statistics say."""
        moved = evidence.moved
        if moved is None:
            moved = self._moved(evidence.totals / evidence.number)
        last = replace(evidence, totals=evidence.totals[-1:], moved=moved[-1:])
        columns = self.columns(last, self.options.confidence)
        names = ("estimate", "unbiased", "standard_error", "lower", "upper")
        share = {name: float(columns[name][0]) for name in names}
        took_part = {"estimate": evidence.number, "standard_error": evidence.accuracy.people}
        unusable = {"treated": "counted as one more value", "share": share.pop("estimate")}
        return {
            "took_part": took_part,
            "unusable": unusable | share,
            "postprocessing": {"taken": self.postprocess},
        }

    def unusable(self, evidence: Evidence, confidence: float) -> Mapping[str, Share]:
        one, others = evidence.accuracy.total, evidence.accuracy.others
        if others is None:
            return {}
        half, none = (1 + confidence) / 2, float(evidence.totals[-1])
        far, also = one.half(half), others.half(half)
        if evidence.accuracy.shared:
            rest = float(evidence.totals[:-1].sum())
        else:
            rest, also = float(evidence.people[0]) - none, also + far
        return {"": Share.of_counts((none, far), (rest, also))}

    def forecast(self, accuracy: Accuracy, people: int) -> Forecast:
        """Of the share of a rare value."""
        noise = accuracy.total.standard_error / people
        error = min(noise, 1.0)
        words = f"rare share ± {100 * error:.2g} %"
        return Forecast(1 / self.encoder.size, noise, error, words, of=f"{people:,}")


def _require_postprocess(options: HistogramOptions) -> None:
    """Refuse what is for the noise of reports, and shares that add up to 1 where they do not."""
    served = {None, "auto", "none"} | ({"pop"} if options.rows_per_user == 1 else set())
    if options.postprocess not in served:
        why = " or pop" if "pop" in served else ", for shares of several values add up to more"
        drawn = f"with --drawn-by {options.drawn_by}"
        raise RequestError(f"--postprocess: {drawn} it is auto, none{why}")
