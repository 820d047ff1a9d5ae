"""What the optimal mean is held to: the linear programme itself, and what others reach."""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize, sparse


def programme(epsilon: float, inputs: int, outputs: np.ndarray) -> float:
    """The least worst variance at some inputs of all unbiased channels into given outputs.

    Variables are P(y|x) for the inputs in [0, 1], the least probability m of each output (the
    same for y and -y: averaging a channel with its mirror image costs nothing), and the worst
    variance t. Between the inputs nothing is asked, so the optimum over all of [-1, 1] is no
    better than with these outputs the finer they are.
    """
    x, y = np.linspace(0, 1, inputs), np.asarray(outputs)
    size, half = x.size * y.size, (y.size + 1) // 2
    fold = np.minimum(np.arange(y.size), y.size - 1 - np.arange(y.size))
    least = sparse.kron(np.ones((x.size, 1)), sparse.csr_matrix(np.eye(half)[fold]))
    none = sparse.csr_matrix((size, 1))
    each = sparse.eye(x.size)
    bounds = [
        sparse.hstack([-sparse.eye(size), least, none]),
        sparse.hstack([sparse.eye(size), -math.exp(epsilon) * least, none]),
        sparse.hstack(
            [sparse.kron(each, y**2), sparse.csr_matrix((x.size, half)), -np.ones((x.size, 1))]
        ),
    ]
    means = [sparse.kron(each, row) for row in (np.ones(y.size), y)]
    empty = sparse.csr_matrix((2 * x.size, half + 1))
    solution = optimize.linprog(
        np.append(np.zeros(size + half), 1),
        A_ub=sparse.vstack(bounds).tocsr(),
        b_ub=np.concatenate([np.zeros(2 * size), x**2]),
        A_eq=sparse.hstack([sparse.vstack(means), empty]).tocsr(),
        b_eq=np.concatenate([np.ones(x.size), x]),
        bounds=[(0, None)] * (size + half) + [(None, None)],
        method="highs",
    )
    return float(solution.fun)


def least_worst_variance(law: np.ndarray, y: np.ndarray, end: np.ndarray) -> float:
    """A lower bound on max_r Var_r(y') over all antisymmetric y' with end @ y' = 1.

    Any mixture of the rows' variances bounds their maximum from below, and its minimum over y' is
    a linear system. The mixture is the one whose slope at y comes nearest to that of `end`, which
    it equals at the optimum.
    """
    half = y.size // 2
    fold = np.zeros((y.size, half))
    fold[np.arange(half), np.arange(half)] = -1
    fold[y.size - 1 - np.arange(half), np.arange(half)] = 1
    z, mean, square = y[::-1][:half], law @ fold, law @ fold**2
    slopes = (square * z - (mean @ z)[:, None] * mean).T
    across = slopes - np.outer(end @ fold, z @ slopes)  # what is left when x_n = 1 is kept
    variances = square @ z**2 - (mean @ z) ** 2
    scale = np.abs(across).max()
    # The last row asks for a sum of 1, the one before it for rows whose variance is the worst.
    short = (variances.max() - variances) / variances.max()
    system = np.vstack([across / scale, short, np.ones(len(law))])
    mixture, _ = optimize.nnls(system, np.append(np.zeros(half + 1), 1))
    mixture /= mixture.sum()
    form = np.diag(mixture @ square) - (mean.T * mixture) @ mean
    return float(1 / ((end @ fold) @ np.linalg.solve(form, end @ fold)))


def hybrid_worst(epsilon: float, m: float) -> float:
    """Worst variance of a window with m = width/reach, mixed with Duchi's so that it is constant.

    m = e^(-epsilon/2) is the hybrid mechanism HM where that mixes at all; no m is worse than the
    two mechanisms alone.
    """
    e = math.exp(epsilon)
    inside = m * e / (1 + m * e)
    k = m * (e - 1) / (1 + m * e)
    b = (e + 1) / (e - 1)
    mixed = m**2 / 3 + (1 - inside) * (1 + m) ** 3 / (3 * k) + (1 - k) * b**2
    return min(mixed, b**2)


def hybrid_optimal(epsilon: float) -> float:
    """The least of them."""
    return min(hybrid_worst(epsilon, m) for m in np.linspace(1e-3, 1, 2000))
