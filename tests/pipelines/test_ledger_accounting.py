"""What the entries of a ledger cost together, and what still fits."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from mechanisms.channel import Guarantee
from mechanisms.counters.amounts import Amounts
from mechanisms.counters.design import Counters
from mechanisms.counters.price import Price
from mechanisms.privacy import accountant
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.privacy.search import gaussian_delta, gaussian_epsilon
from pipelines.errors import RequestError
from pipelines.ledger import accounting
from pipelines.ledger.accounting import fits, further, largest_share, total
from pipelines.ledger.entries import Budget, Loss
from tests.oracles.composition import compose_releases


def loss(epsilon: float = 0.1, delta: float = 1e-8) -> Loss:
    return Loss.of(Guarantee("shuffle", epsilon, delta, "user", "enumeration"))


def gaussian(mu: float) -> Loss:
    """A Gaussian release with its whole profile."""
    epsilons = [mu * k / 4 for k in range(40)]
    profile = PrivacyLoss.from_profile(epsilons, [gaussian_delta(mu, e) for e in epsilons])
    claim = Guarantee("central", gaussian_epsilon(mu, 1e-8) * 1.001, 1e-8, "user", "analytic")
    return Loss.of(claim, profile)


def test_thirty_daily_releases_cost_what_they_cost() -> None:
    joint = total([loss()] * 30, 1e-6)
    exact = compose_releases([PrivacyLoss.from_profile([0.1], [1e-8])] * 30, 1e-6)
    assert joint.epsilon == exact.epsilon
    assert 2.3 < joint.epsilon < 2.4  # and not 3
    assert fits([loss()] * 30, Budget(epsilon=2.4, delta=1e-6))
    assert not fits([loss()] * 30, Budget(epsilon=2.3, delta=1e-6))


def test_few_releases_cost_their_sum_if_that_is_less() -> None:
    joint = total([loss(0.5, 0.0)], 1e-6)
    assert joint.epsilon <= 0.5
    assert total([loss(0.1, 0.0)] * 10, 0.0).epsilon == 1.0


@pytest.mark.parametrize("times", [3, 6, 7, 10])
def test_decimal_shares_fill_a_decimal_budget(times: int) -> None:
    # 0.1 + 0.1 + 0.1 > 0.3 in doubles.
    budget = Budget(epsilon=times / 10, delta=0)
    assert fits([loss(0.1, 0.0)] * times, budget)
    assert not fits([loss(0.1, 0.0)] * times + [loss(1e-9, 0.0)], budget)


def test_deltas_are_spent_too() -> None:
    assert fits([loss(0.01, 1e-7)] * 10, Budget(epsilon=1, delta=1e-6))
    assert not fits([loss(0.01, 1e-7)] * 11, Budget(epsilon=1, delta=1e-6))
    assert not fits([loss(0.01, 1e-7)], Budget(epsilon=1, delta=0))
    assert total([loss(0.01, 1e-7)] * 11, 1e-6).epsilon == math.inf


def test_a_budget_is_filled_by_sums_to_the_last_digit_and_no_further() -> None:
    for delta in (0.0, 1e-6):
        budget = Budget(epsilon=1, delta=delta)
        # A single loss at the budget's delta is one that no accountant makes smaller.
        assert fits([loss(0.999999999, delta)], budget)
        assert fits([loss(1.0, delta)], budget)
        assert not fits([loss(1.000000001, delta)], budget)
        assert not fits([loss(1.0, delta + 1e-15)], budget)


@pytest.mark.parametrize(
    "spent",
    [[loss()] * 30, [loss(0.1, 1e-8)] * 20 + [loss(0.05, 1e-9)] * 40, [gaussian(0.05)] * 40],
    ids=["alike", "two kinds", "profiles"],
)
def test_a_budget_is_filled_by_the_accountant_to_a_billionth_and_no_further(
    spent: list[Loss],
) -> None:
    """By composition without the ledger: at its epsilon, and at its delta."""
    profiles = [
        PrivacyLoss.from_profile(
            *zip(*sorted({**dict(each.profile), each.epsilon: each.delta}.items()), strict=True)
        )
        for each in spent
    ]
    joint = accountant.compose(Counter(profiles))
    epsilon = joint.epsilon(1e-6)
    assert epsilon < 0.95 * sum(each.epsilon for each in spent)  # the sum does not fit
    assert fits(spent, Budget(epsilon=epsilon * (1 + 1e-9), delta=1e-6))
    assert not fits(spent, Budget(epsilon=epsilon * (1 - 1e-9), delta=1e-6))
    delta = joint.delta(epsilon)
    assert fits(spent, Budget(epsilon=epsilon, delta=delta * (1 + 1e-9)))
    assert not fits(spent, Budget(epsilon=epsilon, delta=delta * (1 - 1e-9)))
    assert total(spent, 1e-6).epsilon == pytest.approx(epsilon, rel=1e-12)


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
@pytest.mark.parametrize(
    "spent",
    [[loss(1.0, 0.0)] * 3 + [loss(0.37, 0.0)] * 2, [loss(0.1, 0.0)] * 100, [loss(0.5, 1e-13)] * 4],
    ids=["few", "many", "with deltas"],
)
def test_what_is_shown_as_kept_is_not_refused(spent: list[Loss], delta: float) -> None:
    """Close to all epsilons added up the grid of losses is coarse, and the profile has a chord."""
    epsilon = total(spent, delta).epsilon
    for near in (1 - 1e-3, 1 - 1e-9, 1.0, 1 + 1e-9, 1 + 1e-3):
        kept = total(spent, delta).epsilon <= near * epsilon
        assert fits(spent, Budget(epsilon=near * epsilon, delta=delta)) == kept


@pytest.mark.parametrize(("epsilon", "times"), [(0.1, 30), (0.5, 25), (1.0, 20)])
def test_what_fits_where_the_profile_bends_is_shown_to(epsilon: float, times: int) -> None:
    """A chord is a percent above the curve there: what showed too much fitted all the same."""
    bends = np.array([times - 4, times - 2]) * epsilon
    spent = [loss(epsilon, 0.0)] * times
    joint = accountant.compose({PrivacyLoss.from_profile([epsilon], [0.0]): times})
    for near in np.add.outer(bends, np.linspace(-2, 2, 17) * epsilon * times / 4096).ravel():
        for delta in joint.delta(near) * np.array([1 - 1e-4, 1 + 1e-4]):
            kept = total(spent, delta).epsilon <= near
            assert fits(spent, Budget(epsilon=near, delta=delta)) == kept


def test_one_release_fits_to_the_last_digit_that_is_shown() -> None:
    rng = np.random.default_rng(18)
    for delta in 10 ** rng.uniform(-9, -1, 200):
        shown = total([loss(1.0, 1e-10)], delta).epsilon
        for near in (math.nextafter(shown, 0), shown, math.nextafter(shown, 2)):
            assert fits([loss(1.0, 1e-10)], Budget(epsilon=near, delta=delta)) == (shown <= near)


def test_prices_that_were_chosen_after_answers_fit_by_their_sum_alone() -> None:
    spent, budget = [loss(0.1, 1e-8)] * 20, Budget(epsilon=1.8, delta=1e-6)
    assert fits(spent, budget)
    assert not fits(spent, budget, chosen=True)
    assert fits(spent[:18], budget, chosen=True)


def test_a_known_profile_costs_less_than_its_claim_alone() -> None:
    release = gaussian(0.05)
    alone = release.model_copy(update={"profile": ()})
    joint = total([release] * 100, 1e-6).epsilon
    exact = gaussian_epsilon(0.05 * math.sqrt(100), 1e-6)  # Gaussians compose to a Gaussian
    assert exact <= joint < 1.15 * exact
    assert joint < 0.7 * total([alone] * 100, 1e-6).epsilon


def test_a_long_profile_is_thinned_upwards() -> None:
    mu, n = 0.5, 1000
    epsilons = [5 * mu * k / n for k in range(n)]
    curve = PrivacyLoss.from_profile(epsilons, [gaussian_delta(mu, e) for e in epsilons])
    kept = Loss.of(Guarantee("central", 3.0, 1e-8, "user", "analytic"), curve)
    assert len(kept.profile) <= 64
    thinned = PrivacyLoss.from_profile(*zip(*kept.profile, strict=True))
    for epsilon in (0.0, 0.1, 0.7, 1.3, 2.0):
        assert thinned.delta(epsilon) >= curve.delta(epsilon)


def test_the_share_that_is_said_to_fit_fits_and_hardly_more() -> None:
    budget, spent, asked = Budget(epsilon=2.4, delta=1e-6), [loss()] * 29, [loss(0.5, 1e-8)]
    share = largest_share(spent, asked, budget)
    assert 0.05 < share < 0.5
    assert fits([*spent, loss(0.5 * share)], budget)
    assert not fits([*spent, loss(0.5 * share * 1.02)], budget)


def test_a_share_that_fills_the_budget_to_its_last_digit_is_found() -> None:
    """The accountant's rounding lies beyond such a budget, and the plain sum within."""
    budget, asked = Budget(epsilon=0.73, delta=1e-6), [loss(3.1, 1e-6)]
    share = largest_share([], asked, budget)
    assert share == 0.235
    assert fits([loss(3.1 * share, 1e-6)], budget)


def test_the_share_of_a_budget_without_delta_is_what_is_left() -> None:
    budget = Budget(epsilon=1, delta=0)
    assert largest_share([loss(0.9, 0.0)], [loss(0.2, 0.0)], budget) == 0.5
    assert largest_share([loss(1.0, 0.0)], [loss(0.2, 0.0)], budget) == 0
    assert largest_share([], [loss(0.2, 1e-9)], budget) == 0


def test_further_releases_fill_the_budget() -> None:
    budget = Budget(epsilon=2.4, delta=1e-6)
    more = further([loss()] * 10, [loss()], budget)
    assert fits([loss()] * (10 + more), budget)
    assert not fits([loss()] * (11 + more), budget)
    assert further([], [loss(0.1, 0.0)], Budget(epsilon=1, delta=0)) == 10


@pytest.mark.parametrize(
    ("epsilon", "budget"),
    [(0.01, Budget(epsilon=1, delta=1e-6)), (3.0, Budget(epsilon=60, delta=1e-6)),
     (0.1, Budget(epsilon=1, delta=1e-9))],
)  # fmt: skip
def test_how_many_fit_is_found_by_few_compositions(epsilon: float, budget: Budget) -> None:
    accountant._sum.cache_clear()
    accounting._joint.cache_clear()
    more = further([loss(0.02, 0.0)] * 3, [loss(epsilon, 1e-12)], budget)
    assert accountant._sum.cache_info().misses <= 5
    kinds = Counter({loss(0.02, 0.0): 3})
    assert fits(kinds + Counter({loss(epsilon, 1e-12): more}), budget)
    assert not fits(kinds + Counter({loss(epsilon, 1e-12): more + 1}), budget)


@pytest.mark.verify
def test_thousands_of_releases_fill_a_budget_of_a_hundred() -> None:
    """To find how many fit, a search tries some whose epsilons add up to more than 709."""
    budget = Budget(epsilon=100.0, delta=1e-6)
    spent, next_ = [loss(0.1, 1e-8)] * 3, loss(0.25, 0.0)
    more = further(spent, [next_], budget)
    assert fits(Counter({spent[0]: 3, next_: more}), budget)
    assert not fits(Counter({spent[0]: 3, next_: more + 1}), budget)


def test_many_kinds_of_releases_are_rounded_up_and_cost_more() -> None:
    kinds = [loss(0.01 * (1 + k / 80), 1e-10 * (1 + k / 80)) for k in range(80)]
    joint = total(kinds, 1e-6).epsilon
    few = [loss(0.02, 2e-10)] * 80  # not smaller, any of them
    exact = compose_releases(
        [PrivacyLoss.from_profile([kind.epsilon], [kind.delta]) for kind in kinds], 1e-6
    ).epsilon
    assert exact <= joint <= 1.1 * exact
    assert joint < total(few, 1e-6).epsilon


def test_windows_are_composed_by_kind_however_many_there_are(monkeypatch) -> None:
    """A loop over a thousand windows would take minutes, and one over ten kinds a moment."""
    composed: list[dict[PrivacyLoss, int]] = []

    def compose(losses: dict[PrivacyLoss, int]) -> PrivacyLoss:
        composed.append(losses)
        return accountant.compose(losses)

    monkeypatch.setattr(accounting, "compose", compose)
    windows = [loss(0.1 + k % 10 * 0.001, 1.1e-9) for k in range(1000)]
    assert total(windows, 1e-5).epsilon < 25
    (kinds,) = composed
    assert sorted(kinds.values()) == [100] * 10


@pytest.mark.parametrize(
    "bad", [Guarantee.none("no bound"), Guarantee("local", math.inf, 0, "user", "")]
)
def test_what_has_no_bound_has_no_price(bad: Guarantee) -> None:
    with pytest.raises(ValueError, match="without a guarantee has no price"):
        Loss.of(bad)


@pytest.mark.parametrize(
    "bad", [(0, 0), (math.nan, 0), (math.inf, 0), (1, 1), (1, -1), (1, math.nan)]
)
def test_a_budget_is_a_positive_epsilon_and_a_delta_below_one(bad: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=r"epsilon|delta"):
        Budget(epsilon=bad[0], delta=bad[1])


def test_units_do_not_add_up() -> None:
    rows = Loss.of(Guarantee("shuffle", 0.1, 0.0, "row", ""))
    with pytest.raises(ValueError, match="different units"):
        total([loss(), rows], 1e-6)


# ---- what hides who takes part -------------------------------------------------------------------


def hidden(epsilon: float, delta: float) -> Loss:
    """A release that hides who takes part, with the profile of one count."""
    design = Counters.meeting(Amounts(1).levels, "add or remove", epsilon, delta)
    return Loss.of(design.guarantee, design.profile())


def test_releases_that_hide_who_takes_part_add_up_as_they_are() -> None:
    loss = hidden(0.5, 1e-7)
    assert loss.guarantee.neighbours == "add or remove"
    both = total([loss, loss], 1e-6)
    assert (both.neighbours, both.epsilon <= 1.0) == ("add or remove", True)
    assert fits([loss, loss], Budget(epsilon=1.0, delta=1e-6))


def test_beside_others_they_are_charged_as_replaced() -> None:
    loss = hidden(0.5, 1e-7)
    other = Loss(model="shuffle", epsilon=0.1, delta=1e-8, unit="user", how="by hand")
    both = total([loss, other], 1e-6)
    assert both.neighbours == "replace"
    assert both.epsilon > 0.9  # about twice a half, and a tenth
    assert not fits([loss, other], Budget(epsilon=0.7, delta=1e-6))
    exact = Counters.meeting(Amounts(1).levels, "add or remove", 0.5, 1e-7)
    truth = Price(
        [charge._replace(counters=2) for charge in exact.dummies.charges(exact.levels, "replace")],
        "replace",
    )
    for epsilon in (0.0, 0.3, 0.7, 1.0, 1.3):  # never below what replacing truly costs
        bound = PrivacyLoss.from_profile(*zip(*loss.replaced.profile, strict=True)).delta(epsilon)
        assert bound >= truth.delta(epsilon)[0] * (1 - 1e-9)


def test_zeroed_out_rows_cost_more_beside_releases_about_others() -> None:
    """By DP-SGD's own account of another row in a row's place; without that, by two steps."""
    claim = Guarantee("central", 1.0, 1e-6, "user", "told", "zero-out")
    profile = replace(PrivacyLoss.from_guarantee(claim), apart=PrivacyLoss((0.0, 2.2), (1, 1e-6)))
    both = total([Loss.of(claim, profile)] * 2, 0.0)
    assert (both.epsilon, both.neighbours) == (2.0, "zero-out")
    other = Loss(model="shuffle", epsilon=0.1, delta=0.0, unit="user", how="by hand")
    for kind in ("replace", "add or remove"):
        known = total([Loss.of(claim, profile), other.model_copy(update={"neighbours": kind})], 0)
        assert known.neighbours == "replace"
        assert known.epsilon == pytest.approx(2.2 + (0.1 if kind == "replace" else 0.2))
        alone = total([Loss.of(claim), other.model_copy(update={"neighbours": kind})], 1e-5)
        assert 1.9 < alone.epsilon <= 2.21  # at a delta of (1 + e) 1e-6
    large = replace(claim, epsilon=15.0)
    with pytest.raises(RequestError, match="give it a population of its own"):
        total([Loss.of(large), other], 1e-5)


def test_a_release_at_a_large_epsilon_is_charged_too() -> None:
    other = Loss(model="shuffle", epsilon=0.1, delta=1e-8, unit="user", how="by hand")
    both = total([hidden(15.0, 1e-6), other], 1e-5)
    assert 15 < both.epsilon < 31
    bare = Loss.of(hidden(15.0, 1e-6).guarantee)
    with pytest.raises(RequestError, match="give it a population of its own"):
        total([bare, other], 1e-5)
