"""Tables and figures say what was measured, and show gaps where nothing could be."""

from __future__ import annotations

import io
import re
from itertools import product

import numpy as np
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from hushbeam.studies.engine import drawing
from hushbeam.studies.engine.cells import Cell, Outcome
from hushbeam.studies.engine.figures import ALONE, BY_DELTA, BY_EPSILON, figures
from hushbeam.studies.engine.measure import Measure
from hushbeam.studies.engine.results import Results, refusals, summary, write_table
from hushbeam.studies.populations.histograms import read_histogram
from hushbeam.studies.studies.histogram import COLUMNS, STUDY
from hushbeam.studies.systems.histograms import lines

(MSE,) = STUDY.measures
DATA = (read_histogram("zipf:1000,10,1"), read_histogram("normal:1000,10"))
LINES = lines(["sh", "sh:published", "laplace", "grr@local"], "exact")
EPSILONS, DELTAS = (0.1, 0.5, 1.0), (1e-9, 1e-6)


def results(epsilons=EPSILONS, deltas=DELTAS) -> Results:
    """Errors 1, 2 and 3 times 10^-line / epsilon^2; the published line is refused below 0.5."""
    outcomes = {}
    for data, (place, line), delta, epsilon in product(DATA, enumerate(LINES), deltas, epsilons):
        outcome = Outcome({"design": line.system, "true_epsilon": epsilon})
        if line.bound == "published" and epsilon < 0.5:
            outcome = Outcome(refused="out of range")
        else:
            errors = [times * 10.0**-place / epsilon**2 for times in (2, 1, 3)]
            outcome.runs = {
                number: {"repetition": number, "mse": error, "seconds": 0.1}
                for number, error in enumerate(errors)
            }
        outcomes[Cell(data.name, line, epsilon, delta)] = outcome
    return Results(DATA, outcomes)


def drawn(of: Results) -> dict[str, Figure]:
    return dict(figures(of, MSE, [BY_EPSILON, BY_DELTA], ALONE))


def curves(figure: Figure, panel: int) -> dict[str, np.ndarray]:
    """Marker and dashes of a drawn line -> its heights."""
    return {
        f"{line.get_marker()}{line.get_linestyle()}": np.asarray(line.get_ydata(), float)
        for line in figure.axes[panel].get_lines()
    }


def test_the_table_has_a_row_for_each_repetition(tmp_path) -> None:
    of = results()
    write_table(str(tmp_path), "table", of.rows(), COLUMNS)
    rows = pq.read_table(tmp_path / "table")
    assert rows.schema == COLUMNS
    assert rows.num_rows == 3 * (len(of.outcomes) - len(of.refused))
    first = rows.slice(0, 3).to_pylist()
    assert [row["repetition"] for row in first] == [0, 1, 2]
    assert [row["mse"] for row in first] == pytest.approx([200, 100, 300])
    assert first[0]["data"] == "zipf:1000,10,1"
    assert (first[0]["n"], first[0]["d"]) == (1000, 10)
    assert (first[0]["system"], first[0]["bound"], first[0]["model"]) == ("sh", "exact", "shuffle")
    assert first[0]["predicted_mse"] is None


def test_refusals_say_why() -> None:
    of = results()
    list(of.outcomes.values())[-1].failed = "KeyError"
    said = refusals(of)
    assert [row["reason"] for row in said] == ["out of range"] * 4 + ["failed with KeyError"]
    assert said[0] == {
        "data": "zipf:1000,10,1", "system": "sh", "bound": "published", "model": "shuffle",
        "epsilon": 0.1, "delta": 1e-9, "reason": "out of range",
    }  # fmt: skip


def test_a_refused_setting_is_a_gap_in_its_line() -> None:
    shown = drawn(results())
    assert list(shown) == [
        "mse-by-epsilon-delta-1e-09",
        "mse-by-epsilon-delta-1e-06",
        "mse-by-delta-epsilon-0.1",
        "mse-by-delta-epsilon-0.5",
        "mse-by-delta-epsilon-1",
    ]
    for panel in (0, 1):
        heights = curves(shown["mse-by-epsilon-delta-1e-06"], panel)
        assert len(heights) == len(LINES)
        assert heights["o-"] == pytest.approx([200, 8, 2])
        assert np.isnan(heights["o--"]).tolist() == [True, False, False]
        assert heights["o--"][1:] == pytest.approx([0.8, 0.2])
    by_delta = curves(shown["mse-by-delta-epsilon-0.1"], 0)
    assert by_delta["o-"] == pytest.approx([200, 200])
    assert np.isnan(by_delta["o--"]).all()


def test_bands_are_quantiles_or_standard_errors() -> None:
    outcome = Outcome(runs={number: {"x": x} for number, x in enumerate([1.0, 2.0, 9.0])})
    assert Measure("x", "").band(outcome) == pytest.approx((4, 1.2, 7.6))
    reach = 2 * np.std([1, 2, 9], ddof=1) / np.sqrt(3)
    assert Measure("x", "", False, errors=True).band(outcome) == (4, 4 - reach, 4 + reach)
    # Where a logarithmic axis would lose its lower end.
    assert Measure("x", "", errors=True).band(outcome) == (4, 16 / (4 + reach), 4 + reach)
    assert Measure("x", "", parts=("y", "z")).band(Outcome(runs={0: {"y": 1, "z": 3}})).middle == 2
    assert np.isnan(Measure("x", "", errors=True).band(Outcome())).all()
    assert Measure("x", "", errors=True).band(Outcome(runs={0: {"x": 5.0}})) == (5, 5, 5)


def test_a_band_is_drawn_from_end_to_end() -> None:
    figure = drawn(results(deltas=(1e-6,)))["mse-by-epsilon-delta-1e-06"]
    band = figure.axes[0].collections[0].get_paths()[0].vertices
    assert band[:, 1].min() == pytest.approx(np.quantile([1, 2, 3], 0.1))
    assert band[:, 1].max() == pytest.approx(np.quantile([100, 200, 300], 0.9))


def test_one_setting_is_drawn_as_a_row_a_system() -> None:
    ((name, figure),) = drawn(results((0.5,), (1e-6,))).items()
    assert name == "mse-epsilon-0.5-delta-1e-06"
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == [str(line) for line in LINES]
    assert figure.axes[0].get_xscale() == "log"


@pytest.mark.verify
def test_figures_are_small_and_repeatable() -> None:
    once, again = (
        {
            kind: drawing.rendered(drawn(results(deltas=(1e-6,)))[name], kind)
            for kind, name in product(("png", "svg"), ("mse-by-epsilon-delta-1e-06",))
        }
        for _ in range(2)
    )
    assert once == again
    assert once["png"].startswith(b"\x89PNG")
    assert max(map(len, once.values())) < 200_000
    assert b"sh:published" in once["svg"]  # text, not outlines


def test_a_dozen_systems_are_told_apart() -> None:
    looks = [drawing.Curve("", system, "-", *np.zeros((3, 1))).look for system in range(40)]
    dozen = looks[:12]
    assert len({look["color"] for look in dozen}) == len({look["marker"] for look in dozen}) == 12
    assert len({(look["color"], look["marker"]) for look in looks}) == 40
    light = [np.mean([int(look["color"][at : at + 2], 16) for at in (1, 3, 5)]) for look in dozen]
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
