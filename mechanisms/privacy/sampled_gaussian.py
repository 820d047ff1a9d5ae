"""What noisy gradient descent may claim, and the least noise with which it may claim it.

Each step takes every record with probability q on its own (not a fixed number of records, not
with replacement), adds up gradients clipped to norm 1 and adds Gaussian noise of standard
deviation sigma. Three accountants of it are offered by name, ever tighter, for both relations
between neighbours, with a search for the noise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import special

from mechanisms.channel import require_epsilon
from mechanisms.compat.pld import accounting
from mechanisms.privacy.composition import Neighbours
from mechanisms.privacy.divergence import require_delta
from mechanisms.privacy.search import gaussian_mu, private_end

Accountant = Literal["pld", "rdp", "moments"]

SOURCES = {
    "pld": "privacy loss distributions (Doroshenko et al. 2022)",
    "rdp": "Renyi divergences (Mironov et al. 2019; Canonne et al. 2020)",
    "moments": "the moments accountant (Abadi et al. 2016)",
}
LEAST_SIGMA = 0.2  # below, a run protects nobody, and its loss distribution fills the memory
LARGEST_SIGMA = 2.0**16  # the moments accountant reaches no epsilon below ln(1 / delta) / 32
_CELLS = 1 << 16  # of one step's loss distribution
_TOLERANCE = 1e-4  # relative, of the noise that is searched for
# Whole orders, at which a moment is a finite sum; far ones are tried at ever wider distances.
ORDERS = (*range(1, 65), 80, 96, 128, 160, 192, 256, 320, 384, 512)


@dataclass(frozen=True)
class SubsampledGaussian:
    """Many steps of the Poisson-subsampled Gaussian mechanism.

    Attributes:
        rate: q, the probability with which a step takes a record, in (0, 1].
        sigma: standard deviation of the noise, in units of the clipping norm.
        steps: T, how many steps are made.

    >>> training = SubsampledGaussian(rate=0.01, sigma=4.0, steps=10_000)
    >>> round(training.log_moment(32), 6)
    0.003476
    """

    rate: float
    sigma: float
    steps: int

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate must lie in (0, 1], not {self.rate}")
        if not 0 < self.sigma < math.inf:
            raise ValueError(f"sigma must be positive and finite, not {self.sigma}")
        if not 1 <= self.steps < math.inf or self.steps != int(self.steps):
            raise ValueError(f"steps must be a positive integer, not {self.steps}")

    def log_moment(self, order: int) -> float:
        """alpha(lambda), the log of the lambda-th moment of one step's privacy loss.

        With mu0 = N(0, sigma^2) and mu = (1 - q) mu0 + q N(1, sigma^2) it is the logarithm of the
        larger of E_mu[(mu/mu0)^lambda] and E_mu0[(mu0/mu)^lambda]; the first always is the larger.

        Args:
            order: lambda, a positive integer.

        Returns:
            ln sum_k C(lambda + 1, k) (1 - q)^(lambda + 1 - k) q^k e^((k^2 - k) / (2 sigma^2)).

        Source: Abadi et al., "Deep learning with differential privacy", CCS 2016, eq. 3; Mironov,
            Talwar, Zhang, "Renyi differential privacy of the sampled Gaussian mechanism", 2019,
            Corollary 7 and section 3.3.
        """
        if not 1 <= order < math.inf or order != int(order):
            raise ValueError(f"order must be a positive integer, not {order}")
        n = int(order) + 1
        k = np.arange(2, n + 1)
        # The terms of a sum of binomial probabilities, 1, are left out: a moment is near 1, and
        # what it exceeds 1 by must keep its digits. The terms k = 0 and k = 1 exceed by nothing.
        logs = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
        logs += special.xlog1py(n - k, -self.rate) + k * math.log(self.rate)
        growth = k * (k - 1) / (2 * self.sigma**2)
        logs += growth + np.log(-np.expm1(-growth))
        excess = float(special.logsumexp(logs))
        return float(np.logaddexp(0.0, excess))


def epsilon_of(
    run: SubsampledGaussian,
    delta: float,
    accountant: Accountant = "pld",
    neighbours: Neighbours = "add or remove",
) -> float:
    """The epsilon of a whole run, every step's result being seen.

    Args:
        run: the lots, the noise and the number of steps.
        delta: in (0, 1).
        accountant: "pld", the tightest; "rdp"; or "moments", as published.
        neighbours: "add or remove" a record, for which Poisson lots are made. "replace one" takes
            one out and puts one in: a group of two, at about twice the epsilon.

    Returns:
        An upper bound.

    Raises:
        ValueError: delta is out of range, or a name is unknown.

    Source: Abadi et al., "Deep learning with differential privacy", CCS 2016, Theorem 2; Canonne,
        Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020,
        Proposition 12; Doroshenko et al., "Connect the dots", PoPETs 2022. Of groups: Dwork, Roth,
        "The algorithmic foundations of differential privacy", 2014, Theorem 2.2 and its proof.

    >>> run = SubsampledGaussian(rate=0.01, sigma=4.0, steps=10_000)
    >>> [round(epsilon_of(run, 1e-5, name), 3) for name in ("moments", "rdp", "pld")]
    [1.259, 1.035, 0.947]
    """
    require_delta(delta)
    delta_at = profile(run, accountant, neighbours)
    if delta_at(0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while not delta_at(high) <= delta:
        low, high = high, 2 * high
        if not high < math.inf:
            return math.inf
    while high - low > 1e-6 * high and low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if delta_at(middle) <= delta else (middle, high)
    return high


def profile(
    run: SubsampledGaussian,
    accountant: Accountant = "pld",
    neighbours: Neighbours = "add or remove",
) -> Callable[[float], float]:
    """delta as a function of epsilon, an upper bound; see `epsilon_of`."""
    kinds = {"pld": _by_distribution, "rdp": _by_renyi, "moments": _by_moments}
    if accountant not in kinds:
        raise ValueError(f"accountant must be one of {', '.join(kinds)}, not {accountant!r}")
    one = kinds[accountant](run)
    if neighbours == "add or remove":
        return one
    if neighbours == "replace one":
        # P <= e^h R + d and R <= e^h Q + d, with R the run without the record, give
        # P <= e^(2h) Q + (1 + e^h) d.
        return lambda epsilon: min(1.0, (1 + _exponential(epsilon / 2)) * one(epsilon / 2))
    raise ValueError(f"neighbours must be 'replace one' or 'add or remove', not {neighbours!r}")


def least_sigma(
    epsilon: float,
    delta: float,
    rate: float,
    steps: int,
    accountant: Accountant = "pld",
    neighbours: Neighbours = "add or remove",
) -> float:
    """The least noise with which a run keeps to (epsilon, delta).

    Args:
        epsilon: for the whole run, in nats.
        delta: in (0, 1).
        rate: q, the probability with which a step takes a record, in (0, 1].
        steps: T.
        accountant: see `epsilon_of`.
        neighbours: see `epsilon_of`.

    Returns:
        sigma in units of the clipping norm, at least 0.2. It met the target when it was tried, and
        is at most a part in 10,000 above the least that does.

    Raises:
        ValueError: a parameter is out of range.

    >>> sigma = least_sigma(1.0, 1e-5, rate=0.01, steps=1000, accountant="rdp")
    >>> 0.999 < epsilon_of(SubsampledGaussian(0.01, sigma, 1000), 1e-5, "rdp") <= 1.0
    True
    """
    require_epsilon(epsilon)
    require_delta(delta)
    start = SubsampledGaussian(rate, LEAST_SIGMA, steps)

    def delta_at(sigma: float) -> float:
        return profile(replace(start, sigma=sigma), accountant, neighbours)(epsilon)

    if delta_at(LEAST_SIGMA) <= delta:
        return LEAST_SIGMA
    if accountant == "pld":
        # The divergences take milliseconds, and end up to a tenth above (more at tiny rates).
        exposed, private = LEAST_SIGMA, least_sigma(epsilon, delta, rate, steps, "rdp", neighbours)
    else:
        # Many small steps are like one step of noise sigma / (q sqrt(T)).
        exposed = LEAST_SIGMA
        private = max(2 * exposed, rate * math.sqrt(steps) / gaussian_mu(epsilon, delta))
    while not delta_at(private) <= delta:
        exposed, private = private, 1.5 * private
        if not private <= LARGEST_SIGMA:
            raise ValueError(
                f"no sigma up to {LARGEST_SIGMA:g} is known to keep to epsilon {epsilon} at delta "
                f"{delta} by the accountant {accountant!r}; raise them, or lower rate or steps"
            )
    guess = max(0.93 * private, math.sqrt(exposed * private))
    return private_end(delta_at, delta, private, exposed, guess, _TOLERANCE)[0]


def _by_moments(run: SubsampledGaussian) -> Callable[[float], float]:
    """The tail bound as published: min over lambda <= 32 of exp(T alpha - lambda epsilon)."""
    moments = [(order, run.steps * run.log_moment(order)) for order in range(1, 33)]

    def delta_at(epsilon: float) -> float:
        return _exponential(min(0.0, min(moment - k * epsilon for k, moment in moments)))

    return delta_at


def _by_renyi(run: SubsampledGaussian) -> Callable[[float], float]:
    """Of order a = k + 1: exp((a - 1) (R - epsilon)) (1 - 1 / a)^(a - 1) / a."""
    moments = [(order, run.steps * run.log_moment(order)) for order in ORDERS]

    def delta_at(epsilon: float) -> float:
        exponents = (
            moment - k * epsilon + k * math.log1p(-1 / (k + 1)) - math.log(k + 1)
            for k, moment in moments
        )
        return _exponential(min(0.0, min(exponents)))

    return delta_at


def _by_distribution(run: SubsampledGaussian) -> Callable[[float], float]:
    """The composed loss distribution; too great a loss is left to the Renyi divergences."""
    if not run.sigma >= LEAST_SIGMA:
        return _by_renyi(run)
    distributions = accounting().privacy_loss_distribution
    # Losses of one step reach over some (20 sigma + 1) / sigma^2; the error falls with the square.
    pitch = (20 * run.sigma + 1) / run.sigma**2 / _CELLS
    step = distributions.from_gaussian_mechanism(
        run.sigma, sampling_prob=run.rate, value_discretization_interval=pitch
    )
    composed = step.self_compose(run.steps)
    # What Fourier transforms in doubles may lose of a delta; see `accountant`.
    lost = 1e-13 + 1e-15 * run.steps
    return lambda epsilon: min(1.0, float(composed.get_delta_for_epsilon(epsilon)) + lost)


def _exponential(x: float) -> float:
    """e^x, infinite where a double cannot hold it."""
    return math.exp(x) if x < 700 else math.inf
