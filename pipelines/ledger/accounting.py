"""What the entries of a ledger cost together, and what still fits into a budget.

Numbers count as the decimals that people type: ten releases of epsilon 0.1 fill a budget of 1,
and three a budget of 0.3, although the doubles nearest to them add up to a little more.

The accountant's figure supposes that prices were settled before releases were seen, as a plan and
its schedule settle them; what is measured at those prices may depend on earlier releases. If prices
are chosen in view of earlier releases, only the sum is known to hold (Rogers, Roth, Ullman, Vadhan,
"Privacy odometers and filters", NeurIPS 2016).
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

from mechanisms.channel import Guarantee
from mechanisms.compat.roots import brentq
from mechanisms.privacy.accountant import compose, composed_delta, normal_delta, profile_delta
from mechanisms.privacy.composition import sequential
from mechanisms.privacy.loss import PrivacyLoss, worst_profile
from pipelines.ledger.entries import Budget, Loss
from pipelines.wording import number_of, upward

_KINDS = 64  # of releases, that are composed one by one; of more, those alike count as the worst
_LEAST = 1e-3  # smaller shares of a release are not looked for
_NEAR = 1e-3  # relative distance from the largest share that fits at which its search ends
_COMPOSITIONS = 12  # at most; three are usual
_MOST = 100_000  # further releases that are looked for
# Of curves that are rounded up, so that an entry of a ledger stays short.
_EPSILON_DIGITS, _DELTA_DIGITS = 6, 4

Losses = Counter[Loss]


@lru_cache(maxsize=256)  # of metrics of one shape, and again for each look at a plan
def short(profile: PrivacyLoss) -> PrivacyLoss:
    """The same curve in fewer digits, none of them down."""
    points = zip(profile.epsilons, profile.deltas, strict=True)
    rounded = {
        upward(epsilon, _EPSILON_DIGITS): min(1.0, upward(delta, _DELTA_DIGITS))
        for epsilon, delta in points
    }
    shorter = PrivacyLoss.from_profile(list(rounded), list(rounded.values()))
    return shorter if profile.apart is None else replace(shorter, apart=short(profile.apart))


def total(losses: Iterable[Loss], delta: float) -> Guarantee:
    """What releases about the same unit reveal together.

    Args:
        losses: of each.
        delta: of the budget, in [0, 1).

    Returns:
        The smaller of the sum and the accountant's figure at that delta.

    Raises:
        ValueError: there is none, or their units differ.
    """
    kinds = alike(losses)
    added = summed(kinds)
    if delta == 0:
        return added
    epsilon = _composed(kinds).epsilon(delta)
    if not epsilon < added.epsilon and added.delta <= delta:
        return added
    several = number_of(kinds.total(), "loss")
    how = f"privacy loss distributions of {several}, composed pessimistically"
    return replace(added, epsilon=epsilon, delta=delta, how=how)


def alike(losses: Iterable[Loss]) -> Losses:
    """Losses about the same neighbours, which alone add up.

    Where all of them hide whether a unit takes part, together they do. Otherwise what holds for all
    is that a unit's contribution may become another.

    Args:
        losses: of each release, or how often each comes.
    """
    kinds = Counter(losses)
    if len({loss.neighbours for loss in kinds}) < 2:
        return kinds
    return _replaced(kinds)


def _alike_both(spent: Iterable[Loss], wanted: Iterable[Loss]) -> tuple[Losses, list[Loss]]:
    """What was spent and what is wanted, about the same neighbours."""
    before, after = Counter(spent), list(wanted)
    if len({loss.neighbours for loss in [*before, *after]}) < 2:
        return before, after
    return _replaced(before), [loss.replaced for loss in after]


def _replaced(kinds: Losses) -> Losses:
    """The same of units whose contribution becomes another."""
    replaced: Losses = Counter()
    for loss, times in kinds.items():
        replaced[loss.replaced] += times
    return replaced


def summed(losses: Iterable[Loss]) -> Guarantee:
    """Basic composition, of the decimals.

    Args:
        losses: of each release, or how often each comes.

    Raises:
        ValueError: there is none, or their units differ.
    """
    kinds = alike(losses)
    epsilon, delta = map(float, basic(kinds))
    return replace(
        sequential(loss.guarantee for loss in kinds), epsilon=epsilon, delta=min(delta, 1.0),
        how=f"basic composition of {number_of(kinds.total(), 'release')}",
    )  # fmt: skip


def basic(losses: Iterable[Loss]) -> tuple[Fraction, Fraction]:
    """The sums of epsilons and deltas, exactly, each taken as its shortest decimals.

    Args:
        losses: of each release, or how often each comes.
    """
    kinds = alike(losses)
    epsilon = sum((Fraction(repr(loss.epsilon)) * n for loss, n in kinds.items()), Fraction())
    return epsilon, sum((Fraction(repr(loss.delta)) * n for loss, n in kinds.items()), Fraction())


def fits(losses: Iterable[Loss], budget: Budget, chosen: bool = False) -> bool:
    """Whether releases about the same unit keep to a budget, by their sum or by the accountant.

    Args:
        losses: of each, or how often each comes.
        budget: that must hold them all.
        chosen: whether one was chosen after the answers of others; then their sum alone counts.
    """
    kinds = alike(losses)
    if _adds_up(kinds, budget):
        return True
    if chosen:
        return False
    # A composition never takes less than the part of delta that no epsilon covers.
    if budget.delta == 0 or _unbounded(kinds) > budget.delta:
        return False
    # One decision here and in `total`, from two figures: the whole profile decides if it is close.
    lower, upper = profile_delta(_merged(kinds), budget.epsilon)
    if lower <= budget.delta < upper:
        return _composed(kinds).epsilon(budget.delta) <= budget.epsilon
    return upper <= budget.delta


def _adds_up(kinds: Losses, budget: Budget) -> bool:
    """Whether the sums of losses about the same neighbours keep to a budget."""
    epsilon, delta = basic(kinds)
    return epsilon <= Fraction(repr(budget.epsilon)) and delta <= Fraction(repr(budget.delta))


def largest_share(spent: Iterable[Loss], wanted: Sequence[Loss], budget: Budget) -> float:
    """By how much the epsilons of a release must shrink for it to fit, its deltas left alone.

    Args:
        spent: the losses that count already.
        wanted: those of the release.
        budget: that must hold them all.

    Returns:
        A factor in [0, 1) that fits, rounded down to three digits; 0 if none does.
    """
    before, wanted = _alike_both(spent, wanted)

    def fitting(share: float) -> bool:
        return fits(before + Counter(_shrunk(loss, share) for loss in wanted), budget)

    def excess(logarithm: float) -> float:
        """Beyond 0 if the accountant says that the share does not fit."""
        more = Counter(_shrunk(loss, math.exp(logarithm)) for loss in wanted)
        # 0 where their sum already fits.
        together = composed_delta(_merged(before + more), budget.epsilon)
        return math.log(max(together, sys.float_info.min) / budget.delta)

    by_sum = _share_by_sum(before, wanted, budget)
    low, by_limit = max(_LEAST, by_sum), 0.0
    # Where the sum fits to the last digit, the accountant's rounding may lie beyond the budget.
    if 0 < budget.delta and low < 1 and excess(math.log(low)) < 0 < excess(0.0):
        crossing = brentq(excess, math.log(low), 0.0, xtol=_NEAR, rtol=_NEAR)
        # A little inside of the root, whose own error may lie on either side.
        by_limit = math.exp(crossing - 2 * _NEAR)
    candidates = [downward(share, 3) for share in (by_limit, by_sum, 0.999 * by_sum)]
    return next((share for share in candidates if share > 0 and fitting(share)), 0.0)


def further(
    spent: Iterable[Loss], window: Sequence[Loss], budget: Budget, most: int = _MOST
) -> int:
    """How many more releases of the same kind fit.

    Args:
        spent: the losses that count already.
        window: those of one release.
        budget: that must hold them all.
        most: beyond which nobody looks.
    """
    before, window = _alike_both(spent, window)
    once = Counter(window)

    def together(times: int) -> Losses:
        return before + Counter({loss: n * times for loss, n in once.items()})

    def beyond(times: int) -> bool:
        return times > most or not fits(together(times), budget)

    from mechanisms.privacy.search import least_integer  # scipy's special functions take long

    # To compose hundreds of releases takes long, so it is begun where the accountant's own delta
    # crosses the budget's.
    return least_integer(beyond, _crossing(together, budget, most) + 1) - 1


def _crossing(together: Callable[[int], Losses], budget: Budget, most: int) -> int:
    """How many more releases come to the budget's delta, at most so many.

    That many would if losses were normal: so much is known without composing. By how much they are
    not, the compositions tell, and it is nearly the same next to them: three are usual.
    """
    low, high = 0, most + 1
    low = bisect_left(range(1, high), True, key=lambda n: not _adds_up(together(n), budget))
    if not 0 < budget.delta < 1:
        return low

    def normal(times: int) -> float:
        return _straight(normal_delta(_merged(together(times)), budget.epsilon))

    least = _straight(budget.delta)
    for _ in range(_COMPOSITIONS):
        if high - low < 2:
            break
        tried = range(low + 1, high)
        fitting = bisect_left(tried, True, key=lambda times: normal(times) < least)
        guess = low + max(1, fitting)
        delta = composed_delta(_merged(together(guess)), budget.epsilon)
        least = _straight(budget.delta) + normal(guess) - _straight(delta)
        low, high = (low, guess) if delta > budget.delta else (guess, high)
    return low


def _straight(delta: float) -> float:
    """As `mechanisms.privacy.search.straight`, without scipy: to import it takes longer."""
    return math.log(-NormalDist().inv_cdf(min(max(delta, 1e-300), 0.45)))


def _share_by_sum(before: Losses, wanted: Sequence[Loss], budget: Budget) -> float:
    """The share that fits if losses simply add up."""
    epsilon, delta = basic(before)
    wanted_epsilon, wanted_delta = basic(wanted)
    left = Fraction(repr(budget.epsilon)) - epsilon
    if left <= 0 or delta + wanted_delta > Fraction(repr(budget.delta)):
        return 0.0
    return min(1.0, float(left / wanted_epsilon)) if wanted_epsilon else 1.0


def _shrunk(loss: Loss, share: float) -> Loss:
    """The same release at a smaller epsilon; of a profile that is not known, nothing is claimed."""
    # A smaller epsilon has another curve, and a scaled old one would be a guess.
    return loss.model_copy(update={"epsilon": loss.epsilon * share, "profile": (), "apart": ()})


def _composed(kinds: Losses) -> PrivacyLoss:
    return _joint(frozenset(_merged(kinds).items()))


def _merged(kinds: Losses) -> Mapping[PrivacyLoss, int]:
    """Profiles, and how often each comes: few enough to be composed in a second."""
    claims: Counter[_Claim] = Counter()
    for loss, times in kinds.items():
        claims[_bare(loss)] += times
    merged: Counter[PrivacyLoss] = Counter()
    for alike, times in _grouped(claims):
        merged[_covering(alike)] += times
    return merged


_Claim = tuple[float, float, tuple[tuple[float, float], ...]]


def _bare(loss: Loss) -> _Claim:
    """A loss without the words, in which equal ones may differ."""
    return loss.epsilon, loss.delta, loss.profile


def _grouped(claims: Counter[_Claim]) -> list[tuple[frozenset[_Claim], int]]:
    """(claims that are counted as one, how many releases they are), few enough of them."""
    groups = [(frozenset([claim]), times) for claim, times in claims.items()]
    # Alike to ever fewer digits; a group counts as the worst of its members, so the price only
    # rises.
    for digits in range(4, 0, -1):
        if len(groups) <= _KINDS:
            break
        alike: dict[tuple[float, float], list[_Claim]] = {}
        for claim in claims:
            alike.setdefault((upward(claim[0], digits), upward(claim[1], digits)), []).append(claim)
        groups = [(frozenset(group), sum(claims[c] for c in group)) for group in alike.values()]
    return groups


@lru_cache(maxsize=1024)
def _covering(claims: frozenset[_Claim]) -> PrivacyLoss:
    """A profile that is nowhere below that of any of several claims."""
    return worst_profile([_profile(claim) for claim in sorted(claims)])


@lru_cache(maxsize=64)
def _joint(kinds: frozenset[tuple[PrivacyLoss, int]]) -> PrivacyLoss:
    """The joint profile of (profile of a release, how many times)."""
    return compose(dict(kinds))


@lru_cache(maxsize=1024)
def _profile(claim: _Claim) -> PrivacyLoss:
    """The worst profile below the points that are known of one release."""
    epsilon, delta, points = claim
    bounds = dict(points)
    bounds[epsilon] = min(delta, bounds.get(epsilon, 1.0))
    ascending = sorted(bounds)
    return PrivacyLoss.from_profile(ascending, [bounds[e] for e in ascending])


def _unbounded(kinds: Losses) -> float:
    """The mass that no epsilon covers, of independent releases."""
    rest = (n * math.log1p(-_profile(_bare(loss)).deltas[-1]) for loss, n in kinds.items())
    return -math.expm1(math.fsum(rest))


def downward(value: float, digits: int) -> float:
    """A positive number to so many significant digits, rounded down; 0 of any other."""
    return -upward(-value, digits) if value > 0 else 0.0
