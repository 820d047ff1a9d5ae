"""`hushbeam mean`: the average of a column of numbers, or of each group of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsSingleton
from rich.console import Console

from mechanisms.catalog import of_task
from mechanisms.channel import Guarantee, Mechanism
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.frequency.task import FrequencyTask
from mechanisms.mean.key_value import KeyValue
from mechanisms.mean.magnitudes import BoundsRule, bins
from mechanisms.mean.public_groups import PublicGroups
from mechanisms.mean.scalar import ScalarMean
from mechanisms.mean.task import GroupTask, MeanTask
from mechanisms.planner import AUTO
from mechanisms.planner.design import Design
from mechanisms.planner.search import search
from mechanisms.planner.target import Target, default_delta
from mechanisms.randomness import SecureRandom
from pipelines import inputs, release
from pipelines.errors import RequestError
from pipelines.metrics.mean import result, view
from pipelines.metrics.mean.options import MeanOptions, bounds_of, require_sense
from pipelines.metrics.metric import (
    FRESH,
    Coins,
    Metric,
    Reports,
    bucket_count,
    table_of,
)
from pipelines.numbers import open_numbers
from pipelines.terms import drowned, least_reports, require_proven, target_terms
from transforms.blocks import Generator
from transforms.collect_counts import Counted, CountMessages
from transforms.encoders.bounds import AsTheyAre, Bounds, FloatWords
from transforms.encoders.domain import Domain
from transforms.encoders.numbers import GroupColumn, NumberEncoder
from transforms.perturb import Perturb
from transforms.progress import REPORTS, WITHHELD
from transforms.scout import ChooseBounds, Chosen, Divide, RoundWithin

if TYPE_CHECKING:
    from typing_extensions import Self

_LARGEST_MEMORY = 1 << 31  # bytes for the counters of one batch, in each of many bundles
SCOUTS = 0.1  # the share of users who take part in the choice of bounds
_OUTSIDE = 0.001  # the share of users whose numbers chosen bounds may clip
_FEWEST = 1000  # reports that two rounds can be cut from, in the shuffle model
_HALF = "half the distance of the bounds, which the middle of them is never off by more than"
_SPREAD = 5.0  # standard deviations by which a round may fall short of its expected size


@dataclass(frozen=True)
class Scouts:
    """The first round of two, where bounds are chosen.

    Attributes:
        design: what its users run.
        min_reports: the least batch of theirs.
        rule: what bounds follow from it.
    """

    design: Design[FrequencyOracle]
    min_reports: int
    rule: BoundsRule


class Averaged(NamedTuple):
    """What the reports say, of one round or of two.

    Attributes:
        counted: how often each message came.
        chosen: the bounds, and who chose them.
    """

    counted: Counted
    chosen: Chosen


@dataclass(frozen=True, kw_only=True)
class Mean(Metric):
    """The average of a column of numbers, or one of each group.

    Attributes:
        bounds: what numbers are clipped to; None where scouts choose.
        groups: the column of groups, or None for one mean. Their reports need `min_reports` each,
            if groups are public.
        scouts: the round that chooses bounds, or None.
    """

    kind = "mean"
    Options = MeanOptions

    options: MeanOptions
    design: Design[ScalarMean] | Design[KeyValue]
    bounds: Bounds | None
    groups: GroupColumn | None = None
    scouts: Scouts | None = None

    @classmethod
    def resolve(
        cls,
        options: MeanOptions,
        source: inputs.Source = inputs.ALONE,
        open_rng: Generator = SecureRandom,
    ) -> Self:
        bounds = bounds_of(options)
        require_sense(options)
        telemetry = open_numbers(options, source)
        groups = _groups(options, telemetry)
        least, scouts = least_reports(options, options.model, telemetry.rows), None
        try:
            if options.choose_bounds:
                least, scouts = _two_rounds(options, least)
            metric = cls(
                options=options, telemetry=telemetry, min_reports=least, open_rng=open_rng,
                design=_design(options, least, groups), bounds=bounds, groups=groups, scouts=scouts,
            )  # fmt: skip
            _require_memory(metric.mechanism.codes)
        except ValueError as error:
            raise RequestError(str(error)) from None
        require_proven(options, metric.guarantees[0])
        return metric

    @staticmethod
    def declared_files(options: MeanOptions) -> tuple[str, ...]:
        return () if options.groups is None else (options.groups,)

    @property
    def designs(self) -> tuple[Design[Any], ...]:
        return (self.design,) if self.scouts is None else (self.design, self.scouts.design)

    @property
    def inner(self) -> Any:
        """What perturbs a number: a `ScalarMean`; or a number and its group, if that is private."""
        return self.design.mechanism

    @property
    def public(self) -> PublicGroups | None:
        """What puts a public group before a perturbed number, if groups are public."""
        if self.groups is None or not self.options.groups_public:
            return None
        return PublicGroups(self.inner, self.groups.groups.size)

    @property
    def mechanism(self) -> Mechanism:
        return self.public or self.design.mechanism

    @property
    def resolved(self) -> tuple[Any, ...]:
        return self.mechanism, self.scouts and self.scouts.design.mechanism

    @property
    def guarantees(self) -> tuple[Guarantee, Guarantee]:
        released = _larger([design.release for design in self.designs])
        local = _larger([design.local for design in self.designs])
        if self.options.groups_public:
            return _of_values(released), _of_values(local)
        return released, local

    @property
    def cautions(self) -> list[str]:
        reports = self.min_reports if self.options.model == "shuffle" else self.telemetry.rows
        known = self.options.min_reports or reports
        error = math.sqrt(self.inner.report_variance / max(known, 1))
        return super().cautions + drowned(error, known, _HALF)

    @property
    def expected_error(self) -> str:
        """The standard error of the mean at the least batch, whatever the numbers are."""
        error = math.sqrt(self.inner.report_variance / self.min_reports)
        half = 1.0 if self.bounds is None else self.bounds.half
        return f"mean ± {error * half:.3g} at most"

    @property
    def undivided(self) -> str | None:
        if self.options.choose_bounds:
            return "with choose_bounds the second round's clients wait for what the first's say"
        return super().undivided

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        groups = {} if self.groups is None else {self.groups.column: self.groups.groups.kind}
        return {self.options.column: pa.float64()} | groups

    def encoder(self, coins: Coins = FRESH) -> NumberEncoder:
        if self.bounds is None:  # numbers wait for them as they are
            return NumberEncoder(self.options.column, AsTheyAre(), FloatWords(), self.groups)
        rounded = coins.rounding(self.inner.rounding)
        return NumberEncoder(self.options.column, self.bounds, rounded, self.groups)

    @property
    def batches(self) -> int:
        # A report that says its group hides among those of its group.
        return 1 if self.public is None else self.public.groups

    def estimated(self, reports: Reports) -> beam.PCollection:
        declared = Chosen(self.bounds, 0.0, 0, 0)
        return self._counted(reports) | "Bounds" >> beam.Map(Averaged, declared)

    def whole(self, tables: beam.PCollection) -> beam.PCollection:
        return self._two_rounds(tables) if self.scouts is not None else super().whole(tables)

    def enough(self, estimate: Averaged) -> bool:
        known = estimate.chosen.bounds is not None
        return known and bool(estimate.counted.counts.sum() >= self.min_reports)

    def tables(self, estimate: Averaged) -> dict[str, pa.Table]:
        table = result.mean_table(self, estimate.chosen.known, estimate.counted)
        return {} if table is None else {result.TABLE: table}

    @property
    def neighbours(self) -> str:
        return result.neighbours(self)

    @property
    def words(self) -> list[str]:
        return result.words(self)

    def reported(self, estimate: Averaged) -> tuple[int, int]:
        counted, chosen = estimate
        return int(counted.counts.sum()) + chosen.n, counted.invalid + chosen.invalid

    @property
    def request(self) -> dict[str, Any]:
        grouped = self.groups and f"{self.groups.groups.size:,} declared groups"
        bounds = None if self.bounds is None else list(self.bounds)
        return super().request | {"bounds": bounds, "groups": grouped}

    @property
    def mechanism_statement(self) -> dict[str, Any]:
        constants = self.inner.constants()
        if self.groups is not None:
            constants = constants | {"groups": self.groups.groups.size}
        return super().mechanism_statement | {"constants": constants}

    def own_statement(self, estimate: Averaged) -> dict[str, Any]:
        return {
            "published_exactly": result.published_exactly(self),
            "bounds": result.bounds_statement(self, estimate.chosen),
            "error": result.error_statement(self, estimate.chosen.known),
        }

    def page(self, tables: Mapping[str, pa.Table], statement: Mapping[str, Any]) -> bytes:
        return view.page(table_of(tables), statement)

    def withheld(self, counted: Mapping[str, int]) -> str | None:
        """That a round or every group was too small."""
        if WITHHELD not in counted:
            return None
        reports, least = counted.get(REPORTS, 0), self.min_reports
        if self.options.groups_public:
            return f"{reports:,} reports came, and no group has --min-reports {least:,} of them"
        if self.scouts is not None:
            return (
                f"{reports:,} reports came in two rounds, which need {self.scouts.min_reports:,} "
                f"and {least:,}"
            )
        return f"{reports:,} reports came, fewer than --min-reports {least:,}"

    def show(self, screen: Console) -> None:
        table = release.read_table(self.options.output, result.TABLE)
        view.show(screen, table, self.options.confidence)

    def _counted(self, reports: Reports) -> beam.PCollection:
        count = CountMessages(self.mechanism)
        return reports.messages | "Count" >> beam.CombineGlobally(count)

    def _two_rounds(self, tables: beam.PCollection) -> beam.PCollection:
        """Bounds from some of the users, the mean from the others."""
        numbers, tallies = self.contributions(tables)
        scouts, rest = numbers | "Divide" >> Divide(SCOUTS, self.open_rng)
        chosen = scouts | "Choose bounds" >> self._choice()
        rounding = self.inner.rounding
        cells = rest | "Within bounds" >> RoundWithin(chosen, rounding, self.open_rng)
        reports = self.shuffled(
            Reports(cells | "Perturb" >> Perturb(self.mechanism, self.open_rng), None, tallies)
        )
        both = self._counted(reports) | "Bounds" >> beam.Map(Averaged, AsSingleton(chosen))
        return self.contents(both, tallies)

    def _choice(self) -> ChooseBounds:
        """The first round."""
        scouts = self.scouts
        if scouts is None:
            raise ValueError("there are no bounds, and nobody to choose them")
        least = scouts.min_reports if self.options.model == "shuffle" else None
        buckets = bucket_count(self.telemetry.rows)
        return ChooseBounds(scouts.design.mechanism, scouts.rule, least, buckets, self.open_rng)


def _larger(rounds: list[Guarantee]) -> Guarantee:
    """What holds for whoever takes part in one of several rounds."""
    if len(rounds) == 1:
        return rounds[0]
    how = "each takes part in one of two rounds, by a coin; the average: {0}; the bounds: {1}"
    return replace(
        rounds[0],
        epsilon=max(each.epsilon for each in rounds),
        delta=max(each.delta for each in rounds),
        how=how.format(*(each.how for each in rounds)),
    )


def _of_values(guarantee: Guarantee) -> Guarantee:
    return replace(guarantee, how=f"of the value alone, the group being public; {guarantee.how}")


def _groups(options: MeanOptions, telemetry: inputs.Telemetry) -> GroupColumn | None:
    """The declared groups, held against the column."""
    if options.group_by is None or options.groups is None:
        return None
    kind = telemetry.column_type(options.group_by, "--group-by")
    try:
        domain: Domain = inputs.read_domain(options.groups, kind, other=False)
    except RequestError as error:
        # What groups must be is what a domain must be; only the flag has another name.
        told = str(error).replace("--domain", "--groups").replace("a histogram needs", "needed are")
        raise RequestError(told.replace(" (or --out-of-domain other)", "")) from None
    return GroupColumn(options.group_by, domain)


def _require_memory(codes: int) -> None:
    if not 8 * codes <= _LARGEST_MEMORY:
        raise ValueError(f"--groups: {codes:,} counters are too many; declare fewer groups")


def _design(
    options: MeanOptions, least: int, groups: GroupColumn | None
) -> Design[ScalarMean] | Design[KeyValue]:
    terms = target_terms(options, options.model, least, options.unit)
    if groups is None or options.groups_public:
        return search(Target(**terms, task=MeanTask(options.cells)), options.mechanism)
    hiding = of_task(GroupTask.name)
    if options.mechanism not in (AUTO, *hiding):
        raise ValueError(
            f"--mechanism: {options.mechanism} does not hide groups; with --group-by it serves "
            f"--groups-public, and {', '.join(hiding)} serves without"
        )
    task = GroupTask(groups.groups.size, options.cells)
    return search(Target(**terms, task=task), options.mechanism)


def _two_rounds(options: MeanOptions, whole: int) -> tuple[int, Scouts]:
    """The least batch of the mean, and the round before it."""
    shuffled = options.model == "shuffle"
    if shuffled and whole < _FEWEST:
        raise RequestError(
            f"--choose-bounds: {whole:,} reports are too few to be divided between two rounds; "
            f"have at least {_FEWEST:,}, or declare --bounds"
        )
    slack = _SPREAD * math.sqrt(whole * SCOUTS * (1 - SCOUTS))
    scouts = max(1, math.floor(whole * SCOUTS - slack))
    least = max(1, math.floor(whole * (1 - SCOUTS) - slack))
    delta = options.delta or default_delta(options.model, least)
    target = Target(
        model=options.model,
        epsilon=options.epsilon,
        delta=delta if shuffled else 0.0,
        n=scouts,
        task=FrequencyTask(bins()),
        epsilon_local=options.epsilon_local,
        unit=options.unit,
    )
    return least, Scouts(search(target), scouts, BoundsRule(_OUTSIDE))
