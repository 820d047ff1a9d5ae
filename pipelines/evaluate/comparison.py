"""`hushbeam evaluate`: systems side by side, on populations whose truth is known."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import product
from typing import Annotated, Any

import pyarrow as pa
from matplotlib.figure import Figure
from pydantic import BaseModel, ConfigDict, Field
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pipelines.errors import DONE, FailedError, RequestError
from pipelines.evaluate import results as evaluate_results
from pipelines.evaluate import runs as evaluate_runs
from pipelines.evaluate.cells import Cell, Experiment, Line
from pipelines.evaluate.data import Data
from pipelines.evaluate.figures import rendered
from pipelines.evaluate.journal import journal, write_whole
from pipelines.evaluate.results import Measure, Results
from pipelines.requests import Whole

RESULTS, REFUSED = "results.parquet", "refused.json"

_PACKAGES = ("hushbeam", "numpy", "scipy")  # the same seed may mean other noise under another one

Epsilon = Annotated[float, Field(gt=0, le=700)]
Delta = Annotated[float, Field(gt=0, lt=1)]


class Evaluation(BaseModel):
    """What every evaluation asks."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    epsilons: tuple[Epsilon, ...] = Field(min_length=1)
    deltas: tuple[Delta, ...] = Field((1e-6,), min_length=1)
    repetitions: Whole = Field(10, ge=1, le=1_000_000)
    seed: Whole = 0
    output: str = Field(min_length=1)
    jobs: Whole | None = Field(None, ge=1, le=1024)


@dataclass(frozen=True)
class Study:
    """What one kind of evaluation measures.

    Attributes:
        experiment: how a cell is measured.
        data: the populations, each with a panel of its own.
        lines: the systems, each with a line of its own.
        columns: of results.parquet.
        measures: those that are drawn and summed up.
        identity: option -> value, of the options that only this kind of evaluation has.
        draw: the figures of a measure, with the names of their files.
        paired: whether repetitions are paired across settings: see `Cell`.
    """

    experiment: Experiment
    data: Sequence[Data]
    lines: Sequence[Line]
    columns: pa.Schema
    measures: Sequence[Measure]
    identity: Mapping[str, Any] = field(default_factory=dict)
    draw: Callable[[Results, Measure], Iterator[tuple[str, Figure]]] = evaluate_results.draw
    paired: bool = False

    def request(self, options: Evaluation) -> dict[str, Any]:
        """All that the results depend on but the data themselves, under the names of options."""
        return {
            "--systems": [str(line) for line in self.lines],
            "--epsilons": sorted(set(options.epsilons)),
            "--deltas": sorted(set(options.deltas)),
            "--data": [each.name for each in self.data],
            "--repetitions": options.repetitions,
            "--seed": options.seed,
            **self.identity,
            "versions": {name: version(name) for name in _PACKAGES},
        }

    def cells(self, options: Evaluation) -> list[Cell]:
        """Every setting, in a fixed order."""
        epsilons, deltas = sorted(set(options.epsilons)), sorted(set(options.deltas))
        grid = product(self.data, self.lines, deltas, epsilons)
        return [
            Cell(each.name, line, epsilon, delta, self.paired)
            for each, line, delta, epsilon in grid
        ]


def evaluate(options: Evaluation, study: Study) -> int:
    """Measure what is not measured yet, and leave a folder with the results.

    Args:
        options: how much of it, and where.
        study: what.

    Returns:
        The exit code.

    Raises:
        RequestError: the folder is another evaluation's, or no system can serve any of it.
        FailedError: it was interrupted, or a part of it failed; the same command goes on.
    """
    screen = Console()
    try:
        results = _measured(options, study, screen)
    except KeyboardInterrupt:
        raise FailedError("interrupted; the same command goes on from here") from None
    _show(screen, options.output, study, results)
    if results.failed:
        raise FailedError(
            f"{len(results.failed)} settings failed, the first: {results.failed[0]}; --debug shows "
            "tracebacks"
        )
    return DONE


def _measured(options: Evaluation, study: Study, screen: Console) -> Results:
    """The results, which are in their folder by then."""
    cells, folder = study.cells(options), options.output
    bench = evaluate_runs.Bench(study.experiment, cells, options.seed)
    digest, total = " ".join(each.digest for each in study.data), len(cells) * options.repetitions
    with journal(folder, study.request(options), digest) as record:
        with _progress(screen, total) as watch:
            outcomes = evaluate_runs.run(
                bench, cells, options.repetitions, record, options.jobs or _cores(), watch
            )
        results = Results(study.data, cells, outcomes)
        _write(folder, study, results)
    return results


def _cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _progress(screen: Console, total: int) -> Iterator[Callable[[int], None]]:
    """A line that says what remains; nothing is drawn unless it is on a terminal."""
    columns = (
        TextColumn("releases"), BarColumn(), MofNCompleteColumn(), TextColumn("remaining"),
        TimeRemainingColumn(),
    )  # fmt: skip
    bar = Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal)
    with bar:
        task = bar.add_task("releases", total=total)
        yield lambda done: bar.update(task, completed=done)


def _write(folder: str, study: Study, results: Results) -> None:
    """The files of a finished evaluation."""
    write_whole(folder, REFUSED, evaluate_results.refusals(results))
    if len(results.refused) == len(results.cells):
        why = results.outcomes[0].refused
        raise RequestError(f"no system can serve any of this; the first: {why}")
    for measure in study.measures:
        for name, figure in study.draw(results, measure):
            for kind in ("png", "svg"):
                write_whole(folder, f"{name}.{kind}", rendered(figure, kind))
    write_whole(folder, RESULTS, evaluate_results.table(results, study.columns))


def _show(screen: Console, folder: str, study: Study, results: Results) -> None:
    """The means, what was refused, and where the rest is."""
    delta = results.deltas[len(results.deltas) // 2]
    for measure, data in product(study.measures, results.data):
        screen.print(evaluate_results.summary(results, data, measure, delta))
    if results.refused:
        screen.print(
            f"-: refused, {len(results.refused)} settings of {len(results.cells)}; "
            f"{folder}/{REFUSED} says why",
            highlight=False, markup=False, soft_wrap=True,
        )  # fmt: skip
    screen.print(f"results: {folder}", highlight=False, markup=False, soft_wrap=True)
