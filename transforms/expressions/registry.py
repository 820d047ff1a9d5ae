"""The functions of expressions by name, and what each is given."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from transforms.expressions.tree import Call, Column, Expression, ExpressionError
from transforms.expressions.values import NAMES, NUMBER, UNSAID, WHOLE, Bound, Values, as_number


@dataclass(frozen=True)
class Given:
    """What a function is given.

    Attributes:
        call: where it stands.
        bound: its arguments.
    """

    call: Call
    bound: Sequence[Bound]

    def refuse(self, why: str, place: int | None = None) -> ExpressionError:
        """Of an argument, or of all."""
        at = self.call if place is None else self.call.arguments[place]
        return ExpressionError(f"{self.call.name}: {why}", at.position)

    def many(self, least: int, most: int) -> None:
        """Refuse another number of arguments."""
        if not least <= len(self.bound) <= most:
            number = f"{least}" if least == most else f"{least} to {most}"
            raise self.refuse(f"takes {number} values, and is given {len(self.bound)}")

    def values(self, place: int, *kinds: pa.DataType) -> Callable[[pa.RecordBatch], Values]:
        """An argument of one of some types; of a number as doubles, if these are asked for."""
        bound = self.bound[place]
        if bound.kind in kinds:
            return bound.values
        if NUMBER in kinds and bound.kind in WHOLE:
            return as_number(bound)
        wanted = " or ".join(dict.fromkeys(NAMES[kind] for kind in kinds))
        raise self.refuse(f"{wanted} is needed, and {self._said(place)}", place)

    def written(self, place: int, *kinds: type) -> Any:
        """An argument that must be written out."""
        value = self.bound[place].written  # a truth is no number
        if type(value) not in kinds:
            wanted = "a text" if str in kinds else "a number"
            raise self.refuse(f"{wanted} that is written out is needed", place)
        return value

    def has(self, place: int) -> bool:
        """Whether an argument that may be left out is there."""
        return place < len(self.bound) and self.bound[place].kind != UNSAID

    def _said(self, place: int) -> str:
        return said(self.call.arguments[place], self.bound[place].kind)


def said(tree: Expression, kind: pa.DataType) -> str:
    """What an argument is, by the name of its column if it is one."""
    subject = f"column {tree.name!r} holds" if isinstance(tree, Column) else "this is"
    return f"{subject} {NAMES[kind]}"


@dataclass(frozen=True)
class Function:
    """One function.

    Attributes:
        usage: how it is written.
        text: what it is, for the table of docs/files.md.
        bind: holds it against what it is given.
    """

    usage: str
    text: str
    bind: Callable[[Given], Bound]

    def ordered(self, call: Call, bound: Sequence[Bound]) -> Given:
        """What it is given, named arguments at the places that the usage has them at.

        Raises:
            ExpressionError: there is no argument of a name, or it is there without one too.
        """
        known = [word.strip("' ") for word in self._brackets.split(",")]
        first = len(bound) - len(call.names)
        places = {place: place for place in range(first)}
        for which, name in enumerate(call.names, first):
            if name not in known[first:]:
                why = f"{call.name}: there is no argument {name!r} left to name"
                raise ExpressionError(why, call.arguments[which].position)
            places[known.index(name)] = which
        unsaid = Bound(UNSAID, lambda _: None)
        width = max(places, default=-1) + 1
        trees = tuple(call.arguments[places[k]] if k in places else call for k in range(width))
        at = [bound[places[k]] if k in places else unsaid for k in range(width)]
        return Given(Call(call.name, trees, call.position), at)

    @property
    def _brackets(self) -> str:
        match = re.search(r"\((.*)\)", self.usage)
        return match[1] if match else ""


FUNCTIONS: dict[str, Function] = {}


def function(
    usage: str, text: str, *names: str
) -> Callable[[Callable[[Given], Bound]], Callable[[Given], Bound]]:
    """Register a function under what stands before its bracket, or under other names."""

    def register(bind: Callable[[Given], Bound]) -> Callable[[Given], Bound]:
        for name in names or (usage.partition("(")[0],):
            FUNCTIONS[name] = Function(usage, text, bind)
        return bind

    return register
