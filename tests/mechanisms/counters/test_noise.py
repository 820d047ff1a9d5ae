"""Tables of the shuffler's noise: their law, their moments, draws from them."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from mechanisms.counters.noise import Gaussian, Laplace, ShufflerNoise
from mechanisms.randomness import SeededRandom

LAWS = [Laplace(14, 1.0), Laplace(3, 0.2), Laplace(40, 2.5), Gaussian(30, 4.0), Gaussian(3, 0.3)]


def by_definition(noise: ShufflerNoise) -> np.ndarray:
    z = np.arange(-noise.mu, noise.mu + 1.0)
    if isinstance(noise, Laplace):
        weights = np.exp(-noise.slope * np.abs(z))
    else:
        assert isinstance(noise, Gaussian)
        weights = np.exp(-z * z / (2 * noise.sigma**2))
    return weights / weights.sum()


@pytest.mark.parametrize("noise", LAWS)
def test_table_is_its_law(noise: ShufflerNoise) -> None:
    law = by_definition(noise)
    assert sum(noise.weights.tolist()) == 1 << 64
    assert np.array_equal(noise.weights, noise.weights[::-1])
    assert noise.pmf == pytest.approx(law, rel=1e-12, abs=2e-18)
    assert noise.variance == pytest.approx(law @ np.arange(-noise.mu, noise.mu + 1.0) ** 2)
    assert pickle.loads(pickle.dumps(noise)) == noise


@pytest.mark.parametrize("noise", LAWS)
def test_draws_follow_the_table(noise: ShufflerNoise) -> None:
    size = 200_000
    drawn = noise.draw(size, SeededRandom(5))
    assert drawn.min() >= 0
    assert drawn.max() <= 2 * noise.mu
    counts = np.bincount(drawn, minlength=noise.pmf.size)
    # Bernstein: false alarms are rarer than 1e-9 over all entries of all laws.
    bound = np.sqrt(2 * 26 * size * noise.pmf) + 18
    assert (np.abs(counts - size * noise.pmf) < bound).all()
    wrong = np.roll(noise.pmf, 1)  # mu off by one
    assert not (np.abs(counts - size * wrong) < np.sqrt(2 * 26 * size * wrong) + 18).all()


def test_seen_of_a_raised_counter() -> None:
    noise = Laplace(2, 1.0)
    law = noise.seen(2)
    assert law.occupied.tolist() == [0, 0, *noise.pmf]
    assert law.free.tolist() == [*noise.pmf, 0, 0]


@pytest.mark.parametrize("shift", [1, 2, 7])
def test_a_law_in_doubles_has_no_loss_that_the_noise_has_not(shift: int) -> None:
    """Mixed with other outcomes, one that shows a user was a loss of 0.29 where 0.003 is most."""
    noise = Gaussian.ending(2600.0, 1e-9)
    near, exact = noise.nearly(shift), noise.seen(shift)
    assert near.free.size < exact.free.size / 4  # outcomes that tell alike are one
    both = (near.occupied > 0) & (near.free > 0)
    steepest = shift * noise.mu / noise.sigma**2
    assert np.abs(np.log(near.occupied[both] / near.free[both])).max() <= steepest
    for law in (near, exact):
        assert law.occupied.sum() == pytest.approx(1)
        shown = law.occupied[law.free == 0].sum()
        assert shown == pytest.approx(by_definition(noise)[-shift:].sum(), rel=1e-6)


@pytest.mark.parametrize(("ends", "shift"), [(1e-6, 1), (1e-9, 5), (0.2, 1)])
def test_ends_are_no_likelier_than_asked(ends: float, shift: int) -> None:
    laplace = Laplace.ending(0.5, ends, shift)
    assert laplace.pmf[:shift].sum() <= ends
    if laplace.mu > shift:
        assert Laplace(laplace.mu - 1, 0.5).pmf[:shift].sum() > ends * (1 - 1e-8)
    gaussian = Gaussian.ending(20.0, ends)
    assert gaussian.pmf[0] <= ends
    assert Gaussian.ending(20.0, 1e-9).mu < 7 * 20


def test_bad_noise_is_refused() -> None:
    for mu in (0, 1 << 21, 2.5):
        with pytest.raises(ValueError, match="mu must"):
            Laplace(mu, 1.0)  # type: ignore[arg-type]
    for slope in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="slope must"):
            Laplace(3, slope)
    for sigma in (0.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="sigma must"):
            Gaussian(3, sigma)
    with pytest.raises(ValueError, match="nothing but its middle"):
        _ = Laplace(3, 50.0).weights
