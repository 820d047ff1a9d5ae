"""The numbers that a sliding window's codes should stand for: least worst variance, unbiased.

With code k standing for y_k, window position i stands for x_i, the mean of y under its law. Its
variance is a convex quadratic form in y, strictly so, and x_n = 1 is linear. So the y of least
worst variance is unique, and a barrier method finds it in some dozens of small linear systems.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mechanisms.channel import Floats

# Of the variance, what the barrier may leave over the optimum. A smaller gap gains nothing that
# can be seen; at this one the linear systems are so well conditioned that machines which round
# differently agree on y to some 10^-12, client and collector with them.
_GAP = 1e-3
_SHARPER = 8.0  # how much the barrier's weight falls from stage to stage
_NEAR, _CENTRED = 1e-3, 1e-8  # squared Newton decrements: of a stage, of the last one
_LONGEST = 400  # Newton steps in a stage; some ten are usual


@dataclass(frozen=True, eq=False)
class _Window:
    """The law of the codes at each position, as forms in z: the y of the upper half of the codes.

    Positions and codes are symmetric about the middle, and so is the optimum: y_k = -y_(K-1-k).
    Rows are the positions from the middle up, then the even mixture of each with the next: values
    between two positions are rounded to them, which costs most near half way.

    Attributes:
        mean: (rows, halves) such that a row's mean is mean @ z.
        square: (rows, halves) such that its mean square is square @ z^2.
        last: (halves,) the row of position n.
    """

    mean: Floats
    square: Floats
    last: Floats

    @classmethod
    def of(cls, outside: float, inside: float, steps: int, width: int) -> _Window:
        codes = steps + width
        # Half the unknowns: by symmetry the others follow, and the middle code, if there is one, is
        # 0.
        lower = np.arange(codes // 2)
        first = np.arange(steps // 2, steps + 1)[:, None]
        upper_in, lower_in = (
            (first <= k) & (k < first + width) for k in (codes - 1 - lower, lower)
        )
        more = inside - outside
        mean = more * (upper_in.astype(np.float64) - lower_in)
        square = 2 * outside + more * (upper_in.astype(np.float64) + lower_in)
        return cls(_with_mixtures(mean), _with_mixtures(square), mean[-1])

    def variances(self, z: Floats) -> Floats:
        """(rows,) each row's variance."""
        return np.asarray(self.square @ (z * z) - (self.mean @ z) ** 2)


def _with_mixtures(rows: Floats) -> Floats:
    """Rows, and the averages of neighbours below them."""
    return np.vstack([rows, (rows[:-1] + rows[1:]) / 2])


@dataclass(frozen=True, eq=False)
class _VarianceLimit:
    """z, and a limit above all variances at z."""

    z: Floats
    limit: float

    def moved(self, step: Floats, size: float) -> _VarianceLimit:
        """Some way along a direction in (z, limit)."""
        return _VarianceLimit(self.z + size * step[:-1], self.limit + size * float(step[-1]))


def optimal_values(outside: float, inside: float, steps: int, width: int) -> tuple[Floats, float]:
    """What the codes of a sliding window should stand for.

    Args:
        outside: q, the probability of each code outside the window.
        inside: p > q, that of each code inside; width p + steps q = 1.
        steps: n; the window starts at any of the codes 0 .. n. Even.
        width: how many codes the window holds.

    Returns:
        ((steps + width,) values in ascending order, antisymmetric, whose mean is 1 at position n;
        the largest variance of any position or even mixture of neighbours, at most a part in
        1,000 above the least that is possible).

    Raises:
        ArithmeticError: the method did not converge.

    Source: Boyd, Vandenberghe, "Convex optimization", 2004, section 11.3.
    """
    window = _Window.of(outside, inside, steps, width)
    z = np.full(window.last.size, 1 / window.last.sum())
    point = _VarianceLimit(z, 1.1 * float(window.variances(z).max()))
    # So heavy a barrier starts near the middle of what is feasible, where Newton's method is quick.
    weight = point.limit / 10
    while len(window.mean) * weight > _GAP * point.limit:
        point = _centred(window, point, weight, _NEAR)
        weight /= _SHARPER
    z = _centred(window, point, weight, _CENTRED).z
    middle = np.zeros((steps + width) % 2)
    return np.concatenate([-z, middle, z[::-1]]), float(window.variances(z).max())


def _centred(
    window: _Window, point: _VarianceLimit, weight: float, tolerance: float
) -> _VarianceLimit:
    """The minimum of limit / weight - sum log(limit - variance), by Newton's method."""
    for _ in range(_LONGEST):
        step, decrement = _newton_step(window, point, weight)
        point = _descended(window, point, weight, step, decrement)
        if decrement < tolerance:
            return point
    raise ArithmeticError("the optimal values did not converge")


def _newton_step(window: _Window, point: _VarianceLimit, weight: float) -> tuple[Floats, float]:
    """The direction in (z, limit) that keeps x_n = 1, and the squared Newton decrement."""
    z, free = point.z, point.z.size
    pull = 1 / (point.limit - window.variances(z))
    slopes = 2 * (window.square * z - (window.mean @ z)[:, None] * window.mean)
    system = np.zeros((free + 2, free + 2))
    bend = (slopes.T * pull**2) @ slopes - 2 * (window.mean.T * pull) @ window.mean
    system[:free, :free] = bend + np.diag(2 * pull @ window.square)
    system[:free, free] = system[free, :free] = -(pull**2 @ slopes)
    system[free, free] = pull @ pull
    system[:free, -1] = system[-1, :free] = window.last
    gradient = np.append(pull @ slopes, 1 / weight - pull.sum())
    step = np.linalg.solve(system, -np.append(gradient, 0))[:-1]
    return step, float(-gradient @ step)


def _descended(
    window: _Window, point: _VarianceLimit, weight: float, step: Floats, decrement: float
) -> _VarianceLimit:
    """The longest of the steps 1, 1/2, 1/4, ... that stays feasible and descends enough."""

    def height(at: _VarianceLimit) -> float:
        room = at.limit - window.variances(at.z)
        return at.limit / weight - np.log(room).sum() if room.min() > 0 else np.inf

    start, size = height(point), 1.0
    slack = 1e-12 * abs(start)  # what rounding may add when the descent is all but over
    while height(point.moved(step, size)) > start - size * decrement / 10 + slack:
        size /= 2
        if not size > 1e-12:
            raise ArithmeticError("the optimal values did not converge")
    return point.moved(step, size)
