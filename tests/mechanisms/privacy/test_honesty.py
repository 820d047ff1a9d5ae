"""Users who do not follow the protocol hide nobody, whatever the mechanism."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms import catalog
from mechanisms.frequency.dummies import PoissonDummies
from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.frequency.task import FrequencyTask
from mechanisms.honesty import crowd, in_words, least_users
from mechanisms.mean.task import MeanTask
from mechanisms.planner.release_profile import release_profile
from mechanisms.planner.search import Design, designs, search
from mechanisms.privacy.amplification import shuffled_epsilon
from mechanisms.targets.rules import Target
from tests.fakes.few import few
from tests.oracles.privacy import exact_shuffled_delta

TARGET = Target("shuffle", 1.0, 1e-6, 10_000, FrequencyTask(50))


@given(st.integers(1, 10**9), st.floats(1e-3, 1.0))
@settings(deadline=None)
def test_so_many_are_counted_on_and_no_more(n: int, share: float) -> None:
    counted = crowd(n, share)
    assert 1 <= counted <= n
    assert counted - 1 <= share * (n - 1) < counted
    assert (crowd(n, 1.0), crowd(1, share)) == (n, 1)
    least = least_users(counted, share)
    assert crowd(least, share) >= counted
    assert least <= n
    assert least == 1 or crowd(least - 1, share) < counted


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1, math.nan])
def test_a_share_of_users_is_refused_that_is_none(share: float) -> None:
    with pytest.raises(ValueError, match="honest_share"):
        replace(TARGET, honest_share=share)


def test_a_batch_of_which_half_lie_is_counted_as_half_of_it() -> None:
    everybody, half = search(TARGET), search(replace(TARGET, honest_share=0.5))
    # What was promised before: 1.0, and the half who follow the protocol hide no more than 1.60.
    lower, upper = shuffled_epsilon(everybody.mechanism, 5000, 1e-6)
    assert (round(lower, 3), round(upper, 3)) == (1.603, 1.604)
    assert everybody.release.epsilon <= 1.0
    assert round(everybody.local.epsilon, 2) == 5.66
    assert round(half.local.epsilon, 2) == 5.10
    found = shuffled_epsilon(half.mechanism, 5000, 1e-6)
    assert found[0] <= half.release.epsilon == found[1] <= 1.0
    assert found[0] > 0.999  # nothing is given away
    assert "only 5,000 of 10,000 users follow the protocol" in half.release.how
    # Everybody's reports are counted, so errors are those of all.
    assert half.error == pytest.approx(float(half.mechanism.average_variance(10_000)))


def test_liars_whose_reports_are_known_leave_the_batch_that_is_counted_on() -> None:
    # Enumerated: reports that an attacker knows can be taken out of the batch, and hide nothing.
    target = Target("shuffle", 1.2, 0.02, 5, FrequencyTask(3), honest_share=0.5)
    design = search(target, "grr")
    counted = design.counted_on
    assert counted == 3
    truth = exact_shuffled_delta(design.mechanism, counted, 1.2)
    assert truth <= 0.02
    assert exact_shuffled_delta(search(replace(target, honest_share=1.0), "grr").mechanism, counted,
                                1.2) > 0.02  # fmt: skip


SERVED = [
    one.name for one in catalog.registrations().values()
    if one.task == "frequency" and ("shuffle", "exact") in one.serves and not one.seeded
]  # fmt: skip
KINDS = ("auto", "oue", "poisson", "mixdump")  # of accountants


@pytest.mark.parametrize("name", few(["auto", *SERVED], lambda one: one if one in KINDS else None))
def test_every_shuffled_histogram_counts_on_the_same_users(name: str) -> None:
    target = Target("shuffle", 1.0, 1e-4, 4000, FrequencyTask(6), honest_share=0.5)
    design = search(target, name)
    assert design.release.epsilon <= 1.0
    assert "only 2,000 of 4,000 users follow the protocol" in design.release.how
    # Asked of the mechanism itself, and of the batch that is left of it.
    counted = shuffled_epsilon(design.mechanism, design.counted_on, 1e-4)[1]
    assert design.release.epsilon <= counted
    assert counted <= 1.0 + 1e-9
    trusting = search(replace(target, honest_share=1.0), name)
    assert design.error >= trusting.error


def test_auto_compares_all_designs_at_one_share() -> None:
    target = replace(TARGET, n=100_000, task=FrequencyTask(50, 100.0), honest_share=0.5)
    found = {design.name: design for design in designs(target)}
    assert {"grr", "poisson", "correlated"} <= {*found}
    for design in found.values():
        assert "only 50,000 of 100,000 users" in design.release.how
    dummies = found["poisson"].mechanism
    assert isinstance(dummies, PoissonDummies)
    assert dummies.honest_share == 0.5


def test_means_count_on_the_same_users() -> None:
    target = Target("shuffle", 0.5, 1e-6, 10_000, MeanTask(), honest_share=0.5)
    half = search(target, "duchi")
    assert half.local.epsilon < search(replace(target, honest_share=1.0), "duchi").local.epsilon
    assert (
        half.local.epsilon
        == search(replace(target, n=5000, honest_share=1.0), "duchi").local.epsilon
    )


def test_dummies_that_count_on_more_users_are_no_design_for_less() -> None:
    among = PoissonDummies(1.0, 1e-6, 10_000, 50, honest_share=0.9)
    with pytest.raises(ValueError, match=r"0\.9 send theirs, which is more"):
        _ = Design(replace(TARGET, honest_share=0.5), "poisson", among).release
    assert Design(TARGET, "poisson", among).counted_on == 10_000


def test_profiles_are_of_those_who_are_counted_on() -> None:
    mechanism = k_ary(5.0, 50)
    half = Design(
        replace(TARGET, epsilon=None, epsilon_local=5.0, honest_share=0.5), "grr", mechanism
    )
    fewer = Design(replace(TARGET, epsilon=None, epsilon_local=5.0, n=5000), "grr", mechanism)
    assert half.release.epsilon == fewer.release.epsilon
    assert release_profile(half) == release_profile(fewer)


def test_words_name_who_is_counted_on() -> None:
    assert in_words(10, 1.0) == "every report of the batch counts as randomised"
    assert in_words(11, 0.9) == "it holds even if only 10 of 11 users follow the protocol"
