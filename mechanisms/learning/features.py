"""From a user's attributes to the row that a model sees, by what was declared in public.

Numbers are scaled to [-1, 1] by declared bounds. A category of k values becomes k - 1 numbers, 1
at the user's value and 0 elsewhere, and nowhere for the first value: the constant 1 at the end of
every row, whose weight is the intercept, speaks for it.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Floats
from mechanisms.learning.scores import Numbers


@dataclass(frozen=True)
class Features:
    """What the columns of a model's rows mean.

    Attributes:
        numbers: the name and the lower and upper bound of each number, as a user holds it.
        categories: the name and the values of each category.

    Raises:
        ValueError: bounds are no interval, values are missing or occur twice, or there is no
            attribute.

    Source: one column less than values: Wang et al., ICDE 2019, section 6.3, and the papers on
        regression under local privacy that follow it.

    >>> features = Features((("age", 0.0, 100.0),), (("city", ("Bern", "Pavia", "Lund")),))
    >>> features.rows(np.array([[-0.5], [1.0]]), np.array([[0], [2]])).tolist()
    [[-0.5, 0.0, 0.0, 1.0], [1.0, 0.0, 1.0, 1.0]]
    >>> features.names
    ('age', 'city=Pavia', 'city=Lund', '1')
    """

    numbers: tuple[tuple[str, float, float], ...]
    categories: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __post_init__(self) -> None:
        for name, low, high in self.numbers:
            if not -math.inf < low < high < math.inf:
                raise ValueError(f"bounds of {name!r} must be finite and ascend: {low}, {high}")
        for name, values in self.categories:
            if not 1 <= len(set(values)) == len(values):
                raise ValueError(f"values of {name!r} must be given, each once")
        if not self.numbers and not self.categories:
            raise ValueError("a model needs an attribute to look at")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """(inputs,) what each number of a row is; the last is the constant 1."""
        numbers = (name for name, _, _ in self.numbers)
        values = (f"{name}={value}" for name, values in self.categories for value in values[1:])
        return (*numbers, *values, "1")

    @property
    def inputs(self) -> int:
        """How many numbers a row has, the constant included."""
        return len(self.numbers) + sum(len(values) - 1 for _, values in self.categories) + 1

    @property
    def longest(self) -> float:
        """The most that the squares of a row's numbers add up to."""
        return len(self.numbers) + len(self.categories) + 1.0

    def rows(self, numbers: Numbers, categories: ArrayLike) -> Numbers:
        """What the model sees of some users.

        Args:
            numbers: (n, numbers) scaled to [-1, 1].
            categories: (n, categories) integers, the places of the users' values.

        Returns:
            (n, inputs), in the precision of `numbers`.

        Raises:
            ValueError: another number of columns, or a place where there is no value. The message
                never holds it.
        """
        places = np.asarray(categories).reshape(len(numbers), -1)
        given = (numbers.shape[1], places.shape[1])
        if given != (len(self.numbers), len(self.categories)):
            raise ValueError(
                f"rows must have {len(self.numbers)} numbers and {len(self.categories)} "
                f"categories, not {given[0]} and {given[1]}"
            )
        rows = np.zeros((len(numbers), self.inputs), numbers.dtype)
        rows[:, : len(self.numbers)] = numbers
        rows[:, -1] = 1
        begin = len(self.numbers)
        for (name, values), place in zip(self.categories, places.T, strict=True):
            outside = np.count_nonzero((place < 0) | (place >= len(values)))
            if outside:
                raise ValueError(f"{outside} of {len(rows)} rows hold no value of {name!r}")
            # The first value has no column: with one, the columns of a category would add up to the
            # constant 1, and the weights would not be determined.
            known = np.flatnonzero(place)
            rows[known, begin + place[known] - 1] = 1
            begin += len(values) - 1
        return rows

    def unscaled(
        self, weights: ArrayLike, target: tuple[float, float] | None = None
    ) -> tuple[Floats, Floats]:
        """A layer's weights for numbers as users hold them, rather than scaled to [-1, 1].

        Args:
            weights: (inputs,) or (inputs, outputs), for scaled numbers.
            target: the bounds of the target, if it was scaled to [-1, 1] too.

        Returns:
            ((inputs - 1, outputs) weights, (outputs,) intercepts): the values of categories count
            0 or 1 as before.

        >>> weights, intercept = Features((("age", 0.0, 100.0),)).unscaled([0.5, 0.25])
        >>> weights.tolist(), intercept.tolist()
        ([[0.01]], [-0.25])
        """
        table = np.array(weights, np.float64).reshape(self.inputs, -1)
        lower, upper = (np.array([row[i] for row in self.numbers]) for i in (1, 2))
        scaled = table[: len(self.numbers)]
        intercept = table[-1] - ((upper + lower) / (upper - lower)) @ scaled
        scaled *= (2 / (upper - lower))[:, None]
        if target is None:
            return table[:-1], intercept
        half, middle = (target[1] - target[0]) / 2, (target[1] + target[0]) / 2
        return table[:-1] * half, intercept * half + middle

    def as_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return {
            "numbers": [
                {"name": name, "low": low, "high": high} for name, low, high in self.numbers
            ],
            "categories": [{"name": name, "values": list(v)} for name, v in self.categories],
        }
