"""The choice of a mechanism for rows, within a target; and what to expect of it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from mechanisms import catalog
from mechanisms.papers.meanest import Meanest
from mechanisms.planner.rows import PAPER, crossover, predict
from mechanisms.planner.search import search
from mechanisms.privacy.amplification import shuffled_delta
from mechanisms.privacy.divergence import tight_epsilon
from mechanisms.randomness import SeededRandom
from mechanisms.targets.rules import Target
from mechanisms.vector.base import VectorMean, average_variance
from mechanisms.vector.multi import multi_hm, multi_optimal
from mechanisms.vector.privunit import privunit
from mechanisms.vector.task import AttributeTask, VectorTask
from tests.oracles import mean as oracles_mean
from tests.oracles.vector import source_rows

LOCAL = Target("local", 1.0, 0.0, 10_000, VectorTask(400), seed=0)
SHUFFLE = Target("shuffle", 1.0, 1e-6, 100_000, VectorTask(50), seed=0)
KEYS = ("dimension", "radius")

KNOWN = replace(SHUFFLE, epsilon=None, epsilon_local=2.0)  # nothing to solve for


def changed(target, **changes):
    """A target with other privacy, or of another question."""
    own = {key: changes.pop(key) for key in KEYS if key in changes}
    return replace(target, task=replace(target.task, **own), **changes)


# ---- the best within a target --------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.02, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("dimension", [1, 400])
@pytest.mark.parametrize("radius", [None, 0.8])
def test_auto_is_the_best_of_all_that_are_unbiased(epsilon, dimension, radius):
    target = changed(LOCAL, epsilon=epsilon, dimension=dimension, radius=radius)
    best, errors = search(target), {}
    for name in catalog.of_task("vector"):
        if name == "multi_rphm" or (name == "privunit" and radius is None):
            continue  # biased; or slow, and whoever names no length has to ask for it
        if name == "harmony":
            continue  # the best for corners alone, as the next test has it
        try:
            errors[name] = search(target, name).error
        except ValueError:
            continue
    assert len(errors) >= 3
    assert best.error <= min(errors.values()) * (1 + 1e-9)
    assert best.release == best.local
    assert best.mechanism.epsilon <= epsilon
    assert best.bits == max(1, math.ceil(math.log2(best.mechanism.codes)))


def test_one_bit_is_the_best_for_rows_at_the_corners_and_for_no_others():
    """Its variance is largest at 0, so that where all numbers are -1 or 1 it errs by 6 % less."""
    bit, best = (search(changed(LOCAL, epsilon=1.0, dimension=400), name).mechanism
                 for name in ("harmony", "multi_optimal"))  # fmt: skip
    assert 0.93 < bit.variance(1.0) / best.variance(1.0) < 0.95
    for value in (0.0, 0.4, 0.7):
        assert bit.variance(value) > 1.02 * best.variance(value)


def test_long_rows_fit_their_counters():
    for name in ("multi_hm", "multi_optimal"):
        found = search(changed(LOCAL, dimension=100_000), name)
        assert found.mechanism.codes <= 1 << 24
    assert search(changed(LOCAL, dimension=100_000)).name == "multi_optimal"
    # So many coordinates have no room for the optimal mechanism's codes.
    assert search(changed(LOCAL, dimension=1 << 18)).name == "multi_hm"


def test_a_length_that_no_row_exceeds_is_made_use_of():
    ball = changed(LOCAL, radius=1.0)
    assert search(ball).name == "privunit"
    assert search(ball).mechanism.radius == 1.0
    assert search(ball).error < search(LOCAL).error / 100
    # Even the length of the cube's corners, for epsilon above 1.456 (Multi-HM's crossing).
    for epsilon, wins in ((1.3, False), (1.6, True)):
        cube = Target("local", epsilon, 0.0, 1, VectorTask(200, radius=math.sqrt(200)), seed=0)
        better = search(cube, "privunit").error < search(cube, "multi_hm").error
        assert better == wins


def test_shorter_rows_make_other_mechanisms_err_less_too():
    ball = changed(LOCAL, radius=1.0)
    assert search(ball, "multi_hm").error < search(LOCAL, "multi_hm").error


def test_a_shared_seed_is_counted():
    target = changed(LOCAL, epsilon=20.0, radius=1.0, n=10**9)
    found = search(target, "privunit")
    assert found.error >= found.mechanism.seed_variance
    assert search(target).name != "privunit"


def test_a_projection_is_charged_its_bias():
    assert search(LOCAL, "multi_rphm").error > 0.7
    assert search(LOCAL).error < 0.21


@pytest.mark.parametrize("square", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("name", ["hm", "meanest", "privunit"])
def test_the_worst_average_variance_is_never_exceeded(name, square):
    d = 12
    mechanism: VectorMean = {
        "hm": multi_hm(1.0, d, cells=4),
        "meanest": Meanest(1.0, d),
        "privunit": privunit(1.0, d, radius=math.sqrt(d * square)),
    }[name]
    most = average_variance(mechanism.variance, mechanism.largest_value, square)
    generator = np.random.default_rng(2)
    seen = 0.0
    for _ in range(400):
        row = generator.normal(size=d) ** generator.integers(1, 4)
        row *= math.sqrt(d * square * generator.uniform(0.5, 1)) / np.linalg.norm(row)
        seen = max(seen, float(np.mean(mechanism.variance(np.clip(row, -1, 1)))))
    assert 0.9 * most < max(seen, float(np.mean(mechanism.variance(np.full(d, math.sqrt(square))))))
    assert seen <= most * (1 + 1e-3)
    assert mechanism.worst_error(square, 10) >= most / 10


# ---- the shuffle model ---------------------------------------------------------------------------


def test_a_shuffled_batch_meets_its_target_and_wastes_little_of_it():
    found = search(SHUFFLE)
    assert found.name == "multi_optimal"
    assert found.release.model == "shuffle"
    assert 0.99 < found.release.epsilon <= 1.0
    assert tight_epsilon(found.mechanism) <= found.local.epsilon
    assert shuffled_delta(found.mechanism, SHUFFLE.n, 1.0)[1] <= 1e-6
    # Several coordinates are worth more than one, and far more than without a shuffler.
    assert found.mechanism.sampled >= 3
    assert found.error < search(changed(LOCAL, dimension=50, n=SHUFFLE.n)).error / 8
    one = multi_optimal(found.mechanism.epsilon, 50, cells=256, sampled=1)
    assert found.error < average_variance(one.variance, one.largest_value, 1.0) / SHUFFLE.n


def test_a_cap_is_kept():
    assert search(changed(LOCAL, epsilon_local=0.5)).mechanism.epsilon == 0.5
    capped = search(changed(SHUFFLE, epsilon_local=2.0, n=1000), "multi_hm")
    assert capped.mechanism.sampled == 1
    assert 1.9 < capped.mechanism.epsilon <= 2.0
    assert capped.release.epsilon < 1.0
    alone = search(KNOWN)
    assert alone.mechanism.epsilon == 2.0
    assert alone.release.epsilon < 0.2
    assert "batches exist that lose" in alone.release.how


@pytest.mark.parametrize("name", ["meanest", "privunit", "multi_rphm"])
def test_every_mechanism_is_amplified_by_name(name):
    target = changed(SHUFFLE, n=20_000, dimension=4, radius=1.0)
    found = search(target, name)
    assert found.local.epsilon > 2
    assert found.release.epsilon <= 1.0
    assert shuffled_delta(found.mechanism, target.n, 1.0)[1] <= 1e-6


def test_rows_of_numbers_and_categories_meet_a_target():
    task = AttributeTask((None, None, 2, 40))
    local = search(LOCAL.asking(task))
    assert local.release.epsilon == 1.0
    batch = search(SHUFFLE.asking(task, n=5000))
    assert 0.99 < batch.release.epsilon <= 1.0
    assert shuffled_delta(batch.mechanism, 5000, 1.0)[1] <= 1e-6
    assert batch.mechanism.log_error < local.mechanism.log_error - 4 * math.log(3)
    assert batch.error < local.error


# ---- what to expect ------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", oracles_mean.vectors("rphm_mse"), ids=lambda e: str(e["params"]))
def test_reference_errors(entry):
    given, expected = entry["params"], entry["expected_mse"]
    target = changed(LOCAL, epsilon=given["eps"], n=given["n"], dimension=given["d"])
    rows = {row.name: row for row in predict(target, *PAPER, spread=0.0)}
    for name, value in {
        "multi_hm": expected["multi_hm"],
        "multi_rphm": expected["rphm"],
        "random projection": expected["rp_only"],
        "zeros": expected["zero_estimator"],
        "multi_hm * q/d": expected["multi_hm_shrunk_by_q_over_d"],
    }.items():
        assert rows[name].error == pytest.approx(value, rel=2e-4)
    oracle = expected["multi_hm_oracle_shrink"]
    assert rows["multi_hm"].to_zero == pytest.approx(oracle, rel=2e-4)
    assert rows["multi_hm"].to_mean == pytest.approx(rows["multi_hm"].error / given["d"])
    assert crossover(target, *PAPER) == pytest.approx(entry["crossover_n"], rel=3e-4)
    best = rows["multi_optimal"]
    assert best.error < rows["multi_hm"].error < rows["meanest"].error
    # Multiplying beats projecting, and shrinking beats multiplying, whatever n is.
    assert rows["multi_hm"].to_zero < rows["multi_hm * q/d"].error < rows["multi_rphm"].error


def test_projections_win_below_the_crossing_only():
    at = crossover(LOCAL, *PAPER)
    for n, wins in ((0.98 * at, True), (1.02 * at, False)):
        rows = {row.name: row for row in predict(changed(LOCAL, n=round(n)), *PAPER)}
        assert (rows["multi_rphm"].error < rows["multi_hm"].error) == wins
    assert crossover(LOCAL, 0.0, 0.2) == math.inf


def test_predicted_errors_and_widths_are_what_collections_show():
    """30 collections of 60 coordinates: the mean square is chi-square with 1800 degrees, +- 6.5
    of its 3.3 %; intervals cover 95 % of them, +- 6.5 of 0.5 %."""
    target = changed(LOCAL, dimension=60, n=2000)
    (expected,) = (row for row in predict(target, *PAPER) if row.name == "multi_optimal")
    mechanism = search(target).mechanism
    errors = []
    for seed in range(30):
        rng = SeededRandom(seed)
        rows = source_rows(target.n, 60, rng)
        counts = mechanism.count(mechanism.report(rows, rng))
        errors.append(mechanism.estimate(counts, target.n) - rows.mean(axis=0))
    found = np.array(errors)
    assert abs(np.mean(found**2) / expected.error - 1) < 6.5 * math.sqrt(2 / 1800)
    covered = np.mean(np.abs(found) <= expected.half_width)
    assert abs(covered - 0.95) < 6.5 * math.sqrt(0.95 * 0.05 / 1800)
    assert np.mean(np.abs(found) <= expected.simultaneous) > 0.998


def test_without_a_guess_the_worst_is_expected():
    rows = {row.name: row for row in predict(LOCAL)}
    assert rows["multi_optimal"].error == pytest.approx(search(LOCAL).error, rel=1e-3)
    assert rows["zeros"].error == 1.0
    names = [row.name for row in predict(LOCAL)][2:]
    assert names == sorted(names, key=lambda name: rows[name].error)


def test_a_batch_is_predicted_without_projections():
    rows = {row.name: row for row in predict(KNOWN, *PAPER)}
    assert set(rows) == {"zeros", "multi_optimal", "multi_hm"}
    assert rows["multi_optimal"].simultaneous > rows["multi_optimal"].half_width
    with pytest.raises(ValueError, match="local model"):
        crossover(SHUFFLE, *PAPER)


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"dimension": 0}, "dimension must lie in"),
        ({"dimension": 2.5}, "dimension must be an integer"),
        ({"radius": 0.0}, "radius"),
        ({"radius": math.nan}, "radius"),
    ],
)
def test_targets_that_mean_nothing_are_refused(wrong, match):
    with pytest.raises(ValueError, match=match):
        changed(LOCAL, **wrong)


@pytest.mark.parametrize(
    ("target", "name", "match"),
    [
        ({}, "magic", "unknown mechanism 'magic'; there are: multi_optimal"),
        ({"epsilon": 0.01}, "multi_optimal", "the nearest that works is 0.05"),
    ],
)
def test_what_cannot_be_met_is_refused(target, name, match):
    with pytest.raises(ValueError, match=match):
        search(changed(LOCAL, **target), name)


@pytest.mark.parametrize(
    "guess", [(0.2, 0.1), (-0.1, 0.1), (0.1, 1.5), (0.1, 0.2, 0.3), (math.nan, 1)]
)
def test_guesses_that_mean_nothing_are_refused(guess):
    with pytest.raises(ValueError, match="must rise from 0 to 1"):
        predict(LOCAL, *guess)
