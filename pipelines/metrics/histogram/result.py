"""What a release of a histogram holds: its table and its statement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mechanisms import systems
from mechanisms.postprocess.intervals import (
    intervals,
    largest_error_bound,
    opened,
    standard_errors,
)
from pipelines.numbers import counted, statement_head, versions
from pipelines.wording import covered
from transforms.collect import Frequencies

if TYPE_CHECKING:
    from pipelines.metrics.histogram.job import HistogramJob

TABLE = "histogram.parquet"


def histogram_table(job: HistogramJob, frequencies: Frequencies) -> pa.Table:
    """The published table: one row per value, in the order of the domain.

    Columns: value (null for the bin of all other values), estimate (after post-processing),
    unbiased (before it), standard_error, lower and upper (an interval for each value alone),
    lower_simultaneous and upper_simultaneous (intervals that cover all values together). Where the
    unbiased share lies so far outside of 0 .. 1 that nothing inside agrees with it, an interval
    reaches from the end one standard error inwards, and is no point.
    """
    mechanism, unbiased, n = job.design.mechanism, frequencies.unbiased, frequencies.n
    confidence = job.options.confidence
    error = standard_errors(mechanism, unbiased, n)
    above, below = np.sqrt(mechanism.variance(np.array([0.0, 1.0]), n))  # at either end
    (lower, upper), (lower_all, upper_all) = (
        opened(*intervals(mechanism, unbiased, n, confidence, together), below, above)
        for together in (False, True)
    )
    values = job.domain.labels()
    if job.domain.other:
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
    return pa.table(
        {
            "value": values,
            "estimate": frequencies.estimate,
            "unbiased": unbiased,
            "standard_error": error,
            "lower": lower,
            "upper": upper,
            "lower_simultaneous": lower_all,
            "upper_simultaneous": upper_all,
        }
    )


def histogram_statement(
    job: HistogramJob, frequencies: Frequencies, tallies: Mapping[str, int]
) -> dict[str, Any]:
    """What was asked, what was done, and what it guarantees."""
    options, design = job.options, job.design
    local, released = design.local, design.release
    n, mechanism = frequencies.n, design.mechanism
    head = statement_head("histogram", (released, local), job.cautions, job.min_reports)
    return head | {
        "neighbours": f"one {job.unit}'s value is replaced by any other value of the domain",
        **counted(n, frequencies.invalid, tallies),
        "asked": {
            "column": options.column,
            "user_column": options.user_column,
            "unit": job.unit,
            "domain": f"{job.domain.declared:,} declared values",
            "out_of_domain": options.out_of_domain,
            "model": job.model,
            "epsilon": options.epsilon,
            "delta": design.target.delta,
            "epsilon_local": options.epsilon_local,
            "min_reports": job.min_reports,
            "mechanism": options.mechanism,
            "bound": options.bound,
            "max_messages": options.max_messages,
            # Of dummies alone: everybody's randomised response is counted on.
            "honest_share": getattr(mechanism, "honest_share", None),
            "postprocess": job.postprocess,
            "confidence": options.confidence,
        },
        "mechanism": {
            "name": design.name,
            "source": systems.find(design.name).source,
            "constants": mechanism.constants(),
            "messages_per_user": design.messages,
            "bits_per_message": design.bits,
        },
        "error": {
            "standard_error_at_0": float(np.sqrt(mechanism.variance(0.0, n))),
            "mean_squared_error_per_value": mechanism.average_variance(n),
            "largest_error_bound": largest_error_bound(mechanism, n, options.confidence),
            "covers": covered(job.unit),
        },
        "versions": versions(),
    }
