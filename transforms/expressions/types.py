"""Values of one type as those of another; null where a value is none of it."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from transforms.expressions.numbers import made_whole
from transforms.expressions.registry import Given, function
from transforms.expressions.values import (
    INTEGER,
    NAMES,
    NUMBER,
    TEXT,
    TRUTH,
    WIDE,
    Bound,
    narrowed,
    of_all,
)
from transforms.files.moments import of_form, tolerant

_WHOLE = r"^[+-]?[0-9]{1,19}$"
_NUMBER = r"^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?$"
_TRUTH = r"^(?i:true|false)$"
_KINDS = {"whole": INTEGER, "number": NUMBER, "text": TEXT, "truth": TRUTH}


def _plain(values: Any, kind: pa.DataType) -> Any:
    # An int64 goes to the nearest double.
    return pc.cast(values, kind, safe=not pa.types.is_floating(kind))


def _read(form: str) -> Callable[[Any, pa.DataType], Any]:
    def read(texts: Any, kind: pa.DataType) -> Any:
        known = of_form(pc.utf8_trim_whitespace(texts), form)
        return tolerant(lambda part: part.cast(kind), pc.utf8_ltrim(known, "+"), kind)

    return read


def _whole(numbers: Any, _: pa.DataType) -> Any:
    """To the nearest whole number; halves go away from 0, as in SQL."""
    return made_whole(numbers, lambda x: pc.round(x, round_mode="half_towards_infinity"))


def _decimals(numbers: Any, kind: pa.DataType) -> Any:
    """To texts as GoogleSQL's: 1.0 keeps its decimal, and 0 has no sign."""
    texts = pc.cast(pc.add(numbers, 0.0), kind)
    return pc.replace_substring_regex(texts, "^(-?[0-9]+)$", r"\1.0")


_STEPS: dict[tuple[pa.DataType, pa.DataType], Callable[[Any, pa.DataType], Any]] = {
    (NUMBER, INTEGER): _whole, (WIDE, INTEGER): narrowed, (TRUTH, INTEGER): _plain,
    (TEXT, INTEGER): _read(_WHOLE), (INTEGER, NUMBER): _plain, (WIDE, NUMBER): _plain,
    (TEXT, NUMBER): _read(_NUMBER), (INTEGER, TEXT): _plain, (WIDE, TEXT): _plain,
    (NUMBER, TEXT): _decimals, (TRUTH, TEXT): _plain, (INTEGER, TRUTH): _plain,
    (TEXT, TRUTH): _read(_TRUTH),
}  # fmt: skip


@function(
    "cast(x, 'type')",
    "as a `whole` number (the nearest, halves away from 0), a `number`, a `text` or a `truth`; "
    "null where x is none",
)
def _cast(given: Given) -> Bound:
    given.many(2, 2)
    kind, (have, values, _) = _KINDS.get(given.written(1, str)), given.bound[0]
    if kind is None:
        raise given.refuse(f"the type is one of {', '.join(_KINDS)}", 1)
    if kind == have:
        return given.bound[0]
    step = _STEPS.get((have, kind))
    if step is None:
        made = [name for name, to in _KINDS.items() if to == have or (have, to) in _STEPS]
        why = f"of {NAMES[have]} no {NAMES[kind].removeprefix('a ')} is made"
        raise given.refuse(f"{why}; {', '.join(made) or 'leave it out'}", 0)
    return Bound(kind, lambda batch: of_all(lambda part: step(part, kind), values(batch)))
