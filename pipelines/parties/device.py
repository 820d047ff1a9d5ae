"""A device's own reports: from its values to what it sends, without a pipeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.channel import Guarantee, Messages
from mechanisms.mean.scalar import ScalarMean
from mechanisms.memoised import MemoisedClient
from mechanisms.randomness import RandomSource, SecureRandom
from mechanisms.wire.report import Reports
from pipelines.errors import RequestError
from pipelines.metrics.metric import Metric, plain
from pipelines.parties.split import Split
from transforms.encoders.bounds import Rounding
from transforms.encoders.encoder import Encoder, encoded
from transforms.progress import ROWS

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
class ClientReports:
    """One user's reports of one metric.

    Attributes:
        parted: the window of the plan.
        place: of the metric in the plan.
        secret: 32 bytes that this user keeps, for noise that is drawn once and for all; None for
            fresh noise. One value is then reported of each window.
        one: whether only one of the values is reported, as where the unit is a user.
        open_rng: opens the generator; a seeded one is for tests.

    Raises:
        RequestError: there is a secret, and the plan or the metric does not fit permanent noise.
    """

    parted: Split
    place: int
    secret: bytes | None = field(default=None, repr=False)
    one: bool = False
    open_rng: Callable[[], RandomSource] = SecureRandom

    def __post_init__(self) -> None:
        if self.secret is None:
            return
        if self.parted.job.plan.user_column is None:
            raise RequestError(
                "--user-secret: the plan names no user_column, so each row is reported by itself, "
                "and equal rows of this user would show that they are equal; name one, with a "
                "unit of users"
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
        rng, counted = self.open_rng(), Counter[str]()
        encoder, draws = self._encoder(), self.open_rng()
        blocks = [np.empty(0, np.uint32)]
        for table in tables:
            counted[ROWS] += table.num_rows
            for batch in table.to_batches(max_chunksize=encoder.batch_size):
                block, rejects, _ = encoded(encoder, batch, None, draws)
                counted += rejects
                blocks.append(block.cells)
        cells = np.concatenate(blocks)
        if (self.one or self.secret is not None) and cells.size:
            cells = cells[rng.integers(cells.size, 1).astype(np.int64)]
        messages = self._perturbed(cells, rng)
        sent = Reports.submitted(self.parted.fingerprint, self.place, messages, rng)
        return sent, dict(+counted)

    def _encoder(self) -> Encoder:
        """What takes rows to cells: the metric's own."""
        return self.metric.encoder(plain if self.secret is None else self._permanent)

    def _permanent(self, usual: ScalarMean) -> Rounding:
        """Rounding whose coins are this user's, for ever."""
        return PermanentRounding(self._memoised(usual))

    def _perturbed(self, cells: _Cells, rng: RandomSource) -> Messages:
        if self.secret is None:
            return self._mechanism.perturb(cells, rng)
        return self._memoised(self._mechanism).report(cells)

    def _memoised(self, mechanism: Any) -> MemoisedClient:
        if self.secret is None:
            raise ValueError("there is no secret to draw permanent noise from")
        noise = self.parted.noise_fingerprint(self.place)
        return MemoisedClient(self.secret, noise, self.place, mechanism)
