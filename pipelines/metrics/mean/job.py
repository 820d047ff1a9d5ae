"""`hushbeam mean`: the average of a column of numbers, or of each group of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from mechanisms import mean_planner, planner
from mechanisms.channel import Guarantee, Mechanism
from mechanisms.mean.key_value import KeyValue
from mechanisms.mean.magnitudes import BoundsRule, bins
from mechanisms.mean.public_groups import PublicGroups
from mechanisms.mean.scalar import ScalarMean
from mechanisms.mean_planner import MeanTarget
from mechanisms.randomness import SecureRandom
from mechanisms.target import Target, default_delta
from pipelines import inputs
from pipelines.errors import RequestError
from pipelines.metrics.mean.options import MeanOptions, bounds_of, require_sense
from pipelines.numbers import open_numbers
from pipelines.terms import (
    cautioned,
    drowned,
    least_reports,
    next_to_nothing,
    require_proven,
    target_terms,
)
from transforms.blocks import Generator
from transforms.encode import Domain
from transforms.encode_numbers import Bounds, GroupColumn, Rounding

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

    design: planner.Design
    min_reports: int
    rule: BoundsRule


@dataclass(frozen=True)
class MeanJob:
    """A request held against its input: everything that is decided before a row is read.

    Attributes:
        options: what was asked.
        telemetry: the files.
        design: the mechanism and what it guarantees.
        min_reports: the least batch that is published; of each group, if groups are public.
        bounds: what numbers are clipped to; None where scouts choose.
        groups: the column of groups, or None for one mean.
        scouts: the round that chooses bounds, or None.
        open_rng: opens generators on workers; a seeded one is for tests.
    """

    options: MeanOptions
    telemetry: inputs.Telemetry
    design: mean_planner.MeanDesign
    min_reports: int
    bounds: Bounds | None
    groups: GroupColumn | None = None
    scouts: Scouts | None = None
    open_rng: Generator = SecureRandom

    @property
    def mechanism(self) -> Mechanism:
        """What perturbs cells, groups included."""
        inner = self.design.mechanism
        if self.groups is not None and isinstance(inner, ScalarMean):
            return PublicGroups(inner, self.groups.groups.size)
        return inner

    @property
    def rounding(self) -> Rounding:
        """What takes scaled numbers to cells."""
        inner = self.design.mechanism
        if isinstance(inner, KeyValue):
            return inner.rounding
        if isinstance(inner, ScalarMean):
            return inner
        raise TypeError(f"{type(inner).__name__} estimates no mean")

    @property
    def guarantees(self) -> tuple[Guarantee, Guarantee]:
        """What the release promises, and what a single report does."""
        pairs = [(self.design.release, self.design.local)]
        if self.scouts is not None:
            pairs.append((self.scouts.design.release, self.scouts.design.local))
        released, local = (_larger(of_both) for of_both in zip(*pairs, strict=True))
        if self.options.groups_public:
            released, local = (_of_values(each) for each in (released, local))
        return released, local

    @property
    def cautions(self) -> list[str]:
        """What is allowed and yet should be thought over, for the requester and the reader."""
        reports = self.min_reports if self.options.model == "shuffle" else self.telemetry.rows
        known = self.options.min_reports or reports
        return [
            *cautioned(self.guarantees[0].delta, reports),
            *next_to_nothing(self.guarantees[0].epsilon),
            *drowned(self.worst_error / math.sqrt(max(known, 1)), known, _HALF),
        ]

    @property
    def worst_error(self) -> float:
        """Of one report, whatever the numbers are, as a share of half the distance of bounds."""
        inner = self.design.mechanism
        if isinstance(inner, KeyValue):  # groups of equal size
            return math.sqrt(inner.worst_variance(1 / inner.groups))
        return math.sqrt(inner.worst_variance) if isinstance(inner, ScalarMean) else math.inf


def _larger(rounds: tuple[Guarantee, ...]) -> Guarantee:
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


def prepare(
    options: MeanOptions,
    open_rng: Generator = SecureRandom,
    given: inputs.Given = inputs.ALONE,
) -> MeanJob:
    """Check a request against its input and choose the mechanism; reads footers only.

    Raises:
        RequestError: something is wrong with the request or the input.
    """
    bounds = bounds_of(options)
    require_sense(options)
    telemetry = open_numbers(options, given)
    groups = _groups(options, telemetry)
    whole = least_reports(options, options.model, telemetry.rows)
    least, scouts = whole, None
    try:
        if options.choose_bounds:
            least, scouts = _two_rounds(options, whole)
        job = MeanJob(
            options, telemetry, _design(options, least, groups), least, bounds, groups, scouts,
            open_rng,
        )  # fmt: skip
        _require_memory(job.mechanism.codes)
    except ValueError as error:
        raise RequestError(str(error)) from None
    require_proven(options, job.guarantees[0])
    return job


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
) -> mean_planner.MeanDesign:
    target = MeanTarget(
        **target_terms(options, options.model, least, options.unit), cells=options.cells
    )
    if groups is None or options.groups_public:
        return mean_planner.design(target, options.mechanism)
    if options.mechanism not in (mean_planner.AUTO, mean_planner.KEY_VALUE):
        raise ValueError(
            f"--mechanism: {options.mechanism} does not hide groups; with --group-by it serves "
            f"--groups-public, and {mean_planner.KEY_VALUE} serves without"
        )
    return mean_planner.design_groups(target, groups.groups.size)


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
        domain_size=bins(),
        epsilon_local=options.epsilon_local,
        unit=options.unit,
    )
    return least, Scouts(planner.design(target), scouts, BoundsRule(_OUTSIDE))
