"""How far a figure lies off by chance, against the exact laws of noise that is drawn."""

from fractions import Fraction

import numpy as np
import pytest

from mechanisms.sampling.exact_geometric import ExactGeometric
from mechanisms.sampling.rounded_gaussian import RoundedGaussian
from tests.contract.laws import reach

ALARM = 1e-11


def beyond(pmf: np.ndarray, far: float) -> float:
    """The chance of noise farther off, of a law around 0."""
    distance = np.abs(np.arange(pmf.size) - pmf.size // 2)
    return float(pmf[distance > far].sum())


def geometric(decay: float) -> tuple[float, np.ndarray]:
    law = ExactGeometric.falling(Fraction(decay).limit_denominator(1000))
    ends = np.arange(-int(60 / decay) - 2, int(60 / decay) + 3)
    weights = np.exp(-float(law.decay) * np.abs(ends))
    return law.var() ** 0.5, weights / weights.sum()


@pytest.mark.parametrize("decay", [0.02, 0.3, 1.0, 3.0, 6.7, 14.0])
def test_discrete_laplace_is_as_far_as_is_said_and_no_farther(decay: float) -> None:
    error, pmf = geometric(decay)
    far = float(reach(error, alarm=ALARM))
    assert beyond(pmf, far) <= ALARM * 1.0001
    assert beyond(pmf, far - 1) > ALARM
    # As a column of standard errors, and in another unit.
    assert reach([error, 0.0], 0.25 * error).shape == (2,)
    assert reach(error * 60, 60.0, ALARM) == pytest.approx(60 * far)


@pytest.mark.parametrize("decay", [0.3, 1.0, 3.0, 6.7])
def test_sums_of_noises_lie_no_farther(decay: float) -> None:
    error, pmf = geometric(decay)
    for times in (1, 2):
        pmf, error = np.convolve(pmf, pmf), error * 2**0.5
        assert beyond(pmf, float(reach(error, alarm=ALARM))) <= ALARM, times


@pytest.mark.parametrize("sigma", [0.1, 0.3, 1.0, 7.0])
def test_normal_noise_that_is_rounded_lies_no_farther(sigma: float) -> None:
    law = RoundedGaussian(sigma)
    assert beyond(law.pmf, float(reach(law.var() ** 0.5, alarm=ALARM))) <= ALARM


def test_without_noise_nothing_is_off() -> None:
    assert reach(0.0) < 1e-8
