"""What a release of a distribution holds: tables and statement, in the units of the bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mechanisms.channel import Floats
from mechanisms.distribution.estimator import NumberSummary
from mechanisms.distribution.fitting import DistributionDesign
from mechanisms.distribution.quantiles import quantiles
from mechanisms.mean.poisoned import HONEST, NOBODY, quotient_reach
from pipelines.metrics.poisoning import LIARS, Poisoning
from pipelines.views.digits import digits
from pipelines.wording import upward
from transforms.encoders.bounds import Bounds

_AND_QUANTILES = (
    ", the mean by up to {mean:g}, and the quantile of a probability to one whose probability is "
    "lower or higher by what the share moves (`quantiles` has them); the estimates follow the "
    "unbiased shares, without a bound of their own"
)

TABLE, QUANTILES = "distribution.parquet", "quantiles.parquet"

_COVERS = (
    "Intervals cover with the stated probability, each for itself, whatever the distribution: the "
    "randomisation of the reports, and the choice of users too if these are a random sample of a "
    "population. Those of quantiles, of the mean and the sure ones of cumulative shares hold for "
    "the numbers as they were, clipped to the bounds; those of single bins for numbers moved at "
    "random by up to half a bin. So do the shorter ones of cumulative shares, for the numbers of "
    "those who reported: they hold for these as they were where they lie evenly between the "
    "middles of bins, and a spike may lie outside. Standard errors of shares cover the "
    "randomisation alone."
)

_QUOTIENT = (
    " All is of the numbers that can be used: shares, sums of shares and the mean are quotients, "
    "whose intervals are Fieller's; where nobody may have a number they are all that there is."
)


def distribution_table(summary: NumberSummary, bounds: Bounds) -> pa.Table:
    """The published bins, in rising order; the first and the last are half as wide as the others.

    Columns: low and high; estimate (by expectation maximisation), unbiased (straight from the
    counts), standard_error, lower and upper of the share of numbers in the bin, moved as rounding
    moves them; cumulative (the sum of the estimates), cumulative_lower and cumulative_upper of the
    share of numbers up to `high`, where they lie evenly in their bins, and cumulative_lower_sure
    and cumulative_upper_sure of the same, whatever the distribution.
    """
    edges = scaled(summary.edges, bounds)
    names = (
        "estimate", "unbiased", "standard_error", "lower", "upper", "cumulative",
        "cumulative_lower", "cumulative_upper",
    )  # fmt: skip
    # Where there is no number, there is a null.
    columns = {name: pa.array(getattr(summary, name), from_pandas=True) for name in names}
    columns |= {
        "cumulative_lower_sure": summary.sure_lower,
        "cumulative_upper_sure": summary.sure_upper,
    }
    return pa.table({"low": edges[:-1], "high": edges[1:]} | columns)


def quantile_table(
    probabilities: Sequence[float], summary: NumberSummary, bounds: Bounds, whole: bool = False
) -> pa.Table:
    """The published quantiles: p, estimate, lower, upper; of whole numbers they are whole.

    A whole number that lies between two limits lies between the whole numbers within them.
    """
    columns = [scaled(column, bounds) for column in summary.quantiles.T]
    if whole:
        estimate, lower, upper = columns
        middle = np.clip(np.rint(estimate), *bounds)
        columns = [
            middle, np.minimum(np.ceil(lower), middle), np.maximum(np.floor(upper), middle),
        ]  # fmt: skip
    kind = pa.int64() if whole else pa.float64()
    numbers = (pa.array(column).cast(kind) for column in columns)
    named = dict(zip(("estimate", "lower", "upper"), numbers, strict=True))
    return pa.table({"p": list(probabilities), **named})


def scaled(values: Floats, bounds: Bounds) -> Floats:
    """Numbers of [-1, 1] in the units of the bounds, and inside them."""
    inside = np.clip(bounds.low + (values + 1) * bounds.half, *bounds)
    return np.asarray(np.where(values >= 1, bounds.high, inside))


def unusable_share(summary: NumberSummary) -> dict[str, float]:
    """The share of users who have no number, if that is hidden."""
    return {} if summary.unusable is None else summary.unusable._asdict()


def own_statement(
    summary: NumberSummary, bounds: Bounds, fitted: DistributionDesign, smooth: bool, unit: str
) -> dict[str, Any]:
    """The mean, how it was estimated, and how far off all may be."""
    return {
        "mean": _mean(summary, bounds),
        "estimation": {
            "bins": len(summary.estimate),
            "method": "EMS, smoothed: biased, closer on smooth data and far off at spikes"
            if smooth
            else "expectation maximisation, stopped where it begins to fit the noise",
            "iterations": summary.iterations,
            "converged": summary.converged,
            "span": fitted.span,
        },
        "error": {
            "expected_length_of_cumulative_intervals": fitted.expected_length,
            "covers": covers(unit) + _QUOTIENT * fitted.hides,
        },
    }


def poisoning(
    probabilities: Sequence[float],
    summary: NumberSummary,
    bounds: Bounds,
    reach: tuple[float, float] | None,
) -> Poisoning:
    """How far liars can move cumulative shares, and what that makes of quantiles; and the mean.

    Args:
        probabilities: of the published quantiles.
        summary: what was published.
        bounds: what numbers were clipped to.
        reach: how far made-up reports can move a cumulative share, and the mean on the scale of
            [-1, 1]; None if nobody else can make any.
    """
    absent = 0.0 if summary.unusable is None else summary.unusable.unbiased
    averages = np.array([summary.mean.estimate * (1 - absent), 1 - absent])
    some = np.concatenate([HONEST, NOBODY]) if summary.unusable is not None else HONEST
    mean = float(quotient_reach((averages[0], averages[1]), some, LIARS))
    left = 1 - absent - LIARS * (summary.unusable is not None)
    lies = LIARS / left if left > 0 else math.inf
    forged, forged_mean = reach or (None, mean)
    moved = lies if forged is None else forged
    levels = np.clip(np.add(probabilities, [[-moved], [moved]]), 0, 1)
    lower, upper = (
        scaled(quantiles(level, summary.estimate, summary.edges), bounds).tolist()
        for level in levels
    )
    more, also = (
        _AND_QUANTILES.format(mean=upward(bounds.half * min(distance, 2.0), 3))
        for distance in (mean, forged_mean)
    )
    ends = {"lower": lower, "upper": upper}
    beside = {"quantiles": ends, "mean": bounds.half * min(forged_mean, 2.0)}
    return Poisoning("any unbiased cumulative share", lies, forged, more=more, also=also,
                     beside=beside)  # fmt: skip


def covers(unit: str) -> str:
    """What intervals account for."""
    drawn = "" if unit == "row" else f" Of each {unit} one number was drawn; they hold for these."
    return _COVERS + drawn


def _mean(summary: NumberSummary, bounds: Bounds) -> dict[str, float | None]:
    """The mean in the units of the bounds."""
    mean, half = summary.mean, bounds.half
    known = math.isfinite(mean.estimate)  # of nobody who can be seen to have a number there is none
    unbiased = bounds.low + (mean.estimate + 1) * half if known else None
    middle = bounds.unscale(summary.mean_of_estimate) if unbiased is None else unbiased
    return {
        "estimate": min(max(middle, bounds.low), bounds.high),
        "unbiased": unbiased,
        "standard_error": mean.standard_error * half if known else None,
        "lower": float(scaled(np.array(mean.lower), bounds)),
        "upper": float(scaled(np.array(mean.upper), bounds)),
        "of_the_estimated_shares": float(scaled(np.array(summary.mean_of_estimate), bounds)),
    }


def reading(statement: Mapping[str, Any]) -> list[str]:
    """How a distribution from randomised reports is to be read."""
    mean, method = statement["mean"], statement["estimation"]["method"]
    low, high = (digits(mean[end], mean["standard_error"]) for end in ("lower", "upper"))
    return [
        "Numbers were stochastically rounded to a grid (unbiased); then every report was "
        f"randomised by itself. The shares were found by {method}. They are nonnegative, add up "
        "to 1 and are slightly biased; the unbiased ones stand beside them.",
        f"The mean is {digits(mean['estimate'], mean['standard_error'])}, with a standard error of "
        f"{digits(mean['standard_error'], mean['standard_error'])} and the interval {low} to "
        f"{high}. It is straight from the reports and unbiased; the estimated shares have the mean "
        f"{digits(mean['of_the_estimated_shares'], mean['standard_error'])}.",
    ]


def facts(statement: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How the shares were estimated."""
    estimation = statement["estimation"]
    rest = "" if estimation["converged"] else ", not at rest"
    return [
        ("bins", str(estimation["bins"])),
        ("estimate", f"{estimation['method']} ({estimation['iterations']} iterations{rest})"),
        ("cumulative intervals", f"by averages over {estimation['span']} bins"),
    ]
