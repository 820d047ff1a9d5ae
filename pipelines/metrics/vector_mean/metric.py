"""`hushbeam vector-mean`: the average row of a log whose rows hold many numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console

from mechanisms.channel import Mechanism
from mechanisms.mean.public_groups import PublicGroups
from mechanisms.planner.search import Design
from mechanisms.randomness import SecureRandom
from mechanisms.vector.base import VectorMean
from mechanisms.vector.laplace_vector import LaplaceVector
from mechanisms.vector.mixed_rows import MixedRows
from mechanisms.vector.random_projection import MultiRphm
from mechanisms.vector.sampled import SampledCoordinates
from mechanisms.vector.task import AttributeTask, VectorTask
from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.logs.numbers import read_fill
from pipelines.logs.row_attributes import read_attributes
from pipelines.metrics.counting.options import require_randomised
from pipelines.metrics.metric import FRESH, Coins, Content, MetricReports
from pipelines.metrics.poisoning import Poisoning
from pipelines.metrics.randomised import Randomised
from pipelines.metrics.terms import best_design, hiding_cost
from pipelines.metrics.unusable.share import Share
from pipelines.metrics.vector_mean import result, view
from pipelines.metrics.vector_mean.absence import require_absence
from pipelines.metrics.vector_mean.options import VectorMeanOptions
from pipelines.metrics.vector_mean.prior import read_prior
from pipelines.views.headline import FIRST
from transforms.elements.progress import REPORTS
from transforms.encoders.attributes import Attribute, categorical, width
from transforms.encoders.coordinates import CoordinateEncoder
from transforms.encoders.rows import Absence, RowEncoder

if TYPE_CHECKING:
    import apache_beam as beam
    from typing_extensions import Self

    from transforms.collector.collect_counts import Counted
    from transforms.elements.blocks import Generator

_LEAST = 2  # reports: by one alone nobody judges how far off it is
_OUTSIDE_SUBSPACE = (
    "multi_rphm estimates the row's projection on a random subspace: what lies outside of it is "
    "lost whatever the number of reports, and intervals do not cover it; --mechanism auto with "
    "--shrink has the smaller error"
)


@dataclass(frozen=True, kw_only=True)
class AverageRow(Randomised):
    """The average of many numbers at once.

    Attributes:
        attributes: what a row consists of.
        prior: (dimension,) towards what estimates are moved, in the units of the bounds, or None.
    """

    kind = "vector-mean"
    Options = VectorMeanOptions
    unstated = frozenset({"prior"})

    options: VectorMeanOptions
    attributes: tuple[Attribute, ...]
    design: Design[VectorMean] | Design[MixedRows]
    prior: NDArray[np.float64] | None = field(default=None, compare=False)

    @classmethod
    def resolve(
        cls,
        options: VectorMeanOptions,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Self:
        _require_sense(options)
        telemetry = source.open(options)
        attributes = read_attributes(options.number, options.vector, options.category, telemetry)
        require_numbers(options, attributes)
        require_absence(options, attributes)
        require_rows(options, attributes, telemetry.rows)
        prior = None if options.prior is None else read_prior(options.prior, width(attributes))
        least, design = _design(options, telemetry.rows, attributes)
        if options.reports and not telemetry.rows * design.mechanism.codes <= result.MOST_CODES:
            raise RequestError(
                f"--reports: {design.name} has {design.mechanism.codes:,} codes, which are all "
                "looked at for each row: name another mechanism, or take a part of the log"
            )
        return cls(
            options=options, telemetry=telemetry, min_reports=least, open_rng=open_rng,
            attributes=attributes, design=design, prior=prior,
        )  # fmt: skip

    @property
    def rows(self) -> VectorMean | MixedRows:
        """What whole rows go through."""
        return self.design.mechanism

    @property
    def sampled(self) -> SampledCoordinates | None:
        """What chooses coordinates, if few of them are reported; else whole rows travel."""
        rows = self.rows
        if isinstance(rows, SampledCoordinates) and not isinstance(rows, LaplaceVector):
            return rows
        return None

    @property
    def picked(self) -> Mechanism | None:
        """What perturbs the coordinates that were picked, or None where whole rows travel."""
        sampled = self.sampled
        return None if sampled is None else PublicGroups(sampled.mechanism, sampled.dimension)

    @property
    def mechanism(self) -> Mechanism:
        return self.picked or self.rows

    @property
    def resolved(self) -> tuple[Mechanism, Mechanism | None]:
        return self.rows, self.picked

    @property
    def messages(self) -> float:
        return float(self.rows.messages)

    @property
    def coordinates(self) -> int:
        """How many numbers a row has."""
        return width(self.attributes)

    @property
    def radius(self) -> float | None:
        """How long a row may be, on the scale of [-1, 1], or None if that does not matter."""
        radius: float | None = getattr(self.rows, "radius", None)
        return radius

    @property
    def absence(self) -> Absence:
        """What stands in the place of values that cannot be used."""
        return Absence(self.options.hides, read_fill(self.options))

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
        outside = [_OUTSIDE_SUBSPACE] if isinstance(self.rows, MultiRphm) else []
        return super().cautions + outside

    @property
    def expected_error(self) -> str:
        """The standard error of a coordinate at the least batch, whatever the rows are."""
        error = math.sqrt(self.worst_variance / max(self.min_reports, 2))
        return f"coordinate ± {100 * error / 2:.2g} % of the distance of its bounds"

    @property
    def prospect(self) -> str:
        """How far off a coordinate will be at the most, and whether that is worth the while."""
        reports = self.answering_rows if self.options.user_column is None else self.min_reports
        error = math.sqrt(self.worst_variance / max(reports, 2))
        words = (
            f"a coordinate's standard error will be at most {error:.3g} with {reports:,} reports, "
            "its bounds being -1 and 1"
        )
        if error > 1:
            words += ": noise drowns every single one; have more reports or fewer coordinates"
        return words

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        parts = self.attributes
        return {column: part.kind for part in parts for column in part.columns()}

    def encoder(self, coins: Coins = FRESH) -> RowEncoder | CoordinateEncoder:
        # Where a user reports few coordinates, only these are taken from the tables.
        if self.sampled is None:
            return RowEncoder(self.attributes, self.radius, self.absence)
        return CoordinateEncoder(self.attributes, coins.choice(self.sampled), self.absence)

    def estimated(self, reports: MetricReports) -> beam.PCollection:
        import apache_beam as beam

        from transforms.collector.collect_counts import CountMessages
        from transforms.elements.combine_all import CombineAll

        if self.options.reports:  # those of a user follow one another, as long as blocks are whole
            blocks = reports.messages | "All" >> beam.combiners.ToList()
            return blocks | "Put together" >> beam.Map(result.Received.of, self.rows)
        return reports.messages | "Count" >> CombineAll(CountMessages(self.rows))

    @property
    def one_job_only(self) -> str | None:
        if self.options.reports:
            return "reports: perturbed rows are put together by the job that reads the log"
        return super().one_job_only

    @property
    def words(self) -> list[str]:
        return [*super().words, *[result.PERTURBED.format(unit=self.unit)] * self.options.reports]

    def arrived(self, estimate: Counted) -> int:
        return estimate.messages + estimate.invalid

    def content(self, estimate: Counted, tallies: Mapping[str, int]) -> Content | None:
        if estimate.messages < max(self.min_reports, _LEAST) * self.messages:
            return None
        return super().content(self.decoded(estimate), tallies)

    def withheld(self, counted: Mapping[str, int]) -> str | None:
        if not self.min_reports <= counted.get(REPORTS, 0) < _LEAST:
            return super().withheld(counted)
        return f"fewer than {_LEAST} reports came, and nobody knows how far off one row is"

    def decoded(self, counted: Counted) -> result.VectorEstimate:
        """What a batch of messages says, on the scale of [-1, 1]."""
        n = counted.messages // int(self.messages)
        row, shares = result.estimated(self.rows, counted, n, self.options.confidence)
        prior = None
        if self.prior is not None:
            low, half = result.CoordinateScale.of(self.attributes)
            prior = np.clip((self.prior - low) / half - 1, -1, 1)
        shrunk = result.shrunk(row, self.options.shrink, prior)
        perturbed = counted.rows if isinstance(counted, result.Received) else None
        return result.VectorEstimate(row, shrunk, shares, counted.invalid, perturbed)

    @property
    def figures(self) -> dict[str, str]:
        return {result.TABLE: "mean", result.FREQUENCIES: "share"}

    @property
    def title(self) -> str:
        return result.titled(self.attributes)

    @property
    def headline(self) -> dict[str, str]:
        return {"table": result.TABLE, "rows": FIRST}

    def tables(self, estimate: result.VectorEstimate) -> dict[str, pa.Table]:
        return result.tables(self.attributes, estimate)

    def poisoning(self, estimate: result.VectorEstimate) -> Poisoning:
        return result.poisoning(self.rows, estimate, self.collects, self.options.shrink)

    def unusable_share(self, estimate: result.VectorEstimate) -> dict[str, Any]:
        return result.unusable_shares(self.attributes, estimate)

    def unusable_parts(
        self, estimate: result.VectorEstimate, confidence: float
    ) -> Mapping[str, Share]:
        if not self.options.hides:
            return {}
        return result.unusable_parts(self.attributes, estimate, confidence)

    @property
    def neighbours(self) -> str:
        return f"one {self.unit}'s row is replaced by {self.another('row that can be used')}"

    @property
    def request(self) -> dict[str, Any]:
        categories = categorical(self.attributes)
        return super().request | {
            "number": list(self.options.number),
            "vector": list(self.options.vector),
            "category": [f"{c.column}: {c.size:,} declared values" for c in categories],
            "dimension": self.coordinates,
        }

    @property
    def mechanism_statement(self) -> dict[str, Any]:
        return super().mechanism_statement | {"constants": self.rows.constants()}

    def own_statement(self, estimate: result.VectorEstimate) -> dict[str, Any]:
        return {
            "bounds": result.bounds_statement(self.attributes),
            "error": result.error_statement(estimate, self.unit, self.radius, self.options.shrink),
        }

    def page(self, tables: Mapping[str, pa.Table], statement: Mapping[str, Any]) -> bytes:
        return view.page(tables, statement)

    def show(self, screen: Console) -> None:
        shares = bool(categorical(self.attributes))
        view.show(screen, self.options.output, shares, self.options.confidence)


def _require_sense(options: VectorMeanOptions) -> None:
    """Refuse options that do not go together."""
    require_randomised(options)
    if (options.shrink == "prior") != (options.prior is not None):
        raise RequestError(
            "--shrink prior and --prior go together: name the file that holds a number for each "
            "coordinate"
        )


def require_numbers(options: VectorMeanOptions, attributes: tuple[Attribute, ...]) -> None:
    """Refuse rows without numbers, and what does not serve categories."""
    if not width(attributes):
        raise RequestError(
            "--number or --vector is missing: categories alone are what `hushbeam histogram` is for"
        )
    if categorical(attributes) and (options.mechanism != "auto" or options.radius is not None):
        raise RequestError(
            "--category: with categories leave --mechanism at auto, and out --radius; the numbers "
            "then go through the best mean mechanism, the categories through the best oracle"
        )


def require_rows(options: VectorMeanOptions, attributes: tuple[Attribute, ...], rows: int) -> None:
    """Refuse perturbed rows where reports make none, or too many.

    Raises:
        RequestError: with what to do.
    """
    if not options.reports:
        return
    if options.model != "local":
        raise RequestError("--reports: a shuffled report is weak by itself; say --model local")
    if options.hides or categorical(attributes):
        raise RequestError(
            "--reports: rows are of numbers that all users have: leave out --category, and say "
            "--unusable fill=VALUE or count"
        )
    if not rows * width(attributes) <= result.MOST_NUMBERS:
        raise RequestError(
            f"--reports: {rows:,} rows of {width(attributes):,} numbers are more than the "
            f"{result.MOST_NUMBERS:,} that are put together: take fewer columns, or a part of the "
            "log"
        )


def _design(
    options: VectorMeanOptions, rows: int, attributes: tuple[Attribute, ...]
) -> tuple[int, Design[VectorMean] | Design[MixedRows]]:
    """The least batch, and the design for it."""
    categories = categorical(attributes)
    if categories:
        sizes = (*[None] * width(attributes), *(category.size for category in categories))
        return best_design(options, AttributeTask(sizes, options.hides), rows)
    task = VectorTask(width(attributes), options.radius, options.hides)
    # One public seed for all collections: errors that come from it do not average out over them.
    return best_design(options, task, rows, options.mechanism, seed=0)
