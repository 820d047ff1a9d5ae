"""Tables and figures say what was measured, and show gaps where nothing could be."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from pipelines.evaluate import figures
from pipelines.evaluate.cells import Cell, Outcome
from pipelines.evaluate.data import read
from pipelines.evaluate.histogram import COLUMNS, MSE
from pipelines.evaluate.lines import lines
from pipelines.evaluate.results import Results, draw, refusals, summary, table

DATA = (read("zipf:1000,10,1"), read("normal:1000,10"))
LINES = lines(["sh", "sh:published", "laplace", "grr@local"], "exact")
EPSILONS, DELTAS = (0.1, 0.5, 1.0), (1e-9, 1e-6)


def results(epsilons=EPSILONS, deltas=DELTAS) -> Results:
    """Errors 1, 2 and 3 times 10^-line / epsilon^2; the published line is refused below 0.5."""
    cells, outcomes = [], []
    for data in DATA:
        for place, line in enumerate(LINES):
            for delta in deltas:
                for epsilon in epsilons:
                    outcome = Outcome({"design": line.system, "true_epsilon": epsilon})
                    if line.bound == "published" and epsilon < 0.5:
                        outcome = Outcome(refused="out of range")
                    else:
                        errors = [times * 10.0**-place / epsilon**2 for times in (2, 1, 3)]
                        outcome.runs = {
                            number: {"repetition": number, "mse": error, "seconds": 0.1}
                            for number, error in enumerate(errors)
                        }
                    cells.append(Cell(data.name, line, epsilon, delta))
                    outcomes.append(outcome)
    return Results(DATA, cells, outcomes)


def curves(figure: Figure, panel: int) -> dict[str, np.ndarray]:
    """Marker and dashes of a drawn line -> its heights."""
    return {
        f"{line.get_marker()}{line.get_linestyle()}": np.asarray(line.get_ydata(), float)
        for line in figure.axes[panel].get_lines()
    }


def test_the_table_has_a_row_for_each_repetition() -> None:
    found = results()
    rows = pq.read_table(pa.BufferReader(table(found, COLUMNS)))
    assert rows.schema == COLUMNS
    assert rows.num_rows == 3 * sum(not each.refused for each in found.outcomes)
    first = rows.slice(0, 3).to_pylist()
    assert [row["repetition"] for row in first] == [0, 1, 2]
    assert [row["mse"] for row in first] == pytest.approx([200, 100, 300])
    assert first[0]["data"] == "zipf:1000,10,1"
    assert (first[0]["n"], first[0]["d"]) == (1000, 10)
    assert (first[0]["system"], first[0]["bound"], first[0]["model"]) == ("sh", "exact", "shuffle")
    assert first[0]["predicted_mse"] is None


def test_refusals_say_why() -> None:
    found = results()
    found.outcomes[-1].failed = "KeyError"
    said = json.loads(refusals(found))
    assert [row["reason"] for row in said] == ["out of range"] * 4 + ["failed with KeyError"]
    assert said[0] == {
        "data": "zipf:1000,10,1", "system": "sh", "bound": "published", "model": "shuffle",
        "epsilon": 0.1, "delta": 1e-9, "reason": "out of range",
    }  # fmt: skip


def test_a_refused_setting_is_a_gap_in_its_line() -> None:
    drawn = dict(draw(results(), MSE))
    assert list(drawn) == [
        "mse-by-epsilon-delta-1e-09",
        "mse-by-epsilon-delta-1e-06",
        "mse-by-delta-epsilon-0.1",
        "mse-by-delta-epsilon-0.5",
        "mse-by-delta-epsilon-1",
    ]
    for panel in (0, 1):
        found = curves(drawn["mse-by-epsilon-delta-1e-06"], panel)
        assert len(found) == len(LINES)
        assert found["o-"] == pytest.approx([200, 8, 2])
        assert np.isnan(found["o--"]).tolist() == [True, False, False]
        assert found["o--"][1:] == pytest.approx([0.8, 0.2])
    by_delta = curves(drawn["mse-by-delta-epsilon-0.1"], 0)
    assert by_delta["o-"] == pytest.approx([200, 200])
    assert np.isnan(by_delta["o--"]).all()


def test_the_band_reaches_from_a_tenth_to_nine_tenths() -> None:
    figure = dict(draw(results(deltas=(1e-6,)), MSE))["mse-by-epsilon-delta-1e-06"]
    band = figure.axes[0].collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(np.quantile([1, 2, 3], 0.1))
    assert band[:, 1].max() == pytest.approx(np.quantile([100, 200, 300], 0.9))


def test_axes_are_logarithmic_and_say_what_they_are() -> None:
    for name, figure in draw(results(), MSE):
        shown = [axis for axis in figure.axes if axis.get_visible()]
        assert len(shown) == len(DATA)
        for axis, data in zip(shown, DATA, strict=True):
            assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")
            assert data.name in axis.get_title()
            assert "mean squared error" in axis.get_ylabel()
            assert ("nats" if "by-epsilon" in name else "probability") in axis.get_xlabel()
        assert [text.get_text() for text in figure.legends[0].get_texts()] == [
            str(line) for line in LINES
        ]


def test_one_setting_is_drawn_as_a_row_a_system() -> None:
    ((name, figure),) = draw(results((0.5,), (1e-6,)), MSE)
    assert name == "mse-epsilon-0.5-delta-1e-06"
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == [str(line) for line in LINES]
    assert figure.axes[0].get_xscale() == "log"


def test_figures_are_small_and_repeatable() -> None:
    once, again = (
        {
            name: (figures.rendered(figure, "png"), figures.rendered(figure, "svg"))
            for name, figure in draw(results(deltas=(1e-6,)), MSE)
        }
        for _ in range(2)
    )
    assert once == again
    for png, svg in once.values():
        assert png.startswith(b"\x89PNG")
        assert len(png) < 200_000
        assert len(svg) < 200_000
        assert b"sh:published" in svg  # text, not outlines


def test_a_dozen_systems_are_told_apart() -> None:
    looks = [figures._look(figures.Style(system, "-")) for system in range(12)]
    assert len({look["color"] for look in looks}) == len({look["marker"] for look in looks}) == 12
    more = [figures._look(figures.Style(system, "-")) for system in range(40)]
    assert len({(look["color"], look["marker"]) for look in more}) == 40
    light = [np.mean([int(look["color"][at : at + 2], 16) for at in (1, 3, 5)]) for look in looks]
    assert max(light) < 0.75 * 255  # dark enough for white paper


def test_the_summary_shows_means_and_refusals() -> None:
    screen = Console(width=120, record=True, file=io.StringIO())
    screen.print(summary(results(), DATA[0], MSE, 1e-6))
    said = screen.export_text()
    assert re.search(r"sh\s+200\s+8\s+2\s", said)
    assert re.search(r"sh:published\s+-\s+0\.8\s+0\.2\s", said)
    assert "n = 1,000, d = 10" in said


def test_a_wide_grid_is_thinned_for_the_terminal() -> None:
    epsilons = tuple(round(0.1 * step, 1) for step in range(1, 21))
    shown = summary(results(epsilons, (1e-6,)), DATA[0], MSE, 1e-6)
    headings = [str(column.header) for column in shown.renderables[1].columns]
    assert (headings[1], headings[-1], len(headings)) == ("0.1", "2", 6)
