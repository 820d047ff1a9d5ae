"""The least noise: against central mechanisms, and never more than the target."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mechanisms.channel import Neighbours
from mechanisms.counters import solve
from mechanisms.counters.amounts import Amounts, SignedDigits, digit_weights
from mechanisms.counters.design import Counters
from mechanisms.counters.dummies import Correlated
from mechanisms.counters.levels import Level
from mechanisms.counters.masks import HALF, coarsening
from mechanisms.counters.noise import Gaussian, Laplace
from mechanisms.counters.price import Price
from mechanisms.counters.solve import _SLACKS, _Target, least_noise
from mechanisms.privacy.loss_sums import CELLS
from mechanisms.privacy.search import gaussian_mu
from mechanisms.privacy.tilted_sum import TiltedSum
from tests.fakes.few import ends

DELTA = 1e-6


def error(design: Counters) -> float:
    """Standard deviation of a total, the target met by what was made."""
    assert design.guarantee.delta == DELTA
    return math.sqrt(design.column_variance)


def central_laplace(epsilon: float) -> float:
    return math.sqrt(2 * math.exp(-epsilon)) / -math.expm1(-epsilon)


def central_gaussian(epsilon: float, norm: float) -> float:
    return norm / gaussian_mu(epsilon, DELTA)


def test_one_count_is_as_good_as_discrete_laplace() -> None:
    for epsilon, mu in ((0.5, 25), (1.0, 14), (2.0, 7)):
        design = Counters.meeting([Level(1, 1)], "add or remove", epsilon, DELTA)
        assert design.dummies.means == (mu,)
        assert error(design) <= 1.02 * central_laplace(epsilon)


def test_histograms_of_one_value() -> None:
    design = Counters.meeting(Amounts(915).levels, "replace", 0.5, DELTA)
    assert design.dummies.means == (50,)
    assert design.column_variance / 602_325**2 < 8.9e-11
    large = Counters.meeting(Amounts(42_178).levels, "replace", 0.5, DELTA)
    assert large.column_variance / 1e12 < 3.3e-11


@pytest.mark.parametrize("neighbours", ["add or remove", "replace"])
def test_histograms_of_ten_values_are_as_good_as_gaussian_noise(neighbours) -> None:
    design = Counters.meeting(Amounts(915, 10).levels, neighbours, 1.0, DELTA)
    changes = 10 if neighbours == "add or remove" else 20
    assert error(design) <= 1.02 * central_gaussian(1.0, math.sqrt(changes))


def test_event_totals_are_as_good_as_gaussian_noise() -> None:
    design = Counters.meeting(Amounts(915, 10, 8).levels, "add or remove", 1.0, DELTA)
    assert error(design) <= 1.05 * central_gaussian(1.0, 8 * math.sqrt(10))


def test_sum_of_a_number() -> None:
    levels, span = Amounts(1, 1, 1023).levels, 1023
    for neighbours in ("add or remove", "replace"):
        alone = Counters.meeting(levels, neighbours, 1.0, DELTA)
        assert error(alone) <= 3.3 * span
        together = Counters.meeting(levels, neighbours, 1.0, DELTA, correlated=True)
        assert isinstance(together.dummies, Correlated)
        assert error(together) <= 1.55 * span
        assert together.dummies.number(levels) < 1_600_000


def test_sum_of_both_signs_errs_as_that_of_one() -> None:
    levels, span = SignedDigits(1, 1, 1023, least=-1023).levels, 1023
    for neighbours, ranges in (("add or remove", 1.55), ("replace", 3.1)):
        together = Counters.meeting(levels, neighbours, 1.0, DELTA, correlated=True)
        assert isinstance(together.dummies, Correlated)
        assert error(together) <= ranges * span
        assert together.dummies.number(levels) < 3_200_000


def test_digits_share_one_noise_of_as_many_dummies_as_there_may_be() -> None:
    """An error that grows as it is reckoned to, and less than where digits have noises alone."""
    levels, span = Amounts(1, 1, 4095).levels, 4095
    for most in (4_000_000, 1_000_000):
        design = Counters.meeting(
            levels, "add or remove", 1.0, DELTA, correlated=True, most_masked=most
        )
        assert isinstance(design.dummies, Correlated)
        assert 0.8 * most < design.number <= most
        grown = coarsening(levels, "add or remove", 1.0, DELTA, most)
        assert error(design) / (1.49 * span) == pytest.approx(grown, rel=0.06)
        assert error(design) < 3 * span
    assert coarsening(levels, "add or remove", 1.0, DELTA, 10_000) == math.inf
    alone = Counters.meeting(
        levels, "add or remove", 1.0, DELTA, correlated=True, most_masked=10_000
    )
    assert not isinstance(alone.dummies, Correlated)


def test_sums_of_many_numbers_are_as_good_as_gaussian_noise() -> None:
    levels = Amounts(400, 400, 31).levels
    design = Counters.meeting(levels, "replace", 1.0, DELTA, most_dummies=1 << 40)
    assert error(design) <= 1.01 * central_gaussian(1.0, 31 * 20)


def test_a_hundred_thousand_counters() -> None:
    design = Counters.meeting(
        [Level(100_000, 100_000)], "add or remove", 1.0, DELTA, most_dummies=1 << 40
    )
    assert error(design) <= 1.003 * central_gaussian(1.0, math.sqrt(1e5))


def test_levels_share_by_their_rules() -> None:
    gaussian = least_noise([Level(40, 80, 1), Level(40, 80, 4)], "add or remove", 1.0, DELTA)
    light, heavy = gaussian.laws  # type: ignore[attr-defined]
    assert isinstance(light, Gaussian)
    assert light.variance / heavy.variance == pytest.approx(4, rel=1e-3)
    laplace = least_noise([Level(1, 1, 1), Level(1, 1, 8)], "add or remove", 2.0, DELTA)
    flat, steep = laplace.laws  # type: ignore[attr-defined]
    assert isinstance(flat, Laplace)
    assert steep.slope / flat.slope == pytest.approx(4)
    slots = least_noise([Level(10, 20, 1), Level(40, 80, 1)], "replace", 1.0, DELTA)
    few, many = slots.laws  # type: ignore[attr-defined]
    assert many.variance / few.variance == pytest.approx(2, rel=1e-3)


def test_a_search_ends_where_rounding_alone_tells_errors_apart() -> None:
    target = _Target((Level(2, 2),), "add or remove", 2.0, DELTA)
    gentle = target.slopes((1 - _SLACKS[-1]) * 2.0, HALF * DELTA)
    assert gentle is not None
    beaten = target.error(gentle, releases=1)
    for _ in range(5):
        assert target.steep_laplace(beaten) is not None
        beaten = math.nextafter(beaten, 0)


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 4.0, 12.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-10])
def test_every_target_is_met(epsilon: float, delta: float) -> None:
    for neighbours in ("add or remove", "replace"):
        for levels in ([Level(1, 1)], [Level(3, 9, 1), Level(3, 9, 2)]):
            design = Counters.meeting(levels, neighbours, epsilon, delta)
            assert design.price.upper(epsilon) <= delta
            # A tenth less noise would not do, but for a hundredth of a counter.
            dummies = least_noise(levels, neighbours, epsilon * 1.1, delta)
            weights = [level.weight for level in levels]
            assert dummies.variance(weights) <= design.column_variance * (1 + 1e-6) + 1e-2


def test_what_cannot_be_met_is_told() -> None:
    with pytest.raises(ValueError, match=r"need [\d,]+ dummies and may have 10,000,000"):
        least_noise([Level(100, 1 << 20)], "replace", 0.1, DELTA, most_dummies=10_000_000)
    with pytest.raises(ValueError, match="dummies a counter; let a user raise fewer"):
        least_noise([Level(1 << 20, 1 << 20)], "replace", 1e-4, 1e-12)
    with pytest.raises(ValueError, match="of which the first has weight 1"):
        least_noise([Level(1, 1, 2)], "replace", 1.0, DELTA, correlated=True)
    for epsilon in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="epsilon must be"):
            least_noise([Level(1, 1)], "replace", epsilon, DELTA)
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="delta must"):
            least_noise([Level(1, 1)], "replace", 1.0, delta)
    with pytest.raises(ValueError, match="neighbours must be"):
        least_noise([Level(1, 1)], "swap", 1.0, DELTA)  # type: ignore[arg-type]


def test_digits_with_a_remainder_cost_what_their_bound_does() -> None:
    errors = [
        error(Counters.meeting(Amounts(30, 15, b).levels, "add or remove", 1.0, DELTA)) / b
        for b in (7, 8, 9)
    ]
    assert max(errors) <= 1.001 * min(errors)
    assert sum(digit_weights(9)) == 9


@pytest.mark.parametrize("epsilon", [30.0, 41.0])
def test_steep_noise_of_one_family_hides_no_other(epsilon):
    """Where the losses of Gaussian or steep Laplace noise spread too far, another family serves."""
    dummies = least_noise([Level(1, 915)], "add or remove", epsilon, 1e-6)
    charges = dummies.charges([Level(1, 915)], "add or remove")
    assert Price(charges, "add or remove", CELLS).upper(epsilon) <= 1e-6


@pytest.mark.parametrize("epsilon", [0.3, 0.7, 3.0])
@pytest.mark.parametrize("levels", [3, 7, 10])
def test_a_search_is_left_out_only_where_it_could_not_err_less(
    monkeypatch: pytest.MonkeyPatch, epsilon: float, levels: int
) -> None:
    counters = [Level(1, 2**i, 1.15**i) for i in range(levels)]
    made = least_noise(counters, "add or remove", epsilon, 1e-6, beside=[Level(1, 1)])
    search = _Target.steep_laplace
    monkeypatch.setattr(_Target, "steep_laplace", lambda target, beaten: search(target, math.inf))
    assert least_noise(counters, "add or remove", epsilon, 1e-6, beside=[Level(1, 1)]) == made


@pytest.mark.parametrize("epsilon", [0.001, 5.0, 18.0, 60.0])
@pytest.mark.parametrize("levels", ends([
    (Amounts(1).levels,), (Amounts(1, 1, 7).levels,), (Amounts(51, 5, 8).levels,),
    (SignedDigits(1, 1, 1023, least=-341).levels,), (Amounts(1, 1, 8191).levels,),
]))  # fmt: skip
def test_a_search_ends_at_any_epsilon(
    levels: tuple[Level, ...], epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What tables round off counts e^epsilon times; at 18 it took noise without end to hide it.

    Thirteen digits at epsilon 0.001 are out of reach of 2^20 dummies a counter.
    """
    prices, honest = [], _Target._delta
    cells, first = [0], TiltedSum.__init__

    def counted(*asked: object, **more: object) -> float:
        prices.append(1)
        return honest(*asked, **more)  # type: ignore[arg-type]

    def measured(law: TiltedSum, *asked: Any, **more: Any) -> None:
        first(law, *asked, **more)
        cells[0] += law.places.size

    monkeypatch.setattr(_Target, "_delta", counted)
    monkeypatch.setattr(TiltedSum, "__init__", measured)
    solve._alone.cache_clear()
    if epsilon == 0.001 and len(levels) == 13:
        with pytest.raises(ValueError, match="dummies a counter"):
            least_noise(levels, "add or remove", epsilon, DELTA, True, beside=[Level(1, 1)])
        return
    most = 4_000_000 * levels[0].counters
    dummies = least_noise(
        levels, "add or remove", epsilon, DELTA, True, beside=[Level(1, 1)], most_masked=most
    )
    assert len(prices) <= 150
    assert cells[0] <= 20_000_000  # a CPU second and a half; 60 million at epsilon 0.001, once
    design = Counters((*levels, Level(1, 1)), dummies, "add or remove", epsilon, DELTA, 1)
    assert design.guarantee.delta == DELTA  # it was met, by the tables
    span = sum(level.weight for level in levels if level.weight > 0)
    if epsilon == 5 and levels[0].slots == 1:  # as that of one Laplace noise
        assert error(design) <= 1.2 * math.sqrt(2) * span / epsilon + 0.2


@pytest.mark.parametrize("times", [0.5, 0.8, 1.25, 2.5])
@pytest.mark.parametrize("neighbours", ["add or remove", "replace"])
@pytest.mark.parametrize(
    ("levels", "beside", "more"),
    [
        ([Level(1, 1)], [], {}),
        ([Level(3, 40)], [Level(1, 1)], {}),
        ([Level(1, 9)], [Level(1, 1)], {"releases": 40}),
        (Amounts(1, 1, 1000).levels, [Level(1, 1)], {"correlated": True}),
        (Amounts(4, 2, 60).levels, [], {}),
    ],
    ids=["Laplace", "Gaussian", "for many", "correlated", "digits"],
)
def test_noise_of_the_same_laws_meets_another_target(
    levels: list[Level],
    beside: list[Level],
    more: dict[str, Any],
    neighbours: Neighbours,
    times: float,
) -> None:
    """It holds, it is of the same laws, and it errs by little more than noise made anew."""
    first = Counters.meeting(levels, neighbours, 1.0, DELTA, beside, **more)
    other = first.meeting_another(times, DELTA)
    assert (other.guarantee.epsilon, other.guarantee.delta) == (times, DELTA)
    assert [type(part.law) for part in other.dummies.parts] == [
        type(part.law) for part in first.dummies.parts
    ]
    anew = Counters.meeting(levels, neighbours, times, DELTA, beside, **more)
    laws = [[type(part.law) for part in one.dummies.parts] for one in (anew, other)]
    if laws[0] == laws[1]:
        assert error(other) <= 1.04 * error(anew)


def test_no_noise_of_the_same_laws_is_an_error() -> None:
    count = Counters.meeting([Level(1, 1)], "add or remove", 1.0, DELTA)
    with pytest.raises(ValueError, match="dummies"):
        count.meeting_another(1e-6, 1e-12)
