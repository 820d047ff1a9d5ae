"""The least noise that meets a target: how the levels share the budget, and which law serves.

For Gaussian noise a level costs its changes over its variance, so the weighted sum of variances is
least where V is proportional to sqrt(changes) / weight. For Laplace noise it costs its changes
times the slope, which is then proportional to (weight^2 / changes)^(1/3). Either family is composed
exactly and scaled until it meets the target, and the smaller error is taken.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import product
from typing import NamedTuple

from mechanisms.channel import Neighbours, require_epsilon
from mechanisms.counters.dummies import (
    Beside,
    Correlated,
    Dummies,
    Independent,
    Seen,
    moved,
    telling,
)
from mechanisms.counters.levels import Layout, Level
from mechanisms.counters.masks import ENDS, HALF, MASKED, MOST_DUMMIES, THINNEST, masked
from mechanisms.counters.noise import (
    LARGEST_MU,
    LEAST_SIGMA,
    STEEPEST,
    Gaussian,
    Laplace,
    ShufflerNoise,
    nearly,
)
from mechanisms.counters.price import Charge, Price, changes, require_neighbours
from mechanisms.privacy.divergence import require_delta
from mechanisms.privacy.loss_sums import CELLS, COARSE
from mechanisms.privacy.search import gaussian_mu, private_end
from mechanisms.privacy.tilted_sum import SpreadError

_CLOSE = 5e-4  # relative, of a scale
_FEW = 256  # changes up to which Laplace noise may be the better one
_LEAST_LEFT = 0.3  # of epsilon, for the noise of a sum whose digits are masked
_STEPS = 12  # of growing size, from what meets a target in doubles to what does by its tables
_SMOOTH = 16.0  # a variance from which on Gaussian noise of whole numbers is as that of any
_FINE_SIGMA = 128.0  # steps in a standard deviation of one noise in place of several
# Of slopes: what is lost in rounding up, next to nothing for one law and more where several are
# composed. And of ends.
_SLACKS = (1e-12, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
_SPARED_ENDS = (1e-6, 0.01, 0.1)
_NARROWER = 4.0  # times than is guessed: noise of the same laws is hardly ever
_LARGEST_DELTA = 0.1
_ABOUT = 1.1  # times the variance that a search begins with: it comes to less, or about that
_ROUGH = 3e-3  # relative, of an epsilon by which laws are compared
SHARE = 0.01  # of epsilon and delta: for what stands beside a statistic


def least_noise(
    levels: Sequence[Level],
    neighbours: Neighbours,
    epsilon: float,
    delta: float,
    correlated: bool = False,
    most_dummies: float = math.inf,
    beside: Sequence[Level] = (),
    share: float = SHARE,
    most_masked: float = MOST_DUMMIES,
    releases: int = 1,
) -> Dummies:
    """The dummies with the least variance of a weighted sum of one counter of each level.

    Args:
        levels: the footprint.
        neighbours: what is to look alike.
        epsilon: of all counters together, in nats.
        delta: in (0, 1).
        correlated: whether dummies of one level may depend on those of another; for digits.
        most_dummies: how many there may be on average, nulls left out.
        beside: levels that users raise besides and that are no part of that sum, say what was cut.
        share: of epsilon and of delta, for the noise of `beside`, four or sixteen times as much if
            that is too little; the sum's is solved so that both together meet the target.
        most_masked: how many dummies there may be where they are correlated.
        releases: of how many such releases about one user the price is to count; the target is
            that of one. The least error of one is often Laplace noise, and at the same price of
            many Gaussian noise errs less.

    Returns:
        The dummies, of the levels and of those beside them: the target was met when it was
        evaluated.

    Raises:
        ValueError: an argument is out of range, or no noise of so few dummies meets the target.

    >>> least_noise([Level(1, 1)], "add or remove", epsilon=1.0, delta=1e-6)
    Independent(laws=(Laplace(mu=14, slope=0.999999999999),))
    """
    require_epsilon(epsilon)
    require_delta(delta)
    require_neighbours(neighbours)
    shape, more = Layout(tuple(levels)).levels, tuple(beside)
    if not 0 < share < 1:
        raise ValueError(f"share must lie in (0, 1), not {share}")
    if not correlated and most_dummies == math.inf:
        # As many dummies as it takes: metrics over other domains have the same, solved once.
        shape, more, most_masked = telling(shape), telling(more), math.inf
    limits = most_dummies, most_masked
    return _least_noise(
        shape, more, neighbours, epsilon, delta, correlated, share, releases, limits
    )


@lru_cache(maxsize=32)
def _least_noise(
    shape: tuple[Level, ...],
    more: tuple[Level, ...],
    neighbours: Neighbours,
    epsilon: float,
    delta: float,
    correlated: bool,
    share: float,
    releases: int,
    limits: tuple[float, float],
) -> Dummies:
    """As `least_noise`."""
    most_dummies, most_masked = limits
    extra, share = _alone(more, neighbours, epsilon, delta, share) if more else (None, share)
    left = 1.0 if extra is None else 1 - share
    target = _Target(shape, neighbours, epsilon, delta, extra, more, left)
    error = partial(target.error, releases=releases)
    besides = 0 if extra is None else extra.number(more)
    candidates = [target.gaussian(), target.laplace()]
    if correlated:
        candidates.append(target.correlated(min(most_masked, most_dummies) - besides))
    made = [family for family in candidates if family is not None]

    def few(families: Sequence[_Family]) -> list[_Family]:
        return [
            family for family in families if family.likely.number(shape) + besides <= most_dummies
        ]

    least = _least(few(made), error)
    # It takes a search of its own, and often could not err less.
    beaten = error(least) if least is not None and releases == 1 else math.inf
    if (steep := target.steep_laplace(beaten)) is not None:
        made.append(steep)
        steeper = _least(few([steep]), error)
        if steeper is not None and (least is None or error(steeper) < error(least)):
            least = steeper
    if not made:
        raise ValueError(
            f"epsilon {epsilon} at delta {delta} needs more than {LARGEST_MU:,} dummies a counter; "
            "let a user raise fewer counters, or choose a larger epsilon"
        )
    if least is None:
        needed = min(family.likely.number(shape) + besides for family in made)
        raise ValueError(
            f"these counters need {needed:,} dummies and may have {most_dummies:,}; have "
            "fewer counters, let a user raise fewer of them, or choose a larger epsilon"
        )
    return least if extra is None else Beside((least, extra))


def alike(
    dummies: Dummies,
    levels: Sequence[Level],
    neighbours: Neighbours,
    epsilon: float,
    delta: float,
    guess: float = 1.0,
) -> Dummies:
    """Dummies of the same laws that meet another target: all of them so many times as wide.

    Args:
        dummies: of all levels.
        levels: the footprint, with what stands beside the statistic.
        neighbours, epsilon, delta: as of `least_noise`.
        guess: how many times, about.

    Raises:
        ValueError: no such noise meets the target.

    >>> alike(Independent((Laplace(14, 1.0),)), [Level(1, 1)], "add or remove", 0.5, 1e-6, 2.0)
    Independent(laws=(Laplace(mu=27, slope=0.5),))
    """
    require_epsilon(epsilon)
    return _alike(dummies, telling(levels), neighbours, epsilon, delta, guess)


@lru_cache(maxsize=32)
def _alike(
    dummies: Dummies,
    levels: tuple[Level, ...],
    neighbours: Neighbours,
    epsilon: float,
    delta: float,
    guess: float,
) -> Dummies:
    """As `alike`."""
    target = _Target(levels, neighbours, epsilon, delta)
    family = target.alike(dummies, guess)
    made = None if family is None else family.certified()
    if made is None:
        raise ValueError(f"no such noise meets epsilon {epsilon} at delta {delta}")
    return made


def errs_no_more(
    dummies: Dummies,
    levels: Sequence[Level],
    neighbours: Neighbours,
    epsilon: float,
    delta: float,
    beside: Sequence[Level] = (),
    share: float = SHARE,
    most_dummies: float = math.inf,
    releases: int = 1,
) -> bool:
    """Whether given dummies err no more than what a search begins with, which is closed forms.

    That they meet the target is not looked at.

    Args:
        dummies: of the levels and of those beside them.
        levels, neighbours, epsilon, delta, beside, share, most_dummies, releases: as of
            `least_noise`. Of several releases what errs less together may err more in one: dummies
            are then held to the larger one of the closed forms.

    >>> target = [Level(1, 1)], "add or remove", 1.0, 1e-6
    >>> [errs_no_more(Independent((Laplace.ending(s, 1e-6),)), *target) for s in (1.0, 0.9)]
    [True, False]
    """
    shape, more = Layout(tuple(levels)).levels, tuple(beside)
    aside = _starts(more, neighbours, share * epsilon, share * delta) if more else []
    while more and not aside:
        if not 4 * share < 0.5:
            return False
        share *= 4
        aside = _starts(more, neighbours, share * epsilon, share * delta)
    left = 1 - share if more else 1.0
    few = [
        one
        for one in _starts(shape, neighbours, left * epsilon, left * delta)
        if one.number(shape) <= most_dummies
    ]
    own, others = ([level.weight for level in part] for part in (shape, more))
    errors = [one.variance(own, rough=True) for one in few]
    most = (min if releases == 1 else max)(errors, default=math.inf)
    besides = min((one.variance(others, rough=True) for one in aside), default=0.0)
    return (
        dummies.number((*shape, *more)) <= most_dummies
        and dummies.variance(own, rough=True) <= _ABOUT * most
        and dummies.variance([*[0.0] * len(own), *others], rough=True) <= _ABOUT * besides
    )


def errs_as_alike(
    dummies: Dummies,
    like: Dummies,
    levels: Sequence[Level],
    beside: int,
    met: tuple[float, float],
    target: tuple[float, float],
) -> bool:
    """Whether given dummies err no more than `alike` begins with.

    Args:
        dummies: that are to meet a target, which is not looked at.
        like: those that are to be widened.
        levels: of either, with so many that stand beside the statistic.
        met, target: epsilon and delta, of `like` and of `dummies`.
    """
    factor = max(met[0] / target[0], gaussian_mu(*met) / gaussian_mu(*target))
    start, own = like.widened(factor), len(levels) - beside
    weights = [level.weight for level in levels]
    parts = weights[:own], [*[0.0] * own, *weights[own:]]
    return all(
        dummies.variance(part, rough=True) <= _ABOUT * start.variance(part, rough=True)
        for part in parts
    )


def _starts(
    levels: tuple[Level, ...], neighbours: Neighbours, epsilon: float, delta: float
) -> list[Dummies]:
    """Noise of closed forms that meets a target, or does nearly."""
    target = _Target(levels, neighbours, epsilon, delta)
    laplace = target.slopes(epsilon * (1 - _SLACKS[-1]), delta * (1 - _SPARED_ENDS[-1]))
    gaussian = target.scaled()
    scaled = None if gaussian is None else gaussian.of(gaussian.guess)
    return [one for one in (laplace, scaled) if one is not None]


@lru_cache(maxsize=32)
def _alone(
    levels: tuple[Level, ...], neighbours: Neighbours, epsilon: float, delta: float, share: float
) -> tuple[Dummies, float]:
    """What stands beside a statistic, which is the same beside each that is compared; its share.

    It takes a larger share where the one that is asked for is too little for any noise.
    """
    while True:
        try:
            return least_noise(levels, neighbours, share * epsilon, share * delta), share
        except ValueError:
            if not 4 * share < 0.5:
                raise
            share *= 4


class _Scaled(NamedTuple):
    """Gaussian noise of levels by one scale of their variances.

    Attributes:
        of: a scale -> the noise.
        guess: the scale that meets the target, nearly.
        price: of the levels at scale 1, as the square of a mu.
        least: the least variance at scale 1.
        ends: the part of delta that each end of a noise takes.
    """

    of: Callable[[float], Dummies]
    guess: float
    price: float
    least: float
    ends: float


class _Family(NamedTuple):
    """Noise of one family that all but meets a target."""

    likely: Dummies
    certified: Callable[[], Dummies | None]


def _least(families: Sequence[_Family], error: Callable[[Dummies], float]) -> Dummies | None:
    """The certified dummies with the least error.

    To certify takes tables of whole numbers and fine lattices: it is not done for those that would
    err more anyway.
    """
    likely = [error(family.likely) for family in families]
    best, least = None, math.inf
    for expected, place in sorted((expected, i) for i, expected in enumerate(likely)):
        if expected < least and (made := families[place].certified()) is not None:
            variance = error(made)
            best, least = (made, variance) if variance < least else (best, least)
    return best


@dataclass(frozen=True)
class _Target:
    """What is to be met, and families of noise that meet it; None where a family does not."""

    levels: tuple[Level, ...]
    neighbours: Neighbours
    epsilon: float
    delta: float
    extra: Dummies | None = None  # what is paid for besides
    more: tuple[Level, ...] = ()  # of which levels
    left: float = 1.0  # about what share of epsilon and delta that leaves

    @cached_property
    def beside(self) -> list[Charge]:
        """What is paid for besides, nearly: tables are long where there is little to pay with."""
        return self._besides(nearly)

    def _besides(self, seen: Seen) -> list[Charge]:
        return [] if self.extra is None else self.extra.charges(self.more, self.neighbours, seen)

    @cached_property
    def times(self) -> list[int]:
        """How many counters of each level may change."""
        return [changes(lv.slots, lv.counters, self.neighbours) for lv in self.levels]

    def error(self, dummies: Dummies, releases: int) -> float:
        """The variance of the weighted sum, at the same price of so many releases together."""
        variance = dummies.variance([level.weight for level in self.levels], rough=True)
        if releases == 1:
            return variance
        charges = dummies.charges(self.levels, self.neighbours, nearly)
        several = [one.repeated(releases) for one in (*charges, *self.beside)]
        price = Price(several, self.neighbours, COARSE)
        # The standard deviation goes with one over epsilon, or nearly so.
        together = price.met(min(releases * self.delta, _LARGEST_DELTA), _ROUGH)
        return variance * together**2

    def scaled(self) -> _Scaled | None:
        """Variances in proportion to sqrt(changes) / weight, and about how large they are."""
        shape = [
            math.sqrt(t) / abs(lv.weight) for t, lv in zip(self.times, self.levels, strict=True)
        ]
        price = sum(t / v for t, v in zip(self.times, shape, strict=True))
        guess = price / gaussian_mu(self.left * self.epsilon, self.left * self.delta) ** 2
        ends = ENDS * self.delta / sum(self.times)
        longest = math.sqrt(2 * guess * max(shape) * max(-math.log(ends), 1))
        if not 1.1 * longest + 2 < LARGEST_MU:
            return None

        def scaled(scale: float) -> Dummies:
            sigmas = (max(math.sqrt(scale * v), LEAST_SIGMA) for v in shape)
            return Independent(tuple(Gaussian.ending(sigma, ends) for sigma in sigmas))

        return _Scaled(scaled, guess, price, min(shape), ends)

    def gaussian(self) -> _Family | None:
        """Gaussian noise, of which the least is searched for."""
        if (begun := self.scaled()) is None:
            return None
        scaled, guess, price, least, ends = begun

        def delta_at(scale: float) -> float:
            """Of one noise in place of all: what Gaussian levels cost together, but for steps."""
            sigma = math.sqrt(scale / price)
            if not scale * least >= _SMOOTH:
                return self._delta(scaled(scale))
            steps = math.ceil(_FINE_SIGMA / sigma)
            law = Gaussian.ending(steps * sigma, ends).nearly(steps)
            paid = Price([Charge(law, 1, 1), *self.beside], self.neighbours, COARSE)
            return paid.upper(self.epsilon) + ENDS * self.delta

        high = guess * 1.02
        while not delta_at(high) <= self.delta:
            high *= 1.5
        return self._searched(scaled, high, 0.0, guess, delta_at)

    def laplace(self) -> _Family | None:
        """Slopes that add up to epsilon, so that nothing but the ends takes from delta."""

        def made(slack: float, ends: float) -> Dummies | None:
            total = self.left * self.epsilon * (1 - slack)
            return self.slopes(total, self.left * self.delta * (1 - ends))

        def certified() -> Dummies | None:
            for slack, ends in product(_SLACKS, _SPARED_ENDS):
                dummies = made(slack, ends)
                near = self._delta(dummies, cells=CELLS) <= self.delta
                if near and self._exact(dummies) <= self.delta:
                    return dummies
            return None

        first = made(_SLACKS[0], _SPARED_ENDS[0])
        return None if first is None else _Family(first, certified)

    def steep_laplace(self, beaten: float) -> _Family | None:
        """Slopes that add up to more than epsilon: all of them are seldom lost at once.

        Args:
            beaten: an error of one release; noise that could not have a lesser one is none.
        """

        def scaled(scale: float) -> Dummies | None:
            return self.slopes(scale * self.epsilon, HALF * self.delta)

        def err(scale: float) -> float:
            made = scaled(scale)
            return 0.0 if made is None else self.error(made, 1)

        if sum(self.times) == 1 and not self.beside:
            return None
        low = self.left * (1 - _SLACKS[-1])
        if 0 < beaten <= (first := err(low)) < math.inf:
            # Variances go with the square of the slope, or fall faster.
            equal = low * math.sqrt(first / beaten)
            while err(equal) < beaten:
                # An ulp at the least, as errors that rounding alone sets apart may ask for.
                equal = min(low + 0.9 * (equal - low), math.nextafter(equal, low))
            if not self._delta(scaled(equal)) <= self.delta:
                return None
        met = self._delta(scaled(low)) <= self.delta
        return self._searched(scaled, low, 8.0, 1.1 * self.left) if met else None

    def correlated(self, most: float) -> _Family | None:
        """One Laplace noise in the sum of digits, and masks that leave most of epsilon to it.

        Args:
            most: dummies that there may be.
        """
        (slots, counters, _), first = self.levels[0], self.levels[0]
        weights = tuple(int(level.weight) for level in self.levels)
        if not (weights[0] == 1 and {(slots, counters)} == {level[:2] for level in self.levels}):
            raise ValueError("correlated dummies are for digits, of which the first has weight 1")
        span, reach = moved(weights, first, self.neighbours)
        times = changes(slots, reach, self.neighbours)
        end = HALF * self.delta / times
        longest = (1 - 2 * math.log(end) * times / self.epsilon) * span
        if not longest < LARGEST_MU:
            return None
        usual = masked(self.levels, self.neighbours, self.epsilon, self.delta)
        # The noise of the sum takes more than is reckoned with, where masks leave less to it.
        thinned = (0.98 * most - 1.5 * usual.total) / usual.masks
        if not thinned > MASKED / THINNEST:
            return None
        mask = Gaussian.ending(min(1.0, thinned) * usual.sigma, usual.ends)
        # What tables round off of a sum's noise counts e^epsilon times: beyond 17 or so it is more
        # than all of delta, however much noise there is.
        fewest = Laplace.ending(self.epsilon / (times * span), end, span)
        if not self.epsilon < math.log(HALF * self.delta / max(fewest.rounded(span), 2.0**-64)):
            return None

        def scaled(share: float) -> Dummies:
            slope = share * self.epsilon / (times * span)
            return Correlated(weights, Laplace.ending(slope, end, span), mask)

        if not self._delta(scaled(_LEAST_LEFT)) <= self.delta:
            return None
        return self._searched(scaled, _LEAST_LEFT, 1.0, 0.94 * self.left)

    def alike(self, dummies: Dummies, guess: float) -> _Family | None:
        """Given dummies, so many times as wide."""

        def scaled(factor: float) -> Dummies:
            return dummies.widened(factor)

        high = 1.02 * guess
        while not self._delta(scaled(high)) <= self.delta:
            high *= 1.5
        return self._searched(scaled, high, guess / _NARROWER, guess)

    def slopes(self, total: float, ends: float) -> Dummies | None:
        """Laplace noise whose slopes, over all changes, add up to a total."""
        rows = list(zip(self.times, self.levels, strict=True))
        shape = [(level.weight**2 / t) ** (1 / 3) for t, level in rows]
        unit = total / sum(t * s for t, s in zip(self.times, shape, strict=True))
        slopes, end = [min(unit * s, STEEPEST) for s in shape], ends / sum(self.times)
        if not (sum(self.times) <= _FEW and -math.log(end) / min(slopes) < LARGEST_MU - 2):
            return None
        return Independent(tuple(Laplace.ending(slope, end) for slope in slopes))

    def _delta(self, dummies: Dummies | None, seen: Seen = nearly, cells: int = COARSE) -> float:
        """An upper end of what is paid for; of the laws in doubles, nearly."""
        if dummies is None:
            return 1.0
        charges = dummies.charges(self.levels, self.neighbours, seen)
        beside = self.beside if seen is nearly else self._besides(seen)
        try:
            return Price([*charges, *beside], self.neighbours, cells).upper(self.epsilon)
        except SpreadError:  # of one family's noise: another's may be had
            return 1.0

    def _exact(self, dummies: Dummies | None) -> float:
        """The same of the tables that dummies are drawn from."""
        return self._delta(dummies, ShufflerNoise.seen, CELLS)

    def _searched(
        self,
        scaled: Callable[[float], Dummies | None],
        private: float,
        exposed: float,
        guess: float,
        delta_at: Callable[[float], float] | None = None,
    ) -> _Family | None:
        """The least noise of a family: searched for in doubles, met by its tables."""
        reached = delta_at or (lambda scale: self._delta(scaled(scale)))
        private_scale = private_end(reached, self.delta, private, exposed, guess, _CLOSE)[0]

        def certified() -> Dummies | None:
            # What tables add to doubles is mostly nothing, and seldom more than a few steps; where
            # it is, further steps that do not grow would take for ever to make up for it.
            scale, step = private_scale, _CLOSE
            for _ in range(_STEPS):
                made = scaled(scale)
                if made is None or self._exact(made) <= self.delta:
                    return made
                scale *= 1 + step if private > exposed else 1 / (1 + step)
                step *= 2
            return None

        likely = scaled(private_scale)
        return None if likely is None else _Family(likely, certified)
