"""`count`: how many users or events there are, in all or of each declared value."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.logs import inputs
from pipelines.metrics.counting.design import divided
from pipelines.metrics.counting.options import (
    CountOptions,
    require_bounded,
)
from pipelines.metrics.heading import Heading
from pipelines.metrics.statistics.evidence import Accuracy
from pipelines.metrics.statistics.labels import value_names
from pipelines.metrics.statistics.statistic import Statistic, Workload
from pipelines.metrics.statistics.wording import OF_TOTALS, ErrorTerms, Forecast, Wording
from pipelines.views.digits import three_digits
from transforms.encoders.groups import GroupEncoder

_PAIRS = (
    "Rows that lack one of both values, or have one that is not declared, share one count, "
    "whatever their other value is; in its row of the table both are empty."
)


@dataclass(frozen=True, kw_only=True)
class Count(Statistic):
    """How many there are."""

    kind = "count"

    options: CountOptions

    @classmethod
    def read(cls, options: CountOptions, source: inputs.Source) -> tuple[Count, inputs.Telemetry]:
        pairs = (
            ("--column", options.column, "--domain", options.domain),
            ("--by", options.by, "--by-domain", options.by_domain),
            ("--group-by", options.group_by, "--groups", options.groups),
        )
        telemetry = source.open(options, empty=True)
        statistic = cls(options=options, domains=divided(telemetry, options, *pairs))
        require_bounded(options, statistic.encoder.size, options.per_value)
        return statistic, telemetry

    @property
    def workload(self) -> Workload:
        options, groups = self.options, self.encoder.size
        several = options.by_row or options.per_value > 1 or groups > options.rows_per_user
        limited = options.user_column is not None and several
        k = 1 if options.by_row else options.rows_per_user
        return Workload(groups, k, options.per_value, limited=limited, rows=options.rows)

    @property
    def encoder(self) -> GroupEncoder:
        return GroupEncoder(self.domains, drops=self.options.undeclared == "drop")

    @property
    def heading(self) -> Heading:
        figure = "events" if self.options.per_value > 1 else f"{self.options.unit}s"
        rows = "sessions" if self.options.sessions else "rows"
        figure = rows if self.options.by_row else figure
        of = " × ".join(column for column, _ in self.domains)
        title = f"{of}: {figure}" if of else figure
        return Heading(title, {f"{self.kind}.parquet": figure}, value_names(self.domains))

    @property
    def wording(self) -> Wording:
        return Wording(ErrorTerms(OF_TOTALS), self._words())

    def _words(self) -> list[str]:
        pairs = [_PAIRS] * (len(self.domains) > 1 and self.options.undeclared == "other")
        if self.options.unit == "row":
            return pairs
        k, b = self.options.rows_per_user, self.options.per_value
        if self.options.by_row:
            (figure,) = self.heading.figures.values()
            text = f"The figures count {figure}: {k:,} of a user at the most, drawn uniformly."
            return [text, *pairs]
        what = "users" if b == 1 else f"events, at most {b:,} of each user and value"
        values = "one value" if k == 1 else f"{k:,} different values"
        several = f"; a user counts for {values} at the most, drawn uniformly"
        return [f"The figures count {what}{several * bool(self.domains)}.", *pairs]

    def forecast(self, accuracy: Accuracy, people: int) -> Forecast:
        error = accuracy.total.standard_error
        return Forecast(people / self.encoder.size, error, error, f"count ± {three_digits(error)}")
