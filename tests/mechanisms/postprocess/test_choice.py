"""What is published: never worse than "all alike", and never much worse than the projection."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mechanisms.catalog import find, of_task
from mechanisms.channel import Floats
from mechanisms.frequency.choice import _RULES, POSTPROCESSING, publish
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.frequency.risk import Candidate, Errors
from mechanisms.papers.central_histogram import LaplaceHistogram
from mechanisms.postprocess.simplex import project
from mechanisms.randomness import SeededRandom
from tests.oracles.statistics import zipf


def oracle(name: str, **parameters: float) -> FrequencyOracle:
    return find(name, of_task("frequency")).build(**parameters)


def whole(shares: Floats, n: int) -> Floats:
    """Shares of n users that add up to 1."""
    counts = np.floor(shares * n)
    counts[: n - int(counts.sum())] += 1
    return counts / n


def releases(
    mechanism: FrequencyOracle, truth: Floats, n: int, runs: int, seed: int = 0
) -> list[Floats]:
    """Unbiased shares of the law that the mechanism's releases have."""
    rng = np.random.default_rng(seed)
    if isinstance(mechanism, LaplaceHistogram):
        chance = 1 - math.exp(-mechanism.noise.decay)
        shape = (runs, truth.size)
        return list(truth + (rng.geometric(chance, shape) - rng.geometric(chance, shape)) / n)
    deviation = np.sqrt(mechanism.variance(truth, n))
    return list(truth + deviation * rng.standard_normal((runs, truth.size)))


def mean_error(published: Callable[[Floats], Floats], seen: list[Floats], truth: Floats) -> float:
    return float(np.mean([np.sum((published(each) - truth) ** 2) for each in seen]))


LOCATIONS = np.repeat([1e-4, 3e-5], [5000, 11_509])  # check-ins: very many places, all of them rare
SPARSE: dict[str, tuple[FrequencyOracle, Floats, int]] = {
    "locations": (
        oracle("olh", epsilon=0.5, domain_size=16_509), LOCATIONS / LOCATIONS.sum(), 29_858,
    ),
    "alike": (oracle("olh", epsilon=0.5, domain_size=16_509), np.full(16_509, 1 / 16_509), 29_858),
    "square roots": (oracle("olh", epsilon=0.5, domain_size=16_509), zipf(16_509, 0.5), 29_858),
    "one head": (oracle("olh", epsilon=0.5, domain_size=16_509), zipf(16_509, 2.0), 29_858),
    "few users": (oracle("olh", epsilon=0.5, domain_size=1000), zipf(1000, 0.8), 1000),
    "k-ary": (oracle("grr", epsilon=1.0, domain_size=1000), zipf(1000, 0.5), 10_000),
    "two kinds": (
        oracle("olh", epsilon=1.0, domain_size=400), np.repeat([0.0045, 0.0005], 200), 50_000,
    ),
    "central, rare": (LaplaceHistogram(0.05, 16_509), zipf(16_509, 0.5), 29_858),
    "central, locations": (LaplaceHistogram(0.5, 16_509), zipf(16_509, 0.5), 29_858),
    "hundred": (oracle("olh", epsilon=1.0, domain_size=100), zipf(100, 0.3), 10_000),
}  # fmt: skip
DENSE: dict[str, tuple[FrequencyOracle, Floats, int]] = {
    "few values": (oracle("olh", epsilon=1.0, domain_size=10), zipf(10, 1.0), 100_000),
    "fifty": (oracle("olh", epsilon=1.0, domain_size=50), zipf(50, 1.1), 1_000_000),
    "cities": (oracle("olh", epsilon=4.0, domain_size=915), zipf(915, 1.2), 602_325),
    "k-ary": (oracle("grr", epsilon=3.0, domain_size=30), zipf(30, 0.7), 200_000),
    "central": (LaplaceHistogram(1.0, 1000), zipf(1000, 1.1), 1_000_000),
    "two": (oracle("grr", epsilon=1.0, domain_size=2), np.array([0.7, 0.3]), 10_000),
}


def slow(name: str) -> Any:
    """What takes seconds is left to `make verify`."""
    dear = name in ("cities", "central", "central, rare", "central, locations", "one head")
    return pytest.param(name, marks=[pytest.mark.verify] if dear else [])


@pytest.mark.parametrize("name", [slow(name) for name in SPARSE])
def test_it_is_never_worse_than_all_alike(name: str) -> None:
    """One percent is for what a law that is estimated costs where nothing is there to be seen."""
    mechanism, shares, n = SPARSE[name]
    truth = whole(shares, n)
    alike = float(np.sum((1 / truth.size - truth) ** 2))
    seen = releases(mechanism, truth, n, 4)
    error = mean_error(lambda y: publish("auto", mechanism, y, n).shares, seen, truth)
    assert error <= 1.01 * alike


def test_the_projection_would_be_far_worse() -> None:
    """What the test above would catch."""
    mechanism, shares, n = SPARSE["locations"]
    truth = whole(shares, n)
    alike = float(np.sum((1 / truth.size - truth) ** 2))
    assert mean_error(project, releases(mechanism, truth, n, 4), truth) > 50 * alike


@pytest.mark.parametrize("name", [slow(name) for name in DENSE])
def test_on_dense_data_it_is_as_good_as_the_projection(name: str) -> None:
    mechanism, shares, n = DENSE[name]
    truth = whole(shares, n)
    seen = releases(mechanism, truth, n, 10)
    error = mean_error(lambda y: publish("auto", mechanism, y, n).shares, seen, truth)
    assert error <= 1.02 * mean_error(project, seen, truth)


@pytest.mark.parametrize(
    "name",
    [
        "two kinds", "hundred",
        *(pytest.param(name, marks=pytest.mark.verify) for name in ("one head", "central, rare")),
    ],
)  # fmt: skip
def test_estimated_risks_are_those_that_come_out(name: str) -> None:
    """On average over releases, to six standard errors and a thousandth of the whole noise.

    The thousandth is for what rules take from all shares at once, which is held fast.
    """
    mechanism, shares, n = SPARSE[name]
    truth, runs = whole(shares, n), 20
    errors = {rule: np.empty(runs) for rule in ("uniform", "pop", "shrinkage", "empirical-bayes")}
    for run, unbiased in enumerate(releases(mechanism, truth, n, runs, seed=1)):
        centred = unbiased + (1 - unbiased.sum()) / truth.size
        law = Errors.of(mechanism, project(unbiased), n)
        for rule, made in _RULES.items():
            candidate = made(centred, law)
            error = float(np.sum((candidate.shares - truth) ** 2))
            errors[rule][run] = candidate.risk(centred, law) - error
    for rule in ("pop", "shrinkage", "empirical-bayes"):
        # What all have in common is the distance of the estimates from the truth.
        apart = errors[rule] - errors["uniform"]
        noise = float(np.sum(mechanism.variance(truth, n)))
        assert abs(apart.mean()) < 6 * apart.std(ddof=1) / math.sqrt(runs) + 1e-3 * noise


@pytest.mark.parametrize("heavy", [0.0, 1.0])
def test_the_covariance_needs_no_truth(heavy: float) -> None:
    """Of a soft threshold, under either law of the errors, against the errors themselves."""
    rng, size = np.random.default_rng(5), 400_000
    truth = np.repeat([0.0, 0.2], size // 2)
    noise = rng.laplace(scale=math.sqrt(0.5), size=size) if heavy else rng.standard_normal(size)
    errors = Errors(np.ones(size), heavy, 1e-3, 0.5)

    def rule(y: Floats) -> Floats:
        return np.maximum(y - 2, 0)

    products = noise * rule(truth + noise)
    apart = products.mean() - errors.covariance(rule, truth + noise).mean()
    assert abs(apart) < 5 * products.std() / math.sqrt(size)
    # The same of the other law is told apart.
    wrong = Errors(np.ones(size), 1.0 - heavy, 1e-3, 0.5)
    other = wrong.covariance(rule, truth + noise).mean()
    assert abs(products.mean() - other) > 10 * products.std() / math.sqrt(size)


@pytest.mark.parametrize("name", ["grr", "olh", "srr", "hadamard", "projective"])
@pytest.mark.parametrize("rule", [name for name in POSTPROCESSING if name != "none"])
def test_reports_that_are_all_the_same_are_published_as_well(name: str, rule: str) -> None:
    """Whoever makes up a batch must not keep it from being published, with its warning."""
    mechanism = oracle(name, epsilon=3.0, domain_size=915)
    for code in (0, 1, mechanism.codes - 1):
        n = 20_000
        counts = np.bincount([code], minlength=mechanism.codes) * n
        made = publish(rule, mechanism, mechanism.estimate(counts, n), n)
        assert (made.shares >= 0).all()
        assert math.isclose(made.shares.sum(), 1)
        assert all(map(math.isfinite, (made.risks or {}).values()))


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="postprocess must be one of auto, pop"):
        publish("best", oracle("grr", epsilon=1.0, domain_size=3), np.zeros(3), 10)


def test_of_one_rule_the_estimate_is_stein_s() -> None:
    """Shrinking by a half in d dimensions of variance v: |y|^2 / 4 - d v + d v."""
    errors = Errors(np.full(6, 0.5), 0.0, 1e-6, 0.5)
    unbiased = np.array([1.0, -2.0, 0.5, 3.0, 0.0, 1.0])
    half = Candidate("half", unbiased / 2, lambda y: y / 2)
    assert half.risk(unbiased, errors) == pytest.approx(np.sum(unbiased**2) / 4)


@pytest.mark.parametrize("name", ["auto", "pop", "shrinkage", "empirical-bayes"])
def test_the_share_of_those_without_a_value_is_no_value_s(name: str) -> None:
    """Three fifths hold none: "all alike" is a statement about the rest."""
    mechanism, n = oracle("olh", epsilon=0.5, domain_size=1001), 20_000
    cells = np.where(np.arange(n) % 5 < 3, 1000, np.arange(n) % 1000)
    reports = mechanism.perturb(cells, SeededRandom(4))
    unbiased = mechanism.estimate(mechanism.count(reports), n)
    found = publish(name, mechanism, unbiased, n, apart=True)
    assert found.shares[-1] == unbiased[-1]
    assert abs(unbiased[-1] - 0.6) < 0.1
    assert found.shares[:-1].sum() == pytest.approx(1 - unbiased[-1])
    assert np.all(found.shares >= 0)
    if name == "auto":
        assert found.name == "uniform"
        assert found.shares[:-1] == pytest.approx(np.full(1000, (1 - unbiased[-1]) / 1000))
        assert all(np.isfinite(risk) for risk in found.risks.values())


def test_where_nobody_holds_a_value_all_are_0() -> None:
    mechanism = oracle("grr", epsilon=1.0, domain_size=3)
    shares = publish("auto", mechanism, np.array([-0.1, 0.05, 1.05]), 100, apart=True).shares
    assert shares.tolist() == [0, 0, 1]
