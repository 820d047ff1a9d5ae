"""All that studies ask of the catalogue of mechanisms and of the planners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

from mechanisms import planner
from mechanisms.catalog import of_task, published
from mechanisms.frequency import predictions
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.frequency.task import FrequencyTask
from mechanisms.heavy_hitters import fitting
from mechanisms.heavy_hitters.fitting import Plan
from mechanisms.heavy_hitters.prefix_code import PrefixCode
from mechanisms.heavy_hitters.schedule import Search
from mechanisms.mean.scalar import ScalarMean
from mechanisms.planner.design import Design
from mechanisms.planner.search import search as best_design
from mechanisms.planner.target import Target
from mechanisms.privacy.amplification import shuffled_epsilon
from mechanisms.randomness import SeededRandom
from mechanisms.registry import Registration, explained
from mechanisms.vector.base import VectorMean
from mechanisms.vector.predictions import Prediction, crossover, predict
from mechanisms.vector.task import VectorTask

BEST = "best"  # what the planner would choose
MODELS = ("shuffle", "central", "local")  # a system is shown in the first of them that it serves

zipf = predictions.zipf

# ---- histograms ----------------------------------------------------------------------------------

HISTOGRAM_SYSTEMS: dict[str, Sequence[tuple[str, str]]] = {
    **{name: one.serves for name, one in of_task("frequency").items()},
    BEST: tuple((model, "exact") for model in MODELS),
}
"""Name -> every (model, bound) that it serves."""

NO_SYSTEMS: dict[str, str] = dict(explained())
"""Name -> why it is no system."""


def histogram_design(
    name: str,
    model: str,
    delta: float,
    domain_size: int,
    max_messages: float = 1.0,
    **target: Any,
) -> Design[FrequencyOracle]:
    """The best parameters of a system.

    Args:
        name: of the system, or "best".
        model: as in `Target`.
        delta: of the shuffle model; the others ignore it.
        domain_size: how many values.
        max_messages: as in `FrequencyTask`.
        **target: what else `Target` takes.

    Raises:
        ValueError: it cannot meet the target.
    """
    shuffled = delta if model == "shuffle" else 0.0
    task = FrequencyTask(domain_size, max_messages)
    what = Target(model=model, delta=shuffled, task=task, **target)
    return best_design(what, planner.AUTO if name == BEST else name)


def true_epsilon(design: Design[FrequencyOracle]) -> float:
    """What a histogram costs by the exact accountant, whatever a paper's bound says."""
    target, mechanism = design.target, design.mechanism
    if target.bound == "published":
        return shuffled_epsilon(mechanism, target.n, target.delta)[1]
    return design.release.epsilon


# ---- searches ------------------------------------------------------------------------------------

SEARCHES = fitting.SYSTEMS


def search(
    name: str, code: PrefixCode, false_strings: float, model: str, delta: float, **target: Any
) -> Plan:
    """The search that finds the rarest strings.

    Args:
        name: one of `SEARCHES`.
        code: of the strings.
        false_strings: how many strings that nobody has may be listed on average.
        model: as in `Target`.
        delta: of the shuffle model; the others ignore it.
        **target: what else `Target` takes.

    Raises:
        ValueError: it cannot meet the target.
    """
    shuffled = delta if model == "shuffle" else 0.0
    # The number of buckets is the search's to choose; a target must name some size.
    what = Target(model=model, delta=shuffled, task=FrequencyTask(2), **target)
    return fitting.fit(what, code, Search(false_strings=false_strings), seed=0, system=name)


# ---- means ---------------------------------------------------------------------------------------

MEANS = tuple(of_task("mean"))
PUBLISHED_MEANS = tuple(published("mean"))


def mean_parameters(name: str) -> Sequence[str]:
    """What the constructor of a mechanism takes."""
    return list(_mean(name).parameters)


def mean_mechanism(name: str, **parameters: Any) -> ScalarMean:
    """A mechanism, also one as published, whose claims do not hold.

    Raises:
        ValueError: a parameter is out of its range.
    """
    return cast(ScalarMean, _mean(name).constructor(**parameters))


def _mean(name: str) -> Registration:
    return {**of_task("mean"), **published("mean")}[name]


# ---- vectors -------------------------------------------------------------------------------------

VECTORS = of_task("vector")
"""Name -> what is registered of it."""

VectorTarget = Target[VectorTask]


def vector_target(n: int, dimension: int, epsilon: float, radius: float) -> VectorTarget:
    """What is wanted of every mechanism for n rows of some length at most, in the local model."""
    task = VectorTask(dimension, radius)
    return Target("local", epsilon, 0.0, n, task, unit="user", seed=0)


def vector_mechanism(name: str, target: VectorTarget) -> VectorMean:
    """A mechanism for rows.

    Raises:
        ValueError: it cannot serve such rows, or spend so much.
    """
    return best_design(target, name).mechanism


def reseeded(name: str, mechanism: Any, rng: SeededRandom) -> Any:
    """The same mechanism under another public seed, if it rests on one."""
    if not VECTORS[name].seeded:
        return mechanism
    return replace(mechanism, seed=int(rng.integers(1 << 63, 1)[0]))


@lru_cache(maxsize=256)
def vector_predictions(
    target: VectorTarget, mean_square: float, second_moment: float, spread: float
) -> Mapping[str, Prediction]:
    """Name -> what is expected to be erred by; see `mechanisms.vector.predictions.predict`."""
    predictions = predict(target, mean_square, second_moment, spread)
    return {prediction.name: prediction for prediction in predictions}


vector_crossover = crossover
