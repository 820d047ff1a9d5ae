"""What is made of texts.

Regular expressions as Arrow's `extract_regex` takes them, whose groups must have names.
"""

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from transforms.expressions.registry import Given, function
from transforms.expressions.values import INTEGER, NUMBER, TEXT, Bound, Values, of_all
from transforms.files.moments import of_form
from transforms.files.reading import parsed

_NAME = "found"
_LONGEST = 1 << 31  # signs: no text has so many


def first_group(pattern: str) -> tuple[str, str]:
    """A pattern whose one group has a name, and that name; without a group all of it is one.

    Raises:
        ValueError: there are several groups, or a group without an end.

    >>> first_group("v([0-9]+)"), first_group("[(]+")
    (('v(?P<found>[0-9]+)', 'found'), ('(?P<found>[(]+)', 'found'))
    """
    groups = list(_groups(pattern))
    if not groups:
        return f"(?P<{_NAME}>{pattern})", _NAME
    if len(groups) > 1:
        raise ValueError("one group at the most")
    place, name = groups[0]
    if name:
        return pattern, name
    return f"{pattern[: place + 1]}?P<{_NAME}>{pattern[place + 1 :]}", _NAME


def _groups(pattern: str) -> Iterator[tuple[int, str]]:
    """(where, name) of each bracket that captures."""
    place, inside = 0, False
    while place < len(pattern):
        sign = pattern[place]
        if sign == "\\":
            place += 2
            continue
        if inside:
            inside = sign != "]"
        elif sign == "[":
            inside = True
            # A ] that comes first stands for itself.
            place += 1 + (pattern[place + 1 : place + 2] == "^")
            place -= pattern[place : place + 1] != "]"
        elif sign == "(" and pattern[place + 1 : place + 2] != "?":
            yield place, ""
        elif sign == "(" and pattern[place + 2 : place + 4][:1] in ("P", "<"):
            start = pattern.index("<", place) + 1
            yield place, pattern[start : pattern.index(">", start)]
        place += 1


def _text_function(usage: str, text: str, step: Callable[[Values], Values]) -> None:
    @function(usage, text)
    def bind(given: Given) -> Bound:
        given.many(1, 1)
        values = given.values(0, TEXT)
        return Bound(TEXT, lambda batch: step(values(batch)))


_text_function("lower(s)", "in small letters", pc.utf8_lower)
_text_function("upper(s)", "in capitals", pc.utf8_upper)
_text_function("trim(s)", "without the blanks around it", pc.utf8_trim_whitespace)


@function("length(s)", "how many signs a text has")
def _length(given: Given) -> Bound:
    given.many(1, 1)
    values = given.values(0, TEXT)
    return Bound(INTEGER, lambda batch: pc.cast(pc.utf8_length(values(batch)), INTEGER))


@function("substring(s, first, n)", "n signs from the first on, counted from 1; without n the rest")
def _substring(given: Given) -> Bound:
    given.many(2, 3)
    values, start = given.values(0, TEXT), given.written(1, int) - 1
    length = given.written(2, int) if given.has(2) else None
    if not start >= 0:
        raise given.refuse("signs are counted from 1", 1)
    if length is not None and not length >= 0:
        raise given.refuse("how many signs: 0 or more", 2)
    start = min(start, _LONGEST)
    stop = None if length is None else min(start + length, _LONGEST)
    return Bound(TEXT, lambda batch: pc.utf8_slice_codeunits(values(batch), start, stop))


@function("extract(s, 'regex')", "what a regular expression finds, or its one group; null for none")
def _extract(given: Given) -> Bound:
    given.many(2, 2)
    values = given.values(0, TEXT)
    try:
        pattern, name = first_group(given.written(1, str))
        pc.extract_regex(pa.array([""]), pattern)
    except (pa.ArrowException, ValueError):
        raise given.refuse(
            "a regular expression of RE2 with at most one group is needed", 1
        ) from None

    def extract(batch: pa.RecordBatch) -> Values:
        return pc.struct_field(pc.extract_regex(values(batch), pattern), name)

    return Bound(TEXT, extract)


_MARKS = ".,'_ \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{RIGHT SINGLE QUOTATION MARK}"


@function(
    "number(s, decimal, thousands)",
    "a text as a number: `number(s, decimal=',')` reads 1,5, and `number(s, ',', '.')` also "
    "1.234,5; without them the point stands before decimals; null for anything else",
)
def _number(given: Given) -> Bound:
    given.many(1, 3)
    values = given.values(0, TEXT)
    point = given.written(1, str) if given.has(1) else "."
    marks = given.written(2, str) if given.has(2) else ""
    if not (point and point in ".,"):
        raise given.refuse("decimals stand behind a point or a comma", 1)
    if marks and (len(marks) > 1 or marks not in _MARKS or marks == point):
        raise given.refuse("between thousands stands one sign, another than before decimals", 2)
    whole = rf"(?:[0-9]{{1,3}}(?:[{marks}][0-9]{{3}})+|[0-9]+)" if marks else "[0-9]+"
    form = rf"^[+-]?(?:{whole}(?:[{point}][0-9]*)?|[{point}][0-9]+)(?:[eE][+-]?[0-9]+)?$"

    def read(batch: pa.RecordBatch) -> Values:
        texts = of_form(pc.utf8_trim_whitespace(values(batch)), form)
        for mark, other in ((marks, ""), (point, ".")):
            texts = pc.replace_substring(texts, mark, other) if mark else texts
        return of_all(lambda part: parsed(part, NUMBER), texts)

    return Bound(NUMBER, read)
