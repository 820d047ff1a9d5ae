"""Ways to estimate the mean of rows: a mechanism, and what becomes of its estimate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from hushbeam.studies.engine.cells import FigureLine
from hushbeam.studies.populations.rows import RowPopulation
from hushbeam.studies.systems.treatments import TREATMENTS, TreatedEstimate
from mechanisms.catalog import of_task
from mechanisms.planner.rows import Prediction, predict
from mechanisms.planner.search import search
from mechanisms.randomness import SeededRandom
from mechanisms.targets.rules import Target
from mechanisms.vector.base import VectorMean
from mechanisms.vector.rows import shortened
from mechanisms.vector.task import VectorTask
from pipelines.errors import RequestError

VECTORS = of_task("vector")

_ROOM = 1.1  # by how much a radius exceeds the root mean square length of a row
_NEGLIGIBLE = 0.01  # of an error
_PROJECTED = "multi_rphm"


@dataclass(frozen=True)
class RowSystem(FigureLine):
    """A mechanism of the catalogue, and what becomes of its estimate.

    Attributes:
        mechanism: its name.
        treatment: one of `TREATMENTS`, or "" for none.
    """

    mechanism: str = ""
    treatment: str = ""

    private: ClassVar[bool] = True

    def build(self, rows: RowPopulation, epsilon: float) -> VectorMean:
        """The mechanism for a population, under any public seed.

        Raises:
            ValueError: it cannot serve such rows, or spend so much.
        """
        return search(target(rows, epsilon), self.mechanism).mechanism

    def release(self, mechanism: Any, rows: RowPopulation, rng: SeededRandom) -> TreatedEstimate:
        """Let everybody report, some at a time, under a public seed of this release's own."""
        mechanism = self.reseeded(mechanism, rng)
        counts, cut = mechanism.count(np.empty(0, np.uint64)), 0
        for block in rows.blocks():
            if self._cuts:
                lengths = np.sqrt(np.einsum("ij,ij->i", block, block))
                cut += int(np.count_nonzero(lengths > radius(rows)))
                block = shortened(block, radius(rows))
            counts = counts + mechanism.count(mechanism.report(block, rng))
        estimate, variance = mechanism.estimate(counts), mechanism.estimated_variance(counts)
        published = TREATMENTS[self.treatment].publish(estimate, variance)
        return published._replace(shortened=cut)

    def predicted(self, rows: RowPopulation, epsilon: float) -> float | None:
        """The mean squared error of a coordinate that is expected; None where nothing is known.

        So it is where the mechanism is out of its reach, or shrunk after cutting rows off.
        """
        prediction = _predictions(rows, epsilon).get(self.mechanism)
        if prediction is None:
            return None
        shift = cut_off(rows) if self._cuts else 0.0
        if not self.treatment:
            return prediction.error + shift
        if not shift <= _NEGLIGIBLE * prediction.error:
            return None
        return TREATMENTS[self.treatment].error(prediction, rows)

    def reseeded(self, mechanism: Any, rng: SeededRandom) -> Any:
        """The same under another public seed, if it rests on one: errors are means over seeds."""
        if not VECTORS[self.mechanism].seeded:
            return mechanism
        return replace(mechanism, seed=int(rng.integers(1 << 63, 1)[0]))

    @property
    def _cuts(self) -> bool:
        """Whether the mechanism takes no rows that are longer than a radius."""
        return "radius" in VECTORS[self.mechanism].parameters


@dataclass(frozen=True)
class Zeros(RowSystem):
    """Zeros for everybody: no data."""

    private: ClassVar[bool] = False

    def build(self, rows: RowPopulation, epsilon: float) -> Any:
        return None

    def release(self, mechanism: Any, rows: RowPopulation, rng: SeededRandom) -> TreatedEstimate:
        return TreatedEstimate(np.zeros(rows.d), 0.0)

    def predicted(self, rows: RowPopulation, epsilon: float) -> float | None:
        return _predictions(rows, epsilon)["zeros"].error


@dataclass(frozen=True)
class Projection(RowSystem):
    """The mean row's projection on a random subspace, without noise and without privacy."""

    private: ClassVar[bool] = False

    def release(self, mechanism: Any, rows: RowPopulation, rng: SeededRandom) -> TreatedEstimate:
        matrix = self.reseeded(mechanism, rng).matrix
        return TreatedEstimate(matrix @ (rows.mean @ matrix), 1.0)

    def predicted(self, rows: RowPopulation, epsilon: float) -> float | None:
        return _predictions(rows, epsilon)["random projection"].error


REFERENCES: Mapping[str, RowSystem] = {
    "projection": Projection("projection", mechanism=_PROJECTED),
    "zeros": Zeros("zeros"),
}
"""Name -> what needs no privacy, to compare with."""


def lines(names: Sequence[str], sets: Mapping[str, Sequence[str]]) -> tuple[RowSystem, ...]:
    """The lines of a request.

    Args:
        names: MECHANISM, MECHANISM-TREATMENT, one of `REFERENCES` or a set each.
        sets: name -> systems.

    Returns:
        Each line once, in the order of the request.

    Raises:
        RequestError: a name is none, or its parts do not go together.

    >>> [str(line) for line in lines(["multi_hm-zero", "a"], {"a": ["zeros"]})]
    ['multi_hm-zero', 'zeros']
    """
    members = dict.fromkeys(member for name in names for member in sets.get(name, (name,)))
    return tuple(_system(member, sets) for member in members)


def target(rows: RowPopulation, epsilon: float) -> Target[VectorTask]:
    """What is wanted of every mechanism for a population."""
    task = VectorTask(rows.d, radius(rows))
    return Target("local", epsilon, 0.0, rows.n, task, unit="user", seed=0)


def radius(rows: RowPopulation) -> float:
    """The length to which rows are cut where they must be: 1.1 sqrt(d e2), as if it were public."""
    return min(1.0, _ROOM * math.sqrt(rows.mean_square)) * math.sqrt(rows.d)


def cut_off(rows: RowPopulation) -> float:
    """Mean square of what cutting rows off at the radius shifts their means by."""
    sums = np.zeros(rows.d)
    for block in rows.blocks():
        sums += shortened(block, radius(rows)).sum(axis=0)
    return float(np.mean((sums / rows.n - rows.mean) ** 2))


def _system(text: str, sets: Mapping[str, Sequence[str]]) -> RowSystem:
    """One system by its name."""
    name, dash, treatment = text.partition("-")
    known = [*REFERENCES, *VECTORS]
    if name not in known or (dash and treatment not in TREATMENTS) or text.endswith("-"):
        raise RequestError(
            f"--systems: unknown system {text!r}; there are: {', '.join([*sets, *known])}, and of "
            f"mechanisms NAME-TREATMENT: {', '.join(filter(None, TREATMENTS))}"
        )
    fits = [] if name in REFERENCES else _treatments(name)
    if dash and treatment not in fits:
        raise RequestError(
            f"--systems: {name} is not {treatment}; it goes with: {', '.join(fits) or 'nothing'}"
        )
    return REFERENCES[name] if name in REFERENCES else RowSystem(
        text, mechanism=name, treatment=treatment
    )  # fmt: skip


def _treatments(mechanism: str) -> list[str]:
    """Those that go with a mechanism."""
    biased = VECTORS[mechanism].biased
    return [name for name, one in TREATMENTS.items() if name and one.biased == biased]


def _predictions(rows: RowPopulation, epsilon: float) -> Mapping[str, Prediction]:
    """What is expected of every mechanism."""
    # In this order whatever the last digits: a prediction refuses moments that no rows have.
    mean_square = min(rows.mean_square_of_means, rows.mean_square)
    spread = min(rows.spread, mean_square)
    return _predicted(target(rows, epsilon), mean_square, rows.mean_square, spread)


@lru_cache(maxsize=256)  # one search serves all systems of a setting
def _predicted(what: Target[VectorTask], *moments: float) -> Mapping[str, Prediction]:
    return {prediction.name: prediction for prediction in predict(what, *moments)}
