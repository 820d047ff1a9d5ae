"""What the jobs about a column of numbers share: checks, and the way to cells."""

from __future__ import annotations

import math
from typing import Protocol

from pipelines import inputs
from pipelines.errors import RequestError
from pipelines.metrics.options import MetricOptions
from transforms.encoders.bounds import Bounds
from transforms.encoders.columns import is_numeric


class Numbers(inputs.Request, Protocol):
    """A request about a column of numbers."""

    @property
    def column(self) -> str: ...


def read_bounds(text: str | None) -> Bounds:
    """The bounds in "L,U".

    Raises:
        RequestError: they are not two finite numbers, the first below the second.

    >>> read_bounds("-5,5")
    Bounds(low=-5.0, high=5.0)
    """
    if text is None:
        raise RequestError("--bounds is missing: name the least and the largest value, as in 0,100")
    parts = text.split(",")
    try:
        ends = [float(part) for part in parts]
    except ValueError:
        ends = []
    if len(ends) != 2:
        raise RequestError(
            f"--bounds must be two numbers with a comma, as in 0,100 or -5,5, not {text!r}"
        )
    if not math.isfinite(ends[1] - ends[0]):
        raise RequestError(f"--bounds must be finite, and so must be their distance, not {text!r}")
    if not ends[0] < ends[1]:
        raise RequestError(f"--bounds: the first must be below the second, not {text!r}")
    return Bounds(*ends)


def read_fill(options: MetricOptions) -> float | None:
    """The number in the place of those that cannot be used, if one was named.

    Raises:
        RequestError: it is no finite number.
    """
    if options.fill is None:
        return None
    try:
        number = float(options.fill)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise RequestError(
            "--unusable fill: name a finite number, as in fill=0, to stand in the place of those "
            "that cannot be used"
        )
    return number


def open_numbers(
    options: Numbers, given: inputs.Source = inputs.ALONE, empty: bool = False
) -> inputs.Telemetry:
    """The files, after all checks that need no more than their footers.

    Args:
        options: of the request.
        given: what a plan has settled.
        empty: whether there may be no row in them.

    Raises:
        RequestError: the output is taken, there is no input, or a column is not what it must be.
    """
    telemetry = given.open(options, empty)
    kind = telemetry.column_type(options.column, "--column")
    if not (telemetry.unread or is_numeric(kind)):
        raise RequestError(
            f"--column: {options.column!r} holds {kind}; numbers are needed (integers, floats or "
            "decimals)"
        )
    return telemetry
