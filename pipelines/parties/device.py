"""A device's own reports: from its values to what it sends, without a pipeline."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from numpy.typing import NDArray

from mechanisms.channel import Guarantee, Messages
from mechanisms.counters.levels import Layout
from mechanisms.memoised import MemoisedClient
from mechanisms.randomness import RandomSource, SecureRandom
from mechanisms.wire.identity import ReportIds
from mechanisms.wire.report import Reports
from mechanisms.wire.sealing import seal_slots
from mechanisms.wire.strings import seal_strings, string_inputs
from pipelines.errors import RequestError
from pipelines.metrics.metric import FRESH, Coins, Metric, enrolled, viewed
from pipelines.parties.string_keys import StringKeys
from pipelines.plan.split import Split
from transforms.elements.progress import ROWS
from transforms.encoders.block import one_row
from transforms.encoders.encoder import encoded
from transforms.encoders.part import DRAWN
from transforms.encoders.users import UserDigest

_Cells = NDArray[np.uint32]


@dataclass(frozen=True)
class PermanentRounding:
    """Takes numbers to cells by one offset for each user, so that a number stays in its cell.

    Attributes:
        client: whose; its mechanism rounds numbers.
    """

    client: MemoisedClient

    @property
    def inputs(self) -> int:
        """How many cells there are."""
        return self.client.mechanism.inputs

    def encode(self, values: NDArray[np.float64], rng: RandomSource) -> _Cells:
        """(n,) values in [-1, 1] to (n,) cells; `rng` is not asked."""
        return self.client.encode(values)


@dataclass(frozen=True)
class PermanentChoice:
    """Coordinates that are chosen once for each user, whatever the rows.

    Attributes:
        client: whose; its mechanism chooses coordinates.
        rounding: takes the number in one of them to a cell.
    """

    client: MemoisedClient
    rounding: PermanentRounding

    @property
    def dimension(self) -> int:
        """How many coordinates a row has."""
        choice: Any = self.client.mechanism
        return int(choice.dimension)

    def choose(self, n: int, rng: RandomSource) -> NDArray[np.int64]:
        """(n, k) the same coordinates for each of n rows; `rng` is not asked."""
        return np.repeat(self.client.choose(), n, axis=0)


@dataclass(frozen=True)
class PermanentCoins(Coins):
    """An encoder's coins that one user has thrown for ever.

    Attributes:
        memoised: a mechanism -> this user's client of it.
    """

    memoised: Callable[[Any], MemoisedClient]

    def rounding(self, usual: Any) -> PermanentRounding:
        """By one offset for all of the user's numbers."""
        return PermanentRounding(self.memoised(usual))

    def choice(self, usual: Any) -> PermanentChoice:
        """By one choice for all of the user's rows."""
        return PermanentChoice(self.memoised(usual), self.rounding(usual.rounding))


@dataclass(frozen=True)
class PermanentNoise:
    """What randomises cells and rows by noise that one user has drawn for ever; `rng` is not asked.

    Attributes:
        client: whose.
    """

    client: MemoisedClient

    def perturb(self, cells: NDArray[Any], rng: RandomSource) -> Messages:
        """(n,) cells to their messages."""
        return self.client.report(cells)

    def report(self, *parts: Any) -> Messages:
        """Rows, in parts before the generator, to their messages."""
        return self.client.report_rows(*parts[:-1])


@dataclass(frozen=True)
class ClientReports:
    """One user's reports of one metric.

    Attributes:
        parted: the window of the plan.
        place: of the metric in the plan.
        secret: 32 bytes that this user keeps, for noise that is drawn once and for all; None for
            fresh noise. One value is then reported of each window.
        one: whether only one of the values is reported, as where the unit is a user.
        open_rng: opens the generator; a seeded one is for tests.
        own: 32 bytes that this device keeps: a user's one report of a window is named under them,
            so that a second one is known for what it is; by default the secret of the noise.
        lot: where rows are divided among metrics: 0 .. 2^64 - 1, drawn once for the reports of all
            of them, which then are of the same values in the same order.

    Raises:
        RequestError: there is a secret, and the plan or the metric does not fit permanent noise; or
            there is none, and one report is to be known as the user's.
    """

    parted: Split
    place: int
    secret: bytes | None = field(default=None, repr=False)
    one: bool = False
    open_rng: Callable[[], RandomSource] = SecureRandom
    own: bytes | None = field(default=None, repr=False)
    lot: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.metric.part is not None and self._draws_by_row and self.lot is None:
            raise RequestError(
                f"metric {self.metric.name}: each row answers one metric of several: draw one key "
                "for the reports of all of them (lot=)"
            )
        if self.one and self._naming is None:
            raise RequestError(
                "a user's report is named under a secret that the device keeps, or a second one "
                "would count: give 32 random bytes, made once (own=)"
            )
        if enrolled(self.metric) is not None and not self.one:
            raise RequestError(
                f"metric {self.metric.name}: every enrolled device sends one report of all its "
                "rows, and of none (one=True)"
            )
        permanent = self.parted.job.plan.permanent
        if permanent is not None and self.secret is None:
            raise RequestError(
                "noise: the plan says permanent: each user's client draws it, from a secret of "
                "that user alone (--user-secret)"
            )
        if self.secret is None:
            return
        if self.parted.job.plan.user_column is None:
            raise RequestError(
                "--user-secret: the plan names no user_column, so each row is reported by itself, "
                "and equal rows of this user would show that they are equal; name one, with a "
                "unit of users"
            )
        if permanent is None:
            raise RequestError(
                "--user-secret: the plan says noise: fresh, and prices windows accordingly; say "
                "noise: permanent, and distinct_values"
            )
        if self.metric.fresh_only is not None:
            raise RequestError(
                f"--user-secret: metric {self.metric.name}: {self.metric.fresh_only}, and with it "
                "what is reported"
            )

    def over_time(self, distinct: int) -> Guarantee:
        """What permanent noise promises over all windows against who links all reports.

        Args:
            distinct: the most different values that the user ever reports.
        """
        return self._memoised(self._mechanism).guarantee(distinct)

    @property
    def metric(self) -> Metric:
        """What is reported."""
        return self.parted.metrics[self.place]

    @property
    def _mechanism(self) -> Any:
        return self.parted.mechanisms[self.place]

    def report(self, tables: Iterable[pa.Table]) -> tuple[Reports, dict[str, int]]:
        """From values to what is sent.

        Args:
            tables: with the metric's columns; all of one user, if `one`.

        Returns:
            Submitted reports, each with an id of its own; and (name -> count): the rows read, and
            those that could not be used, by reason.
        """
        rng, (blocks, counted) = self.open_rng(), self._encoded(tables)
        if self.one or self.secret is not None:
            blocks = one_row(blocks, rng)
        client = self._mechanism
        if self.secret is not None:
            client = PermanentNoise(self._memoised(client))
        sent = [np.empty(0, np.uint64), *(block.perturbed(client, rng) for block in blocks)]
        messages = np.concatenate(sent)
        return self._submitted(messages, rng), dict(+counted)

    def sealed(
        self, tables: Iterable[pa.Table], key: X25519PublicKey, strings: StringKeys | None = None
    ) -> tuple[Reports, dict[str, int]]:
        """From values to what is sent of noisy counters: sealed, for nothing else hides it.

        Args:
            tables: as in `report`; all rows of the user are in its one report.
            key: the collector's public key.
            strings: where they are evaluated, of metrics that seal them whole.

        Returns:
            As `report`; nothing where there are no rows, unless every enrolled device sends.
        """
        metric: Any = self.metric
        rng, (blocks, counted) = self.open_rng(), self._encoded(tables)
        counters, parts = (
            metric.counters,
            [*metric.shape.own_reports(metric, blocks, self.one, rng)],
        )
        if metric.crowds is None:
            own = Layout(counters.levels)
            idle = own.idle(int(enrolled(metric) is not None and not sum(map(len, parts))))
            parts = [counters.filled(np.concatenate([idle, *parts]), rng)]
        words = np.concatenate(parts)
        ids = rng.words(2 * len(words)).reshape(-1, 2)
        if self.one and self._naming is not None:
            ids = self._ids(self._naming).of_device().repeat(len(words), axis=0)
        mark = self.parted.fingerprint
        if metric.crowds is not None:
            if strings is None:
                raise RequestError(f"metric {metric.name}: say where strings are evaluated")
            outputs = strings.outputs(string_inputs(mark, self.place, words, key))
            reports = seal_strings(mark, self.place, words, ids, outputs, key)
        else:
            reports = seal_slots(mark, self.place, counters.layout.types, words, ids, key)
        return reports, dict(+counted)

    def _encoded(self, tables: Iterable[pa.Table]) -> tuple[list[Any], Counter[str]]:
        """The rows that are to answer, as blocks; and what was counted of them."""
        draws, blocks, counted = self.open_rng(), list[Any](), Counter[str]()
        encoder = viewed(
            self.metric, FRESH if self.secret is None else PermanentCoins(self._memoised)
        )
        for table in map(self._row_filter(), tables):
            counted[ROWS] += table.num_rows
            for batch in table.to_batches(max_chunksize=encoder.batch_size):
                block, rejects = encoded(encoder, batch, None, draws)
                counted += rejects
                blocks.append(block)
        return blocks, counted

    def _ids(self, secret: bytes) -> ReportIds:
        return ReportIds(secret, self.parted.fingerprint, self.place, self.parted.period)

    @property
    def _draws_by_row(self) -> bool:
        return not (self.one or self.secret is not None)

    def _row_filter(self) -> Callable[[pa.Table], pa.Table]:
        """What leaves the rows that are to answer this metric."""
        part, begun, secret = self.metric.part, itertools.count(), self._naming
        if part is None:
            return lambda table: table

        def rows(table: pa.Table) -> pa.Table:
            if secret is not None and not self._draws_by_row:
                draws = np.full(table.num_rows, self._ids(secret).draw(), np.uint64)
            else:
                numbers = np.fromiter(itertools.islice(begun, table.num_rows), np.int64)
                draws = UserDigest("", self.lot or 0)(pa.array(numbers))
            return part.rows(table.append_column(DRAWN, pa.array(draws)))

        return rows

    @property
    def _naming(self) -> bytes | None:
        return self.own or self.secret

    def _submitted(self, messages: Messages, rng: RandomSource) -> Reports:
        """Messages under their ids: one of a user, or one each of rows that are nobody's."""
        mark, place, secret = self.parted.fingerprint, self.place, self._naming
        if secret is None or not (self.one or self.secret is not None):
            return Reports.submitted(mark, place, messages, rng)
        return Reports.identified(mark, place, messages, self._ids(secret).of_device())

    def _memoised(self, mechanism: Any) -> MemoisedClient:
        if self.secret is None:
            raise ValueError("there is no secret to draw permanent noise from")
        noise = self.parted.noise_fingerprint(self.place)
        return MemoisedClient(self.secret, noise, self.place, mechanism)
