"""What counts and sums share: reports in slots, dummies that the shuffler draws, nothing exact."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from mechanisms.channel import Guarantee
from mechanisms.counters.choose import DummyCounters, NoisyCounters, SlottedCounters
from mechanisms.counters.design import Counters
from mechanisms.counters.device_design import DeviceCounters
from mechanisms.counters.device_slots import SlottedDevices
from mechanisms.postprocess.intervals import normal_quantile
from mechanisms.privacy.loss import PrivacyLoss
from pipelines.metrics.counting import result, wording
from pipelines.metrics.counting.drowned import Typical, drowned
from pipelines.metrics.metric import Metric, MetricReports
from pipelines.metrics.statistics.wording import ErrorTerms
from pipelines.metrics.terms import cautioned, next_to_nothing
from pipelines.releases.statement import head, versions
from pipelines.views.digits import three_digits
from pipelines.wording import RAISING_NONE, among
from transforms.encoders.block import SlotBlock
from transforms.encoders.domain import Domain
from transforms.encoders.part import Viewed
from transforms.encoders.reports import Reporting

if TYPE_CHECKING:
    import apache_beam as beam
    from typing_extensions import Self

    from transforms.collector.collect_counts import Counted
    from transforms.elements.conservation import Shuffled


@dataclass(frozen=True)
class CountCodes:
    """What counts the codes of counters.

    Attributes:
        codes: how many there are.
    """

    codes: int
    several = False

    def valid(self, messages: np.ndarray) -> np.ndarray:
        """(n,) which messages are codes."""
        return np.asarray(messages < np.uint64(self.codes))

    def count(self, messages: np.ndarray) -> np.ndarray:
        """(codes,) how often each came."""
        return np.bincount(
            messages.view(np.int64) if messages.dtype == np.uint64 else messages,
            minlength=self.codes,
        )


@dataclass(frozen=True, kw_only=True)
class Counting(Metric):
    """A statistic of noisy counters, and whoever takes part.

    Attributes:
        design: the counters, their dummies and what holds for them.
        reporting: what makes a report of all rows of a unit.
        domains: (column, its declared values), by which it is divided.
        sealed: whether each message is sealed by itself.
    """

    options: Any
    design: NoisyCounters
    reporting: Reporting
    domains: tuple[tuple[str, Domain], ...] = ()
    sealed: bool = False
    min_reports: int = 0

    @property
    def counters(self) -> SlottedCounters | None:
        return self.design if isinstance(self.design, Counters | SlottedDevices) else None

    @property
    def enrolled(self) -> int | None:
        return self.design.enrolled if isinstance(self.design, SlottedDevices) else None

    @property
    def by_devices(self) -> bool:
        """Whether the devices draw the dummies, and not the shuffler."""
        return isinstance(self.design, DeviceCounters)

    # What is decided before a row is read.

    @property
    def system(self) -> str:
        return "counters"

    @property
    def mechanism(self) -> CountCodes:
        return CountCodes(self.design.codes)

    @property
    def resolved(self) -> tuple[Any, ...]:
        return self.design, self.reporting

    @property
    def model(self) -> str:
        return "shuffle"

    @property
    def messages(self) -> float:
        return self.design.messages

    @property
    def guarantees(self) -> tuple[Guarantee, Guarantee]:
        opens = "opens its seals" if self.collects or self.sealed else "sees it"
        drawn = "dummies" if self.by_devices else "the shuffler's dummies"
        why = f"whoever {opens} reads it; {drawn} hide it among others"
        return replace(self.design.guarantee, unit=self.unit), Guarantee.none(why)

    @property
    def profile(self) -> PrivacyLoss:
        return _profile(self.design)

    @property
    def honest_share(self) -> float | None:
        return getattr(self.design, "honest_share", None)

    @property
    def expected(self) -> int:
        """About how many units take part, as far as that is public."""
        return int(self.options.usual)

    @property
    def cautions(self) -> list[str]:
        released = self.guarantees[0]
        declared = self.options.expected or getattr(self.options, "enrolled", None)
        lines = cautioned(released.delta, declared)
        return [*lines, *next_to_nothing(released), *self._drowned]

    @property
    @abstractmethod
    def error(self) -> float:
        """The standard error of one figure, in its own units; the same whatever the data are."""

    @property
    @abstractmethod
    def error_terms(self) -> ErrorTerms:
        """What is said of that."""

    @property
    @abstractmethod
    def influence(self) -> float:
        """How far one liar moves a figure, at the most."""

    @property
    @abstractmethod
    def _typical(self) -> Typical:
        """What a figure and its error may be expected to be, of as many as are expected."""

    @abstractmethod
    def redesigned(self) -> Self:
        """The same with the counters of its own options, sealed one by one or not.

        Raises:
            RequestError: the target is out of reach.
        """

    @property
    def typical(self) -> Typical | None:
        """What a figure and its error may be expected to be; None if nobody knows how many are."""
        return None if self.options.expected is None else self._typical

    @cached_property
    def _drowned(self) -> tuple[str, ...]:
        return tuple(drowned(self))

    @property
    def bits(self) -> float:
        return self.messages * max(1, (self.design.codes - 1).bit_length())

    @property
    def prospect(self) -> str | None:
        own = f"{self.messages:,.{0 if self.messages.is_integer() else 2}f}"
        return (
            f"a {self.unit} sends {own} message{'s' * (own != '1')}, the release has "
            f"{self.design.number:,.0f} dummies, and the standard error{self.error_terms.of} is "
            f"{three_digits(self.error)}"
        )

    @property
    def fresh_only(self) -> str | None:
        return "nothing that users send is randomised, and dummies are drawn once a window"

    def divided(self) -> Self:
        return self if self.sealed else replace(self, sealed=True).redesigned()

    def asking(self, changes: Mapping[str, Any]) -> Self:
        """The same for another request, of which neither columns nor domains are others.

        Raises:
            RequestError: the target is out of reach.
        """
        return replace(self, options=self.options.model_copy(update=changes)).redesigned()

    @property
    def undivided(self) -> str | None:
        return f"its {'devices draw' if self.by_devices else 'shuffler draws'} dummies"

    @property
    def specification(self) -> tuple[Any, Any] | None:
        # What devices add by themselves is not written down, nor any expression over columns.
        if self.counters is None or self.options.view or self.by_devices:
            return None
        encoder = getattr(self.encoder(), "specification", None)
        channel = getattr(self.reporting, "specification", None)
        return None if encoder is None or channel is None else (encoder, channel)

    # The clients.

    def viewed(self, coins: Any = None) -> Any:
        view, encoder = self.options.view, self.encoder()
        return Viewed(encoder, view) if view else encoder

    def reports(self, tables: beam.PCollection) -> MetricReports:
        import apache_beam as beam

        from transforms.elements.conservation import entering

        blocks, tallies, bounded = self.contributions(tables)
        messages = blocks | "Messages" >> beam.Map(_sent, self.design).with_output_types(np.ndarray)
        return MetricReports(messages, None, tallies, (entering(blocks), *bounded))

    # The shuffler.

    @property
    def shuffled_batches(self) -> Shuffled:
        from transforms.elements.conservation import Batches, Shuffled
        from transforms.shuffle.dummies import ranges_of

        # A collector does not see what another party draws.
        ranges = 0 if self.collects else len(ranges_of(cast(DummyCounters, self.design)))
        return Shuffled(0, Batches(self.mechanism.codes), ranges)

    def shuffled(self, reports: MetricReports) -> MetricReports:
        from transforms.elements.conservation import leaving
        from transforms.shuffle.dummies import AddDummies
        from transforms.shuffle.group_codes import GroupCodes

        dummies = AddDummies(cast(DummyCounters, self.design), self.open_rng)
        messages, drawn = reports.messages | "Dummies" >> dummies
        sent = leaving(messages, self.shuffled_batches.batches)
        if not self.options.fused:
            messages = messages | "Shuffle" >> GroupCodes(self.mechanism.codes)
        return reports._replace(messages=messages, flow=(*reports.flow, drawn, sent))

    # The collector.

    def enough(self, estimate: Counted) -> bool:
        """Whether as many devices have sent as draw the noise; that tells nothing of their rows."""
        design = self.design
        return not isinstance(design, SlottedDevices) or (
            design.reports(estimate.counts) >= design.least_reports
        )

    def withheld(self, counted: Mapping[str, int]) -> str | None:
        if not isinstance(self.design, SlottedDevices):
            return None
        return f"fewer than {self.design.least_reports:,} devices have sent, whose dummies it needs"

    def arrived(self, estimate: Counted) -> int:
        return estimate.messages + estimate.invalid

    def far(self, comparisons: int) -> float:
        """How many standard errors an interval reaches, where so many are to hold together.

        It is of any sum of counters, of whatever levels of the statistic.
        """
        confidence = self.options.confidence
        tail = (1 - confidence) / comparisons / 2
        levels = len(self.reporting.levels) - len(self.reporting.sides)
        laws = [self.design.level_law(i) for i in range(levels)]
        # Tails of Laplace noise are heavier than normal ones; those of sums lie between.
        # At a great epsilon a variance is rounded to 0: such noise is 0 but for less than any tail.
        spreads = [(law, math.sqrt(law.var())) for law in laws]
        heavy = max((law.isf(tail) / spread for law, spread in spreads if spread > 0), default=0.0)
        return max(normal_quantile(confidence, comparisons), heavy)

    def statement(self, estimate: Counted, tallies: Mapping[str, int]) -> dict[str, Any]:
        unit, neighbours = self.unit, self.options.neighbours
        words = [
            self._who(),
            self._liars(),
            wording.exact(self.exactly),
            *self.words,
            *among(self.options.where, self.unit, RAISING_NONE),
            *([] if unit == "row" else [wording.NOBODY]),
            *self.fused,
            *self.cautions,
        ]
        return {
            **head(self.kind, self.promises, self._protected, words, 0),
            "neighbours": wording.neighbours(unit, neighbours),
            "published_exactly": " and ".join(self.exactly) or "nothing",
            **self._devices(estimate),
            "cut": self._cut(estimate),
            "poisoning": {"per_liar": self.influence, "figure": "any one figure"},
            "request": self.request,
            "mechanism": self.mechanism_statement,
            "error": self.error_statement,
            "versions": versions(),
        }

    @property
    def counter_influence(self) -> float:
        """How far one liar moves a figure that counters of weight 1 make, at the most."""
        amounts = self.reporting.amounts
        if self.collects and not self.by_devices:
            return float(amounts.poisoning)
        rows = zip(amounts.levels, self.design.lifts, strict=False)
        lies = np.array([level.weight * lift for level, lift in rows])
        return float(max(lies[lies > 0].sum(), -lies[lies < 0].sum()))

    def _devices(self, estimate: Counted) -> dict[str, Any]:
        """How many devices sent, if that can be seen: it does not depend on what they have."""
        design = self.design
        if not isinstance(design, SlottedDevices):
            return {}
        sent = int(design.reports(estimate.counts))
        counts = {"enrolled": design.enrolled, "counted_on": design.honest, "sent": sent}
        return {"devices": counts}

    @property
    def exactly(self) -> tuple[str, ...]:
        """What is published as it is."""
        return ("how many devices sent",) * isinstance(self.design, SlottedDevices)

    @property
    def _protected(self) -> str:
        return wording.protected(self.unit, self.options.neighbours)

    @property
    def shared_words(self) -> list[str]:
        return [self._protected, self._who(), wording.exact(self.exactly)]

    def _who(self) -> str:
        return wording.who(self.design, self.unit, self.collects)

    def _liars(self) -> str:
        return wording.liars(self.design, self.unit, self.influence)

    def _cut(self, estimate: Counted) -> dict[str, Any]:
        """How many units lost something, by counters of their own."""
        if not self.reporting.beside:
            return {}
        counts, spread = self.design.centred(estimate.counts)[-1], self.design.variances[-1]
        return {
            name: {
                "what": result.BESIDE[name].format(unit=self.unit),
                "estimate": float(count),
                "standard_error": spread**0.5,
            }
            for name, count in zip(self.reporting.beside, counts, strict=True)
        }

    def beside(self, name: str, estimate: Counted, confidence: float) -> result.Noisy | None:
        """How many units lost something, and how far off that may be; None if nobody counts it.

        Args:
            name: of what stands beside the statistic.
            estimate: of the collector.
            confidence: of what is said.
        """
        if name not in self.reporting.beside:
            return None
        count = self.design.centred(estimate.counts)[-1][self.reporting.beside.index(name)]
        place = len(self.reporting.levels) - 1
        return float(count), result.FigureError.of_level(self.design, place, 1).half(confidence)

    @property
    def request(self) -> dict[str, Any]:
        words = super().request
        for name, (_, domain) in zip(self.options.files, self.domains, strict=False):
            words[name] = f"{domain.declared:,} declared values"
        return words | {"delta": self.design.delta}

    @property
    def mechanism_statement(self) -> dict[str, Any]:
        return {
            "name": self.system,
            "source": wording.source(self.design),
            "constants": self.design.constants,
            "dummies": "devices" if self.by_devices else "shuffler",
            "messages_per_user": self.messages,
            "bits_per_message": max(1, (self.design.codes - 1).bit_length()),
        }

    # Afterwards.


@lru_cache(maxsize=64)  # a ledger asks for it again with every window
def _profile(design: NoisyCounters) -> PrivacyLoss:
    return design.profile()


def _sent(block: SlotBlock, design: NoisyCounters) -> np.ndarray:
    """The messages of a block, empty slots left out: see `AddDummies`."""
    words = block.words.ravel("K")
    sent = words.take(np.flatnonzero(words < int(design.layout.starts[-1])))
    return sent.astype(np.min_scalar_type(design.codes), copy=False)
