"""`hushbeam count`: how many users or events there are, in all or of each declared value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mechanisms.counters.amounts import Amounts
from mechanisms.counters.dummies import Independent
from mechanisms.randomness import SecureRandom
from pipelines.logs import inputs
from pipelines.metrics.counting import result
from pipelines.metrics.counting.design import declared, designed
from pipelines.metrics.counting.drowned import Typical
from pipelines.metrics.counting.metric import Counting
from pipelines.metrics.counting.options import CountOptions, require_bounded, require_pairs
from pipelines.views.digits import three_digits
from transforms.encoders.groups import GroupEncoder
from transforms.encoders.reports import LIMITED, Reporting

if TYPE_CHECKING:
    from typing_extensions import Self

    from transforms.elements.blocks import Generator

_PAIRS = (
    "Rows that lack one of both values, or have one that is not declared, share one count, "
    "whatever their other value is; in its row of the table both are empty."
)


@dataclass(frozen=True, kw_only=True)
class CountMetric(Counting):
    """How many there are."""

    kind = "count"
    Options = CountOptions

    options: CountOptions

    @classmethod
    def resolve(
        cls,
        options: CountOptions,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Self:
        pairs = (
            ("--column", options.column, "--domain", options.domain),
            ("--by", options.by, "--by-domain", options.by_domain),
        )
        require_pairs(*pairs)
        telemetry = source.open(options, empty=True)
        domains = declared(telemetry, *pairs)
        groups = GroupEncoder(domains).size
        require_bounded(options, groups, options.per_value)
        amounts = Amounts(groups, options.rows_per_user, options.per_value)
        cut = options.user_column is not None and (
            options.per_value > 1 or groups > amounts.most_groups
        )
        reporting = Reporting(amounts, beside=(LIMITED,) * cut)
        return cls(
            options=options, telemetry=telemetry, open_rng=open_rng, domains=domains,
            design=designed(options, reporting), reporting=reporting,
        )  # fmt: skip

    def redesigned(self) -> Self:
        options, groups = self.options, self.reporting.amounts.groups
        amounts = Amounts(groups, options.rows_per_user, options.per_value)
        reporting = replace(self.reporting, amounts=amounts)
        design = designed(options, reporting, self.sealed)
        return replace(self, design=design, reporting=reporting)

    @property
    def error(self) -> float:
        return self.errors().standard_error

    @property
    def _typical(self) -> Typical:
        return Typical(self.expected / self.reporting.amounts.groups, self.error)

    @property
    def expected_error(self) -> str:
        return f"count ± {three_digits(self.error)}"

    @property
    def figures(self) -> dict[str, str]:
        return {"count.parquet": "events" if self.options.per_value > 1 else f"{self.unit}s"}

    def errors(self) -> result.Errors:
        return result.Errors.of(self.design, 1, least=0)

    @property
    def noise_law(self) -> dict[str, Any]:
        # One counter is one figure, and the shuffler's noise of each is of its own.
        dummies = getattr(self.design, "dummies", None)
        if self.options.per_value > 1 or not isinstance(dummies, Independent):
            return {}
        law = dummies.laws[0]
        return {"law": {"farthest": law.mu, "falls": list(law.falls)}}

    def totals(self, counts: Sequence[np.ndarray]) -> np.ndarray:
        # What is expected of devices' dummies is no whole number; a count is.
        return np.rint(self.reporting.amounts.estimate(counts)).astype(np.int64)

    @property
    def words(self) -> list[str]:
        pairs = [_PAIRS] * (len(self.domains) > 1)
        if self.unit == "row":
            return pairs
        k, b = self.options.rows_per_user, self.options.per_value
        what = "users" if b == 1 else f"events, at most {b:,} of each user and value"
        several = f"; a user counts for {k:,} different values at the most, drawn uniformly"
        return [f"Counted are {what}{several * bool(self.domains)}.", *pairs]
