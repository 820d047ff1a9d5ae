"""The projective space over GF(q): its points, their hyperplanes, and counting on all of these.

A point is a nonzero vector up to scale. Values and codes are both points, numbered apart so that
arithmetic on them is cheap. Value c < q^(t-1) is the vector (c, 1) with the digits of c; the other
values are the vectors (v, 0), v numbered in the same way. Code a q + y is the vector (form a, -y),
which lies on the hyperplane of (c, 1) if <a, c> = y; the last code is (0, 1). So for values (c, 1)
a code is a test by a linear form, and for the others it is a code one digit lower.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mechanisms.algebra.finite_field import FiniteField
from mechanisms.algebra.linear_forms import LinearForms, projective_points
from mechanisms.channel import Counts


@dataclass(frozen=True)
class ProjectiveSpace:
    """Points with t homogeneous coordinates.

    Attributes:
        field: GF(q).
        digits: t, at least 1.

    >>> plane = ProjectiveSpace(FiniteField(2), 3)  # Fano's: 7 points, 3 on each line
    >>> plane.points, plane.on_hyperplane, plane.on_both
    (7, 3, 1)
    >>> plane.support(np.array([1, 0, 0, 0, 0, 0, 5]), 7).tolist()
    [1, 0, 1, 0, 6, 5, 5]
    """

    field: FiniteField
    digits: int

    @classmethod
    def holding(cls, values: int, order: int) -> "ProjectiveSpace":
        """The least space over a field of this order that has so many points, a line at least."""
        digits = 2
        while projective_points(order, digits) < values:
            digits += 1
        return cls(FiniteField(order), digits)

    @property
    def points(self) -> int:
        """How many points there are, and as many hyperplanes."""
        return projective_points(self.field.order, self.digits)

    @property
    def on_hyperplane(self) -> int:
        """How many points lie on one hyperplane."""
        return projective_points(self.field.order, self.digits - 1)

    @property
    def on_both(self) -> int:
        """How many lie on each of two hyperplanes, whichever they are."""
        return projective_points(self.field.order, max(self.digits - 2, 0))

    @cached_property
    def forms(self) -> LinearForms:
        """The forms that test the values (c, 1)."""
        return LinearForms(self.field, self.digits - 1)

    @cached_property
    def lower(self) -> "ProjectiveSpace":
        """The space of the other values, (v, 0)."""
        return ProjectiveSpace(self.field, self.digits - 1)

    def hyperplane(self, value: int) -> NDArray[np.bool_]:
        """Which codes lie on the hyperplane of a value.

        Args:
            value: 0 .. points - 1.

        Returns:
            (points,) bool.
        """
        q, forms = self.field.order, self.forms
        if value >= forms.vectors:
            return np.append(np.repeat(self.lower.hyperplane(value - forms.vectors), q), True)
        numbers = np.arange(forms.points, dtype=np.uint64)
        symbols = forms.evaluate(numbers, np.full(forms.points, value, np.uint32))
        return np.append(symbols[:, None] == np.arange(q), False)

    def support(self, counts: Counts, values: int) -> Counts:
        """How many reports lie on the hyperplane of each value: a finite Radon transform.

        Args:
            counts: (points,) reports of each code.
            values: how many values are asked for, at most as many as there are points.

        Returns:
            (values,) int64, equal to the brute-force count in every bin.

        Raises:
            ArithmeticError: the counts are too large for exact arithmetic in doubles.
        """
        table, last = counts[:-1].reshape(-1, self.field.order), counts[-1]
        tested = self.forms.passed(table)[:values]
        if values == tested.size:
            return tested
        # A value (v, 0) sees a code's form and not its symbol, so symbols are added up one digit
        # lower; the last code, (0, 1), lies on all of these hyperplanes.
        others = self.lower.support(table.sum(axis=1), values - tested.size) + last
        return np.concatenate([tested, others])
