"""Pictures of an attack: guess against value, how far guesses are off, and delta measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mechanisms.channel import Floats
from pipelines.evaluate import figures
from pipelines.evaluate.figures import Panel
from pipelines.evaluate.mean_systems import System

_DOTS = 600  # users that are drawn
_BINS = 121  # of errors, which lie in [-2, 2]
_LEAST = 1e-9  # the smallest delta that is drawn


@dataclass(frozen=True, eq=False)
class Guessed:
    """What became of some users.

    Attributes:
        title: of their population.
        label: of the system.
        system: which sent their reports.
        epsilon: asked of a report, in nats.
        delta: that the system claims.
        radius: 1/(alpha epsilon): how near a guess must come.
        cell: the width of the grid's cells, which is allowed for.
        values: (users,) what they hold.
        guesses: (users,) what is made of one report of each.
    """

    title: str
    label: str
    system: System
    epsilon: float
    delta: float
    radius: float
    cell: float
    values: Floats
    guesses: Floats

    @property
    def errors(self) -> Floats:
        """Guess - value."""
        return self.guesses - self.values

    @property
    def recovered(self) -> float:
        """The share of users whose value is within the radius of the guess."""
        return float(np.mean(np.abs(self.errors) <= self.radius + self.cell))

    @property
    def recovered_blindly(self) -> float:
        """The largest share of users within the radius of any one number.

        Nobody who guesses without a report recovers more; and who has a report of a mechanism that
        is private recovers at most e^epsilon times as many, but for delta.
        """
        ordered = np.sort(self.values)
        ends = np.searchsorted(ordered, ordered + 2 * (self.radius + self.cell), side="right")
        return float(np.max(ends - np.arange(ordered.size))) / ordered.size

    @property
    def row(self) -> dict[str, Any]:
        """The columns of a table."""
        return {
            "data": self.title,
            "system": self.system.name,
            "alpha": self.system.alpha,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "radius": self.radius,
            "recovered": self.recovered,
            "recovered_blindly": self.recovered_blindly,
            "root_mean_square": float(np.sqrt(np.mean(self.errors**2))),
        }


@dataclass(frozen=True)
class Measured:
    """A delta.

    Attributes:
        label: of the system.
        system: whose it is.
        epsilon: at which, in nats.
        claimed: what the system says.
        exact: what it is, by enumeration.
        found: what shows in simulated reports.
        error: the standard error of `found`.
    """

    label: str
    system: System
    epsilon: float
    claimed: float
    exact: float
    found: float
    error: float

    @property
    def row(self) -> dict[str, Any]:
        """The columns of a table."""
        return {
            "system": self.system.name,
            "alpha": self.system.alpha,
            "epsilon": self.epsilon,
            "claimed_delta": self.claimed,
            "true_delta": self.exact,
            "measured_delta": self.found,
            "standard_error": self.error,
        }


def draw(
    guessed: Sequence[Guessed], measured: Sequence[Measured], order: Sequence[str]
) -> Iterator[tuple[str, Figure]]:
    """Every figure of an attack.

    Args:
        guessed: of each population, system, epsilon and delta.
        measured: of each system, epsilon and delta.
        order: the labels of the systems, which have colours by their place.

    Yields:
        (name of the file without its ending, figure). Guesses are drawn for the first population
        and the largest delta.
    """
    largest = {each.label: each.delta for each in sorted(guessed, key=lambda each: each.delta)}
    shown = [each for each in guessed if each.delta == largest[each.label]]
    for epsilon in sorted({each.epsilon for each in shown}):
        at = [each for each in shown if each.epsilon == epsilon]
        first = [each for each in at if each.title == at[0].title]
        yield f"attack-guesses-epsilon-{epsilon:g}", _draw_guesses(first, order)
        yield f"attack-errors-epsilon-{epsilon:g}", _draw_errors(at, order)
    if len({each.epsilon for each in measured}) > 1:
        yield "attack-delta", _draw_deltas(measured, order)


@matplotlib.rc_context(figures.STYLE)
def _draw_guesses(guessed: Sequence[Guessed], order: Sequence[str]) -> Figure:
    """Guess against value, a panel a system."""
    figure, axes = figures.canvas(len(guessed), 0)
    for axis, each in zip(axes, guessed, strict=True):
        places = np.linspace(0, each.values.size - 1, min(_DOTS, each.values.size)).astype(int)
        axis.plot(
            each.values[places], each.guesses[places], ".", markersize=3, alpha=0.6,
            markeredgewidth=0, rasterized=True, color=figures.colour(order.index(each.label)),
        )  # fmt: skip
        for sign in (-1, 1):
            ends = np.array([-1.0, 1.0])
            axis.plot(ends, ends + sign * each.radius, "--", color="#555555", linewidth=0.9)
        axis.set_xlim(-1.05, 1.05)
        axis.set_ylim(-1.05, 1.05)
        axis.set_xlabel("value of a user")
        axis.set_ylabel("guess from one report")
        known = f"{100 * each.recovered:.3g} % within {each.radius:.3g}"
        figures.frame(axis, Panel(f"{each.label}: {known}", ()))
    figure.suptitle(f"{guessed[0].title}, epsilon = {guessed[0].epsilon:g}", fontsize=11)
    return figure


@matplotlib.rc_context(figures.STYLE)
def _draw_errors(guessed: Sequence[Guessed], order: Sequence[str]) -> Figure:
    """How far guesses are off, a panel a population."""
    titles = list(dict.fromkeys(each.title for each in guessed))
    figure, axes = figures.canvas(len(titles), 1 + (len(order) - 1) // 5)
    edges = np.linspace(-2, 2, _BINS + 1)
    radius = min(each.radius for each in guessed)
    for axis, title in zip(axes, titles, strict=True):
        for each in (one for one in guessed if one.title == title):
            shares = np.histogram(each.errors, edges)[0] / each.errors.size
            axis.stairs(100 * shares, edges, color=figures.colour(order.index(each.label)))
        for sign in (-1, 1):
            axis.axvline(sign * radius, color="#555555", linewidth=0.9, linestyle="--")
        axis.set_xlim(-1.5, 1.5)
        axis.set_xlabel("guess - value")
        axis.set_ylabel("users (%)")
        figures.frame(axis, Panel(title, ()))
    figure.suptitle(f"epsilon = {guessed[0].epsilon:g}; dashes at ±{radius:.3g}", fontsize=11)
    _legend(figure, order)
    return figure


@matplotlib.rc_context(figures.STYLE)
def _draw_deltas(measured: Sequence[Measured], order: Sequence[str]) -> Figure:
    """Delta against epsilon: lines are exact, points are measured, dashes are claimed."""
    figure, (axis,) = figures.canvas(1, 1 + (len(order) - 1) // 5)
    for label in order:
        for claimed in sorted({each.claimed for each in measured if each.label == label}):
            found = [e for e in measured if e.label == label and e.claimed == claimed]
            if not any(each.exact >= _LEAST for each in found):
                continue
            colour, epsilons = figures.colour(order.index(label)), [e.epsilon for e in found]
            axis.plot(epsilons, [e.exact for e in found], "-", color=colour, linewidth=1.4)
            seen = [e for e in found if e.found > 3 * e.error and e.found >= _LEAST]
            axis.errorbar(
                [e.epsilon for e in seen], [e.found for e in seen], [3 * e.error for e in seen],
                fmt="o", color=colour, markersize=3.5, linewidth=1,
            )  # fmt: skip
            if claimed:
                axis.axhline(claimed, linestyle="--", color=colour, linewidth=0.9)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("epsilon of one report (nats)")
    axis.set_ylabel("delta of one report (a probability)")
    title = "lines: exact; points: measured, ± 3 standard errors; dashes: claimed"
    figures.frame(axis, Panel(title, ()))
    _legend(figure, order)
    return figure


def _legend(figure: Figure, order: Sequence[str]) -> None:
    """The systems by their colours."""
    handles = [Line2D([], [], color=figures.colour(place)) for place in range(len(order))]
    figure.legend(
        handles, list(order), loc="lower center", ncols=min(5, len(order)), frameon=False,
        fontsize=8.5,
    )  # fmt: skip
