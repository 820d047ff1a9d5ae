"""The number of users from which Multi-HM errs less than Multi-RPHM, as predicted and measured."""

from __future__ import annotations

from itertools import product

import pytest

from hushbeam.studies.engine.cells import Cell, Outcome
from hushbeam.studies.engine.results import Results
from hushbeam.studies.papers.rphm import crossings
from hushbeam.studies.populations.rows import read_rows
from hushbeam.studies.studies.vector_mean import fit
from hushbeam.studies.systems.rows import lines
from mechanisms.randomness import SeededRandom


def table_of(data, errors, times: int = 2) -> list[dict[str, object]]:
    """Rows of results, with errors that a function of (system, n) and the repetition gives."""
    return [
        {"data": rows.base, "d": rows.d, "n": rows.n, "system": system, "epsilon": 1.0,
         "squared_error": errors(system, rows.n, repetition)}
        for rows in data for system in ("multi_hm", "multi_rphm") for repetition in range(times)
    ]  # fmt: skip


def test_a_crossing_is_found_where_it_is() -> None:
    data = read_rows(["gauss:10,20,0.3,0.25"], ns=[500, 1000, 3000])

    def errors(system: str, n: int, repetition: int) -> float:
        return 100 / n if system == "multi_hm" else 0.05 + 30 / n + 1e-6 * repetition * n

    (crossing,) = crossings(table_of(data, errors, 1), data)
    assert (crossing.data, crossing.d, crossing.epsilon) == ("gauss:0.3,0.25", 20, 1.0)
    assert crossing.measured == pytest.approx(1400)
    assert crossing.error is None
    (crossing,) = crossings(table_of(data, errors, 3), data)
    assert 0 < crossing.error < 100
    # Too few users, too many, or one number of users alone: nothing is said.
    assert not list(crossings(table_of(data, lambda s, n, _: float(s == "multi_hm")), data))
    assert not list(crossings(table_of(data, lambda s, n, _: float(s != "multi_hm")), data))
    assert not list(crossings(table_of(data[:1], errors), data[:1]))


def test_the_crossing_shows_in_simulated_reports() -> None:
    data, outcomes = read_rows(["gauss:1,50,0.33333333,0.25"], ns=[1500, 3000, 6000]), {}
    for rows, line in product(data, lines(["multi_hm", "multi_rphm"], {})):
        cell = Cell(rows.name, line, 1.0, 0.0)
        simulation = fit(None, cell, rows)
        rngs = [SeededRandom(cell.seed(0, number)) for number in range(40)]
        outcomes[cell] = Outcome(runs=dict(enumerate(map(simulation.release, rngs))))
    (crossing,) = crossings(Results(data, outcomes).rows(), data)
    # (1 + 15/50) 50 (V + e2) / mu2 for V = 4.2890; the seed is fixed, a standard error is 4 %.
    assert crossing.predicted == pytest.approx(1.3 * 50 * 4.4621 / 0.1109, rel=0.01)
    assert crossing.error < 0.06 * crossing.predicted
    assert abs(crossing.measured - crossing.predicted) < 0.26 * crossing.predicted
