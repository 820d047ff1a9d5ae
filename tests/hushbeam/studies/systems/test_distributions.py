"""Distances are those of slow oracles, and systems come as near to the truth as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from hushbeam.studies.engine.cells import Cell
from hushbeam.studies.populations.numbers import read_numbers
from hushbeam.studies.studies.distribution import fit
from hushbeam.studies.systems.curves import LEVELS, DistributionCurve
from hushbeam.studies.systems.distributions import SETS, SYSTEMS, lines
from mechanisms.randomness import SeededRandom
from pipelines.errors import RequestError

(BETA,) = read_numbers(["beta:20000,2,5"])
ONE_REPORT = [name for name, system in SYSTEMS.items() if "local" in system.models]
BIASED = {"ogpm", "brr"}


def released(text: str, epsilon: float, seed: int = 0, data=BETA) -> dict[str, float]:
    (line,) = lines([text])
    simulation = fit(None, Cell(data.name, line, epsilon, 1e-6), data)
    return simulation.release(SeededRandom(seed)) | simulation.known


@pytest.mark.parametrize("bins", [1, 7, 64])
def test_distances_are_those_of_a_fine_grid(bins: int) -> None:
    rng = np.random.default_rng(bins)
    shares = rng.dirichlet(np.ones(bins))
    (truth,) = read_numbers(["gauss:300,0.1,0.4"])
    errors = DistributionCurve.of(shares).errors(truth)
    fine = 1 << 14
    points = (np.arange(bins * fine) + 0.5) / (bins * fine) * 2 - 1
    weights = np.repeat(shares / fine, fine)
    slow = stats.wasserstein_distance(points, truth.values, weights, truth.histogram)
    assert errors["wasserstein"] == pytest.approx(slow / 2, abs=2e-4)
    own = np.cumsum(weights)
    true = np.cumsum(truth.histogram)[np.searchsorted(truth.values, points, "right") - 1] / truth.n
    true[points < truth.values[0]] = 0
    assert errors["ks"] == pytest.approx(np.abs(own - true).max(), abs=2e-3)
    found = points[np.searchsorted(own, LEVELS)]
    users = np.repeat(truth.values, truth.histogram)
    wanted = users[np.ceil(np.array(LEVELS) * truth.n).astype(int) - 1]
    assert errors["quantile_error"] == pytest.approx(np.abs(found - wanted).mean() / 2, abs=2e-4)
    assert errors["mean_error"] == pytest.approx(abs(points @ weights - truth.mean) / 2, abs=2e-4)


def test_the_truth_is_no_distance_away_and_half_the_range_is_half() -> None:
    (low,), (beta,) = read_numbers(["spike:10,-1"]), read_numbers(["beta:100000,2,5"])
    assert DistributionCurve.of(np.array([0.0, 1.0])).errors(low)["wasserstein"] == pytest.approx(
        0.75
    )
    edges = np.linspace(-1, 1, 513)
    shares = np.diff(np.searchsorted(np.repeat(beta.values, beta.histogram), edges)) / beta.n
    errors = DistributionCurve.of(shares).errors(beta)
    assert errors["wasserstein"] < 1 / 512
    assert errors["mean_error"] < 1e-5


@pytest.mark.parametrize("name", SYSTEMS)
def test_much_epsilon_leaves_little_error(name: str) -> None:
    """And at a little there is far more, so that it is the noise that is measured."""
    near, far = released(name, 8.0), released(name, 0.5)
    grid = 1 / near["bins"]  # which rounding costs
    assert near["wasserstein"] < grid + 0.01
    assert far["wasserstein"] > 2 * (near["wasserstein"] - grid)
    if name not in BIASED and "grr" not in name:
        assert near["ks"] < 0.1


@pytest.mark.parametrize("name", [name for name in ONE_REPORT if name in SETS["published"]])
def test_one_report_spends_what_it_may_and_a_batch_more(name: str) -> None:
    local, batch = released(name, 1.0), released(f"{name}@shuffle", 1.0)
    assert local["epsilon_report"] == pytest.approx(1.0, rel=1e-9)
    assert local["epsilon_report"] <= 1.0
    # What k-ary response may spend among so many, to within a half.
    assert batch["epsilon_report"] == pytest.approx(6.2, abs=0.5)
    assert batch["wasserstein"] < 0.6 * local["wasserstein"]


def test_reports_as_published_are_the_truth_through_the_channel() -> None:
    """Their bias is far larger than their noise, and more users do not make it less."""
    (many,) = read_numbers(["beta:400000,2,5"])
    errors = [released("ogpm", 1.0, data=data)["wasserstein"] for data in (BETA, many)]
    assert errors[0] == pytest.approx(errors[1], rel=0.03)
    assert released("ogpm-em", 1.0, data=many)["wasserstein"] < errors[1] / 10


@pytest.mark.parametrize("name", ["shuffler", "devices", "job"])
def test_trees_err_by_some_users_however_many_there_are(name: str) -> None:
    (many,) = read_numbers(["beta:200000,2,5"])
    users = [
        np.mean([released(name, 1.0, seed, data)["ks"] * data.n for seed in range(4)])
        for data in (BETA, many)
    ]
    # As docs/distributions.md has it for one share: some 8; the largest of all is a few times that.
    assert 15 < users[0] < 120
    # The truth lies inside bins, of which the fullest holds a five-hundredth of the users.
    assert users[1] - users[0] < 0.003 * many.n


def test_names_of_models_and_sets() -> None:
    made = lines(["published@shuffle", "product"])
    assert [str(line) for line in made][-1] == "job"
    assert {line.model for line in made} == {"shuffle", "local", "central"}
    for text in ("job@local", "nobody", "status@central", "job@"):
        with pytest.raises(RequestError, match="--systems"):
            lines([text])


def test_seeds_repeat() -> None:
    assert released("status", 1.0, 5) == released("status", 1.0, 5)
    assert released("status", 1.0, 5) != released("status", 1.0, 6)
    assert math.isfinite(released("status", 0.1)["wasserstein"])
