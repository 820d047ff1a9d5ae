"""The curve behind a release: above the truth everywhere, and far below the promise alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.frequency.task import FrequencyTask
from mechanisms.mean.task import MeanTask
from mechanisms.planner.release_profile import release_profile
from mechanisms.planner.search import Design, search
from mechanisms.privacy.accountant import compose
from mechanisms.privacy.amplification import shuffled_delta
from mechanisms.privacy.divergence import tight_delta
from mechanisms.privacy.loss import PrivacyLoss, worst_profile
from mechanisms.privacy.search import gaussian_epsilon, gaussian_mu
from mechanisms.targets.rules import Target
from mechanisms.vector.task import AttributeTask
from tests.oracles.privacy import exact_shuffled_delta

DAY = Target("shuffle", 0.133, 1e-8, 15_000, FrequencyTask(50))


def rows(sizes: list[int | None]) -> Design:
    return search(Target("shuffle", 0.133, 1e-8, 15_000, AttributeTask(tuple(sizes))))


@pytest.mark.parametrize("n", [2, 4, 5])
@pytest.mark.parametrize("mechanism", [k_ary(1.5, 3), LinearHash(2.0, 4, 2), k_ary(0.4, 2)])
def test_the_profile_of_a_tiny_batch_is_above_the_enumerated_truth(
    mechanism: LinearHash, n: int
) -> None:
    target = Target(
        "shuffle", None, 1e-3, n, FrequencyTask(mechanism.inputs), epsilon_local=mechanism.epsilon
    )
    found = release_profile(Design(target, "k_ary", mechanism))
    for epsilon in np.linspace(0, mechanism.epsilon, 40):
        exact = exact_shuffled_delta(mechanism, n, float(epsilon))  # itself rounded in doubles
        assert found.delta(float(epsilon)) >= exact * (1 - 1e-12) - 1e-15
    assert found.delta(0.0) <= 2 * exact_shuffled_delta(mechanism, n, 0.0)


DESIGNS: dict[str, Callable[[], Design]] = {
    **{name: partial(search, DAY, name) for name in ("grr", "olh", "oue", "poisson")},
    "mean": lambda: search(Target("shuffle", 0.133, 1e-8, 15_000, MeanTask(cells=32))),
    "rows": lambda: rows([None, 4, 9]),
}


@pytest.mark.verify
@pytest.mark.parametrize("name", DESIGNS)
def test_thirty_days_cost_little_more_than_thirty_gaussians(name: str) -> None:
    design = DESIGNS[name]()
    found = release_profile(design)
    for epsilon in (0.0, 0.6 * design.release.epsilon, 1.3 * design.release.epsilon):
        lower, _ = shuffled_delta(design.mechanism, 15_000, epsilon)
        assert found.delta(epsilon) >= lower
    assert found.epsilon(1e-8) <= design.release.epsilon
    joint = compose({found: 30}).epsilon(1e-6)
    gauss = gaussian_epsilon(gaussian_mu(0.133, 1e-8) * math.sqrt(30), 1e-6)
    promised = compose({PrivacyLoss.from_guarantee(design.release): 30}).epsilon(1e-6)
    assert 0.99 * gauss < joint < 1.03 * gauss
    assert joint < 0.21 * promised


def test_one_report_alone_has_the_exact_profile_of_its_channel() -> None:
    design = search(Target("local", 1.0, 0.0, 1000, FrequencyTask(40)), "grr")
    found = release_profile(design)
    for epsilon in np.linspace(0, 1, 17):
        exact = tight_delta(design.mechanism, float(epsilon))
        assert exact * (1 - 1e-14) <= found.delta(float(epsilon)) <= exact * (1 + 1e-9) + 1e-15
    assert found.delta(1.0) == 0


def test_what_is_too_large_to_enumerate_is_known_by_its_promise() -> None:
    design = search(Target("local", 1.0, 0.0, 1000, FrequencyTask(40)), "oue")
    assert release_profile(design) == PrivacyLoss.from_guarantee(design.release)


def test_dummies_hide_nothing_where_nobody_else_reports() -> None:
    design = search(DAY, "poisson")
    assert design.local.model == "none"
    assert release_profile(design).delta(0.133) <= 1e-8


def test_what_promises_nothing_has_no_profile() -> None:
    class Nothing(Design):
        release = search(DAY, "poisson").local

    with pytest.raises(ValueError, match="without a guarantee has no profile"):
        release_profile(Nothing(DAY, "grr", k_ary(1.0, 50)))


def test_of_several_releases_the_worst_counts_at_each_epsilon() -> None:
    wide, high = PrivacyLoss.from_profile([2.0], [0.0]), PrivacyLoss.from_profile([0.5], [1e-3])
    both = worst_profile([wide, high])
    for epsilon in np.linspace(0, 3, 31):
        assert both.delta(epsilon) >= max(wide.delta(epsilon), high.delta(epsilon)) * (1 - 1e-12)
    assert worst_profile([wide, wide]) == wide
