"""Tables of small integers: their laws, and draws that the first word does not decide."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from mechanisms.randomness import SeededRandom
from mechanisms.sampling.integer_noise import IntegerNoise
from mechanisms.sampling.integer_tables import FARTHEST, IntegerTable, logarithmic, poisson
from tests.oracles.statistics import follows, sample_size, tilted


class Rigged:
    """A source that returns the words it was given."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, size: int) -> np.ndarray:
        taken, self.left = self.left[:size], self.left[size:]
        return np.array(taken, np.uint64)


def distance(table: IntegerTable, law: dict[int, Fraction]) -> float:
    found = table.law()
    return float(sum(abs(found.get(k, 0) - law.get(k, 0)) for k in found.keys() | law.keys()) / 2)


@pytest.mark.parametrize("mean", [0.0, 1e-9, 0.3, 1.0, 5.7, 250.0])
def test_poisson_is_as_near_as_promised(mean: float) -> None:
    with localcontext() as context:
        context.prec = 80
        chance, law = (-Decimal(mean)).exp(), {}
        for k in range(int(mean + 30 * math.sqrt(mean)) + 80):
            law[k] = Fraction(chance)
            chance = chance * Decimal(mean) / (k + 1)
    table = poisson(mean)
    assert sum(table.law().values()) == 1
    assert distance(table, law) < FARTHEST


@pytest.mark.parametrize("ratio", [1e-9, 0.25, 0.6])
def test_logarithmic_is_as_near_as_promised(ratio: float) -> None:
    p = Fraction(ratio)
    with localcontext() as context:
        context.prec = 80
        total = Fraction(-(1 - Decimal(ratio)).ln())
    most = math.ceil(-100 / math.log(ratio)) + 3
    law = {k: p**k / k / total for k in range(1, most)}
    table = logarithmic(ratio)
    assert sum(table.law().values()) == 1
    assert distance(table, law) < FARTHEST


def test_long_tables() -> None:
    assert len(logarithmic(0.9999).weights) > 500_000
    wide = poisson(float(1 << 20))
    mean = sum(k * float(p) for k, p in wide.law().items())
    assert mean == pytest.approx(1 << 20, rel=1e-9)


def test_a_word_that_decides_nothing_is_refined() -> None:
    """Thirds of 2^128: the first words of both ends leave the integer open."""
    third = (1 << 128) // 3
    table = IntegerTable(5, (third, third, (1 << 128) - 2 * third))
    high, low = divmod(third, 1 << 64)
    for word, second, expected in [
        (high, low - 1, 5), (high, low, 6), (high, (1 << 64) - 1, 6), (high, 0, 5),
        (2 * high, 0, 6), (2 * high, 2 * low - 1, 6), (2 * high, 2 * low, 7),
        ((1 << 64) - 1, 3, 7),
    ]:  # fmt: skip
        rng = Rigged(word, second)
        assert table.draw(1, rng).tolist() == [expected]
        assert rng.left == []
    rng = Rigged(high - 1, high + 1, 2 * high + 1, 0)
    assert table.draw(4, rng).tolist() == [5, 6, 7, 5]


def test_shares_below_a_word_are_not_lost() -> None:
    """Three integers within one word: the second word tells them apart."""
    table = IntegerTable(0, (1, 2, (1 << 128) - 3))
    for second, expected in ((0, 0), (1, 1), (2, 1), (3, 2)):
        assert table.draw(1, Rigged(0, second)).tolist() == [expected]
    assert IntegerTable(9, (1 << 128,)).draw(3, SeededRandom(1)).tolist() == [9, 9, 9]


@pytest.mark.parametrize("table", [poisson(2.5), logarithmic(0.7)])
def test_draws_follow_the_table_and_no_other(table: IntegerTable) -> None:
    chances = np.array([float(p) for p in table.law().values()])
    law = np.append(chances[:9], chances[9:].sum())
    n = sample_size(law, tilted(law))
    drawn = table.draw(n, SeededRandom(3)) - table.first
    counts = np.bincount(np.minimum(drawn, 9), minlength=10)
    assert follows(counts, law)
    assert not follows(counts, tilted(law))


@pytest.mark.parametrize("table", [poisson(1e-4), poisson(5.0), poisson(200.0), logarithmic(0.7)])
@pytest.mark.parametrize("tail", [0.0, 1e-30, 1e-18, 1e-3, 1.0])
def test_an_end_is_the_least_that_so_little_is_beyond(table: IntegerTable, tail: float) -> None:
    law, end = table.law(), table.end(tail)

    def beyond(k: int) -> Fraction:
        return sum((p for i, p in law.items() if i > k), Fraction(0))

    assert beyond(end) <= Fraction(tail)
    assert end == table.first or beyond(end - 1) > Fraction(tail)
    for k in (-1, end - 1, end, table.largest):
        assert beyond(k) <= Fraction(table.beyond(k)) <= beyond(k) * (1 + Fraction(1, 1 << 51))


def test_noise_quantiles_by_definition() -> None:
    noise = IntegerNoise(-2, np.array([0.1, 0.2, 0.4, 0.2, 0.1]))
    assert noise.mean() == pytest.approx(0)
    assert noise.var() == pytest.approx(1.2)
    cdf = noise.pmf.cumsum()
    for q in (0.01, 0.1 - 1e-9, 0.25, 0.5, 0.71, 0.95):
        least = int(np.argmax(cdf >= q)) - 2
        assert noise.ppf(q) == least
        assert noise.isf(q) == next(k - 2 for k in range(5) if 1 - cdf[k] <= q + 1e-12)
    assert noise.ppf(1.0) == 2


def test_refusals() -> None:
    for mean in (-1.0, math.nan, math.inf, 2.0**21):
        with pytest.raises(ValueError, match="mean must"):
            poisson(mean)
    for ratio in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="ratio must"):
            logarithmic(ratio)
    with pytest.raises(ValueError, match="entries"):
        logarithmic(1 - 1e-9)
    with pytest.raises(ValueError, match="add up"):
        IntegerTable(0, (1, 2))
