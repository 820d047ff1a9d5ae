"""What a person sees of selective SGD: accuracy against the share that is uploaded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

from pipelines.evaluate import figures
from pipelines.evaluate.cells import Cell, Outcome
from pipelines.evaluate.train_images import Images

ALONE, CENTRALISED = "alone", "centralised"
LEVEL = (ALONE, CENTRALISED)  # where theta_u means nothing

_LABEL = "share of held-back images told right"


def drawn(shares: Sequence[float], data: Sequence[Images], found: Mapping[Cell, Outcome]) -> Figure:
    """Accuracy against theta_u, a panel a data set."""
    panels, names = [], list(dict.fromkeys(cell.line.system for cell in found))
    for each in data:
        curves = []
        for index, name in enumerate(names):
            own = {
                c.epsilon: o
                for c, o in found.items()
                if (c.data, c.line.system) == (each.name, name)
            }
            level = name.split(" ")[0] in LEVEL
            bands = [band(own[1.0 if level else share]) for share in shares]
            style = figures.Style(index, ":" if level else "-")
            curves.append(figures.Curve(name, style, *np.transpose(bands)))
        panels.append(figures.Panel(each.title, tuple(curves)))
    x = figures.Axis("theta_u, the share of parameters that is uploaded")
    return figures.draw(panels, shares, x, figures.Axis(_LABEL, log=False), "selective SGD")


def band(outcome: Outcome) -> tuple[float, float, float]:
    """The mean over repetitions, and two standard errors of it either way."""
    values = np.array([each["accuracy"] for each in outcome.runs.values()] or [math.nan])
    reach = 2 * float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else 0.0
    mean = float(values.mean())
    return mean, mean - reach, mean + reach


def show(found: Mapping[Cell, Outcome], folder: str) -> None:
    """A line a setting."""
    screen = Console()
    for cell, outcome in found.items():
        rule, middle = cell.line.system.partition(" ")[0], band(outcome)[0]
        at = "" if rule in LEVEL else f", theta_u {cell.epsilon:g}"
        spent = outcome.known.get("epsilon_of_the_run")
        price = "" if spent is None else f", a budget of {spent:.4g}, which protects nobody"
        if spent is not None and spent < 10:
            price = f", a budget of {spent:.3g}"
        screen.print(
            f"{cell.data}, {cell.line.system} participants{at}: accuracy {middle:.4f}{price}"
            if rule != CENTRALISED
            else f"{cell.data}, centralised: accuracy {middle:.4f}",
            highlight=False, markup=False, soft_wrap=True,
        )  # fmt: skip
    screen.print(f"results: {folder}", highlight=False, markup=False, soft_wrap=True)
