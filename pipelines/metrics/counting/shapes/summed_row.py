"""Totals of all numbers of rows, whole, for the job that adds its noise to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mechanisms.counters.choose import NoisyCounters
from mechanisms.counters.rows import SummedRows, fine_steps
from pipelines.metrics.counting.design import meeting
from pipelines.metrics.counting.options import DELTA
from pipelines.metrics.counting.result import FigureError
from pipelines.metrics.counting.shapes.row import DigitRow
from pipelines.metrics.statistics.evidence import Accuracy
from transforms.encoders.attributes import categorical, width
from transforms.encoders.reports import LACKING, MISSING, SummedReporting

if TYPE_CHECKING:
    from pipelines.metrics.counting.by_counters import ByCounters


class _SummedRow(DigitRow):
    def least(self, statistic: Any, sealed: bool) -> tuple[NoisyCounters, SummedReporting]:
        options, attributes = statistic.options, statistic.attributes
        numbers, sizes = width(attributes), tuple(c.size for c in categorical(attributes))
        target = options.epsilon or 1.0, options.delta or DELTA
        steps = fine_steps(numbers, len(sizes), options.usual, *target)
        if options.digits:
            steps = (1 << options.digits) - 1
        summed = SummedRows(numbers, steps, sizes, options.count_each)
        reporting = SummedReporting(summed, (LACKING if summed.own_counts else MISSING,))
        rows = reporting.rows
        return meeting(options, rows.levels, reporting.sides, parts=rows.parts), reporting

    def accuracy(self, release: ByCounters) -> Accuracy:
        rows, design = release.reporting.rows, release.design
        unit, place = 1 / rows.steps, len(rows.levels) - 1
        total = FigureError.of_level(design, 0, 1 + rows.own_counts, unit=unit)
        count = total if rows.own_counts else FigureError.of_level(design, place, 1)
        return Accuracy(total, count, coin=float(rows.rounding(np.array(1))))

    def influence(self, release: ByCounters) -> float:
        return 1.0


SUMMED_ROW = _SummedRow()
