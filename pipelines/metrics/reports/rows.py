"""One report of a row of many numbers: a few of its coordinates, or the whole of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mechanisms.catalog import find, of_task
from mechanisms.channel import Floats, Mechanism
from mechanisms.mean.public_groups import PublicGroups
from mechanisms.planner import AUTO
from mechanisms.planner.search import Design
from mechanisms.vector.base import VectorMean
from mechanisms.vector.mixed_rows import MixedRows
from mechanisms.vector.sampled import SampledCoordinates
from mechanisms.vector.task import AttributeTask, VectorTask
from pipelines.errors import RequestError
from pipelines.logs.numbers import read_fill
from pipelines.metrics.counting.result import FigureError
from pipelines.metrics.mean.reading import READING
from pipelines.metrics.metric import FRESH, Coins, Content, MetricReports
from pipelines.metrics.of_statistic import Ingredients
from pipelines.metrics.poisoning import Poisoning
from pipelines.metrics.protection import Protection
from pipelines.metrics.reports.by_reports import ByReports
from pipelines.metrics.reports.row_estimates import (
    Received,
    VectorEstimate,
    estimated,
    shrunk,
    shrunk_words,
)
from pipelines.metrics.statistics.evidence import Accuracy
from pipelines.metrics.statistics.row_evidence import CoordinateScale, RowEvidence
from pipelines.metrics.statistics.vector_mean import OF_ALL_UNITS, REPORTS, TABLE
from pipelines.metrics.terms import answering_rows, best_design, hiding_cost, rows_needed
from pipelines.metrics.unusable.share import Share
from pipelines.metrics.vector_mean.options import VectorMeanOptions
from pipelines.metrics.vector_mean.prior import read_prior
from pipelines.views import report
from transforms.elements.progress import REPORTS as SENT
from transforms.encoders.attributes import Attribute, categorical, width
from transforms.encoders.coordinates import CoordinateEncoder
from transforms.encoders.rows import Absence, RowEncoder

if TYPE_CHECKING:
    import apache_beam as beam
    from typing_extensions import Self

    from transforms.collector.collect_counts import Counted

MOST_NUMBERS = 50_000_000  # of perturbed rows, which one worker decodes
MOST_CODES = 1 << 34  # of all their reports, where each is looked at by itself: about a minute

_LEAST = 2  # reports: by one alone nobody judges how far off it is
_OUTSIDE_SUBSPACE = (
    "multi_rphm estimates the row's projection on a random subspace: what lies outside of it is "
    "lost whatever the number of reports, and intervals do not cover it; --mechanism auto with "
    "--shrink has the smaller error"
)
_PERTURBED = (
    f"{REPORTS} holds what each {{unit}} sent, as a row. It was randomised before anybody saw it, "
    "so it tells no more than is promised of a single report, and whatever is made of it costs "
    "nothing more. No row of it is one of the log: each number is right on average and as far off "
    "as one report is, may lie beyond its bounds, and is the middle of them where the {unit} was "
    "not asked. Rows are in the order of their numbers."
)


@dataclass(frozen=True, kw_only=True)
class RowsByReports(ByReports):
    """A statistic of rows of many numbers, of which each unit reports as much as serves best.

    Attributes:
        prior: (dimension,) towards what estimates are moved, in the units of the bounds, or None.
    """

    design: Design[VectorMean] | Design[MixedRows]
    prior: Floats | None = field(default=None, compare=False)

    @classmethod
    def of(cls, given: Ingredients) -> Self:
        options, attributes = given.statistic.options, given.statistic.attributes
        _require_sense(options, attributes)
        rows = given.telemetry.rows if options.reports else rows_needed(options, given.telemetry)
        _require_rows(options, attributes, rows)
        prior = None if options.prior is None else read_prior(options.prior, width(attributes))
        least, design = _design(options, rows, attributes)
        if options.reports and not rows * design.mechanism.codes <= MOST_CODES:
            raise RequestError(
                f"--reports: {design.name} has {design.mechanism.codes:,} codes, which are all "
                "looked at for each row: name another mechanism, or take a part of the log"
            )
        return cls(**given.fields, min_reports=least, design=design, prior=prior)

    @property
    def rows(self) -> VectorMean | MixedRows:
        """What whole rows go through."""
        return self.design.mechanism

    @property
    def sampled(self) -> SampledCoordinates | None:
        """What chooses coordinates, if few of them are reported; else whole rows travel."""
        rows = self.rows
        return rows if isinstance(rows, SampledCoordinates) and rows.chooses else None

    @property
    def picked(self) -> Mechanism | None:
        """What perturbs the coordinates that were picked, or None where whole rows travel."""
        sampled = self.sampled
        return None if sampled is None else PublicGroups(sampled.mechanism, sampled.dimension)

    @property
    def mechanism(self) -> Mechanism:
        return self.picked or self.rows

    @property
    def protection(self) -> Protection:
        return super().protection._replace(made=(self.rows, self.picked))

    @property
    def radius(self) -> float | None:
        """How long a row may be, on the scale of [-1, 1], or None if that does not matter."""
        return getattr(self.rows, "radius", None)

    @property
    def hiding_cost(self) -> float | None:
        if not self.options.hides:
            return None
        task: Any = self.design.target.task
        return hiding_cost(self.design, replace(task, hides=False))

    @property
    def worst_variance(self) -> float:
        """The largest variance of a number of one decoded report, on the scale of [-1, 1]."""
        if isinstance(self.rows, MixedRows):
            return float(np.max(self.rows.variances))
        return self.rows.worst_variance

    @property
    def cautions(self) -> list[str]:
        outside = [_OUTSIDE_SUBSPACE] if self.design.name == "multi_rphm" else []
        return super().cautions + outside

    @property
    def expected_error(self) -> str:
        """The standard error of a coordinate at the least batch, whatever the rows are."""
        error = math.sqrt(self.worst_variance / max(self.min_reports, 2))
        return f"coordinate ± {100 * error / 2:.2g} % of the distance of its bounds"

    @property
    def prospect(self) -> str:
        """How far off a coordinate will be at the most, and whether that is worth the while."""
        reports = answering_rows(self) if self.options.user_column is None else self.min_reports
        error = math.sqrt(self.worst_variance / max(reports, 2))
        words = (
            f"a coordinate's standard error will be at most {error:.3g} with {reports:,} reports, "
            "its bounds being -1 and 1"
        )
        if error > 1:
            words += ": noise drowns every single one; have more reports or fewer coordinates"
        return words

    def encoder(self, coins: Coins = FRESH) -> RowEncoder | CoordinateEncoder:
        attributes = self.statistic.attributes
        absence = Absence(self.options.hides, read_fill(self.options))
        # Where a user reports few coordinates, only these are taken from the tables.
        if self.sampled is None:
            return RowEncoder(attributes, self.radius, absence)
        return CoordinateEncoder(attributes, coins.choice(self.sampled), absence)

    def estimated(self, reports: MetricReports) -> beam.PCollection:
        import apache_beam as beam

        if self.options.reports:  # those of a user follow one another, as long as blocks are whole
            blocks = reports.messages | "All" >> beam.combiners.ToList()
            return blocks | "Put together" >> beam.Map(Received.of, self.rows)
        return reports.counted(self.rows)

    @property
    def words(self) -> list[str]:
        return [*super().words, *[_PERTURBED.format(unit=self.unit)] * self.options.reports]

    def arrived(self, estimate: Counted) -> int:
        return estimate.messages + estimate.invalid

    def content(self, estimate: Counted, tallies: Mapping[str, int]) -> Content | None:
        if estimate.messages < max(self.min_reports, _LEAST) * self.protection.messages:
            return None
        return super().content(self.decoded(estimate), tallies)

    def withheld(self, counted: Mapping[str, int]) -> str | None:
        if not self.min_reports <= counted.get(SENT, 0) < _LEAST:
            return super().withheld(counted)
        return f"fewer than {_LEAST} reports came, and nobody knows how far off one row is"

    def decoded(self, counted: Counted) -> VectorEstimate:
        """What a batch of messages says, on the scale of [-1, 1]."""
        n = counted.messages // int(self.protection.messages)
        row, shares = estimated(self.rows, counted, n, self.options.confidence)
        prior = None
        if self.prior is not None:
            low, half = CoordinateScale.of(self.statistic.attributes)
            prior = np.clip((self.prior - low) / half - 1, -1, 1)
        moved = shrunk(row, self.options.shrink, prior)
        perturbed = counted.rows if isinstance(counted, Received) else None
        return VectorEstimate(row, moved, shares, counted.invalid, perturbed)

    def evidence(self, estimate: VectorEstimate) -> RowEvidence:
        numbers, n = estimate.numbers, estimate.n
        accuracy = Accuracy(FigureError(None, math.sqrt(n * self.worst_variance)))
        sizes = [category.size for category in self.statistic.categories]
        return RowEvidence(
            numbers.units * numbers.unbiased, numbers.units, accuracy, lambda *_: None,
            numbers=numbers, absent=estimate.absent, perturbed=estimate.perturbed,
            categories=tuple(estimate.category(*part) for part in enumerate(sizes)),
            shrunk=None if estimate.shrunk is None else estimate.shrunk.estimate,
        )  # fmt: skip

    def poisoning(self, estimate: VectorEstimate) -> Poisoning:
        return estimate.poisoning(self.rows, self.collects, self.options.shrink)

    def unusable_share(self, estimate: VectorEstimate) -> dict[str, Any]:
        """Where the shares of users without a number are, and those without a category."""
        described: dict[str, Any] = {"numbers": f"in the columns `unusable` of {TABLE}"}
        for category, shares in zip(self.statistic.categories, estimate.shares, strict=True):
            known = shares.unbiased, shares.standard_error, *shares.alone
            names = ("unbiased", "standard_error", "lower", "upper")
            last = {name: float(column[-1]) for name, column in zip(names, known, strict=True)}
            described.setdefault("categories", {})[category.column] = {
                "share": float(shares.estimate[-1]),
                **{name: x if math.isfinite(x) else None for name, x in last.items()},
            }
        return described

    def unusable_parts(self, estimate: VectorEstimate, confidence: float) -> Mapping[str, Share]:
        return dict(self.statistic.unusable(self.evidence(estimate), confidence))

    @property
    def neighbours(self) -> str:
        return f"one {self.unit}'s row is replaced by {self.another('row that can be used')}"

    @property
    def mechanism_statement(self) -> dict[str, Any]:
        return super().mechanism_statement | {"constants": self.rows.constants()}

    def own_statement(self, estimate: VectorEstimate) -> dict[str, Any]:
        error = estimate.error_statement(self.unit, self.radius, self.options.shrink)
        return self.statistic.statement(self.evidence(estimate)) | {"error": error}

    def page_words(self, statement: Mapping[str, Any]) -> dict[str, Any]:
        shares = [OF_ALL_UNITS] * bool(self.statistic.categories)
        return report.page_words([*READING, *shares, *shrunk_words(statement)])


def _require_sense(options: VectorMeanOptions, attributes: tuple[Attribute, ...]) -> None:
    categories, filled = categorical(attributes), read_fill(options) is not None
    if (options.shrink == "prior") != (options.prior is not None):
        raise RequestError(
            "--shrink prior and --prior go together: name the file that holds a number for each "
            "coordinate"
        )
    if categories and (options.mechanism != AUTO or options.radius is not None):
        raise RequestError(
            "--category: with categories leave --mechanism at auto, and out --radius; the numbers "
            "then go through the best mean mechanism, the categories through the best oracle"
        )
    if categories and filled:
        raise RequestError(
            "--unusable fill: no number can stand in the place of a category; use hide or count"
        )
    serving = of_task(VectorTask.name)
    if not options.hides or options.mechanism not in serving:  # another name is refused later
        return
    one = find(options.mechanism, serving)
    if "hides" not in one.parameters:
        raise RequestError(
            f"--mechanism: {one.name} reports whole rows and cannot hide that a number is "
            "missing; use --unusable fill=VALUE or count, or --mechanism auto"
        )


def _require_rows(options: VectorMeanOptions, attributes: tuple[Attribute, ...], rows: int) -> None:
    if not options.reports:
        return
    if options.model != "local":
        raise RequestError("--reports: a shuffled report is weak by itself; say --model local")
    if options.hides or categorical(attributes):
        raise RequestError(
            "--reports: rows are of numbers that all users have: leave out --category, and say "
            "--unusable fill=VALUE or count"
        )
    if not rows * width(attributes) <= MOST_NUMBERS:
        raise RequestError(
            f"--reports: {rows:,} rows of {width(attributes):,} numbers are more than the "
            f"{MOST_NUMBERS:,} that are put together: take fewer columns, or a part of the log"
        )


def _design(
    options: VectorMeanOptions, rows: int, attributes: tuple[Attribute, ...]
) -> tuple[int, Design[VectorMean] | Design[MixedRows]]:
    categories = categorical(attributes)
    if categories:
        sizes = (*[None] * width(attributes), *(category.size for category in categories))
        return best_design(options, AttributeTask(sizes, options.hides), rows)
    task = VectorTask(width(attributes), options.radius, options.hides)
    # One public seed for all collections: errors that come from it do not average out over them.
    return best_design(options, task, rows, options.mechanism, seed=0)
