"""How far a published histogram is from the truth, estimated without bias and without the truth.

For an unbiased y with errors e, whatever is published, x(y), has the expected squared error

    E |x - y|^2 - sum Var e + 2 E sum e_i x_i(y).

Only the last term asks for the truth, and the law of the errors lets it be estimated as well. For
normal errors it is the variance times the slope of x (Stein). It is post-processing: no second
look at data.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mechanisms.channel import Floats
from mechanisms.frequency.oracle import FrequencyOracle

Rule = Callable[[Floats], Floats]
"""What is published in the place of single estimates, all else being equal."""

# Nodes and weights of exp(-t): published shares are nearly straight between them.
_NODES, _WEIGHTS = np.polynomial.laguerre.laggauss(24)


@dataclass(frozen=True, eq=False)
class Errors:
    """The law of the errors of unbiased shares.

    Attributes:
        variance: (d,) of each share.
        heavy: the share of the variance, in 0 .. 1, that is a Laplace variable's; the rest is
            that of a sum of coins.
        step: by how much one report that supports a value moves its share.
        supported: the probability that a report supports a value, other people's value.
    """

    variance: Floats
    heavy: float
    step: float
    supported: float

    @classmethod
    def of(cls, mechanism: FrequencyOracle, shares: Floats, n: int) -> "Errors":
        """Of n users' reports.

        Args:
            mechanism: what perturbed them.
            shares: (d,) a guess of the truth, for variances that depend on it.
            n: how many users reported.
        """
        noise = mechanism.added(n)
        # A Laplace variable has an excess kurtosis of 3, a sum of many coins none; of independent
        # parts the fourth cumulants add up.
        heavy = 0.0 if noise is None else min(noise.excess_kurtosis() / 3, 1.0) ** 0.5
        other = float(np.clip(mechanism.other, 0, 1))
        step = 1 / (n * mechanism.contrast)
        return cls(mechanism.variance(shares, n), heavy, step, other)

    def covariance(self, rule: Rule, unbiased: Floats) -> Floats:
        """(d,) without bias, the expected product of each error with what is published.

        Source: of coins, E[(S - ES) h(S)] = sum p_j (1 - p_j) E[h(S_j + 1) - h(S_j)] with S_j the
            sum without coin j; of a Laplace variable of scale b, E[e h(e)] = b times the integral
            of exp(-t) E[h(e + b t) - h(e - b t)] over t > 0, from the Levy measure of that law
            (Steutel, "Preservation of infinite divisibility", 1970). For normal laws it is Stein's
            lemma, Annals of Statistics 1981.
        """
        here, step = rule(unbiased), self.step
        above, below = rule(unbiased + step) - here, here - rule(unbiased - step)
        slope = ((1 - self.supported) * above + self.supported * below) / step
        if self.heavy:
            slope = (1 - self.heavy) * slope + self.heavy * self._spread(rule, unbiased)
        return self.variance * slope

    def _spread(self, rule: Rule, unbiased: Floats) -> Floats:
        """(d,) the slope of a rule, averaged as a Laplace variable asks for."""
        scale = self.scale
        slope = np.zeros_like(unbiased)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            apart = rule(unbiased + scale * node) - rule(unbiased - scale * node)
            slope += weight / (2 * scale) * apart
        return slope

    @cached_property
    def scale(self) -> float:
        """Of the Laplace part."""
        return float(np.sqrt(self.heavy * self.variance.mean() / 2))

    def likelihood(self, apart: Floats) -> Floats:
        """The density of errors in units of their standard deviation, but for a common factor.

        Args:
            apart: (...,) how far estimates are from a guess of the truth.
        """
        if self.heavy > 0.5:
            return np.asarray(np.exp(-np.abs(apart) / self.scale))
        return np.asarray(np.exp(-(apart**2) / (2 * float(self.variance.mean()))))


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way to publish unbiased shares.

    Attributes:
        name: of the post-processing.
        shares: (d,) what it publishes; they add up to 1.
        rule: the same one by one, with whatever it took from all shares held fast.
        kept: () or (d,) what the rule's slopes are multiplied by for what is not held fast: that
            published shares add up to 1.
    """

    name: str
    shares: Floats
    rule: Rule
    kept: Floats | float = 1.0

    def risk(self, unbiased: Floats, errors: Errors) -> float:
        """The sum of squared errors that is expected; an estimate, which may be below 0."""
        apart = float(((self.shares - unbiased) ** 2 - errors.variance).sum())
        return apart + 2 * float((self.kept * errors.covariance(self.rule, unbiased)).sum())
