"""What a sampler draws, exactly: every answer that a source of randomness can give, in turn.

A statistical test with power for 30 % lets a sampler through that is 1 % off. Here nothing is
drawn: the sampler runs once for each course that its coins can take, and the law of what it
returns is a sum of rationals. A sampler that uses a wide word twice, its remainder and its
quotient, say, changes too often for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from mechanisms.sampling.integer_tables import IntegerTable

_WORD = 1 << 64
_LISTED = 1 << 12  # answers that are tried one by one; of more, those between two changes are alike

Course = tuple[int, ...]
Draw = Callable[[Any], Hashable]

BEYOND = "beyond"  # the outcome of a course that asks for more answers at once than are followed


class _Question(Exception):
    """A sampler has come to the end of the answers that were prepared."""

    def __init__(self, weights: Sequence[int] | None, bound: int) -> None:
        super().__init__("a question without an answer")
        self.weights, self.bound = weights, bound


class _Beyond(Exception):
    """A sampler asks for more than is followed."""


class Answers:
    """A source that answers by a list, and beyond it with the least or the largest answer.

    Args:
        course: the answers.
        rest: 0 or -1, the first or the last answer to whatever comes after; None stops there.
        most: answers that may be wanted at once.
    """

    def __init__(self, course: Course, rest: int | None, most: int) -> None:
        self._course, self._rest, self._most = list(course), rest, most

    def words(self, size: int) -> np.ndarray:
        return np.array(self._several(size, None, _WORD), np.uint64)

    def integers(self, bound: int, size: int) -> np.ndarray:
        weights = [1] * bound if bound <= _LISTED else None
        return np.array(self._several(size, weights, bound), np.uint64)

    def bernoulli(self, threshold: int, size: int) -> np.ndarray:
        weights = [_WORD - threshold, threshold]
        return np.array(self._several(size, weights, _WORD), np.bool_)

    def table(self, table: IntegerTable, size: int) -> np.ndarray:
        """Integers of a table's law; whatever is above `most` is beyond."""
        listed = table.weights[: max(self._most - table.first + 1, 0)]
        rest = sum(table.weights[len(listed) :])
        places = self._several(size, [*listed, rest], sum(table.weights))
        if len(listed) in places:
            raise _Beyond
        return np.array(places, np.int64) + table.first

    def _several(self, size: int, weights: Sequence[int] | None, bound: int) -> list[int]:
        if size > self._most:
            raise _Beyond
        return [self._one(weights, bound) for _ in range(size)]

    def _one(self, weights: Sequence[int] | None, bound: int) -> int:
        if self._course:
            return self._course.pop(0)
        if self._rest is None:
            raise _Question(weights, bound)
        return self._rest % (bound if weights is None else len(weights))


def exact_law(draw: Draw, most: int = 64, grid: int = 1) -> dict[Hashable, Fraction]:
    """The law of what a sampler returns.

    Args:
        draw: calls the sampler with the source that it is given.
        most: answers at once that are followed; courses that need more come to `BEYOND`.
        grid: parts into which a wide range of answers is cut before changes are looked for: 1 where
            what is returned changes monotonically with the answer, else more than it has changes.

    Returns:
        outcome -> its probability; they add up to 1.
    """
    law: Counter[Hashable] = Counter()

    def follow(course: Course, chance: Fraction) -> None:
        try:
            outcome = _outcome(draw, course, None, most)
        except _Question as question:
            for answer, share in _alternatives(draw, course, question, most, grid):
                follow((*course, answer), chance * share)
        else:
            law[outcome] += chance

    follow((), Fraction(1))
    return dict(law)


def _outcome(draw: Draw, course: Course, rest: int | None, most: int) -> Hashable:
    try:
        return draw(Answers(course, rest, most))
    except _Beyond:
        return BEYOND


def _alternatives(
    draw: Draw, course: Course, question: _Question, most: int, grid: int
) -> Iterator[tuple[int, Fraction]]:
    """Answers that lead to different ends, and how likely each is."""
    if question.weights is not None:
        for answer, weight in enumerate(question.weights):
            if weight:
                yield answer, Fraction(weight, question.bound)
        return

    @cache
    def ends(answer: int) -> tuple[Hashable, ...]:
        return tuple(_outcome(draw, (*course, answer), rest, most) for rest in (0, -1))

    starts = changes(ends, question.bound, grid)
    for start, end in zip(starts, [*starts[1:], question.bound], strict=True):
        yield start, Fraction(end - start, question.bound)


def changes(value: Callable[[int], Hashable], bound: int, grid: int = 1) -> list[int]:
    """Where a function of 0 .. bound - 1 begins to have another value, by bisection.

    Args:
        value: monotone in each of the parts, or at least different at the ends of where it changes.
        bound: how many numbers there are.
        grid: how many equal parts they are cut into.

    Returns:
        Ascending, from 0 on.
    """
    starts = [0]
    marks = [bound * part // grid for part in range(grid)]
    waiting = list(zip(marks, [*marks[1:], bound - 1], strict=True))[::-1]
    while waiting:
        low, high = waiting.pop()
        if value(low) == value(high):
            continue
        if high - low == 1:
            starts.append(high)
            continue
        middle = (low + high) // 2
        waiting += [(middle, high), (low, middle)]
    return starts
