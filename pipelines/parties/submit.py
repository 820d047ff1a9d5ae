"""Clients of many users as a Beam pipeline: from Parquet files to one file of reports."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.io.filesystems import FileSystems
from apache_beam.pvalue import AsDict

from mechanisms.counters.choose import SlottedCounters
from mechanisms.counters.levels import Layout
from mechanisms.wire.identity import ReportIds
from mechanisms.wire.report import Form, Reports
from mechanisms.wire.sealing import public_key, seal, seal_again, seal_slots
from mechanisms.wire.strings import NULL, seal_strings, string_inputs
from pipelines.jobs.run import SEAL_COST
from pipelines.logs.inputs import Telemetry
from pipelines.metrics.metric import Metric, columns_read, enrolled, slots
from pipelines.parties.report_files import is_parquet, sink_of
from pipelines.parties.string_keys import StringKeys
from pipelines.plan.publish import drawn
from pipelines.plan.split import Split
from pipelines.storage import secrets
from transforms.elements.blocks import Generator, GroupOnce, bucket_count
from transforms.elements.conservation import (
    PASSED,
    PERTURBED,
    Batches,
    Flow,
    Shuffled,
    entering,
    passing,
    require_whole,
    summed,
)
from transforms.elements.pieces import Piece
from transforms.elements.progress import REPORTS, tally
from transforms.encoders.block import CellBlock, RowBlock, SlotBlock, pieces
from transforms.encoders.strings import gathered
from transforms.encoders.users import Digests, UserDigest
from transforms.reports.repeats import ByIds
from transforms.reports.reports import ReportsCoder
from transforms.rows.perturb import PerturbDoFn
from transforms.units.enrolled import OfEnrolled


@dataclass
class SubmitReports(beam.PTransform):
    """From Parquet files to one file of submitted reports.

    Attributes:
        parted: the window.
        metrics: place in the plan -> metric, held against the files.
        telemetry: the files of values.
        output: a file that is written whole or not at all.
        pem: the collector's public key, if reports are sealed.
        second: a second shuffler's, if they are sealed twice.
        secret: the file under whose content users' reports are named; None where rows are the unit.
        devices: the list of those that send whether they have rows or not, if any do.
        strings: where they are evaluated, where they are sealed whole.
    """

    parted: Split
    metrics: Mapping[int, Metric]
    telemetry: Telemetry
    output: str
    pem: bytes | None = None
    secret: str | None = None
    devices: str = ""
    strings: StringKeys | None = None
    second: bytes | None = None

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        columns = frozenset().union(*(columns_read(m) for m in self.metrics.values()))
        read = begin | "Read" >> self.telemetry.read(columns)
        tables = drawn(read, self.metrics.values())
        sent = tuple(
            tables | metric.name >> self._sent(place) for place, metric in self.metrics.items()
        )
        form = self.parted.form(self.pem is not None, self.metrics, self.second is not None)
        # A Parquet file of no reports where there are none, as its readers expect.
        none = [Reports(self.parted.fingerprint, form, form.empty(0))] * is_parquet(self.output)
        nobody = begin | "Nobody" >> beam.Create(none).with_output_types(Reports)
        write = WriteOneDoFn(self.output, form, self.parted.fingerprint)
        # Beam's own writers leave a file of each worker, and all under the one name.
        pack = beam.Map(_piece).with_output_types(tuple[int, Piece])
        pieces = (*sent, nobody) | "Together" >> beam.Flatten() | "Pack" >> pack
        return pieces | "One file" >> GroupOnce() | "Write" >> beam.ParDo(write)

    def _sent(self, place: int) -> SendReports:
        metric, plan = self.metrics[place], self.parted.fingerprint
        naming = Naming(plan, place, self.parted.period, self.secret)
        submit = Submit(metric, naming, self.pem, self.devices, self.strings)
        # Words of slots are sealed before they leave the worker that knows whose they are.
        apart = self.pem if metric.counters is None else None
        form = self.parted.form(self.pem is not None and apart is None, [place])
        return SendReports(submit, ByIds(plan, form, self._buckets(form)), apart, self.second)

    @property
    def work(self) -> int:
        """What there is to do, as of `run_beam`; of users at the most."""
        seals = sum(max(1, slots(m)) for m in self.metrics.values()) * (1 + bool(self.second))
        return 0 if self.pem is None else self.telemetry.rows * seals * SEAL_COST

    def _buckets(self, form: Form) -> int:
        """Into how many ranges a metric's ids are parted: of as many bytes as those of messages."""
        return bucket_count(self.telemetry.rows * form.dtype.itemsize / Form().dtype.itemsize)


FLOW = "flow"  # the output of how many strings were sealed
_SEALED = 1 << 8  # reports whose words are sealed at a time
_CODER = ReportsCoder(Reports)
_ALL_PASS = Shuffled(0, Batches(1))  # a client withholds nothing


def sealed(reports: Reports, pem: bytes | None, second: bytes | None) -> Reports:
    """Reports sealed to those keys that there are, the second one outside."""
    if pem is None:
        return reports
    once = seal(reports, public_key(pem))
    return once if second is None else seal_again(once, public_key(second))


def unfinished(output: str) -> str:
    """Where a file is written before it has its name; empty when it has."""
    return f"{output}.unfinished"


def _piece(reports: Reports) -> tuple[int, bytes]:
    """A block, for the one writer."""
    return 0, _CODER.encode(reports)


@typehints.with_input_types(tuple[int, Iterable[bytes]])
@typehints.with_output_types(None)
class WriteOneDoFn(beam.DoFn):
    """All reports to one file, which has its name when it is whole."""

    def __init__(self, output: str, form: Form, fingerprint: bytes) -> None:
        self._output, self._form, self._fingerprint = output, form, fingerprint

    def process(self, pieces: tuple[int, Iterable[bytes]]) -> None:
        sink = sink_of(self._output, self._form, self._fingerprint)
        part = FileSystems.join(unfinished(self._output), uuid.uuid4().hex)  # of this attempt alone
        with FileSystems.create(part) as stream:
            sink.open(stream)
            for piece in pieces[1]:
                sink.write(_CODER.decode(piece))
            sink.flush()
        FileSystems.rename([part], [self._output])


@dataclass
class SendReports(beam.PTransform):
    """Tables in, blocks of one metric's reports as they are sent out, each of a range of ids.

    Attributes:
        submit: makes them.
        by_ids: has them in order.
        pem, second: the keys that they are sealed to when they are in order, if they are not
            before: there workers have divided them, and a log may be one row group.
    """

    submit: Submit
    by_ids: ByIds
    pem: bytes | None
    second: bytes | None = None

    def expand(self, tables: beam.PCollection) -> beam.PCollection:
        reports = tables | "Submit" >> self.submit | "By id" >> self.by_ids
        return (
            reports
            if self.pem is None
            else reports | "Seal" >> beam.ParDo(SealReportsDoFn(self.pem, self.second))
        )


@dataclass
class Submit(beam.PTransform):
    """Tables in, blocks of submitted reports of one metric out.

    Attributes:
        metric: that is reported.
        naming: of its reports.
        pem: the collector's public key, to which words of slots are sealed.
        devices, strings: as of `SubmitReports`.
    """

    metric: Metric
    naming: Naming
    pem: bytes | None
    devices: str
    strings: StringKeys | None = None

    def expand(self, tables: beam.PCollection) -> beam.PCollection:
        metric = self.metric
        column = metric.options.user_column
        # As text: one run may read a column of integers, and another one their decimals.
        named = None if column is None else UserDigest(column, self.naming.ids().user_key, True)
        blocks, tallies, bounded = metric.contributions(tables, named)
        submit: beam.DoFn = SubmitDoFn(metric.mechanism, metric.open_rng, self.naming)
        every: beam.PCollection = blocks
        passed: tuple[beam.PCollection, ...] = ()
        if metric.counters is not None:
            submit = SubmitSlotsDoFn(metric.counters, metric.open_rng, self.naming, self.pem or b"")
        if metric.counters is not None and enrolled(metric) is not None and named is not None:
            layout = Layout(metric.counters.levels)
            every, _, passed = blocks | "Enrolled" >> OfEnrolled(self.devices, layout, named)
        if metric.crowds is not None and self.strings is not None:
            strings = (metric.crowds.strings, self.strings)
            submit = SubmitStringsDoFn(*strings, metric.open_rng, self.naming, self.pem or b"")
        outputs = every | "Submit" >> beam.ParDo(submit).with_outputs(FLOW, main="sent")
        sent: beam.PCollection = outputs.sent
        if metric.crowds is not None:
            passed = (outputs[FLOW],)
        flow = summed(entering(blocks), *(passed or (passing(sent),)), *bounded)
        once = tables.pipeline | "Once" >> beam.Create([None])
        once | "Whole" >> beam.ParDo(WholeDoFn(), AsDict(tallies), AsDict(flow))
        return sent


@typehints.with_output_types(None)
class WholeDoFn(beam.DoFn):
    """Refuses to go on where an engine has lost rows on their way to reports."""

    def process(self, _: None, tallies: Mapping[str, int], flow: Flow) -> None:
        require_whole(tallies, flow, _ALL_PASS, int(flow.get(PERTURBED, 0)))


@dataclass(frozen=True)
class Naming:
    """How the reports of one metric in one window are named.

    Attributes:
        fingerprint: that they carry.
        place: of the metric in the plan.
        window: the part of the time that they are of.
        secret: the file under whose content users' reports are named; None where rows are the unit.
    """

    fingerprint: bytes
    place: int
    window: str
    secret: str | None

    def ids(self) -> ReportIds:
        """Of users; the secret is read here, on each worker, and never travels with the job."""
        if self.secret is None:
            raise ValueError("reports of rows are not named under a secret")
        return ReportIds(
            secrets.read(secrets.REPORTS.flag, self.secret),
            self.fingerprint,
            self.place,
            self.window,
        )


@typehints.with_input_types(CellBlock | RowBlock)
@typehints.with_output_types(Reports)
class SubmitDoFn(PerturbDoFn):
    """Each row through the mechanism, and its message under an id."""

    def __init__(self, mechanism: Any, open_rng: Generator, naming: Naming) -> None:
        super().__init__(mechanism, open_rng)
        self._naming = naming

    def setup(self) -> None:
        super().setup()
        self._ids = None if self._naming.secret is None else self._naming.ids()

    def process(self, block: CellBlock | RowBlock) -> Iterator[Reports]:
        for piece, messages in self.perturbed(block):
            yield self._submitted(messages, piece.users)

    def _submitted(self, messages: np.ndarray, users: Digests | None) -> Reports:
        mark, place = self._naming.fingerprint, self._naming.place
        if self._ids is None or users is None:
            return Reports.submitted(mark, place, messages, self._rng)
        return Reports.identified(mark, place, messages, self._ids.of_users(users))


@typehints.with_input_types(Reports)
@typehints.with_output_types(Reports)
class SealReportsDoFn(beam.DoFn):
    """Reports, each sealed to the collector's key, and to a second shuffler's if there is one."""

    def __init__(self, pem: bytes, second: bytes | None = None) -> None:
        self._pem, self._second = pem, second

    def process(self, plain: Reports) -> Iterator[Reports]:
        yield sealed(plain, self._pem, self._second)


@typehints.with_input_types(SlotBlock)
@typehints.with_output_types(Reports)
class SubmitSlotsDoFn(beam.DoFn):
    """The reports of units to noisy counters, sealed word by word, each under an id."""

    def __init__(
        self, counters: SlottedCounters, open_rng: Generator, naming: Naming, pem: bytes
    ) -> None:
        self._counters, self._open_rng, self._naming, self._pem = counters, open_rng, naming, pem

    def setup(self) -> None:
        self._rng = self._open_rng()
        self._ids = None if self._naming.secret is None else self._naming.ids()
        self._key = public_key(self._pem)

    def process(self, block: SlotBlock) -> Iterator[Any]:
        for piece in pieces(block, _SEALED):
            ids = self._rng.words(2 * piece.size).reshape(-1, 2)
            if self._ids is not None and piece.users is not None:
                ids = self._ids.of_users(piece.users)
            tally(REPORTS, piece.size)
            yield self._sealed(piece.words, ids)

    def _sealed(self, words: np.ndarray, ids: np.ndarray) -> Reports:
        """The words of some reports under their ids."""
        mark, place = self._naming.fingerprint, self._naming.place
        filled, types = self._counters.filled(words, self._rng), self._counters.layout.types
        return seal_slots(mark, place, types, filled, ids, self._key)


@typehints.with_input_types(CellBlock)
@typehints.with_output_types(Reports)
class SubmitStringsDoFn(SubmitSlotsDoFn):
    """The strings of units, each sealed whole, in one report of a unit; how many went, apart."""

    def __init__(
        self, strings: int, keys: StringKeys, open_rng: Generator, naming: Naming, pem: bytes
    ) -> None:
        self._strings, self._keys = strings, keys
        self._open_rng, self._naming, self._pem = open_rng, naming, pem

    def process(self, block: CellBlock) -> Iterator[Any]:  # type: ignore[override]
        yield from super().process(gathered(block, self._strings, self._rng))
        yield beam.pvalue.TaggedOutput(FLOW, (PASSED, block.size))

    def _sealed(self, words: np.ndarray, ids: np.ndarray) -> Reports:
        mark, place = self._naming.fingerprint, self._naming.place
        # Of a log nobody sees who has how many: each string is asked for once in a block.
        full = words[words[..., 0] != NULL][:, None]
        inputs = dict.fromkeys(string_inputs(mark, place, full, self._key))
        outputs = self._keys.outputs([*inputs])
        return seal_strings(mark, place, words, ids, outputs, self._key)
