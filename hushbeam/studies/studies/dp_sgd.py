"""`hushbeam evaluate train --study dp-sgd`: accuracy of DP-SGD against epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hushbeam.studies.engine.cells import Cell, FigureLine, Simulation, expanded
from hushbeam.studies.engine.figures import ALONE, BY_DELTA, BY_EPSILON
from hushbeam.studies.engine.measure import Measure
from hushbeam.studies.engine.options import Deltas, EpsilonOptions, Names, Texts, Times
from hushbeam.studies.engine.study import Study
from hushbeam.studies.populations.images import Images, read_images
from hushbeam.studies.systems.convolution import Convolution
from hushbeam.studies.systems.oriented_edges import OrientedEdges
from mechanisms.learning.dp_sgd import design
from mechanisms.learning.objective import Objective
from mechanisms.learning.objectives import Softmax
from mechanisms.learning.perceptron import Perceptron
from mechanisms.learning.scores import Numbers
from mechanisms.randomness import SeededRandom
from pipelines.request.options import option

_EXACT = "-exact"  # ends the names of runs without noise
_HIDDEN = 100  # units of the perceptron

COLUMNS = pa.schema(
    [
        ("data", pa.string()),
        ("n", pa.int64()),  # images, of which four fifths are trained on
        ("system", pa.string()),
        ("epsilon", pa.float64()),  # wanted of the run
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


@dataclass(frozen=True)
class ImageModel:
    """A way to classify images.

    Attributes:
        inputs: images -> (n, inputs) what the model looks at.
        objective: (inputs, classes) -> what is trained.
    """

    inputs: Callable[[Images], Numbers]
    objective: Callable[[int, int], Objective]


def _pixels(images: Images) -> Numbers:
    return images.rows


def _edges(images: Images) -> Numbers:
    return OrientedEdges(images.side).rows(images.rows[:, :-1])


def _softmax(inputs: int, classes: int) -> Objective:
    return Softmax(inputs, classes=classes)


def _perceptron(inputs: int, classes: int) -> Objective:
    return Perceptron(inputs, (_HIDDEN,), classes)


def _convolution(inputs: int, classes: int) -> Objective:
    return Convolution(inputs, classes)


MODELS = {
    "softmax": ImageModel(_pixels, _softmax),
    "perceptron": ImageModel(_pixels, _perceptron),
    "convolution": ImageModel(_pixels, _convolution),
    "edges": ImageModel(_edges, _softmax),
}


class DpSgdStudyOptions(EpsilonOptions):
    """What a person wants compared."""

    systems: Names = tuple(MODELS)
    data: Texts = ("digits:4000",)
    deltas: Deltas = option("of the run", (1e-5,), metavar="D")
    repetitions: Times = 3


def fit(options: DpSgdStudyOptions, cell: Cell, population: Images) -> Simulation:
    """The run of the least noise that keeps to a cell's epsilon and delta."""
    model = MODELS[cell.line.system.removesuffix(_EXACT)]
    rows, labels, cut = model.inputs(population), population.labels, population.trained
    objective = model.objective(rows.shape[1], population.d)
    epsilon = math.inf if cell.line.reference else cell.epsilon
    run = design(objective, cut, epsilon, cell.delta)

    def release(rng: SeededRandom) -> dict[str, float]:
        weights = run.train(rows[:cut], labels[:cut], rng)
        return {"accuracy": 1 - float(np.mean(objective.errors(weights, rows[cut:], labels[cut:])))}

    known = {
        "private": run.sigma > 0,
        "weights": objective.parameters,
        "sigma": run.sigma,
        "steps": run.steps,
    }
    return Simulation(known, release)


def lines(names: Sequence[str]) -> tuple[FigureLine, ...]:
    """The lines of a request.

    Raises:
        RequestError: a name is unknown.
    """
    known = [f"{name}{end}" for end in ("", _EXACT) for name in MODELS]
    return tuple(
        FigureLine(name, model="central", reference=name.endswith(_EXACT))
        for name in expanded(names, known, {})
    )


ACCURACY = Measure(
    "accuracy", "share of held-back images classified rightly", log=False, errors=True
)

STUDY = Study(
    options=DpSgdStudyOptions,
    lines=lambda options: lines(options.systems),
    data=lambda options: read_images(options.data),
    fit=fit,
    columns=COLUMNS,
    measures=[ACCURACY],
    along=[BY_EPSILON, BY_DELTA],
    alone=ALONE,
)
