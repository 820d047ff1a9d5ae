"""A privacy filter: when to stop answering, though every price was chosen after earlier answers.

Composition theorems are about prices that were fixed beforehand. To compose privacy curves of
prices that were not, and to stop where the composed curve is crossed, is no filter in general
("f-differential privacy filters", arXiv 2602.06756, 2026). For Gaussian differential privacy it is
one, at no loss: mechanisms that are mu_t-GDP, chosen with their mu_t by whatever was answered
before, are mu-GDP together if on every path sum mu_t^2 <= mu^2. So everything is priced as Gaussian
here, and a price is a part of mu^2, in integers.

Why, in short. There are at most WHOLE answers, so go by induction on how many are to come. After a
first one of mu_1, with the loss L, what is left of mu^2 is the same whatever was answered, and
what follows has at most the divergence of one Gaussian mechanism of that, at epsilon - L. The mean
of this over the first answer is an f-divergence of its two laws, so it is largest for what they
are a coarser reading of: two Gaussian laws mu_1 apart. And two Gaussian mechanisms that do not
depend on each other are one of mu.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from mechanisms.channel import Guarantee, Neighbours, require_epsilon
from mechanisms.privacy.divergence import require_delta
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.privacy.search import gaussian_delta, gaussian_epsilon, gaussian_mu

WHOLE = 1 << 40
"""Of how many parts a budget is. Integers add up exactly, whoever adds them in whatever order."""

_RESERVE = 1e-3  # of delta, for samplers that are not quite the mechanisms they are priced as
_PRICED = 1e-9  # how far the mu of a mechanism may be from the one that is paid, of itself
_DOWN, _UP = 1 - 1e-12, 1 + 1e-12  # more than doubles and scipy's quantiles are off by


class Spent(NamedTuple):
    """What one answer takes.

    Attributes:
        parts: of the budget, 1 .. WHOLE.
        distance: a bound of the total variation between the law of the answer and that of a
            mechanism that is Gaussian private as priced, whatever the data are.
    """

    parts: int
    distance: float = 0.0


class OverspentError(ValueError):
    """The next answer would take more than is left."""


@dataclass(frozen=True)
class GaussianFilter:
    """A budget (epsilon, delta) for answers that depend on each other in any way.

    Attributes:
        epsilon: of all answers together, in nats.
        delta: of all answers together, in (0, 1).

    Source: Smith, Thakurta, "Fully adaptive composition for Gaussian differential privacy", 2022,
        arXiv 2210.17520: the filter that adds squares of mu up and compares them with a threshold
        is valid, with the parameters of nonadaptive composition (its main result, as its abstract
        says; proved anew above). Feldman, Zrnic, "Individual
        privacy accounting via a Renyi filter", NeurIPS 2021, have the same for Renyi divergences
        of one order that is fixed beforehand; of a Gaussian mechanism that is mu^2 order / 2, but
        turning it into (epsilon, delta) loses 5 to 9 % of epsilon. mu from (epsilon, delta):
        Balle, Wang, "Improving the Gaussian mechanism", ICML 2018, Theorem 8.

    >>> budget = GaussianFilter(epsilon=1.0, delta=1e-6)
    >>> round(budget.mu, 4), round(budget.epsilon_of(WHOLE // 4), 3)
    (0.2367, 0.475)
    >>> budget.left([Spent(budget.parts(0.25)), Spent(WHOLE // 2)]) / WHOLE > 0.42
    True
    """

    epsilon: float
    delta: float

    neighbours: ClassVar[Neighbours] = "add or remove"

    def __post_init__(self) -> None:
        require_epsilon(self.epsilon)
        require_delta(self.delta)
        if not self.delta_at(self.epsilon) <= self.delta:
            raise ArithmeticError("the budget's mu does not keep to its delta")

    @cached_property
    def mu(self) -> float:
        """Of the one Gaussian mechanism that spends all of it, its sensitivity over sigma."""
        return gaussian_mu(self.epsilon, self.delta * (1 - 2 * _RESERVE)) * (1 - 1e-9)

    @cached_property
    def farthest(self) -> float:
        """How far samplers may be from what they are priced as, in total variation, all of them."""
        # Two laws, each within t: (1 + e^epsilon) t of delta.
        return _RESERVE * self.delta / (1 + math.exp(self.epsilon))

    def delta_at(self, epsilon: float) -> float:
        """The delta of all answers together, rounded up."""
        tail = float(ndtr(self.mu / 2 - epsilon / self.mu))
        apart = (1 + math.exp(min(epsilon, 700.0))) * self.farthest
        return min(gaussian_delta(self.mu, epsilon) + 1e-12 * tail + apart, 1.0)

    def mu_of(self, parts: int) -> float:
        """What a mechanism may be that takes so many parts, rounded down."""
        return self.mu * math.sqrt(parts / WHOLE) * _DOWN

    def parts(self, epsilon: float) -> int:
        """What an answer takes that alone is (epsilon, the budget's delta)-private, at the most."""
        require_epsilon(epsilon)
        mu = gaussian_mu(epsilon, self.delta * (1 - 2 * _RESERVE)) * (1 - 1e-9)
        return math.floor((mu / self.mu) ** 2 * WHOLE)

    def epsilon_of(self, parts: int) -> float:
        """The epsilon of one answer alone, at the budget's delta."""
        return gaussian_epsilon(self.mu_of(parts), self.delta * (1 - 2 * _RESERVE))

    def left(self, spent: Iterable[Spent]) -> int:
        """How many parts are left."""
        return WHOLE - sum(one.parts for one in spent)

    def require(self, spent: Iterable[Spent], more: Spent) -> None:
        """Refuse an answer that does not fit; to be asked before anything of it is drawn.

        Args:
            spent: by all answers so far.
            more: by the next.

        Raises:
            OverspentError: too little is left.
            ValueError: it takes no part.
        """
        if not more.parts >= 1:
            raise ValueError("an answer takes at least a part of the budget")
        answers = [*spent, more]
        over = -self.left(answers)
        if over > 0:
            left = WHOLE - sum(one.parts for one in answers[:-1])
            raise OverspentError(
                f"the answer would take {more.parts / WHOLE:.3g} of the budget, and "
                f"{left / WHOLE:.3g} is left"
            )
        if not math.fsum(one.distance for one in answers) <= self.farthest:
            raise OverspentError(
                "what the samplers of so many answers are off by does not fit into "
                f"{_RESERVE:g} of delta"
            )

    def require_priced(self, parts: int, mu: float) -> None:
        """Refuse a mechanism that is not the one that is paid for; before anything is drawn of it.

        Args:
            parts: that are paid.
            mu: of the mechanism: of Gaussian noise by how much a unit changes the numbers, over
                sigma.

        Raises:
            ArithmeticError: it would reveal more, or hide more, than so many parts pay for.
        """
        if not abs(mu / self.mu_of(parts) - 1) <= _PRICED:
            raise ArithmeticError("the noise of an answer is not what the answer is paid for")

    def require_met(self, epsilon: float, delta: float) -> None:
        """Refuse, by a ValueError, a promise that so much noise is too small for."""
        if not self.delta_at(epsilon) <= delta:
            raise ValueError(f"this budget does not meet epsilon {epsilon} at delta {delta}")

    def guarantee(self, epsilon: float, unit: str) -> Guarantee:
        """What holds of all answers together, at the budget's epsilon or a larger one."""
        how = (
            f"closed form: one Gaussian mechanism of sensitivity {self.mu:.6g} sigma (Balle, Wang, "
            "ICML 2018, Theorem 8) for all answers, whose prices may depend on earlier ones "
            "(privacy filter: Smith, Thakurta 2022, arXiv 2210.17520)"
        )
        return Guarantee("central", epsilon, self.delta, unit, how, self.neighbours)

    @property
    def profile(self) -> PrivacyLoss:
        """What all answers together reveal, at every epsilon."""
        epsilons = np.linspace(0.0, max(gaussian_epsilon(self.mu, 1e-15), 1e-3), 256)
        deltas = [self.delta_at(epsilon) for epsilon in epsilons.tolist()]
        return PrivacyLoss.from_profile(epsilons, np.minimum.accumulate(deltas))


def gaussian_of_range(span: float) -> float:
    """The mu of a mechanism whose losses span at most so much between any two neighbours.

    The losses of two neighbours are those of any output, and span is how far the largest is above
    the smallest: epsilon for the exponential mechanism, 2 epsilon for whatever is epsilon-private.
    Every output is a mixture of the two ends, so a pair of laws is a coarser reading of two binary
    ones whose odds differ by e^span; and of these the symmetric ones, 1 / (1 + e^(-span / 2)) and
    its complement, need the largest mu, for Phi(y) Phi(-y) / phi(y) falls with |y|.

    Args:
        span: in nats, positive.

    Returns:
        2 Phi^-1(1 / (1 + e^(-span / 2))), rounded up.

    Source: Dong, Durfee, Rogers, "Optimal differential privacy composition for exponential
        mechanisms", ICML 2020 (bounded range, and that binary pairs are its worst); Dong, Roth, Su,
        "Gaussian differential privacy", JRSS B 2022, Definition 4 and Theorem 2 (coarser readings).

    >>> round(gaussian_of_range(1.0), 4), round(gaussian_of_range(range_of_gaussian(0.1)), 9)
    (0.6239, 0.1)
    """
    if not 0 < span < math.inf:
        raise ValueError(f"a span must be positive and finite, not {span}")
    return float(-2 * ndtri_exp(-math.log1p(math.exp(span / 2)))) * _UP


def range_of_gaussian(mu: float) -> float:
    """The span of losses that a mechanism may have to be mu-GDP, rounded down."""
    if not 0 < mu < math.inf:
        raise ValueError(f"mu must be positive and finite, not {mu}")
    return float(2 * (log_ndtr(mu / 2) - log_ndtr(-mu / 2))) * _DOWN
