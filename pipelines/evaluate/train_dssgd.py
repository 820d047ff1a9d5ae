"""`hushbeam evaluate train --study dssgd`: accuracy of many participants against theta_u."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import product
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field

from mechanisms.learning.dssgd import LocalTraining, SelectiveSGD, Share
from mechanisms.learning.perceptron import Perceptron
from mechanisms.learning.private_selection import RandomPlaces
from mechanisms.learning.selection import LargestValues, RandomAbove, Selection
from mechanisms.randomness import SeededRandom
from pipelines.errors import DONE, FailedError, RequestError
from pipelines.evaluate import figures
from pipelines.evaluate import runs as evaluate_runs
from pipelines.evaluate.cells import Cell, Line, Outcome
from pipelines.evaluate.comparison import RESULTS, Delta, Epsilon
from pipelines.evaluate.journal import journal, write_whole
from pipelines.evaluate.train_dssgd_figures import CENTRALISED, LEVEL, drawn, show
from pipelines.evaluate.train_images import Images, read_all_images
from pipelines.requests import Whole, request

NOISY = "noisy"
RULES = ("largest", "random", NOISY, *LEVEL)

_HIDDEN = 32
_THRESHOLD = 1e-4  # tau of random
_BOUND = 0.02  # gamma of noisy

COLUMNS = pa.schema(
    [
        ("data", pa.string()),
        ("system", pa.string()),
        ("participants", pa.int64()),
        ("theta_u", pa.float64()),  # null where nothing is uploaded
        ("epsilon_of_a_value", pa.float64()),  # of noisy: of each value that is uploaded
        ("epsilon_of_the_run", pa.float64()),  # of noisy: what a participant's data have spent
        ("delta", pa.float64()),
        ("repetition", pa.int64()),
        ("accuracy", pa.float64()),  # the mean over participants, each by what it holds in the end
        ("best", pa.float64()),  # the best participant's
        ("server", pa.float64()),  # that of the server's parameters; null where it gets none
        ("seconds", pa.float64()),
    ]
)


class SelectiveEvaluation(BaseModel):
    """What a person wants compared."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    systems: tuple[str, ...] = Field(("largest", *LEVEL), min_length=1)
    data: tuple[str, ...] = Field(("digits:4000",), min_length=1)
    shares: tuple[Annotated[float, Field(gt=0, le=1)], ...] = Field((0.01, 0.1, 1.0), min_length=1)
    participants: tuple[Annotated[Whole, Field(ge=1)], ...] = Field((30, 90), min_length=1)
    epochs: Whole = Field(10, ge=1, le=10_000)
    noise: Epsilon = 1.0
    deltas: tuple[Delta, ...] = Field((1e-5,), min_length=1, max_length=1)
    repetitions: Whole = Field(3, ge=1, le=1_000_000)
    seed: Whole = 0
    output: str = Field(min_length=1)
    jobs: Whole | None = Field(None, ge=1, le=1024)


@dataclass(frozen=True)
class Fitted:
    """A training by participants.

    Attributes:
        training: what everybody does.
        participants: how many.
        images: what they hold.
        spent: epsilon of the whole run at the delta, if anything is promised.
    """

    training: SelectiveSGD
    participants: int
    images: Images
    spent: float | None


@dataclass(frozen=True)
class SelectiveExperiment:
    """Accuracies of simulated trainings; a cell's epsilon stands for theta_u.

    Attributes:
        populations: data set -> its images.
        epochs: of each participant.
        noise: epsilon of each value that `noisy` uploads.
    """

    populations: Mapping[str, Images]
    epochs: int
    noise: float

    def fit(self, cell: Cell) -> Fitted:
        """Who does what."""
        images, (rule, _, number) = self.populations[cell.data], cell.line.system.partition(" ")
        participants = 1 if rule == CENTRALISED else int(number)
        if not participants <= images.trained:
            raise ValueError(f"{participants} participants cannot share {images.trained} images")
        model = Perceptron(images.rows.shape[1], (_HIDDEN,), images.d, activation="relu")
        selection = self._selection(rule, cell.epsilon, model.parameters)
        protocol = "alone" if rule in LEVEL else "round-robin"
        training = SelectiveSGD(LocalTraining(model), selection, protocol, self.epochs)
        spent = None
        if rule == NOISY:
            _, least = selection.after(model.parameters, self.epochs, cell.delta)
            spent = least.epsilon
        return Fitted(training, participants, images, spent)

    def _selection(self, rule: str, share: float, parameters: int) -> Selection:
        """What participants upload."""
        if rule == "random":
            return RandomAbove(share, math.inf, _THRESHOLD)
        if rule == NOISY:
            uploads = max(1, round(share * parameters))
            return RandomPlaces(share, _BOUND, epsilon=self.noise * uploads)
        return LargestValues(share)

    def known(self, fitted: Fitted) -> dict[str, Any]:
        """What is spent."""
        return {"epsilon_of_the_run": fitted.spent}

    def measure(self, cell: Cell, fitted: Fitted, rng: SeededRandom) -> dict[str, float]:
        """How well participants do in the end."""
        images, cut = fitted.images, fitted.images.trained
        rows = np.concatenate([(images.rows[:, :-1] + 1) / 2, images.rows[:, -1:]], axis=1)
        order = rng.permutation(cut).astype(np.int64)
        parts = np.array_split(order, fitted.participants)
        shares = [Share(rows[part], images.labels[part]) for part in parts]
        model = fitted.training.local.model
        if not isinstance(model, Perceptron):
            raise TypeError("what is trained here is a perceptron")

        def right(weights: Any) -> float:
            return 1 - float(np.mean(model.errors(weights, rows[cut:], images.labels[cut:])))

        curves = fitted.training.run(shares, rng, right)
        last = curves.participants[:, -1]
        found = {"accuracy": float(last.mean()), "best": float(last.max())}
        if fitted.training.protocol != "alone":
            found["server"] = right(curves.weights)
        return found


def run(asked: Mapping[str, Any]) -> int:
    """Compare rules, and leave a folder with the results.

    Args:
        asked: option -> what was typed.

    Returns:
        The exit code.

    Raises:
        RequestError: the request or its data are wrong.
        FailedError: it was interrupted, or a part of it failed; the same command goes on.
    """
    options = request(SelectiveEvaluation, asked)
    for name in options.systems:
        if name not in RULES:
            known = ", ".join(RULES)
            raise RequestError(f"--systems: unknown system {name!r}; there are: {known}")
    data = read_all_images(options.data)
    experiment = SelectiveExperiment(
        {each.name: each for each in data}, options.epochs, options.noise
    )
    cells = list(_cells(options, data))
    claim = {
        "--study": "dssgd",
        "versions": {name: version(name) for name in ("hushbeam", "numpy", "scipy")},
        **options.model_dump(mode="json", exclude={"output", "jobs", "data"}),
        "--data": [each.name for each in data],
    }
    bench, folder = evaluate_runs.Bench(experiment, cells, options.seed), options.output
    jobs = options.jobs or os.cpu_count() or 1
    try:
        with journal(folder, claim, " ".join(each.digest for each in data)) as record:
            outcomes = evaluate_runs.run(
                bench, cells, options.repetitions, record, jobs, lambda done: None
            )
            found = dict(zip(cells, outcomes, strict=True))
            _write(folder, options, data, found)
    except KeyboardInterrupt:
        raise FailedError("interrupted; the same command goes on from here") from None
    show(found, folder)
    failed = [cell for cell, outcome in found.items() if outcome.failed]
    if failed:
        raise FailedError(f"{len(failed)} settings failed, the first: {failed[0].line.system}")
    return DONE


def _cells(options: SelectiveEvaluation, data: Sequence[Images]) -> Iterator[Cell]:
    """Every setting; where theta_u means nothing it is 1."""
    shares = sorted(set(options.shares))
    for each, rule in product(data, dict.fromkeys(options.systems)):
        numbers = (
            [""] if rule == CENTRALISED else [f" {n}" for n in sorted({*options.participants})]
        )
        for number, share in product(numbers, [1.0] if rule in LEVEL else shares):
            line = Line(f"{rule}{number}", "exact", "local")
            yield Cell(each.name, line, share, options.deltas[0])


def _write(
    folder: str,
    options: SelectiveEvaluation,
    data: Sequence[Images],
    found: Mapping[Cell, Outcome],
) -> None:
    """The table and the figure."""
    refused = [outcome.refused for outcome in found.values() if outcome.refused is not None]
    if refused:
        raise RequestError(f"cannot be run: {refused[0]}")
    rows: list[dict[str, Any]] = []
    for cell, outcome in found.items():
        rule, _, number = cell.line.system.partition(" ")
        about = {
            "data": cell.data, "system": rule, "participants": int(number or 1),
            "theta_u": None if rule in LEVEL else cell.epsilon,
            "delta": cell.delta if rule == NOISY else None,
            "epsilon_of_a_value": options.noise if rule == NOISY else None, **outcome.known,
        }  # fmt: skip
        rows.extend({**about, **each} for _, each in sorted(outcome.runs.items()))
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, COLUMNS), buffer, compression="zstd")
    write_whole(folder, RESULTS, buffer.getvalue())
    if len(set(options.shares)) > 1:
        figure = drawn(sorted(set(options.shares)), data, found)
        for kind in ("png", "svg"):
            write_whole(folder, f"accuracy-by-share.{kind}", figures.rendered(figure, kind))
