"""AIM: tables that are chosen one after another, where a graphical model is farthest off.

What a round measures follows from the noise of those before it, and the model is fitted by the
package mbi, of the extra `aim`. Everything else is here, so that chance is that of the study.

Source: McKenna, Mullins, Sheldon, Miklau, "AIM: an adaptive and iterative mechanism for
    differentially private synthetic data", VLDB 2022, Algorithms 1 to 4, with its constants.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.compat.roots import brentq
from mechanisms.papers.renyi import renyi_to_epsilon
from mechanisms.randomness import SeededRandom

Clique = tuple[int, ...]

_ROUNDS = 16  # a column
_ALPHA = 0.9  # of the budget, for noise on tables; the rest is for choosing them
_MEGABYTES = 80.0  # of the model
_ITERATIONS = 1000
_JOINT = 1 << 22  # cells of all columns together, up to which their table is looked at
_HALF = math.sqrt(2 / math.pi)  # the mean of a half-normal number
_ORDERS = np.concatenate([1 + np.arange(1, 100) / 100, np.geomspace(2, 1 << 14, 200)])


def concentrated(epsilon: float, delta: float) -> float:
    """The rho of zero-concentrated privacy that gives epsilon at a delta, on the private side.

    Source: Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS
        2020, Proposition 12; rho a is the Renyi divergence of every order a.
    """

    def excess(log_rho: float) -> float:
        rho = math.exp(log_rho)
        return min(renyi_to_epsilon(a, a * rho, delta) for a in _ORDERS.tolist()) - epsilon

    rho = math.exp(brentq(excess, math.log(1e-12), math.log(1e3), xtol=1e-6) - 2e-6)
    if not excess(math.log(rho)) <= 0:
        raise ValueError(f"no rho was found for epsilon {epsilon} at delta {delta}")
    return rho


def counted(records: NDArray[np.int64], sizes: Sequence[int], clique: Clique) -> Floats:
    """(cells,) how many records are in each cell of a table."""
    shape = tuple(sizes[column] for column in clique)
    places = np.ravel_multi_index(tuple(records[:, column] for column in clique), shape)
    return np.bincount(places, minlength=math.prod(shape)).astype(np.float64)


def workload(columns: int, ways: int) -> dict[Clique, float]:
    """Every table that helps with those of so many columns: how many of theirs it has, in all."""
    wanted = list(combinations(range(columns), ways))
    parts = chain.from_iterable(combinations(range(columns), k) for k in range(1, ways + 1))
    return {part: float(sum(len({*part} & {*one}) for one in wanted)) for part in parts}


def require_mbi() -> Any:
    """The package that fits the models.

    Raises:
        ValueError: it is not installed.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of single precision, which is set below
            import jax
            import mbi
            from mbi.extensions import synthetic_data
    except ImportError:
        raise ValueError("aim needs the package mbi: pip install '.[aim]'") from None
    jax.config.update("jax_enable_x64", True)
    return mbi, synthetic_data


def synthetic(
    records: NDArray[np.int64],
    sizes: Sequence[int],
    ways: int,
    epsilon: float,
    delta: float,
    rng: SeededRandom,
) -> tuple[NDArray[np.int64], dict[str, float]]:
    """Records whose tables are near those of others.

    Args:
        records: (n, columns) places of values.
        sizes: how many values each column has.
        ways: of how many columns the tables are that are to be near.
        epsilon, delta: of the release; records are added or removed.
        rng: of all its noise and choices.

    Returns:
        (as many records as the noisy tables count, how many tables were measured).

    Raises:
        ValueError: mbi is not installed, or the budget is out of range.
    """
    mbi, synthetic_data = require_mbi()
    domain = mbi.Domain([*range(len(sizes))], [*sizes])
    source, rho = rng.generator(), concentrated(epsilon, delta)
    weights = workload(len(sizes), ways)
    exact = {clique: counted(records, sizes, clique) for clique in weights}
    sigma = math.sqrt(_ROUNDS * len(sizes) / (2 * _ALPHA * rho))
    choice = math.sqrt(8 * (1 - _ALPHA) * rho / (_ROUNDS * len(sizes)))
    measured: list[Any] = []
    used = 0.0

    def measure(clique: Clique) -> None:
        noisy = exact[clique] + source.normal(0, sigma, exact[clique].size)
        measured.append(mbi.LinearMeasurement(noisy, clique, stddev=sigma))

    def fitted(model: Any = None) -> Any:
        estimator = mbi.estimation.MirrorDescent()
        return estimator.estimate(
            domain, measured, iters=_ITERATIONS, warm_start=model, tol=1e-6
        )  # fmt: skip

    for clique in (clique for clique in weights if len(clique) == 1):
        measure(clique)
        used += 0.5 / sigma**2
    model, last = fitted(), False
    while not last:
        if rho - used < 2 * (0.5 / sigma**2 + choice**2 / 8):  # all that is left
            sigma = math.sqrt(1 / (2 * _ALPHA * (rho - used)))
            choice, last = math.sqrt(8 * (1 - _ALPHA) * (rho - used)), True
        used += 0.5 / sigma**2 + choice**2 / 8
        able = _able(mbi, domain, weights, model.cliques, _MEGABYTES * min(used / rho, 1.0))
        now = _tables(model, sizes, able)
        scores = {
            clique: weights[clique]
            * (float(np.abs(exact[clique] - table).sum()) - _HALF * sigma * table.size)
            for clique, table in now.items()
        }
        chosen = _drawn(scores, max(weights[clique] for clique in able), choice, source)
        measure(chosen)
        model = fitted(model)
        moved = np.abs(_tables(model, sizes, [chosen])[chosen] - now[chosen]).sum()
        if moved <= _HALF * sigma * now[chosen].size:  # noise was all that it told
            sigma, choice = sigma / 2, choice * 2
    if not used <= rho * (1 + 1e-9):
        raise ValueError(f"the rounds spend rho {used}, more than {rho}")
    rows = max(1, round(float(model.total)))
    made = synthetic_data(model, rows, seed=int(source.integers(1 << 31)))
    columns = made.to_dict()
    return np.stack([np.asarray(columns[c], np.int64) for c in range(len(sizes))], axis=1), {
        "tables": float(len(measured))
    }


def _able(
    mbi: Any, domain: Any, weights: Mapping[Clique, float], cliques: Any, megabytes: float
) -> list[Clique]:
    """The tables with which a model stays small, and those that it has already."""
    own = [tuple(clique) for clique in cliques]
    return [
        clique
        for clique in weights
        if any({*clique} <= {*one} for one in own)
        or mbi.junction_tree.hypothetical_model_size(domain, [*own, clique]) <= megabytes
    ]


def _tables(model: Any, sizes: Sequence[int], cliques: Sequence[Clique]) -> dict[Clique, Floats]:
    """What a model says of some tables, as of `counted`."""
    if len(cliques) == 1 or math.prod(sizes) > _JOINT:
        return {c: np.asarray(model.project(c).datavector(), np.float64) for c in cliques}
    # One program in place of one for each table, which take half a second each to compile.
    columns = tuple(range(len(sizes)))
    joint = np.asarray(model.project(columns).datavector(), np.float64).reshape(*sizes)
    others = {c: tuple(column for column in columns if column not in c) for c in cliques}
    return {clique: joint.sum(axis=rest).ravel() for clique, rest in others.items()}


def _drawn(
    scores: Mapping[Clique, float], sensitivity: float, epsilon: float, source: Any
) -> Clique:
    """One of some, by the exponential mechanism."""
    cliques, values = list(scores), np.array(list(scores.values()))
    odds = np.exp(epsilon / (2 * sensitivity) * (values - values.max()))
    return cliques[int(source.choice(len(cliques), p=odds / odds.sum()))]
