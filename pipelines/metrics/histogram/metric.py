"""`hushbeam histogram`: how often each value of a declared domain occurs in a telemetry log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Console

from mechanisms.catalog import find, of_task
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.frequency.task import FrequencyTask, too_large
from mechanisms.planner import AUTO
from mechanisms.planner.design import Design
from mechanisms.randomness import SecureRandom
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.metrics.counting.options import require_randomised
from pipelines.metrics.histogram import view
from pipelines.metrics.histogram.options import HistogramOptions
from pipelines.metrics.histogram.result import (
    TABLE,
    histogram_error,
    histogram_table,
    poisoned,
    share_of,
)
from pipelines.metrics.metric import FRESH, Coins, Reports, table_of
from pipelines.metrics.poisoning import LIARS, Poisoning
from pipelines.metrics.randomised import Randomised
from pipelines.metrics.terms import best_design, drowned, hiding_cost
from pipelines.releases.schema import read_own
from pipelines.wording import many_messages
from transforms.encoders.domain import Domain
from transforms.encoders.values import ValueEncoder

if TYPE_CHECKING:
    import apache_beam as beam
    from typing_extensions import Self

    from transforms.collector.collect import Frequencies
    from transforms.elements.blocks import Generator

_MOST_MESSAGES = 2.0**20  # of one user
_MANY_MESSAGES = 100  # a user, on average: a cost that should not come as a surprise


@dataclass(frozen=True, kw_only=True)
class Histogram(Randomised):
    """The share of each declared value.

    Attributes:
        domain: the declared values.
        fill: the cell in the place of values that cannot be used, or None.
    """

    kind = "histogram"
    Options = HistogramOptions

    options: HistogramOptions
    domain: Domain
    fill: int | None
    design: Design[FrequencyOracle]

    @classmethod
    def resolve(
        cls,
        options: HistogramOptions,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Self:
        require_randomised(options)
        telemetry = source.open(options)
        kind = telemetry.column_type(options.column, "--column")
        domain = inputs.read_domain(options.domain, kind, options.out_of_domain == "other")
        fill = _filled(options, domain)
        cells = domain.size + options.hides
        task = FrequencyTask(cells, options.max_messages)
        least, design = best_design(
            options, task, telemetry.rows, options.mechanism, _model(options),
            bound=options.bound, seed=source.public_seed(),
        )  # fmt: skip
        if objection := too_large(design.mechanism):
            raise RequestError(
                f"--domain: {design.name}: {objection} or choose another --mechanism"
            )
        _require_few_messages(options, design)
        return cls(
            options=options, telemetry=telemetry, min_reports=least, open_rng=open_rng,
            domain=domain, fill=fill, design=design,
        )  # fmt: skip

    @property
    def postprocess(self) -> str:
        """What is done with the estimates: as asked, or as the system does."""
        return self.options.postprocess or self.design.postprocess

    @property
    def cautions(self) -> list[str]:
        n = self.min_reports if self.min_reports > 1 else self.rows_asked
        error = math.sqrt(self.mechanism.variance(0.0, max(n, 1)))
        lines = super().cautions + drowned(error, n, "all reports together")
        if self.messages >= _MANY_MESSAGES:
            lines.append(many_messages(self.design.name, self.messages))
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

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return {self.options.column: self.domain.kind}

    def encoder(self, coins: Coins = FRESH) -> ValueEncoder:
        instead = self.domain.size if self.options.hides else self.fill
        return ValueEncoder(self.options.column, self.domain, instead)

    def estimated(self, reports: Reports) -> beam.PCollection:
        from transforms.collector.collect import CollectExactly, CollectFrequencies

        known, hides = (self.mechanism, self.postprocess), self.options.hides
        if self.model == "central":
            exactly = CollectExactly(*known, self.open_rng, hides)
            return reports.messages | "Collect" >> exactly
        collect = CollectFrequencies(*known, reports.users, hides)
        return reports.messages | "Collect" >> collect

    def arrived(self, estimate: Frequencies) -> int:
        return estimate.messages + estimate.invalid

    @property
    def labelled(self) -> dict[str, str]:
        return {"value": self.options.column}

    @property
    def figures(self) -> dict[str, str]:
        return {TABLE: "share"}

    @property
    def title(self) -> str:
        return f"{self.options.column}: share of {self.unit}s"

    def tables(self, estimate: Frequencies) -> dict[str, pa.Table]:
        confidence = self.options.confidence
        return {TABLE: histogram_table(self.mechanism, self.domain, estimate, confidence)}

    def unusable_share(self, estimate: Frequencies) -> dict[str, float]:
        return share_of(self.mechanism, estimate, self.domain.size, self.options.confidence)

    def poisoning(self, estimate: Frequencies) -> Poisoning:
        forged = LIARS * self.mechanism.influence if self.collects else None
        return Poisoning(
            "any unbiased share", LIARS, forged,
            more=poisoned(estimate.postprocess, self.options.hides),
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
        confidence = self.options.confidence
        chosen = {"taken": estimate.postprocess, "risks": estimate.risks}
        return {
            "error": histogram_error(self.mechanism, estimate.n, confidence, self.unit),
            "postprocessing": chosen,
        }

    def page(self, tables: Mapping[str, pa.Table], statement: Mapping[str, Any]) -> bytes:
        return view.page(table_of(tables), statement)

    def show(self, screen: Console) -> None:
        table = read_own(self.options.output, TABLE)
        view.show(screen, table, 10, self.options.confidence)


def _model(options: HistogramOptions) -> str:
    """The model that was asked for, or in which the mechanism is meant."""
    if options.model is not None or options.mechanism == AUTO:
        return options.model or "shuffle"
    try:
        return find(options.mechanism, of_task(FrequencyTask.name)).default_model
    except ValueError as error:
        raise RequestError(str(error)) from None


def _filled(options: HistogramOptions, domain: Domain) -> int | None:
    """The cell in the place of values that cannot be used, if one was named."""
    if options.fill is None:
        return None
    cell = domain.place(options.fill)
    if cell is None:
        raise RequestError("--unusable fill: the value is not one of the declared domain's")
    return cell


def _require_few_messages(options: HistogramOptions, design: Design[FrequencyOracle]) -> None:
    """Refuse more messages than were allowed, or than a user's client could hold."""
    named = "max_messages" in options.model_fields_set
    most = options.max_messages if named else _MOST_MESSAGES
    if not design.messages <= most:
        raise RequestError(
            f"--max-messages: {design.name} sends {design.messages:,.4g} messages a user on "
            f"average here, more than {most:,.6g}; a larger epsilon or more reports need fewer"
        )
