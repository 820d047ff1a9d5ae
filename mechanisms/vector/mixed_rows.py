"""Rows of numbers and categories in one collection: each user reports a few of the attributes.

A number goes through a mechanism for means, a category through a frequency oracle, and which
attributes a user reports does not depend on the row. A message is one word: the attribute's offset
plus the code. It tells which attribute it is about, so a collector knows how many users reported
each one, and estimates it from them alone: no noise comes from how many there happened to be.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import (
    Counts,
    Floats,
    Guarantee,
    Messages,
    checked_counts,
    require_epsilon,
    require_integer,
)
from mechanisms.frequency.several_messages import SeveralMessages
from mechanisms.mean.intervals import NOBODY, quotient_reach
from mechanisms.mean.scalar import LARGEST_ALPHABET, ScalarMean
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.privacy.divergence import double_up
from mechanisms.randomness import RandomSource
from mechanisms.sampling.sparse_bits import chosen_coordinates
from mechanisms.vector.attribute_reports import (
    Attribute,
    AttributeEstimate,
    AttributeReports,
    attribute_estimate,
)
from mechanisms.vector.coordinates import cells_in_range, largest_scaled
from mechanisms.vector.rows import equal_share, rows_in_cube

_Cells = Callable[[Attribute, NDArray[np.int64], NDArray[np.int64]], NDArray[Any]]


@dataclass(frozen=True)
class MixedRows(AttributeReports):
    """k of the attributes of a row, each reported by one message of its own mechanism.

    Attributes:
        epsilon: privacy loss of all messages of a user together, in nats.
        sampled: k, how many attributes a user reports, uniformly without replacement.
        attributes: what randomises each of them; it may spend epsilon / k.
        hides: whether each one's last cell stands for no value.

    Source: Wang, Xiao, Yang, Zhao, Hui, Shin, Shin, Yu, "Collecting and analyzing multidimensional
        data with local differential privacy", ICDE 2019, Algorithm 4 and section IV-C. The paper
        scales sums of all users by d / k; the average over those who report an attribute is as
        unbiased, and does without the noise of their number.

    >>> from mechanisms.frequency.hashed_responses import k_ary
    >>> from mechanisms.mean.two_point import duchi
    >>> rows = MixedRows(1.0, 1, (duchi(1.0), duchi(1.0), k_ary(1.0, 5)))
    >>> rows.codes, rows.offsets.tolist()
    (9, [0, 2, 4])
    """

    epsilon: float
    sampled: int
    attributes: tuple[Attribute, ...]
    hides: bool = False

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_integer("sampled", self.sampled, 1, len(self.attributes))
        for mechanism in self.distinct:
            self._require_attribute(mechanism)
        if not self.codes <= LARGEST_ALPHABET:
            raise ValueError(
                f"{len(self.attributes)} attributes have {self.codes} codes in all, more than "
                f"{LARGEST_ALPHABET}; use fewer cells or smaller domains"
            )

    def _require_attribute(self, mechanism: Attribute) -> None:
        promise, name = mechanism.guarantee, type(mechanism).__name__
        if isinstance(mechanism, SeveralMessages):
            raise ValueError(
                f"{name} sends several messages, of which nobody knows how many users sent them; "
                "use a mechanism of one message, such as grr, olh or projective"
            )
        # In rationals: k rounded shares might add up to a hair more than epsilon.
        share = self.sampled * Fraction(promise.epsilon) if promise.epsilon < math.inf else math.inf
        if not (promise.model == "local" and share <= Fraction(self.epsilon)):
            raise ValueError(
                f"{name}, one of {self.sampled} reported attributes, may spend an epsilon of "
                f"{equal_share(self.epsilon, self.sampled)} on a report, not {promise.epsilon}"
            )

    # ---- what it consists of -----------------------------------------------------------------

    @cached_property
    def numeric(self) -> NDArray[np.bool_]:
        """(attributes,) which attributes are numbers."""
        return np.array([isinstance(x, (ScalarMean, WithUnusable)) for x in self.attributes])

    @cached_property
    def _inputs(self) -> NDArray[np.int64]:
        """(attributes,) how many cells each of them takes."""
        return np.array([x.inputs for x in self.attributes], np.int64)

    @property
    def scale(self) -> float:
        """a / k: one in so many users reports a given attribute."""
        return len(self.attributes) / self.sampled

    @property
    def guarantee(self) -> Guarantee:
        deltas = sorted((Fraction(x.guarantee.delta) for x in self.attributes), reverse=True)
        reasons = "; ".join(dict.fromkeys(x.guarantee.how for x in self.distinct))
        return Guarantee.of_report(
            self.epsilon,
            min(1.0, double_up(sum(deltas[: self.sampled], Fraction(0)))),
            f"composition of {self.sampled} of {len(self.attributes)} attributes, chosen whatever "
            f"the row; of each: {reasons}",
        )

    def constants(self) -> dict[str, float]:
        return {
            "epsilon": self.epsilon,
            "sampled": self.sampled,
            "numbers": int(self.numeric.sum()),
            "categories": int((~self.numeric).sum()),
            "codes": self.codes,
        }

    # ---- the client --------------------------------------------------------------------------

    def report(self, numbers: ArrayLike, categories: ArrayLike, rng: RandomSource) -> Messages:
        """The whole client, for rows that are at hand as a block; only what is sent is rounded.

        Args:
            numbers: (n, w) values in [-1, 1] of the w attributes that are numbers, in order; where
                absence is hidden, NaN for none.
            categories: (n, c) indices of values of the c others, in order.
            rng: the generator of this process.

        Returns:
            (n * sampled,) uint64, those of a user following one another.

        Raises:
            ValueError: rows of another length, values out of range, or what is no number. The
                message never holds them.
        """
        cells = cells_in_range(categories, self._inputs[~self.numeric])
        missing = np.isnan(numbers) if self.hides else np.zeros((1, 1), np.bool_)
        values = rows_in_cube(np.where(missing, 0.0, numbers), int(self.numeric.sum()))
        if len(cells) != len(values):
            raise ValueError(f"there are {len(values)} rows of numbers and {len(cells)} of others")
        places = np.cumsum(self.numeric) - 1  # of attributes among the numbers

        def encoded(
            mechanism: Attribute, users: NDArray[np.int64], which: NDArray[np.int64]
        ) -> NDArray[Any]:
            if isinstance(mechanism, (ScalarMean, WithUnusable)):
                encoded_cells = mechanism.rounding.encode(values[users, places[which]], rng)
                if self.hides:
                    encoded_cells[missing[users, places[which]]] = mechanism.inputs - 1
                return encoded_cells
            others: NDArray[Any] = cells[users, which - places[which] - 1]
            return others

        return self._sent(len(values), encoded, rng)

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        """The client behind the rounding.

        Args:
            cells: (n, attributes) integers, those of an attribute in 0 .. its inputs - 1.
            rng: the generator of this process.
        """
        rows = cells_in_range(cells, self._inputs)
        return self._sent(len(rows), lambda _, users, which: rows[users, which], rng)

    def _sent(self, n: int, encoded: _Cells, rng: RandomSource) -> Messages:
        """Messages of n users; `encoded` gives the cells of some users' chosen attributes."""
        chosen = chosen_coordinates(n, len(self.attributes), self.sampled, rng).reshape(-1)
        messages = np.array(self.offsets[chosen], np.uint64)
        kinds = self._kind_of[chosen]
        # By mechanism and not by attribute: dozens of attributes often share one.
        for kind, mechanism in enumerate(self.distinct):
            (here,) = np.nonzero(kinds == kind)
            cells = encoded(mechanism, here // self.sampled, chosen[here])
            messages[here] += mechanism.perturb(cells, rng)
        return messages

    # ---- the collector -----------------------------------------------------------------------

    def parts(self, counts: Counts) -> list[Counts]:
        """The counts of each attribute's own mechanism.

        Args:
            counts: (codes,) from `count`.

        Raises:
            ValueError: counts of another mechanism.
        """
        return np.split(checked_counts(counts, self.codes), self.offsets[1:])

    def users(self, counts: Counts) -> float:
        """How many users the messages stand for; not an integer if some were lost."""
        return int(np.sum(counts)) / self.sampled

    def estimates(self, counts: Counts) -> list[AttributeEstimate]:
        """What a batch says of each attribute.

        Args:
            counts: (codes,) from `count`.
        """
        parts, users = zip(self.attributes, self.parts(counts), strict=True), self.users(counts)
        return [attribute_estimate(mechanism, part, users) for mechanism, part in parts]

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        """All attributes' means and frequencies, one after the other; see `estimates`.

        Args:
            counts: (codes,) from `count`.
            n: not needed: every message says its attribute.

        Raises:
            ValueError: there is no report.
        """
        if not self.users(counts):
            raise ValueError("there is no report to estimate from")
        return np.concatenate([np.ravel(x.estimate) for x in self.estimates(counts)])

    def forged_reach(self, share: float) -> tuple[float, float]:
        """How far a share of made-up reports can move any number, and any share of a category.

        Reports say their attribute, so all liars can be with one, of which as many others report
        as are expected to.

        Args:
            share: of the users who make their reports up.
        """
        farthest = {True: 0.0, False: 0.0}
        for mechanism, numeric in zip(self.attributes, self.numeric.tolist(), strict=True):
            reports = np.append(mechanism.extreme_reports, NOBODY, axis=0)
            ends = np.array([-1.0 if numeric else 0.0, 1.0])  # of what may have been published
            reach = quotient_reach((ends / self.scale, 1 / self.scale), reports, share)
            farthest[numeric] = max(farthest[numeric], float(reach.max()))
        return farthest[True], farthest[False]

    # ---- its error ---------------------------------------------------------------------------

    @property
    def variances(self) -> Floats:
        """(attributes,) n times what to expect of an estimate's variance, among n users.

        Of a number the largest that any values could have; of a category the average over its
        values, which depends on frequencies little, at its largest.
        """
        expected = {mechanism: self._expected(mechanism) for mechanism in self.distinct}
        return np.array([expected[x] for x in self.attributes])

    @property
    def log_error(self) -> float:
        """The logarithm of the product of all attributes' variances: their units do not matter."""
        with np.errstate(divide="ignore"):  # a huge epsilon leaves no variance that a double holds
            return float(np.log(self.variances).sum())

    def _expected(self, mechanism: Attribute) -> float:
        """n times the variance of one attribute, the choice of who reports it included."""
        if isinstance(mechanism, (ScalarMean, WithUnusable)):
            return largest_scaled(mechanism, self.scale)
        even = 1 / mechanism.domain_size  # the most that f (1 - f) averages is at even shares
        return self.scale * mechanism.average_variance(1) + (self.scale - 1) * even * (1 - even)
