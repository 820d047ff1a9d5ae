"""What the jobs about a column of numbers share: checks, and the way to cells."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Protocol

import pyarrow as pa

from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.wording import of_moments
from transforms.columns import is_moment, is_numeric, type_name
from transforms.encoders.bounds import Bounds
from transforms.files.moments import moments
from transforms.windows import SECOND

_WHOLE = 1 << 53  # whole numbers up to it are doubles of their own
_SQUARED = 1e100  # squares of numbers up to it, and their sums with noise, stay numbers
_NARROWEST = 1e-100  # parts of narrower bounds would be no numbers
_NEEDED = {False: "integers, floats or decimals", True: "for its bounds are some"}


class NumbersRequest(inputs.Request, Protocol):
    """A request about a column of numbers."""

    @property
    def column(self) -> str: ...
    @property
    def bounds(self) -> str | None: ...


class Filled(Protocol):
    """A request that may name what stands in the place of numbers that cannot be used."""

    @property
    def fill(self) -> str | None: ...


def _seconds(text: str) -> float:
    """A moment as seconds since 1970; of one that names no zone it is UTC."""
    moment = moments(pa.array([text.strip()]))[0]
    if not moment.is_valid:
        raise ValueError("no moment is written so")
    return float(moment.value) / SECOND


def read_bounds(text: str | None) -> Bounds:
    """The bounds in "L,U"; of moments they are seconds since 1970.

    Raises:
        RequestError: they are not two finite numbers, the first below the second.

    >>> read_bounds("-5,5")
    Bounds(low=-5.0, high=5.0)
    """
    if text is None:
        raise RequestError("--bounds is missing: name the least and the largest value, as in 0,100")
    parts = text.split(",")
    read = _seconds if of_moments(text) else float
    try:
        ends = [read(part) for part in parts]
    except ValueError:
        ends = []
    if len(ends) != 2:
        raise RequestError(
            f"--bounds must be two numbers with a comma, as in 0,100 or -5,5, not {text!r}"
        )
    if not math.isfinite(ends[1] - ends[0]):
        raise RequestError(f"--bounds must be finite, and so must be their distance, not {text!r}")
    if read is float and ends[0] == ends[1] and Decimal(parts[0]) != Decimal(parts[1]):
        raise RequestError(
            f"--bounds: {text!r} is one number in 64 bits, which keep some 16 digits: name bounds "
            "further apart"
        )
    if not ends[0] < ends[1]:
        raise RequestError(f"--bounds: the first must be below the second, not {text!r}")
    if not ends[1] - ends[0] >= _NARROWEST:
        raise RequestError(f"--bounds must lie apart by {_NARROWEST:g} at least, not {text!r}")
    return Bounds(*ends)


def of_squares(bounds: Bounds) -> Bounds:
    """Bounds of numbers whose squares are added up, too.

    Raises:
        RequestError: these would be no numbers.
    """
    if not max(map(abs, bounds)) <= _SQUARED:
        raise RequestError(
            f"--bounds: squares are added up, so they must lie within {_SQUARED:g} of 0"
        )
    return bounds


def read_fill(options: Filled) -> float | None:
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


def are_whole(telemetry: inputs.Telemetry, column: str, bounds: Bounds) -> bool:
    """Whether all numbers of a column are whole once clipped, as far as its type says so.

    Args:
        telemetry: the files; who sees none knows of no type.
        column: of them.
        bounds: what numbers are clipped to.
    """
    kind = telemetry.column_type(column, "--column")
    whole = all(end.is_integer() and abs(end) <= _WHOLE for end in bounds)
    return pa.types.is_integer(kind) and whole


def open_numbers(
    options: NumbersRequest,
    given: inputs.Source = inputs.ALONE,
    empty: bool = False,
    moments: bool = True,
    flag: str = "--column",
) -> inputs.Telemetry:
    """The files, after all checks that need no more than their footers.

    Args:
        options: of the request.
        given: what a plan has settled.
        empty: whether there may be no row in them.
        moments: whether timestamps will do, between bounds that are some.
        flag: that names the column.

    Raises:
        RequestError: the output is taken, there is no input, or a column is not what it must be.
    """
    telemetry = given.open(options, empty)
    kind = telemetry.column_type(options.column, flag)
    if telemetry.unseen:
        return telemetry
    of_time = moments and of_moments(options.bounds)
    if moments and is_moment(kind) and not of_time:
        raise RequestError(
            f"--bounds: {options.column!r} holds timestamps: name the first and the last, as in "
            "2026-11-20,2026-11-21T12:00"
        )
    if not (is_moment(kind) if of_time else is_numeric(kind)):
        wanted = "timestamps are" if of_time else "numbers are"
        raise RequestError(
            f"{flag}: {options.column!r} holds {type_name(kind)}; {wanted} needed "
            f"({_NEEDED[of_time]})" + telemetry.hint(options.column)
        )
    return telemetry
