"""An expression as words: names, numbers, texts and signs, each with where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from transforms.expressions.errors import ExpressionError

LONGEST = 4096  # signs

NAME, COLUMN, NUMBER, TEXT, SIGN, END = "name", "column", "number", "text", "sign", "end"

_WORD = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?!\w))"
    r"|(?P<name>[^\W\d]\w*)"
    r"|(?P<text>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")"
    r"|(?P<column>`[^`]+`)"
    r"|(?P<sign><=|>=|==|!=|<>|[-+*/<>=(),])"
    r"|(?P<end>$))"
)


class Word(NamedTuple):
    """One word.

    Attributes:
        kind: one of the names above.
        text: as it is written, quotes taken off.
        position: of its first sign, from 1 on.
    """

    kind: str
    text: str
    position: int


def words(text: str) -> Iterator[Word]:
    """The words of an expression, the last of which is its end.

    Raises:
        ExpressionError: something in it is no word.

    >>> [word.text for word in words("lower(`home city`) == 'Oslo'")]
    ['lower', '(', 'home city', ')', '==', 'Oslo', '']
    """
    if len(text) > LONGEST:
        raise ExpressionError(f"an expression is longer than {LONGEST:,} signs", LONGEST)
    place = 0
    while match := _WORD.match(text, place):
        kind = match.lastgroup or END
        written, position = match[kind], match.start(kind) + 1
        if kind in (TEXT, COLUMN):
            quote, written = written[0], written[1:-1]
            written = written.replace(quote * 2, quote) if kind == TEXT else written
        yield Word(kind, written, position)
        if kind == END:
            return
        place = match.end()
    begun = re.compile(r"\s*").match(text, place)
    position = (begun.end() if begun else place) + 1
    if text[position - 1] in "'\"`":
        raise ExpressionError("a quote is opened and not closed", position)
    raise ExpressionError("there is a sign that no expression has", position)
