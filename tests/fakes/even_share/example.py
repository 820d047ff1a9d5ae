"""What is true of the share of even numbers, on the log of hushbeam's contract of metrics."""

from __future__ import annotations

import numpy as np

from tests.contract.truth import Example, Form, Truth


def even(log):
    """The share of the rows that have an even number; rows without one are rows."""
    return {(None,): float(np.mean((log["shade"] >= 0) & (log["shade"] % 2 == 0)))}


UNBIASED = Truth("even_share.parquet", even, estimate="unbiased", joint=None, within=False)
MOVED = Truth("even_share.parquet", even, joint=None, processed=True)

EXAMPLE = Example(
    {"column": "shade", "epsilon": 4, "min_reports": 2500},
    {"local": Form(truths=(UNBIASED, MOVED)), "shuffle": Form(truths=(UNBIASED, MOVED))},
)
