"""One user's report among messages that fall on all bins alike: dummies, and other users' lies.

From above: every other user's k-ary response is, with the blanket's probability, a uniform
message; the rest are given away, and so is how many uniform messages there are. From below: a
batch whose other users all hold a third value, told apart by what falls into the two bins.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.privacy.binomial_edges import binomial_sum, seldom_below
from mechanisms.privacy.blanket import COARSE, dominated_delta
from mechanisms.privacy.divergence import require_batch, require_delta, require_loss
from mechanisms.privacy.dummy_laws import DummyLaw, least_poisson_mean
from mechanisms.privacy.one_bit import BitTest
from mechanisms.privacy.pair_law import PairLaw
from mechanisms.privacy.search import gaussian_epsilon, private_end

_NEGLIGIBLE = 1e-4  # of delta: for there being fewer uniform messages than we count on
_LEAST_TAIL = 1e-30
_FURTHER_TAIL = 1e-3  # a second number of messages, which is seldom missed
_LARGEST_EPSILON = 512.0
_FARTHEST = 12.0  # beyond, upper bounds are those at this epsilon
_STEEPEST = 700.0  # beyond, no lower bound is sought
_NUMBERS = 17  # of dummies, that are looked at in one batch
_SLACK = 1e-9  # far more than the relative error of scipy's binomial tails


@dataclass(frozen=True)
class UniformCrowd:
    """A batch as its accountant sees it.

    Attributes:
        bins: d, at least 2.
        users: how many send dummies, and answer by k-ary response; at least 1.
        whole: how many uniform dummies each of them sends for certain.
        chance: the probability of one more, in [0, 1).
        miss: P(a report names a given wrong bin), in [0, 1/d); 0 if reports are true.

    >>> crowd = UniformCrowd(bins=50, users=10_000, whole=10, chance=0.0)
    >>> lower, upper = crowd.delta(0.1)
    >>> f"{lower:.4e} {upper:.4e}"
    '7.1635e-06 7.1639e-06'
    """

    bins: int
    users: int
    whole: int
    chance: float
    miss: float = 0.0

    def __post_init__(self) -> None:
        if not self.bins >= 2:
            raise ValueError(f"there must be at least 2 bins, not {self.bins}")
        require_batch(self.users)
        if not (self.whole >= 0 and 0 <= self.chance < 1 and 0 <= self.miss < 1 / self.bins):
            raise ValueError("whole must be at least 0, chance in [0, 1), miss in [0, 1 / bins)")

    @property
    def keep(self) -> float:
        """P(a report names its user's bin)."""
        return 1 - (self.bins - 1) * self.miss

    @property
    def local_epsilon(self) -> float:
        """What one report loses without the crowd."""
        return math.log(self.keep / self.miss) if self.miss > 0 else math.inf

    def local_delta(self, epsilon: float) -> float:
        """The hockey-stick divergence of one report without the crowd, rounded up."""
        surplus = self.keep * (1 + _SLACK) - math.exp(min(epsilon, _STEEPEST)) * self.miss
        return 0.0 if epsilon >= self.local_epsilon else min(1.0, max(surplus, 0.0))

    @cached_property
    def _uniform(self) -> tuple[int, list[tuple[int, float]]]:
        """How many uniform messages there are besides the user's: certain ones, and trials."""
        trials = [(self.users, self.chance), (self.users - 1, self.bins * self.miss)]
        return self.users * self.whole, [(n, p) for n, p in trials if n > 0 and p > 0]

    def crowds(self, tail: float) -> list[tuple[float, PairLaw, int]]:
        """Laws with a number of messages, and the probability that there are fewer uniform ones."""
        certain, trials = self._uniform
        # The one law with a random number of messages that is a pair law without a loss.
        if certain == 0 and len(trials) == 1:  # each trial is a message, or a silent one
            return [(0.0, self._law(trials[0][1]), trials[0][0] + 1)]
        if not trials:
            return [(0.0, self._law(1.0), certain + 1)]
        crowds = []
        for part in (tail, _FURTHER_TAIL):
            counted = certain + sum(seldom_below(n, p, part / len(trials)) for n, p in trials)
            crowds.append((part, self._law(1.0), counted + 1))
        return crowds

    def _law(self, present: float) -> PairLaw:
        """The user's report among others of which each is a uniform message, or none."""
        rest = self.bins - 2
        share = present / self.bins
        return PairLaw(
            np.array([self.keep, self.miss, rest * self.miss, 0.0]),
            np.array([self.miss, self.keep, rest * self.miss, 0.0]),
            np.array([share, share, rest * share, 1 - present]),
        )

    def upper_delta(self, epsilon: float, tail: float) -> float:
        """No two neighbouring batches differ by more.

        Args:
            epsilon: at least 0, in nats.
            tail: a probability that is added to delta in exchange for a sure number of messages.
        """
        require_loss(epsilon)
        if epsilon >= self.local_epsilon:
            return 0.0
        met = min(epsilon, _FARTHEST)  # delta falls with epsilon, though not its lattice sums
        total, before = 0.0, 1.0
        for chance, law, messages in self.crowds(tail):
            now = dominated_delta(law, messages, met, COARSE)
            total += chance * max(before - now, 0.0)
            before = now
        return min(1.0, total + before)

    def lower_delta(self, epsilon: float) -> float:
        """Two batches that exist differ by at least this much.

        All others hold a third value, so of t messages in the two bins those not from the user are
        in either with probability 1/2; true reports may name either bin, too, and only shift. The
        likelihood ratio is linear in the first bin's count, given t: the best test is a threshold.
        Any threshold gives a lower bound, so rounding does not matter. Others who lie have no
        third value among two: there all of them hold one of the pair.
        """
        require_loss(epsilon)
        if self.bins == 2 and self.miss:
            return self._lower_of_two(epsilon) if epsilon <= _STEEPEST else 0.0
        odds = math.exp(min(epsilon, _STEEPEST))
        gain, loss = self.keep - odds * self.miss, odds * self.keep - self.miss
        if epsilon > _STEEPEST or not gain > 0:
            return 0.0
        law = self._landed
        total = law.first + np.arange(law.pmf.size + 1)  # in both bins, with the user's own
        within, without = np.insert(law.pmf, 0, 0.0), np.append(law.pmf, 0.0)
        absent = (odds - 1) * max(1 - self.keep - self.miss, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            level = total * (absent * without / (2 * within) + loss) / (gain + loss)
        level = np.where(within > 0, np.ceil(level), math.inf)
        # The user's own message is in the first bin, in the second, or in neither: of the rest, one
        # fewer has to fall into the first bin, as many, or as many of one more.
        yes = gain * within * _at_least(level - 1, total - 1)
        no = loss * within * _at_least(level, total - 1)
        no += absent * without * _at_least(level, total)
        slack = _SLACK + law.relative
        errors = odds * law.missing + (1 + odds) * law.distance
        return max(0.0, float(yes.sum()) * (1 - slack) - float(no.sum()) * (1 + slack) - errors)

    def _lower_of_two(self, epsilon: float) -> float:
        """As `lower_delta`, for two bins and others who lie: a message is a bit."""
        law = binomial_sum((self.users, self.chance))
        ends = np.unique(np.linspace(0, law.pmf.size - 1, _NUMBERS).astype(np.int64))
        upto = law.pmf.cumsum()[ends] * (1 - law.relative)
        first, second = (self.miss, self.keep), (self.keep, self.miss)
        test, total = BitTest(first, second, epsilon), 0.0
        # Fewer dummies hide less: for every number up to an end we take that of the end.
        for end, chance in zip(ends.tolist(), np.diff(upto, prepend=0.0), strict=True):
            dummies = (self.users * self.whole + law.first + end, (0.5, 0.5))
            shown = (test.delta((self.users - 1, count), dummies)[0] for count in (first, second))
            total += max(float(chance) * (1 - _SLACK), 0.0) * max(shown)
        return total

    @cached_property
    def _landed(self) -> DummyLaw:
        """How many messages fall into either bin, besides the user's."""
        certain, trials = self._uniform
        share = 2 / self.bins
        return binomial_sum((certain, share), *((n, p * share) for n, p in trials))

    def delta(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) between which delta lies, if these users are all there are."""
        lower = self.lower_delta(epsilon)
        upper = self.upper_delta(epsilon, max(_NEGLIGIBLE * lower, _LEAST_TAIL))
        return min(lower, upper), upper

    def upper_epsilon(self, delta: float) -> float:
        """An epsilon that meets delta, at most what one report loses; infinite if none does."""
        require_delta(delta)
        tail = max(_NEGLIGIBLE * delta, _LEAST_TAIL)
        limit = 1.0
        while limit < self.local_epsilon and not self.upper_delta(limit, tail) <= delta:
            limit *= 2
            if limit > _LARGEST_EPSILON:
                return self.local_epsilon
        limit = min(limit, self.local_epsilon)
        guess = gaussian_epsilon(2 * self.keep / math.sqrt(2 * self._landed.mean), delta)
        return private_end(lambda e: self.upper_delta(e, tail), delta, limit, 0.0, guess)[0]

    def lower_epsilon(self, delta: float, top: float) -> float:
        """An epsilon up to `top` that some batches do not keep at this delta, or 0."""
        require_delta(delta)
        top = min(top, _LARGEST_EPSILON)
        if self.lower_delta(top) >= delta:
            return top
        return private_end(self.lower_delta, delta, top, 0.0, top * (1 - 1e-3))[1]


def _at_least(level: Floats, trials: NDArray[np.int64]) -> Floats:
    """P(Bin(trials, 1/2) >= level)."""
    inside = (level > 0) & (level <= trials)
    tail = scipy.special.bdtrc(np.where(inside, level - 1, 0.0), np.where(inside, trials, 1), 0.5)
    return np.where(inside, tail, np.where(level <= 0, 1.0, 0.0))


def least_dummies(
    bins: int, users: int, epsilon: float, delta: float, miss: float = 0.0
) -> tuple[int, float]:
    """The fewest uniform dummies a user with which a batch meets a target.

    Args:
        bins: d, at least 2.
        users: how many send dummies.
        epsilon: positive, in nats.
        delta: in (0, 1).
        miss: P(a report names a given wrong bin).

    Returns:
        (whole, chance): every user sends `whole`, and one more with that chance, a multiple of
        2^-53; the target was met when this was evaluated.

    Raises:
        ValueError: an argument is out of range, or no number of dummies up to 2^40 suffices.
    """

    def split(mean: float) -> tuple[int, float]:
        whole = math.floor(mean)
        return whole, min(math.ceil((mean - whole) * 2**53) / 2**53, 1 - 2.0**-53)

    def delta_at(mean: float) -> float:
        return UniformCrowd(bins, users, *split(mean), miss).upper_delta(epsilon, tail)

    tail = max(_NEGLIGIBLE * delta, _LEAST_TAIL)
    # `UniformCrowd.delta` asks for a surer number of messages: a hair is kept for that.
    delta = delta * (1 - _FURTHER_TAIL)
    needed = least_poisson_mean(epsilon, delta) * bins / users
    if miss > 0 and delta_at(0.0) <= delta:
        return 0, 0.0
    guess = max(needed - bins * miss, needed / 100)
    high = 1.1 * guess
    while not delta_at(high) <= delta:
        high *= 2
        if not high * users <= 1 << 40:
            raise ValueError(f"no number of dummies up to 2^40 meets epsilon {epsilon}")
    return split(private_end(delta_at, delta, high, 0.0, guess)[0])
