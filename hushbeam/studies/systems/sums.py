"""Linear regression from noisy sums of products: among a shuffler's dummies, and by a curator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hushbeam.studies.populations.tables import StudyExamples
from mechanisms.channel import Floats
from mechanisms.learning.products import Products, central_noise, products_for
from mechanisms.learning.scores import Numbers
from mechanisms.randomness import SeededRandom

Fit = Callable[[Numbers, Numbers, int], tuple[Floats, bool]]
"""(n, inputs) rows, (n,) targets, seed -> (parameters,) weights, whether the run was given up."""


def counters(population: StudyExamples, n: int, epsilon: float, delta: float) -> Fit:
    """What `hushbeam train` fits.

    Args:
        population: whose rows are fitted.
        n: how many of them.
        epsilon, delta: of a release under "add or remove".
    """
    products, design = products_for(population.features, n, "add or remove", epsilon, delta)
    variances = products.variances(design, n)

    def learned(rows: Numbers, targets: Numbers, seed: int) -> tuple[Floats, bool]:
        rng = SeededRandom(seed)
        counts = design.noisy(products.totals(rows, targets, rng), rng)
        return products.equations(products.sums(design, counts), variances).fit().weights, False

    return learned


def central(population: StudyExamples, n: int, epsilon: float, delta: float) -> Fit:
    """The analytic Gaussian mechanism on the same sums, for the same neighbours; see `counters`."""
    products = Products(population.features, 1)
    spread = central_noise(population.features, epsilon, delta)
    variances = np.full(len(products.pairs), spread**2)

    def learned(rows: Numbers, targets: Numbers, seed: int) -> tuple[Floats, bool]:
        whole = np.column_stack([rows, targets]).astype(np.float64)
        sums = (whole.T @ whole)[tuple(products.pairs.T)]
        sums += SeededRandom(seed).generator().normal(0, spread, sums.size)
        return products.equations(sums, variances).fit().weights, False

    return learned


SUMS = {"counters": counters, "central_sums": central}
"""Name -> what fits to a population."""
