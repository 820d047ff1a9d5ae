"""A study as data, and the one engine that runs it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from itertools import product
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hushbeam.studies.engine.cells import Cell, FigureLine, Simulation
from hushbeam.studies.engine.figures import Along, Costs, Sheet, figures, write_figures
from hushbeam.studies.engine.journal import journal
from hushbeam.studies.engine.measure import Measure
from hushbeam.studies.engine.options import Options
from hushbeam.studies.engine.results import Results, refusals, say, show, write_json, write_table
from hushbeam.studies.engine.runs import Bench, run
from hushbeam.studies.populations.population import StudyPopulation
from pipelines.errors import DONE, FailedError, RequestError
from pipelines.request import answers
from pipelines.request.options import flag
from pipelines.views.plots import require_matplotlib

RESULTS, REFUSED = "results.parquet", "refused.json"

_PACKAGES = ("hushbeam", "numpy", "scipy")  # the same seed may mean other noise under another one


def by_privacy(
    options: Any, data: Sequence[StudyPopulation], lines: Sequence[FigureLine], paired: bool = False
) -> Iterator[Cell]:
    """Every system on every population at every delta and epsilon.

    Args:
        options: which epsilons and deltas.
        data: the populations.
        lines: the systems.
        paired: as in `Cell`.
    """
    for population, line, delta, epsilon in product(data, lines, options.deltas, options.epsilons):
        yield Cell(population.name, line, epsilon, delta, paired)


@dataclass(frozen=True)
class Study:
    """What is compared, on what, by which measure, and how it is drawn.

    Attributes:
        options: what a person may ask.
        lines: options -> the systems.
        data: options -> the populations.
        fit: (options, cell, its population) -> the cell's simulation; a ValueError says why there
            is none. Worker processes import it by its name.
        columns: of results.parquet.
        measures: what is drawn and summed up; labels may name options in braces.
        along: the figures.
        alone: the figure where there is one of everything, if any.
        costs: figures besides, of a point a system.
        grid: (options, populations, lines) -> the cells, in their order.
        show: prints what came of them.
        sequel: (options, results) -> nothing; makes what else there is of the results.
    """

    options: type[Options]
    lines: Callable[[Any], Sequence[FigureLine]]
    data: Callable[[Any], Sequence[StudyPopulation]]
    fit: Callable[[Any, Cell, Any], Simulation]
    columns: pa.Schema
    measures: Sequence[Measure]
    along: Sequence[Along]
    alone: Sheet | None = None
    costs: Sequence[Costs] = ()
    grid: Callable[[Any, Sequence[Any], Sequence[Any]], Iterable[Cell]] = by_privacy
    show: Callable[[Console, Results, Sequence[Measure]], None] = show
    sequel: Callable[[Any, Results], None] | None = None


def evaluate(study: Study, options: Any, name: str = "") -> int:
    """Measure what is not measured yet, and leave a folder with the results.

    Args:
        study: what.
        options: how much of it, and where; of the study's kind.
        name: of the study, if a command has several.

    Returns:
        The exit code.

    Raises:
        RequestError: the data cannot be read, the folder is another study's, or no system can serve
            any of it, or nothing is there that draws.
        FailedError: it was interrupted, or a part of it failed; the same command goes on.
    """
    require_matplotlib()  # now, rather than after hours
    screen, named = Console(), options.model_dump()
    measures = [replace(measure, label=measure.label.format(**named)) for measure in study.measures]
    try:
        results = _measured(study, options, name, measures, screen)
    except KeyboardInterrupt:
        raise FailedError("interrupted; the same command goes on from here") from None
    study.show(screen, results, measures)
    if results.refused:
        say(
            screen,
            f"-: refused, {len(results.refused)} settings of {len(results.outcomes)}; "
            f"{options.output}/{REFUSED} says why",
        )
    answers.tell(results=options.output, refused=len(results.refused))
    say(screen, f"results: {options.output}")
    if results.failed:
        raise FailedError(
            f"{len(results.failed)} settings failed, the first: {results.failed[0]}; --debug shows "
            "tracebacks"
        )
    if study.sequel is not None:
        study.sequel(options, results)
    return DONE


def _measured(
    study: Study, options: Any, name: str, measures: Sequence[Measure], screen: Console
) -> Results:
    """The results, which are in their folder by then."""
    lines = study.lines(options)
    data = study.data(options)
    cells = list(study.grid(options, data, lines))
    populations = {population.name: population for population in data}
    bench = Bench(partial(study.fit, options), cells, populations, options.seed)
    request = _request(options, name, lines, data)
    digest = " ".join(population.digest for population in data)
    with journal(options.output, request, digest) as record:
        with _progress(screen, len(cells) * options.repetitions) as watch:
            outcomes = run(bench, options.repetitions, record, options.jobs or _cores(), watch)
        results = Results(data, dict(zip(cells, outcomes, strict=True)))
        _write(options.output, study, results, measures)
    return results


def _request(
    options: Any, name: str, lines: Sequence[FigureLine], data: Sequence[StudyPopulation]
) -> dict[str, Any]:
    """All that the results depend on but the data themselves, under the names of options."""
    typed = options.model_dump(mode="json")
    return {
        "--deltas": list(options.deltas),
        **{flag(option): value for option, value in typed.items()},
        **({"--study": name} if name else {}),
        "--systems": [str(line) for line in lines],
        "--data": [population.name for population in data],
        "versions": {package: version(package) for package in _PACKAGES},
    }


def _write(folder: str, study: Study, results: Results, measures: Sequence[Measure]) -> None:
    """The files of a finished study."""
    write_json(folder, REFUSED, refusals(results))
    if len(results.refused) == len(results.outcomes):
        why = results.refused[0].refused
        raise RequestError(f"no system can serve any of this; the first: {why}")
    for measure in measures:
        write_figures(folder, figures(results, measure, study.along, study.alone, study.costs))
    write_table(folder, RESULTS, results.rows(), study.columns)


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
