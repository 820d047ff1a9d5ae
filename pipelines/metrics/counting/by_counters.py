"""Statistics of noisy counters: dummies that a shuffler or devices draw, and nothing exact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from mechanisms.channel import Guarantee
from mechanisms.counters.choose import DummyCounters, NoisyCounters, SlottedCounters
from mechanisms.counters.design import Counters
from mechanisms.counters.device_design import DeviceCounters
from mechanisms.counters.device_slots import SlottedDevices
from mechanisms.counters.dummies import Independent
from mechanisms.counters.job_totals import JobTotals
from mechanisms.distribution.quantile_choice import QuantileChoice
from mechanisms.privacy.loss import PrivacyLoss
from pipelines.metrics import registry
from pipelines.metrics.counting import result, wording
from pipelines.metrics.counting.codes import CountCodes
from pipelines.metrics.counting.design import MOST_SEALED, another, target_of
from pipelines.metrics.counting.drowned import drowned
from pipelines.metrics.counting.options import require_counted
from pipelines.metrics.counting.shapes.cells import of_cells
from pipelines.metrics.counting.shapes.shape import Shape
from pipelines.metrics.metric import MetricReports
from pipelines.metrics.of_statistic import Ingredients, OfStatistic
from pipelines.metrics.options import CLIENTS_SHARE, EitherOptions
from pipelines.metrics.permanent import promises
from pipelines.metrics.protection import Protection
from pipelines.metrics.shuffling import Shuffling
from pipelines.metrics.statistics.evidence import Accuracy, Evidence
from pipelines.metrics.statistics.statistic import Statistic, Workload
from pipelines.metrics.statistics.wording import Forecast
from pipelines.metrics.terms import cautioned, next_to_nothing
from pipelines.metrics.unusable.share import MANY, Share
from pipelines.releases.statement import head, versions
from pipelines.views.digits import three_digits
from pipelines.wording import FUSED, ONE_QUANTILE, RAISING_NONE, among
from transforms.encoders.groups import GroupEncoder
from transforms.encoders.reports import LIMITED, UNUSABLE
from transforms.encoders.users import UserDigest

if TYPE_CHECKING:
    import apache_beam as beam
    import pyarrow as pa
    from typing_extensions import Self

    from transforms.collector.collect_counts import Counted
    from transforms.units.contributions import EncodedContributions

_UNKNOWN = "of how many is not published"
_BY_SHAPE = {
    "prefixes": "pipelines.metrics.counting.shapes.tree:TREE",
    "quantile": "pipelines.metrics.counting.shapes.tree:QUANTILE",
    "tables": "pipelines.metrics.counting.shapes.tables:TABLES",
    "row": "pipelines.metrics.counting.shapes.row:ROW",
    "days": "pipelines.metrics.counting.shapes.days:DAYS",
    "arms": "pipelines.metrics.counting.shapes.arms:ARMS",
    "steps": "pipelines.metrics.counting.shapes.days:STEPS",
}


def shape_of(work: Workload) -> Shape:
    """How totals of a workload travel."""
    if work.shape == "cells":
        return of_cells(work)
    return registry.imported(_BY_SHAPE[work.shape])


@dataclass(frozen=True, kw_only=True)
class ByCounters(OfStatistic):
    """A statistic of noisy counters: reports in slots, dummies among them, nothing exact.

    Attributes:
        reporting: what makes a report of all rows of a unit.
        sealed: whether each message is sealed by itself.
    """

    reporting: Any
    sealed: bool = False
    min_reports: int = 0

    @classmethod
    def require(cls, options: Any, kind: str) -> None:
        """Refuse options that mean nothing here, before a file is looked at.

        Raises:
            RequestError: one was named.
        """
        if isinstance(options, EitherOptions):
            require_counted(options)

    @classmethod
    def objection(cls, work: Workload, drawn_by: str) -> str | None:
        """Why this noise does not serve a workload; None if it does.

        Args:
            work: of a statistic.
            drawn_by: as of `ReleaseOptions`.
        """
        if work.shape == "strings":
            return "strings that nobody declared have no counters"
        if work.shape == "quantile":
            return ONE_QUANTILE
        if work.shape == "arms":
            return "arms are compared by exact totals to which the job adds noise: let the job draw"
        if work.shape == "row" and drawn_by == "devices":
            return "no dummies of devices are known for rows of numbers: let the shuffler draw"
        return None

    @classmethod
    def option(cls, options: Any) -> str:
        """What was asked by which this noise was chosen."""
        return f"--drawn-by {options.drawn_by}"

    @classmethod
    def of(cls, given: Ingredients) -> Self:
        """The release of a statistic.

        Raises:
            RequestError: the target is out of reach, or options mean nothing here.
        """
        sealed = given.statistic.options.sealed
        design, reporting = cls.least(given.statistic, sealed)
        return cls(**given.fields, design=design, reporting=reporting, sealed=sealed)

    @classmethod
    def least(cls, statistic: Statistic, sealed: bool = False) -> tuple[Any, Any]:
        """What users send, and what hides it, with the least error.

        Args:
            statistic: what is asked.
            sealed: whether each message is sealed by itself.

        Raises:
            RequestError: the target is out of reach.
        """
        return cls.shaped(statistic.workload).least(statistic, sealed)

    @classmethod
    def shaped(cls, work: Workload) -> Shape:
        """How totals of a workload travel."""
        return shape_of(work)

    def rescaled(self, options: Any) -> Self | None:
        if not isinstance(self.design, Counters | JobTotals):
            return None
        _, epsilon, delta = target_of(options)
        try:
            design = another(self.design, epsilon, delta)
        except ValueError:  # which laws are the best is open again
            return None
        # Of noise that is sealed one by one there may be as much as there was, or as is usual.
        if self.sealed and design.number > max(self.design.number, MOST_SEALED):
            return None
        statistic = replace(self.statistic, options=options)
        return replace(self, options=options, statistic=statistic, design=design)

    def redesigned(self) -> Self:
        """The same with the counters of its own options, sealed one by one or not.

        Raises:
            RequestError: the target is out of reach.
        """
        statistic = replace(self.statistic, options=self.options)
        design, reporting = self.least(statistic, self.sealed)
        return replace(self, statistic=statistic, design=design, reporting=reporting)

    def divided(self) -> Self:
        return self if self.sealed else replace(self, sealed=True).redesigned()

    # What is known of its noise.

    @property
    def shape(self) -> Shape:
        """How its totals travel."""
        return self.shaped(self.statistic.workload)

    @cached_property
    def accuracy(self) -> Accuracy:
        """Of the totals."""
        return self.shape.accuracy(self)

    def evidence(self, estimate: Counted) -> Evidence:
        # Tables, cautions and statement ask for it six times: of a million totals, or of 18,000
        # strings, 0.1 s.
        if self._latest.get("estimate") is not estimate:
            self._latest.update(estimate=estimate, evidence=self._evidence(estimate))
        return cast(Evidence, self._latest["evidence"])

    def _evidence(self, estimate: Any) -> Evidence:
        """What `evidence` says, made anew."""
        return self.shape.evidence(self, estimate)

    @cached_property
    def _latest(self) -> dict[str, Any]:
        """The estimate that was seen last, and its evidence."""
        return {}

    @property
    def declared(self) -> dict[str, pa.Table]:
        from transforms.collector.collect_counts import Counted

        undeclared = getattr(self.options, "undeclared_columns", ())
        if undeclared or self.statistic.workload.shape == "strings":
            return {}
        return self.tables(Counted(self.shape.nothing(self), 0, 0))

    @property
    def parts(self) -> int:
        """Into how many what a unit raises is divided among its rows; 1 where it is not."""
        return getattr(self.reporting, "parts", 1)

    @property
    def worth(self) -> float:
        """What one more of a counter of weight 1 adds to a figure's total."""
        return self.shape.worth(self)

    @property
    def unit_error(self) -> float:
        return self.shape.unit_error(self)

    @property
    def counters(self) -> SlottedCounters | None:
        return self.design if isinstance(self.design, Counters | SlottedDevices) else None

    @property
    def by_devices(self) -> bool:
        """Whether the devices draw the dummies, and not the shuffler."""
        return isinstance(self.design, DeviceCounters)

    # What is decided before a row is read.

    @property
    def protection(self) -> Protection:
        made, messages = (self.design, self.reporting), self.design.messages
        bits = messages * max(1, (self.design.codes - 1).bit_length())
        honest = getattr(self.design, "honest_share", None)
        return Protection("counters", "shuffle", made, messages, bits, honest)

    @property
    def mechanism(self) -> CountCodes:
        return CountCodes(self.design.codes)

    @property
    def guarantees(self) -> tuple[Guarantee, Guarantee]:
        opens = "opens its seals" if self.collects or self.sealed else "sees it"
        drawn = "dummies" if self.by_devices else "the shuffler's dummies"
        why = f"whoever {opens} reads it; {drawn} hide it among others"
        return replace(self.design.guarantee, unit=self.unit), Guarantee.none(why)

    @property
    def priced(self) -> Any:
        clip = getattr(self.reporting, "clip", None)
        if clip is None:
            return self.design
        return replace(self.design, unit=clip.bound / clip.units)

    @property
    def profile(self) -> PrivacyLoss:
        return _profile(self.design)

    @property
    def expected(self) -> int:
        """About how many units take part, as far as that is public."""
        return int(self.options.usual)

    @property
    def rounded(self) -> int:
        """How many numbers are rounded, at the most, as far as that is public."""
        return self.expected

    @property
    def cautions(self) -> list[str]:
        released, options = self.guarantees[0], self.options
        declared = options.expected or getattr(options, "enrolled", None)
        return [
            *cautioned(released.delta, declared),
            *next_to_nothing(released),
            *self._drowned,
            *self.statistic.forecast(self.accuracy, self.rounded).cautions,
        ]

    @property
    def _forecast(self) -> Forecast:
        return self.statistic.forecast(self.accuracy, self.expected)

    @property
    def error(self) -> float:
        """The standard error of one figure, in its own units; the same whatever the data are."""
        return float(self._forecast.error)

    @property
    def influence(self) -> float:
        """How far one liar moves a figure, at the most."""
        return self.shape.influence(self)

    @cached_property
    def _drowned(self) -> tuple[str, ...]:
        return tuple(drowned(self))

    @property
    def expected_error(self) -> str:
        forecast = self._forecast
        if not forecast.of:
            return forecast.words
        of = f", {self.assumed}" if self.announced is None else f" of {forecast.of}"
        return forecast.words + of

    @property
    def announced(self) -> int | None:
        """How many units take part, if somebody has said so."""
        return cast(int | None, self.options.expected or self.options.enrolled)

    @property
    def assumed(self) -> str:
        """How many are taken for granted where nobody has."""
        return f"if {self.expected:,} {self.unit}s take part"

    @property
    def prospect(self) -> str | None:
        messages = self.protection.messages
        own = f"{messages:,.{0 if messages.is_integer() else 2}f}"
        return (
            f"a {self.unit} sends {own} message{'s' * (own != '1')}, the release has "
            f"{self.design.number:,.0f} dummies, and {error_words(self)}"
        )

    @property
    def fresh_only(self) -> str | None:
        return "nothing that users send is randomised, and dummies are drawn once a window"

    @property
    def undivided(self) -> str | None:
        return f"its {'devices draw' if self.by_devices else 'shuffler draws'} dummies"

    # The clients.

    def encoder(self, coins: Any = None) -> GroupEncoder:
        return self.statistic.encoder

    def contributions(
        self, tables: beam.PCollection, named: UserDigest | None = None
    ) -> EncodedContributions:
        return self.shape.contributions(self, tables, named)

    def reports(self, tables: beam.PCollection) -> MetricReports:
        layout = self.design.layout
        messages, tallies, flow = self.shape.contributions(self, tables, None, layout)
        return MetricReports(messages, None, tallies, flow)

    # The shuffler.

    @property
    def shuffling(self) -> Shuffling:
        from transforms.elements.conservation import Batches, Shuffled, leaving
        from transforms.shuffle.dummies import AddDummies, ranges_of
        from transforms.shuffle.group_codes import GroupCodes

        design, codes = cast(DummyCounters, self.design), self.mechanism.codes
        # A collector does not see what another party draws.
        passed = Shuffled(0, Batches(codes), 0 if self.collects else len(ranges_of(design)))

        def step(reports: MetricReports) -> MetricReports:
            dummies = AddDummies(design, self.open_rng)
            messages, drawn = reports.messages | "Dummies" >> dummies
            flow = *reports.flow, drawn, leaving(messages, passed.batches)
            if not self.options.fused:
                messages = messages | "Shuffle" >> GroupCodes(codes)
            return reports._replace(messages=messages, flow=flow)

        return Shuffling(passed, step, None)

    # The collector.

    def with_noise(self, counted: Counted, secret: bytes, window: Any) -> Iterator[Counted]:
        """What was counted, and the noise of who draws none before.

        Args:
            counted: of a window.
            secret: what noise of exact totals is drawn from.
            window: which one.
        """
        yield counted

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

    def unusable_parts(self, estimate: Counted, confidence: float) -> Mapping[str, Share]:
        return dict(self.statistic.unusable(self.evidence(estimate), confidence))

    def unusable_cautions(self, estimate: Any, confidence: float) -> list[str]:
        """That many units were truncated; and where numbers are added up, how many were none.

        Of how many that is, nobody publishes.
        """
        evidence = self.evidence(estimate)
        truncated = [*self.statistic.cautions(evidence)]
        truncated += truncation(self, evidence, confidence)
        if self.unusable_parts(estimate, confidence):
            return truncated  # their share says it
        none = evidence.beside(UNUSABLE, confidence)
        declared = self.announced
        # Without a number that was declared nobody knows of how many they are.
        if none is None or not none[0] - none[1] > MANY * (declared or 0):
            return truncated
        count, far = none
        known = f"of {declared:,} that were declared" if declared else _UNKNOWN
        return [
            *truncated,
            f"about {count:,.0f} {self.unit}s, give or take {far:,.0f} (with {100 * confidence:g} "
            f"% confidence), have a number that cannot be used, which adds nothing to the sum; "
            f"{known}",
        ]

    # What is said of it.

    def statement(self, estimate: Counted, tallies: Mapping[str, int]) -> dict[str, Any]:
        unit, neighbours = self.unit, self.options.neighbours
        covers = wording.protected(unit, neighbours)
        words = [
            self._who(),
            self._liars(),
            wording.exact(self.exactly),
            *self.words,
            *among(self.options.where, self.unit, RAISING_NONE),
            *([] if unit == "row" else [wording.NOBODY]),
            *[FUSED] * self.options.fused,
            *self.cautions,
        ]
        return {
            **head(self.kind, promises(self), covers, words, 0, self.priced),
            "neighbours": wording.neighbours(unit, neighbours),
            "published_exactly": " and ".join(self.exactly) or "nothing",
            **wording.devices(self.design, estimate),
            "cut": self._cut(estimate),
            "poisoning": {"per_liar": self.influence, "figure": "any one figure"},
            "request": self.request,
            "mechanism": self.mechanism_statement,
            "error": self.error_statement,
            "versions": versions(),
            **self.statistic.statement(self.evidence(estimate)),
        }

    @property
    def words(self) -> list[str]:
        return list(self.statistic.wording.words)

    @property
    def exactly(self) -> tuple[str, ...]:
        """What is published as it is."""
        sent = ("how many devices sent",) * isinstance(self.design, SlottedDevices)
        return (*sent, *self.statistic.wording.exactly)

    @property
    def shared_words(self) -> list[str]:
        covered = wording.protected(self.unit, self.options.neighbours)
        return [covered, self._who(), wording.exact(self.exactly)]

    def _who(self) -> str:
        return wording.who(self.design, self.unit, self.collects)

    def _liars(self) -> str:
        return wording.liars(self.design, self.unit, self.influence)

    def _cut(self, estimate: Counted) -> dict[str, Any]:
        """How many units lost something, by counters of their own."""
        if not self.reporting.beside or isinstance(self.design, QuantileChoice):
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

    @property
    def request(self) -> dict[str, Any]:
        words, settled = super().request, self.shape.settled(self)
        files = [one for one in self.options.files if one != "group" and words.get(one)]
        said = [f"{domain.declared:,} declared values" for _, domain in self.statistic.domains]
        words |= dict(zip(files, said, strict=False))
        if words.get("group"):
            columns = [column for column, _ in self.statistic.domains]
            pairs = zip(columns, said, strict=True)
            words["group"] = [f"{column}: {many}" for column, many in pairs][len(files) :]
        words |= {"delta": self.design.delta, **self.statistic.wording.request}
        if words.get("enrolled"):
            words["honest_share"] = self.options.honest_share or CLIENTS_SHARE
        if self.unit == "user":
            shape = self.shape
            counted = shape.shared if self.parts > 1 else shape.rows_of_a_user
            settled |= {"rows_of_a_user": counted}
        return words | settled

    @property
    def error_statement(self) -> dict[str, Any]:
        terms = self.statistic.wording.errors
        covers = terms.covers
        if not terms.divides and self.statistic.workload.amount is not None and self.accuracy.coin:
            most = f"{self.rounded:,} {self.unit}s at the most"
            covers = f"the noise of the dummies, and roundings of {most}; not what was truncated"
        said = {"covers": covers, "reading": terms.reading}
        if terms.divides:
            of = {f"{self.unit}s": self.expected, terms.key: self.error}
            return {"standard_error_if": of, **said}
        return {terms.key: self.error, **said, **_law_of(self)}

    @property
    def mechanism_statement(self) -> dict[str, Any]:
        return {
            "name": self.protection.system,
            "source": wording.source(self.design),
            "constants": self.design.constants,
            "drawn_by": "devices" if self.by_devices else "shuffler",
            "messages_per_user": self.protection.messages,
            "bits_per_message": max(1, (self.design.codes - 1).bit_length()),
        }


def error_words(release: ByCounters) -> str:
    """How far off a figure may be expected to be.

    Args:
        release: ready to run.
    """
    terms = release.statistic.wording.errors
    declared = "" if release.options.expected else " (--expected N for another number)"
    of = f", {release.assumed}{declared}" * terms.divides
    return f"the standard error{terms.of} is {three_digits(release.error)}{of}"


def truncation(release: ByCounters, evidence: Evidence, confidence: float) -> list[str]:
    """A caution if much of the figures is of units that had more: they are of what was counted.

    The number of units that were truncated is noisy, and published anyway.

    Args:
        release: that was made.
        evidence: of its batch.
        confidence: that there are as many.
    """
    limited = evidence.beside(LIMITED, confidence)
    if limited is None:
        return []
    work, (count, far) = release.statistic.workload, limited
    most = work.most_groups * (work.rows or 1)
    # What a unit that was cut raises all figures by, which is the most that one may.
    if evidence.people.size:
        of_one, all_of_it = float(most), float(np.abs(evidence.people).sum())
    else:
        of_one = float(work.most_groups * release.influence)  # of all its rows
        all_of_it = float(np.abs(evidence.totals).sum())
    if not (count > far and (count - far) * of_one > MANY * all_of_it):
        return []
    share = min(count * of_one / max(all_of_it, 1.0), 1.0)
    grouped = work.rows is not None or work.groups > work.most_groups
    # As plans and Python spell options: a statement is read wherever the request was made.
    raised = ["rows_per_user (of a query max_groups)"] * grouped + ["per_value"] * (work.most > 1)
    raised += ["bounds"] * (work.amount is not None)
    return [
        f"about {count:,.0f} {release.unit}s, give or take {far:,.0f}, had more than was counted, "
        f"and may make up to {100 * share:.0f} % of these figures, which are of what was counted: "
        f"larger {' or '.join(raised)} would count more, with more noise, for another price"
    ]


def counts_alone(release: ByCounters) -> bool:
    """Whether figures are numbers of units, one total each.

    Args:
        release: ready to run.
    """
    work = release.statistic.workload
    alone = work.amount is None and work.people == "nobody" and work.shape == "cells"
    return alone and not release.options.remembers


def _law_of(release: ByCounters) -> dict[str, Any]:
    """The law of the noise, where one counter is one figure, and the shuffler's own noise of it."""
    dummies = getattr(release.design, "dummies", None)
    one = counts_alone(release) and release.statistic.workload.most == 1
    if not (one and isinstance(dummies, Independent)):
        return {}
    law = dummies.laws[0]
    return {"law": {"farthest": law.mu, "falls": list(law.falls)}}


@lru_cache(maxsize=64)  # a ledger asks for it again with every window
def _profile(design: NoisyCounters) -> PrivacyLoss:
    return design.profile()
