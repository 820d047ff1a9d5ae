"""Running totals: what holds of all days together, and what their noise is."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from mechanisms.privacy.search import gaussian_delta, gaussian_mu
from mechanisms.randomness import SeededRandom
from mechanisms.running.factors import BITS, Factors, buffered, square_root
from mechanisms.running.totals import Contribution, RunningTotals, TotalsState, least

EPSILON, DELTA = 1.0, 1e-6


def drawn(running: RunningTotals, days: int, seed: int) -> np.ndarray:
    """(days, totals) noise of the totals."""
    state, rng, found = running.begin(), SeededRandom(seed), []
    for _ in range(days):
        added, state = running.draw(state, rng)
        found.append(added)
    return np.cumsum(found, axis=0)


def exactly(factors: Factors, z: list[int]) -> list[Fraction]:
    """B z in rational numbers, by the definition."""
    part = [(Fraction(weight, 1 << BITS), Fraction(decay, 1 << BITS))
            for weight, decay in zip(factors.weights, factors.decays, strict=True)]  # fmt: skip
    b = [Fraction(1), *(sum(w * fade**k for w, fade in part) for k in range(len(z) - 1))]
    return [sum(b[t - s] * z[s] for s in range(t + 1)) for t in range(len(z))]


def hidden(running: RunningTotals, totals: list[int], seen: list[int]) -> list[int]:
    """The noise that was drawn, of a log and of what was released on the grid: step by step."""
    one, guard, z = 1 << running.bits, 16, []
    buffers = [0] * len(running.factors.decays)
    for total, out in zip(totals, seen, strict=True):
        pairs = zip(running.factors.weights, buffers, strict=True)
        kept = (sum(w * q for w, q in pairs) + (1 << BITS + guard - 1)) >> (BITS + guard)
        z.append(out - total * one - kept)
        buffers = [(decay * q >> BITS) + (z[-1] << guard)
                   for decay, q in zip(running.factors.decays, buffers, strict=True)]  # fmt: skip
    return z


def test_a_year_errs_by_at_most_a_hundredth_more_than_the_square_root_at_the_same_price() -> None:
    running, best = least(EPSILON, DELTA, horizon=365), square_root(365)
    assert running.delta(EPSILON) <= DELTA
    errors = [running.standard_error(day) for day in range(365)]
    rival = float(best @ best) / gaussian_mu(EPSILON, DELTA)
    assert max(errors) == errors[-1]
    assert max(errors) / rival < 1.011
    # Noise of days that know nothing of each other, and what is kept between them.
    assert max(errors) * 6 < math.sqrt(365 * 365) / gaussian_mu(EPSILON, DELTA)
    assert len(running.begin().buffers) == 3


def test_noise_is_that_of_the_definition_but_for_what_is_said_of_rounding() -> None:
    running = least(EPSILON, DELTA, horizon=40)
    rng, twin = SeededRandom(5), SeededRandom(5)
    state, z, total = running.begin(), [], 0
    for day in range(40):
        added, state = running.draw(state, rng)
        total += int(added[0])
        z.append(int(running.noise.draw(1, twin)[0]))
        w = exactly(running.factors, z)[day]
        # Of a total that is rounded once, wherever the sum of its days' noise came from.
        grid = Fraction(1, 1 << running.bits)
        assert abs(total - w * grid) <= Fraction(1, 2) + Fraction(running.rounding) * grid


@pytest.mark.verify
def test_of_two_logs_with_equal_releases_noise_differs_by_no_more_than_is_paid_for() -> None:
    """What the price rests on, in integers, for units who add on some days, up or down."""
    rng = np.random.default_rng(6)
    for days in (1, 3):
        unit = Contribution(days=days)
        running = least(EPSILON, DELTA, horizon=30, contribution=unit)
        # In a grid this coarse rounding would be seen if the price forgot it.
        coarse = RunningTotals(running.factors, 2.0**29, unit)
        for one in (running, coarse):
            allowed = one.mu * one.sigma * 2.0**one.bits
            for _ in range(30):
                x = rng.integers(0, 50, 30)
                other = x.copy()
                places = rng.choice(30, days, replace=False) if rng.random() < 0.7 else range(days)
                other[list(places)] += rng.choice([-1, 1])
                z = one.noise.draw(30, SeededRandom(int(rng.integers(1 << 30))))
                sums, others = np.cumsum(x).tolist(), np.cumsum(other).tolist()
                nothing = hidden(one, [0] * 30, [0] * 30)
                assert nothing == [0] * 30
                seen: list[int] = []
                for day in range(30):  # the releases that this noise makes of the first log
                    kept = -hidden(one, [0] * (day + 1), [*_made(z, day, one), 0])[-1]
                    seen.append(sums[day] * (1 << one.bits) + int(z[day]) + kept)
                assert hidden(one, sums, seen) == z.tolist()
                apart = np.subtract(hidden(one, others, seen), z).astype(float)
                assert np.linalg.norm(apart) <= allowed
    # And the first days, all in one direction, take all of it, to a part in 1,000.
    unit = Contribution(days=3)
    running = least(EPSILON, DELTA, horizon=30, contribution=unit)
    steps = np.minimum(np.arange(1, 31), 3).tolist()
    apart = np.array(hidden(running, steps, [0] * 30), float)
    assert np.linalg.norm(apart) > 0.999 * running.mu * running.sigma * 2.0**running.bits


def _made(z: np.ndarray, day: int, running: RunningTotals) -> list[int]:
    """The noise of the totals before a day, on the grid, from what was drawn."""
    found: list[int] = []
    for place in range(day):
        kept = -hidden(running, [0] * (place + 1), [*found, 0])[-1]
        found.append(int(z[place]) + kept)
    return found


def test_two_days_reveal_no_more_than_is_claimed() -> None:
    """Integrated: the law of both releases, of a unit who adds 1 on the first day, or nothing."""
    running = RunningTotals(buffered(2), 2.0)
    b, sigma, reach = float(running.factors.noise[1]), running.sigma, 24
    nodes, weights = np.polynomial.legendre.leggauss(40)
    places = np.arange(-reach, reach + 1)
    g = places[:, None] + nodes / 2
    edges = np.arange(-reach, reach + 2) - 0.5
    below = stats.norm.cdf((edges - b * g[..., None]) / sigma)
    law = np.einsum("gn,gnj->gj", stats.norm.pdf(g / sigma) / sigma * weights / 2,
                    np.diff(below, axis=-1))  # fmt: skip
    assert law.sum() == pytest.approx(1, abs=1e-9)
    moved = np.zeros_like(law)
    moved[1:, 1:] = law[:-1, :-1]  # it is in both totals
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        claimed = running.delta(epsilon)
        for one, other in ((law, moved), (moved, law)):
            revealed = np.maximum(one - math.exp(epsilon) * other, 0).sum()
            assert 0.5 * claimed < revealed <= claimed


def test_the_law_of_noise_over_days_is_that_of_its_factor() -> None:
    """Covariances of 6 days, of 40,000 totals each: within 6.5 standard errors, which 36 of them
    leave with a probability below 1e-9; a noise a third smaller is far outside."""
    running = RunningTotals(buffered(6), 3.0, totals=40_000)
    noise = drawn(running, 6, seed=7)
    rows = np.array([[running.factors.noise[t - s] if s <= t else 0.0 for s in range(6)]
                     for t in range(6)])  # fmt: skip
    expected = 9 * rows @ rows.T + np.eye(6) / 12
    error = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / 40_000)
    assert np.all(np.abs(np.cov(noise) - expected) < 6.5 * error)
    assert not np.all(np.abs(np.cov(noise) - 0.7 * expected) < 6.5 * error)
    week = noise[5] - noise[2]
    assert np.std(week) == pytest.approx(running.standard_error(5, 3), rel=6.5 / 280)


def test_days_go_on_from_what_was_kept_as_if_nothing_had_happened() -> None:
    running = least(EPSILON, DELTA, horizon=20, totals=3)
    rng, state, found = SeededRandom(8), running.begin(), []
    for _ in range(20):
        added, state = running.draw(TotalsState.read(state.written()), rng)
        found.append(added)
    assert np.array_equal(np.cumsum(found, axis=0), drawn(running, 20, seed=8))
    with pytest.raises(ValueError, match="all 20 windows of the horizon were drawn"):
        running.draw(state, rng)


def test_what_is_kept_holds_noise_alone_and_a_line_of_it_a_total() -> None:
    """After ten years: 4 buffers and a number for each total, and as many digits as at first."""
    running = RunningTotals(buffered(3650), 5.0)
    state, rng = running.begin(), SeededRandom(9)
    sizes = []
    for _ in range(3650):
        _, state = running.draw(state, rng)
        sizes.append(len(state.written()))
    assert max(sizes) < 250
    assert (len(state.buffers), len(state.before)) == (4, 1)


def test_more_of_a_unit_costs_more_noise() -> None:
    plain = least(EPSILON, DELTA, horizon=100)
    many = least(EPSILON, DELTA, 100, Contribution(norm=2.0, totals=4), totals=10)
    assert many.sigma == pytest.approx(2 * plain.sigma, rel=1e-3)
    often = least(EPSILON, DELTA, 100, Contribution(days=100))
    assert often.sigma / plain.sigma == pytest.approx(
        plain.factors.sensitivity(100) / plain.factors.sensitivity(), rel=1e-3
    )
    assert often.delta(EPSILON) <= DELTA


def test_the_guarantee_says_what_it_rests_on() -> None:
    running = least(EPSILON, DELTA, horizon=365)
    said = running.guarantee(EPSILON, "row")
    assert (said.model, said.epsilon, said.neighbours) == ("central", 1.0, "add or remove")
    assert 0.99 * DELTA < said.delta <= DELTA
    assert "all 365 windows" in said.how
    # Never less than the exact mechanism's, whose noise is not rounded.
    exact = running.factors.sensitivity() / running.sigma
    assert gaussian_delta(exact, EPSILON) < said.delta


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: least(math.nan, DELTA, 5), "epsilon must be a positive"),
        (lambda: least(1.0, math.nan, 5), "delta must lie strictly"),
        (lambda: least(1.0, 0.0, 5), "delta must lie strictly"),
        (lambda: least(1.0, DELTA, 0), "horizon must be"),
        (lambda: least(1.0, DELTA, 5, Contribution(norm=1e10)), "say numbers in larger units"),
        (lambda: least(1.0, DELTA, 5, Contribution(days=6)), "days must lie in 1 .. 5"),
        (lambda: least(1.0, DELTA, 5, Contribution(totals=2)), "cannot change 2 of 1 totals"),
        (lambda: Contribution(norm=math.nan), "a unit adds a positive norm"),
        (lambda: RunningTotals(buffered(2), math.nan), "sigma must be positive"),
        (lambda: TotalsState.read(b"{}"), "no state of running totals"),
        (
            lambda: TotalsState.read(b'{"version": 2, "day": 0, "buffers": [], "before": []}'),
            "version",
        ),
        (
            lambda: least(1.0, DELTA, 5).draw(TotalsState(0, (), (0,)), SeededRandom(1)),
            "the state is that of other running totals",
        ),
    ],
)
def test_what_cannot_be_is_refused(make, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        make()
