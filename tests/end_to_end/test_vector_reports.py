"""`vector-mean --reports`: what users sent, as rows that anybody may look at."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fakes.canaries import words
from tests.fakes.few import few

ROWS, WIDTH = 400, 7
FAR = 6.5  # standard errors: beyond them with a probability below 1e-10


@pytest.fixture
def rows(workspace: Path) -> np.ndarray:
    """A log in two files of small row groups, by users of two rows each."""
    numbers = np.linspace(-1, 1, ROWS * WIDTH).reshape(WIDTH, ROWS).T
    table = pa.table([*numbers.T], [f"x{k}" for k in range(WIDTH)])
    table = table.append_column("user", pa.array([f"u{k // 2}" for k in range(ROWS)]))
    for part in range(2):
        pq.write_table(table.slice(part * 200, 200), f"log-{part}.parquet", row_group_size=64)
    return numbers


def request(**changes: Any) -> list[str]:
    asked = {
        "input": "log-*.parquet", "number": "x*=-1,1", "epsilon": "4", "model": "local",
        "unusable": "count", "mechanism": "multi_optimal", "reports": True, "output": "out",
    }  # fmt: skip
    return words("vector-mean", asked | changes, joined=True)


def perturbed(folder: str = "out") -> np.ndarray:
    table = pq.read_table(f"{folder}/reports.parquet")
    assert table.column_names == [f"x{k}" for k in range(WIDTH)]
    return np.array([column.to_numpy() for column in table.columns]).T


def averages(folder: str = "out") -> np.ndarray:
    return pq.read_table(f"{folder}/vector-mean.parquet")["unbiased"].to_numpy()


@pytest.mark.parametrize(
    ("mechanism", "user"),
    few(
        product(("multi_optimal", "meanest", "laplace_vector", "privunit"), (None, "user")),
        lambda case: case[0],
    ),
)
def test_each_user_has_a_row_and_their_average_is_the_estimate(
    run, rows: np.ndarray, mechanism: str, user: str | None
) -> None:
    radius = "2" if mechanism == "privunit" else None
    least = None if user is None else "100"
    outcome = run(request(mechanism=mechanism, user_column=user, radius=radius, min_reports=least))
    assert outcome.code == 0, outcome.said
    found = perturbed()
    assert len(found) == (ROWS if user is None else ROWS // 2)
    np.testing.assert_allclose(found.mean(axis=0), averages(), atol=1e-12)
    # They stand in no order but that of their numbers.
    assert found.tolist() == sorted(found.tolist())
    said = json.loads(Path("out/statement.json").read_text())
    unit = "row" if user is None else "user"
    (sentence,) = [text for text in said["in_words"] if text.startswith("reports.parquet")]
    assert f"what each {unit} sent, as a row" in sentence
    assert "costs nothing more" in sentence
    assert said["guarantees"]["release"] == said["guarantees"]["local"]
    assert said["request"]["reports"] is True


def test_messages_of_a_user_make_one_row(run, rows: np.ndarray) -> None:
    """A corner of the cube has all its numbers alike but for the sign; k of d are asked for."""
    assert run(request(mechanism="meanest")).code == 0
    found = perturbed()
    assert np.unique(np.abs(found).round(9)).size == 1
    assert run(request(epsilon="6", output="some")).code == 0
    told = np.count_nonzero(perturbed("some").round(9), axis=1)
    constants = json.loads(Path("some/statement.json").read_text())["mechanism"]["constants"]
    assert constants["sampled"] > 1
    assert max(told) == constants["sampled"]  # the middle code stands for 0


def test_other_statistics_of_the_log_follow_from_them(run, rows: np.ndarray) -> None:
    """Noise of two numbers is independent there, so a product is right on average."""
    assert run(request(mechanism="laplace_vector", epsilon="40")).code == 0
    products = perturbed()[:, 0] * perturbed()[:, 1]
    error = products.std() / ROWS**0.5
    assert abs(products.mean() - (rows[:, 0] * rows[:, 1]).mean()) < FAR * error


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"model": "shuffle"}, "--reports: a shuffled report is weak by itself"),
        ({"unusable": None}, "--reports: rows are of numbers that all users have"),
        ({"category": "user=users.txt", "mechanism": None}, "--reports: rows are of numbers"),
        ({"drawn_by": "shuffler", "model": None, "unusable": None, "mechanism": None},
         "--reports: with --drawn-by shuffler no report is randomised"),
    ],
)  # fmt: skip
def test_what_makes_no_rows_is_refused(run, rows: np.ndarray, changes: Any, why: str) -> None:
    Path("users.txt").write_text("u1\nu2\n")
    outcome = run(request(**changes))
    assert (outcome.code, Path("out").exists()) == (2, False), outcome.said
    assert why in outcome.err
    assert outcome.err.count("\n") == 1


def test_too_many_numbers_are_refused(run, rows: np.ndarray, monkeypatch) -> None:
    from pipelines.metrics.reports import rows as module

    monkeypatch.setattr(module, "MOST_NUMBERS", ROWS * WIDTH - 1)
    outcome = run(request())
    assert outcome.code == 2
    assert "400 rows of 7 numbers are more than" in outcome.err


def test_too_many_codes_are_refused(run, rows: np.ndarray, monkeypatch) -> None:
    from pipelines.metrics.reports import rows as module

    monkeypatch.setattr(module, "MOST_CODES", ROWS)
    outcome = run(request(mechanism="privunit", radius="2"))
    assert (outcome.code, Path("out").exists()) == (2, False), outcome.said
    assert "codes, which are all looked at for each row: name another mechanism" in outcome.err


PLAN = """\
collection: rows
version: 1
input: log-*.parquet
output: out
epsilon: 4.0
model: local
metrics:
  - {name: averages, kind: vector-mean, number: ["x*=-1,1"], unusable: count, reports: true}
"""


def test_a_plan_publishes_them_and_parties_do_not(run, rows: np.ndarray) -> None:
    Path("plan.yaml").write_text(PLAN)
    outcome = run(["run", "plan.yaml"])
    assert outcome.code == 0, outcome.said
    found = perturbed("out/averages")
    np.testing.assert_allclose(found.mean(axis=0), averages("out/averages"), atol=1e-12)
    named = ", ".join(f'"x{k}=-1,1"' for k in range(WIDTH))  # who looks up columns has the log
    parties = PLAN.replace('"x*=-1,1"', named).replace("epsilon", "min_reports: 100\nepsilon")
    Path("plan.yaml").write_text(parties)
    outcome = run(["parties", "client", "plan.yaml", "--input", "log-0.parquet", "--output", "x"])
    assert outcome.code == 2
    assert "put together by the job that reads the log" in outcome.err
