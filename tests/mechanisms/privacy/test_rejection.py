"""Attacks on whole releases find what is planted, in the joint law of the counters, too."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Counts, Floats, Guarantee
from mechanisms.frequency.dummies import PoissonDummies
from mechanisms.frequency.dummy_batch import Keys
from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.learning.dp_sgd import DpSgd
from mechanisms.papers.central_histogram import LaplaceHistogram
from mechanisms.privacy.amplification import shuffled_epsilon
from mechanisms.privacy.rejection import lower_bound, measure
from mechanisms.privacy.trial import Trial, more_trials, trial
from mechanisms.randomness import RandomSource, SeededRandom
from mechanisms.sampling.rounded_normal import RoundedNormal

RISK = 1e-12  # of each bound here: all of them are wrong once in far more than 10^9 runs
DUMMIES = {"epsilon": 1.0, "delta": 0.05, "n": 4, "domain_size": 2, "honest_share": 0.75}


def found(tried: Trial, samples: int = 40_000) -> float:
    return measure(tried, SeededRandom(3), samples, RISK).epsilon


@dataclass(frozen=True)
class TooFew(PoissonDummies):
    """Sends half of the dummies that it is accounted for."""

    def _extras(self, size: int, rng: RandomSource) -> Keys:
        keys = super()._extras(size, rng)
        return keys[: keys.size // 2]


@dataclass(frozen=True)
class InPairs(PoissonDummies):
    """A dummy in one bin comes with one in the other, so that their difference has no noise."""

    def _extras(self, size: int, rng: RandomSource) -> Keys:
        keys = super()._extras(size, rng)
        return np.concatenate([keys, keys ^ 1])


@dataclass(frozen=True)
class Quiet(LaplaceHistogram):
    """Adds the noise of twice its epsilon."""

    def release(
        self, counts: Counts, rng: RandomSource, n: int | None = None
    ) -> tuple[Floats, Floats]:
        return LaplaceHistogram(2 * self.epsilon, self.domain_size).release(counts, rng, n)


@pytest.mark.parametrize(
    ("planted", "sound"),
    [
        (TooFew(**DUMMIES), PoissonDummies(**DUMMIES)),
        (InPairs(**DUMMIES), PoissonDummies(**DUMMIES)),
    ],
    ids=["too-few", "in-pairs"],
)
def test_dummies_that_hide_too_little_are_caught(
    planted: PoissonDummies, sound: PoissonDummies
) -> None:
    assert found(trial(planted)) > planted.epsilon
    assert 0.5 * sound.epsilon < found(trial(sound)) <= sound.epsilon


def test_no_counter_by_itself_tells_what_dummies_in_pairs_do() -> None:
    tried = trial(InPairs(**DUMMIES))
    one = replace(tried, draw=lambda cells, times, rng: tried.draw(cells, times, rng)[:, :1])
    assert found(one) <= 1.0 < found(tried)


def test_honest_users_alone_take_part() -> None:
    drawn = trial(PoissonDummies(**DUMMIES)).pairs[0][0]
    assert len(drawn) == 3  # three of four, the one who is protected among them


def test_a_curator_of_too_little_noise_is_caught() -> None:
    assert found(trial(Quiet(1.0, 4)), 4000) > 1.0
    assert found(trial(LaplaceHistogram(1.0, 4)), 4000) <= 1.0


def test_reports_are_measured_near_what_they_lose() -> None:
    mechanism, delta = k_ary(2.0, 3), 0.05
    low, high = shuffled_epsilon(mechanism, 4, delta)
    measured = found(trial(mechanism, 4, delta), 100_000)
    assert 0.9 * low < measured <= high
    # A batch that was promised a tenth less than is lost.
    assert measured > trial(mechanism, 4, delta, epsilon=0.9 * low).promise.epsilon
    assert 1.8 < found(trial(mechanism), 100_000) <= 2.0


def test_a_training_of_too_little_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = more_trials()["dp-sgd"]()
    assert found(tried) <= tried.promise.epsilon
    quieter = property(lambda self: RoundedNormal(self.sigma / 4 * 2.0**self.gradients.bits))
    monkeypatch.setattr(DpSgd, "noise", quieter)
    assert found(tried) > tried.promise.epsilon


def test_levels_that_answer_truly_too_often_are_caught() -> None:
    tried = more_trials()["levels"]()

    def draw(values: Any, times: int, rng: RandomSource) -> NDArray[Any]:
        """The one user's value in the open, once in two batches."""
        drawn = tried.draw(values, times, rng)
        told = np.where(rng.bernoulli(1 << 63, times), values[0], -1)
        return np.column_stack([drawn, told])

    assert found(tried) <= tried.promise.epsilon < found(replace(tried, draw=draw))


def drawing(law: Callable[[int, int, SeededRandom], ArrayLike], epsilon: float) -> Trial:
    promise = Guarantee("central", epsilon, 0.0, "record", "made up")
    return Trial("made up", promise, [(0, 1)], lambda one, times, rng: law(one, times, rng))


def test_nothing_is_found_where_there_is_nothing() -> None:
    tried = drawing(lambda one, times, rng: rng.generator().normal(size=(times, 3)), 0.0)
    assert found(tried, 20_000) == 0


def test_wild_columns_do_no_harm() -> None:
    def law(one: int, times: int, rng: SeededRandom) -> ArrayLike:
        same = np.zeros((times, 2))
        far = rng.generator().standard_cauchy((times, 1)) * 1e300
        return np.concatenate([same, far, rng.generator().integers(2, size=(times, 1))], axis=1)

    assert found(drawing(law, 0.0), 20_000) == 0


def test_what_is_told_in_the_open_is_found_among_noise() -> None:
    def law(one: int, times: int, rng: SeededRandom) -> ArrayLike:
        noise = rng.generator().normal(size=(times, 4))
        return np.column_stack([noise, np.full(times, one)])

    assert found(drawing(law, 1.0), 20_000) > 4


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1000 samples, not 999"):
        found(trial(k_ary(1.0, 3)), 999)


def test_a_bound_is_never_more_than_what_was_hit() -> None:
    assert lower_bound(0, 0, 1000, 0.0, 1e-6) == 0
    assert lower_bound(1000, 1000, 1000, 0.0, 1e-6) == 0
    assert 0 < lower_bound(1000, 0, 1000, 0.0, 1e-6) < math.log(1000 / 13)
    assert lower_bound(100, 0, 1000, 0.2, 1e-6) == 0
