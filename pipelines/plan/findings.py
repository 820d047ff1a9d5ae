"""What a column of a log seems to be written in, and the line of a plan that reads it.

A finding has shares and kinds, and no value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import yaml

from pipelines.plan.sample import texts_of
from transforms.columns import decoded, is_numeric
from transforms.files.reading import TYPES, parsed

_SOME = 0.05  # of the values: fewer are the odd ones of every log
_RESERVED = frozenset({"and", "or", "not", "in", "is", "null", "true", "false"})  # of expressions
_MOST = 0.9  # of the values: from so many on the whole column is of a kind


class Notation(NamedTuple):
    """A way to write what no type takes as it is.

    Attributes:
        what: it is, in words.
        pattern: of the whole text, blanks aside.
        line: of a plan that reads it; {} stands for the column.
    """

    what: str
    pattern: str
    line: str


_NUMBER = 'number({}, decimal=",")'
_FORMS = (
    Notation(
        "numbers with a decimal comma", r"[+-]?([0-9]{1,3}([. '][0-9]{3})+|[0-9]*),[0-9]+", _NUMBER
    ),
    Notation("dates as in 11/20/2026", r"[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}",
         'parse_time({}, "%m/%d/%Y")'),
    Notation("dates as in 20.11.2026", r"[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}",
         'parse_time({}, "%d.%m.%Y")'),
    Notation("times as in 11/20/2026 08:00", r"[0-9]{1,2}/[0-9]{1,2}/[0-9]{4} [0-9]{1,2}:[0-9]{2}",
         'parse_time({}, "%m/%d/%Y %H:%M")'),
    Notation("times as in 11/20/2026 08:00:00",
         r"[0-9]{1,2}/[0-9]{1,2}/[0-9]{4} [0-9]{1,2}:[0-9]{2}:[0-9]{2}",
         'parse_time({}, "%m/%d/%Y %H:%M:%S")'),
)  # fmt: skip
_EUROPEAN = r"^\s*(1[3-9]|2[0-9]|3[01])/"  # of which no month is the first number

# Seconds of the years 2001 to 2286 have ten digits, and what is counted finer three more each.
_EPOCHS = (
    (1e9, 1e10, "s", "seconds"), (1e12, 1e13, "ms", "milliseconds"),
    (1e15, 1e16, "us", "microseconds"), (1e18, 1e19, "ns", "nanoseconds"),
)  # fmt: skip


class Finding(NamedTuple):
    """That a column is written in a way of its own.

    Attributes:
        column: as a plan has it.
        share: of its values.
        what: they are.
        derived: a name for what is read of it.
        expression: that reads it.
    """

    column: str
    share: float
    what: str
    derived: str
    expression: str

    def __str__(self) -> str:
        return f"{self.words}; a plan reads it by derive: {{{self.line}}}"

    @property
    def words(self) -> str:
        """What the column seems to be."""
        return f"{percent(self.share)} of {spelt(self.column)} {self.what}"

    @property
    def line(self) -> str:
        """What stands under `derive` in a plan that reads it."""
        return f"{spelt(self.derived)}: {spelt(self.expression, chr(39))}"

    @property
    def kind(self) -> pa.DataType:
        """Of what is read."""
        return pa.float64() if self.expression.startswith("number") else pa.timestamp("us")


def findings(column: pa.ChunkedArray, name: str) -> Iterator[Finding]:
    """What to say of a column.

    Args:
        column: of a sample.
        name: as a plan has it.
    """
    plain = name.isascii() and name.isidentifier() and name.lower() not in _RESERVED
    said = name if plain else f"`{name}`"
    base = re.sub(r"\W+", "_", name).strip("_")[:40] or "column"
    texts = texts_of(column)
    if texts is not None and len(texts):
        for form in _FORMS:
            share = _matching(texts, rf"^\s*{form.pattern}\s*$")
            if share >= _SOME:
                line = form.line
                if "%m/%d" in line and _matching(texts, _EUROPEAN):
                    line = line.replace("%m/%d", "%d/%m")
                kind = "number" if line is _NUMBER else "time"
                yield Finding(name, share, f"are {form.what}", f"{base}_{kind}", line.format(said))
    numbers = numbers_of(column)
    for low, high, unit, what in _EPOCHS:
        share = float(np.mean((numbers >= low) & (numbers < high))) if numbers.size else 0.0
        if share >= _MOST and (unit != "s" or _is_time(name)):
            line = f'epoch({said}, "{unit}")'
            yield Finding(name, share, f"look like {what} since 1970", f"{base}_time", line)


def numbers_of(column: pa.ChunkedArray) -> np.ndarray:
    """(k,) the numbers of a column, those that are written as text among them."""
    texts = texts_of(column)
    if texts is None:
        values = decoded(column.combine_chunks())
        if not is_numeric(values.type):
            return np.empty(0)
        parsed_numbers = pc.drop_null(values.cast(pa.float64(), safe=False))
    else:
        parsed_numbers = pc.drop_null(parsed(texts, TYPES["float"]))
    numbers = parsed_numbers.to_numpy(zero_copy_only=False)
    return numbers[np.isfinite(numbers)]


def percent(share: float) -> str:
    """A share for people.

    >>> percent(1.0), percent(0.9999), percent(0.0), percent(0.0001), percent(0.256)
    ('100 %', '> 99.9 %', '0 %', '< 0.1 %', '25.6 %')
    """
    if 0 < share < 0.001:
        return "< 0.1 %"
    if 0.999 < share < 1:
        return "> 99.9 %"
    return f"{100 * share:.3g} %"


def spelt(text: str, quote: str = '"') -> str:
    """A text in quotes, on one line, as every reader of YAML has it: `no`, 1 and null are texts.

    >>> spelt("no"), spelt('a "b"')
    ('"no"', '"a \\\\"b\\\\""')
    """
    written = yaml.dump(text, default_style=quote, allow_unicode=True, width=float("inf"))
    return " ".join(written.split("\n")).strip()


def _matching(texts: pa.Array, pattern: str) -> float:
    return pc.sum(pc.match_substring_regex(texts, pattern)).as_py() / len(texts)


def _is_time(name: str) -> bool:
    """Whether a column's name says that it holds times: ten digits may be many other things."""
    words = name.lower().replace("-", "_").split("_")
    return any(word in {"time", "ts", "timestamp", "at", "date", "epoch", "when"} for word in words)
