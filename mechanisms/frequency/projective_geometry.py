"""Projective geometry response: the optimal error of local privacy, one small integer a report.

A value is a point v of the projective space over GF(q), and so is a report a; the report is
e^epsilon times as likely if <a, v> = 0 as otherwise. A share of about 1/q of all points lies on
the hyperplane of a value, and any two hyperplanes meet in equally many points, so the closed
forms are exact. With q near e^epsilon + 1 the variance is that of subset selection, the least
there is; powers of two come nearer to it than primes alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms import specification
from mechanisms.algebra.finite_field import LARGEST_ORDER, is_order
from mechanisms.algebra.linear_forms import LinearForms, projective_points
from mechanisms.algebra.projective_space import ProjectiveSpace
from mechanisms.algebra.rounding import ceiling, exponential_bounds
from mechanisms.channel import Counts, Messages, require_epsilon, require_integer
from mechanisms.frequency.hash_budget import best_range
from mechanisms.frequency.oracle import SMALL, FrequencyOracle
from mechanisms.frequency.task import FrequencyTask
from mechanisms.privacy.pair_law import ShuffleLaws, incidence_laws
from mechanisms.randomness import RandomSource, Words
from mechanisms.registry import register
from mechanisms.targets.rules import Target

_WORD = 1 << 64
_LARGEST_ALPHABET = 1 << 28  # codes; the collector's table takes 8 bytes for each
_BLOCK = 1 << 15  # reports perturbed at a time, so that they stay in a core's cache


@dataclass(frozen=True)
class ProjectiveGeometry(FrequencyOracle):
    """A random point of the projective space, likelier on the hyperplane of the value.

    Attributes:
        epsilon: privacy loss of one report, in nats.
        domain_size: d, the number of values.
        hash_range: q, the order of the field: a prime or a power of two, at most 512.

    Source: Feldman, Nelson, Nguyen, Talwar, "Private frequency estimation via projective
        geometry", ICML 2022. They decode by a dynamic programme; the Fourier transform here,
        O(n + D log D) for D points over 2^k and O(n + D q log D) over a prime, gives the same.

    >>> mechanism = ProjectiveGeometry(epsilon=1.0, domain_size=20, hash_range=4)
    >>> mechanism.digits, mechanism.codes, mechanism.space.on_hyperplane
    (3, 21, 5)
    >>> round(float(mechanism.variance(0.0, n=1)), 2)
    3.25
    """

    epsilon: float
    domain_size: int
    hash_range: int

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        q, d = self.hash_range, self.domain_size
        require_integer("domain_size", d, 2)
        require_integer("hash_range", q)
        if not is_order(q):
            raise ValueError(
                f"hash_range must be a prime or a power of two in 2 .. {LARGEST_ORDER}, not {q}"
            )
        if not self.codes <= _LARGEST_ALPHABET:
            raise ValueError(
                f"a domain of {d} values at hash_range {q} needs {self.codes} counters, "
                f"more than {_LARGEST_ALPHABET}"
            )
        if not self.on_weight > self.off_weight:
            raise ValueError(f"epsilon {self.epsilon} is too small to be told from 0 in 64 bits")

    @cached_property
    def space(self) -> ProjectiveSpace:
        """The least projective space over GF(q) with a point for each of the d values."""
        return ProjectiveSpace.holding(self.domain_size, self.hash_range)

    @property
    def digits(self) -> int:
        """t, the number of homogeneous coordinates of a point."""
        return self.space.digits

    @property
    def codes(self) -> int:
        return self.space.points

    @property
    def supportable(self) -> int:
        """All points: hyperplanes have equally many."""
        return self.space.points

    # ---- the law of a report -----------------------------------------------------------------

    @cached_property
    def off_weight(self) -> int:
        """How many 64-bit words stand for one given point off the value's hyperplane."""
        lower, _ = exponential_bounds(self.epsilon)
        on = self.space.on_hyperplane
        # From a lower bound of e^epsilon, rounded up: the unlikely points may only be likelier.
        return ceiling(_WORD / (on * lower + self.codes - on))

    @cached_property
    def on_weight(self) -> int:
        """The same for a point on it; at most e^epsilon times `off_weight`."""
        on = self.space.on_hyperplane
        # Rounded down, so that the ratio of the two never exceeds e^epsilon.
        return (_WORD - (self.codes - on) * self.off_weight) // on

    @cached_property
    def denominator(self) -> int:
        """How many words are in use: 2^64, less what does not divide among the points."""
        return self._words(self.space)

    def _words(self, space: ProjectiveSpace) -> int:
        """How many words stand for the points of a space."""
        on = space.on_hyperplane
        return on * self.on_weight + (space.points - on) * self.off_weight

    @cached_property
    def keep(self) -> float:
        """P(support | holder): that the report lies on the holder's own hyperplane."""
        return self.space.on_hyperplane * self.on_weight / self.denominator

    @cached_property
    def other(self) -> float:
        """P(support | not holder): that it lies on the hyperplane of another value."""
        both = self.space.on_both
        off = (self.space.on_hyperplane - both) * self.off_weight
        return (both * self.on_weight + off) / self.denominator

    @cached_property
    def contrast(self) -> float:
        """keep - other, without cancellation."""
        only = self.space.on_hyperplane - self.space.on_both
        return only * (self.on_weight - self.off_weight) / self.denominator

    derivation = (
        "closed form: a point's probabilities differ by at most e^epsilon between any two "
        "values; the 64-bit thresholds are rounded to the private side"
    )

    def constants(self) -> dict[str, float]:
        return super().constants() | {
            "digits": self.digits,
            "points": self.codes,
            "keep": self.keep,
            "other": self.other,
        }

    def pairs(self) -> Iterable[tuple[int, int]]:
        """One pair: linear maps permute the points and take any two of them to any other two."""
        return [(0, 1)]

    def weights(self, cell: int) -> tuple[NDArray[np.uint64], int]:
        self._checked([cell])
        on, off = np.uint64(self.on_weight), np.uint64(self.off_weight)
        return np.where(self.space.hyperplane(cell), on, off), self.denominator

    def shuffle_laws(self) -> ShuffleLaws:
        """What a shuffled batch reveals, in closed form: for the shuffle accountant."""
        space, q, d = self.space, self.hash_range, self.domain_size
        # A third value is on the line through two others, or not. Over GF(2) no three of the
        # values (c, 1) are on a line.
        line = [space.on_both] if q > 2 or d > space.forms.vectors else []
        free = [projective_points(q, space.digits - 3)] if space.digits > 2 else []
        return incidence_laws(
            self.epsilon,
            Fraction(self.on_weight, self.denominator),
            Fraction(self.off_weight, self.denominator),
            (space.points, space.on_hyperplane, space.on_both),
            line + free if d > 2 else [],
        )

    # ---- client and collector ----------------------------------------------------------------

    @property
    def specification(self) -> specification.Channel:
        return specification.ProjectiveGeometrySpecification(
            inputs=self.domain_size, order=self.hash_range,
            polynomial=self.space.field.polynomial, digits=self.digits,
            on=str(self.on_weight), off=str(self.off_weight),
        )  # fmt: skip

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        values = self._checked(cells)
        messages = np.empty(values.size, np.uint64)
        for start in range(0, values.size, _BLOCK):
            block = values[start : start + _BLOCK].astype(np.uint32)
            # Not all 2^64 words are in use, so they are drawn below the bound, without a bias.
            words = rng.integers(self.denominator, block.size)
            messages[start : start + _BLOCK] = self._report(words, block, self.space)
        return messages

    def _report(self, words: Words, cells: NDArray[np.uint32], space: ProjectiveSpace) -> Messages:
        """The points of a space that uniform words stand for."""
        q, inside = np.uint64(self.hash_range), cells < space.forms.vectors
        if inside.all():
            return self._test(words, cells, space.forms)
        codes = np.full(cells.size, space.points - 1, np.uint64)
        codes[inside] = self._test(words[inside], cells[inside], space.forms)
        # For a value (v, 0): a point one digit lower, on v's hyperplane or not, with any symbol;
        # or the last point, which is on the hyperplane.
        words, symbols = np.divmod(words, q)
        below = ~inside & (words < self._words(space.lower))
        cells = cells[below] - np.uint32(space.forms.vectors)
        codes[below] = self._report(words[below], cells, space.lower) * q + symbols[below]
        return codes

    def _test(self, words: Words, cells: NDArray[np.uint32], forms: LinearForms) -> Messages:
        """The same for values (c, 1): each form has q - 1 slots to lie in, and the truth beyond."""
        last, off = np.uint64(self.hash_range - 1), np.uint64(self.off_weight)
        share = np.uint64(self.on_weight + (self.hash_range - 1) * self.off_weight)
        points = words // share
        shift = last - np.minimum((words - points * share) // off, last)
        symbols = forms.field.add(forms.evaluate(points, cells), shift.astype(np.uint16))
        # Words beyond the last form's are the point (0, 1), which has no symbol.
        codes = points * np.uint64(self.hash_range) + symbols
        tested: Words = np.minimum(codes, np.uint64(forms.points * self.hash_range))
        return tested

    def support(self, counts: Counts) -> Counts:
        """How many reports lie on the hyperplane of each value, by a finite Radon transform.

        Raises:
            ArithmeticError: the counts are too large for exact arithmetic in doubles.
        """
        return self.space.support(counts, self.domain_size)


def orders(domain_size: int) -> list[int]:
    """The fields whose spaces a collector can hold for a domain; at least 2, which needs least."""
    return [
        q
        for q in range(2, LARGEST_ORDER + 1)
        if is_order(q)
        and (q == 2 or ProjectiveSpace.holding(domain_size, q).points <= _LARGEST_ALPHABET)
    ]


def best_shuffled(target: Target[FrequencyTask]) -> ProjectiveGeometry:
    """The field and the epsilon_local with the least error for what a shuffled batch may lose."""
    d = target.task.domain_size

    def family(epsilon: float, hash_range: int) -> ProjectiveGeometry:
        return ProjectiveGeometry(epsilon, d, hash_range)

    return best_range(family, orders(d), *target.batch, target.cap)


@register(
    "projective",
    task="frequency",
    sends="a point of a projective space, likelier on the value's hyperplane",
    source="Feldman, Nelson, Nguyen, Talwar, ICML 2022",
    searched=True,
    postprocess="auto",
    small=SMALL,
    rules={"shuffle": best_shuffled},
)
def optimal(epsilon: float, domain_size: int, hash_range: int | None = None) -> ProjectiveGeometry:
    """The field that minimises the average variance at this epsilon.

    The continuous optimum for large domains is e^epsilon + 1; small ones may prefer a line, which
    is k-ary response over q + 1 symbols.

    Args:
        epsilon: privacy loss of one report, in nats.
        domain_size: d, the number of values.
        hash_range: q; compared over all fields up to 512 if it is None.
    """
    require_epsilon(epsilon)
    if hash_range is not None:
        return ProjectiveGeometry(epsilon, domain_size, hash_range)
    return min(
        (ProjectiveGeometry(epsilon, domain_size, q) for q in orders(domain_size)),
        key=lambda mechanism: mechanism.average_variance(1),
    )
