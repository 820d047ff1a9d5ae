"""What makes a plan's units answer one metric each, where they are divided among several."""

from __future__ import annotations

from collections.abc import Iterable

import apache_beam as beam

from pipelines.metrics.metric import Metric
from transforms.encoders.users import UserDigest
from transforms.units.divide import DrawParts


def drawn(tables: beam.PCollection, metrics: Iterable[Metric]) -> beam.PCollection:
    """Tables of a plan's input, with what was drawn for each unit if metrics divide them.

    It stands before the metrics' ways part: drawn once for each, a row could answer several.

    Args:
        tables: with the metrics' columns.
        metrics: that read them.
    """
    for metric in metrics:
        if metric.part is not None:
            column = metric.options.user_column
            # As text: files of one window may hold integers, and others their decimals.
            users = None if column is None else UserDigest(column, metric.part.key, as_text=True)
            return tables | "Divide units" >> DrawParts(users, metric.open_rng)
    return tables
