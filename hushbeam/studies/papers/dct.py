"""DCT: a perturbation that claims epsilon and gives its users away, which an attack shows.

Whoever sees one report guesses the value behind it. The guess is the mean of the values that the
report leaves possible, each as likely as the channel makes it; nothing is known beforehand.

Source: Zhu, Wang, Sun, "A perturbation mechanism for classified transformation satisfying LDP", J.
Computer Research and Development; run again in docs/appendix/reproduction-means.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hushbeam.studies.engine.figures import Drawn
from hushbeam.studies.populations.numbers import NumberPopulation
from hushbeam.studies.systems.attacks import Attacked
from hushbeam.studies.systems.means import MeanSystem
from mechanisms.channel import Floats
from mechanisms.mean.scalar import ScalarMean
from mechanisms.mean.window import Window
from mechanisms.randomness import SeededRandom

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SYSTEMS = ("duchi", "pm", "dct_published", "dct")
"""What its figures compare, the mechanism as published and as corrected."""

ALPHA = "5"
"""Its parameter, as its figures have it: reports lie within 1/(alpha epsilon) of the value."""

TABLE = "attack-guesses.parquet"

COLUMNS = pa.schema(
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

_VICTIMS = 20_000  # users of each population whose reports are looked at
_DOTS = 600  # users that are drawn
_BINS = 121  # of errors, which lie in [-2, 2]


@dataclass(frozen=True, eq=False)
class Guesses:
    """What became of some users.

    Attributes:
        title: of their population.
        attacked: the mechanism that sent their reports.
        radius: 1/(alpha epsilon): how near a guess must come.
        values: (users,) what they have.
        guesses: (users,) what is made of one report of each.
    """

    title: str
    attacked: Attacked
    radius: float
    values: Floats
    guesses: Floats

    @property
    def errors(self) -> Floats:
        """Guess - value."""
        return self.guesses - self.values

    @property
    def reach(self) -> float:
        """The radius, and a cell of the mechanism's grid, which is allowed for."""
        return self.radius + 2 / self.attacked.mechanism.cells

    @property
    def recovered(self) -> float:
        """The share of users whose value is within the radius of the guess."""
        return float(np.mean(np.abs(self.errors) <= self.reach))

    @property
    def recovered_blindly(self) -> float:
        """The largest share of users within the radius of any one number.

        Nobody who guesses without a report recovers more; and who has a report of a mechanism that
        is private recovers at most e^epsilon times as many, but for delta.
        """
        ordered = np.sort(self.values)
        ends = np.searchsorted(ordered, ordered + 2 * self.reach, side="right")
        return float(np.max(ends - np.arange(ordered.size))) / ordered.size

    @property
    def row(self) -> dict[str, Any]:
        """The columns of a table."""
        return {
            **self.attacked.columns,
            "data": self.title,
            "delta": self.attacked.delta,
            "radius": self.radius,
            "recovered": self.recovered,
            "recovered_blindly": self.recovered_blindly,
            "root_mean_square": float(np.sqrt(np.mean(self.errors**2))),
        }

    def __str__(self) -> str:
        return (
            f"attack: {self.attacked.system} at epsilon {self.attacked.epsilon:g} on {self.title}: "
            f"{100 * self.recovered:.4g} % of users are known to within {self.radius:.3g} by one "
            f"report, {100 * self.recovered_blindly:.4g} % at best without any"
        )


def best_guesses(mechanism: ScalarMean) -> Floats:
    """(codes,) the mean of the grid's points, as likely as they make the code."""
    likelihood, moment = _sums(mechanism)
    guesses = np.zeros(likelihood.size)
    np.divide(moment, likelihood, out=guesses, where=likelihood > 0)
    return guesses


def guess(mechanism: ScalarMean, values: Floats, rng: SeededRandom) -> Floats:
    """What is guessed of users who have these values, from one report of each."""
    codes = mechanism.perturb(mechanism.encode(values, rng), rng)
    return best_guesses(mechanism)[codes.astype(np.int64)]


def attack(
    data: Sequence[NumberPopulation], attacked: Sequence[Attacked], seed: int
) -> Iterator[Guesses]:
    """Guess the values of the users of each population, of those of one law the largest.

    Args:
        data: the populations.
        attacked: the mechanisms.
        seed: of their reports.
    """
    alpha = next((one.system.alpha for one in attacked if one.system.alpha), float(ALPHA))
    largest = {numbers.base: numbers for numbers in sorted(data, key=lambda numbers: numbers.n)}
    for numbers in (numbers for numbers in data if largest[numbers.base] is numbers):
        values = _victims(numbers)
        for one in attacked:
            rng = one.rng(f"attack {numbers.name}", seed)
            radius = 1 / ((one.system.alpha or alpha) * one.epsilon)
            guesses = guess(one.mechanism, values, rng)
            yield Guesses(numbers.title, one, radius, values, guesses)


def _sums(mechanism: ScalarMean) -> tuple[Floats, Floats]:
    """The chances of each code, and those times the value, added up over the cells."""
    points = mechanism.grid
    if isinstance(mechanism, Window):  # whose codes may be too many to list for every cell
        products = mechanism.law.products
        return products.apply(np.ones(points.size)), products.apply(points)
    likelihood, moment = np.zeros(mechanism.codes), np.zeros(mechanism.codes)
    for cell, point in enumerate(points):
        law = mechanism.channel(cell)
        likelihood += law
        moment += point * law
    return likelihood, moment


def _victims(numbers: NumberPopulation) -> Floats:
    """Users of a population: all, or evenly many of every part of it."""
    users = min(numbers.n, _VICTIMS)
    places = (np.arange(users) + 0.5) * (numbers.n / users)
    index = np.searchsorted(np.cumsum(numbers.histogram), places, side="right")
    return numbers.values[index]


# ---- figures -------------------------------------------------------------------------------------


def figures(guesses: Sequence[Guesses], systems: Sequence[MeanSystem]) -> Drawn:
    """Guess against value, and how far guesses are off, at each epsilon.

    Args:
        guesses: of each population, system, epsilon and delta.
        systems: all of them, which have colours by their order.

    Yields:
        (name of the file without its ending, figure), both at the largest delta; the first of the
        first population alone.
    """
    by_delta = sorted(guesses, key=lambda one: one.attacked.delta)
    largest = {one.attacked.system: one.attacked.delta for one in by_delta}
    shown = [one for one in guesses if one.attacked.delta == largest[one.attacked.system]]
    for epsilon in sorted({one.attacked.epsilon for one in shown}):
        there = [one for one in shown if one.attacked.epsilon == epsilon]
        first = [one for one in there if one.title == there[0].title]
        yield f"attack-guesses-epsilon-{epsilon:g}", _draw_guesses(first, systems)
        yield f"attack-errors-epsilon-{epsilon:g}", _draw_errors(there, systems)


def _draw_guesses(guesses: Sequence[Guesses], systems: Sequence[MeanSystem]) -> Figure:
    """Guess against value, a panel a system."""
    from hushbeam.studies.engine import drawing

    with drawing.styled():
        figure, axes = drawing.canvas(len(guesses), 0)
        for axis, one in zip(axes, guesses, strict=True):
            users = one.values.size
            places = np.linspace(0, users - 1, min(_DOTS, users)).astype(int)
            axis.plot(
                one.values[places], one.guesses[places], ".", markersize=3, alpha=0.6,
                markeredgewidth=0, rasterized=True,
                color=drawing.colour(systems.index(one.attacked.system)),
            )  # fmt: skip
            for sign in (-1, 1):
                ends = np.array([-1.0, 1.0])
                axis.plot(ends, ends + sign * one.radius, "--", color="#555555", linewidth=0.9)
            axis.set_xlim(-1.05, 1.05)
            axis.set_ylim(-1.05, 1.05)
            axis.set_xlabel("value of a user")
            axis.set_ylabel("guess from one report")
            known = f"{100 * one.recovered:.3g} % within {one.radius:.3g}"
            drawing.frame(axis, f"{one.attacked.system}: {known}")
        title = f"{guesses[0].title}, epsilon = {guesses[0].attacked.epsilon:g}"
        figure.suptitle(title, fontsize=11)
    return figure


def _draw_errors(guesses: Sequence[Guesses], systems: Sequence[MeanSystem]) -> Figure:
    """How far guesses are off, a panel a population."""
    from hushbeam.studies.engine import drawing

    titles = list(dict.fromkeys(one.title for one in guesses))
    edges = np.linspace(-2, 2, _BINS + 1)
    radius = min(one.radius for one in guesses)
    with drawing.styled():
        figure, axes = drawing.canvas(len(titles), 1 + (len(systems) - 1) // 5)
        for axis, title in zip(axes, titles, strict=True):
            for one in (one for one in guesses if one.title == title):
                shares = np.histogram(one.errors, edges)[0] / one.errors.size
                colour = drawing.colour(systems.index(one.attacked.system))
                axis.stairs(100 * shares, edges, color=colour)
            for sign in (-1, 1):
                axis.axvline(sign * radius, color="#555555", linewidth=0.9, linestyle="--")
            axis.set_xlim(-1.5, 1.5)
            axis.set_xlabel("guess - value")
            axis.set_ylabel("users (%)")
            drawing.frame(axis, title)
        epsilon = guesses[0].attacked.epsilon
        figure.suptitle(f"epsilon = {epsilon:g}; dashes at ±{radius:.3g}", fontsize=11)
        drawing.legend_of_colours(figure, [str(system) for system in systems])
    return figure
