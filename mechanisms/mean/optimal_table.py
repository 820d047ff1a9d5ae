"""Windows that slide over codes which stand for the best numbers, verified, for each epsilon.

The numbers that a sliding window's codes should stand for: least worst variance, unbiased.

With code k standing for y_k, window position i stands for x_i, the mean of y under its law. Its
variance is a convex quadratic form in y, strictly so, and x_n = 1 is linear. So the y of least
worst variance is unique, and a barrier method finds it in some dozens of small linear systems.
"""

from bisect import bisect
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np

from mechanisms.algebra.rounding import ceiling, exponential_bounds
from mechanisms.channel import Floats

# Of the variance, what the barrier may leave over the optimum. A smaller gap gains nothing that
# can be seen; at this one the linear systems are so well conditioned that machines which round
# differently agree on y to some 10^-12, client and collector with them.
_GAP = 1e-3
_SHARPER = 8.0  # how much the barrier's weight falls from stage to stage
_NEAR, _CENTRED = 1e-3, 1e-8  # squared Newton decrements: of a stage, of the last one
_LONGEST = 400  # Newton steps in a stage; some ten are usual
WORD = 1 << 64
_COARSE, _FINE, _SPLIT = 64, 128, 4.0  # positions, below and above this epsilon
# Epsilons from which on the best window is narrower by one code: of coarse positions from 64 codes
# down, of fine ones from 45. To try the widths on either side for each epsilon took three times as
# long; a test does.
_COARSER = (
    0.7899041, 0.8500796, 0.8988026, 0.9427165, 0.9830509, 1.0227012, 1.0609292, 1.0996952,
    1.1380109, 1.1775132, 1.2172373, 1.2586522, 1.3009033, 1.3453968, 1.3915172, 1.4410442,
    1.4936897, 1.5513263, 1.6130982, 1.680732, 1.7531744, 1.8322808, 1.9167477, 2.0084536,
    2.1058705, 2.2123719, 2.3279232, 2.4571333, 2.6002817, 2.7250218, 2.7991661, 2.8777067,
    2.9601331, 3.0513831, 3.1483724, 3.2537748, 3.3676942, 3.5055337, 3.6531467, 3.7868543,
    3.8955683,
)  # fmt: skip
_FINER = (
    4.0405115, 4.1036101, 4.1716416, 4.2580672, 4.3581196, 4.4437273, 4.5182486, 4.5830045,
    4.6511639, 4.7244524, 4.810392, 4.910689, 5.0186508, 5.1146691, 5.1916845, 5.2807848, 5.3927248,
    5.5194086, 5.620994, 5.717431, 5.847984, 5.9824663, 6.0942797, 6.2366139, 6.3816508, 6.5199306,
    6.6869163, 6.8442191, 7.0197263, 7.2083952, 7.4034863, 7.6143332, 7.8425659,
)  # fmt: skip
_BIAS = 1e-12  # the largest that passes, in units of the value
_GRID = 1 << 26  # steps in 1: searches agree far closer than that, and errors are of second order


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
    def of(cls, outside: float, inside: float, steps: int, width: int) -> "_Window":
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

    def moved(self, step: Floats, size: float) -> "_VarianceLimit":
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


@dataclass(frozen=True, eq=False)
class Table:
    """A verified window for one epsilon: exact probabilities, and what the codes stand for.

    Attributes:
        steps: n; the window has positions 0 .. n.
        width: how many codes the window holds; there are n + width codes.
        outside: P(one given code outside the window), in units of 2^-64.
        inside: P(one given code inside it), in units of 2^-64.
        decoded: (codes,) what the codes stand for, ascending and antisymmetric.
        points: (n + 1,) what the positions stand for: -1 to 1, ascending.
        moments: (n + 1,) the mean square of the decoded code at each position.
        variance: the worst, any position or even mixture of neighbours.
    """

    steps: int
    width: int
    outside: int
    inside: int
    decoded: Floats
    points: Floats
    moments: Floats
    variance: float

    @classmethod
    def of(cls, epsilon: float, steps: int, width: int) -> "Table":
        """The best table of a shape.

        Raises:
            ArithmeticError: the optimisation did not converge, or its result does not verify.
        """
        outside, inside = _window_weights(epsilon, steps, width)
        values, _ = optimal_values(outside / WORD, inside / WORD, steps, width)
        # Whole multiples of a grid, and exact sums of them: what machines round differently in the
        # search would make their reports those of other mechanisms.
        whole = [round(value * _GRID) for value in values.tolist()]
        means = _at_positions(whole, outside, inside, width)
        squares = _at_positions([number**2 for number in whole], outside, inside, width)
        last = means[-1]  # which stands for 1
        decoded = np.array([number * WORD / last for number in whole])
        points = np.array([mean / last for mean in means])
        moments = np.array([square * WORD / last**2 for square in squares])
        middles = (moments[:-1] + moments[1:]) / 2 - ((points[:-1] + points[1:]) / 2) ** 2
        worst = max((moments - points**2).max(), middles.max())
        table = cls(steps, width, outside, inside, decoded, points, moments, float(worst))
        table.verify(epsilon)
        return table

    def verify(self, epsilon: float) -> None:
        """Check what the claims rest on: exact mass and ratio, and points that span [-1, 1].

        Raises:
            ArithmeticError: a claim fails.
        """
        if self.steps * self.outside + self.width * self.inside != WORD:
            raise ArithmeticError("the probabilities of a window do not add up to 1")
        if not Fraction(self.inside, self.outside) <= exponential_bounds(epsilon)[0]:
            raise ArithmeticError("the ratio of a window's probabilities is above e^epsilon")
        ends = self.points[[0, -1]]
        if not (np.abs(ends - [-1, 1]) <= _BIAS).all() or not (np.diff(self.points) > 0).all():
            raise ArithmeticError("the positions of a window do not span [-1, 1] in order")


def _window_weights(epsilon: float, steps: int, width: int) -> tuple[int, int]:
    """P(a code outside, inside) in units of 2^-64: exact mass 1, ratio at most e^epsilon.

    `steps` is a power of 2, so it differs from 2^64 by a multiple of its divisor in `width`: some
    `outside` within `width` units of the least possible one leaves a multiple of `width`.
    """
    lower, _ = exponential_bounds(epsilon)
    outside = ceiling(WORD / (width * lower + steps))
    while (WORD - steps * outside) % width:
        outside += 1
    return outside, (WORD - steps * outside) // width


def _at_positions(numbers: list[int], outside: int, inside: int, width: int) -> list[int]:
    """The mean of a number of the code at each position of the window, in units of 2^-64."""
    sums = [*accumulate(numbers, initial=0)]
    return [
        outside * sums[-1] + (inside - outside) * (sums[first + width] - sums[first])
        for first in range(len(sums) - width)
    ]


@lru_cache(maxsize=128)
def best_table(epsilon: float) -> Table:
    """The table whose width is best.

    Takes some 0.02 s, once in a process for each epsilon.

    Args:
        epsilon: 0.05 .. 8, in nats.

    Raises:
        ArithmeticError: it does not verify.
    """
    if epsilon <= _SPLIT:
        return Table.of(epsilon, _COARSE, _COARSE - bisect(_COARSER, epsilon))
    return Table.of(epsilon, _FINE, 45 - bisect(_FINER, epsilon))
