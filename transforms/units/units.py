"""All rows of a unit to one report: contribution bounding where a unit has many rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam import typehints

from mechanisms.counters.levels import Layout
from mechanisms.randomness import SecureRandom
from transforms.elements.block_coders import decoded, weighed
from transforms.elements.blocks import DrawingDoFn, Generator, GroupOnce
from transforms.elements.chains import Chain
from transforms.elements.conservation import BOUNDED, CHOSEN, PERTURBED, added
from transforms.elements.numbers import amount
from transforms.encoders.block import AmountBlock, RowBlock, SlotBlock, concatenated
from transforms.encoders.groups import GroupEncoder
from transforms.encoders.reports import RowReporting, reports_of
from transforms.encoders.users import UserDigest
from transforms.rows.encode import Encode, EncodeDoFn
from transforms.units.contributions import EncodedContributions, PartitionUsersDoFn
from transforms.units.one_per_user import by_user
from transforms.units.sums import of_rows, of_units, sent

FLOW = "flow"
_CELLS = ("cells", "categories")  # what blocks call them

weighed(AmountBlock)
weighed(SlotBlock)


@dataclass
class ReportUnits(beam.PTransform):
    """Tables in; `EncodedContributions` out, blocks of the reports of units.

    Attributes:
        encoder: of the rows.
        reporting: what makes a report of all rows of a unit.
        users: the privacy unit; None where that is a row.
        buckets: how many groups users are hashed into.
        open_rng: opens generators on workers; a seeded one is for tests.
        named: whether users' digests stay with their reports.
        together: of the counters, if messages that are added up come out in the place of reports.
    """

    encoder: GroupEncoder
    reporting: Any
    users: UserDigest | None = None
    buckets: int = 64
    open_rng: Generator = field(default=SecureRandom)
    named: bool = False
    together: Layout | None = None

    @property
    def steps(self) -> tuple[type[ReportDoFn], type[ReportUsersDoFn]]:
        """What makes the reports of rows, and of users."""
        return ReportDoFn, ReportUsersDoFn

    def expand(self, tables: beam.PCollection) -> EncodedContributions:
        encoded = tables | "Encode" >> Encode(
            self.encoder, self.users, self.open_rng, reported=False
        )
        of_rows, of_users = self.steps
        rows, do = encoded.blocks, of_rows if self.users is None else of_users
        if self.users is not None:
            rows = (
                rows
                | "Partition by user" >> beam.ParDo(PartitionUsersDoFn(self.buckets))
                | "Group by user bucket" >> GroupOnce()
            )
        report = beam.ParDo(do(self.reporting, self.open_rng, self.named, self.together))
        outputs = rows | "Report" >> report_step(report, self.together)
        counted = self.users is not None or self.together is not None
        return EncodedContributions(outputs.blocks, encoded.tallies, (outputs[FLOW],) * counted)

    def chains(self, last: Chain) -> tuple[Chain, ...]:
        """The same, each up to a group, and `last` behind it."""
        encode = Encode(self.encoder, self.users, self.open_rng, reported=False)
        of_rows, of_users = self.steps
        own = self.reporting, self.open_rng, self.named, self.together
        if self.users is None:
            return (last.after(EncodeDoFn(encode), of_rows(*own)),)
        parting = PartitionUsersDoFn(self.buckets)
        return Chain(last.name, (EncodeDoFn(encode),), parting), last.after(of_users(*own))


def report_step(report: beam.ParDo, together: Layout | None) -> Any:
    """Reports, or messages, and how many units they are of in the output tagged `FLOW`."""
    kind = SlotBlock if together is None else np.ndarray
    return report.with_output_types(kind).with_outputs(FLOW, main="blocks")


def _counted(messages: Iterable[Any], n: int) -> Iterator[Any]:
    """Messages of n units; and how many both are, so that a block that is lost is missed."""
    made = 0
    for block in messages:
        yield block
        made += amount(block)
    yield beam.pvalue.TaggedOutput(FLOW, added(made, n))
    yield beam.pvalue.TaggedOutput(FLOW, (PERTURBED, n))


class ReportDoFn(DrawingDoFn):
    """The report of each row, or what they come to; how many they are, apart, where it is that."""

    def __init__(
        self, reporting: Any, open_rng: Generator, named: bool, together: Layout | None
    ) -> None:
        self._reporting, self._open_rng, self._named = reporting, open_rng, named
        self._together = together

    def process(self, block: Any) -> Iterator[Any]:
        numbers = getattr(block, "amounts", None)
        names = np.arange(block.size)
        yield from self._reports(None, block.cells, numbers, names, block.applies)

    def _reports(
        self, users: Any, cells: Any, numbers: Any, names: Any, applies: Any
    ) -> Iterator[Any]:
        """The reports of units, each under its name if names stay; or what they come to."""
        n, start, groups = len(names), 0, cells.astype(np.int64)
        if self._together is not None:
            known = users, groups, numbers, n, applies, self._rng
            yield from _counted(of_units(self._reporting, self._together, *known), n)
            return
        for words in reports_of(self._reporting, users, groups, numbers, n, applies, self._rng):
            digests = names[start : start + len(words)] if self._named else None
            yield SlotBlock(words, digests)
            start += len(words)


@typehints.with_input_types(tuple[int, Iterable[bytes]])
class ReportUsersDoFn(ReportDoFn):
    """The same of each user of a bucket; how many rows came, and how many reports went, apart."""

    def process(self, bucket: tuple[int, Iterable[bytes]]) -> Iterator[Any]:
        rows = concatenated([*map(decoded, bucket[1])])
        (cells,) = (rows[name] for name in _CELLS if name in (rows.dtype.names or ()))
        # Groups are drawn by users and groups, which costs little of rows in that order.
        beside = cells if cells.ndim == 1 else np.zeros(rows.size, np.uint8)
        names, users, order = by_user(rows["users"], beside)
        cells = cells.take(order, axis=0)
        numbers, applies = (
            rows[name].take(order, axis=0) if name in (rows.dtype.names or ()) else None
            for name in ("amounts", "applies")
        )  # fmt: skip
        numbers = None if numbers is None else numbers.astype(np.float64, copy=False)
        size = names.size
        if getattr(self._reporting, "divides", False):
            own = cells.astype(np.int64)
            words = self._reporting.divided(users, own, names.size, applies, self._rng)
            size = len(words)
            if self._together is None:
                yield SlotBlock(words, None)
            else:
                yield from _counted([sent(words, self._together)], size)
        else:
            reports = self._reports(users, cells, numbers, names, applies)
            if self._together is not None:
                yield from reports
            else:
                size = 0  # a user adds to several groups that nobody declared
                for block in reports:
                    size += block.size
                    yield block
        for name, many in ((BOUNDED, rows.size), (CHOSEN, size)):
            yield beam.pvalue.TaggedOutput(FLOW, (name, many))


@dataclass
class TotalUnits(ReportUnits):
    """As `ReportUnits`, with rows of `GroupSums.table` in the place of reports."""

    @property
    def steps(self) -> tuple[type[ReportDoFn], type[ReportUsersDoFn]]:
        return TotalDoFn, TotalUsersDoFn


class TotalDoFn(ReportDoFn):
    """What each row adds to groups that nobody declared."""

    def _reports(
        self, users: Any, cells: Any, numbers: Any, names: Any, applies: Any
    ) -> Iterator[SlotBlock]:
        kept = np.arange(len(cells)) if applies is None else np.flatnonzero(applies)
        owners = kept if users is None else users[kept]
        numbers = None if numbers is None else numbers[kept]
        table = self._reporting.table(owners, cells[kept], numbers, len(names), self._rng)
        yield SlotBlock(table, None)


class TotalUsersDoFn(TotalDoFn, ReportUsersDoFn):
    """What each user of a bucket adds to them."""


@typehints.with_input_types(RowBlock)
class ReportRowsDoFn(DrawingDoFn):
    """The report of each row of all that a log holds; the names of units stay with them.

    Or what they come to, as of `ReportDoFn`.
    """

    def __init__(
        self, reporting: RowReporting, open_rng: Generator, together: Layout | None
    ) -> None:
        self._reporting, self._open_rng, self._together = reporting, open_rng, together

    def process(self, block: RowBlock) -> Iterator[Any]:
        if self._together is not None:
            messages = of_rows(self._reporting, self._together, block, self._rng)
            yield from _counted(messages, block.size)
            return
        start = 0
        for words in self._reporting.reports(block, self._rng):
            end = start + len(words)
            yield SlotBlock(words, None if block.users is None else block.users[start:end])
            start = end
