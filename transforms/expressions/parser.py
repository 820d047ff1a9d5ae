"""From words to a tree, by recursive descent.

    either     both ("or" both)*
    both       negated ("and" negated)*
    negated    "not" negated | compared
    compared   sum [("==" | "!=" | "<" | "<=" | ">" | ">=") sum
                   | ["not"] "in" "(" either ("," either)* ")" | "is" ["not"] "null"]
    sum        product (("+" | "-") product)*
    product    signed (("*" | "/") signed)*
    signed     "-" signed | atom
    atom       number | text | "true" | "false" | "null" | column
               | name "(" [either, ...] [name "=" either, ...] ")" | "(" either ")"

No function takes a truth, so a name and one = within its brackets name an argument. A column whose
name is no word, or a word of the language, stands in backquotes.

An expression as words: names, numbers, texts and signs, each with where it stands.
"""

import math
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, NoReturn

from transforms.expressions.tree import Call, Column, Expression, ExpressionError, Literal

LONGEST = 1 << 16  # signs: a table of 1,000 keys is written out within one

NAME, COLUMN, NUMBER, TEXT, SIGN, END = "name", "column", "number", "text", "sign", "end"

_WORD = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?!\w))"
    r"|(?P<name>[^\W\d]\w*)"
    r"|(?P<text>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")"
    r"|(?P<column>`[^`]+`)"
    r"|(?P<sign><=|>=|==|!=|<>|[-+*/<>=(),])"
    r"|(?P<end>$))"
)
_DEEPEST = 64  # brackets within brackets
_LONGEST = 256  # of operators of operators: what walks over a tree calls itself so often
_LITERALS = {"true": True, "false": False, "null": None}
_RESERVED = {"and", "or", "not", "in", "is", *_LITERALS}
_COMPARISONS = {"==", "=", "!=", "<>", "<", "<=", ">", ">="}
_SAME = {"=": "==", "<>": "!="}


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


def parse(text: str) -> Expression:
    """An expression as a tree.

    Raises:
        ExpressionError: it is none.

    >>> parse("seconds > 0").name
    '>'
    """
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._words = list(words(text))
        self._place = self._depth = 0

    def whole(self) -> Expression:
        tree = self._either()
        if self._next.kind != END:
            self._refuse("an operator, or the end, was expected")
        return _shallow(tree)

    @property
    def _next(self) -> Word:
        return self._words[self._place]

    def _take(self) -> Word:
        word = self._next
        self._place += word.kind != END
        return word

    def _is(self, *texts: str, kind: str = SIGN) -> bool:
        return self._next.kind == kind and self._next.text in texts

    def _said(self, text: str) -> bool:
        """Take a word of the language, if it is next."""
        matches = self._is(text, kind=NAME)
        self._place += matches
        return matches

    def _expect(self, sign: str) -> None:
        if not self._is(sign):
            self._refuse(f"{sign} was expected")
        self._take()

    def _refuse(self, why: str) -> NoReturn:
        raise ExpressionError(why, self._next.position)

    def _chain(self, part: Callable[[], Expression], kind: str, *signs: str) -> Expression:
        """Parts with signs between them, the left ones first."""
        tree = part()
        while self._is(*signs, kind=kind):
            sign = self._take()
            tree = Call(sign.text, (tree, part()), sign.position)
        return tree

    def _either(self) -> Expression:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._refuse("there are too many brackets within each other")
        tree = self._chain(self._both, NAME, "or")
        self._depth -= 1
        return tree

    def _both(self) -> Expression:
        return self._chain(self._negated, NAME, "and")

    def _negated(self) -> Expression:
        signs = []
        while self._is("not", kind=NAME):
            signs.append(self._take().position)
        tree = self._compared()
        for position in reversed(signs):
            tree = Call("not", (tree,), position)
        return tree

    def _compared(self) -> Expression:
        tree, sign = self._sum(), self._next
        if self._is(*_COMPARISONS):
            self._take()
            tree = Call(_SAME.get(sign.text, sign.text), (tree, self._sum()), sign.position)
            if self._is(*_COMPARISONS):
                self._refuse("one comparison follows another: put `and` between two")
        elif self._said("is"):
            negated = self._said("not")
            if not self._said("null"):
                self._refuse("null was expected")
            tree = _unless(negated, Call("is null", (tree,), sign.position))
        else:
            negated = self._said("not")
            if self._said("in"):
                tree = _unless(negated, Call("in", (tree, *self._arguments()), sign.position))
            elif negated:
                self._refuse("in was expected")
        return tree

    def _sum(self) -> Expression:
        return self._chain(self._product, SIGN, "+", "-")

    def _product(self) -> Expression:
        return self._chain(self._signed, SIGN, "*", "/")

    def _signed(self) -> Expression:
        signs = []
        while self._is("-"):
            signs.append(self._take().position)
        tree = self._atom()
        for position in reversed(signs):
            number = isinstance(tree, Literal) and type(tree.value) in (int, float)
            if isinstance(tree, Literal) and number:
                tree = Literal(-tree.value, position)  # type: ignore[operator]
            else:
                tree = Call("0 -", (tree,), position)
        return tree

    def _atom(self) -> Expression:
        word = self._next
        if word.kind == NUMBER:
            return Literal(_number(self._take()), word.position)
        if word.kind == TEXT:
            return Literal(self._take().text, word.position)
        if word.kind == COLUMN:
            return Column(self._take().text, word.position)
        if word.kind == NAME and word.text in _LITERALS:
            return Literal(_LITERALS[self._take().text], word.position)
        if word.kind == NAME and word.text not in _RESERVED:
            self._take()
            if self._is("("):
                return self._call(word)
            return Column(word.text, word.position)
        if self._is("("):
            self._take()
            tree = self._either()
            self._expect(")")
            return tree
        self._refuse("a column, a value or a bracket was expected")

    def _call(self, word: Word) -> Call:
        """A function of what stands between brackets, the named ones last."""
        self._expect("(")
        arguments: list[Expression] = []
        names: list[str] = []
        while not self._is(")"):
            if arguments:
                self._expect(",")
            if self._next.kind == NAME and self._words[self._place + 1].text == "=":
                if self._next.text in names:
                    self._refuse("an argument is named twice")
                names.append(self._take().text)
                self._take()
            elif names:
                self._refuse("what is named comes last")
            arguments.append(self._either())
        self._take()
        return Call(word.text, tuple(arguments), word.position, tuple(names))

    def _arguments(self) -> tuple[Expression, ...]:
        self._expect("(")
        arguments: list[Expression] = []
        while not self._is(")"):
            if arguments:
                self._expect(",")
            arguments.append(self._either())
        self._take()
        return tuple(arguments)


def _unless(negated: bool, tree: Call) -> Call:
    return Call("not", (tree,), tree.position) if negated else tree


def _shallow(tree: Expression) -> Expression:
    """The tree, unless it is too deep to walk over."""
    level: list[Expression] = [tree]
    for _ in range(_LONGEST):
        level = [part for one in level if isinstance(one, Call) for part in one.arguments]
        if not level:
            return tree
    raise ExpressionError("too many operators follow each other: `in` takes a list", tree.position)


def _number(word: Word) -> int | float:
    """A whole number stays one, if 64 bits hold it."""
    if word.text.isascii() and word.text.isdigit():
        whole = int(word.text) if len(word.text) <= 20 else 1 << 64
        if not whole < 1 << 64:
            raise ExpressionError("a whole number is beyond 64 bits", word.position)
        return whole
    number = float(word.text)
    if not math.isfinite(number):
        raise ExpressionError("a number is beyond all doubles", word.position)
    return number
