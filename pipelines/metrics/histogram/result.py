"""What a release of a histogram holds: its table, and what is said of its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.postprocess.intervals import (
    intervals,
    largest_error_bound,
    opened,
    standard_errors,
)
from pipelines.wording import covered
from transforms.encoders.domain import Domain

if TYPE_CHECKING:
    from transforms.collector.collect import Frequencies

TABLE = "histogram.parquet"

_CHOSEN = ", and of the published share nothing is bounded, for lies may change how it is chosen"


def poisoned(postprocess: str, hides: bool) -> str:
    """What post-processing does to the effect of lies, as the end of a sentence.

    Args:
        postprocess: what was done.
        hides: whether values share what those without one leave.
    """
    if postprocess == "none":
        return ""
    if postprocess != "pop":
        return _CHOSEN
    # Each coordinate loses one number, which moves no farther than the farthest of them; and what
    # they add up to moves it as far again.
    times = "three times" if hides else "twice"
    return f", and no published one by more than {times} as much as the farthest unbiased one"


def histogram_table(
    mechanism: FrequencyOracle, domain: Domain, frequencies: Frequencies, confidence: float
) -> pa.Table:
    """The published table: one row per value, in the order of the domain.

    Columns: value (null for the bin of all other values), estimate (after post-processing),
    unbiased (before it), standard_error, lower and upper (an interval for each value alone),
    lower_simultaneous and upper_simultaneous (intervals that cover all values together). Where the
    unbiased share lies so far outside of 0 .. 1 that nothing inside agrees with it, an interval
    reaches from the end one standard error inwards, and is no point. An interval that would leave
    out the estimate beside it, which post-processing has moved, reaches to it.
    """
    unbiased, n = frequencies.unbiased, frequencies.n
    error = standard_errors(mechanism, unbiased, n)
    above, below = np.sqrt(mechanism.variance(np.array([0.0, 1.0]), n))  # at either end
    estimate = frequencies.estimate
    limits = (
        opened(*intervals(mechanism, unbiased, n, confidence, together), below, above)
        for together in (False, True)
    )
    (lower, upper), (lower_all, upper_all) = (
        (np.minimum(low, estimate), np.maximum(high, estimate)) for low, high in limits
    )
    values = domain.labels()
    if domain.other:
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
    columns = {
        "estimate": estimate,
        "unbiased": unbiased,
        "standard_error": error,
        "lower": lower,
        "upper": upper,
        "lower_simultaneous": lower_all,
        "upper_simultaneous": upper_all,
    }
    # Behind the values comes the cell of what cannot be used, if there is one.
    return pa.table({"value": values} | {name: x[: domain.size] for name, x in columns.items()})


def share_of(
    mechanism: FrequencyOracle, frequencies: Frequencies, cell: int, confidence: float
) -> dict[str, float]:
    """The share of one cell, with its standard error and an interval."""
    unbiased, n = frequencies.unbiased[cell : cell + 1], frequencies.n
    lower, upper = intervals(mechanism, unbiased, n, confidence, simultaneous=False)
    share = float(frequencies.estimate[cell])
    return {
        "share": share,
        "unbiased": float(unbiased[0]),
        "standard_error": float(standard_errors(mechanism, unbiased, n)[0]),
        "lower": min(float(lower[0]), share),
        "upper": max(float(upper[0]), share),
    }


def histogram_error(
    mechanism: FrequencyOracle, n: int, confidence: float, unit: str
) -> dict[str, Any]:
    """How far off the shares of so many reports may be, and what that covers."""
    return {
        "standard_error_at_0": float(np.sqrt(mechanism.variance(0.0, n))),
        "mean_squared_error_per_value": mechanism.average_variance(n),
        "largest_error_bound": largest_error_bound(mechanism, n, confidence),
        "covers": covered(unit),
    }
