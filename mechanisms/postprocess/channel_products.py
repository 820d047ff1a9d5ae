"""A channel as expectation maximisation needs it: its product with a vector, from either side.

A dense channel of 1,024 inputs and 2,048 codes costs two million multiplications a product. A
channel that is constant inside a sliding window and constant outside it costs a few thousand,
by running sums.
"""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from mechanisms.channel import Floats, Mechanism

_LARGEST_TABLE = 1 << 26  # entries of a dense channel: half a gigabyte
_SLACK = 1e-9  # by which a column of probabilities may miss 1


@runtime_checkable
class ChannelProducts(Protocol):
    """M with M[code, input] = P(code | input), seen only through its products."""

    @property
    def inputs(self) -> int:
        """How many inputs there are."""

    @property
    def codes(self) -> int:
        """How many codes there are."""

    def apply(self, distribution: Floats) -> Floats:
        """M f: (inputs,) -> (codes,), the codes' law when inputs follow `distribution`."""

    def adjoint(self, weights: Floats) -> Floats:
        """M^T w: (codes,) -> (inputs,), each input's expected weight."""


@dataclass(frozen=True, eq=False)
class Dense:
    """Any channel, as its table.

    Attributes:
        matrix: (codes, inputs) probabilities; every column adds up to 1.

    >>> Dense(np.array([[0.75, 0.25], [0.25, 0.75]])).apply(np.array([1.0, 0.0])).tolist()
    [0.75, 0.25]
    """

    matrix: Floats

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or not self.matrix.size:
            raise ValueError(f"a channel is a (codes, inputs) table, not {self.matrix.shape}")
        if not (self.matrix >= 0).all():
            raise ValueError("a channel's probabilities must be at least 0")
        if not (np.abs(self.matrix.sum(axis=0) - 1) <= _SLACK).all():
            raise ValueError("the probabilities of each column of a channel must add up to 1")

    @classmethod
    def of(cls, mechanism: Mechanism) -> "Dense":
        """The table of a mechanism whose users send one message each.

        Raises:
            ValueError: it has too many codes and inputs for a table, or its reports are not codes.
        """
        entries = mechanism.codes * mechanism.inputs
        if not entries <= _LARGEST_TABLE:
            raise ValueError(
                f"{entries:,} probabilities are more than the {_LARGEST_TABLE:,} of a dense "
                "channel; give its products instead"
            )
        table = np.stack([mechanism.channel(cell) for cell in range(mechanism.inputs)], axis=1)
        if table.shape[0] != mechanism.codes:
            raise ValueError("a user of this mechanism sends several messages: reports, not codes")
        return cls(table)

    @property
    def inputs(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def codes(self) -> int:
        return int(self.matrix.shape[0])

    def apply(self, distribution: Floats) -> Floats:
        product: Floats = self.matrix @ distribution
        return product

    def adjoint(self, weights: Floats) -> Floats:
        product: Floats = self.matrix.T @ weights
        return product


@dataclass(frozen=True)
class SlidingWindow:
    """Cell j has the codes [j + margin, j + margin + width) likelier than all others.

    Attributes:
        cells: N; the inputs are the cells 0 .. N.
        width: W, how many codes a window holds.
        inside: p, the probability of each code of the window.
        outside: q, the probability of each other code; W p + (N + 2 margin) q = 1.
        margin: codes beyond the outermost windows, at either end.

    >>> SlidingWindow(cells=2, width=1, inside=0.5, outside=0.25).apply(np.array([1.0, 0, 0]))
    array([0.5 , 0.25, 0.25])
    """

    cells: int
    width: int
    inside: float
    outside: float
    margin: int = 0

    def __post_init__(self) -> None:
        if not (self.cells >= 1 and self.width >= 1 and self.margin >= 0):
            raise ValueError("cells and width must be at least 1, and margin at least 0")
        if not (self.inside >= 0 and self.outside >= 0):
            raise ValueError("inside and outside must be at least 0")
        mass = self.width * self.inside + (self.codes - self.width) * self.outside
        if not abs(mass - 1) <= _SLACK:
            raise ValueError("a window's codes and the others must have probability 1 together")

    @property
    def inputs(self) -> int:
        return self.cells + 1

    @property
    def codes(self) -> int:
        return self.cells + self.width + 2 * self.margin

    def apply(self, distribution: Floats) -> Floats:
        sums = np.cumsum(distribution)
        covered = np.zeros(self.codes)
        middle = covered[self.margin : self.codes - self.margin]
        middle[:] = sums[-1]
        middle[: self.inputs] = sums
        # A code is covered by the last `width` cells up to it: a difference of two running sums.
        middle[self.width :] -= sums[:-1]
        return _levelled(self.inside, self.outside, covered, sums[-1])

    def adjoint(self, weights: Floats) -> Floats:
        sums = np.zeros(self.codes + 1)
        np.cumsum(weights, out=sums[1:])
        first, after = self.margin, self.margin + self.width
        covered = sums[after : after + self.inputs] - sums[first : first + self.inputs]
        return _levelled(self.inside, self.outside, covered, sums[-1])


def _levelled(inside: float, outside: float, covered: Floats, total: float) -> Floats:
    """What is covered counts at one rate, the rest of the total at another."""
    result: Floats = outside * total + (inside - outside) * covered
    return result


@dataclass(frozen=True, eq=False)
class OneMore:
    """A channel with one more input, the last, and one more code, which each other input may send.

    Attributes:
        channel: of the other inputs.
        law: (codes,) that of the one more input, the one more code included.
        chance: how often each other input sends that code.

    >>> inner = Dense(np.array([[0.75, 0.25], [0.25, 0.75]]))
    >>> OneMore(inner, np.array([0.25, 0.25, 0.5]), 0.2).apply(np.array([1.0, 0.0, 0.0]))
    array([0.6, 0.2, 0.2])
    """

    channel: ChannelProducts
    law: Floats
    chance: float

    @property
    def inputs(self) -> int:
        return self.channel.inputs + 1

    @property
    def codes(self) -> int:
        return self.channel.codes + 1

    def apply(self, distribution: Floats) -> Floats:
        others, last = distribution[:-1], distribution[-1]
        usual = (1 - self.chance) * self.channel.apply(others)
        return np.asarray(np.append(usual, self.chance * others.sum()) + last * self.law)

    def adjoint(self, weights: Floats) -> Floats:
        usual = (1 - self.chance) * self.channel.adjoint(weights[:-1])
        return np.append(usual + self.chance * weights[-1], self.law @ weights)
