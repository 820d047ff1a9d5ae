"""The one type of metric: all that is known of a kind stands in one subclass of `Metric`.

tables -> `reports` (the clients) -> `shuffled` (the shuffler) -> `estimated` and `content` (the
collector). A job runs it whole; the three parties each run their part; plans, streams and Beam YAML
read its members. Nothing outside of a kind's own folder is keyed by the kind's name.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsDict
from rich.console import Console

from mechanisms.channel import Guarantee
from mechanisms.counters.design import Counters
from mechanisms.planner.design import Design
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.randomness import SecureRandom
from mechanisms.release_profile import release_profile, worst_profile
from pipelines import release
from pipelines.inputs import ALONE, Source, Telemetry
from pipelines.metrics import view
from pipelines.metrics.permanent import Permanent
from pipelines.metrics.poisoning import UNKNOWN, Poisoning
from pipelines.metrics.statement import counted, head, parquet, versions
from pipelines.terms import cautioned, next_to_nothing
from pipelines.views.wording import counting_on, one_of_many, protected
from transforms.blocks import Generator
from transforms.conservation import (
    Flow,
    LostError,
    Shuffled,
    entering,
    leaving,
    reporting_users,
    require_whole,
    summed,
)
from transforms.contributions import Contributions, EncodeContributions
from transforms.encoders.bounds import Rounding
from transforms.encoders.encoder import Encoder
from transforms.encoders.part import Part
from transforms.encoders.users import UserDigest
from transforms.perturb import Perturb, users_of
from transforms.progress import CHANGED, LOST, REPORTS, ROWS, WITHHELD, tally
from transforms.shuffle import Batches, Shuffle

if TYPE_CHECKING:
    from typing_extensions import Self

PAGE = "report.html"

# Rows of a bucket that one worker orders in its cache; that many only while there are few buckets,
# for thousands of them cut blocks to shreds; and rows that a bucket should hold at most.
_CACHED_ROWS, _FEW_BUCKETS = 1 << 16, 256
_BUCKET_ROWS = 1 << 18


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


class Reports(NamedTuple):
    """What clients send, and what is counted of those who could not.

    Attributes:
        messages: blocks of messages.
        users: numbers that add up to how many users reported, where one may send several messages;
            None where every message is a user's.
        tallies: (name, count), one for each name.
        flow: (name, count) of what passed between the steps; none where it came by other ways.
    """

    messages: beam.PCollection
    users: beam.PCollection | None
    tallies: beam.PCollection
    flow: tuple[beam.PCollection, ...] = ()


class Content(NamedTuple):
    """What is published: files by name, and the statement, but for its release_id.

    Without files it is withheld, and the statement says how many reports came ("reports") and how
    many had to ("min_reports").
    """

    files: dict[str, bytes]
    statement: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Metric(ABC):
    """A request for a release, held against its input: all that is decided before a row is read.

    A kind must say how a request is settled (`resolve`), what it reads (`encoder`), and what is
    made of the reports (`estimated`, `tables`). All else has a default that is right for a kind
    with one design and one message a user, and stands here to be said better by who knows more.

    Attributes:
        options: what was asked.
        telemetry: the files.
        design: the mechanism and what it guarantees, a `Design` unless its kind says otherwise.
        min_reports: the least batch that is published.
        open_rng: opens generators on workers; a seeded one is for tests.
        name: in its plan, if it is of one.
        permanent: noise that users draw once and for all, if their plan says so.
        part: the units that answer, where those of a plan are divided among its metrics.
        collects: whether others make the reports, out of its sight.
    """

    kind: ClassVar[str]
    Options: ClassVar[type[Any]]
    unstated: ClassVar[frozenset[str]] = frozenset()  # options that mean nothing for this kind

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

    @classmethod
    @abstractmethod
    def resolve(
        cls, options: Any, source: Source = ALONE, open_rng: Generator = SecureRandom
    ) -> Self:
        """Hold a request against its input and choose the mechanism; reads footers only.

        Args:
            options: of the class `Options`.
            source: the files, and what public randomness comes from.
            open_rng: opens generators on workers.

        Raises:
            RequestError: something is wrong with the request or the input.
        """

    @property
    def designs(self) -> tuple[Design[Any], ...]:
        """Those of which a user takes part in one; the first is the release's own."""
        return (self.design,)

    @property
    def system(self) -> str:
        """The name of what protects."""
        return str(self.design.name)

    @property
    def mechanism(self) -> Any:
        """What a client runs, once for each message."""
        return self.design.mechanism

    @property
    def resolved(self) -> Any:
        """What codes come from and are decoded by: a fingerprint covers it to the last bit."""
        return self.mechanism

    @property
    def model(self) -> str:
        """Who is trusted: "local", "shuffle" or "central"."""
        return self.design.target.model

    @property
    def unit(self) -> str:
        """Whose contribution is protected."""
        return str(self.options.unit)

    @property
    def messages(self) -> float:
        """How many messages a user sends, on average."""
        return float(self.mechanism.messages)

    @property
    def guarantees(self) -> tuple[Guarantee, Guarantee]:
        """What the release promises, and what a single report does."""
        return self.design.release, self.design.local

    @property
    def profile(self) -> PrivacyLoss:
        """What a release reveals at every epsilon; noise that is permanent left alone.

        Raises:
            ValueError: it promises nothing.
        """
        return worst_profile([release_profile(design) for design in self.designs])

    @property
    def unit_error(self) -> float:
        """The mean squared error that is predicted, times the number of units."""
        return float(self.design.error * self.design.target.n)

    @property
    def promises(self) -> tuple[Guarantee, Guarantee]:
        """The guarantees; of permanent noise, those of all windows together."""
        return (
            self.guarantees if self.permanent is None else self.permanent.promise(self.guarantees)
        )

    @property
    def honest_share(self) -> float | None:
        """The share of the users that the promise counts on; None if it counts on none."""
        return self.design.target.honest_share if self.model == "shuffle" else None

    @property
    def asked(self) -> float:
        """The share of the units that answer."""
        return 1.0 if self.part is None else self.part.share

    @property
    def rows_asked(self) -> int:
        """How many of the files' rows are looked at; 0 if nobody has counted them."""
        return int(self.telemetry.rows * self.asked)

    @property
    def cautions(self) -> list[str]:
        """What is allowed and yet should be thought over, for the requester and the reader."""
        release, report = self.guarantees
        reports = self.min_reports if self.model == "shuffle" else self.rows_asked
        return [*cautioned(release.delta, reports), *next_to_nothing(release, report)]

    @property
    def expected_error(self) -> str:
        """How far off the least batch may be, in a few words."""
        return f"± {math.sqrt(self.design.error):.2g}"

    @property
    def hiding_cost(self) -> float | None:
        """By which factor errors are larger because unusable values are hidden; None if none is."""
        return None

    @property
    def bits(self) -> float:
        """How many a user sends, on average and at the least."""
        return self.design.bits * max(1.0, self.messages)

    @property
    def prospect(self) -> str | None:
        """What may be expected, in a sentence before it runs; None if `check` says enough."""
        return None

    def published_in(self, folder: str) -> Self:
        """The same metric with another folder for its release."""
        return replace(self, options=self.options.model_copy(update={"output": folder}))

    # The clients.

    def divided(self) -> Self:
        """The same as clients, a shuffler and a collector serve it."""
        return self

    @property
    def undivided(self) -> str | None:
        """Why clients cannot make the reports out of sight of the collector; None if they can."""
        if self.model == "central":
            return "its noise is added to exact counts, which somebody has to see"
        # The average may well be 1 where some send none and others two.
        if self.messages != 1 or self.mechanism.several:
            return "its users send several messages, and only who has counted users can decode them"
        return None

    @property
    def fresh_only(self) -> str | None:
        """Why the noise of these reports cannot be permanent; None if it can."""
        if self.design.registration.seeded:
            return "its hash is another in each window"
        return None

    @property
    def columns(self) -> frozenset[str]:
        """What is read of the log; nothing else leaves the files."""
        return self.encoder().columns | columns_of(self.options.user_column)

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        """Column -> type, of values that come one a line."""
        return {self.options.column: pa.string()}

    @abstractmethod
    def encoder(self, coins: Coins = FRESH) -> Encoder:
        """What takes rows to what the mechanism takes.

        Args:
            coins: what it draws.
        """

    def reports(self, tables: beam.PCollection) -> Reports:
        """The clients: from tables to perturbed messages."""
        blocks, tallies, bounded = self.contributions(tables)
        users = None
        if self.messages != 1 or self.mechanism.several:
            users = blocks | "Count users" >> beam.Map(users_of).with_output_types(int)
        messages = blocks | "Perturb" >> Perturb(self.mechanism, self.open_rng)
        entered = entering(blocks), leaving(messages, self.shuffled_batches.batches)
        return Reports(messages, users, tallies, (*entered, *bounded))

    def contributions(
        self, tables: beam.PCollection, named: UserDigest | None = None
    ) -> Contributions:
        """Blocks of one row of each unit; and (name, count) of rows by fate.

        Args:
            tables: with the metric's columns.
            named: of users, if their digests are to stay with their rows.
        """
        users = named or fresh_digest(self.options.user_column)
        buckets, encoder = bucket_count(self.telemetry.rows), self.encoder()
        keep = named is not None
        step = EncodeContributions(encoder, users, buckets, self.open_rng, keep, self.part)
        return tables | "Contributions" >> step

    # The shuffler.

    @property
    def counters(self) -> Counters | None:
        """Those among which the shuffler puts dummies; None if each report is noisy by itself."""
        return None

    @property
    def batches(self) -> int:
        """How many batches must each have their least number of reports."""
        return 1

    @property
    def shuffler(self) -> Shuffle | None:
        """What stands between clients and collector; None if nothing does."""
        if self.model != "shuffle":
            return None
        buckets = bucket_count(self.telemetry.rows * max(1.0, self.messages))
        codes = self.mechanism.codes
        return Shuffle(self.min_reports, codes, buckets, self.open_rng, batches=self.batches)

    @property
    def shuffled_batches(self) -> Shuffled:
        """What the shuffler lets through."""
        least = self.min_reports if self.model == "shuffle" else 0
        return Shuffled(least, Batches(self.mechanism.codes, self.batches))

    def shuffled(self, reports: Reports) -> Reports:
        """The shuffler."""
        shuffle = self.shuffler
        if shuffle is None:
            return reports
        shuffle.users = reports.users
        return reports._replace(messages=reports.messages | "Shuffle" >> shuffle)

    # The collector.

    @abstractmethod
    def estimated(self, reports: Reports) -> beam.PCollection:
        """The collector's one element: what the batch says."""

    def enough(self, estimate: Any) -> bool:
        """Whether the batch is large enough for a release."""
        return self.reported(estimate)[0] >= self.min_reports

    @abstractmethod
    def tables(self, estimate: Any) -> dict[str, pa.Table]:
        """What is published, file name -> table; none if nothing of it may be."""

    def statement(self, estimate: Any, tallies: Mapping[str, int]) -> dict[str, Any]:
        """What was asked, what was done, and what it guarantees."""
        permanent, lies = self.permanent, self.poisoning(estimate)
        words = [*([] if permanent is None else [permanent.words]), *self.words, *self.cautions]
        words.append(UNKNOWN if lies is None else lies.in_words(self.unit))
        if self.model == "shuffle" and permanent is None:
            words.insert(0, counting_on(self.options.honest_share, self.unit))
        if self.part is not None:
            words.insert(0, one_of_many(self.unit, self.part.share))
        exact = not (self.options.hides or self.options.fill)
        return {
            **head(self.kind, self.promises, self.protected, words, self.min_reports),
            "neighbours": self.neighbours if permanent is None else permanent.neighbours,
            **counted(*self.reported(estimate), tallies, exact),
            "unusable": self.unusable(estimate),
            "poisoning": lies and lies.statement(),
            "asked": self.request,
            "mechanism": self.mechanism_statement,
            **self.own_statement(estimate),
            "versions": versions(),
        }

    @property
    def protected(self) -> str:
        """What the promises are about, in everyday words."""
        return protected(self.unit, self.options.hides, self.options.fill)

    @property
    def neighbours(self) -> str:
        """Which two inputs the promises make hard to tell apart."""
        return f"one {self.unit}'s value is replaced by {self.another('that can be used')}"

    def another(self, which: str) -> str:
        """What a value may be replaced by.

        Args:
            which: what is known of the values that can be used.
        """
        return f"any other {which}" + (", or by none that can be used" * self.options.hides)

    def unusable(self, estimate: Any) -> dict[str, Any]:
        """What became of values that cannot be used."""
        if self.options.hides:
            return {"treated": "reported as one more value"} | self.unusable_share(estimate)
        if self.options.fill is not None:
            return {"treated": f"reported as {self.options.fill}"}
        return {"treated": "left out, and counted as they are"}

    def poisoning(self, estimate: Any) -> Poisoning | None:
        """What one liar in a hundred can do to it; None if nobody has worked that out."""
        return None

    def unusable_share(self, estimate: Any) -> dict[str, Any]:
        """The share of units whose value cannot be used: share, standard_error, lower, upper."""
        return {}

    @property
    def words(self) -> list[str]:
        """What a reader must know beside the promises and the cautions."""
        return []

    def reported(self, estimate: Any) -> tuple[int, int]:
        """How many users reported, and how many messages no client could have sent."""
        return estimate.n, estimate.invalid

    def arrived(self, estimate: Any) -> int | None:
        """How many messages were counted, impossible ones among them; None if that says nothing."""
        return sum(self.reported(estimate))

    @property
    def request(self) -> dict[str, Any]:
        """What was asked, and what was settled where nobody asked."""
        words: dict[str, Any] = self.options.model_dump(
            exclude={"input", "output", *self.unstated, *self.options.idle}
        )
        return words | {
            "unit": self.unit,
            "model": self.model,
            "honest_share": self.honest_share,
            "delta": self.design.target.delta,
            "min_reports": self.min_reports,
        }

    @property
    def mechanism_statement(self) -> dict[str, Any]:
        """What clients ran, so that anybody can build it again."""
        return {
            "name": self.design.name,
            "source": self.design.source,
            "constants": self.mechanism.constants(),
            "messages_per_user": self.messages,
            "bits_per_message": max(1, (self.mechanism.codes - 1).bit_length()),
        }

    def own_statement(self, estimate: Any) -> dict[str, Any]:
        """What no other kind has to say."""
        return {}

    def page(self, tables: Mapping[str, pa.Table], statement: Mapping[str, Any]) -> bytes:
        """The release for readers."""
        return view.page(self.options.brief, tables, statement)

    def content(self, estimate: Any, tallies: Mapping[str, int]) -> Content | None:
        """What is published of an estimate; None if the batch is too small."""
        if not self.enough(estimate):
            return None
        tables = self.tables(estimate)
        if not tables:
            return None
        statement = self.statement(estimate, tallies)
        files = {name: parquet(table) for name, table in tables.items()}
        return Content(files | {PAGE: self.page(tables, statement)}, statement)

    def whole(self, tables: beam.PCollection) -> beam.PCollection:
        """All of it, in one job: a `Content`."""
        return self.collected(self.shuffled(self.reports(tables)))

    def collected(self, reports: Reports) -> beam.PCollection:
        """The collector: one `Content`, without files if too few reports came."""
        return self.contents(self.estimated(reports), reports)

    def contents(self, estimate: beam.PCollection, reports: Reports) -> beam.PCollection:
        """What is published of an estimate, if nothing was lost on the way to it."""
        flow = AsDict(summed(*reports.flow)) if reports.flow else None
        return estimate | "Content" >> beam.ParDo(ContentDoFn(self), AsDict(reports.tallies), flow)

    # Afterwards.

    def withheld(self, counted: Mapping[str, int]) -> str | None:
        """Why nothing was published, from the run's counters; None if too few is not why."""
        reports = counted.get(REPORTS, 0)
        if reports >= self.min_reports:
            return None
        return f"{reports:,} reports came, fewer than --min-reports {self.min_reports:,}"

    def show(self, screen: Console) -> None:
        """The release, where people look first."""
        view.show(screen, release.read_tables(self.options.output))


class ContentDoFn(beam.DoFn):
    """Makes what is published, unless there are too few reports for it, or the files changed.

    A counter says why there is none: what a step raises reaches nobody, for its text might quote
    the data. Where an engine has lost something, the whole job fails: other metrics of it may have
    lost as much.
    """

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def process(
        self, estimate: Any, tallies: Mapping[str, int], flow: Flow | None
    ) -> Iterator[Content]:
        files = self._metric.telemetry
        if not files.unread and tallies.get(ROWS, 0) != files.rows:
            tally(CHANGED, 1)
            return
        arrived = self._metric.arrived(estimate)
        if flow is not None and arrived is not None:
            try:
                require_whole(tallies, flow, self._metric.shuffled_batches, arrived)
            except LostError:
                tally(LOST, 1)
                raise
        content = self._metric.content(estimate, tallies)
        if content is None:
            tally(WITHHELD, 1)
            came = reporting_users(tallies, flow or {})
            least = int(self._metric.min_reports)
            content = Content({}, {"reports": came, "min_reports": least})
        yield content


def bucket_count(rows: float) -> int:
    """How many groups the shuffler and the contribution bound split their input into."""
    cached = min(int(rows) // _CACHED_ROWS, _FEW_BUCKETS)
    return min(max(64, cached, int(rows) // _BUCKET_ROWS), 1 << 14)


def fresh_digest(column: str | None) -> UserDigest | None:
    """Digests of a user column under a key of their own; None where rows are the unit."""
    return None if column is None else UserDigest(column, int(SecureRandom().words(1)[0]))


def columns_of(*names: str | None) -> frozenset[str]:
    """The columns among names of which some are not given."""
    return frozenset(name for name in names if name is not None)


def table_of(tables: Mapping[str, pa.Table]) -> pa.Table:
    """The table of a release that has one."""
    (table,) = tables.values()
    return table
