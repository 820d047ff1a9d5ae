"""A request for a model held against its input: what is decided before a row is read."""

from __future__ import annotations

import math
import pickle
import sys
from dataclasses import replace

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.learning.baseline import Baseline
from mechanisms.learning.objectives import Hinge, Logistic, Softmax, SquaredError
from mechanisms.learning.perceptron import Perceptron
from mechanisms.privacy.divergence import tight_epsilon
from mechanisms.randomness import SeededRandom
from pipelines.errors import RequestError
from pipelines.jobs.run import _DEEPEST
from pipelines.request.requests import request
from pipelines.train.central import DivergedError
from pipelines.train.curator import CuratorPlan
from pipelines.train.curve import Point, curve_table, private_curve, public_curve
from pipelines.train.job import prepare
from pipelines.train.local import LocalPlan
from pipelines.train.local_run import scored_steps
from pipelines.train.options import MOST_STEPS, TrainOptions
from pipelines.train.participants import ParticipantsPlan
from pipelines.train.publish import PublishModel
from transforms.elements.blocks import bucket_count
from transforms.rounds.train_curve import Scored
from transforms.shuffle.shuffle import Shuffle

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
                    "output": str(tmp_path / "out"), "model": "local"}  # fmt: skip
        # Most tests are about those who train: nobody is held back unless a test asks for it.
        if asked.get("method", "local") == "local" and "validation" not in asked:
            defaults["hold_back"] = 0.0
        words = {k: v for k, v in (defaults | asked).items() if v is not None}
        return prepare(request(TrainOptions, words))

    return job


def test_a_run_of_users_who_randomise_themselves(job):
    made = job()
    assert isinstance(made.plan, LocalPlan)
    assert made.objective == SquaredError(3)
    assert made.schema.columns == ["f0", "f1"]
    released, local = made.guarantees
    assert (released.model, released.epsilon, released.delta) == ("local", 1.0, 0.0)
    assert released == local
    assert "takes part in one of" in released.how
    assert made.plan.users * made.plan.steps.schedule.steps <= ROWS
    assert made.min_reports == 1
    assert made.cautions == []
    assert tight_epsilon(made.plan.design.mechanism.mechanism) <= 1.0
    assert pickle.loads(pickle.dumps(made)) == made


def test_gradients_are_cut_where_asked(job):
    usual, wide = job().plan, job(clip="2").plan
    assert (usual.steps.clip, wide.steps.clip) == (0.5, 2.0)
    assert wide.steps.predicted_noise(100) == pytest.approx(4 * usual.steps.predicted_noise(100))
    # Who names a cut wants no opening, and all users for the steps.
    assert wide.opening is wide.steps.opening is None
    assert wide.steps.groups == wide.steps.schedule.steps
    assert wide.training()["cut_chosen_by"] == "--clip"
    assert "opening" not in wide.training()


def test_a_run_opens_with_a_group_that_is_promised_the_same(job):
    plan = job(steps=20).plan
    assert plan.steps.groups == 21
    assert plan.users == ROWS // 21
    assert plan.opening.mechanism.dimension == 2
    assert plan.opening.mechanism == plan.steps.opening.mechanism
    assert tight_epsilon(plan.opening.mechanism.mechanism) <= 1.0
    assert "20 steps, or in the opening" in plan.guarantees[0].how
    assert plan.opening.local.how in plan.guarantees[0].how
    told = plan.training()
    assert told["opening"]["share_of_those_who_train"] == 1 / 21
    assert told["cut_chosen_by"] == "default, unless the opening says otherwise"
    assert "reported their target or its square" in " ".join(plan.promises())


@pytest.mark.parametrize(
    "asked", [{"steps": 9}, {"loss": "logistic", "target": "two=no,yes"}, {"loss": "perceptron"}]
)
def test_some_runs_have_no_opening(job, asked):
    plan = job(epsilon=8.0, **asked).plan
    assert plan.opening is plan.steps.opening is None
    assert plan.steps.groups == plan.steps.schedule.steps
    assert plan.training()["cut_chosen_by"] == "default"


def test_a_shuffled_opening_is_accounted_for_by_its_own_size(job):
    plan = job(model=None, steps=10, min_reports=1000, epsilon=1.0).plan
    released, local = plan.opening.release, plan.opening.local
    assert (released.model, plan.opening.target.n) == ("shuffle", 1000)
    assert released.epsilon <= 1.0 < local.epsilon
    assert plan.guarantees[0].epsilon >= released.epsilon
    assert plan.guarantees[1].epsilon >= local.epsilon
    assert "So does the opening" in " ".join(plan.promises())


def test_users_are_counted_on_for_the_opening_too(job):
    made = job(user_column="u", steps=10, min_reports=500)
    assert made.plan.steps.groups == 11
    assert made.plan.users == 500
    with pytest.raises(RequestError, match="10 steps need 11 rows at the least, and 10 are there"):
        job(steps=10, hold_back=1 - 10.5 / ROWS)


def test_every_step_is_a_shuffled_batch_of_its_own(job):
    made = job(model=None, steps=5)
    released, local = made.guarantees
    assert (released.model, local.model) == ("shuffle", "local")
    assert released.epsilon <= 1.0 < local.epsilon
    group = ROWS / 5
    sure = 0.9 * group
    assert made.min_reports <= sure - 5 * math.sqrt(sure)
    assert made.min_reports >= 0.9 * sure
    assert made.plan.design.target.n == made.min_reports


def test_steps_are_planned_where_nobody_asks(job):
    many, few = job(epsilon=4.0).plan, job(epsilon=0.3).plan
    assert 1 <= few.steps.schedule.steps < many.steps.schedule.steps <= 50
    assert job(steps=7, learning_rate=0.25).plan.steps.schedule.rate == 0.25


def test_noise_that_drowns_the_gradient_is_foretold(job):
    made = job(epsilon=0.05, steps=40)
    (told,) = made.cautions
    assert "noise drowns the gradient" in told
    predicted = made.plan.steps.predicted_noise(ROWS // 41)  # one group more opens the run
    assert f"{predicted:.3g}" in told
    assert made.plan.training()["predicted_noise_of_a_coordinate_of_a_step"] == predicted


def test_those_held_back_are_promised_no_less(job):
    made = job(hold_back=0.3, steps=6)
    curve = made.plan.curve
    assert curve.steps[-1] == 6
    assert scored_steps(made.plan) == list(curve.steps)
    assert curve.design.release.epsilon == 1.0
    assert made.plan.users == int(ROWS * 0.7) // 6
    assert "learning curve" in made.guarantees[0].how


def test_a_shuffled_curve_has_a_batch_for_every_point(job):
    spent = {"epsilon": None, "epsilon_local": 1.0}
    made = job(hold_back=0.5, steps=1, model=None, min_reports=5000, **spent)
    curve = made.plan.curve
    assert made.min_reports == made.plan.design.target.n == 5000
    assert curve.design.target.n == curve.least < 0.9 * ROWS / 2 / len(curve.steps)
    assert f"{curve.least:,} or more reports" in " ".join(made.plan.promises())
    assert made.guarantees[0].epsilon < made.guarantees[1].epsilon == 1.0


def test_by_default_a_few_tell_whether_the_model_is_of_any_use(job):
    made = job(hold_back=None, steps=6)
    curve = made.plan.curve
    assert (curve.steps, curve.questions, curve.groups) == ((6,), 3, 4)
    assert made.plan.held_back == 0.05
    assert made.plan.users == int(ROWS * 0.95) // 6
    assert curve.design.release.epsilon == made.guarantees[0].epsilon == 1.0
    # Public rows tell it at no cost, and too few users tell nothing.
    assert job(hold_back=None, target="y=0..10", loss="logistic", epsilon=4.0).plan.curve is None
    few = {"user_column": "u", "steps": 2, "min_reports": 100}
    assert job(hold_back=None, **few).plan.curve is None
    # A small batch of reports that spend what they may would weaken the promise of all.
    spent = {"epsilon": None, "epsilon_local": 1.0, "model": None, "min_reports": 3000, "steps": 2}
    assert job(hold_back=None, **spent).plan.curve is None


@pytest.mark.parametrize("method", ["dp-sgd", "dssgd"])
def test_who_holds_the_rows_pays_for_looking_at_errors(job, method):
    asked = {"method": method, "model": None, "epsilon": 8.0, "epochs": 1}
    plan = job(**asked).plan
    assert plan.averages.epsilon == pytest.approx(0.4)
    assert plan.averages.holders == {"dp-sgd": 1, "dssgd": 30}[method]
    released = plan.guarantees[0]
    assert "added to it, 0.4 for how wrong the model is" in released.how
    assert 7.9 <= released.epsilon <= 8.0
    assert released.delta <= plan.delta
    alone = plan.delta_of_training
    assert alone < plan.delta
    if method == "dp-sgd":
        training = plan.run.guarantee(alone, "pld", "add or remove", "row")
        assert released.epsilon >= training.epsilon + plan.averages.guarantee.epsilon


def test_users_must_be_counted_by_the_requester(job):
    made = job(user_column="u", steps=10, min_reports=500)
    assert {each.unit for each in made.guarantees} == {"user"}
    assert made.plan.users == 500
    with pytest.raises(RequestError, match="--steps and --min-reports are missing"):
        job(user_column="u")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"loss": "ridge"}, SquaredError(3, 1e-3)),
        ({"loss": "ridge", "penalty": 0.5}, SquaredError(3, 0.5)),
        ({"loss": "logistic", "target": "two=no,yes"}, Logistic(3)),
        ({"loss": "logistic", "target": "y=0..10", "penalty": 0.1}, Softmax(3, 0.1, 11)),
        ({"loss": "svm", "target": "two=no,yes"}, Hinge(3)),
        ({"loss": "perceptron", "hidden": 4}, Perceptron(3, (4,))),
        ({"loss": "perceptron", "target": "two=no,yes"}, Perceptron(3, (32,), 2)),
    ],
)
def test_the_loss_and_the_target_make_the_model(job, asked, expected):
    assert job(epsilon=8.0, **asked).objective == expected


def test_a_curator_spends_what_was_asked_and_says_it_in_three_ways(job):
    made = job(method="dp-sgd", model=None, delta=1e-5, lot=2000, epochs=3)
    assert isinstance(made.plan, CuratorPlan)
    (released,) = made.guarantees
    assert (released.model, released.delta) == ("central", 1e-5)
    assert 0.99 <= released.epsilon <= 1.0
    assert made.plan.run.steps == 30
    beside = [each.epsilon for each in made.plan.beside.values()]
    assert released.epsilon <= beside[0] <= beside[1]
    # Another row in its place is what a row's counting for nothing is, twice.
    assert 1.5 * released.epsilon < beside[2] < 3 * released.epsilon
    assert made.cautions == []


def test_a_curator_promises_nothing_about_numbers_that_are_published(job):
    made = job(method="dp-sgd", model=None, delta=1e-5, lot=ROWS, epochs=1)
    told = " ".join(made.plan.promises())
    assert "left out" not in told
    assert "had any one row counted for nothing, and all numbers of rows been what they are" in told
    assert "zero-out neighbours" in made.guarantees[0].how
    assert "nothing is promised about these numbers" in told
    assert "the gradient is 0 at every model" in made.plan.neighbours
    assert "of rows read" in made.plan.exactly


def test_what_no_accountant_can_say_beside_is_left_out(job):
    """At a delta that the sampler's law is too coarse for, once epsilon is twice as large."""
    plan = job(method="dp-sgd", model=None, epsilon=25.5, lot=ROWS, epochs=1).plan
    assert "by_renyi_divergences" in plan.beside
    assert "of_another_row_in_its_place" not in plan.beside


@pytest.mark.parametrize("method", ["dp-sgd", "dssgd"])
def test_what_a_run_is_laid_out_for_is_a_number_of_users_that_was_declared(
    job, log, tmp_path, method
):
    asked = {"method": method, "model": None, "user_column": "u", "min_reports": 5000,
             "epsilon": 4.0, "epochs": 1}  # fmt: skip
    asked |= {"lot": 5000} if method == "dp-sgd" else {}
    made = job(**asked)
    assert made.min_reports == made.plan.rows == 5000
    assert {each.unit for each in made.guarantees} == {"user"}
    assert "the rows of any one user" in made.plan.promises()[0] or method == "dp-sgd"
    assert "any one user with all rows counted" in made.plan.promises()[0] or method == "dssgd"
    # Users with more rows or fewer change nothing of it.
    pq.write_table(pq.read_table(log).slice(0, ROWS // 2), tmp_path / "half.parquet")
    again = job(**asked, input=(str(tmp_path / "half.parquet"),))
    assert (again.plan.run, again.plan.delta) == (made.plan.run, made.plan.delta)
    with pytest.raises(RequestError, match="--min-reports is missing: with --user-column"):
        job(**asked | {"min_reports": None})


def test_zeroing_a_row_out_is_removing_it(job):
    """Sums of gradients over the same lot, at any model."""
    run = job(method="dp-sgd", model=None, lot=2000, epochs=1).plan.run
    rng = np.random.default_rng(1)
    rows, targets = rng.uniform(-1, 1, (50, 3)).astype(np.float32), rng.uniform(-1, 1, 50)
    weights = rng.normal(size=3)
    without = run.total(weights, rows[1:], targets[1:])
    rows[0], targets[0] = 0, 0
    np.testing.assert_array_equal(run.total(weights, rows, targets), without)


def test_participants_who_diverge_keep_it_to_themselves(job):
    asked = {"method": "dssgd", "model": None, "epsilon": 60.0, "participants": 3, "epochs": 4}
    plan = job(**asked, learning_rate=1e200).plan
    rng, seen = np.random.default_rng(2), []
    rows, targets = rng.uniform(-1, 1, (90, 3)).astype(np.float32), rng.uniform(-1, 1, 90)
    weights = plan.train(rows, targets, SeededRandom(3), lambda step, w: seen.append(step))
    assert np.isfinite(weights).all()
    assert seen == [4]


@pytest.mark.parametrize(
    ("asked", "step"),
    [
        ({"method": "dp-sgd", "learning_rate": 1e6}, 1),
        ({"method": "dssgd", "bound": 10.0, "participants": 3, "epochs": 4}, 4),
    ],
)
def test_where_rows_are_in_one_place_runs_that_leave_all_bounds_end_too(job, asked, step):
    plan, rng = job(model=None, **asked).plan, np.random.default_rng(2)
    rows, targets = rng.uniform(-1, 1, (90, 3)).astype(np.float32), rng.uniform(-1, 1, 90)
    with pytest.raises(DivergedError) as found:
        plan.train(rows, targets, SeededRandom(3), lambda step, weights: None)
    assert found.value.step == step


def test_shufflers_have_buckets_for_all_messages(job, monkeypatch):
    spent = {"epsilon": None, "epsilon_local": 1.0, "min_reports": 4000}
    made, buckets = job(model=None, hold_back=0.5, steps=2, **spent), []
    rows = 1 << 32  # as if there were so many: a few thousand have as few buckets as there may be
    made = replace(made, telemetry=replace(made.telemetry, rows=rows))

    def shuffle(least, codes, count, open_rng, **more):
        buckets.append(count)
        return Shuffle(least, codes, count, open_rng, **more)

    for module in ("train_step", "train_curve"):
        monkeypatch.setattr(f"transforms.rounds.{module}.Shuffle", shuffle)
    beam.Pipeline() | PublishModel(made)
    points = made.plan.curve.groups
    messages = rows / 2 / 2 * made.plan.design.mechanism.messages
    assert buckets[:2] == [bucket_count(messages)] * 2
    # One shuffler keeps the batches of all points apart.
    assert set(buckets[2:]) == {bucket_count(rows / 2 / points)}
    assert 64 < bucket_count(rows / 2 / points) < bucket_count(messages)


def longest_chain(pipeline):
    """How many transforms, side inputs included, come one after another at the most."""
    transforms = pipeline.to_runner_api().components.transforms.values()
    inner = [each for each in transforms if not each.subtransforms]
    # What hands its input on as it is (the inside of some composites) is no step of its own.
    inner = [each for each in inner if not {*each.outputs.values()} & {*each.inputs.values()}]
    makers = {output: each for each in inner for output in each.outputs.values()}
    behind, waiting = {}, list(inner)
    while waiting:
        each = waiting.pop()
        before = [makers[name] for name in each.inputs.values()]
        missing = [one for one in before if one.unique_name not in behind]
        if missing:
            waiting += [each, *missing]
        else:
            found = [behind[one.unique_name] for one in before]
            behind[each.unique_name] = 1 + max(found, default=0)
    return max(behind.values())


@pytest.mark.verify
def test_the_most_steps_leave_beams_recursion_room(job):
    """How deep it goes depends on the order in sets; as deep as the longest chain at the worst."""
    spent = {"model": None, "epsilon": None, "epsilon_local": 1.0, "min_reports": 10}
    lengths = []
    for steps in (2, 3, 4):
        pipeline = beam.Pipeline()
        pipeline | PublishModel(job(**spent, hold_back=0.2, steps=steps))
        lengths.append(longest_chain(pipeline))
    first, second, third = lengths
    assert third - second == second - first > 0
    at_most = first + (second - first) * (MOST_STEPS - 2 + 1)  # an opening is one more
    assert sys.getrecursionlimit() < at_most < _DEEPEST - 1000  # the rest is for who calls


def test_one_seed_for_all_is_told_of(job):
    assert "one public seed" in job(mechanism="privunit", steps=5, epsilon=4.0).cautions[-1]


def test_participants_share_with_noise(job):
    made = job(method="dssgd", model=None, epsilon=60.0, participants=5, epochs=3, upload_share=1)
    assert isinstance(made.plan, ParticipantsPlan)
    assert made.guarantees[0].epsilon <= 60.0
    assert made.guarantees[0].delta <= 1e-6
    largest = {"selection": "largest", "exchange": "random", "threshold": 1e-4, "epochs": 1}
    again = job(method="dssgd", model=None, epsilon=1.0, upload_share=0.5, **largest)
    assert again.plan.run.protocol == "random-order"
    assert "noise drowns" in again.cautions[0]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"steps": ROWS + 1}, "--steps must be a number of at most 100"),
        ({"target": "y"}, "--target must be COLUMN=LOW,HIGH"),
        ({"target": "y=3,3"}, "the first must be below the second"),
        ({"target": "nothing=0,1"}, "has no one column 'nothing'"),
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
        ({"lot": 5}, "--lot belongs to --method dp-sgd"),
        ({"method": "dp-sgd"}, "--model belongs to --method local"),
        ({"method": "dp-sgd", "model": None, "lot": ROWS + 1}, "are more than the"),
        ({"method": "dssgd", "model": None, "participants": ROWS + 1}, "need a row each"),
        ({"method": "dssgd", "model": None, "threshold": 0.1}, "--selection largest"),
        ({"epsilon": None}, "--epsilon is missing"),
        ({"epsilon": None, "epsilon_local": 1.0}, "--epsilon is missing"),
        ({"delta": 1e-6}, "delta must be 0 in the local model"),
        ({"mechanism": "magic"}, "unknown mechanism 'magic'"),
        ({"mechanism": "multi_rphm"}, "take an unbiased one"),
        ({"model": None, "steps": 100, "hold_back": 0.99}, "too few to be shuffled"),
        ({"hold_back": 0.1, "validation": ("x",)}, "exclude each other"),
        ({"validation": ("nowhere",)}, "--validation: no file matches"),
        ({"user_column": "when"}, "--user-column"),
    ],
)
def test_what_cannot_be_is_refused(job, asked, told):
    with pytest.raises(RequestError) as error:
        job(**asked)
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_fewer_rows_than_steps_are_refused(job, tmp_path):
    path = tmp_path / "few.parquet"
    pq.write_table(pa.table({"f0": [0.0] * 9, "f1": [0.0] * 9, "y": [1] * 9}), path)
    with pytest.raises(RequestError, match="10 steps need 11 rows"):
        job(input=(str(path),), steps=10)
    assert job(input=(str(path),), steps=9).plan.users == 1


def test_public_rows_are_other_rows_of_the_same_kind(job, log, tmp_path):
    with pytest.raises(RequestError, match="are among --input"):
        job(validation=(log,))
    path = tmp_path / "public.parquet"
    table = pa.table({"f0": [0.0], "f1": [0.0], "y": [1.0]})
    pq.write_table(table, path)
    with pytest.raises(RequestError, match="column 'y' is double, but int64"):
        job(validation=(str(path),))
    pq.write_table(table.set_column(2, "y", pa.array([1])), path)
    made = job(validation=(str(path),), steps=4)
    assert scored_steps(made.plan) == [0, 1, 2, 3, 4]


def test_rows_that_fill_the_memory_of_one_worker_are_refused(job, monkeypatch):
    monkeypatch.setattr("pipelines.train.central.LARGEST_ROWS", 1000)
    with pytest.raises(RequestError, match="GiB"):
        job(method="dp-sgd", model=None)


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


def test_a_private_curve_tells_nothing_of_few_reports(job):
    one = job(hold_back=0.5, steps=6, epsilon=2.0).plan.curve.mechanism
    mechanism = replace(one, groups=6)
    baseline, inner = Baseline(None), mechanism.mechanism
    steps = list(range(mechanism.groups - baseline.questions))
    counts = np.zeros((mechanism.groups, inner.codes), np.int64)
    counts[0, 0], counts[len(steps) - 1], counts[-2:] = 9, 1000, 1000
    # Half of the rows can be used, and the error of all is 0.5 of the largest if theirs is 1.
    half = np.repeat([0, inner.inputs - 1], 50_000)
    counts[len(steps)] = inner.count(inner.perturb(half, SeededRandom(4)))
    about = (steps, mechanism, baseline)
    curve = private_curve(*about, counts.ravel(), 10, 25.0, 0.9)
    assert curve[0] == Point(0, 9)
    last = curve[-1]
    assert last.n == 1000 * inner.codes
    assert 0 <= last.lower <= last.error <= last.upper <= 100
    # Codes that are all alike frequent stand for the middle of 0 .. 1, and that is all of a half.
    assert last.error == pytest.approx(100, abs=5 * last.standard_error)
    counts[-1] = 0
    assert {point.error for point in private_curve(*about, counts.ravel(), 10, 25.0, 0.9)} == {None}
