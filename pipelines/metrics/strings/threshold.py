"""`hushbeam strings`: strings whose noisy crowd passes a threshold, and how large it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mechanisms.channel import Guarantee, Messages
from mechanisms.counters.design import Counters
from mechanisms.counters.noise import recorded
from mechanisms.heavy_hitters.crowds import Crowds
from mechanisms.randomness import RandomSource
from mechanisms.wire.report import SEALED
from pipelines.errors import RequestError
from pipelines.metrics.counting.design import target_of
from pipelines.metrics.counting.options import require_bounded
from pipelines.metrics.counting.result import FigureError
from pipelines.metrics.counting.shapes.shape import ReportShape
from pipelines.metrics.metric import MetricReports, slots
from pipelines.metrics.protection import Protection
from pipelines.metrics.statistics.evidence import Accuracy
from pipelines.metrics.statistics.strings import StringEvidence
from pipelines.metrics.strings.counted import CountedStrings
from pipelines.request.options import flag
from transforms.encoders.block import CellBlock, PooledBlock, applicable
from transforms.encoders.strings import StringEncoder, distinct, gathered, texts_of, width_of

if TYPE_CHECKING:
    import apache_beam as beam

    from pipelines.metrics.statistics.statistic import Workload

LENGTH = 64  # bytes that are looked at, where nobody says

_SELECTED = (
    "Strings were chosen by the very numbers that are told of them: a string is here because its "
    "noisy number is above {threshold:,}. So given that it is here its number is rather too large: "
    "on average by {near:.2g} {unit}s for a string of {at:,}, by {limit_bias:.2g} for one of "
    "{limit:,}, and by less than a hundredth from {fair:,} on. Intervals are of the law that a "
    "number has given that it is published, so they cover all the same; those that hold together "
    "cover the numbers of all strings that are here."
)
_SEALED = (
    "Nothing that a {unit} sends is randomised: each string is sealed for the collector, and equal "
    "ones of a window are equal seals, by a key of the window that another party has. So the "
    "shuffler saw how many {unit}s hold each string, exactly, and whose seals are equal. It can "
    "read none; until the key is destroyed it can test every guess together with that party, and "
    "with a device one for each query. It drew noise for each number, and handed on what passes. "
    "The promise is against who sees this release or what was handed on, if the shuffler drew "
    "honestly, once, and has told nobody what it counted. Against shuffler and collector together "
    "nothing is promised."
)


class _Sealed(ReportShape):
    rows_of_a_user = "those of each value"

    def own_reports(
        self, release: Any, blocks: Sequence[Any], one: bool, rng: RandomSource
    ) -> Iterator[Messages]:
        none = np.empty((0, release.width), np.uint32)
        cells = np.concatenate([none, *(applicable(block).cells for block in blocks)])
        users = None
        if one:
            first, _ = distinct(cells)
            cells = cells[first[rng.permutation(first.size)[: release.crowds.strings]]]
            users = np.zeros(len(cells), np.uint64)
        yield gathered(CellBlock(cells, users), release.crowds.strings, rng).words


@dataclass(frozen=True, kw_only=True)
class StringsAboveThreshold(CountedStrings):
    """The strings that enough units hold, and how many do.

    Attributes:
        reporting: which strings are published, and with what number.
    """

    draws_once = True
    drawn = "noise for the number of those who hold a string, of each string that anybody holds"
    sure = "; a string that nobody holds is never published"

    design: Counters
    reporting: Crowds

    @classmethod
    def require(cls, options: Any, kind: str) -> None:
        if named := sorted(options.model_fields_set & options.idle):
            raise RequestError(
                f"{flag(named[0])}: means nothing with --search {options.search}, which counts the "
                "strings as they are; leave it out, or take --search levels"
            )
        if options.delta == 0:
            raise RequestError("--delta must be a number greater than 0, not 0")
        require_bounded(options, options.rows_per_user)

    @classmethod
    def objection(cls, work: Workload, drawn_by: str) -> str | None:
        if drawn_by == "job":
            return None
        return "whoever counts strings draws the noise, in three parties, too: leave drawn_by out"

    @classmethod
    def least(cls, statistic: Any, sealed: bool = False) -> tuple[Counters, Crowds]:
        options = statistic.options
        target = target_of(options)
        try:
            crowds = Crowds.meeting(options.rows_per_user, *target)
        except ValueError as error:
            raise RequestError(f"--rows-per-user, --epsilon, --delta: {error}") from None
        return crowds.design, crowds

    def rescaled(self, options: Any) -> None:
        return None  # how many hide a string goes with epsilon

    @property
    def shape(self) -> ReportShape:  # type: ignore[override]
        return _Sealed()

    @property
    def undivided(self) -> str:
        return "its shuffler counts equal seals, and draws the noise"

    @property
    def crowds(self) -> Crowds:
        return self.reporting

    @property
    def length(self) -> int:
        """How many bytes of a string are looked at."""
        return self.options.max_length or LENGTH

    @property
    def width(self) -> int:
        """Words of a string."""
        return width_of(self.length)

    @property
    def protection(self) -> Protection:
        usual, made = super().protection, (self.design, self.length)
        sent = SEALED * slots(self) if self.sealed else self.length * usual.messages
        return usual._replace(system="crowd threshold", made=made, bits=8.0 * sent)

    @property
    def guarantees(self) -> tuple[Guarantee, Guarantee]:
        release, report = super().guarantees
        how = (
            "numerical accountant: the exact laws of the noisy numbers of all strings that one "
            f"user may hold ({self.design.neighbours}), composed and rounded up; numbers are "
            "published above all that noise alone makes"
        )
        if self.sealed:
            report = Guarantee.none("whoever opens its seals reads it; equal strings look alike")
        return replace(release, how=how), report

    @property
    def limit(self) -> int:
        return self.reporting.detection_limit

    @property
    def accuracy(self) -> Accuracy:
        """Of how many units hold a string, before it is known which are published."""
        return Accuracy(FigureError.of(self.design, 1, least=1))

    def encoder(self, coins: Any = None) -> StringEncoder:  # type: ignore[override]
        return StringEncoder(self.options.column, self.length)

    @property
    def _distinct(self) -> int:
        return self.options.rows_per_user

    @property
    def _buckets(self) -> int:
        from transforms.elements.blocks import bucket_count

        # Long strings make wide rows, and a bucket's rows are in memory together.
        return bucket_count(self.telemetry.about * max(1, self.length // 64))

    def counted(self, block: CellBlock | PooledBlock) -> CellBlock | PooledBlock:
        return block

    def estimated(self, reports: MetricReports) -> beam.PCollection:
        from transforms.shuffle.crowds import PublishCrowds

        step = PublishCrowds(
            self.reporting, self.width, self._buckets, self.open_rng, reports.drawing
        )
        return reports.messages | "Crowds" >> step

    def arrived(self, estimate: Any) -> int:
        return estimate.messages

    def _evidence(self, estimate: Any) -> StringEvidence:
        texts, whole = texts_of(estimate.strings)
        values, confidence = estimate.values, self.options.confidence
        figures = {"estimate": values, "standard_error": np.full(values.size, self.error)}
        together = ("", 1), ("_simultaneous", max(len(texts), 1))
        for suffix, several in together:
            lower, upper = self.reporting.limits(values, confidence ** (1 / several))
            figures |= {f"lower{suffix}": lower, f"upper{suffix}": upper}
        return StringEvidence.of(texts, whole, figures)

    def searched(self, estimate: Any) -> dict[str, Any]:
        return {"threshold": self.reporting.threshold, "strings": len(estimate.values)}

    def _cut(self, estimate: Any) -> dict[str, Any]:
        return {}

    def _who(self) -> str:
        return _SEALED.format(unit=self.unit) if self.sealed else super()._who()

    def _liars(self) -> str:
        copied = ", or copy a seal that they have seen on its way," * self.sealed
        return (
            f"A {self.unit} that lies moves the number of any one string by 1 at the most; as many "
            f"{self.unit}s as a threshold of {self.reporting.threshold:,} takes, who agree on a "
            f"string{copied or ','} have it published."
        )

    @property
    def error_statement(self) -> dict[str, Any]:
        crowds, at = self.reporting, self.reporting.threshold + 1
        fair = next(n for n in range(at, 3 * at) if crowds.too_large(n) < 0.01)
        reading = _SELECTED.format(
            threshold=crowds.threshold, unit=self.unit, at=at, near=crowds.too_large(at),
            limit=self.limit, limit_bias=crowds.too_large(crowds.detection_limit), fair=fair,
        )  # fmt: skip
        covers = "the noise" + "; not what was left out of users with more strings" * self._several
        return {"standard_error": self.error, "covers": covers, "reading": reading}

    @property
    def _several(self) -> bool:
        return self.unit == "user"

    @property
    def prospect(self) -> str | None:
        k = self.options.rows_per_user
        counted = f"{k:,} {'string of a user counts' if k == 1 else 'strings of a user count'}"
        return f"{super().prospect}" + f"; {counted}, drawn uniformly" * self._several

    @property
    def words(self) -> list[str]:
        lines = ["No string that nobody holds is here, and how many strings were read is not said."]
        if self._several:
            k = self.options.rows_per_user
            what = "string" if k == 1 else "different strings"
            lines.append(f"A user counts for {k:,} {what} at the most, drawn uniformly.")
        return lines

    @property
    def mechanism_statement(self) -> dict[str, Any]:
        return super().mechanism_statement | {
            "source": "Desfontaines, Voss, Gipson, Mandayam, PoPETs 2022 (arXiv 2006.03684); "
            "several strings a user: hushbeam's page on frequent strings",
            "constants": {
                "threshold": self.reporting.threshold,
                "noise": recorded(self.reporting.law),
            },
        }

    @property
    def request(self) -> dict[str, Any]:
        return super().request | {"max_length": self.length}
