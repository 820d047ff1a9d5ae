"""`hushbeam evaluate train --study dp-sgd`: accuracy of DP-SGD against epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from mechanisms.learning.dp_sgd import DpSgd
from mechanisms.learning.dp_sgd_design import design
from mechanisms.learning.objective import Objective
from mechanisms.learning.objectives import Softmax
from mechanisms.learning.oriented_edges import OrientedEdges
from mechanisms.learning.perceptron import Perceptron
from mechanisms.learning.scores import Numbers
from mechanisms.randomness import SeededRandom
from pipelines.errors import RequestError
from pipelines.evaluate.cells import Cell, Line
from pipelines.evaluate.comparison import Delta, Evaluation, Study, evaluate
from pipelines.evaluate.results import Measure
from pipelines.evaluate.train_images import Images, read_all_images
from pipelines.requests import Whole, request

MEASURES = (Measure("accuracy", "share of held-back images told right", log=False),)
PUBLIC = "-exact"  # ends the names of runs without noise
_HIDDEN = 100

COLUMNS = pa.schema(
    [
        ("data", pa.string()),
        ("n", pa.int64()),  # images, of which four fifths are trained on
        ("system", pa.string()),
        ("epsilon", pa.float64()),  # asked of the run
        ("delta", pa.float64()),
        ("private", pa.bool_()),
        ("weights", pa.int64()),
        ("sigma", pa.float64()),  # noise, in clipping norms
        ("steps", pa.int64()),
        ("repetition", pa.int64()),
        ("accuracy", pa.float64()),  # of the averaged weights, on the images held back
        ("seconds", pa.float64()),  # CPU time of a run
    ]
)


class DigitsEvaluation(Evaluation):
    """What a person wants compared."""

    systems: tuple[str, ...] = Field(("softmax", "perceptron", "edges"), min_length=1)
    data: tuple[str, ...] = Field(("digits:4000",), min_length=1)
    deltas: tuple[Delta, ...] = Field((1e-5,), min_length=1)
    repetitions: Whole = Field(3, ge=1, le=1_000_000)


def _pixels(images: Images) -> Numbers:
    return images.rows


def _edges(images: Images) -> Numbers:
    return OrientedEdges(images.side).rows(images.rows[:, :-1])


def _softmax(inputs: int, classes: int) -> Objective:
    return Softmax(inputs, classes=classes)


def _perceptron(inputs: int, classes: int) -> Objective:
    return Perceptron(inputs, (_HIDDEN,), classes)


MODELS: dict[str, tuple[Callable[[Images], Numbers], Callable[[int, int], Objective]]] = {
    "softmax": (_pixels, _softmax),
    "perceptron": (_pixels, _perceptron),
    "edges": (_edges, _softmax),
}
"""Name -> what it looks at, and the objective of so many inputs and classes."""


@dataclass(frozen=True)
class Fitted:
    """A designed run.

    Attributes:
        run: the run.
        rows: (n, inputs) of all images.
        images: with their labels.
    """

    run: DpSgd
    rows: Numbers
    images: Images


@dataclass(frozen=True)
class DigitsExperiment:
    """Accuracies of simulated runs.

    Attributes:
        populations: data set -> its images.
    """

    populations: Mapping[str, Images]

    def fit(self, cell: Cell) -> Fitted:
        """The least noise that keeps to a cell's epsilon and delta."""
        images, name = self.populations[cell.data], cell.line.system
        epsilon = math.inf if name.endswith(PUBLIC) else cell.epsilon
        look, build = MODELS[name.removesuffix(PUBLIC)]
        rows = look(images)
        objective = build(rows.shape[1], images.d)
        run = design(objective, images.trained, epsilon, cell.delta)
        return Fitted(run, rows, images)

    def known(self, fitted: Fitted) -> dict[str, Any]:
        """The run."""
        run = fitted.run
        return {
            "private": run.sigma > 0,
            "weights": run.objective.parameters,
            "sigma": run.sigma,
            "steps": run.steps,
        }

    def measure(self, cell: Cell, fitted: Fitted, rng: SeededRandom) -> dict[str, float]:
        """The accuracy of one run."""
        run, rows, labels = fitted.run, fitted.rows, fitted.images.labels
        cut = fitted.images.trained
        weights = run.train(rows[:cut], labels[:cut], rng)
        wrong = run.objective.errors(weights, rows[cut:], labels[cut:])
        return {"accuracy": 1 - float(np.mean(wrong))}


def run(asked: Mapping[str, Any]) -> int:
    """Compare models, and leave a folder with the results.

    Args:
        asked: option -> what was typed.

    Returns:
        The exit code.

    Raises:
        RequestError: the request or its data are wrong, or no system can serve any of it.
        FailedError: it was interrupted, or a part of it failed; the same command goes on.
    """
    options = request(DigitsEvaluation, asked)
    known = [f"{name}{end}" for end in ("", PUBLIC) for name in MODELS]
    for name in options.systems:
        if name not in known:
            raise RequestError(f"--systems: unknown system {name!r}; there are: {', '.join(known)}")
    chosen = [Line(name, "exact", "central") for name in dict.fromkeys(options.systems)]
    data = read_all_images(options.data)
    experiment = DigitsExperiment({each.name: each for each in data})
    identity = {"--study": "dp-sgd"}
    return evaluate(options, Study(experiment, data, chosen, COLUMNS, MEASURES, identity))
