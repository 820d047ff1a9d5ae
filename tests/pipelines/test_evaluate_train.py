"""Ways to train with privacy are compared on common chance, and told as they turned out."""

from __future__ import annotations

import json
import math
import pickle
import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from mechanisms import catalog
from mechanisms.learning.objectives import SquaredError
from mechanisms.learning.schedule import Schedule
from mechanisms.mean.optimal import Optimal
from mechanisms.randomness import SeededRandom
from mechanisms.vector.multi import multi_optimal
from mechanisms.vector.sampled import SampledCoordinates
from pipelines import cli
from pipelines.errors import RequestError
from pipelines.evaluate.cells import Cell, Line, Outcome
from pipelines.evaluate.results import Results
from pipelines.evaluate.train_data import TABLES, read_all_rows
from pipelines.evaluate.train_differences import differences, told
from pipelines.evaluate.train_figures import FOLDS, TrainFigures
from pipelines.evaluate.train_images import read_all_images
from pipelines.evaluate.train_regression import MEASURES, RegressionExperiment
from pipelines.evaluate.train_systems import (
    DEFAULT,
    MECHANISMS,
    SETS,
    CommonRun,
    CommonSteps,
    Quantiles,
    Unguarded,
    lines,
)

PAGE = Path(__file__).parents[2] / "docs" / "reproduction-training.md"
EVALUATE = ["evaluate", "train", "--jobs", "1"]  # starting processes takes seconds
REGRESSION = [*EVALUATE, "--study", "regression", "--data", "census:400"]
FALSE_ALARM = 1e-10


# ---- data ----------------------------------------------------------------------------------------


def table(name: str, n: int, folder: Path) -> str:
    """A file with the columns of a known table, numbers beyond their bounds among them."""
    declared, chance = TABLES[name], np.random.default_rng(1)
    columns = {
        column: chance.uniform(low - 10, high + 10, n)
        for column, low, high in (declared.target, *declared.numbers)
    }
    for place, column in enumerate(declared.categories):
        columns[column] = chance.integers(0, 2 + place, n)
    path = str(folder / f"{name}.parquet")
    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("name", TABLES)
def test_declared_columns_become_rows(tmp_path, name) -> None:
    path = table(name, 300, tmp_path)
    (found,) = read_all_rows([path])
    declared, content = TABLES[name], pq.read_table(path)
    assert (found.n, found.name) == (300, name)
    assert found.d == len(declared.numbers) + 1 + sum(
        1 + place for place in range(len(declared.categories))
    )
    assert np.abs(found.rows).max() <= 1
    assert np.abs(found.targets).max() <= 1
    column, low, high = declared.target
    scaled = np.clip(2 * (content[column].to_numpy() - low) / (high - low) - 1, -1, 1)
    np.testing.assert_allclose(found.targets, scaled, atol=1e-6)
    last = declared.categories[-1]
    for value in range(1, 1 + len(declared.categories)):
        place = found.features.names.index(f"{last}={value}")
        np.testing.assert_array_equal(found.rows[:, place], content[last].to_numpy() == value)


def test_rows_that_are_chosen_are_the_same_ones_always(tmp_path) -> None:
    path = table("adult", 400, tmp_path)
    some, again = read_all_rows([f"{path}:150"])[0], read_all_rows([path], [150])[0]
    assert some.name == "adult[150]"
    assert some.digest == again.digest != read_all_rows([f"{path}:151"])[0].digest


def test_a_made_census_can_be_told_from_its_attributes() -> None:
    small, large = read_all_rows(["census:100"], [500, 50_000])
    assert (small.n, large.n, small.base) == (500, 50_000, large.base)
    objective = SquaredError(large.d)
    best = objective.fit_exactly(large.rows, large.targets)
    left = float(objective.errors(best, large.rows, large.targets).mean())
    assert 0.15**2 * 0.9 < left < 0.6 * float(np.var(large.targets))
    assert np.mean(np.abs(large.targets) == 1) < 0.05


def test_images_are_square_and_their_last_fifth_is_held_back(tmp_path) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (100, 16), dtype=np.uint8)
    path = str(tmp_path / "few.parquet")
    columns = {"image": pa.array([row.tobytes() for row in pixels], pa.binary(16))}
    pq.write_table(pa.table({**columns, "label": np.arange(100) % 3}), path)
    found, made = read_all_images([path, "digits:200"])
    assert (found.n, found.trained, found.d, found.side) == (100, 80, 3, 4)
    np.testing.assert_allclose(found.rows[:, :-1], pixels / 127.5 - 1, atol=1e-6)
    assert (found.rows[:, -1] == 1).all()
    assert (made.n, made.d, made.side) == (200, 10, 12)


# ---- common chance -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["duchi", "pm", "hm", "optimal"])
@pytest.mark.parametrize("value", [0.0, 0.37, -1.0, 1.0])
def test_reports_follow_the_channel(name, value) -> None:
    """100,000 reports: a channel 30 % off would be seen, and a right one never refused."""
    mechanism = catalog.build(name, epsilon=1.0, cells=16)
    n, rng = 100_000, SeededRandom(3)
    coins, uniforms = ((rng.words(n) >> np.uint64(11)).astype(float) * 2.0**-53 for _ in range(2))
    reports = Quantiles(mechanism).reports(np.full(n, value), coins, uniforms)
    position = (value + 1) / 2 * 16
    low = min(int(position), 15)
    upper = position - low
    law = (1 - upper) * mechanism.channel(low) + upper * mechanism.channel(low + 1)
    decoded, place = np.unique(mechanism.decoded, return_inverse=True)
    expected = np.bincount(place, law) * n
    seen = np.bincount(np.searchsorted(decoded, reports), minlength=decoded.size)
    assert seen.sum() == n
    possible = expected > 0
    assert not seen[~possible].any()
    statistic = float(np.sum((seen - expected)[possible] ** 2 / expected[possible]))
    assert stats.chi2.sf(statistic, possible.sum() - 1) > FALSE_ALARM
    # The same test refuses shares that are 30 % off.
    off = expected * np.where(np.arange(expected.size) % 2, 1.3, 0.7)
    off *= n / off.sum()
    statistic = float(np.sum((seen - off)[possible] ** 2 / off[possible]))
    assert stats.chi2.sf(statistic, possible.sum() - 1) < FALSE_ALARM


@pytest.mark.parametrize("mechanism", [multi_optimal(1.0, 4), multi_optimal(6.0, 4)], ids=str)
def test_mean_gradients_are_unbiased_and_as_noisy_as_predicted(mechanism) -> None:
    objective = SquaredError(4)
    steps = CommonSteps(objective, mechanism, Schedule(1, 1.0))
    run = CommonRun(steps, Quantiles(mechanism.mechanism))
    rows = np.tile(np.array([0.5, -0.3, 0.1, 1.0], np.float32), (2000, 1))
    targets = np.full(2000, 0.1, np.float32)
    # One step of length 1 from 0: the weights are the estimated gradient, turned round.
    found = np.array([run.train(rows, targets, seed * 10).weights for seed in range(200)])
    exact = -objective.gradients(np.zeros(4), rows[:1], targets[:1])[0]
    noise = np.array([steps.predicted_noise(2000, float(g)) for g in exact])
    apart = (found - exact) / noise
    assert np.abs(apart.mean(axis=0)).max() < 6.5 / math.sqrt(200)
    # 800 normal deviations: their mean square has a relative error of 0.05.
    assert np.mean(apart**2) == pytest.approx(1, abs=6.5 * 0.05)


def test_chance_is_common_to_mechanisms() -> None:
    """Differences between runs are much smaller than runs with chance of their own would have."""
    (census,) = read_all_rows(["census:2000"])
    objective = SquaredError(census.d)

    def weights(name: str, seed: int) -> np.ndarray:
        mechanism = MECHANISMS[name](1.0, census.d)
        steps = CommonSteps(objective, mechanism, Schedule(10, 0.2))
        run = CommonRun(steps, Quantiles(mechanism.mechanism))
        return run.train(census.rows, census.targets, seed).average

    common = [weights("duchi", seed) - weights("hm", seed) for seed in range(0, 200, 20)]
    apart = [weights("duchi", seed) - weights("hm", seed + 1000) for seed in range(0, 200, 20)]
    assert np.mean(np.square(common)) < 0.4 * np.mean(np.square(apart))
    np.testing.assert_array_equal(weights("hm", 7), weights("hm", 7))


def test_what_is_published_without_privacy_says_so() -> None:
    found = MECHANISMS["dct_published"](1.0, 5)
    assert isinstance(found, Unguarded)
    assert found.guarantee.epsilon == math.inf
    for name in SETS["all"]:
        if name in MECHANISMS and name != "dct_published":
            assert MECHANISMS[name](3.0, 5).guarantee.epsilon <= 3.0
    with pytest.raises(ValueError, match="may spend"):
        SampledCoordinates(1.0, 5, 1, Optimal(1.1, 16))


def test_the_default_is_always_among_the_lines() -> None:
    assert [line.system for line in lines(["pm", "pm"])] == [DEFAULT, "pm"]
    papers = ["duchi", "pm", "hm", "dct", "dct_published", "optimal", "least_squares"]
    assert {line.system for line in lines(["paper"])} == {DEFAULT, *papers}
    with pytest.raises(RequestError, match="unknown system 'grr'"):
        lines(["grr"])


def test_repetitions_are_paired_across_settings() -> None:
    one, other = (Cell("x", Line(name, "exact", "local"), e, 1e-6, True)
                  for name, e in (("pm", 1.0), ("duchi", 2.0)))  # fmt: skip
    assert one.seed(0, 3) == other.seed(0, 3) != one.seed(0, 4)
    alone = Cell("x", one.line, 1.0, 1e-6)
    assert alone == one
    assert alone.seed(0, 3) != one.seed(0, 3)


# ---- regression ----------------------------------------------------------------------------------


def mean_error(population, system: str, epsilon: float) -> float:
    experiment = RegressionExperiment({population.name: population})
    cell = Cell(population.name, Line(system, "exact", "local"), epsilon, 1e-6, True)
    fit = experiment.fit(cell)
    return experiment.measure(cell, fit, SeededRandom(cell.seed(0, 0)))["test_mse"]


def test_private_models_approach_the_exact_fit_as_users_grow() -> None:
    """Excess errors of 12,500 and 200,000 users differ by a factor of more than 4."""
    excess = []
    for population in read_all_rows(["census:100"], [12_500, 200_000]):
        best = mean_error(population, "least_squares", 2.0)
        excess.append(mean_error(population, "default", 2.0) - best)
        assert mean_error(population, "no_noise", 2.0) - best > 0
        assert best < mean_error(population, "constant", 2.0)
    assert 0 < 2 * excess[1] < excess[0]
    assert excess[1] < 0.005


def test_all_systems_share_one_opening() -> None:
    """So that they differ by the mechanism of gradients alone; who names a cut has no opening."""
    (census,) = read_all_rows(["census:30000"])
    experiment = RegressionExperiment({census.name: census})
    seen, begun = set(), []
    for system in ("default", "duchi", "dct_published", "no_noise"):
        cell = Cell(census.name, Line(system, "exact", "local"), 4.0, 1e-6, True)
        fitted = experiment.fit(cell)
        assert fitted.run.steps.groups == fitted.run.steps.schedule.steps + 1 == 51
        model = fitted.run.train(census.rows, census.targets, 5)
        seen.add(model.seen)
        begun.append(model.scale)
    (told,) = seen
    assert abs(told.variance - census.targets.var()) < 6.5 * told.variance_error < 0.2
    assert set(begun) == {told.scale}
    cut = RegressionExperiment({census.name: census}, clip=0.5).fit(cell).run
    assert cut.steps.opening is None
    assert cut.train(census.rows, census.targets, 5).seen is None


def test_folds_hold_everybody_back_once() -> None:
    (census,) = read_all_rows(["census:1003"])
    held = []

    class Watched(RegressionExperiment):
        def fit(self, cell):
            fitted = super().fit(cell)
            told = type(fitted).error
            object.__setattr__(fitted, "error", lambda w, rows: held.append(rows) or
                               told(fitted, w, rows))  # fmt: skip
            return fitted

    cell = Cell(census.name, Line("constant", "exact", "local"), 1.0, 1e-6, True)
    experiment = Watched({census.name: census})
    found = experiment.measure(cell, experiment.fit(cell), SeededRandom(1))
    assert sorted(np.concatenate(held).tolist()) == list(range(1003))
    assert found["test_mse"] == pytest.approx(np.mean([found[fold] for fold in FOLDS]))
    assert found["test_mse"] == pytest.approx(float(np.var(census.targets)), rel=0.02)


def test_from_the_command_to_the_table_and_on_after_an_interruption(run) -> None:
    words = [*REGRESSION, "--epsilons", "1", "4", "--repetitions", "2", "--systems", "pm",
             "dct_published", "constant"]  # fmt: skip
    outcome = run([*words, "--output", "whole"])
    assert (outcome.code, outcome.err) == (0, "")
    assert re.search(r"least mean error in \d of 2 comparisons", outcome.out)
    rows = pq.read_table("whole/results.parquet").to_pylist()
    assert len(rows) == 2 * 2 * 4
    for row in rows:
        assert row["private"] == (row["system"] in ("default", "pm"))
        assert row["test_mse"] == pytest.approx(np.mean([row[fold] for fold in FOLDS]))
        assert (row["steps"] is None) == (row["system"] == "constant")
    for repetition in (0, 1):
        level = {r["test_mse"] for r in rows if r["system"] == "constant"
                 and r["repetition"] == repetition}  # fmt: skip
        assert len(level) == 1  # the same folds, whatever epsilon is
    svg = Path("whole/test_mse-by-epsilon.svg").read_text()
    assert "dct_published" in svg
    Path("killed").mkdir()
    entries = Path("whole/journal.jsonl").read_bytes().splitlines(keepends=True)
    Path("killed/journal.jsonl").write_bytes(b"".join(entries[::2]) + entries[1][:30])
    Path("killed/request.json").write_bytes(Path("whole/request.json").read_bytes())
    assert run([*words, "--output", "killed"]).code == 0
    again = pq.read_table("killed/results.parquet").to_pylist()
    assert [row["test_mse"] for row in again] == [row["test_mse"] for row in rows]
    for more in (["--draws", "2"], ["--own-schedules"], ["--clip", "1"], ["--seed", "1"]):
        outcome = run([*words, *more, "--output", "whole"])
        assert (outcome.code, "another request" in outcome.err) == (2, True)


def test_differences_are_taken_on_the_same_folds(tmp_path) -> None:
    rows = [
        {"data": "x", "n": 10, "epsilon": 1.0, "system": system, "private": True,
         "repetition": repetition,
         **{fold: repetition + place + more for place, fold in enumerate(FOLDS)}}
        for system, more in ((DEFAULT, 0.0), ("pm", 0.25), ("hm", -0.5))
        for repetition in (1, 0)
    ]  # fmt: skip
    path = str(tmp_path / "results.parquet")
    pq.write_table(pa.Table.from_pylist(rows), path)
    found = {row["system"]: row for row in differences(path).to_pylist()}
    assert (found["pm"]["difference"], found["pm"]["difference_error"]) == (0.25, 0.0)
    assert found["pm"]["runs"] == 10
    spread = np.std([0, 1, 2, 3, 4, 1, 2, 3, 4, 5], ddof=1) / math.sqrt(10)
    assert found["hm"]["test_mse_error"] == pytest.approx(spread)
    first, *better = told(differences(path))
    assert "in 1 of 2 comparisons" in first
    assert better == ["hm on x (n = 10) at epsilon 1: 0.5 +- 0 better"]


def test_figures_are_drawn_against_users_too() -> None:
    data = read_all_rows(["census:100"], [100, 1000])
    chosen = lines(["pm"])
    cells = [Cell(d.name, line, e, 1e-6) for d in data for line in chosen for e in (1.0, 2.0)]
    sizes = {each.name: each.n for each in data}
    outcomes = [Outcome(runs={0: dict.fromkeys(FOLDS, 1 / sizes[cell.data])}) for cell in cells]
    draw = TrainFigures(data, [line.system for line in chosen])
    drawn = dict(draw(Results(data, cells, outcomes), MEASURES[0]))
    assert set(drawn) == {"test_mse-by-epsilon", "test_mse-by-n-census"}
    axes = drawn["test_mse-by-n-census"].axes
    assert [axis.get_title() for axis in axes] == ["epsilon = 1", "epsilon = 2"]
    for line in axes[0].lines:
        assert list(line.get_xdata()) == [100, 1000]
        assert line.get_ydata() == pytest.approx([0.01, 0.001])


def test_an_experiment_travels() -> None:
    (census,) = read_all_rows(["census:100"])
    again = pickle.loads(pickle.dumps(RegressionExperiment({"x": census})))
    assert again.populations["x"].digest == census.digest


# ---- images --------------------------------------------------------------------------------------


def test_accuracy_of_dp_sgd_grows_with_epsilon(run) -> None:
    words = [*EVALUATE, "--study", "dp-sgd", "--systems", "softmax", "softmax-exact"]
    more = ["--epsilons", "0.5", "8", "--data", "digits:1000", "--repetitions", "1"]
    outcome = run([*words, *more, "--output", "out"])
    assert (outcome.code, outcome.err) == (0, "")
    rows = pq.read_table("out/results.parquet").to_pylist()
    right = {(row["system"], row["epsilon"]): row["accuracy"] for row in rows}
    assert right["softmax", 0.5] + 0.1 < right["softmax", 8.0] < right["softmax-exact", 8.0] + 0.05
    assert right["softmax-exact", 8.0] > 0.9
    assert {row["private"] for row in rows if row["system"] == "softmax-exact"} == {False}
    assert len({row["sigma"] for row in rows}) == 3
    assert Path("out/accuracy-by-epsilon-delta-1e-05.svg").exists()


def test_participants_gain_by_sharing(run) -> None:
    words = [*EVALUATE, "--study", "dssgd", "--systems", "largest", "noisy", "alone", "centralised"]
    more = ["--shares", "0.1", "1", "--participants", "10", "--data", "digits:600"]
    outcome = run([*words, *more, "--epochs", "4", "--repetitions", "1", "--output", "out"])
    assert (outcome.code, outcome.err) == (0, "")
    rows = pq.read_table("out/results.parquet").to_pylist()
    right = {(row["system"], row["theta_u"]): row["accuracy"] for row in rows}
    # Of 120 held back, a standard error is below 0.05; the gaps are ten times as large.
    assert right["largest", 1.0] > right["alone", None] + 0.2
    assert right["centralised", None] > right["alone", None] + 0.2
    assert len(rows) == 6
    for row in rows:
        assert (row["epsilon_of_the_run"] is not None) == (row["system"] == "noisy")
    assert min(row["epsilon_of_the_run"] or math.inf for row in rows) > 100
    assert "which protects nobody" in outcome.out
    assert "alone 10" in Path("out/accuracy-by-share.svg").read_text()
    before = Path("out/results.parquet").read_bytes()
    assert run([*words, *more, "--epochs", "4", "--repetitions", "1", "--output", "out"]).code == 0
    assert Path("out/results.parquet").read_bytes() == before
    other = run([*words, *more, "--epochs", "5", "--repetitions", "1", "--output", "out"])
    assert (other.code, "another request" in other.err) == (2, True)


# ---- requests ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--study", "regression", "--epsilons", "1", "--systems", "x"], "unknown system 'x'"),
        (["--study", "regression"], "--epsilons"),
        (["--study", "regression", "--epsilons", "1", "--data", "census:5"], "100 to 10,000,000"),
        (["--study", "regression", "--epsilons", "1", "--data", "census:x"], "not of the form"),
        (["--study", "regression", "--epsilons", "1", "--data", "x.parquet"], "no known table"),
        (["--study", "regression", "--epsilons", "1", "--data", "adult.parquet"], "no file"),
        (["--study", "regression", "--epsilons", "1", "--shares", "1"], "--shares"),
        (["--study", "dp-sgd", "--epsilons", "1", "--systems", "pm"], "unknown system 'pm'"),
        (["--study", "dp-sgd", "--epsilons", "1", "--data", "digits:7"], "100 to 1,000,000"),
        (["--study", "dp-sgd", "--epsilons", "1", "--data", "x.parquet"], "no file"),
        (["--study", "dssgd", "--systems", "pm"], "unknown system 'pm'"),
        (["--study", "dssgd", "--shares", "2"], "--shares"),
        (["--study", "dssgd", "--epsilons", "2"], "--epsilons"),
        (["--study", "dssgd", "--participants", "200", "--data", "digits:100"], "cannot share"),
        (["--study", "dssgd", "--banana"], "unknown: --banana"),
    ],
)
def test_bad_requests_get_one_line(run, words, said) -> None:
    outcome = run([*EVALUATE, *words, "--output", "out"])
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert said in outcome.err


def test_help_explains_every_option(run) -> None:
    outcome = run(["evaluate", "train", "--help"])
    assert (outcome.code, outcome.err) == (0, "")
    for said in ("--study", "--systems", "--epsilons", "--deltas", "--data", "--ns", "--draws",
                 "--clip", "--own-schedules", "--shares", "--participants", "--epochs", "--noise",
                 "--repetitions", "--seed", "--output", "--jobs", "examples:", *SETS["all"],
                 *TABLES):  # fmt: skip
        assert said in outcome.out


def test_the_commands_of_the_page_and_of_the_help_can_be_typed(run) -> None:
    helped = run(["evaluate", "train", "--help"]).out
    shown = PAGE.read_text().replace("\\\n", " ") + helped.replace("\\\n", " ")
    commands = re.findall(r"^ *(hushbeam evaluate train .*)$", shown, re.MULTILINE)
    assert len(commands) >= 8
    for command in commands:
        words = shlex.split(command)[1:]
        known, rest = cli.parser_of(words).parse_known_args(words)
        assert rest == []
        assert known.study in ("regression", "dp-sgd", "dssgd")


def test_the_figures_of_the_page_exist_and_are_small() -> None:
    named = re.findall(r"!\[[^\]]+\]\((figures/training-[^)]+)\)", PAGE.read_text())
    assert len(named) >= 4
    for name in named:
        assert len((PAGE.parent / name).read_bytes()) < 250_000


def test_refusals_are_written(run) -> None:
    words = [*REGRESSION, "--epsilons", "700", "--systems", "optimal", "pm", "--repetitions", "1"]
    outcome = run([*words, "--output", "out"])
    (refused,) = json.loads(Path("out/refused.json").read_text())
    assert outcome.code == 0
    assert (refused["system"], refused["epsilon"]) == ("optimal", 700)
    assert "epsilon must lie in" in refused["reason"]
