"""How well the models of a run do: on rows that are public, or as users privately tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.pvalue import AsList
from numpy.typing import NDArray

from mechanisms.learning.absent import present
from mechanisms.learning.objective import Objective
from mechanisms.mean.public_groups import PublicGroups
from mechanisms.mean.scalar import ScalarMean
from mechanisms.randomness import SecureRandom
from transforms.collector.collect_counts import CountMessages
from transforms.elements.blocks import Generator
from transforms.encoders.block import RowBlock, pieces
from transforms.rounds.train_step import Run
from transforms.rows.encode import CellBlock
from transforms.rows.examples import Examples
from transforms.rows.perturb import Perturb
from transforms.shuffle.shuffle import Shuffle

_ROWS = 1 << 16  # scored at a time


class Scored(NamedTuple):
    """What public rows say about several models; it merges by addition.

    Attributes:
        n: how many rows there are.
        sums: (models + questions,) of the rows' errors, and then of their answers to what the best
            constant's error follows from.
        squares: (models + questions,) of the squares of the same.
    """

    n: int
    sums: NDArray[np.float64]
    squares: NDArray[np.float64]


@dataclass
class ScoreModels(beam.PTransform):
    """Blocks of public rows in, one `Scored` out; none if there is no row.

    Attributes:
        objective: what is being fitted.
        examples: what takes blocks to rows and targets.
        models: `Run`s after some steps, each one element.
    """

    objective: Objective
    examples: Examples
    models: beam.PCollection

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        score = ScoreDoFn(self.objective, self.examples)
        return (
            blocks
            | "Score" >> beam.ParDo(score, AsList(self.models))
            | "Add up scores" >> beam.CombineGlobally(_added).without_defaults()
        )


@typehints.with_output_types(Scored)
class ScoreDoFn(beam.DoFn):
    """The errors of every model on a block."""

    def __init__(self, objective: Objective, examples: Examples) -> None:
        self._objective, self._examples = objective, examples

    def process(self, block: RowBlock, models: Sequence[Run]) -> Iterator[Scored]:
        ordered = sorted(models, key=_step)
        for piece in pieces(block, _ROWS):
            rows, targets = self._examples(piece)
            there = present(
                targets
            )  # these rows are public, and so is which of them lack something
            rows, targets = rows[there], targets[there]
            if not len(rows):
                continue  # of no row that can be used nothing is known
            errors = [self._objective.errors(run.model.average, rows, targets) for run in ordered]
            answers = self._objective.loss.baseline.answers(targets)
            table = np.asarray([*errors, *answers.T], np.float64)
            yield Scored(len(rows), table.sum(axis=1), (table**2).sum(axis=1))


def _step(run: Run) -> int:
    return run.model.step


def _added(parts: Iterable[Scored]) -> Scored:
    """Scores of several blocks together."""
    n, sums, squares = 0, np.zeros(1), np.zeros(1)
    for part in parts:
        n, sums, squares = n + part.n, sums + part.sums, squares + part.squares
    return Scored(n, sums, squares)


@dataclass
class AskHeldBack(beam.PTransform):
    """Blocks of rows that trained nothing in, `Counted` reports of how wrong models are out.

    Every user is asked one thing, chosen by a die, and answers through a mechanism for means: how
    wrong a model is, as a part of the largest error, or what the error of the best constant follows
    from. Which question it was is in the clear.

    Attributes:
        objective: what is being fitted.
        examples: what takes blocks to rows and targets.
        models: `Run`s after the steps that are reported on, each one element.
        mechanism: for the answer, groups being models in the order of their steps, and then the
            questions of the objective's `baseline`.
        min_reports: of one group: each group's reports are a shuffled batch of their own, and
            fewer never leave the shuffler. None where reports are not shuffled.
        buckets: of each shuffler.
        open_rng: opens the generator on each worker.
    """

    objective: Objective
    examples: Examples
    models: beam.PCollection
    mechanism: PublicGroups[ScalarMean]
    min_reports: int | None = None
    buckets: int = 1
    open_rng: Generator = field(default=SecureRandom)

    def expand(self, blocks: beam.PCollection) -> beam.PCollection:
        answers = AnswerCellsDoFn(self.objective, self.examples, self.mechanism, self.open_rng)
        messages = (
            blocks
            | "Answers to one question each" >> beam.ParDo(answers, AsList(self.models))
            | "Perturb" >> Perturb(self.mechanism, self.open_rng)
        )
        shuffler = self.shuffler
        if shuffler is not None:
            messages |= shuffler
        return messages | "Count" >> beam.CombineGlobally(CountMessages(self.mechanism))

    @property
    def shuffler(self) -> Shuffle | None:
        """Of reports that say in the clear what was asked."""
        if self.min_reports is None:
            return None
        codes, groups = self.mechanism.codes, self.mechanism.groups
        least, buckets, rng = self.min_reports, self.buckets, self.open_rng
        return Shuffle(least, codes, buckets, rng, batches=groups, counted=True)


@typehints.with_output_types(CellBlock)
class AnswerCellsDoFn(beam.DoFn):
    """The grid cell of each user's answer to a question of the user's own drawing."""

    def __init__(
        self,
        objective: Objective,
        examples: Examples,
        mechanism: PublicGroups[ScalarMean],
        open_rng: Generator,
    ) -> None:
        self._objective, self._examples, self._mechanism = objective, examples, mechanism
        self._open_rng = open_rng

    def setup(self) -> None:
        self._rng = self._open_rng()

    def process(self, block: RowBlock, models: Sequence[Run]) -> Iterator[CellBlock]:
        ordered = sorted(models, key=_step)
        baseline = self._objective.loss.baseline
        if len(ordered) + baseline.questions != self._mechanism.groups:
            raise ValueError("there must be one group of reports for each model and question")
        for piece in pieces(block, _ROWS):
            rows, targets = self._examples(piece)
            drawn = self._rng.integers(self._mechanism.groups, len(rows)).astype(np.int64)
            numbers = np.empty(len(rows))
            for place, run in enumerate(ordered):
                own = np.flatnonzero(drawn == place)
                weights = run.model.average
                numbers[own] = self._objective.bounded_errors(weights, rows[own], targets[own])
            other = np.flatnonzero(drawn >= len(ordered))
            asked = baseline.answers(targets[other])
            numbers[other] = np.take_along_axis(asked, drawn[other, None] - len(ordered), 1)[:, 0]
            yield CellBlock(self._cells(numbers, drawn), None)

    def _cells(self, numbers: NDArray[np.float64], drawn: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Numbers in [0, 1] as cells of the mechanism."""
        inner = self._mechanism.mechanism
        cells = inner.encode(2 * numbers - 1, self._rng)
        return (cells + drawn * inner.inputs).astype(np.uint32)
