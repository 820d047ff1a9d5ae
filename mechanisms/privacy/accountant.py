"""The tight profile of many releases together, by composing privacy loss distributions.

The log likelihood ratios of independent releases add up, so their distributions convolve. The
convolutions are `dp-accounting`'s; here profiles are put on its grid and read back from it,
always from above.
"""

import math
from collections.abc import Mapping
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from mechanisms.compat.pld import accounting
from mechanisms.compat.pld import deltas as deltas_of
from mechanisms.compat.pld import epsilon as epsilon_of
from mechanisms.privacy.loss import PrivacyLoss

_POINTS = 4096  # of a composed profile
_CELLS = 500  # grid steps from no loss to the greatest one; the error falls with their square
_WIDTH = 1 << 17  # grid steps of a composed distribution
_ENDS = 1e-3  # of a delta, by which what is known at its ends may lower a profile; seen: 3e-8
_STEEPEST = 700.0  # e^epsilon is followed so far
_TAIL = 1e-15  # mass of a composed distribution that may be counted as unbounded loss


def compose(losses: Mapping[PrivacyLoss, int]) -> PrivacyLoss:
    """The profile of many releases about the same unit, chosen adaptively or not.

    Args:
        losses: how often each kind of release is made.

    Returns:
        An upper bound of the joint profile; `epsilon` of it is at most the sum of the epsilons
        when delta is 0. Deltas below `_slack` are lost in rounding and answered by that sum.

    Raises:
        ImportError: the package dp-accounting is missing.
        ValueError: there is nothing to compose, or a count is not positive.

    Source: Doroshenko et al., "Connect the dots: tighter discrete approximations of privacy loss
        distributions", PoPETs 2022, Algorithm 1, as implemented by dp-accounting.
    """
    alone = _alone(losses)
    return _composed_profile(_sum((*losses.items(),)), losses) if alone is None else alone


def composed_delta(losses: Mapping[PrivacyLoss, int], epsilon: float) -> float:
    """The delta of many releases at one epsilon, far sooner had than from their whole profile.

    Args:
        losses: as of `compose`.
        epsilon: at least 0, in nats.

    Raises:
        ImportError: as of `compose`.
        ValueError: as of `compose`, or epsilon is negative or not a number.
    """
    if not epsilon >= 0:
        raise ValueError(f"epsilon must be at least 0, not {epsilon}")
    if (alone := _alone(losses)) is not None:
        return alone.delta(epsilon)
    unbounded = _unbounded(losses)
    if not epsilon < _last(losses):
        return unbounded
    computed = float(_sum((*losses.items(),)).get_delta_for_epsilon(epsilon))
    return min(max(computed + _slack(sum(losses.values())), unbounded), 1.0)


def profile_delta(losses: Mapping[PrivacyLoss, int], epsilon: float) -> tuple[float, float]:
    """(lower, upper) around `compose(losses).delta(epsilon)`, as soon had as `composed_delta`.

    Args:
        losses: as of `compose`.
        epsilon: as of `composed_delta`.

    Raises:
        ImportError: as of `compose`.
        ValueError: as of `composed_delta`.
    """
    delta, last = composed_delta(losses, epsilon), _last(losses)
    if _alone(losses) is not None:  # had at once: to compare deltas would round otherwise
        return 0.0, 1.0
    if not epsilon < last:
        return delta, delta
    # A chord to the last epsilon, of which more is known than the grid tells, is below the computed
    # curve where that, going on as it does, would end above it; and above where it is all slack.
    unbounded, slack, step = _unbounded(losses), _slack(sum(losses.values())), (last - epsilon) / 64
    left = math.expm1(epsilon + step - last) / math.expm1(epsilon - last) * (delta - unbounded)
    further = composed_delta(losses, epsilon + step) - unbounded
    if not (further < left * (1 - _ENDS) and delta > unbounded + 6 * slack):
        # No chord to the last epsilon begins left of 0, where most are lost: nothing fits then, and
        # thousands of releases, which a search tries, need not be composed to know.
        least = math.expm1(epsilon - last) / math.expm1(-last) * (delta - unbounded)
        return unbounded + least * (1 - _ENDS) - 2 * slack, 1.0
    # Any other chord is above the curve, where few losses make it bend by percents, and below what
    # the curve is at the chord's left end, which is as near as this.
    before = composed_delta(losses, max(0.0, epsilon - last / (_POINTS - 2)))
    return delta * (1 - _ENDS) - slack, before + slack


def normal_delta(losses: Mapping[PrivacyLoss, int], epsilon: float) -> float:
    """About what `composed_delta` is: as if the joint loss were normal, had without composing.

    Args:
        losses: as of `compose`.
        epsilon: in nats.
    """
    moments = np.array([_moments(loss) for loss in losses])
    mean, variance = np.array([*losses.values()], np.float64) @ moments
    if not variance > 0:
        return _unbounded(losses)
    upper, below = (mean - epsilon) / math.sqrt(variance), epsilon - mean + variance / 2
    below += log_tail(math.sqrt(variance) - upper)
    tail = math.erfc(-upper / math.sqrt(2)) / 2
    return max(_unbounded(losses), tail - math.exp(min(below, 0.0)))


def log_tail(x: float) -> float:
    """About log(1 - Phi(x)): scipy's special functions take longer to import than all the rest."""
    if x < 30:
        return math.log(math.erfc(x / math.sqrt(2)) / 2)
    return -x * x / 2 - math.log(x * math.sqrt(2 * math.pi))


@lru_cache(maxsize=1024)
def _moments(loss: PrivacyLoss) -> tuple[float, float]:
    """(mean, variance) of a loss where it is bounded: it has mass where its profile bends."""
    known = np.array(loss.epsilons) <= _STEEPEST
    e, d = np.array(loss.epsilons)[known], np.array(loss.deltas)[known]
    left = -np.expm1(-e) + np.exp(-e) * d  # as of `_pmf`
    at = np.concatenate([-e[:0:-1], e])
    slopes = np.diff(np.concatenate([left[:0:-1], d])) / np.diff(np.exp(at))
    mass = np.exp(at) * np.diff(slopes, prepend=-1.0, append=0.0)
    mean = float(mass @ at)
    return mean, float(mass @ (at - mean) ** 2)


def _alone(losses: Mapping[PrivacyLoss, int]) -> PrivacyLoss | None:
    """The joint profile, where there is nothing to compose."""
    if not losses or not all(t >= 1 and t == int(t) for t in losses.values()):
        raise ValueError("there must be a release, and each kind must be made 1, 2, ... times")
    # One release needs no grid: the profile that it came with is tighter than any that is put on
    # one.
    if sum(losses.values()) == 1:
        return next(iter(losses))
    # Who may show everything once leaves nothing to compose, and log1p(-1) below would raise.
    if max(loss.deltas[-1] for loss in losses) == 1:
        return PrivacyLoss((0.0,), (1.0,))
    return None


@lru_cache(maxsize=4)  # a profile of it and a delta, say
def _sum(kinds: tuple[tuple[PrivacyLoss, int], ...]) -> Any:
    """The distribution of the joint loss of (release, how often), in `dp_accounting`'s form."""
    losses = dict(kinds)
    join, pitch, tail = accounting().pld_pmf.compose_pmfs, _pitch(losses), _TAIL / len(losses)
    parts = [_pmf(loss, pitch).self_compose(times, tail) for loss, times in losses.items()]
    while len(parts) > 1:  # in pairs, so that most convolutions are short
        pairs = (parts[i : i + 2] for i in range(0, len(parts), 2))
        parts = [reduce(lambda a, b: join(a, b, tail), pair) for pair in pairs]
    return parts[0]


def _pmf(loss: PrivacyLoss, pitch: float) -> Any:
    """The distribution of the loss on a grid of that pitch, in `dp_accounting`'s form."""
    steps = math.ceil(loss.reach / pitch)
    grid = np.arange(steps + 1, dtype=np.float64) * pitch
    right = loss.at(grid)
    # Both directions share the profile, which then fixes it at negative epsilons.
    left = -np.expm1(-grid[1:]) + np.exp(-grid[1:]) * right[1:]
    return accounting().pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
        pitch, -steps, steps, np.concatenate([left[::-1], right])
    )


def _composed_profile(pmf: Any, losses: Mapping[PrivacyLoss, int]) -> PrivacyLoss:
    """The stored form of a composed distribution, ending in what plain addition gives."""
    unbounded, last = _unbounded(losses), _last(losses)
    slack = _slack(sum(losses.values()))
    # Further out a computed delta is mostly `slack`, and its points would say nothing.
    with np.errstate(over="ignore"):  # e^epsilon of thousands of releases
        bound = epsilon_of(pmf, min(1.0, unbounded + 4 * slack))
    reach = min(last, _STEEPEST, bound)
    epsilons = np.linspace(0, reach, _POINTS) if reach > 0 else np.zeros(1)
    deltas = np.minimum(deltas_of(pmf, epsilons) + slack, 1.0)
    if last > reach:
        epsilons, deltas = np.append(epsilons, last), np.append(deltas, unbounded)
    else:
        deltas[-1] = unbounded
    # An upper bound at one epsilon holds at every larger one, so the running minimum is still one;
    # and no delta is below what stays however large epsilon is.
    return PrivacyLoss.from_profile(epsilons, np.minimum.accumulate(np.maximum(deltas, unbounded)))


def _unbounded(losses: Mapping[PrivacyLoss, int]) -> float:
    """The chance that any of the releases gives its unit away: 1 less the product of the rests."""
    bounded = math.fsum(t * math.log1p(-loss.deltas[-1]) for loss, t in losses.items())
    return 0.0 - math.expm1(bounded)  # not -0.0


def _last(losses: Mapping[PrivacyLoss, int]) -> float:
    """The epsilon beyond which nothing but that chance is left: all of them added up."""
    return math.fsum(t * loss.epsilons[-1] for loss, t in losses.items())


def _slack(times: int) -> float:
    """What Fourier transforms in doubles may lose of a delta; measured, with a factor of 20."""
    return 1e-13 + 1e-15 * times


def _pitch(losses: Mapping[PrivacyLoss, int]) -> float:
    """A grid fine enough for the smallest loss, unless the sum of all would need too many cells."""
    reaches = np.array([loss.reach for loss in losses])
    times = np.array(list(losses.values()))
    if not reaches.any():
        return 1.0
    # Hoeffding: outside nine root mean squares of the total there is less mass than _TAIL.
    width = 2 * min(times @ reaches, 9 * math.sqrt(times @ reaches**2))
    return float(max(reaches[reaches > 0].min() / _CELLS, width / _WIDTH))
