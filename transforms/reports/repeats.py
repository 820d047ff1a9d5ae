"""What comes again in the next window counts once, as when a client tries again across its end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration

from mechanisms.wire.report import Form, Reports
from transforms.reports.duplicates import DropDuplicates


@dataclass
class DropRepeats(beam.PTransform):
    """`DropDuplicates` in windows of time that tumble, of each also what came a window before.

    Every window remembers the ids of the one before it, and no more: a report that was sent again
    across a window's end counts once, and so does one that is sent again in every window. One that
    came too late for its window counts in no other.

    Attributes:
        fingerprint: of the plan, 16 bytes.
        form: of the reports; submitted, so that they have ids.
        length: of a window, in microseconds.
    """

    fingerprint: bytes
    form: Form
    length: int

    def expand(self, reports: beam.PCollection) -> beam.PCollection:
        echoes = (
            reports
            | "Ids to the next window" >> beam.ParDo(EchoDoFn(self.length))
            | "Next window" >> beam.WindowInto(reports.windowing.windowfn)
        )
        both = (reports, echoes) | "With echoes" >> beam.Flatten()
        once = both | "Once each" >> DropDuplicates(self.fingerprint, self.form)
        return once.reports


@typehints.with_input_types(Reports)
@typehints.with_output_types(Reports)
class EchoDoFn(beam.DoFn):
    """The ids of reports, a window later, in records of no length: no report is such a one."""

    def __init__(self, length: int) -> None:
        self._length = Duration(micros=length)

    def process(
        self, block: Reports, came: Any = beam.DoFn.TimestampParam
    ) -> Iterator[TimestampedValue]:
        records = np.zeros(len(block), block.form.dtype)
        records["report_id"] = block.records["report_id"]
        # Later by exactly one window's length, an echo falls into the next window and into no
        # other.
        yield TimestampedValue(replace(block, records=np.unique(records)), came + self._length)
