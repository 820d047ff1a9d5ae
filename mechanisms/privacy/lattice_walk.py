"""The law of a sum of many independent steps, on a lattice that coarsens as the sum spreads.

n-fold convolution by squaring, with three devices that keep it small and certain:

* the law is held tilted, P(s) e^(theta s) up to a constant, with the tilt that centres the sum on
  0. The far tail that decides a delta of 10^-12 is then the middle of the array, where rounding
  errors are relative to it;
* values off the lattice are split between their two neighbours so that the mean is kept. That is
  a mean-preserving spread: it can only raise the expectation of a convex function of the sum, and
  it is also something an attacker could do with dice;
* what is cut off and what the Fourier transforms round is measured and handed to the caller.

Rows of a walk differ in their first step only; row 0 is the walk of everybody else.
"""

import math
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.compat.roots import brentq

_UNIT = 2.0**-53
_TRIMMED = 1e-9  # tilted probability that may be cut off, over all blocks of one size
_TAIL = 1 << 8  # cells in which such a tail mostly ends
_STEEP = 0.2  # theta times the step, beyond which splitting a cell would cost too much
_SPARSE = 256  # a kernel with fewer nonzero cells is convolved term by term
_FEW = 1 / 8  # of a row's cells: to place so many one by one is faster than to shift the row
_MANY = 1 << 18  # noise of a block counts as often as there are blocks; beyond this, make none
_FARTHEST = 60.0  # standard deviations of the sum beyond which nothing is looked at closely
_NOISELESS = 1 << 11  # cells, while there are as many blocks as that


class Walk(NamedTuple):
    """The tilted law of a sum of `users` steps.

    Attributes:
        rows: (rows, cells) tilted probabilities; cell i stands for
            users * anchor + (start + i) * step.
        start: lattice index of the first cell.
        step: width of a cell.
        users: how many steps were added up.
        tilt: theta.
        cut: tilted probability, summed over the blocks of a whole walk, that was cut off.
        noise: bound on the Euclidean norm of each row's absolute error.
        relative: bound on the relative error of each row's entries, besides noise.
    """

    rows: Floats
    start: int
    step: float
    users: int
    tilt: float
    cut: float = 0.0
    noise: float = 0.0
    relative: float = 0.0

    def joined(self, other: "Walk", noiseless: bool) -> "Walk":
        """The walk followed by another on the same step.

        In rows other than 0 the one user who differs is as likely to be any user of either walk,
        as in a shuffled batch. Sums of positive terms are relatively exact; Fourier transforms
        are fast and have noise.
        """
        users = self.users + other.users
        rows, noise, relative = self._followed(other.rows[:1], noiseless, other is self)
        if other is not self and len(rows) > 1:
            alone = self._replace(rows=self.rows[:1])
            late, late_noise, late_relative = alone._followed(other.rows[1:], noiseless, False)
            share = self.users / users
            rows[1:] = share * rows[1:] + (1 - share) * late
            noise, relative = max(noise, late_noise), max(relative, late_relative) + 4 * _UNIT
        # Young's inequality: the error's Euclidean norm grows by no more than the other factor's
        # sum. The factor leaves room for the product of both errors.
        for one, two in ((other, self), (self, other)):
            if two.noise:
                noise += 1.001 * _largest_sum(one.rows) * two.noise
        return self._replace(
            rows=rows,
            start=self.start + other.start,
            users=users,
            noise=noise,
            relative=self.relative + other.relative + relative,
        )

    def _followed(
        self, steps: Floats, noiseless: bool, squared: bool
    ) -> tuple[Floats, float, float]:
        """Rows convolved with one row, or one row with rows, and the errors that this adds."""
        length = self.rows.shape[1] + steps.shape[1] - 1
        support = np.flatnonzero(steps.any(axis=0))
        # Few terms are added up one by one: positive numbers only, hence no noise.
        if support.size <= _SPARSE:
            return self._shifted(steps, support, length), 0.0, (support.size + 4) * _UNIT
        if noiseless:
            pairs = ((row, step) for row in self.rows for step in steps)
            return np.stack([np.convolve(*pair) for pair in pairs]), 0.0, steps.size * _UNIT
        size = scipy.fft.next_fast_len(length, real=True)
        spectrum = scipy.fft.rfft(self.rows, size)
        factor = spectrum[:1] if squared else scipy.fft.rfft(steps, size)
        rows = np.maximum(
            scipy.fft.irfft(spectrum * factor, size)[:, :length], 0.0
        )  # as the truth is
        # Higham, "Accuracy and stability of numerical algorithms", 2002, Theorem 24.2.
        transform = 8 * _UNIT * math.log2(size)
        factors = (self.rows,) if squared and len(self.rows) == 1 else (self.rows, steps)
        sums = max(map(_largest_sum, factors))
        norm = math.sqrt(max(_largest_sum(x * x) for x in factors))
        return rows, 4 * transform * sums * norm, 4 * _UNIT

    def _shifted(self, steps: Floats, support: NDArray[np.intp], length: int) -> Floats:
        """Rows convolved term by term: of few cells, or of whole rows, alike to the last bit."""
        own = np.flatnonzero(self.rows.any(axis=0))
        if len(self.rows) == len(steps) == 1 and own.size < _FEW * self.rows.shape[1]:
            places = (support[:, None] + own).ravel()
            terms = np.multiply.outer(steps[0, support], self.rows[0, own]).ravel()
            return np.asarray(np.bincount(places, terms, length), np.float64)[None, :]
        rows, width = np.zeros((max(len(self.rows), len(steps)), length)), self.rows.shape[1]
        for index, chance in zip(support.tolist(), steps.T[support, :, None], strict=True):
            rows[:, index : index + width] += chance * self.rows
        return rows

    def trimmed(self, total: int) -> "Walk":
        """Without the tails that hardly any walk of `total` users visits."""
        blocks = total / self.users
        weights = np.ones(self.rows.shape[0])
        # As many blocks as it takes to make up all users use row 0; the one who differs is in one.
        weights[0] = blocks
        at_risk = weights @ self.rows
        (low, below), (high, above) = _tail(at_risk), _tail(at_risk[::-1])
        if low + high >= self.rows.shape[1]:
            return self
        lost = below + above
        # Cauchy-Schwarz: what is cut is a sum of cells, what is known of their noise is its norm.
        lost += math.sqrt(low + high) * self.noise * blocks
        kept = self.rows[:, low : self.rows.shape[1] - high]
        return self._replace(rows=kept, start=self.start + low, cut=self.cut + float(lost))

    def coarsened(self) -> "Walk":
        """On a lattice of twice the step: odd cells are halved between their even neighbours."""
        before, (laws, cells) = self.start % 2, self.rows.shape
        rows = np.zeros((laws, (before + cells) // 2 * 2 + 1))
        rows[:, before : before + cells] = self.rows
        even, odd = rows[:, 0::2].copy(), rows[:, 1::2]
        # A cell's tilt is that of its place, so the halves take on the tilt of their neighbours.
        drift = self.tilt * self.step
        even[:, 1:] += odd * (0.5 * math.exp(drift))
        even[:, :-1] += odd * (0.5 * math.exp(-drift))
        return self._replace(
            rows=even,
            start=self.start // 2,
            step=2 * self.step,
            noise=math.sqrt(2) * math.cosh(drift) * 1.001 * self.noise,
            relative=self.relative + 8 * _UNIT * (1 + drift),
        )


def _largest_sum(rows: Floats) -> float:
    """The largest total of a row."""
    return float(np.add.reduce(rows, axis=1).max())


def _tail(masses: Floats) -> tuple[int, float]:
    """How many of the first masses may be cut off, and their sum."""
    looked = _TAIL  # of a few more masses than are cut; sums are dear where nobody asks for them
    while True:
        sums = masses[:looked].cumsum()
        if looked >= masses.size or sums[-1] >= _TRIMMED:
            break
        looked *= 8
    cut = int(sums.searchsorted(_TRIMMED))
    return cut, float(sums[cut - 1]) if cut else 0.0


def repeated(step: Walk, users: int, cells: int) -> Walk:
    """The walk of many users who all take the same random step.

    Args:
        step: the walk of one user.
        users: how many take it, at least 1. In rows other than 0 only one of them does, and the
            others take the step of row 0.
        cells: the resolution: the usual size of an array.

    Returns:
        The walk of all of them, by squaring.
    """
    walk = step
    # Below the leading bit of `users`: each one doubles the walk, and a 1 adds a step.
    for bit in bin(users)[3:]:
        many = users > _MANY * walk.users
        walk = walk.joined(walk, many).trimmed(users)
        if bit == "1":
            walk = walk.joined(step, many).trimmed(users)
        most = min(cells, _NOISELESS) if many else cells
        while walk.rows.shape[1] > most and walk.tilt * walk.step < _STEEP:
            walk, step = walk.coarsened(), step.coarsened()
    return walk


def centring_tilt(loss: Floats, chance: Floats, n: int) -> float:
    """The theta at which the tilted sum of n losses has mean 1 / theta.

    There e^(theta s) / (e theta), which is nowhere below the positive part of s, has the least
    expectation: so tilted, the sums that decide the answer are the likely ones, whether the
    answer is a far tail, a rare event or the plain mean.

    Args:
        loss: (kinds,) values, some positive.
        chance: (kinds,) their probabilities.
        n: how many are added up.
    """

    def excess(theta: float) -> float:
        exponent = theta * loss
        weights = chance * np.exp(exponent - exponent.max())
        return theta * n * float(weights @ loss) / float(weights.sum()) - 1

    spread = math.sqrt(float(chance @ loss**2) * n)
    high = 1 / (abs(float(chance @ loss)) * n + spread + float(loss.max()))
    low = high / 4
    while excess(low) > 0:
        low /= 4
    while excess(high) < 0:
        high *= 4
    # Any tilt gives a valid bound. So many standard deviations out delta is below 10^-250, and a
    # stronger tilt would only make the spreading of values on the lattice weigh too much.
    return min(float(brentq(excess, low, high, rtol=1e-6)), _FARTHEST / spread)


def first_step(loss: Floats, laws: Floats, tilt: float, cells: int) -> tuple[Walk, float, Floats]:
    """One user's loss on a lattice, tilted, with a row for each law.

    Args:
        loss: (kinds,) values that differ.
        laws: (rows, kinds) probabilities.
        tilt: theta, positive.
        cells: resolution: the range of the losses takes this many cells.

    Returns:
        (the walk of one user; the anchor of its lattice; the logarithm of what each row was
        divided by, or minus infinity for a row that is lost to underflow).
    """
    heaviest = np.argsort(-laws[0])
    anchor = float(loss[heaviest[0]])
    place = loss - anchor
    span = float(np.ptp(loss))
    step = min(span / cells, _STEEP / tilt)
    # The two most likely losses lie on the lattice; only rare ones are split.
    for distance in np.abs(place[heaviest[1:]]):
        if distance >= step:
            step = float(distance) / math.ceil(distance / step)
            break
    cell = np.floor(place / step)
    # Rounded towards the upper neighbour: an upper bound may only overstate a loss, and for a lower
    # bound any dice will do.
    up = np.clip(place / step - cell + 8 * _UNIT * (np.abs(cell) + 1), 0, 1)
    low = int(cell.min())
    index = cell.astype(np.int64) - low
    rows = np.zeros((laws.shape[0], int(index.max()) + 2))
    for row, law in zip(rows, laws, strict=True):
        np.add.at(row, index, law * (1 - up))
        np.add.at(row, index + 1, law * up)
    exponent = tilt * (anchor + step * (low + np.arange(rows.shape[1])))
    top = float(exponent[rows.any(axis=0)].max())
    rows *= np.exp(np.minimum(exponent - top, 0))
    totals = rows.sum(axis=1)
    relative = _UNIT * (2 * float(np.abs(exponent).max()) + 4 * abs(top) + 16 + loss.size)
    row_sums = np.maximum(totals, np.finfo(float).tiny)  # a row whose probabilities all underflowed
    walk = Walk(rows / row_sums[:, None], low, step, 1, tilt, relative=relative)
    return walk, anchor, np.where(totals > 0, np.log(row_sums) + top, -math.inf)


def places(walk: Walk, anchor: float) -> tuple[Floats, float]:
    """Where the cells of a walk are, and how far off that may be."""
    lattice = walk.step * np.arange(walk.start, walk.start + walk.rows.shape[1], dtype=np.float64)
    shift = walk.users * anchor
    return shift + lattice, 8 * _UNIT * (abs(shift) + float(np.abs(lattice).max()))
