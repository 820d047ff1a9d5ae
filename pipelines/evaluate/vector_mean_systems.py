"""Which ways to estimate the mean of rows are compared, and what each is expected to err by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from mechanisms import catalog
from mechanisms.channel import Floats
from mechanisms.planner.search import search
from mechanisms.planner.target import Target
from mechanisms.postprocess import shrinkage
from mechanisms.vector.base import VectorMean
from mechanisms.vector.predictions import Prediction, predict
from mechanisms.vector.random_projection import MultiRphm
from mechanisms.vector.rows import shortened
from mechanisms.vector.task import VectorTask
from pipelines.errors import RequestError
from pipelines.evaluate.cells import Line
from pipelines.evaluate.vector_mean_data import Rows

ZEROS, PROJECTION, RPHM = "zeros", "projection", "multi_rphm"
TREATMENTS = {
    "zero": "shrunk towards 0 by James and Stein's estimator",
    "mean": "shrunk towards the mean of its coordinates",
    "share": "multiplied by q/d",
    "debiased": "multiplied by d/q",
}

SETS: dict[str, tuple[str, ...]] = {
    "paper": ("multi_hm", RPHM, PROJECTION, "meanest"),
    "shrinkage": ("multi_hm-share", "multi_hm-zero", "multi_hm-mean", "multi_optimal",
                  "multi_optimal-zero", "multi_optimal-mean", ZEROS),
}  # fmt: skip

_ROOM = 1.1  # by how much the radius of PrivUnit exceeds the root mean square length of a row
_NEGLIGIBLE = 0.01  # of an error


class Shrunk(NamedTuple):
    """An estimate after its treatment.

    Attributes:
        estimate: (d,).
        factor: by which it was multiplied, or its distance from the target.
    """

    estimate: Floats
    factor: float


@dataclass(frozen=True)
class System:
    """A mechanism, and what becomes of its estimate.

    Attributes:
        mechanism: its name among those of the task "vector"; "zeros", which publishes zeros; or
            "projection", the mean row's projection on a random subspace, without noise and
            without privacy.
        treatment: of the unbiased estimate, one of `TREATMENTS`, or "" for none.
    """

    mechanism: str
    treatment: str = ""

    @property
    def name(self) -> str:
        """As a person types it."""
        return f"{self.mechanism}-{self.treatment}" if self.treatment else self.mechanism

    def build(self, rows: Rows, epsilon: float) -> VectorMean | None:
        """The mechanism for a population; None where rows report nothing.

        Raises:
            ValueError: it cannot serve such rows, or spend so much.
        """
        if self.mechanism == ZEROS:
            return None
        name = RPHM if self.mechanism == PROJECTION else self.mechanism
        return search(target(rows, epsilon), name).mechanism

    def treated(self, unbiased: Floats, variance: Floats) -> Shrunk:
        """What is published.

        Args:
            unbiased: (d,) the collector's estimate.
            variance: (d,) of each of them, judged by the reports.
        """
        if self.treatment == "zero":
            return _moved(shrinkage.to_prior(unbiased, variance))
        if self.treatment == "mean":
            return _moved(shrinkage.to_mean(unbiased, variance))
        share = _share(unbiased.size)
        factor = {"": 1.0, "share": share, "debiased": 1 / share}[self.treatment]
        return Shrunk(factor * unbiased, factor)

    def predicted(self, rows: Rows, epsilon: float) -> float | None:
        """The mean squared error of a coordinate that `mechanisms.vector.predictions` expects.

        After a shrinking it is that of the best one, an oracle's. None where nothing is known:
        where the mechanism is out of its reach, or PrivUnit is shrunk after cutting rows off.
        """
        name = {PROJECTION: "random projection"}.get(self.mechanism, self.mechanism)
        found = _predictions(target(rows, epsilon), *_moments(rows)).get(name)
        if found is None:
            return None
        mu2, share = rows.mean_square_of_means, _share(rows.d)
        kept = share if self.mechanism == RPHM else 1.0
        noise = found.error - (1 - kept) * mu2
        beyond = math.erfc(1 / math.sqrt(2 * rows.mean_square))
        shift = cut_off(rows) if self.mechanism == "privunit" else 0.0
        if self.treatment and not shift <= _NEGLIGIBLE * found.error:
            return None
        return {
            "": found.error + shift,
            "zero": found.to_zero if rows.d > 2 else found.error,
            "mean": found.to_mean if rows.d > 3 else found.error,
            "share": (1 - share) ** 2 * mu2 + share**2 * found.error,
            # What is cut off at -1 and 1 falls short of the mean; by Stein's lemma for normal
            # coordinates their product is mu2 times the share of numbers that are cut off.
            "debiased": (1 / share - 1) * mu2 * (1 - 2 * beyond) + noise / share**2,
        }[self.treatment]


def target(rows: Rows, epsilon: float) -> Target[VectorTask]:
    """What is asked of every mechanism for a population."""
    task = VectorTask(rows.d, radius(rows))
    return Target("local", epsilon, 0.0, rows.n, task, unit="user", seed=0)


def radius(rows: Rows) -> float:
    """The length to which PrivUnit cuts rows: 1.1 sqrt(d e2), as if that were public."""
    return min(1.0, _ROOM * math.sqrt(rows.mean_square)) * math.sqrt(rows.d)


def cut_off(rows: Rows) -> float:
    """Mean square of what cutting rows off at the radius of PrivUnit shifts their means by."""
    sums = np.zeros(rows.d)
    for block in rows.blocks():
        sums += shortened(block, radius(rows)).sum(axis=0)
    return float(np.mean((sums / rows.n - rows.mean) ** 2))


def systems(names: Sequence[str]) -> dict[Line, System]:
    """The systems that a person asked for.

    Args:
        names: MECHANISM or MECHANISM-TREATMENT each, or a set.

    Returns:
        A line for each system, in the order asked for.

    Raises:
        RequestError: a name is none, or its parts do not go together.

    >>> [str(line) for line in systems(["multi_hm-zero", "zeros"])]
    ['multi_hm-zero', 'zeros']
    """
    members = [member for name in names for member in SETS.get(name, (name,))]
    found = [_system(member) for member in dict.fromkeys(members)]
    return {Line(each.name, "exact", "local", each.name): each for each in found}


def _system(text: str) -> System:
    """One system by its name."""
    name, dash, treatment = text.partition("-")
    known = [ZEROS, PROJECTION, *catalog.of_task("vector")]
    if name not in known or (dash and treatment not in TREATMENTS):
        raise RequestError(
            f"--systems: unknown system {text!r}; there are: {', '.join([*SETS, *known])}, and of "
            f"mechanisms NAME-TREATMENT: {', '.join(TREATMENTS)}"
        )
    fits = {ZEROS: (), PROJECTION: (), RPHM: ("debiased",)}.get(name, ("zero", "mean", "share"))
    if dash and treatment not in fits:
        raise RequestError(
            f"--systems: {name} is not {treatment}; it goes with: {', '.join(fits) or 'nothing'}"
        )
    return System(name, treatment)


def _moved(found: shrinkage.Shrunk) -> Shrunk:
    return Shrunk(found.estimate, found.factor)


def _share(dimension: int) -> float:
    """q / d as the paper has it."""
    return MultiRphm(1.0, dimension, max(1, round(0.3 * dimension))).kept


def _moments(rows: Rows) -> tuple[float, float, float]:
    """mu2, e2 and the spread of the means, in this order whatever the last digits."""
    e2 = rows.mean_square
    mu2 = min(rows.mean_square_of_means, e2)
    return mu2, e2, min(rows.spread, mu2)


@lru_cache(maxsize=256)
def _predictions(
    asked: Target[VectorTask], mu2: float, e2: float, spread: float
) -> Mapping[str, Prediction]:
    """What is expected of every mechanism."""
    return {each.name: each for each in predict(asked, mu2, e2, spread)}
