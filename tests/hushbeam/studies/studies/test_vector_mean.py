"""Rows of means are compared by what they err, beside what is predicted."""

from __future__ import annotations

import json
import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hushbeam.studies.engine.cells import Cell, Outcome, Simulation
from hushbeam.studies.engine.figures import figures
from hushbeam.studies.engine.results import Results
from hushbeam.studies.populations.rows import read_rows
from hushbeam.studies.studies.vector_mean import COLUMNS, SETS, STUDY, fit
from hushbeam.studies.systems.rows import lines, radius
from mechanisms.randomness import SeededRandom

EVALUATE = ["evaluate", "vector-mean", "--jobs", "1"]  # starting processes takes seconds


def fitted(name: str, data: str, epsilon: float) -> tuple[Cell, Simulation]:
    (rows,), (line,) = read_rows([data]), lines([name], SETS)
    cell = Cell(rows.name, line, epsilon, 0.0)
    return cell, fit(None, cell, rows)


def measured(name: str, data: str, epsilon: float, times: int) -> tuple[float, dict[str, Any]]:
    """The mean squared error of some releases, and what was known beforehand."""
    cell, simulation = fitted(name, data, epsilon)
    runs = [simulation.release(SeededRandom(cell.seed(0, number))) for number in range(times)]
    return float(np.mean([run["squared_error"] for run in runs])), simulation.known


@pytest.mark.parametrize(
    "name",
    ["multi_hm", "multi_optimal", "meanest", "laplace_vector", "multi_rphm", "multi_rphm-debiased",
     "multi_hm-share", "projection", "privunit"],
)  # fmt: skip
def test_errors_are_those_predicted(name) -> None:
    # 40 releases of 50 coordinates: a relative standard error of sqrt(2 / 2000) = 0.032 by normal
    # noise, of 0.023 by random subspaces; 6.3 of either lie within 0.2 and 0.15.
    n = 300 if name == "privunit" else 1000  # whose clients are slow
    error, known = measured(name, f"gauss:{n},50,0.3,0.25", 1.0, 40)
    assert error == pytest.approx(known["predicted_error"], rel=0.25)
    assert known["epsilon_spent"] == (None if name == "projection" else 1.0)


@pytest.mark.parametrize("name", ["multi_hm", "multi_optimal"])
def test_shrinking_comes_near_the_best_there_is(name) -> None:
    data = "gauss:1000,50,0.3,0.25,0.1"
    noise = measured(name, data, 1.0, 1)[1]["predicted_error"]
    for treatment in ("zero", "mean"):
        error, known = measured(f"{name}-{treatment}", data, 1.0, 40)
        # James and Stein's risk exceeds the best factor's by less than 3 V / d with V known.
        best = known["predicted_error"]
        assert 0.75 * best < error < 1.25 * (best + 3 * noise / 50)
        assert error < 0.7 * noise


def test_releases_differ_in_their_public_seed_and_repeat_themselves() -> None:
    data = "gauss:100,20,0.3,0.25"
    alone = measured("projection", data, 1.0, 1)[0]
    cell, simulation = fitted("projection", data, 1.0)
    errors = [
        simulation.release(SeededRandom(cell.seed(0, number)))["squared_error"]
        for number in (0, 1, 0)
    ]
    assert alone == errors[0] == errors[2] != errors[1]


def test_rows_that_privunit_cuts_off_are_counted() -> None:
    (rows,) = read_rows(["gauss:500,2,0,0.3"])
    _, simulation = fitted("privunit", rows.name, 1.0)
    (values,) = rows.blocks()
    longer = np.linalg.norm(values, axis=1) > radius(rows)
    run = simulation.release(SeededRandom(1))
    assert run["shortened"] == np.count_nonzero(longer) > 0


# ---- figures -------------------------------------------------------------------------------------


def drawn(names: list[str], epsilons: tuple[float, ...], **sizes: list[int]) -> Any:
    """Figures of results whose error is known, and expected to be twice as large."""
    data, outcomes = read_rows(["gauss:100,9,0.3,0.25"], **sizes), {}
    for rows, line, epsilon in product(data, lines(names, SETS), epsilons):
        runs = {k: {"squared_error": (1 + k) * rows.d / rows.n} for k in range(3)}
        expected = {"predicted_error": 4 * rows.d / rows.n}
        outcomes[Cell(rows.name, line, epsilon, 0.0)] = Outcome(expected, runs)
    return dict(figures(Results(data, outcomes), STUDY.measures[0], STUDY.along, STUDY.alone))


def test_figures_are_drawn_along_all_that_varies() -> None:
    shown = drawn(["multi_hm", "multi_rphm"], (0.5, 1.0), ns=[100, 9000], dimensions=[9, 30])
    assert set(shown) == {
        *(f"squared_error-by-epsilon-n-{n}-d-{d}" for n in (100, 9000) for d in (9, 30)),
        *(f"squared_error-by-dimension-epsilon-{e}" for e in ("0.5", "1")),
        *(f"squared_error-by-n-epsilon-{e}" for e in ("0.5", "1")),
    }  # fmt: skip
    figure = shown["squared_error-by-n-epsilon-1"]
    assert [axis.get_title() for axis in figure.axes] == [
        f"gauss:0.3,0.25 (d = {d})" for d in (9, 30)
    ]
    one, other, *dotted, crossing = figure.axes[1].lines
    for line in (one, other):
        assert list(line.get_xdata()) == [100, 9000]
        assert line.get_ydata() == pytest.approx([60 / 100, 60 / 9000])
    for line in dotted:
        assert (line.get_linestyle(), len(dotted)) == (":", 2)
        assert line.get_ydata() == pytest.approx([120 / 100, 120 / 9000])
    assert 1000 < crossing.get_xdata()[0] < 4000
    figure = shown["squared_error-by-dimension-epsilon-1"]
    assert [axis.get_title() for axis in figure.axes] == [
        f"gauss:0.3,0.25 (n = {n})" for n in ("100", "9,000")
    ]
    assert list(figure.axes[0].lines[0].get_xdata()) == [9, 30]


# ---- the command ---------------------------------------------------------------------------------

SMALL = [
    "--systems", "multi_hm", "multi_rphm", "multi_optimal-zero", "zeros", "--data",
    "gauss:50,6,0.3,0.25", "--ns", "30", "3000", "--epsilons", "1", "2", "--repetitions", "3",
]  # fmt: skip


def test_from_the_command_to_the_table(run, unseen) -> None:
    outcome = run([*EVALUATE, *SMALL, "--output", "out"])
    assert (outcome.code, outcome.err) == (0, "")
    assert "multi_optimal-zero" in outcome.out
    assert re.search(
        r"crossing: on gauss:0.3,0.25, d = 6, epsilon 1, .*predicted: \d+", outcome.out
    )
    table = pq.read_table("out/results.parquet")
    assert table.schema == COLUMNS
    assert table.num_rows == 2 * 4 * 2 * 3  # populations, systems, epsilons, repetitions
    for row in table.to_pylist():
        assert (row["n"] in (30, 3000), row["d"], row["data"]) == (True, 6, "gauss:0.3,0.25")
        assert row["epsilon_spent"] == (None if row["system"] == "zeros" else row["epsilon"])
        if row["system"] == "zeros":
            assert row["squared_error"] == pytest.approx(row["mean_square_of_means"])
        assert row["predicted_error"] > 0
    assert json.loads(Path("out/refused.json").read_text()) == []
    crossing = json.loads(Path("out/crossings.json").read_text())[0]
    assert 30 <= crossing["measured"] <= 3000


def test_columns_of_a_file_are_compared(run, unseen, tmp_path) -> None:
    path = tmp_path / "secret-folder" / "log.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"a": np.arange(300.0), "b": [[1, 2]] * 300}), path)
    words = ["--systems", "multi_optimal", "privunit-zero", "--epsilons", "1", "--repetitions", "1"]
    outcome = run([*EVALUATE, *words, "--data", f"{path}:a=0,300:b=0,3", "--output", "out"])
    assert (outcome.code, outcome.err) == (0, "")
    assert "log:a=0,300:b=0,3 (n = 300, d = 3)" in outcome.out
    assert "secret-folder" not in outcome.out + Path("out/request.json").read_text()
    assert set(pq.read_table("out/results.parquet")["d"].to_pylist()) == {3}


def test_what_a_system_cannot_serve_is_refused_with_a_reason(run, unseen) -> None:
    words = ["--systems", "multi_optimal", "multi_hm", "--epsilons", "1e-4", "--repetitions", "1"]
    outcome = run([*EVALUATE, *words, "--data", "gauss:50,6,0.3,0.25", "--output", "out"])
    assert outcome.code == 0
    (refused,) = json.loads(Path("out/refused.json").read_text())
    assert refused["system"] == "multi_optimal"
    assert "epsilon must lie in" in refused["reason"]
