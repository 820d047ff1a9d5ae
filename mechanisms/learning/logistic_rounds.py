"""Logistic regression in a few rounds of sums: products, gradients at each model, and a judgement.

The first round is that of linear regression: sums of products of a row's numbers and of its class,
-1 or 1. They tell X'X, and the gradient of the loss where all weights are 0. Each round that
follows sums up gradients at the present model, and takes a step of Newton's along them. The last
one counts the classes, and how many rows the model is wrong about.

A gradient of a row is its slope, in (-1, 1), times its numbers, so a row changes one sum for each
number, one for each category and the constant's: a few, where products take many.

Newton's steps for logistic regression from noisy sums of products and a noisy gradient.

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

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from mechanisms.channel import Floats, Neighbours
from mechanisms.counters.amounts import WholeAmounts, whole_amounts
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.levels import Slots
from mechanisms.learning.absent import filled, present
from mechanisms.learning.baseline import Baseline, BaselineComparison
from mechanisms.learning.features import Features
from mechanisms.learning.normal_equations import NormalEquations, largest_noise
from mechanisms.learning.objective import by_row
from mechanisms.learning.products import Products, finest
from mechanisms.learning.row_sums import Rounds, RowSums
from mechanisms.learning.scores import Numbers
from mechanisms.privacy.search import gaussian_mu
from mechanisms.randomness import RandomSource

_NODES = 32  # of an integral over the normal law
_STEPS = 60  # ridges that are tried
_LARGEST = 1e4  # of them, in largest eigenvalues: by then nothing but the constant is left
_FLATTEST = 0.02  # mean slope of the logistic function: flatter ones make steps too long to trust
# Shares of the budget: of products, of gradients at three models, of the judgement. Products need
# be no more exact than steps along them are anyway; gradients end up in the weights. Chosen, like
# the number of rounds, by log losses on the tables adult and credit_default.
SHARES = (0.35, 0.2, 0.2, 0.2, 0.05)


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
    def of(cls, products: Floats, variances: Floats) -> "NoisyProducts":
        """Of sums with independent noise of (k,) variances."""
        inputs = max(len(products) - 1, 1)
        return cls(products, float(np.mean(variances)), largest_noise(inputs, variances))

    def at(self, weights: Floats) -> "NoisyProducts":
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


def signs(classes: ArrayLike) -> Floats:
    """(n,) classes 0 and 1 as the numbers -1 and 1, and NaN where there is none.

    >>> signs([0, 1, -1]).tolist()
    [-1.0, 1.0, nan]
    """
    return np.where(present(classes), 2.0 * np.asarray(classes) - 1, np.nan)


@dataclass(frozen=True)
class Gradients(RowSums):
    """Gradients of the logistic loss at the present model, with the opposite sign.

    Attributes:
        products: of the rows, whose columns are these sums'.
        most: b, in so many units numbers are rounded, by a coin.

    >>> products = Products(Features((("age", 0.0, 1.0),), (("city", ("Bern", "Pavia")),)), most=7)
    >>> Gradients(products, most=3).changes
    3
    """

    products: Products
    most: int

    @cached_property
    def parts(self) -> tuple[WholeAmounts, ...]:
        features = self.products.features
        changes = len(features.numbers) + 1 + self.products.categories
        return (WholeAmounts(features.inputs, changes, self.most, least=-self.most),)

    def contributions(
        self, rows: Numbers, targets: ArrayLike, rng: RandomSource, weights: Floats | None
    ) -> Sequence[Sequence[tuple[Slots, Slots]]]:
        first = len(self.products.features.numbers)
        slopes = _slopes(rows, targets, weights)[:, None]
        chosen = self.products.chosen(rows)
        numbers = rows[:, :first].astype(np.float64)
        values = np.hstack([numbers * slopes, np.repeat(slopes, chosen.shape[1] + 1, axis=1)])
        whole = whole_amounts(values, 1.0, self.most, rng)
        constant = np.array([self.products.inputs - 1])
        return (
            (
                (np.arange(first), whole[:, :first]),
                (constant, whole[:, -1:]),
                (np.where(chosen < 0, -1, chosen + first), whole[:, first:-1]),
            ),
        )


@dataclass(frozen=True)
class Judgement(RowSums):
    """How many rows are of each class, and how many the model is wrong about.

    >>> Judgement().changes
    2
    """

    parts: ClassVar[tuple[WholeAmounts, ...]] = (WholeAmounts(3, 2),)

    def contributions(
        self, rows: Numbers, targets: ArrayLike, rng: RandomSource, weights: Floats | None
    ) -> Sequence[Sequence[tuple[Slots, Slots]]]:
        positive = filled(targets) > 0
        wrong = (_scores(rows, weights) > 0) != positive
        groups = np.column_stack([positive.astype(np.int64), np.where(wrong, 2, -1)])
        return (((groups, np.ones((1, 1), np.int64)),),)

    def compared(
        self, counts: Floats, variances: Floats, confidence: float
    ) -> tuple[BaselineComparison | None, float, float]:
        """(the model beside the best constant, its share of wrong classes, standard error).

        Args:
            counts: (3,) as of `sums`.
            variances: (3,) of them.
            confidence: that a difference which is called one is no noise.
        """
        rows = max(float(counts[:2].sum()), 1.0)
        shares, spread = counts[[2, 0, 1]] / rows, variances[[2, 0, 1]] / rows**2
        seen = Baseline(2).compared(shares.tolist(), spread.tolist(), 1.0, confidence)
        error = math.sqrt(float(spread[0] + shares[0] ** 2 * spread[1:].sum()))
        return seen, float(shares[0]), error


class Present(NamedTuple):
    """What the rounds so far have told.

    Attributes:
        weights: (inputs,) of the present model.
        equations: of the first round.
        step: the last one; None where noise leaves open whether there are any rows.
    """

    weights: Floats
    equations: NormalEquations
    step: Step | None = None

    def stepped(self, downhill: Floats, variances: Floats, penalty: float) -> "Present":
        """After one step more, if there are any rows.

        Args:
            downhill: (inputs,) the gradient's sum over rows, with the opposite sign.
            variances: (inputs,) of its noise.
            penalty: lambda of the penalty lambda / 2 |weights|^2 on the mean loss, which spares the
                constant.
        """
        if self.equations.drowned:
            return self
        inputs = self.equations.inputs
        hessian = NoisyProducts.of(
            self.equations.matrix[:inputs, :inputs], self.equations.variances_of_rows
        ).at(self.weights)
        strength = penalty * self.equations.rows * (np.arange(inputs) < inputs - 1)
        hessian = hessian._replace(products=hessian.products + np.diag(strength))
        step = newton_step(hessian, downhill - strength * self.weights, variances)
        return self._replace(weights=self.weights + step.change, step=step)

    def after(
        self, sums: RowSums, design: JobTotals, counts: ArrayLike, penalty: float = 0.0
    ) -> "Present":
        """After a round of gradients.

        Args:
            sums, design, counts: of the round.
            penalty: as in `stepped`.
        """
        variances = sums.variances(design, max(self.equations.rows, 0.0))
        return self.stepped(sums.sums(design, counts), variances, penalty)


def opened(equations: NormalEquations, penalty: float = 0.0) -> Present:
    """After the first round, whose sums tell the gradient where all weights are 0.

    Args:
        equations: of rows and their classes, -1 or 1.
        penalty: see `Present.stepped`.
    """
    products, variances = equations.with_target
    start = Present(np.zeros(equations.inputs), equations)
    return start.stepped(products / 2, variances / 4, penalty)


def logistic_for(
    features: Features, n: int, neighbours: Neighbours, epsilon: float, delta: float
) -> tuple[Products, Rounds, JobTotals]:
    """The first round; all of them, as finely rounded as noise makes sense of; and their noise.

    Args:
        features, n, neighbours, epsilon, delta: see `products.products_for`.
    """
    coarse = Products(features, 1)
    products = replace(coarse, most=finest(_noise(coarse, SHARES[0], epsilon, delta), n))
    gradients: list[RowSums] = [
        Gradients(products, finest(_noise(Gradients(products, 1), share, epsilon, delta), n))
        for share in SHARES[1:-1]
    ]
    rounds = Rounds((products, *gradients, Judgement()), SHARES)
    return products, rounds, rounds.meeting(neighbours, epsilon, delta)


def _noise(sums: RowSums, share: float, epsilon: float, delta: float) -> float:
    """The standard deviation of Gaussian noise on sums that may use a share of mu^2."""
    return math.sqrt(sums.changes / share) / gaussian_mu(epsilon, delta)


def _scores(rows: Numbers, weights: Floats | None) -> Floats:
    """(n,) of each row by itself: no row moves the rounding of another's."""
    if weights is None:
        return np.zeros(len(rows))
    return np.asarray(by_row(rows.astype(np.float64), weights[:, None])[:, 0], np.float64)


def _slopes(rows: Numbers, targets: ArrayLike, weights: Floats | None) -> Floats:
    """(n,) how the loss falls as the score rises, in [-1, 1]."""
    return np.asarray((filled(targets) + 1) / 2 - special.expit(_scores(rows, weights)))
