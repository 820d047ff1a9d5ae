"""What a person says of files whose columns have no types of their own, and texts to such types."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

# A time that says no zone is one in UTC, as everywhere here.
TIME = pa.timestamp("us", "UTC")

TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "int": pa.int64(),
    "float": pa.float64(),
    "bool": pa.bool_(),
    "date": pa.date32(),
    "timestamp": TIME,
}
"""What a column of text may be said to hold."""

# What Arrow takes for such a value is more than people do (0x10): the form is looked at first. That
# leaves few texts, as of 29 February, to the search for what no cast takes: each failing cast is an
# exception, and in a batch with 30,000 of them the search took seven seconds.
_INTEGER = r"^[+-]?[0-9]{1,19}$"
_FLOAT = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_TRUTH = r"^(?i:true|false|0|1)$"
_DAY = (
    r"[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    r"|02-(0[1-9]|[12][0-9]))"
)
_CLOCK = r"[ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,6})?)?"
_FORMS = {
    pa.int64(): _INTEGER, pa.float64(): _FLOAT, pa.bool_(): _TRUTH, pa.date32(): f"^{_DAY}$"
}  # fmt: skip
_LOCAL, _ZONED = f"^{_DAY}({_CLOCK})?$", f"^{_DAY}{_CLOCK}(Z|[+-][0-9]{{2}}:?[0-9]{{2}})$"


@dataclass(frozen=True)
class Reading:
    """How text is read.

    Attributes:
        types: (column, a name of `TYPES`) of those that hold no strings.
        delimiter: between the fields of a CSV file; empty for what its name says.
        header: the names of a CSV file's columns, where its first line is a row already.
    """

    types: tuple[tuple[str, str], ...] = ()
    delimiter: str = ""
    header: tuple[str, ...] = ()
    _kinds: dict[str, pa.DataType] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kinds = {column: TYPES[name] for column, name in self.types}
        object.__setattr__(self, "_kinds", kinds)

    def kind(self, column: str) -> pa.DataType:
        """What a column of text holds."""
        return self._kinds.get(column, pa.string())

    def without(self, columns: Container[str]) -> Reading:
        """The same but for what is said of some columns."""
        return replace(self, types=tuple(said for said in self.types if said[0] not in columns))

    def schema(self, columns: Iterable[str]) -> pa.Schema:
        """The columns of a file of text."""
        return pa.schema([(name, self.kind(name)) for name in columns])


PLAIN = Reading()


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


def parsed(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Texts as values of a type; null where one is none, blanks around it aside.

    Args:
        texts: n strings.
        kind: one of `TYPES`.

    >>> parsed(pa.array(["1", " 2 ", "x", "0x10", None]), pa.int64()).to_pylist()
    [1, 2, None, None, None]
    """
    if pa.types.is_string(kind):
        return texts
    trimmed = pc.utf8_trim_whitespace(texts)
    if pa.types.is_timestamp(kind):
        return _times(trimmed, kind)
    formed = _of_form(trimmed, _FORMS[kind])
    if pa.types.is_integer(kind):
        formed = pc.utf8_ltrim(formed, "+")  # the one sign that Arrow does not take
    return tolerant(lambda part: part.cast(kind), formed, kind)


def _of_form(texts: pa.Array, form: str) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(texts, form), texts, None)


def _times(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Moments as they are written; of those that name no zone it is UTC."""
    naive = pa.timestamp(kind.unit)
    local, zoned = _of_form(texts, _LOCAL), _of_form(texts, _ZONED)
    here = tolerant(lambda part: part.cast(naive), local, naive).cast(kind)
    return pc.coalesce(tolerant(lambda part: part.cast(kind), zoned, kind), here)
