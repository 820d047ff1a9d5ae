"""How many rows came after their window's end, where a runner's watermark says when that was."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam import typehints
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import CombiningValueStateSpec, TimerSpec, on_timer

from transforms.elements.progress import tally
from transforms.rows.windowed import LATE


@dataclass
class CountLate(beam.PTransform):
    """Counts the rows of windowed tables, or of reports, whose window had ended; no output.

    A runner drops them at the next grouping, and not every runner says how many they were.
    """

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        return (
            blocks
            | "Rows" >> beam.Map(_rows).with_output_types(tuple[int, int])
            | "Count late" >> beam.ParDo(CountLateDoFn())
        )


def _rows(block: Sized) -> tuple[int, int]:
    """Under one key: each window has one state, which its first table begins."""
    return 0, len(block)


@typehints.with_input_types(tuple[int, int])
class CountLateDoFn(beam.DoFn):
    """Remembers of each window that its end has passed."""

    END = TimerSpec("end", TimeDomain.WATERMARK)
    ENDED = beam.DoFn.StateParam(CombiningValueStateSpec("ended", any))
    AT_END = beam.DoFn.TimerParam(END)

    def process(
        self,
        keyed: tuple[int, int],
        window: Any = beam.DoFn.WindowParam,
        ended: Any = ENDED,
        end: Any = AT_END,
    ) -> None:
        if ended.read():
            tally(LATE, keyed[1])
        else:
            # One timer a window: from when it fires, whatever comes is late.
            end.set(window.end)

    @on_timer(END)
    def close(self, ended: Any = ENDED) -> None:
        """The watermark has passed the window's end."""
        ended.add(True)
