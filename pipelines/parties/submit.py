"""Clients of many users as a Beam pipeline: from Parquet files to one file of reports."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam import typehints
from apache_beam.io import fileio
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.parquetio import WriteToParquetBatched
from apache_beam.options.value_provider import StaticValueProvider
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

from mechanisms.randomness import SecureRandom
from mechanisms.wire.report import Form, Reports
from mechanisms.wire.sealing import public_key, seal
from pipelines.metrics.metric import Metric
from pipelines.parties.report_files import is_parquet
from transforms import report_tables
from transforms.reports import BinarySink
from transforms.telemetry import ReadTelemetry


@dataclass
class SubmitReports(beam.PTransform):
    """From Parquet files to one file of submitted reports.

    Attributes:
        fingerprint: of the plan.
        metrics: place in the plan -> metric, held against the files.
        files: of values.
        output: a file that is written whole or not at all.
        pem: the collector's public key, if reports are sealed.
    """

    fingerprint: bytes
    metrics: Mapping[int, Metric]
    files: tuple[str, ...]
    output: str
    pem: bytes | None = None

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection:
        columns = sorted(frozenset().union(*(m.columns for m in self.metrics.values())))
        tables = begin | "Read" >> ReadTelemetry(self.files, tuple(columns))
        sent = tuple(
            tables | metric.name >> Submit(self.fingerprint, place, metric, self.pem)
            for place, metric in self.metrics.items()
        )
        form = Form(sealed=self.pem is not None)
        return sent | "Together" >> beam.Flatten() | "Write" >> self._writing(form)

    def _writing(self, form: Form) -> beam.PTransform:
        """One file of the name that was asked for."""
        folder, name = FileSystems.split(self.output)
        if is_parquet(self.output):
            return WriteOneParquet(self.output, form)
        return fileio.WriteToFiles(
            folder or os.curdir,
            sink=lambda _: BinarySink(form, self.fingerprint),
            file_naming=lambda *_: name,
            shards=1,
            temp_directory=StaticValueProvider(str, unfinished(self.output)),
        )


def unfinished(output: str) -> str:
    """Where a binary file is written before it has its name; empty when it has."""
    return f"{output}.unfinished"


@dataclass
class WriteOneParquet(beam.PTransform):
    """Blocks of reports to one Parquet file.

    Attributes:
        path: of the file.
        form: of the reports.
    """

    path: str
    form: Form

    def expand(self, reports: beam.PCollection) -> beam.PCollection:
        return (
            reports
            | "To tables" >> beam.Map(report_tables.to_table).with_output_types(pa.Table)
            | "Write"
            >> WriteToParquetBatched(
                self.path,
                report_tables.schema(self.form),
                num_shards=1,
                shard_name_template="",
            )
        )


@dataclass
class Submit(beam.PTransform):
    """Tables in, blocks of submitted reports of one metric out.

    Attributes:
        fingerprint: of the plan.
        place: of the metric in the plan.
        metric: that is reported.
        pem: the collector's public key, if reports are sealed.
    """

    fingerprint: bytes
    place: int
    metric: Metric
    pem: bytes | None

    def expand(self, tables: beam.PCollection) -> beam.PCollection:
        reports = self.metric.reports(tables)
        return reports.messages | "Submit" >> beam.ParDo(
            SubmitDoFn(self.fingerprint, self.place, self.pem)
        )


@typehints.with_input_types(np.ndarray)
@typehints.with_output_types(Reports)
class SubmitDoFn(beam.DoFn):
    """Gives each message an id of its own, and a seal if there is a key."""

    def __init__(self, fingerprint: bytes, place: int, pem: bytes | None) -> None:
        self._fingerprint, self._place, self._pem = fingerprint, place, pem

    def setup(self) -> None:
        self._rng = SecureRandom()
        self._key: X25519PublicKey | None = None if self._pem is None else public_key(self._pem)

    def process(self, messages: np.ndarray) -> Iterator[Reports]:
        plain = Reports.submitted(self._fingerprint, self._place, messages, self._rng)
        yield plain if self._key is None else seal(plain, self._key)
