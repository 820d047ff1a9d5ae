"""Accountants of noisy gradient descent: the Poisson-subsampled Gaussian mechanism.

Each step takes every record with probability q on its own (not a fixed number of records, not
with replacement), adds up gradients clipped to norm 1 and adds Gaussian noise of standard
deviation sigma. Neighbours differ by adding or removing one record. Three answers to the same
question, ever tighter: the moments accountant, Renyi divergences, privacy loss distributions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from mechanisms.compat.pld import accounting
from mechanisms.privacy.composition import renyi_to_epsilon

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
    >>> round(training.moments_epsilon(1e-5), 4), round(training.renyi_epsilon(1e-5), 3)
    (1.2586, 1.035)
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

    def moments_epsilon(self, delta: float, orders: int = 32) -> float:
        """The moments accountant as published: min over lambda of (T alpha + ln(1/delta)) / lambda.

        Args:
            delta: in (0, 1).
            orders: the largest lambda tried.

        Source: Abadi et al. 2016, Theorem 2.
        """
        _require(delta)
        return min(
            (self.steps * self.log_moment(order) - math.log(delta)) / order
            for order in range(1, orders + 1)
        )

    def renyi_epsilon(self, delta: float) -> float:
        """The same moments, converted without the loss in the published tail bound.

        Args:
            delta: in (0, 1).

        Source: Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy",
            NeurIPS 2020, Proposition 12.
        """
        _require(delta)
        return min(
            renyi_to_epsilon(order + 1, self.steps * self.log_moment(order) / order, delta)
            for order in ORDERS
        )

    def tight_epsilon(self, delta: float) -> float:
        """The answer to publish: the composed privacy loss distribution, an upper bound.

        Args:
            delta: in (0, 1).

        Raises:
            ImportError: the package dp-accounting is missing.

        Source: Doroshenko et al., "Connect the dots", PoPETs 2022, as implemented by
            dp-accounting.
        """
        _require(delta)
        distributions = accounting().privacy_loss_distribution
        step = distributions.from_gaussian_mechanism(self.sigma, sampling_prob=self.rate)
        return float(step.self_compose(self.steps).get_epsilon_for_delta(delta))


def _require(delta: float) -> None:
    """Refuse a delta that no Gaussian noise reaches (NaN included)."""
    if not 0 < delta < 1:
        raise ValueError(f"delta must lie strictly between 0 and 1, not {delta}")
