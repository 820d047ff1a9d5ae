"""A request for a model held against its input: what is decided before a row is read."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.learning.noisy_training import delta_left
from mechanisms.learning.objectives import Hinge, Logistic, Softmax, SquaredError
from mechanisms.learning.perceptron import Perceptron
from mechanisms.randomness import SeededRandom
from pipelines.errors import RequestError
from pipelines.ledger.entries import Loss
from pipelines.request.requests import request
from pipelines.train.curator import CuratorPlan, DivergedError
from pipelines.train.curve import Point, Scored, curve_table, public_curve
from pipelines.train.job import prepare
from pipelines.train.options import TrainOptions
from tests.fakes.few import few

ROWS = 20_000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    rows = range(ROWS)
    table = pa.table(
        {
            "f0": [k / ROWS for k in rows], "f1": [float(k % 7) for k in rows],
            "city": ["xyz"[k % 3] for k in rows], "y": [k % 11 for k in rows],
            "two": ["no" if k % 2 else "yes" for k in rows], "u": list(rows),
            "when": pa.array([0] * ROWS, pa.timestamp("s")),
        }
    )  # fmt: skip
    pq.write_table(table, path)
    return str(path)


@pytest.fixture
def job(log, tmp_path):
    def job(**asked):
        defaults = {"input": (log,), "number": ("f*=0,10",), "target": "y=0,10", "epsilon": 1.0,
                    "output": str(tmp_path / "out"), "method": "dp-sgd"}  # fmt: skip
        words = {k: v for k, v in (defaults | asked).items() if v is not None}
        return prepare(request(TrainOptions, words))

    return job


@pytest.mark.verify
def test_who_holds_the_rows_pays_for_looking_at_errors(job):
    plan = job(epsilon=8.0, epochs=1).plan
    assert plan.averages.epsilon == pytest.approx(0.4)
    released = plan.guarantees[0]
    assert "added to it, 0.4 for how wrong the model is" in released.how
    assert 7.9 <= released.epsilon <= 8.0
    assert released.delta <= plan.delta
    alone = delta_left(plan.delta, plan.averages)
    assert alone < plan.delta
    training = plan.run.guarantee(alone, "pld", "add or remove", "row")
    assert released.epsilon >= training.epsilon + plan.averages.guarantee.epsilon


@pytest.mark.parametrize(
    ("asked", "expected"),
    few([
        ({"loss": "ridge"}, SquaredError(3, 1e-3)),
        ({"loss": "ridge", "penalty": 0.5}, SquaredError(3, 0.5)),
        ({"loss": "logistic", "target": "two=no,yes"}, Logistic(3)),
        ({"loss": "logistic", "target": "y=0..10", "penalty": 0.1}, Softmax(3, 0.1, 11)),
        ({"loss": "svm", "target": "two=no,yes"}, Hinge(3)),
        ({"loss": "perceptron", "hidden": 4}, Perceptron(3, (4,))),
        ({"loss": "perceptron", "target": "two=no,yes"}, Perceptron(3, (32,), 2)),
    ], lambda case: case[0]["loss"]),
)  # fmt: skip
def test_the_loss_and_the_target_make_the_model(job, asked, expected):
    assert job(epsilon=8.0, **asked).objective == expected


def test_a_curator_spends_what_was_asked_and_says_it_in_three_ways(job):
    made = job(delta=1e-5, lot=2000, epochs=3)
    assert isinstance(made.plan, CuratorPlan)
    (released,) = made.guarantees
    assert (released.model, released.delta) == ("central", 1e-5)
    assert 0.99 <= released.epsilon <= 1.0
    assert made.plan.run.steps == 30
    by_job, *others = made.plan.beside.values()
    assert by_job.model == "none"
    beside = [each.epsilon for each in others]
    assert released.epsilon <= beside[0] <= beside[1]
    # Another row in its place is what a row's counting for nothing is, twice.
    assert 1.5 * released.epsilon < beside[2] < 3 * released.epsilon
    # A ledger adds up releases of its own kind, and beside others what another row costs.
    assert released.neighbours == "zero-out"
    loss = Loss.of(released, made.plan.profile)
    assert (loss.epsilon, loss.neighbours) == (released.epsilon, "zero-out")
    assert loss.replaced.epsilon == pytest.approx(beside[2], rel=1e-6)
    assert made.cautions == []
    there = pickle.loads(pickle.dumps(made))  # without the names of files
    assert replace(there, telemetry=made.telemetry) == made


def test_what_no_accountant_can_say_beside_is_left_out(job):
    """At a delta that the sampler's law is too coarse for, once epsilon is twice as large."""
    plan = job(epsilon=25.5, lot=ROWS, epochs=1).plan
    assert "by_renyi_divergences" in plan.beside
    assert "of_another_row_in_its_place" not in plan.beside


def test_what_a_run_is_laid_out_for_is_a_number_of_users_that_was_declared(job, log, tmp_path):
    asked = {"user_column": "u", "min_reports": 5000, "epsilon": 4.0, "epochs": 1, "lot": 5000}
    made = job(**asked)
    assert made.min_reports == made.plan.rows == 5000
    assert {each.unit for each in made.guarantees} == {"user"}
    assert "Counting any one user with all rows or not" in made.plan.promises()[0]
    # Users with more rows or fewer change nothing of it.
    pq.write_table(pq.read_table(log).slice(0, ROWS // 2), tmp_path / "half.parquet")
    again = job(**asked, input=(str(tmp_path / "half.parquet"),))
    assert (again.plan.run, again.plan.delta) == (made.plan.run, made.plan.delta)
    with pytest.raises(RequestError, match="--min-reports is missing: with --user-column"):
        job(**asked | {"min_reports": None})


def test_zeroing_a_row_out_is_removing_it(job):
    """Sums of gradients over the same lot, at any model."""
    run = job(lot=2000, epochs=1).plan.run
    rng = np.random.default_rng(1)
    rows, targets = rng.uniform(-1, 1, (50, 3)).astype(np.float32), rng.uniform(-1, 1, 50)
    weights = rng.normal(size=3)
    without = run.total(weights, rows[1:], targets[1:])
    rows[0], targets[0] = 0, 0
    np.testing.assert_array_equal(run.total(weights, rows, targets), without)


def test_where_rows_are_in_one_place_runs_that_leave_all_bounds_end_too(job):
    plan, rng = job(method="dp-sgd", learning_rate=1e6).plan, np.random.default_rng(2)
    rows, targets = rng.uniform(-1, 1, (90, 3)).astype(np.float32), rng.uniform(-1, 1, 90)
    with pytest.raises(DivergedError) as found:
        plan.train(rows, targets, SeededRandom(3), lambda step, weights: None)
    assert found.value.step == 1


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"target": "y"}, "--target must be COLUMN=LOW,HIGH"),
        ({"target": "y=0..1"}, "--loss linear predicts a number: give its bounds, as in y=0,100;"),
        ({"target": "y=3,3"}, "the first must be below the second"),
        ({"target": "nothing=0,1"}, "has no column 'nothing'"),
        ({"target": "city=0,1"}, "linear needs numbers"),
        ({"target": "f0=0,1"}, "is also among --number"),
        ({"target": "y=1,nan"}, "must be finite"),
        ({"target": "two=a,,b", "loss": "svm"}, "classes must be there"),
        ({"target": "two=a,b,c", "loss": "svm"}, "tells two classes apart"),
        ({"target": "two=1..3", "loss": "logistic"}, "--target"),
        ({"target": "two=nowhere.txt", "loss": "logistic"}, "neither LOW..HIGH nor a file"),
        ({"number": None}, "what a row consists of is missing"),
        ({"penalty": 1.0}, "--penalty makes it --loss ridge"),
        ({"hidden": 4}, "only --loss perceptron has"),
        ({"method": None, "lot": 5}, "--lot belongs to --method dp-sgd: there are no lots"),
        ({"lot": ROWS + 1}, "are more than the"),
        ({"epsilon": None}, "--epsilon is missing"),
        ({"validation": ("nowhere",)}, "--validation: no file matches"),
        ({"user_column": "when"}, "--user-column"),
    ],
)
def test_what_cannot_be_is_refused(job, asked, told):
    with pytest.raises(RequestError) as error:
        job(**asked)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_of_text_a_refusal_says_how_to_give_columns_types(job, tmp_path):
    (path := tmp_path / "log.csv").write_text("f0,f1,y\n0,0,1\n")
    for changes, column in (({}, "f0"), ({"types": ("f0=float", "f1=float")}, "y")):
        with pytest.raises(RequestError, match=f"say what it holds: --types {column}=float"):
            job(**({"input": (str(path),)} | changes))


def test_public_rows_are_other_rows_of_the_same_kind(job, log, tmp_path):
    with pytest.raises(RequestError, match="are among --input"):
        job(validation=(log,))
    path = tmp_path / "public.parquet"
    table = pa.table({"f0": [0.0], "f1": [0.0], "y": [1.0]})
    pq.write_table(table, path)
    with pytest.raises(RequestError, match="column 'y' is double, but int64"):
        job(validation=(str(path),))
    pq.write_table(table.set_column(2, "y", pa.array([1])), path)
    made = job(validation=(str(path),))
    assert made.public.rows == 1
    assert made.plan.averages is None


def test_rows_that_fill_the_memory_of_one_worker_are_refused(job, monkeypatch):
    monkeypatch.setattr("pipelines.train.curator._LARGEST_ROWS", 1000)
    with pytest.raises(RequestError, match="GiB"):
        job()


# ---- curves ----------------------------------------------------------------------------------


def test_a_public_curve_has_the_moments_of_its_rows():
    errors = np.random.default_rng(1).uniform(0, 1, (2, 400))
    scored = Scored(400, errors.sum(axis=1), (errors**2).sum(axis=1))
    curve = public_curve([0, 3], scored, 4.0, 0.95)
    for point, row in zip(curve, errors, strict=True):
        assert point.error == pytest.approx(4 * row.mean())
        assert point.standard_error == pytest.approx(4 * row.std() / 20)
        assert point.upper - point.error == pytest.approx(1.959964 * point.standard_error)
    gone = public_curve([1], Scored(2, np.array([math.inf]), np.array([math.inf])), 1.0, 0.95)
    assert gone == [Point(1, 2)]
    assert curve_table(curve + gone)["error"].to_pylist()[2] is None
