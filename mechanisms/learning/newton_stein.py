"""Newton's steps for logistic regression from noisy sums of products and a noisy gradient.

The Hessian is the sum of s'(score) x x' over rows, s the logistic function. Were rows normal, it
would follow from X'X and the weights alone: with scores as the coordinate of a row along which s'
changes, what is left of the row is independent of it (Stein's lemma). Real rows are not normal; a
step along such a matrix is one to the same optimum, if not quite as long as Newton's. So X'X is
measured once, and the rounds that follow pay for gradients alone.

Noise may look like a gradient, and a gradient is followed only as far as it is more than noise: to
the Hessian a ridge is added, of which many are tried, and the step that is taken is the one of
which the loss is expected to fall most after what it owes to noise has been put right. With A the
inverse, and g' step + step'H step / 2 the change of the loss, a step of noise alone would seem to
gain tr(A V), V the variances of the gradient.

Source: Erdogdu, "Newton-Stein method: a second order method for GLMs via Stein's lemma", NIPS 2015,
    equation (4), for rows with a mean; here its expectations are integrals, for no round pays for
    them. Stein, Annals of Statistics 9(6), 1981, Lemma 2 (the loss put right).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from mechanisms.channel import Floats
from mechanisms.learning.normal_equations import largest_noise

_NODES = 32  # of an integral over the normal law
_STEPS = 60  # ridges that are tried
_LARGEST = 1e4  # of them, in largest eigenvalues: by then nothing but the constant is left
_FLATTEST = 0.02  # mean slope of the logistic function: flatter ones make steps too long to trust


class NoisyProducts(NamedTuple):
    """Noisy sums of products of a row's numbers.

    Attributes:
        products: (inputs, inputs) X'X; the last input is the constant.
        variance: of the noise of a sum, on average.
        largest: about the largest eigenvalue that noise alone gives; see `largest_noise`.
    """

    products: Floats
    variance: float
    largest: float

    @classmethod
    def of(cls, products: Floats, variances: Floats) -> NoisyProducts:
        """Of sums with independent noise of (k,) variances."""
        inputs = max(len(products) - 1, 1)
        return cls(products, float(np.mean(variances)), largest_noise(inputs, variances))

    def at(self, weights: Floats) -> NoisyProducts:
        """The Hessian of the loss at some weights, as far as rows are normal."""
        rows = self.products[-1, -1]
        mean = self.products[:, -1] / rows
        covariance = self.products / rows - np.outer(mean, mean)
        nodes, chances = np.polynomial.hermite_e.hermegauss(_NODES)
        chances = chances / chances.sum()
        along = covariance @ weights
        spread = max(float(weights @ along), 0.0)
        off = np.sqrt(spread) * nodes
        middle = float(mean @ weights)
        slopes = special.expit(middle + off) * special.expit(-middle - off)
        factor = max(float(chances @ slopes), _FLATTEST)
        hessian = factor * self.products
        if spread > 0:
            # How a row's expectation goes with its score; along that the slope's own moments count.
            tilt = along / spread
            first, second = (float(chances @ (slopes * off**power)) for power in (1, 2))
            both = np.outer(mean, tilt)
            hessian = hessian + rows * (
                (second - factor * spread) * np.outer(tilt, tilt) + first * (both + both.T)
            )
        return NoisyProducts(hessian, factor**2 * self.variance, factor * self.largest)


class Step(NamedTuple):
    """A change of the weights.

    Attributes:
        change: (inputs,) what is added to them.
        ridge: that was added to the Hessian's diagonal, but not for the constant.
        covariance: (inputs, inputs) what the gradient's noise gives the weights.
    """

    change: Floats
    ridge: float
    covariance: Floats


def newton_step(hessian: NoisyProducts, downhill: Floats, variances: Floats) -> Step:
    """The step after which the loss is expected to be least.

    Args:
        hessian: of the loss, over all rows, at the present weights.
        downhill: (inputs,) the gradient of the loss with the opposite sign, over all rows, noisy.
        variances: (inputs,) of its noise.

    >>> exact = NoisyProducts(np.array([[4.0, 0.0], [0.0, 8.0]]), 0.0, 0.0)
    >>> newton_step(exact, np.array([2.0, 4.0]), np.zeros(2)).change.tolist()
    [0.5, 0.5]
    """
    matrix, last = hessian.products, len(downhill) - 1
    spared = np.arange(last + 1) < last
    mean = matrix[:last, last] / matrix[last, last]
    centred = matrix[:last, :last] - matrix[last, last] * np.outer(mean, mean)
    eigenvalues = np.linalg.eigvalsh(centred) if last else np.ones(1)
    # What is smaller than noise alone may be noise, even its sign, as in `NormalEquations.fit`.
    least = max(0.0, hessian.largest - float(eigenvalues[0]))
    most = _LARGEST * max(float(eigenvalues[-1]), hessian.largest, 1.0)
    more = np.geomspace(max(hessian.largest, 1e-9 * most) / 10, most, _STEPS)
    best, least_loss = Step(np.zeros(last + 1), np.inf, np.zeros(matrix.shape)), np.inf
    for ridge in least + np.array([0.0, *more]):
        inverse = np.linalg.inv(matrix + np.diag(ridge * spared))
        change = inverse @ downhill
        follows = float(np.diag(inverse) @ variances)
        # The Hessian's own noise, as if of one variance: E[N A N] = v (tr(A) + A).
        own = float(np.trace(inverse) * (change @ change) + change @ inverse @ change)
        loss = float(change @ matrix @ change) / 2 - float(downhill @ change)
        loss += follows + hessian.variance * own / 2
        if loss < least_loss:
            least_loss = loss
            best = Step(change, float(ridge), (inverse * variances) @ inverse)
    return best
