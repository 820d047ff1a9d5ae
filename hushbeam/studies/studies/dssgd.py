"""`hushbeam evaluate train --study dssgd`: accuracy of many participants against theta_u."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Literal, cast

import numpy as np
import pyarrow as pa
from pydantic import Field
from rich.console import Console

from hushbeam.studies.engine.cells import Cell, Simulation
from hushbeam.studies.engine.figures import Along
from hushbeam.studies.engine.measure import Measure
from hushbeam.studies.engine.options import (
    Ascending,
    Deltas,
    Names,
    Options,
    Texts,
    Times,
)
from hushbeam.studies.engine.results import Results, say
from hushbeam.studies.engine.study import Study
from hushbeam.studies.papers.dssgd import (
    ALONE,
    CENTRALISED,
    HIDDEN,
    PRICED,
    RULES,
    Participants,
    lines,
)
from hushbeam.studies.populations.images import Images, read_images
from hushbeam.studies.studies.dp_sgd import ACCURACY
from hushbeam.studies.systems.convolution import Convolution
from mechanisms.channel import Floats
from mechanisms.learning.objective import Objective
from mechanisms.learning.perceptron import Perceptron
from mechanisms.papers.learning.dssgd import LocalTraining, ParticipantData, SelectiveSGD
from mechanisms.randomness import SeededRandom
from pipelines.errors import RequestError
from pipelines.request import answers
from pipelines.request.options import option
from pipelines.request.requests import Epsilon, Whole

_PROTECTS = 10  # the largest epsilon of a run that protects anybody at all

COLUMNS = pa.schema(
    [
        ("data", pa.string()),
        ("system", pa.string()),
        ("model", pa.string()),  # that is trained
        ("participants", pa.int64()),
        ("exchange", pa.string()),  # in which order; null where nothing is uploaded
        ("theta_u", pa.float64()),  # null where nothing is uploaded
        ("epsilon_of_a_value", pa.float64()),  # of noisy rules: of each value that is uploaded
        ("epsilon_of_the_run", pa.float64()),  # of noisy rules: what data have spent
        ("delta", pa.float64()),
        ("repetition", pa.int64()),
        ("accuracy", pa.float64()),  # the mean over participants, each by its own weights at last
        ("best", pa.float64()),  # the best participant's
        ("server", pa.float64()),  # that of the server's parameters; null where it gets none
        ("seconds", pa.float64()),
    ]
)


MODELS: dict[str, Callable[[int, int], Objective]] = {
    "perceptron": lambda inputs, classes: Perceptron(inputs, (HIDDEN,), classes, activation="relu"),
    "convolution": Convolution,
}
"""Name -> (inputs, classes) -> what all participants train."""


class DssgdStudyOptions(Options):
    """What a person wants compared."""

    systems: Names = ("largest", ALONE, CENTRALISED)
    data: Texts = ("digits:4000",)
    repetitions: Times = 3
    shares: Annotated[tuple[Annotated[float, Field(gt=0, le=1)], ...], Ascending] = option(
        "theta_u: of the parameters that are uploaded", (0.01, 0.1, 1.0), metavar="U", min_length=1
    )
    participants: Annotated[tuple[Annotated[Whole, Field(ge=1)], ...], Ascending] = option(
        "how many", (30, 90), metavar="N", min_length=1
    )
    model: Literal["perceptron", "convolution"] = option("that they train", "perceptron")
    exchange: Literal["round-robin", "random-order", "asynchronous"] = option(
        "in which order participants exchange", "round-robin"
    )
    download_share: float = option(
        "theta_d: of the parameters that are fetched", 1.0, metavar="D", gt=0, le=1
    )
    epochs: Whole = option("of each participant", 10, metavar="N", ge=1, le=10_000)
    noise: Epsilon = option("epsilon of each value that noisy rules upload", 1.0, metavar="E")
    deltas: Deltas = option(
        "of what noisy rules spend in a run", (1e-5,), metavar="D", max_length=1
    )


def fit(options: DssgdStudyOptions, cell: Cell, population: Images) -> Simulation:
    """Who does what."""
    line, cut = cast(Participants, cell.line), population.trained
    # Brightness in [0, 1], and the constant 1.
    rows = np.concatenate([(population.rows[:, :-1] + 1) / 2, population.rows[:, -1:]], axis=1)
    labels = population.labels
    model = MODELS[options.model](rows.shape[1], population.d)
    selection = RULES[line.rule](cell.epsilon, model.parameters, options.noise)
    protocol = options.exchange if line.uploads else "alone"
    training = SelectiveSGD(
        LocalTraining(model), selection, protocol, options.epochs, options.download_share
    )

    def accuracy(weights: Floats) -> float:
        return 1 - float(np.mean(model.errors(weights, rows[cut:], labels[cut:])))

    def release(rng: SeededRandom) -> dict[str, float]:
        parts = np.array_split(rng.permutation(cut).astype(np.int64), line.number)
        curves = training.run(
            [ParticipantData(rows[part], labels[part]) for part in parts], rng, accuracy
        )
        last = curves.participants[:, -1]
        server = {"server": accuracy(curves.weights)} if line.uploads else {}
        return {"accuracy": float(last.mean()), "best": float(last.max()), **server}

    known: dict[str, Any] = {"model": options.model}
    if line.uploads:
        known["exchange"] = options.exchange
    if line.rule in PRICED:
        _, spent = selection.after(model.parameters, options.epochs, cell.delta)
        known |= {"epsilon_of_a_value": options.noise, "epsilon_of_the_run": spent.epsilon}
    return Simulation(known, release)


def grid(
    options: DssgdStudyOptions, data: Sequence[Images], systems: Sequence[Participants]
) -> Iterator[Cell]:
    """Every setting; a cell's epsilon stands for theta_u, and is 1 where that means nothing.

    Raises:
        RequestError: there are fewer images than participants.
    """
    for images in data:
        for line in systems:
            if not line.number <= images.trained:
                raise RequestError(
                    f"--participants: {line.number:,} cannot share the {images.trained:,} images "
                    f"of {images.name}"
                )
            for share in options.shares if line.uploads else (1.0,):
                yield Cell(images.name, line, share, options.deltas[0])


def show(screen: Console, results: Results, measures: Sequence[Measure]) -> None:
    """A line a setting."""
    for cell, outcome in results.outcomes.items():
        line = cast(Participants, cell.line)
        spent = outcome.known.get("epsilon_of_the_run")
        people = "" if line.rule == CENTRALISED else " participants"
        share = f", theta_u {cell.epsilon:g}" if line.uploads else ""
        price = "" if spent is None else f", a budget of {spent:.4g}"
        if spent is not None and spent >= _PROTECTS:
            price += ", which protects nobody"
        (measure,) = measures
        accuracy = measure.band(outcome).middle
        settings = {"data": cell.data, "system": str(line), "epsilon": cell.epsilon}
        answers.add("rows", {**settings, "measure": measure.column, "mean": accuracy})
        say(screen, f"{cell.data}, {line}{people}{share}: accuracy {accuracy:.4f}{price}")


STUDY = Study(
    options=DssgdStudyOptions,
    lines=lambda options: lines(options.systems, options.participants),
    data=lambda options: read_images(options.data),
    fit=fit,
    columns=COLUMNS,
    measures=[ACCURACY],
    along=[
        Along(
            name="-by-share",
            title="selective SGD",
            x="theta_u",
            axis="theta_u, the share of parameters that is uploaded",
        )
    ],
    grid=grid,
    show=show,
)
