"""What shuffling leaves of the privacy loss, bounded from both sides.

For one user against n - 1 others (see `pair_law`) the hockey-stick divergence of the shuffled
batches is (1/n) E[(L_1 + ... + L_n)_+], where every L_i is the loss (first - e^epsilon second) /
others at an independent draw from `others`. With the privacy blanket for `others` this bounds
every neighbouring pair of batches from above. From below we take batches that exist and a test
that tells them apart; any test will do, so neither dice nor a lattice can spoil the bound.

A test that tells shuffled batches of very many reports apart, evaluated without a walk.

A walk over a lattice rounds once for each user, relatively; where 10^10 users hide a loss of 10^-5
that is more than what sets the batches apart. This test looks at reports of two kinds alone, those
that are likelier given the one value and those that are likelier given the other, and of these at a
fixed number, drawn by lot: what it sees is binomial, whatever the number of users.
"""

import math
from functools import partial

import numpy as np

from mechanisms.channel import Floats
from mechanisms.privacy.divergence import require_batch, require_delta, require_loss
from mechanisms.privacy.lattice_walk import centring_tilt, first_step, places, repeated
from mechanisms.privacy.pair_law import LARGEST_LOSS, SLACK, PairLaw, ShuffleLaws
from mechanisms.privacy.search import gaussian_epsilon, private_end

_ALIKE = 2.0**-48  # relative difference of what roundings alone set apart
_WIDE = 4.5  # standard deviations of the number of reports that are of one of the two kinds
_FINE = 1 << 12  # cells for a standard deviation of what is seen, at most
_FAR = 12.0  # standard deviations beyond which nothing is added up
_SLACK = 1e-9  # more than all roundings below, relatively
FINE = 1 << 15  # cells for one delta
COARSE = 1 << 13  # cells for each step of a search for epsilon
_CLOSE = 3e-4  # relative width at which a search for epsilon among one-bit reports stops
_UNIT = 2.0**-53
_LEAST = math.ulp(0.0)
_LARGE = 1 << 25  # users, from which on a walk may be worth less than a test of two kinds
_STEEPEST = 600.0  # theta times the range of losses: beyond, weights would underflow


def thinned_delta(law: PairLaw, n: int, epsilon: float) -> float:
    """The advantage of the test, rounded down.

    The test keeps a fixed number m of reports of the two kinds, and answers "first" if those of the
    first kind are enough. Of m reports the user's is one with some chance w; given that, the first
    kind has Bin(m - 1, 1/2) reports and the user's, which is of it with chance r or 1 - r. So with
    x = m / 2 + y the likelihoods are 1 +- w (2 r - 1) 2 y / m times that of Bin(m, 1/2).

    Args:
        law: the user who differs, and the others.
        n: how many reports, at least 1.
        epsilon: at least 0, in nats.

    Returns:
        P(yes | first) - e^epsilon P(yes | second), never above the truth; 0 where the two kinds are
        not each other's mirror image, or hardly come.

    Source: the number of kept reports by Bernstein's inequality (Boucheron, Lugosi, Massart,
        "Concentration inequalities", 2013, Corollary 2.11); binomial probabilities by Robbins, "A
        remark on Stirling's formula", American Mathematical Monthly 62, 1955.
    """
    gap = np.where(law.shared, law.first - law.second, 0.0)
    for_, against = gap > 0, gap < 0
    first, second, others = (
        (float(p[for_].sum()), float(p[against].sum())) for p in (law.first, law.second, law.others)
    )
    mirrored = zip((first[0], first[1], others[0]), (second[1], second[0], others[1]), strict=True)
    if not (others[0] > 0 and all(abs(a - b) <= _ALIKE * max(a, b) for a, b in mirrored)):
        return 0.0
    mean = (n - 1) * sum(others)
    spread = math.sqrt(mean)
    kept, most = math.floor(mean - _WIDE * spread), math.ceil(mean + _WIDE * spread) + 1
    if not kept > _FAR * spread:
        return 0.0
    inside = 1 - 2 * math.exp(-(_WIDE**2) / 2 / (1 + _WIDE / (3 * spread)))
    here = sum(first) * inside * kept / most
    slope = here * (first[0] - first[1]) / sum(first) * 2 / kept * (1 - _SLACK)
    # (1 + slope y) - e^epsilon (1 - slope y), positive from `least` on.
    rise, fall = (1 + math.exp(epsilon)) * slope, math.expm1(epsilon)
    least = fall / rise * (1 + _SLACK)
    return float(rise * _beyond(kept, least) * (1 - _SLACK))


def _beyond(trials: int, least: float) -> float:
    """E (Y - least)_+ for Y + trials / 2 of Bin(trials, 1/2), rounded down."""
    deviation = math.sqrt(trials) / 2
    cell = max(1, math.floor(deviation / _FINE))
    # Y and half the trials are whole together, or both lie between.
    begin = math.ceil(least - trials / 2) + trials / 2
    edges = begin + cell * np.arange(math.ceil(_FAR * deviation / cell) + 1, dtype=np.float64)
    edges = edges[edges < trials / 4]
    if edges.size < 2 or not begin >= 0:
        return 0.0
    # Probabilities fall with Y: in a cell none is below that of its last place.
    last = _probabilities(trials, edges[1:] - 1)
    steps = edges[:-1] - least + (cell - 1) / 2  # their mean over a cell
    return float((cell * last * np.maximum(steps, 0)).sum())


def _probabilities(trials: int, beyond: Floats) -> Floats:
    """P(Bin(trials, 1/2) = trials / 2 + y), rounded down, by far less than _SLACK."""
    share = 2 * beyond / trials
    up, down = trials / 2 * (1 + share), trials / 2 * (1 - share)
    divergence = trials / 2 * ((1 + share) * np.log1p(share) + (1 - share) * np.log1p(-share))
    stirling = 1 / (12 * trials + 1) - 1 / (12 * up) - 1 / (12 * down)
    exponent = stirling - divergence + np.log(trials / (2 * math.pi * up * down)) / 2
    # Each logarithm is off by a unit of `share`, whose multiple is `beyond`.
    return np.asarray(np.exp(exponent - 2.0**-44 * (beyond + 1)) * (1 - 2.0**-40))


def dominated_delta(law: PairLaw, n: int, epsilon: float, cells: int = FINE) -> float:
    """The divergence of two shuffled batches, rounded up.

    Args:
        law: the user who differs, and the others.
        n: how many reports, at least 1.
        epsilon: at least 0, in nats.
        cells: resolution of the lattice.

    Returns:
        delta, never below the truth: what the lattice, the cut tails and rounding may have
        hidden is added. Exactly 0 only if no code favours `first` by more than e^epsilon.

    Raises:
        ValueError: n or epsilon is out of range.

    Source: Balle, Bell, Gascon, Nissim, "The privacy blanket of the shuffle model", CRYPTO 2019,
        Lemma 5.3, evaluated instead of bounded.
    """
    require_batch(n)
    require_loss(epsilon)
    ceiling = law.local_delta(epsilon)
    loss, chance, alone = law.losses(epsilon)
    # No sum is positive where no loss is; and where all losses are equal there is nothing to walk.
    if not (loss.size and loss.max() > 0 and np.ptp(loss) > 0):
        return min(ceiling, alone) if loss.size and loss.max() <= 0 else ceiling
    unit = float(np.abs(loss).max())  # losses may be as large as e^700
    loss = loss / unit
    tilt = centring_tilt(loss, chance, n)
    if not tilt * float(np.ptp(loss)) < _STEEPEST:
        return ceiling
    step, anchor, scale = first_step(loss, chance[None, :], tilt, cells)
    walk = repeated(step, n, cells)
    if not walk.relative < 1:  # losses that differ by little more than rounding: nothing to gain
        return ceiling
    place, error = places(walk, anchor)
    # The positive part of the sum, and the tilt undone: each taken where it is larger.
    value = np.maximum(place + error, 0) * np.exp(-tilt * np.maximum(place - error, 0))
    total = float(walk.rows[0] @ value) * math.exp(walk.relative)
    total += walk.noise * float(np.linalg.norm(value))
    # No value is above 1 / (e theta), and spreading has raised the tilted total by a little.
    total += walk.cut * max(1.01, 1.01 * float(walk.rows[0].sum())) / (math.e * tilt)
    if not total > np.finfo(float).tiny:  # lost to underflow, which no slack above accounts for
        return ceiling
    exponent = n * float(scale[0]) + math.log(total) + math.log(unit) - math.log(n)
    exponent += 16 * _UNIT * (abs(n * float(scale[0])) + place.size)
    # A result of 0 would claim more than was computed.
    together = max(math.exp(min(exponent, 0.0)), _LEAST) * (1 + 8 * _UNIT)
    return min(ceiling, alone + together)


def attained_delta(law: PairLaw, n: int, epsilon: float, cells: int = FINE) -> float:
    """The advantage of a test that tells two shuffled batches apart, rounded down.

    The test adds up the losses, rounded to the lattice with dice, and answers "first" if the sum
    is positive and never left the window. Of very many reports `thinned_delta` may say more.

    Args:
        law: the user who differs, and the others.
        n: how many reports, at least 1.
        epsilon: at least 0, in nats.
        cells: resolution of the lattice.

    Returns:
        P(yes | first) - e^epsilon P(yes | second), never above the truth; at least 0.

    Raises:
        ValueError: n or epsilon is out of range.
    """
    require_batch(n)
    require_loss(epsilon)
    if epsilon > LARGEST_LOSS:
        return 0.0  # always valid; such a loss is no guarantee anyway
    walked = _walked_delta(law, n, epsilon, cells)
    return walked if n < _LARGE else max(walked, thinned_delta(law, n, epsilon))


def _walked_delta(law: PairLaw, n: int, epsilon: float, cells: int) -> float:
    """As `attained_delta`, by the walk alone."""
    # Rounded up: below, it multiplies the test's false alarms.
    odds = math.exp(epsilon) * (1 + 4 * _UNIT)
    loss, chance, _ = law.losses(epsilon)
    shared, never = law.shared, law.others == 0
    surplus = law.first[never] * (1 - SLACK) - odds * law.second[never] * (1 + SLACK)
    # A code that the others never send gives its sender away: the test need not look further.
    alone = float(np.maximum(surplus, 0).sum()) * (1 - SLACK)
    if not (loss.size and loss.max() > 0 and np.ptp(loss) > 0):
        return alone
    loss = loss / float(np.abs(loss).max())
    tilt = centring_tilt(loss, chance, n)
    if not tilt * float(np.ptp(loss)) < _STEEPEST:
        return alone
    laws = np.stack([chance, law.first[shared], law.second[shared]])
    used = laws.any(axis=1)  # a value whose reports the others never send has no row
    step, anchor, scale = first_step(loss, laws[used], tilt, cells)
    if not np.isfinite(scale).all():
        return alone
    walk = repeated(step, n, cells)
    place, error = places(walk, anchor)
    # Any test will do, so it goes by the computed sign of the sum; only the tilt's weight is
    # uncertain, and `slack` has that.
    value = np.where(place > 0, np.exp(-tilt * np.maximum(place, 0)), 0.0)
    noise = walk.noise * float(np.linalg.norm(value))
    common = (n - 1) * float(scale[0])
    slack = walk.relative + tilt * error + 16 * _UNIT * (abs(common) + place.size + 4)
    sums = dict(zip(np.flatnonzero(used).tolist(), walk.rows @ value, strict=True))
    scales = dict(zip(np.flatnonzero(used).tolist(), scale, strict=True))
    yes = _scaled(sums.get(1, 0.0) - noise, common + scales.get(1, 0.0) - slack)
    false = _scaled(sums.get(2, 0.0) + noise, common + scales.get(2, 0.0) + slack)
    return alone + max(0.0, yes - odds * false)


def _scaled(value: float, exponent: float) -> float:
    """value e^exponent for probabilities, 0 where the value is lost in the noise."""
    return math.exp(min(math.log(value) + exponent, 0.0)) if value > 0 else 0.0


def upper_delta(laws: ShuffleLaws, n: int, epsilon: float, cells: int = FINE) -> float:
    """No neighbouring shuffled batches differ by more: the worst one, or the dominating laws'."""
    require_batch(n)
    require_loss(epsilon)
    # One report alone keeps to such an epsilon, and shuffling only processes reports.
    if epsilon >= laws.epsilon:
        return 0.0
    if bits := laws.exactly:
        return bits.delta(n, epsilon, cells)[1]
    return max(dominated_delta(law, n, epsilon, cells) for law in laws.dominating)


def lower_delta(laws: ShuffleLaws, n: int, epsilon: float, cells: int = FINE) -> float:
    """Some neighbouring shuffled batches differ by this much: the best of the attained laws."""
    require_batch(n)
    require_loss(epsilon)
    if epsilon >= laws.epsilon:  # as above; of losses far beyond, e^epsilon is no double
        return 0.0
    if bits := laws.exactly:
        return bits.delta(n, epsilon, cells)[0]
    return max((attained_delta(law, n, epsilon, cells) for law in laws.attained), default=0.0)


def simple_delta(laws: ShuffleLaws, n: int, epsilon: float) -> float:
    """As `lower_delta`, with few of the batches: fast, and for one-bit reports mostly the worst."""
    bits = laws.exactly
    return bits.attained(n, epsilon) if bits else lower_delta(laws, n, epsilon, COARSE)


def delta_bounds(laws: ShuffleLaws, n: int, epsilon: float) -> tuple[float, float]:
    """delta of a shuffled batch at a given epsilon, from below and from above.

    Args:
        laws: of the mechanism.
        n: how many reports are shuffled, at least 1.
        epsilon: at least 0, in nats.

    Returns:
        (lower, upper): the truth lies between; upper is 0 where one report alone meets epsilon.

    Raises:
        ValueError: n or epsilon is out of range.
    """
    upper = upper_delta(laws, n, epsilon)
    return min(lower_delta(laws, n, epsilon), upper), upper


def epsilon_bounds(laws: ShuffleLaws, n: int, delta: float) -> tuple[float, float]:
    """epsilon of a shuffled batch at a given delta, from below and from above.

    Args:
        laws: of the mechanism.
        n: how many reports are shuffled, at least 1.
        delta: in (0, 1).

    Returns:
        (lower, upper): batches exist that lose `lower` (delta_lower(lower) >= delta, or 0), and
        none lose more than `upper` (delta_upper(upper) <= delta).

    Raises:
        ValueError: n or delta is out of range.
    """
    require_batch(n)
    require_delta(delta)
    if laws.exactly:
        return _one_bit_bounds(laws, n, delta)
    upper = _largest_upper(laws, n, delta)
    if not laws.attained:
        return 0.0, upper
    # Any of them is a valid lower bound; a search for each would cost as much again.
    best = max(laws.attained, key=PairLaw.spread)
    top = min(upper, LARGEST_LOSS)
    if upper == math.inf and attained_delta(best, n, top, COARSE) >= delta:
        return top, upper
    lower = private_end(
        lambda epsilon: attained_delta(best, n, epsilon, COARSE),
        delta,
        private=top,
        exposed=0.0,
        # The bounds of shuffled batches mostly lie within a part in a thousand of each other.
        guess=top * (1 - 1e-3),
    )[1]
    return min(lower, upper), upper


def _one_bit_bounds(laws: ShuffleLaws, n: int, delta: float) -> tuple[float, float]:
    """As `epsilon_bounds`, for reports of one bit."""
    local = laws.epsilon
    lower = private_end(partial(simple_delta, laws, n), delta, local, 0.0, local / 2)[1]
    # A batch that exists says where to look, so that the worst is looked for once or twice only.
    at, guess = partial(upper_delta, laws, n, cells=COARSE), lower * (1 + 0.7 * _CLOSE)
    upper = private_end(at, delta, local, lower, guess, _CLOSE)[0]
    return min(lower, upper), upper


def _largest_upper(laws: ShuffleLaws, n: int, delta: float) -> float:
    """The least epsilon found at which every dominating law meets delta."""
    reached = 0.0
    # The widest law first: for most others one evaluation then stands in for a search.
    for law in sorted(laws.dominating, key=PairLaw.spread, reverse=True):
        if reached and dominated_delta(law, n, reached, COARSE) <= delta:
            continue
        guess = gaussian_epsilon(law.spread() / math.sqrt(n), delta)
        limit = laws.epsilon if laws.epsilon < math.inf else _unbounded(law, n, delta)
        at = partial(dominated_delta, law, n, cells=COARSE)
        reached = private_end(at, delta, limit, reached, guess)[0]
        if reached == math.inf:
            break
    return reached


def _unbounded(law: PairLaw, n: int, delta: float) -> float:
    """An epsilon that meets delta when no report's loss is bounded, or infinity if none does."""
    epsilon = 1.0
    while dominated_delta(law, n, epsilon, COARSE) > delta:
        epsilon *= 2
        if epsilon > 512:
            return math.inf
    return epsilon
