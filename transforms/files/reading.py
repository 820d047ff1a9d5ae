"""What a person says of files whose columns have no types of their own, and texts to such types."""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from transforms.files.moments import DAY, TIME, moments, of_form, tolerant

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
_DIGITS = 19  # that may be beyond 64 bits
_FORMS = {
    pa.int64(): _INTEGER, pa.float64(): _FLOAT, pa.bool_(): _TRUTH, pa.date32(): f"^{DAY}$"
}  # fmt: skip


@dataclass(frozen=True)
class Reading:
    """How text is read.

    Attributes:
        types: (column, a name of `TYPES`) of those that hold no strings.
        delimiter: between the fields of a CSV file; empty for what its name says.
        header: the names of a CSV file's columns, where its first line is a row already.
        encoding: of the text, as Python names it; empty for UTF-8.
    """

    types: tuple[tuple[str, str], ...] = ()
    delimiter: str = ""
    header: tuple[str, ...] = ()
    encoding: str = ""
    _kinds: dict[str, pa.DataType] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        kinds = {column: TYPES[name] for column, name in self.types}
        object.__setattr__(self, "_kinds", kinds)

    def kind(self, column: str) -> pa.DataType:
        """What a column of text holds."""
        return self._kinds.get(column, pa.string())

    def without(self, columns: Container[str]) -> "Reading":
        """The same but for what is said of some columns."""
        if not self.types:  # a new one for each of thousands of small files took a tenth of a look
            return self
        return replace(self, types=tuple(said for said in self.types if said[0] not in columns))

    def schema(self, columns: Iterable[str]) -> pa.Schema:
        """The columns of a file of text."""
        return pa.schema([(name, self.kind(name)) for name in columns])


PLAIN = Reading()


def _are_digits(texts: pa.Array) -> bool:
    """Whether all texts are of some digits alone: to see that takes a tenth of trying a pattern."""
    sizes = pc.min_max(pc.binary_length(texts))
    if not 0 < (sizes["min"].as_py() or 0) <= sizes["max"].as_py() < _DIGITS:
        return False
    offsets = np.frombuffer(texts.buffers()[1], np.int32)
    content = np.frombuffer(texts.buffers()[2], np.uint8)
    content = content[offsets[texts.offset] : offsets[texts.offset + len(texts)]]
    return bool((content - np.uint8(ord("0")) < 10).all())


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
    if pa.types.is_integer(kind) and _are_digits(texts):
        return texts.cast(kind)
    trimmed = pc.utf8_trim_whitespace(texts)
    if pa.types.is_timestamp(kind):
        return moments(trimmed)
    formed = of_form(trimmed, _FORMS[kind])
    if pa.types.is_integer(kind):
        formed = pc.utf8_ltrim(formed, "+")  # the one sign that Arrow does not take
    return tolerant(lambda part: part.cast(kind), formed, kind)
