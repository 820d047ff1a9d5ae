"""The one type of metric: all that is known of a kind stands in one subclass of `Metric`.

tables -> `reports` (the clients) -> `shuffled` (the shuffler) -> `estimated` and `content` (the
collector). A job runs it whole; the three parties each run their part; plans, streams and Beam YAML
read its members. Nothing outside of a kind's own folder is keyed by the kind's name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from rich.console import Console

from mechanisms.channel import AsFields, Guarantee
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.randomness import SecureRandom
from pipelines.errors import RequestError
from pipelines.logs.inputs import ALONE, Source, Telemetry
from pipelines.metrics.content import Content as Content
from pipelines.metrics.content import MetricReports as MetricReports
from pipelines.metrics.heading import Heading
from pipelines.metrics.permanent import Permanent
from pipelines.metrics.unusable.share import Share
from pipelines.metrics.unusable.verdict import cautioned, share_alone, verdict
from pipelines.releases import release
from pipelines.releases.schema import own
from pipelines.releases.statement import parquet
from pipelines.views import report
from pipelines.wording import FUSED, FUSED_HERE, ONE_ROW
from transforms.encoders.bounds import Rounding
from transforms.encoders.encoder import Encoder
from transforms.encoders.part import Part, Viewed
from transforms.encoders.users import UserDigest

if TYPE_CHECKING:
    import apache_beam as beam
    from typing_extensions import Self

    from mechanisms.counters.choose import SlottedCounters
    from mechanisms.heavy_hitters.crowds import Crowds
    from transforms.elements.blocks import Generator
    from transforms.elements.conservation import Shuffled
    from transforms.shuffle.shuffle import Shuffle
    from transforms.units.contributions import EncodedContributions

PAGE = "report.html"


class Coins:
    """What an encoder draws besides its own rows: here anew for each of them."""

    def rounding(self, usual: Any) -> Rounding:
        """What takes numbers to cells, by the metric's own rounding."""
        rounding: Rounding = usual
        return rounding

    def choice(self, usual: Any) -> Any:
        """What chooses the coordinates that are reported, by the metric's own choice."""
        return usual


FRESH = Coins()


@dataclass(frozen=True, kw_only=True)
class Metric(AsFields, ABC):
    """A request for a release, held against its input: all that is decided before a row is read.

    Most kinds are a `Randomised` or a `Counting`, which say all but what a kind alone knows.

    Attributes:
        options: what was asked.
        telemetry: the files.
        design: the mechanism and what it guarantees.
        min_reports: the least batch that is published.
        open_rng: opens generators on workers; a seeded one is for tests.
        name: in its plan, if it is of one.
        permanent: noise that users draw once and for all, if their plan says so.
        part: the units that answer, where those of a plan are divided among its metrics.
        collects: whether others make the reports, out of its sight.
    """

    kind: ClassVar[str]
    remembers: ClassVar[bool] = False  # whether its noise goes on from window to window

    options: Any
    telemetry: Telemetry
    design: Any
    min_reports: int
    open_rng: Generator = SecureRandom
    name: str = ""
    permanent: Permanent | None = None
    part: Part | None = None
    collects: bool = False

    # What is decided before a row is read.

    def __post_init__(self) -> None:
        if self.options.fused and self.unfused is not None:
            raise RequestError(f"--shuffler fused: {self.unfused}; leave it out")

    @classmethod
    @abstractmethod
    def resolve(
        cls, options: Any, source: Source = ALONE, open_rng: Generator = SecureRandom
    ) -> Self:
        """Hold a request against its input and choose the mechanism; reads footers only.

        Args:
            options: of its kind.
            source: the files, and what public randomness comes from.
            open_rng: opens generators on workers.

        Raises:
            RequestError: something is wrong with the request or the input.
        """

    @property
    @abstractmethod
    def system(self) -> str:
        """The name of what protects."""

    @property
    @abstractmethod
    def mechanism(self) -> Any:
        """What a client runs, once for each message."""

    @property
    @abstractmethod
    def resolved(self) -> Any:
        """What codes come from and are decoded by: a fingerprint covers it to the last bit."""

    @property
    @abstractmethod
    def model(self) -> str:
        """Who is trusted: "local", "shuffle" or "central"."""

    @property
    def unit(self) -> str:
        """Whose contribution is protected."""
        return str(self.options.unit)

    @property
    def rows_of_a_user(self) -> str:
        """Which of them count, where users are protected: others would mean other things."""
        return ONE_ROW

    @property
    @abstractmethod
    def messages(self) -> float:
        """How many messages a user sends, on average."""

    @property
    @abstractmethod
    def guarantees(self) -> tuple[Guarantee, Guarantee]:
        """What the release promises, and what a single report does."""

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
    def promises(self) -> tuple[Guarantee, Guarantee]:
        """The guarantees; of permanent noise, those of all windows together."""
        return (
            self.guarantees if self.permanent is None else self.permanent.promise(self.guarantees)
        )

    @property
    def honest_share(self) -> float | None:
        """The share of the users that the promise counts on; None if it counts on none."""
        return None

    @property
    def answering_share(self) -> float:
        """The share of the units that answer."""
        return 1.0 if self.part is None else self.part.share

    @property
    def answering_rows(self) -> int:
        """How many of the files' rows are looked at; 0 if nobody has counted them, or may tell.

        How many rows users have is theirs: a caution about so many would publish it.
        """
        return int(self.telemetry.rows * self.answering_share) if self.options.unit == "row" else 0

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
    @abstractmethod
    def bits(self) -> float:
        """How many a user sends, on average and at the least."""

    @property
    def prospect(self) -> str | None:
        """What may be expected, in a sentence before it runs; None if `check` says enough."""
        return None

    def published_in(self, folder: str, window: str) -> Self:
        """The same metric with another folder for its release, which is of another window."""
        return replace(self, options=self.options.model_copy(update={"output": folder}))

    def begin(self) -> tuple[str, tuple[str, ...]]:
        """Look at what it remembers, before a row is read: an id of that, and the windows in it.

        Raises:
            RequestError: what windows before were drawn from is not there, or no more can be drawn.
        """
        return "", ()

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
    def specification(self) -> tuple[Any, Any] | None:
        """What a client in another language needs: records of its encoder and of its channel.

        None if one of them is not written down, as no expression over columns is.
        """
        if self.options.view:
            return None
        encoder = getattr(self.encoder(), "specification", None)
        channel = getattr(self.mechanism, "specification", None)
        return None if encoder is None or channel is None else (encoder, channel)

    @property
    def undivided(self) -> str | None:
        """Why clients cannot make the reports out of sight of the collector; None if they can."""
        return None

    @property
    def one_job_only(self) -> str | None:
        """Why parties, or a stream, cannot serve what was asked; None if they can."""
        return FUSED_HERE if self.options.fused else None

    @property
    def fresh_only(self) -> str | None:
        """Why the noise of these reports cannot be permanent; None if it can."""
        return None

    @property
    def columns(self) -> frozenset[str]:
        """What is read of the log; nothing else leaves the files."""
        return self.viewed().columns | columns_of(self.options.user_column)

    @abstractmethod
    def encoder(self, coins: Coins = FRESH) -> Encoder:
        """What takes rows to what the mechanism takes.

        Args:
            coins: what it draws.
        """

    @property
    def public_columns(self) -> frozenset[str]:
        """Columns whose values reports say in the clear."""
        return frozenset()

    def viewed(self, coins: Coins = FRESH) -> Encoder:
        """The encoder behind what the request derives, and what it says must hold.

        A row for which that does not is like one without a value: where absence is hidden it is
        reported, and where absence is counted it is left out, and counted.
        """
        encoder, view = self.encoder(coins), self.options.view
        if not view:
            return encoder
        hides = bool(self.options.hides)
        hidden = encoder.columns - self.public_columns if hides else frozenset[str]()
        return Viewed(encoder, view, hidden, leaves_out=not hides)

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
    def slots(self) -> int:
        """How many sealed words its reports to noisy counters have, all of them; 0 of others."""
        return 0 if self.counters is None else int(self.counters.layout.types.size)

    @property
    def crowds(self) -> Crowds | None:
        """Which strings, sealed whole, are handed on; None if messages are no strings."""
        return None

    @property
    def enrolled(self) -> int | None:
        """How many devices report whether they have rows or not; None if others do not."""
        return None

    @property
    def batches(self) -> int:
        """How many batches must each have their least number of reports."""
        return 1

    @property
    def unfused(self) -> str | None:
        """Why one job cannot count its reports as they come; None if it can."""
        return None

    @property
    def shuffler(self) -> Shuffle | None:
        """What stands between clients and collector; None if nothing does."""
        return None

    @property
    @abstractmethod
    def shuffled_batches(self) -> Shuffled:
        """What the shuffler lets through."""

    def shuffled(self, reports: MetricReports) -> MetricReports:
        """The shuffler."""
        return self.mixed(reports)

    def mixed(self, reports: MetricReports) -> MetricReports:
        """The messages shuffled, if anything shuffles them."""
        shuffle = self.shuffler
        if shuffle is None:
            return reports
        shuffle.users, shuffle.flow = reports.users, reports.sums
        return reports._replace(messages=reports.messages | "Shuffle" >> shuffle)

    # The collector.

    def estimated(self, reports: MetricReports) -> beam.PCollection:
        """The collector's one element: what the batch says."""
        return self.counts(reports)

    def counts(self, reports: MetricReports) -> beam.PCollection:
        """How often each message came."""
        from transforms.collector.collect_counts import CountMessages
        from transforms.elements.combine_all import CombineAll

        count = CombineAll(CountMessages(self.mechanism))
        return reports.messages | "Count" >> count

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
    def words(self) -> list[str]:
        """What a reader must know beside the promises and the cautions."""
        return []

    @property
    def shared_words(self) -> list[str]:
        """What is protected, and whom one trusts, for the statement of a whole plan as well."""
        return []

    @property
    def fused(self) -> list[str]:
        """That the job has counted reports as they came, if it has."""
        return [FUSED] if self.options.fused else []

    @property
    def request(self) -> dict[str, Any]:
        """What was asked, and what was settled where nobody asked."""
        words: dict[str, Any] = self.options.model_dump(exclude={*self.options.unstated})
        words |= {"unit": self.unit, "model": self.model}
        return words if self.unit == "row" else words | {"rows_of_a_user": self.rows_of_a_user}

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

    def unusable_cautions(self, estimate: Any, confidence: tuple[float, float]) -> list[str]:
        """What to say of them where a noisy number of them is published, and no share.

        Args:
            estimate: of the collector.
            confidence: of what may be held against a declared number, and of what may not.
        """
        return []

    @property
    def narrows(self) -> bool:
        """Whether that share is of units for which `where` does not hold, too."""
        return False

    def page(self, tables: Mapping[str, pa.Table], statement: Mapping[str, Any]) -> bytes:
        """The release for readers."""
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
        files = {name: parquet(table) for name, table in tables.items()}
        page = self.page(tables, statement)
        return Content(files | {PAGE: page}, statement, tuple(self.shared_words))

    def whole(self, tables: beam.PCollection) -> beam.PCollection:
        """All of it, in one job: a `Content`."""
        return self.collected(self.shuffled(self.reports(tables)))

    def collected(self, reports: MetricReports) -> beam.PCollection:
        """The collector: one `Content`, without files if too few reports came."""
        return self.contents(self.estimated(reports), reports)

    def contents(self, estimate: beam.PCollection, reports: MetricReports) -> beam.PCollection:
        """What is published of an estimate, if nothing was lost on the way to it."""
        from pipelines.metrics.publishable import publishable

        return publishable(self, estimate, reports)

    # Afterwards.

    def withheld(self, counted: Mapping[str, int]) -> str | None:
        """Why nothing was published, from the run's counters; None if too few is not why."""
        return None

    def show(self, screen: Console) -> None:
        """The release, where people look first."""
        folder = self.options.output
        tables = {name: own(table) for name, table in release.read_tables(folder).items()}
        report.show(screen, tables, release.statement_of(folder))


def columns_of(*names: str | None) -> frozenset[str]:
    """The columns among names of which some are not given."""
    return frozenset(name for name in names if name is not None)


def table_of(tables: Mapping[str, pa.Table]) -> pa.Table:
    """The table of a release that has one."""
    (table,) = tables.values()
    return table
