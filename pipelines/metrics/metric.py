"""The one type of metric: all that is known of a kind stands in one subclass of `Metric`.

tables -> `reports` (the clients) -> `shuffling` (the shuffler) -> `estimated` and `content` (the
collector). A job runs it whole; the three parties each run their part; plans, streams and Beam YAML
read its members. Nothing outside of a kind's own folder is keyed by the kind's name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from mechanisms.channel import AsFields, Guarantee
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.randomness import SecureRandom
from mechanisms.wire.strings import seals_of
from pipelines.logs.inputs import Telemetry, sessions_of
from pipelines.metrics.content import Content as Content
from pipelines.metrics.content import MetricReports as MetricReports
from pipelines.metrics.first_round import ChosenBounds
from pipelines.metrics.heading import Heading
from pipelines.metrics.permanent import Permanent
from pipelines.metrics.protection import Protection
from pipelines.metrics.shuffling import Shuffling
from pipelines.metrics.unusable.share import Share
from pipelines.metrics.unusable.verdict import cautioned, share_alone, verdict
from pipelines.views import report
from pipelines.wording import ONE_ROW
from transforms.encoders.bounds import Rounding
from transforms.encoders.encoder import Encoder
from transforms.encoders.part import Part, Viewed
from transforms.encoders.users import UserDigest, fresh_digest

if TYPE_CHECKING:
    import apache_beam as beam
    from typing_extensions import Self

    from mechanisms.counters.choose import SlottedCounters
    from mechanisms.heavy_hitters.crowds import Crowds
    from transforms.elements.blocks import Generator
    from transforms.units.contributions import EncodedContributions

PAGE = "report.html"


class Coins:
    """What an encoder draws besides its own rows: here anew for each of them."""

    def rounding(self, usual: Any) -> Rounding:
        """What takes numbers to cells, by the metric's own rounding."""
        return usual

    def choice(self, usual: Any) -> Any:
        """What chooses the coordinates that are reported, by the metric's own choice."""
        return usual


FRESH = Coins()


@dataclass(frozen=True, kw_only=True)
class Metric(AsFields, ABC):
    """A request for a release, held against its input: all that is decided before a row is read.

    Most kinds are `ByReports` or `ByCounters`, which say all but what a kind alone knows.

    Attributes:
        draws_once: whether its noise is drawn from `MetricReports.drawing`, in every window.
        options: what was asked.
        telemetry: the files.
        design: the mechanism and what it guarantees.
        min_reports: the least batch that is published.
        open_rng: opens generators on workers; a seeded one is for tests.
        name: in its plan, if it is of one.
        permanent: noise that users draw once and for all, if their plan says so.
        first: a first round that has chosen its bounds, if one has.
        part: the units that answer, where those of a plan are divided among its metrics.
        collects: whether others make the reports, out of its sight.
        paged: whether its release is a page, too.
    """

    kind: ClassVar[str]
    draws_once: ClassVar[bool] = False

    options: Any
    telemetry: Telemetry
    design: Any
    min_reports: int
    open_rng: Generator = SecureRandom
    name: str = ""
    permanent: Permanent | None = None
    first: ChosenBounds | None = None
    part: Part | None = None
    collects: bool = False
    paged: bool = True

    # What is decided before a row is read.

    @property
    @abstractmethod
    def protection(self) -> Protection:
        """What protects, and what it costs users."""

    @property
    @abstractmethod
    def mechanism(self) -> Any:
        """What a client runs, once for each message."""

    @property
    def unit(self) -> str:
        """Whose contribution is protected."""
        return str(self.options.unit)

    @property
    @abstractmethod
    def guarantees(self) -> tuple[Guarantee, Guarantee]:
        """What the release promises, and what a single report does."""

    @property
    def priced(self) -> Any:
        """From what the price of its release follows; None if from more than a design says."""
        return self.design

    @property
    @abstractmethod
    def profile(self) -> PrivacyLoss:
        """What a release reveals at every epsilon; noise that is permanent left alone.

        Raises:
            ValueError: it promises nothing.
        """

    @property
    @abstractmethod
    def unit_error(self) -> float:
        """The mean squared error that is predicted, times the number of units."""

    @property
    def cautions(self) -> list[str]:
        """What is allowed and yet should be thought over, for the requester and the reader."""
        return []

    @property
    def error_statement(self) -> dict[str, Any] | None:
        """What its statement says of its error; None if that hangs on how many reports come."""
        return None

    @property
    @abstractmethod
    def expected_error(self) -> str:
        """How far off the least batch may be, in a few words."""

    @property
    def hiding_cost(self) -> float | None:
        """By which factor errors are larger because unusable values are hidden; None if none is."""
        return None

    @property
    def prospect(self) -> str | None:
        """What may be expected, in a sentence before it runs; None if `check` says enough."""
        return None

    # The clients.

    def rescaled(self, options: Any) -> Self | None:
        """The same for another epsilon, of the same shape; None if it is to be resolved anew.

        Args:
            options: what is asked; nothing but its epsilon and delta is another.

        Raises:
            RequestError: the target is out of reach.
        """
        return None

    def divided(self) -> Self:
        """The same as clients, a shuffler and a collector serve it."""
        return self

    @property
    def undivided(self) -> str | None:
        """Why clients cannot make the reports out of sight of the collector; None if they can."""
        return None

    @property
    def fresh_only(self) -> str | None:
        """Why the noise of these reports cannot be permanent; None if it can."""
        return None

    @abstractmethod
    def encoder(self, coins: Coins = FRESH) -> Encoder:
        """What takes rows to what the mechanism takes.

        Args:
            coins: what it draws.
        """

    @abstractmethod
    def reports(self, tables: beam.PCollection) -> MetricReports:
        """The clients: from tables to perturbed messages."""

    @abstractmethod
    def contributions(
        self, tables: beam.PCollection, named: UserDigest | None = None
    ) -> EncodedContributions:
        """Blocks of one row of each unit; and (name, count) of rows by fate.

        Args:
            tables: with the metric's columns.
            named: of users, if their digests are to stay with their rows.
        """

    # The shuffler.

    @property
    def counters(self) -> SlottedCounters | None:
        """Those that reports of one size go to; None if each is noisy by itself, or of any size."""
        return None

    @property
    def crowds(self) -> Crowds | None:
        """Which strings, sealed whole, are handed on; None if messages are no strings."""
        return None

    @property
    def batches(self) -> int:
        """How many batches must each have their least number of reports."""
        return 1

    @property
    @abstractmethod
    def shuffling(self) -> Shuffling:
        """What becomes of reports between clients and collector."""

    # The collector.

    def estimated(self, reports: MetricReports) -> beam.PCollection:
        """The collector's one element: what the batch says."""
        return reports.counted(self.mechanism)

    def enough(self, estimate: Any) -> bool:
        """Whether the batch is large enough for a release."""
        return True

    @abstractmethod
    def tables(self, estimate: Any) -> dict[str, pa.Table]:
        """What is published, file name -> table; none if nothing of it may be."""

    @abstractmethod
    def statement(self, estimate: Any, tallies: Mapping[str, int]) -> dict[str, Any]:
        """What was asked, what was done, and what it guarantees."""

    @property
    @abstractmethod
    def heading(self) -> Heading:
        """How it is shown."""

    @property
    def declared(self) -> dict[str, pa.Table]:
        """Tables of a batch without messages; none if a plan does not say which rows there are."""
        return {}

    @property
    def words(self) -> list[str]:
        """What a reader must know beside the promises and the cautions."""
        return []

    @property
    def shared_words(self) -> list[str]:
        """What is protected, and whom one trusts, for the statement of a whole plan as well."""
        return []

    @property
    def request(self) -> dict[str, Any]:
        """What was asked, and what was settled where nobody asked."""
        words: dict[str, Any] = self.options.model_dump(exclude={*self.options.unstated})
        words |= {"unit": self.unit, "model": self.protection.model}
        return words if self.unit == "row" else words | {"rows_of_a_user": ONE_ROW}

    def arrived(self, estimate: Any) -> int | None:
        """How many messages were counted, impossible ones among them; None if that says nothing."""
        return None

    def unusable_parts(self, estimate: Any, confidence: float) -> Mapping[str, Share]:
        """The share of the units without a value that can be used, where one is published.

        Args:
            estimate: of the collector: it knows noisy numbers alone.
            confidence: with which all intervals hold together.

        Returns:
            Part of the metric -> the noisy share; the part is "" where it has one. None of a kind
            that publishes no such share, as counts do not.
        """
        return {}

    def unusable_cautions(self, estimate: Any, confidence: float) -> list[str]:
        """What to say of them where a noisy number of them is published, and no share.

        Args:
            estimate: of the collector.
            confidence: that there are as many.
        """
        return []

    def page_words(self, statement: Mapping[str, Any]) -> dict[str, Any]:
        """What its page says of its own, as of `report.page_words`; the statement holds it."""
        return report.page_words()

    def page(self, tables: Mapping[str, pa.Table], statement: Mapping[str, Any]) -> bytes:
        """The release for readers; where it is no `report.page`, `page_words` is empty."""
        return report.page(tables, statement)

    def content(self, estimate: Any, tallies: Mapping[str, int]) -> Content | None:
        """What is published of an estimate; None if the batch is too small."""
        if not self.enough(estimate):
            return None
        tables = self.tables(estimate)
        if not tables:
            return None
        statement = {**self.statement(estimate, tallies), **self.heading.stated}
        judgement = verdict(self, estimate)
        if judgement.withheld is not None:
            return share_alone(self, statement, judgement)
        statement = cautioned(statement, judgement)
        if self.paged and (own := self.page_words(statement)):
            statement |= {report.OWN: own}
        page = {PAGE: self.page(tables, statement)} if self.paged else {}
        return Content(tables | page, statement, tuple(self.shared_words))

    def whole(self, tables: beam.PCollection) -> beam.PCollection:
        """All of it, in one job: a `Content`."""
        from pipelines.metrics.publishable import collected

        return collected(self, self.shuffling.step(self.client_reports(tables)))

    def client_reports(self, tables: beam.PCollection) -> MetricReports:
        """`reports` of rows, or of their sessions."""
        from transforms.rows.sessions import in_sessions

        made, users = sessions_of(self.options), fresh_digest(self.options.user_column)
        if made is None or users is None:
            return self.reports(tables)
        return in_sessions(tables, self.reports, made, users, self.telemetry.rows)

    # Afterwards.

    def withheld(self, counted: Mapping[str, int]) -> str | None:
        """Why nothing was published, from the run's counters; None if too few is not why."""
        return None


def viewed(metric: Metric, coins: Coins = FRESH, pools: bool = False) -> Encoder:
    """The encoder behind what a request derives, and what it says must hold.

    A row for which that does not is like one without a value: where absence is hidden it is
    reported, where absence is counted it is left out, and counted, and counters take it for
    nothing.

    Args:
        metric: whose rows are encoded.
        coins: what the encoder draws.
        pools: whether it says equal rows once, as encoders of strings may.
    """
    encoder: Any = metric.encoder(coins)
    options = metric.options
    encoder = replace(encoder, pools=True) if pools else encoder
    if not options.view:
        return encoder
    if options.hides_presence:
        return Viewed(encoder, options.view)
    hidden = encoder.columns - options.public_columns if options.hides else frozenset[str]()
    return Viewed(encoder, options.view, hidden, leaves_out=not options.hides)


def columns_read(metric: Metric) -> frozenset[str]:
    """What is read of the log; nothing else leaves the files."""
    own = viewed(metric).columns | columns_of(metric.options.user_column)
    made = sessions_of(metric.options)
    return own if made is None else own - {*made.fields.names} | {made.time}


def published_in(metric: Metric, folder: str, window: str) -> Any:
    """The same metric with another folder for its release, which is of another window."""
    update = {"output": folder} | ({"window": window} if metric.options.remembers else {})
    options = metric.options.model_copy(update=update)
    statistic = getattr(metric, "statistic", None)
    again = {} if statistic is None else {"statistic": replace(statistic, options=options)}
    return replace(metric, options=options, **again)


def enrolled(metric: Metric) -> int | None:
    """How many devices report whether they have rows or not; None if others do not."""
    return getattr(metric.counters, "enrolled", None)


def slots(metric: Any) -> int:
    """How many sealed words reports to noisy counters have, all of them; 0 of others."""
    if metric.crowds is not None:
        return int(metric.crowds.strings * seals_of(metric.width))
    return 0 if metric.counters is None else int(metric.counters.layout.types.size)


def columns_of(*names: str | None) -> frozenset[str]:
    """The columns among names of which some are not given."""
    return frozenset(name for name in names if name is not None)
