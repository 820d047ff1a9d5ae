"""Statistics over noisy counters: which counters a workload takes, and what they tell of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
from rich.console import Console

from mechanisms.channel import Floats
from mechanisms.counters.amounts import LARGEST, Amounts, Ends, SignedDigits, units
from mechanisms.counters.choose import NoisyCounters
from mechanisms.counters.dummies import Independent
from mechanisms.counters.solve import SHARE
from mechanisms.randomness import SecureRandom
from pipelines.errors import RequestError
from pipelines.logs.inputs import ALONE, Source, Telemetry
from pipelines.metrics import registry
from pipelines.metrics.counting import view
from pipelines.metrics.counting.design import designed, rounded
from pipelines.metrics.counting.drowned import Typical
from pipelines.metrics.counting.metric import Counting
from pipelines.metrics.counting.options import require_counted
from pipelines.metrics.counting.result import FigureError
from pipelines.metrics.options import EitherOptions
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from pipelines.metrics.statistics.statistic import Statistic, Workload
from pipelines.metrics.unusable.share import Share
from pipelines.releases.schema import read_own
from transforms.encoders.groups import GroupEncoder
from transforms.encoders.reports import LIMITED, UNUSABLE, Clip, Reporting, reach

if TYPE_CHECKING:
    from typing_extensions import Self

    from transforms.collector.collect_counts import Counted
    from transforms.elements.blocks import Generator

# Of epsilon, where units have a counter of their own, which shares are divided by.
_SHARES = (0.03, 0.1, 0.25)
_MANY = 100  # noises, whose sum is all but normal
_LARGEST_BOUND = 1e200  # sums of numbers up to it stay numbers


@dataclass(frozen=True, kw_only=True)
class ByCounters(Counting):
    """A statistic whose noise is dummies among counters.

    Attributes:
        statistic: what is asked.
        reporting: what makes a report of all rows of a unit.
    """

    statistic: Any
    reporting: Any

    @classmethod
    def resolve(
        cls, options: Any, source: Source = ALONE, open_rng: Generator = SecureRandom
    ) -> Self:
        made: Self = registry.find_for(options).resolve(options, source, open_rng)
        return made

    @classmethod
    def require(cls, options: Any, kind: str) -> None:
        """Refuse options that mean nothing here, before a file is looked at.

        Args:
            options: of the request.
            kind: of the statistic.

        Raises:
            RequestError: one was named.
        """
        if isinstance(options, EitherOptions):
            require_counted(options)

    @classmethod
    def of(
        cls,
        statistic: Statistic,
        telemetry: Telemetry,
        open_rng: Generator = SecureRandom,
        source: Source = ALONE,
    ) -> Self:
        """The release of a statistic.

        Args:
            statistic: held against its input.
            telemetry: the files.
            open_rng: opens generators on workers.
            source: what public randomness comes from.

        Raises:
            RequestError: the target is out of reach, or options mean nothing here.
        """
        options = statistic.options
        design, reporting = cls.least(statistic)
        return cls(
            options=options, telemetry=telemetry, open_rng=open_rng, statistic=statistic,
            domains=statistic.domains, design=design, reporting=reporting,
        )  # fmt: skip

    @classmethod
    def least(cls, statistic: Statistic, sealed: bool = False) -> tuple[Any, Any]:
        """What users send, and what hides it, with the least error.

        Args:
            statistic: what is asked.
            sealed: whether each message is sealed by itself.

        Raises:
            RequestError: the target is out of reach.
        """
        work, options = statistic.workload, statistic.options
        if work.amount is None:
            return _of_units(options, work, sealed)
        return (_of_means if work.people == "groups" else _of_sums)(options, work, sealed)

    def redesigned(self) -> Self:
        statistic = replace(self.statistic, options=self.options)
        design, reporting = self.least(statistic, self.sealed)
        return replace(self, statistic=statistic, design=design, reporting=reporting)

    @property
    def kind(self) -> str:  # type: ignore[override]
        return str(self.statistic.kind)

    @property
    def unstated(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset(getattr(self.options, "of_reports", ()))

    # What is known of its noise.

    @cached_property
    def accuracy(self) -> Accuracy:
        """Of the totals."""
        work, design = self.statistic.workload, self.design
        amounts = self.reporting.amounts
        if work.amount is None:
            return _accuracy_of_units(design, self.reporting, work)
        clip = cast(Clip, self.reporting.clip)
        if work.people == "groups":
            # What is told from one end of the bounds adds to both, from the other to one of them.
            part = 1 / amounts.most
            total = FigureError.of(design, 2, 1, unit=part)
            return Accuracy(total, FigureError.of(design, 2, unit=part), coin=1 / clip.units**2)
        unit, taken = clip.bound / clip.units, int(amounts.signed)
        # A coin's variance is a quarter of a squared unit at the most.
        rounding = 0.0 if work.whole else unit * math.sqrt(self.expected) / 2
        more = {"unit": unit, "rounding": rounding, "least": 0 if clip.low >= 0 else None}
        coin = 0.0 if work.whole else unit**2 / 4
        return Accuracy(FigureError.of(design, 1 + taken, taken, **more), coin=coin)

    def evidence(self, estimate: Counted) -> Evidence:
        """What is known of a batch.

        Args:
            estimate: of the collector.
        """
        centred = self.design.centred(estimate.counts)
        levels = centred[: len(self.reporting.amounts.levels)]

        def beside(name: str, confidence: float) -> Any:
            return self.beside(name, estimate, confidence)

        people = self._people(levels, centred)
        return Evidence(self.totals(levels), people, self.accuracy, beside)

    def totals(self, counts: Sequence[np.ndarray]) -> np.ndarray:
        work, amounts = self.statistic.workload, self.reporting.amounts
        totals = amounts.estimate(counts)
        if work.amount is not None:
            return np.asarray(self.worth * totals)
        # What is expected of devices' dummies is no whole number; a count is.
        return np.rint(totals).astype(np.int64) if work.people == "nobody" else totals

    @property
    def worth(self) -> float:
        """What one more of a counter of weight 1 adds to a figure's total."""
        clip = self.reporting.clip
        if clip is None:
            return 1.0
        if self.statistic.workload.people == "groups":
            return 1 / int(self.reporting.amounts.most)
        return float(clip.sign * clip.bound / clip.units)

    def _people(self, levels: Sequence[Floats], centred: Sequence[Floats]) -> Floats:
        """How many units a total is of, or all are."""
        people, amounts = self.statistic.workload.people, self.reporting.amounts
        if people == "groups":
            return np.asarray(amounts.number(levels) / amounts.most)
        if people == "nobody":
            return np.empty(0)
        return np.array([centred[1][0] if self.reporting.present else centred[0].sum()], float)

    # What is said of it.

    def encoder(self, coins: Any = None) -> GroupEncoder:
        encoder: GroupEncoder = self.statistic.encoder
        return encoder

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        return dict(self.statistic.line_types)

    @property
    def error(self) -> float:
        return float(self.statistic.error(self.accuracy, self.expected))

    @property
    def _typical(self) -> Typical:
        return Typical(*self.statistic.foretold(self.accuracy, self.expected))

    @property
    def expected_error(self) -> str:
        return str(self.statistic.error_in_words(self.error, self.expected))

    @property
    def figure(self) -> str:  # type: ignore[override]
        return str(self.statistic.error_of)

    @property
    def prospect(self) -> str | None:
        if not self.statistic.divides:
            return super().prospect
        return f"{super().prospect}, if {self.expected:,} {self.unit}s take part"

    @property
    def cautions(self) -> list[str]:
        return [*super().cautions, *self.statistic.cautions(self.accuracy, self.rounded)]

    @property
    def rounded(self) -> int:
        """How many numbers are rounded, at the most, as far as that is public."""
        return self.expected

    def errors(self) -> FigureError:
        return self.accuracy.total

    @property
    def noise_law(self) -> dict[str, Any]:
        # One counter is one figure, and the shuffler's noise of each is of its own.
        dummies, work = getattr(self.design, "dummies", None), self.statistic.workload
        alone = work.amount is None and work.people == "nobody" and work.most == 1
        if not (alone and isinstance(dummies, Independent)):
            return {}
        law = dummies.laws[0]
        return {"law": {"farthest": law.mu, "falls": list(law.falls)}}

    @property
    def error_statement(self) -> dict[str, Any]:
        statistic, covers = self.statistic, self.statistic.covers
        if not statistic.divides and statistic.workload.amount is not None and self.accuracy.coin:
            most = f"{self.rounded:,} {self.unit}s at the most"
            covers = f"the noise of the dummies, and roundings of {most}; not what was cut"
        said = {"covers": covers, "reading": statistic.reading}
        if statistic.divides:
            of = {f"{self.unit}s": self.expected, statistic.error_key: self.error}
            return {"standard_error_if": of, **said}
        return {"standard_error": self.error, **said, **self.noise_law}

    @property
    def influence(self) -> float:
        work = self.statistic.workload
        # A digit that is a lie counts for the one end of the bounds and not for the other.
        half = work.amount.half if work.amount and work.people == "groups" else 1.0
        return super().influence * abs(self.worth) * half

    @property
    def words(self) -> list[str]:
        return list(self.statistic.words(self.influence))

    def unusable_parts(self, estimate: Counted, confidence: float) -> Mapping[str, Share]:
        return dict(self.statistic.unusable(self.evidence(estimate), confidence))

    def unusable_cautions(self, estimate: Any, confidence: tuple[float, float]) -> list[str]:
        return list(self.statistic.unusable_cautions(self.evidence(estimate), confidence))

    @property
    def labelled(self) -> dict[str, str]:
        return dict(self.statistic.labelled)

    def labels(self) -> dict[str, pa.Array]:
        return dict(self.statistic.labels())

    @property
    def figures(self) -> dict[str, str]:
        return {self.statistic.table: self.statistic.figure}

    @property
    def title(self) -> str:
        return str(self.statistic.title)

    def tables(self, estimate: Counted) -> dict[str, pa.Table]:
        return dict(self.statistic.tables(self.evidence(estimate)))

    def statement(self, estimate: Counted, tallies: Mapping[str, int]) -> dict[str, Any]:
        own = self.statistic.statement(self.evidence(estimate))
        return super().statement(estimate, tallies) | own

    def page(self, tables: Mapping[str, pa.Table], statement: Mapping[str, Any]) -> bytes:
        return bytes(self.statistic.page(tables[self.statistic.table], statement))

    def show(self, screen: Console) -> None:
        table = read_own(self.options.output, self.statistic.table)
        view.show(screen, table, self.options.confidence, self.labelled)


# ---- the counters of a workload ------------------------------------------------------------------


def _of_units(options: Any, work: Workload, sealed: bool) -> tuple[NoisyCounters, Reporting]:
    """Where units are counted, in all or of each group; arguments as of `ByCounters.least`."""
    amounts = Amounts(work.groups, work.most_groups, work.most)
    present = work.people == "all" and work.most_groups > 1
    reporting = Reporting(amounts, beside=(LIMITED,) * work.limited, present=present)
    if work.people == "nobody":
        return designed(options, reporting, sealed), reporting
    # Of the shuffler's dummies nothing here is a digit, and they are few.
    sealed = sealed and options.dummies == "devices"
    if not present:
        return designed(options, reporting, sealed, share=SHARE), reporting
    # Squared shares are (k / d)^2 on average if all are alike, and k / d if k values are of all.
    squared = (work.most_groups / work.groups) ** 1.5

    def error(design: NoisyCounters) -> float:
        return design.column_variance + squared * design.variances[1]

    designs, why = [], RequestError("")
    for share in _SHARES:
        try:
            designs.append(designed(options, reporting, sealed, share=share))
        except RequestError as refused:
            why = refused
    if not designs:
        raise why
    return min(designs, key=error), reporting


def _accuracy_of_units(design: NoisyCounters, reporting: Reporting, work: Workload) -> Accuracy:
    """Of the totals of units."""
    if work.people == "nobody":
        return Accuracy(FigureError.of(design, 1, least=0))
    one, columns = FigureError.of(design, 1), work.groups - 1
    if reporting.present:
        others = FigureError(design.level_law(1), math.sqrt(design.variances[1]))
        return Accuracy(one, others)
    if columns > _MANY:
        normal = FigureError(None, math.sqrt(columns * design.column_variance))
        return Accuracy(one, normal, shared=True)
    return Accuracy(one, FigureError.of(design, columns), shared=True)


def _of_sums(options: Any, work: Workload, sealed: bool) -> tuple[NoisyCounters, Reporting]:
    """Where numbers are added up; arguments as of `ByCounters.least`."""
    finest = clip_of(options, work)

    def reporting(units: int, shared: bool) -> Reporting:
        clip, k = replace(finest, units=units), work.most_groups
        digits = Amounts(work.groups, k, units, clip.signed)
        if clip.signed and shared:
            digits = SignedDigits(work.groups, k, units, least=reach(clip)[0])
        return Reporting(digits, clip, (LIMITED, UNUSABLE))

    least = finest.units if work.whole else 1
    return rounded(options, finest.units, least, reporting, sealed)


def clip_of(options: Any, work: Workload) -> Clip:
    """What numbers are clipped to, in units fine enough for the noise of a sum.

    Args:
        options: of the request.
        work: of numbers.

    Raises:
        RequestError: whole numbers are asked for, and bounds are none, or far too large.
    """
    if work.amount is None:
        raise ValueError("nothing is added up")
    low, high = work.amount
    bound = max(abs(low), abs(high))
    if not bound <= _LARGEST_BOUND:
        raise RequestError(f"--bounds: they must lie within {_LARGEST_BOUND:g} of 0")
    if not work.whole:
        # Of the best noise that there is, so never too few; and all digits full.
        noise = math.sqrt(2) / (options.epsilon or math.inf)
        return Clip(low, high, 1 if options.epsilon is None else _fine(noise, options.usual, 1.0))
    if low != int(low) or high != int(high) or bound > LARGEST:
        raise RequestError(
            f"--bounds: with --whole-numbers they must be whole, and at most {LARGEST:,}"
        )
    return Clip(low, high, int(bound))


def _of_means(options: Any, work: Workload, sealed: bool) -> tuple[NoisyCounters, Reporting]:
    """Where numbers are added up and people counted; arguments as of `ByCounters.least`."""
    if work.amount is None:
        raise ValueError("nothing is averaged")
    low, high = work.amount

    def reporting(steps: int, shared: bool) -> Reporting:
        # From both ends, so that all that is sent of a number adds up to a count.
        clip, amounts = Clip(low, high, steps, low), Ends(work.groups, work.most_groups, steps)
        return Reporting(amounts, clip, (LIMITED, UNUSABLE), averaged=True)

    return rounded(options, finest(options), 1, reporting, sealed)


def finest(options: Any) -> int:
    """How many units the range of a mean's numbers has, at the most: rounding does not show."""
    noise = 2 / (options.epsilon or 1.0)  # of the best noise that there is, so never too few
    return _fine(noise, options.usual, 2.0)


def _fine(noise: float, n: int, bound: float) -> int:
    """As `units`, all of whose digits are full."""
    return min((1 << units(noise, n, bound).bit_length()) - 1, LARGEST)
