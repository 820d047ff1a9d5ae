"""What is made of numbers: of whole ones exactly, of others by doubles."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from transforms.expressions.registry import Given, function
from transforms.expressions.values import (
    INTEGER,
    NUMBER,
    WHOLE,
    WIDE,
    Bound,
    Values,
    as_wide,
    narrowed,
    of_all,
)

_BEYOND = 2.0**63  # the least number that no int64 holds
_EXACT = 2.0**51  # multiples up to here are told apart with room for the error of a division
_TENS = 22  # 10^22 is the last power of ten that a double holds

_CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}
_PLAIN = {"+": pc.add, "-": pc.subtract, "*": pc.multiply, "/": pc.divide}
_TALL = pa.decimal256(WIDE.precision, 0)  # in which no product of two is cut off


@function(
    "x + y",
    "also `-`, `*`, `/`: whole numbers stay whole and exact but for `/`, null beyond 64 bits (of "
    "uint64: beyond 37 digits); all else gives a number with decimals, null where x is divided by "
    "0 or the result is beyond what doubles hold",
    "+", "-", "*", "/",
)  # fmt: skip
def _arithmetic(given: Given) -> Bound:
    kinds, sign = {bound.kind for bound in given.bound}, given.call.name
    if kinds <= WHOLE and sign != "/":
        return _exact(sign, *given.bound)
    left, right = given.values(0, NUMBER), given.values(1, NUMBER)
    return Bound(NUMBER, lambda batch: _by_doubles(sign, left(batch), right(batch)))


@function("-x", "the number below 0, or above it", "0 -")
def _negative(given: Given) -> Bound:
    if given.bound[0].kind in WHOLE:
        zero = pa.scalar(0, INTEGER)
        return _exact("-", Bound(INTEGER, lambda _: zero), given.bound[0])
    values = given.values(0, NUMBER)
    return Bound(NUMBER, lambda batch: pc.negate(values(batch)))


def _by_doubles(sign: str, left: Values, right: Values) -> Values:
    """Null where SQL fails: of a division by 0, and where finite numbers give another one."""
    made = _PLAIN[sign](left, right)
    of_finite = pc.and_(pc.is_finite(left), pc.is_finite(right))
    fails = pc.and_(of_finite, pc.invert(pc.is_finite(made)))
    if sign == "/":
        fails = pc.or_(fails, pc.equal(right, 0.0))
    return pc.if_else(fails, pa.scalar(None, NUMBER), made)


def _exact(sign: str, left: Bound, right: Bound) -> Bound:
    """Of whole numbers, a whole number."""
    kind = INTEGER if left.kind == right.kind == INTEGER else WIDE
    wide = as_wide(left), as_wide(right)

    def combined(batch: pa.RecordBatch) -> Values:
        if kind == INTEGER:
            try:
                return _CHECKED[sign](left.values(batch), right.values(batch))
            except pa.ArrowInvalid:  # one at least is beyond 64 bits
                pass
        tall = _PLAIN[sign](wide[0](batch).cast(_TALL), wide[1](batch).cast(_TALL))
        return narrowed(tall, kind)

    return Bound(kind, combined)


@function(
    "bucket(x, width)",
    "the greatest multiple of width that is not above x, in decimals as they are written; a whole "
    "number, if width is one",
)
def _bucket(given: Given) -> Bound:
    given.many(2, 2)
    width, kind = given.written(1, int, float), given.bound[0].kind
    if not width > 0:
        raise given.refuse("the width must be above 0", 1)
    if kind in WHOLE and type(width) is int:
        whole = given.bound[0].values
        return Bound(kind, lambda batch: of_all(lambda part: _steps(part, width), whole(batch)))
    values = given.values(0, NUMBER)
    if type(width) is int:
        return Bound(INTEGER, lambda batch: made_whole(values(batch), lambda x: multiple(x, width)))

    def below(part: pa.Array) -> pa.Array:
        numbers = np.asarray(part.to_numpy(zero_copy_only=False))
        mask = np.asarray(part.is_null().to_numpy(zero_copy_only=False))
        return pa.array(multiple(numbers, width), NUMBER, mask=mask)

    return Bound(NUMBER, lambda batch: of_all(below, values(batch)))


def _steps(whole: pa.Array, width: int) -> pa.Array:
    """Whole numbers down to multiples of one."""
    if whole.type == INTEGER and width < 1 << 63:
        numbers = np.asarray(whole.fill_null(0).to_numpy(zero_copy_only=False))
        below = numbers - numbers % np.int64(width)
        # Below -2^63 it has come round to the largest ones.
        mask = np.asarray(whole.is_null().to_numpy(zero_copy_only=False)) | (below > numbers)
        return pa.array(below, INTEGER, mask=mask)
    multiples = [None if x is None else int(x) // width * width for x in whole.to_pylist()]
    tall = pa.array([None if x is None else Decimal(x) for x in multiples], _TALL)
    return narrowed(tall, whole.type)


def multiple(numbers: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    """(n,) the greatest multiple of a width that is not above each number.

    Multiples are those of the decimal that is written, each as its nearest double: 3 times 0.1 is
    0.3, where doubles multiply to 0.30000000000000004. Beyond 2^51 units of the width's last digit,
    which doubles hardly tell apart, it is true to the last bit of the number.

    Args:
        numbers: (n,) of any kind; infinite ones and NaN stay what they are.
        width: above 0.

    >>> multiple(np.array([0.3, 0.7, -0.05]), 0.1).tolist()
    [0.3, 0.7, -0.1]
    """
    written = Decimal(repr(width))
    places = max(0, -int(written.as_tuple().exponent))
    unit = int(written.scaleb(places))  # width is unit / 10^places
    with np.errstate(all="ignore"):
        steps = np.floor(numbers / width)
        result = np.minimum(steps * width, numbers)
        # So many steps that a double's last bit is above the width.
        result = np.where(np.abs(steps) < 2.0**53, result, numbers)
        if unit < _EXACT and places <= _TENS:
            exact = np.abs(steps) * unit < _EXACT
            # Both are whole and below 2^53, so that one division rounds the multiple once.
            at = [(steps + shift) * unit / 10.0**places for shift in (1, 0, -1)]
            best = np.where(at[0] <= numbers, at[0], np.where(at[1] <= numbers, at[1], at[2]))
            result = np.where(exact, best, result)
    return np.asarray(result, np.float64)


@function(
    "magnitude(x)",
    "0 to 129: the bin of x among powers of two of either sign, by which bounds are chosen; null "
    "of what is not finite",
)
def _magnitude(given: Given) -> Bound:
    from mechanisms.mean.magnitudes import bin_of  # half a second, which others need not wait for

    given.many(1, 1)
    values = given.values(0, NUMBER)

    def binned(part: pa.Array) -> pa.Array:
        numbers = np.asarray(part.to_numpy(zero_copy_only=False), np.float64)
        finite = np.isfinite(numbers)
        return pa.array(bin_of(np.where(finite, numbers, 0)).astype(np.int64), mask=~finite)

    return Bound(INTEGER, lambda batch: of_all(binned, values(batch)))


@function("round(x, digits)", "to so many digits behind the point; without, to a whole number")
def _round(given: Given) -> Bound:
    given.many(1, 2)
    if not given.has(1):
        if given.bound[0].kind in WHOLE:
            return given.bound[0]
        values = given.values(0, NUMBER)
        return Bound(INTEGER, lambda batch: made_whole(values(batch), np.rint))
    values, digits = given.values(0, NUMBER), given.written(1, int)
    if not 0 <= digits <= 15:
        raise given.refuse("0 to 15 digits", 1)
    return Bound(NUMBER, lambda batch: pc.round(values(batch), ndigits=digits))


def made_whole(values: Values, step: Callable[[Any], Any]) -> Values:
    """Numbers made whole; null where they are not finite, or beyond what 64 bits hold."""

    def made(part: pa.Array) -> pa.Array:
        numbers = np.asarray(step(np.asarray(part.to_numpy(zero_copy_only=False), np.float64)))
        fits = (numbers >= -_BEYOND) & (numbers < _BEYOND)  # not of NaN, which nulls are
        return pa.array(np.where(fits, numbers, 0).astype(np.int64), INTEGER, mask=~fits)

    return of_all(made, values)
