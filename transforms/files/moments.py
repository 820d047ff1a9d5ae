"""Moments as databases, languages and loggers write them: the one reader of times in texts.

Steps over columns of which one value that fails must not take the others with it.
"""

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

# A time that says no zone is one in UTC, as everywhere here.
TIME = pa.timestamp("us", "UTC")
_NAIVE = pa.timestamp("us")
_FIRST = pa.scalar(-62_135_596_800_000_000, pa.int64()).cast(TIME)  # 0001-01-01
_LAST = pa.scalar(253_402_300_799_999_999, pa.int64()).cast(TIME)  # 9999-12-31T23:59:59.999999

DAY = (
    r"[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|[12][0-9]))"
)
# What is finer than a microsecond is left out: that rounds down, before 1970 too.
_CLOCK = r"[ Tt](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.,][0-9]{1,6})?)?"
_FINER = r"[ Tt][0-9]{2}:[0-9]{2}:[0-9]{2}[.,][0-9]{6})[0-9]+"
OFFSET = r"[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?"
# Go, Ruby and Java name the zone behind its offset, which says all.
_NAME = r"(?: (?:[A-Za-z]{1,5}|[+-][0-9]{2,4})|\[[\w/+-]{1,64}\])?"
_LOCAL = f"^{DAY}(?:{_CLOCK}(?: ?(?i:Z|UTC|GMT))?)?$"
_ZONED = f"^{DAY}{_CLOCK} ?(?:{OFFSET}|[Zz]){_NAME}$"


def tolerant(step: Callable[[pa.Array], pa.Array], column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A step over a column that is null where the step fails; Arrow would fail for all of it.

    Args:
        step: takes each value alone to one of `kind`.
        column: n values.
        kind: of what comes out.
    """
    try:
        return step(column)
    except pa.ArrowException:  # its text quotes the value
        if len(column) <= 1:
            return pa.nulls(len(column), kind)
    middle = len(column) // 2
    halves = (column.slice(0, middle), column.slice(middle))
    return pa.concat_arrays([tolerant(step, half, kind) for half in halves])


def of_form(texts: pa.Array, form: str) -> pa.Array:
    """Texts; null where one does not match a regular expression."""
    return pc.if_else(pc.match_substring_regex(texts, form), texts, None)


def moments(texts: pa.Array) -> pa.Array:
    """(n,) moments of `TIME`; null where a text is none.

    Read are ISO 8601's extended form and what others make of it: a blank for the T, small letters,
    a comma before the fraction and any number of its digits, a blank before the zone, and the zone
    as Z, UTC, GMT or an offset of hours and perhaps minutes. Whoever names no zone is in UTC.

    Args:
        texts: n strings without blanks around them.

    >>> moments(pa.array(["2026-11-20 08:00:00,5 +0200"]))[0].as_py().isoformat()
    '2026-11-20T06:00:00.500000+00:00'
    """
    coarse = pc.replace_substring_regex(texts, rf"({_FINER}", r"\1")
    zoneless = of_form(coarse, _LOCAL)
    here = tolerant(_here, zoneless, TIME)
    if zoneless.null_count == texts.null_count:
        return here
    there = tolerant(_there, of_form(coarse, _ZONED), TIME)
    return pc.coalesce(here, there)


def _here(texts: pa.Array) -> pa.Array:
    """In UTC, whether they say so or not."""
    bare = pc.replace_substring(pc.utf8_rtrim(texts, " ZUTCGMzutcgm"), ",", ".")
    return pc.ascii_upper(bare).cast(_NAIVE).cast(TIME)


def _there(texts: pa.Array) -> pa.Array:
    """Those with an offset, as the one reader that Arrow has takes it."""
    bare = pc.replace_substring_regex(texts, rf" ?({OFFSET}|[Zz]){_NAME}$", r"\1")
    return pc.ascii_upper(pc.replace_substring(bare, ",", ".")).cast(TIME)


def in_calendar(times: pa.Array) -> pa.Array:
    """(n,) moments of the years 1 to 9999, null beyond: where calendars of others come round."""
    inside = pc.and_(pc.greater_equal(times, _FIRST), pc.less_equal(times, _LAST))
    return pc.if_else(inside, times, pa.scalar(None, TIME))
