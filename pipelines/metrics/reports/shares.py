"""One report of one value: how many units have each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mechanisms.catalog import find, of_task
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.frequency.task import FrequencyTask, too_large
from mechanisms.mean.fieller import RatioEstimate
from mechanisms.planner import AUTO
from mechanisms.planner.search import Design
from mechanisms.postprocess.intervals import (
    intervals,
    largest_error_bound,
    opened,
    standard_errors,
)
from pipelines.errors import RequestError
from pipelines.metrics.counting.result import FigureError
from pipelines.metrics.histogram.options import HistogramOptions
from pipelines.metrics.histogram.reading import facts, reading
from pipelines.metrics.metric import FRESH, Coins, MetricReports
from pipelines.metrics.of_statistic import Ingredients
from pipelines.metrics.poisoning import LIARS, Poisoning
from pipelines.metrics.reports.by_reports import ByReports
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from pipelines.metrics.terms import (
    answering_rows,
    best_design,
    drowned,
    hiding_cost,
    rows_needed,
)
from pipelines.views import report
from pipelines.wording import covered, many_messages
from transforms.encoders.domain import Domain
from transforms.encoders.values import ValueEncoder

if TYPE_CHECKING:
    import apache_beam as beam
    from typing_extensions import Self

    from transforms.collector.collect import Frequencies

_MOST_MESSAGES = 2.0**20  # of one user
_MANY_MESSAGES = 100  # a user, on average: a cost that should not come as a surprise
_CHOSEN = ", and of the published share nothing is bounded, for lies may change how it is chosen"


@dataclass(frozen=True, kw_only=True)
class ShareEvidence(Evidence):
    """What a batch of reports says of how many units have each value, of a number that is public.

    Attributes:
        mechanism: what perturbed them.
        n: how many reports there are.
        unbiased: (groups,) shares.
    """

    mechanism: FrequencyOracle
    n: int
    unbiased: np.ndarray

    @property
    def errors(self) -> np.ndarray:
        return self.n * standard_errors(self.mechanism, self.unbiased, self.n)

    def shares(self, confidence: float, together: int) -> RatioEstimate:
        known = self.mechanism, self.unbiased, self.n
        error = standard_errors(*known)
        # At either end, so that no interval is a point.
        above, below = np.sqrt(self.mechanism.variance(np.array([0.0, 1.0]), self.n))
        ends = intervals(*known, confidence, simultaneous=together > 1)
        return RatioEstimate(self.unbiased, error, *opened(*ends, below, above))


def share_evidence(mechanism: FrequencyOracle, frequencies: Frequencies) -> ShareEvidence:
    """What is known of a batch of reports.

    Args:
        mechanism: what perturbed them.
        frequencies: of the collector.
    """
    n, unbiased = frequencies.n, frequencies.unbiased
    accuracy = Accuracy(FigureError(None, n * math.sqrt(mechanism.variance(0.0, n))))
    return ShareEvidence(
        n * unbiased, np.array([float(n)]), accuracy, lambda *_: None, frequencies.estimate,
        mechanism=mechanism, n=n, unbiased=unbiased,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SharesByReports(ByReports):
    """A statistic of units that have one value each, which each of them randomises.

    Attributes:
        fill: the cell in the place of values that cannot be used, or None.
    """

    fill: int | None
    design: Design[FrequencyOracle]

    @classmethod
    def of(cls, given: Ingredients) -> Self:
        options, ((_, domain),) = given.statistic.options, given.statistic.domains
        fill = _filled(options, domain)
        task = FrequencyTask(domain.size + options.hides, options.max_messages)
        rows = rows_needed(options, given.telemetry)
        least, design = best_design(
            options, task, rows, options.mechanism, _model(options),
            bound=options.bound, seed=given.source.public_seed(),
        )  # fmt: skip
        if objection := too_large(design.mechanism):
            raise RequestError(
                f"--domain: {design.name}: {objection} or choose another --mechanism"
            )
        _require_few_messages(options, design)
        return cls(**given.fields, min_reports=least, fill=fill, design=design)

    @property
    def domain(self) -> Domain:
        """The declared values."""
        return self.statistic.domain

    @property
    def postprocess(self) -> str:
        """What is done with the estimates: as asked, or as the system does."""
        return self.options.postprocess or self.design.postprocess

    @property
    def cautions(self) -> list[str]:
        n = self.min_reports if self.min_reports > 1 else answering_rows(self)
        error = math.sqrt(self.mechanism.variance(0.0, max(n, 1)))
        lines = super().cautions + drowned(error, n, "all reports together")
        if self.protection.messages >= _MANY_MESSAGES:
            lines.append(many_messages(self.design.name, self.protection.messages))
        return lines

    @property
    def expected_error(self) -> str:
        """The standard error of a share, at the least batch."""
        error = math.sqrt(self.mechanism.variance(0.0, self.min_reports))
        return f"share ± {100 * error:.2g} %"

    @property
    def hiding_cost(self) -> float | None:
        if not self.options.hides:
            return None
        plain = FrequencyTask(self.domain.size, self.options.max_messages)
        return hiding_cost(self.design, plain)

    def encoder(self, coins: Coins = FRESH) -> ValueEncoder:
        instead = self.domain.size if self.options.hides else self.fill
        return ValueEncoder(self.options.column, self.domain, instead)

    def estimated(self, reports: MetricReports) -> beam.PCollection:
        from transforms.collector.collect import CollectFrequencies

        known = self.mechanism, self.postprocess, reports.users, self.options.hides
        return reports.messages | "Collect" >> CollectFrequencies(*known)

    def arrived(self, estimate: Frequencies) -> int:
        return estimate.messages + estimate.invalid

    def evidence(self, estimate: Frequencies) -> ShareEvidence:
        return share_evidence(self.mechanism, estimate)

    def unusable_share(self, estimate: Frequencies) -> dict[str, float]:
        shares = self.evidence(estimate).shares(self.options.confidence, 1)
        share = float(estimate.estimate[-1])
        return {
            "share": share,
            "unbiased": float(shares.ratio[-1]),
            "standard_error": float(shares.error[-1]),
            "lower": min(float(shares.lower[-1]), share),
            "upper": max(float(shares.upper[-1]), share),
        }

    def poisoning(self, estimate: Frequencies) -> Poisoning:
        forged = LIARS * self.mechanism.influence if self.collects else None
        return Poisoning(
            "any unbiased share", LIARS, forged,
            more=_poisoned(estimate.postprocess, self.options.hides),
            unseen=self.mechanism.codes == self.mechanism.inputs,
        )  # fmt: skip

    @property
    def neighbours(self) -> str:
        return f"one {self.unit}'s value is replaced by {self.another('value of the domain')}"

    @property
    def request(self) -> dict[str, Any]:
        return super().request | {
            "domain": f"{self.domain.declared:,} declared values",
            "postprocess": self.postprocess,
        }

    def own_statement(self, estimate: Frequencies) -> dict[str, Any]:
        mechanism, n = self.mechanism, estimate.n
        error = {
            "standard_error_at_0": float(np.sqrt(mechanism.variance(0.0, n))),
            "mean_squared_error_per_value": mechanism.average_variance(n),
            "largest_error_bound": largest_error_bound(mechanism, n, self.options.confidence),
            "covers": covered(self.unit),
        }
        chosen = {"taken": estimate.postprocess, "risks": estimate.risks}
        return {"error": error, "postprocessing": chosen}

    def page_words(self, statement: Mapping[str, Any]) -> dict[str, Any]:
        return report.page_words(reading(statement), facts(statement))


def _poisoned(postprocess: str, hides: bool) -> str:
    """What post-processing does to the effect of lies, as the end of a sentence."""
    if postprocess == "none":
        return ""
    if postprocess != "pop":
        return _CHOSEN
    # Each coordinate loses one number, which moves no farther than the farthest of them; and what
    # they add up to moves it as far again.
    times = "three times" if hides else "twice"
    return f", and no published one by more than {times} as much as the farthest unbiased one"


def _model(options: HistogramOptions) -> str:
    """The model that was asked for, or in which the mechanism is meant."""
    if options.mechanism == AUTO:
        return options.model or "shuffle"
    try:
        named = find(options.mechanism, of_task(FrequencyTask.name))
    except ValueError as error:
        raise RequestError(str(error)) from None
    if not named.of_reports:
        raise RequestError(
            f"--mechanism: {named.name} has a curator count values as they are, and serves "
            "`hushbeam evaluate` alone: where the job may see them, take --drawn-by job"
        )
    return options.model or named.default_model


def _filled(options: HistogramOptions, domain: Domain) -> int | None:
    """The cell in the place of values that cannot be used, if one was named."""
    if options.fill is None:
        return None
    cell = domain.place(options.fill)
    if cell is None:
        raise RequestError("--unusable fill: the value is not one of the declared domain's")
    return cell


def _require_few_messages(options: HistogramOptions, design: Design[FrequencyOracle]) -> None:
    named = "max_messages" in options.model_fields_set
    most = options.max_messages if named else _MOST_MESSAGES
    if not design.messages <= most:
        raise RequestError(
            f"--max-messages: {design.name} sends {design.messages:,.4g} messages a user on "
            f"average here, more than {most:,.6g}; a larger epsilon or more reports need fewer"
        )
