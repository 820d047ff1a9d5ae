"""What one report gives away: an attack on every mechanism compared, in simulation only.

Whoever sees one report guesses the value behind it. The guess is the mean of the values that the
report leaves possible, each as likely as the channel makes it; nothing is known beforehand. And
whoever knows that the value is one of the two that the channel tells apart best decides by the
report alone, which measures delta.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from mechanisms.channel import Floats
from mechanisms.mean.scalar import ScalarMean
from mechanisms.mean.window import Window
from mechanisms.postprocess.channel_products import SlidingWindow
from mechanisms.privacy.divergence import worst_pair
from mechanisms.randomness import SeededRandom
from pipelines.evaluate import mean_attack_figures as attack_figures
from pipelines.evaluate.cells import Cell, Line
from pipelines.evaluate.comparison import Evaluation
from pipelines.evaluate.figures import rendered
from pipelines.evaluate.journal import write_whole
from pipelines.evaluate.mean_attack_figures import Guessed, Measured
from pipelines.evaluate.mean_data import Numbers
from pipelines.evaluate.mean_systems import System, audit

GUESSED, MEASURED = "attack-guesses.parquet", "attack-delta.parquet"

_VICTIMS = 20_000  # users of each population whose reports are looked at
_REPORTS = 2_000_000  # from either value of the pair that is told apart best
_ALPHA = 5.0  # DCT's, where none was named

GUESSES = pa.schema(
    [
        ("data", pa.string()),
        ("system", pa.string()),
        ("alpha", pa.float64()),  # of DCT
        ("epsilon", pa.float64()),
        ("delta", pa.float64()),
        ("radius", pa.float64()),  # 1/(alpha epsilon), which is 0.2/epsilon as DCT is published
        ("recovered", pa.float64()),  # share of users whose value is that near to the guess
        ("recovered_blindly", pa.float64()),  # the same at best, where no report is seen
        ("root_mean_square", pa.float64()),  # of guess - value
    ]
)

DELTAS = pa.schema(
    [
        ("system", pa.string()),
        ("alpha", pa.float64()),  # of DCT
        ("epsilon", pa.float64()),
        ("claimed_delta", pa.float64()),
        ("true_delta", pa.float64()),  # by enumeration
        ("measured_delta", pa.float64()),  # from simulated reports of two values
        ("standard_error", pa.float64()),  # of measured_delta
    ]
)


@dataclass(frozen=True)
class Attack:
    """Somebody who knows the mechanism and sees single reports.

    Attributes:
        mechanism: which sent them.
    """

    mechanism: ScalarMean

    @cached_property
    def guesses(self) -> Floats:
        """(codes,) the mean of the grid's points, as likely as they make the code."""
        likelihood, moment = self._sums()
        guesses = np.zeros(likelihood.size)
        np.divide(moment, likelihood, out=guesses, where=likelihood > 0)
        return guesses

    def _sums(self) -> tuple[Floats, Floats]:
        """The chances of each code, and those times the value, added up over the cells."""
        mechanism, points = self.mechanism, self.mechanism.grid
        if isinstance(mechanism, Window):
            products = SlidingWindow.of(mechanism.law)
            return products.apply(np.ones(points.size)), products.apply(points)
        likelihood, moment = np.zeros(mechanism.codes), np.zeros(mechanism.codes)
        for cell, point in enumerate(points):
            law = mechanism.channel(cell)
            likelihood += law
            moment += point * law
        return likelihood, moment

    def guess(self, values: Floats, rng: SeededRandom) -> Floats:
        """What is guessed of users who hold these values, from one report of each."""
        cells = self.mechanism.encode(values, rng)
        return self.guesses[self.mechanism.perturb(cells, rng).astype(np.int64)]

    def told_apart(self, epsilon: float, reports: int, rng: SeededRandom) -> tuple[float, float]:
        """Delta as it shows in reports of two values: (measured, its standard error).

        The set of codes that are more than e^epsilon times as likely under one value has delta
        more probability under it than e^epsilon times that under the other.
        """
        one, other = worst_pair(self.mechanism, epsilon)
        growth = math.exp(epsilon)
        tells = self.mechanism.channel(one) > growth * self.mechanism.channel(other)
        hits = [self.mechanism.tally(cell, reports, rng)[tells].sum() for cell in (one, other)]
        p, q = (float(each) / reports for each in hits)
        variance = (p * (1 - p) + growth**2 * q * (1 - q)) / reports
        return p - growth * q, math.sqrt(variance)


def run(options: Evaluation, data: Sequence[Numbers], systems: Mapping[Line, System]) -> None:
    """Attack every system, and add tables and figures to the folder of an evaluation.

    Args:
        options: the privacy that was asked for, the seed and the folder.
        data: populations, whose users' values are guessed; of those of one law, the largest.
        systems: the system behind each line.
    """
    guessed = list(_guessed(options, data, systems))
    measured = list(_measured(options, systems))
    for name, figure in attack_figures.draw(guessed, measured, list(map(str, systems))):
        for kind in ("png", "svg"):
            write_whole(options.output, f"{name}.{kind}", rendered(figure, kind))
    write_whole(options.output, GUESSED, _parquet([each.row for each in guessed], GUESSES))
    write_whole(options.output, MEASURED, _parquet([each.row for each in measured], DELTAS))
    _show(guessed, measured)


def _cells(
    options: Evaluation, systems: Mapping[Line, System], data: str
) -> Iterator[tuple[Cell, System, ScalarMean]]:
    """Every setting that a system can serve; a delta that it does not take changes nothing."""
    for line, system in systems.items():
        for epsilon in sorted(set(options.epsilons)):
            for delta in sorted({system.claimed_delta(delta) for delta in options.deltas}):
                try:
                    mechanism = system.build(epsilon, delta)
                except ValueError:  # refused.json says why
                    continue
                yield Cell(data, line, epsilon, delta), system, mechanism


def _guessed(
    options: Evaluation, data: Sequence[Numbers], systems: Mapping[Line, System]
) -> Iterator[Guessed]:
    """What becomes of the users of each population."""
    alpha = next((each.alpha for each in systems.values() if each.alpha), _ALPHA)
    for numbers in _largest(data):
        values = _victims(numbers)
        for cell, system, mechanism in _cells(options, systems, f"attack {numbers.name}"):
            rng = SeededRandom(cell.seed(options.seed, 0))
            yield Guessed(
                numbers.title, str(cell.line), system, cell.epsilon, cell.delta,
                1 / ((system.alpha or alpha) * cell.epsilon), 2 / mechanism.cells,
                values, Attack(mechanism).guess(values, rng),
            )  # fmt: skip


def _largest(data: Sequence[Numbers]) -> list[Numbers]:
    """Of the populations of each law or column, the one with the most users."""
    most: dict[str, int] = {}
    for each in data:
        most[each.base] = max(each.n, most.get(each.base, 0))
    return [each for each in data if each.n == most[each.base]]


def _victims(numbers: Numbers) -> Floats:
    """Users of a population: all, or evenly many of every part of it."""
    places = (np.arange(min(numbers.n, _VICTIMS)) + 0.5) * (numbers.n / min(numbers.n, _VICTIMS))
    index = np.searchsorted(np.cumsum(numbers.histogram), places, side="right")
    return numbers.values[index]


def _measured(options: Evaluation, systems: Mapping[Line, System]) -> Iterator[Measured]:
    """Delta, as enumerated and as it shows in reports."""
    for cell, system, mechanism in _cells(options, systems, "attack"):
        rng = SeededRandom(cell.seed(options.seed, 0))
        found, error = Attack(mechanism).told_apart(cell.epsilon, _REPORTS, rng)
        exact = audit(mechanism, cell.epsilon).delta
        yield Measured(str(cell.line), system, cell.epsilon, cell.delta, exact, found, error)


def _parquet(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), buffer, compression="zstd")
    return buffer.getvalue()


def _show(guessed: Sequence[Guessed], measured: Sequence[Measured]) -> None:
    """What the published claims are worth, a line each."""
    told = [
        f"attack: {each.label} at epsilon {each.epsilon:g} on {each.title}: "
        f"{100 * each.recovered:.4g} % of users are known to within {each.radius:.3g} by one "
        f"report, {100 * each.recovered_blindly:.4g} % at best without any"
        for each in guessed
        if each.system.published and each.radius < 1
    ] + [
        f"attack: {each.label} at epsilon {each.epsilon:g} claims delta {each.claimed:g}; it is "
        f"{each.exact:.3g} exactly, {each.found:.3g} +- {each.error:.1g} in simulated reports"
        for each in measured
        if each.system.published
    ]
    for line in told:
        Console().print(line, highlight=False, markup=False, soft_wrap=True)
