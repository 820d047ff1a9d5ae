"""Which mechanism serves a target, that it keeps to it, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from mechanisms.distribution.fitting import default_bins, design, oracles, preferred
from mechanisms.mean.task import MeanTask
from mechanisms.privacy.amplification import shuffled_delta
from mechanisms.privacy.divergence import tight_epsilon
from mechanisms.randomness import SeededRandom
from mechanisms.targets.rules import Target
from tests.oracles.distribution import POPULATIONS

LOCAL = Target("local", 1.0, 0.0, 1, MeanTask())
SHUFFLE = Target("shuffle", 0.5, 1e-6, 2000, MeanTask())
SERVE = ("pm", "nm", "im", "window_optimal", "dct", "laplace", "hm", "hybrid_optimal", *oracles())


@pytest.mark.parametrize("name", SERVE)
def test_a_local_report_spends_what_it_may_and_no_more(name: str) -> None:
    found = design(LOCAL, 12, 5000, name)
    assert found.design.mechanism.inputs == 12
    assert found.design.release == found.design.local
    assert tight_epsilon(found.design.mechanism) <= 1.0
    assert tight_epsilon(found.design.mechanism) > 0.95


@pytest.mark.parametrize("name", ["nm", "pm", "grr", "olh", "projective"])
def test_a_batch_keeps_the_promise(name: str) -> None:
    found = design(SHUFFLE, 12, 2000, name)
    assert found.design.release.epsilon <= 0.5
    assert shuffled_delta(found.design.mechanism, 2000, 0.5)[1] <= 1e-6
    assert found.design.local.epsilon > 1.5  # amplified


def test_a_cap_on_single_reports_holds() -> None:
    found = design(replace(SHUFFLE, epsilon_local=1.2), 12, 2000)
    assert found.design.local.epsilon <= 1.2
    alone = design(replace(SHUFFLE, epsilon=None, epsilon_local=2.0), 12, 2000)
    assert alone.design.local.epsilon == pytest.approx(2.0)
    assert alone.design.release.epsilon < 2.0


def test_auto_does_without_what_cannot_serve() -> None:
    """The square wave has no form for a delta so large; response on the grid point is left."""
    found = design(replace(LOCAL, epsilon=0.2, delta=0.06), 12, 5000)
    assert found.design.name == "grr"


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0])
def test_the_square_wave_has_the_shortest_limits_where_reports_are_noisy(epsilon: float) -> None:
    """At 4, response on the grid point is ahead of it, and nothing else."""
    names = [name for name in SERVE if name not in ("hm", "hybrid_optimal")]  # two points, at 0.5
    target = replace(LOCAL, epsilon=epsilon)
    lengths = {name: design(target, 32, 4000, name).expected_length for name in names}
    assert min(lengths[name] for name in preferred()) <= 1.02 * min(lengths.values())
    assert (lengths["nm"] < lengths["grr"]) == (epsilon < 4)


def _errors(name: str, values: np.ndarray) -> float:
    """How far estimated quantiles are off, by the code that clients and the collector run."""
    found, probabilities = design(LOCAL, 32, 4000, name), (0.1, 0.25, 0.5, 0.75, 0.9)
    mechanism, error = found.design.mechanism, 0.0
    for seed in range(5):
        cells = found.rounding.encode(values, SeededRandom(seed))
        reports = mechanism.perturb(cells, SeededRandom(seed + 100))
        summary = found.estimator().summarise(mechanism.count(reports), 0.95, probabilities)
        truth = np.quantile(values, probabilities)
        error += float(np.abs(summary.quantiles[:, 0] - truth).mean())
    return error


@pytest.mark.parametrize("population", ["smooth", "constant"])
def test_auto_takes_what_comes_nearest(population: str) -> None:
    values = POPULATIONS[population](4000)
    chosen = design(LOCAL, 32, 4000).design.name
    assert 1.5 * _errors(chosen, values) < _errors("grr", values)
    if population == "smooth":  # of few spikes, others are at times nearer
        assert 1.2 * _errors(chosen, values) < _errors("olh", values)


@pytest.mark.parametrize(
    ("name", "bins", "told"),
    [
        ("duchi", 16, "duchi does not serve 16 bins here.*do not determine.*nm, grr"),
        ("optimal", 512, "do not determine"),
        ("laplace", 1024, "use fewer bins"),
        ("oue", 16, "does not serve distributions; there are: auto, optimal"),
        ("nm", 1, "bins must lie in 2 .. 1024, not 1"),
        ("nm", 1025, "bins must lie in 2 .. 1024, not 1025"),
        ("nm", 10.5, "bins must be an integer"),
        ("gaussian", 16, "needs a delta"),
    ],
)
def test_what_does_not_serve_is_told_so(name: str, bins: int, told: str) -> None:
    target = replace(LOCAL, epsilon=0.1) if name == "laplace" else LOCAL
    with pytest.raises(ValueError, match=told):
        design(target, bins, 5000, name)


@pytest.mark.parametrize("name", ["gaussian", "gaussian_analytic", "optimal"])
def test_few_enough_bins_are_served_by_more(name: str) -> None:
    target = LOCAL if name == "optimal" else replace(LOCAL, delta=1e-6)
    assert math.isfinite(design(target, 4, 1000, name).expected_length)


def test_bins_follow_the_number_of_reports() -> None:
    assert [default_bins(n) for n in (1, 63, 4096, 10**6, 10**12)] == [8, 8, 64, 512, 512]
