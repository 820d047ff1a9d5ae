"""The joint account of a plan's metrics: shares are proportions of a budget that all of them keep.

Epsilons that add up to the plan's would waste most of it: a unit is in all metrics, and the chance
that every one of them reveals much at once is far below delta. The accountant that the ledger
composes releases by says how much all epsilons can grow together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from mechanisms.channel import Guarantee
from mechanisms.compat.roots import brentq
from mechanisms.privacy.loss import PrivacyLoss, worst_profile
from mechanisms.privacy.search import gaussian_mu
from pipelines.errors import RequestError
from pipelines.ledger.accounting import downward, fits, summed, total
from pipelines.ledger.entries import Budget, Loss
from pipelines.metrics.metric import Metric
from pipelines.metrics.permanent import promises
from pipelines.metrics.terms import answering_share
from pipelines.plan.document import PlanDocument
from pipelines.plan.profiles import profile_of
from pipelines.storage.solved import keep, recall

_NEAR = 0.001  # of the plan's epsilon: what the joint one may leave unused
_LAXER = 3.0  # in each round from the third one on
_INSIDE = 0.9995  # of an estimate is taken, whose error may lie on either side
_ROUNDS = 8  # one is usual
_FAR = 1.25  # times the plan's epsilon: what a first guess spends that is corrected with care
_MORE = 1.01  # times a squared error: so much less is no reason for other noise
_LOST = 1.21  # times a squared error: what one metric may lose for what another gains
_FEW = 8  # metrics of counters, up to which Laplace noise errs less than Gaussian noise
_USUAL_DELTA = 1e-6  # of a metric, where the plan says nothing; for a first guess
# The variance of a value in [-1, 1], and more than that of a share: what it costs to ask some of
# the units alone. So epsilons of 3 and more are better divided.
_SPREAD = 1.0
_DIGITS = 5  # of a scale: parties must come to the same whatever their machines' last bits

Metrics = tuple[Metric, ...]


class Resolve(Protocol):
    """What makes the metrics."""

    def __call__(
        self, scale: float, divided: bool, like: Metrics = ..., alone: bool = ...
    ) -> Metrics:
        """The metrics.

        Args:
            scale: by how much shares of epsilon grow, at least 1.
            divided: whether units are divided among those of the local model.
            like: metrics whose noise is of the same shape, where that goes; none: what errs least.
            alone: whether noise of the job errs least at its own price, and not at that of all.
        """


@dataclass(frozen=True)
class JointLoss:
    """What a unit loses by the metrics of which it answers one, which one being public.

    Attributes:
        metrics: one, or those of the local model among which units are divided.
    """

    metrics: Metrics

    @property
    def name(self) -> str:
        """Of its metrics, as a ledger lists them."""
        return "+".join(metric.name for metric in self.metrics)

    @property
    def released(self) -> Guarantee:
        """What the release promises."""
        return self._worst([promises(metric)[0] for metric in self.metrics])

    @property
    def local(self) -> Guarantee:
        """What a unit's report promises."""
        return self._worst([promises(metric)[1] for metric in self.metrics])

    @property
    def profile(self) -> PrivacyLoss:
        """The whole curve behind what the release promises."""
        return worst_profile([profile_of(m, promises(m)[0]) for m in self.metrics])

    @property
    def loss(self) -> Loss:
        """What its releases reveal, as a ledger keeps it.

        Raises:
            ValueError: one of them promises nothing.
        """
        return Loss.of(self.released, self.profile)

    def _worst(self, promises: Sequence[Guarantee]) -> Guarantee:
        if len(promises) == 1:
            return promises[0]
        first, number = promises[0], len(promises)
        return replace(
            first,
            epsilon=max(promise.epsilon for promise in promises),
            delta=max(promise.delta for promise in promises),
            how=f"each {first.unit} answers one of {number} metrics, by a public draw; {first.how}",
        )


def accounts(metrics: Metrics) -> tuple[JointLoss, ...]:
    """The metrics of a plan, in its order; those among which units are divided make one account."""
    group = tuple(metric for metric in metrics if metric.part is not None)
    return tuple(
        JointLoss((metric,) if metric.part is None else group)
        for metric in metrics
        if metric.part is None or metric.name == group[0].name
    )


def joint(plan: PlanDocument, metrics: Metrics) -> Guarantee:
    """What holds for a unit that is in every metric, or in one of those that divide units.

    Raises:
        ValueError: one of them promises nothing.
    """
    losses = _losses(metrics)
    return losses[0].guarantee if len(losses) == 1 else total(losses, _budget(plan, losses).delta)


def settled(plan: PlanDocument, resolve: Resolve, mark: Callable[[Metrics], bytes]) -> Metrics:
    """The metrics of a plan, with epsilons as large as the plan's allows for all of them together.

    Metrics of the local model divide epsilon, or the units, whichever errs less.

    Args:
        plan: what they share.
        resolve: makes the metrics.
        mark: tells designs of the plan apart.

    Raises:
        RequestError: a metric cannot be served as the plan says.
    """
    whole = _grown(plan, resolve, mark, False)
    # A user of permanent noise answers in many windows, and would be drawn for all metrics in turn.
    divisible = sum(plan.model_of(metric) == "local" for metric in plan.metrics) > 1
    if plan.permanent is not None or not divisible:
        return whole
    try:
        parted = _grown(plan, resolve, mark, True)
    except RequestError:
        return whole
    return min(whole, parted, key=_score)


def _score(metrics: Metrics) -> float:
    """The sum of logarithms of the errors that so many units leave, but for what is in common."""
    return math.fsum(math.log(_error(metric)) for metric in metrics)


def _error(metric: Metric) -> float:
    """The squared error, times the number of units: of noise, and of asking some of them alone."""
    share = answering_share(metric)
    return (metric.unit_error + _SPREAD * (1 - share)) / share


def _losses(metrics: Metrics) -> tuple[Loss, ...]:
    return tuple(account.loss for account in accounts(metrics))


def _grown(
    plan: PlanDocument, resolve: Resolve, mark: Callable[[Metrics], bytes], divided: bool
) -> Metrics:
    """The metrics at nearly the largest epsilons."""
    # No metric's own epsilon is above the plan's.
    most = downward(1 / max(plan.spending(divided).values()), _DIGITS)
    # Without a delta losses add up. Permanent noise costs what single reports reveal, however many
    # metrics hide in a crowd, so larger ones would cost more.
    if plan.permanent is not None or not (most > 1 and _usual_delta(plan) > 0):
        return resolve(1.0, divided)
    try:
        guess = _guess(plan, most, divided)
        return _grown_alike(plan, partial(resolve, divided=divided), mark, guess, most)
    except (RequestError, ValueError):  # said of the shares as they were written, if it is wrong
        return resolve(1.0, divided, alone=True)


def _grown_alike(
    plan: PlanDocument,
    resolve: Callable[..., Metrics],
    mark: Callable[[Metrics], bytes],
    guess: float,
    most: float,
) -> Metrics:
    """The metrics at nearly the largest epsilons; of noise of its own what gains by it.

    What noise errs least is looked for as if all losses composed well. Beside losses that do not,
    as of groups that nobody declared, or where a unit moves few totals far, Gaussian noise erred up
    to 1.6 times as much as the share's own. It stays where others would err more than a tenth more.
    """
    grown = _known(plan, resolve, mark, guess, most)
    if grown is None:
        return resolve(1.0, alone=True)
    shares, own = resolve(1.0, like=grown, alone=True), set[int]()
    while worse := _worse(grown, shares) - own:
        # From here on they have the noise of their shares, and err less the larger epsilon is.
        own |= worse
        pairs = enumerate(zip(grown, shares, strict=True))
        shape = tuple(share if place in own else joint for place, (joint, share) in pairs)

        def alike(scale: float, like: Metrics = (), shape: Metrics = shape) -> Metrics:
            return resolve(scale, like=shape)

        other = _known(plan, alike, mark, 1.0, most) or shares
        if not _score(other) < _score(grown) or _worse(other, grown, _LOST):
            break
        grown = other
    return grown


def _worse(metrics: Metrics, others: Metrics, factor: float = _MORE) -> set[int]:
    """The places of those whose squared error is more than so many times that of the others."""
    pairs = enumerate(zip(metrics, others, strict=True))
    return {place for place, (a, b) in pairs if _error(a) > factor * _error(b)}


def _known(
    plan: PlanDocument,
    resolve: Callable[..., Metrics],
    mark: Callable[[Metrics], bytes],
    guess: float,
    most: float,
) -> Metrics | None:
    """`_largest`, at the scales of an earlier search where these still fit."""
    first = resolve(guess)
    question = plan.epsilon, plan.delta, guess, most, mark(first).hex()
    if scales := _within(recall(question), most):
        metrics = first if scales[0] == guess else resolve(scales[0])
        for scale in scales[1:]:
            metrics = resolve(scale, like=metrics)
        losses = _losses(metrics)
        if fits(losses, _budget(plan, losses)):
            return metrics
    largest, scales = _largest(plan, resolve, guess, most, first)
    if scales:
        keep(question, scales)
    return largest


def _within(kept: Any, most: float) -> tuple[float, ...]:
    """Scales that an earlier search may have come to; none of anything else."""
    known = isinstance(kept, list) and len(kept) <= _ROUNDS
    scales = tuple(kept) if known else ()
    return scales if all(isinstance(s, float) and 1 <= s <= most for s in scales) else ()


def _largest(
    plan: PlanDocument, resolve: Callable[..., Metrics], scale: float, most: float, first: Metrics
) -> tuple[Metrics | None, tuple[float, ...]]:
    """The metrics at nearly the largest scale that the budget holds; None if none is known.

    Args:
        plan: what they share.
        resolve: makes the metrics.
        scale: to begin with.
        most: the largest.
        first: the metrics at the scale to begin with.

    Returns:
        They, and the scales at which they were made, each like those of the scale before.
    """
    best: Metrics | None = None
    low, high, least = 1.0, math.inf, 0.0
    shape: Metrics = ()
    scales: tuple[float, ...] = ()
    best_scales = scales
    shaped, leapt = scale, False
    for number in range(_ROUNDS):
        # What noise errs least is looked for where it is nearly as large as it will be. Once more
        # would take ten times as long, and what is spent leaps where other noise takes over.
        if number == 1 and not 1 / _FAR < scale / shaped < _FAR:
            shape, scales = (), ()
        metrics = resolve(scale, like=shape) if number else first
        made = (*scales, scale)
        shape, shaped, scales = shape or metrics, scale, scales or made
        losses = _losses(metrics)
        budget = _budget(plan, losses)
        spent = total(losses, budget.delta).epsilon
        if fits(losses, budget):
            # Of metrics that something else keeps small there is nothing left to be had.
            capped = best is not None and losses == _losses(best)
            best, low, least, best_scales = metrics, scale, spent, made
            if capped or scale == most:
                break
        else:
            high = scale
        # Where other noise takes over what is spent leaps: no scale may be as near as is wished.
        near = _NEAR * _LAXER ** max(number - 1, 0)
        if best is not None and (least >= (1 - near) * plan.epsilon or high < (1 + near) * low):
            break
        scale = _corrected(scale, losses, spent, budget)
        scale = min(most, scale if low < scale < high else (low + min(high, most)) / 2)
        scale = downward(scale, _DIGITS)
        if scale <= low and not leapt and best is not None and least * _FAR < plan.epsilon:
            # Other noise had taken over, and nothing of it fits: on with what did fit.
            shape, shaped, high, leapt, scales = best, low, math.inf, True, best_scales
            scale = _corrected(low, _losses(best), least, budget)
            scale = downward(min(most, scale), _DIGITS)
        if scale <= low:
            break
    return best, best_scales


def _budget(plan: PlanDocument, losses: Sequence[Loss]) -> Budget:
    """What all losses must keep together: where the plan names no delta, the sum of theirs."""
    delta = summed(losses).delta if plan.delta is None else plan.delta
    return Budget(epsilon=plan.epsilon, delta=delta)


def _corrected(scale: float, losses: Sequence[Loss], spent: float, budget: Budget) -> float:
    """Where the budget would be spent, if losses were normal and their deviations as epsilons.

    Far from there that says little of losses that are few and bounded, as of counts: then it is
    looked up where they would be if all that is known of them grew as their epsilons do. To compose
    them a few times takes less than to make the metrics once more.
    """
    if not 0 < spent < math.inf:
        return math.nan
    normal = gaussian_mu(budget.epsilon, budget.delta) / gaussian_mu(spent, budget.delta)
    if not spent > _FAR * budget.epsilon:
        return _INSIDE * scale * normal

    def excess(factor: float) -> float:
        grown = total([_scaled(loss, factor) for loss in losses], budget.delta)
        return math.log(grown.epsilon / budget.epsilon)

    # Losses that simply add up are on one side; beyond the other there are none.
    low, high = 0.9 * budget.epsilon / spent, 1.1 * normal
    if not excess(low) < 0 < excess(high):
        return _INSIDE * scale * normal
    return _INSIDE * scale * float(brentq(excess, low, high, xtol=1e-3, rtol=1e-3))


def _scaled(loss: Loss, factor: float) -> Loss:
    """About what the same metric reveals at so many times its epsilon."""
    curves = {name: getattr(loss, name) for name in ("profile", "apart")}
    scaled = {name: tuple((factor * e, d) for e, d in curve) for name, curve in curves.items()}
    return loss.model_copy(update={"epsilon": factor * loss.epsilon, **scaled})


def _guess(plan: PlanDocument, most: float, divided: bool) -> float:
    """A scale at which normal losses of these shares nearly fill the budget."""
    delta, spending = _usual_delta(plan), plan.spending(divided)
    by_model: dict[str, list[float]] = {"local": [], "shuffle": [], "central": []}
    for metric in plan.metrics:
        by_model[plan.model_of(metric)].append(spending[metric.name])
    # Noise of a few counters is Laplace noise, which like randomised response loses epsilon.
    few = len(by_model["shuffle"]) <= _FEW and plan.hides_all
    once = by_model["local"][: 1 if divided else None]

    def excess(scale: float) -> float:
        # Randomised response loses epsilon either way: that is its deviation.
        deviations = [scale * share * plan.epsilon for share in once + by_model["central"]]
        for share in by_model["shuffle"]:
            own = scale * share * plan.epsilon
            deviations.append(own if few else gaussian_mu(own, share * delta))
        return math.hypot(*deviations) - gaussian_mu(plan.epsilon, delta)

    if not excess(most) > 0:
        return most
    scale = brentq(excess, 1.0, most) if excess(1.0) < 0 else 1.0
    return max(1.0, downward(_INSIDE * scale, _DIGITS))


def _usual_delta(plan: PlanDocument) -> float:
    """The plan's delta, or what its metrics take by default."""
    shuffled = sum(plan.model_of(metric) == "shuffle" for metric in plan.metrics)
    return _USUAL_DELTA * shuffled if plan.delta is None else plan.delta
