"""The auditor: true claims pass, planted faults do not, in the table and in the sampler."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from mechanisms import catalog
from mechanisms.channel import Guarantee, Mechanism
from mechanisms.frequency.dummies import PoissonDummies
from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.frequency.several_messages import SeveralMessages
from mechanisms.privacy.audit import RISK, _plausible, attack, audit, audit_batch
from mechanisms.randomness import SeededRandom


class ThresholdOff(LinearHash):
    """Tells the truth a part in 1000 too often."""

    @property
    def keep_weight(self) -> int:
        honest = (1 << 64) - LinearHash.miss_weight.func(self) * (self.hash_range - 1)
        return honest + honest // 1000

    @property
    def miss_weight(self) -> int:
        return ((1 << 64) - self.keep_weight) // (self.hash_range - 1)


class Swapped(LinearHash):
    """Takes the probability of the truth for that of each lie: fine in size, false in claim."""

    def weights(self, cell):
        numerators, denominator = super().weights(cell)
        truth = numerators == self.keep_weight
        swapped = np.where(truth, self.miss_weight // 1000, numerators)
        spare = (denominator - sum(map(int, swapped))) // int(np.count_nonzero(~truth))
        return np.where(truth, swapped, swapped + np.uint64(spare)), denominator


@dataclass(frozen=True)
class Window(Mechanism):
    """A window mechanism on a grid: codes j .. j + width - 1 are likelier by e^epsilon."""

    epsilon: float
    steps: int = 8
    width: int = 4
    excess: int = 0  # how many codes too wide the window is in the sampler and in the table

    @property
    def inputs(self) -> int:
        return self.steps + 1

    @property
    def codes(self) -> int:
        return self.steps + self.width

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee("local", self.epsilon, 0.0, "report", "by construction")

    def weights(self, cell):
        low = 1 << 40
        high = math.floor(low * math.exp(self.epsilon) * (1 - 1e-12))
        numerators = np.full(self.codes, low, np.uint64)
        numerators[cell : cell + self.width + self.excess] = high
        # The size of the honest window normalises, so a wider one must take from the others.
        total = high * self.width + low * self.steps
        inside = min(self.width + self.excess, self.codes - cell)
        rest = (total - high * inside) // (self.codes - inside)
        numerators[numerators == low] = rest
        numerators[-1 if cell == 0 else 0] += np.uint64(total - int(numerators.sum()))
        return numerators, total

    def perturb(self, cells, rng):
        tables = [np.cumsum(self.channel(cell)) for cell in range(self.inputs)]
        draws = rng.words(len(cells)) / 2.0**64
        found = [np.searchsorted(tables[c], u) for c, u in zip(cells, draws, strict=True)]
        return np.array(found, np.uint64)

    def estimate(self, counts: Any, n: int | None = None) -> Any:
        raise NotImplementedError


CASES = [
    catalog.build(name, epsilon=epsilon, domain_size=d)
    for name, one in catalog.of_task("frequency").items()
    if "local" in one.models
    for epsilon, d in [(0.5, 2), (1.0, 30), (3.0, 12)]
]


def test_a_window_holds_and_one_code_more_does_not():
    assert audit(Window(1.0)).holds
    wide = audit(Window(1.0, excess=1))
    assert not wide.holds
    assert wide.epsilon > 1.0


@pytest.mark.parametrize("fault", [ThresholdOff, Swapped])
@pytest.mark.parametrize("hash_range", [3, 12])
def test_planted_faults_are_rejected(fault, hash_range):
    found = audit(fault(1.0, 12, hash_range))
    assert not found.holds
    assert found.epsilon > 1.0
    assert found.delta > 0


def test_a_claim_of_nothing_does_not_hold():
    class Unclaimed(LinearHash):
        guarantee = Guarantee.none("published with a false proof")

    assert not audit(Unclaimed(1.0, 5, 5)).holds


LISTABLE = [
    *(case for case in CASES if not isinstance(case, SeveralMessages)),
    *(catalog.build(name, epsilon=e, domain_size=d) for name in ("oue", "sue", "subset")
      for e, d in [(0.5, 2), (1.0, 6)]),
    catalog.build("rappor", epsilon=1.0, domain_size=6, bits=4, hashes=2, cohorts=2),
]  # fmt: skip


def test_an_attack_on_reports_beyond_number_is_refused():
    with pytest.raises(ValueError, match="too many sets to list"):
        attack(catalog.build("oue", epsilon=1.0, domain_size=50), SeededRandom(1), 1000)


@pytest.mark.parametrize("mechanism", LISTABLE, ids=repr)
def test_an_honest_sampler_survives_the_attack(mechanism):
    result = attack(mechanism, SeededRandom(1), 200_000)
    assert result.follows_channel
    assert result.epsilon <= mechanism.guarantee.epsilon


def test_the_attack_comes_close_to_the_truth():
    mechanism = catalog.build("grr", epsilon=1.0, domain_size=4)
    assert attack(mechanism, SeededRandom(2), 2_000_000).epsilon > 0.97


class LoudSampler(LinearHash):
    """An honest table beside a sampler that spends 1.3 times the epsilon."""

    def perturb(self, cells, rng):
        return LinearHash(1.3 * self.epsilon, self.domain_size, self.hash_range).perturb(cells, rng)


@pytest.mark.parametrize("hash_range", [2, 3, 12])
def test_a_sampler_that_is_louder_than_its_table_is_caught(hash_range):
    mechanism = LoudSampler(1.0, 12, hash_range)
    assert audit(mechanism).holds
    result = attack(mechanism, SeededRandom(3), 1_000_000)
    assert not result.follows_channel
    assert result.epsilon > 1.0


def test_a_sampler_that_marks_one_value_is_caught():
    class Marker(LinearHash):
        def perturb(self, cells, rng):
            messages = super().perturb(cells, rng)
            marked = (np.asarray(cells) == 0) & rng.bernoulli(1 << 59, len(cells))
            messages[marked] = 7
            return messages

    result = attack(Marker(1.0, 12, 12), SeededRandom(4), 1_000_000)
    assert not result.follows_channel


@pytest.mark.parametrize("samples", [0, 10, -1])
def test_too_few_samples_are_refused(samples):
    with pytest.raises(ValueError, match="samples"):
        attack(CASES[0], SeededRandom(1), samples)


def test_the_pair_named_is_a_worst_pair():
    mechanism = replace(Window(1.0, excess=1))
    x, y = audit(mechanism).pair
    p, q = mechanism.channel(x), mechanism.channel(y)
    assert np.maximum(p - math.e * q, 0).sum() == pytest.approx(audit(mechanism).delta, rel=1e-6)


def test_a_channel_too_large_to_enumerate_is_refused():
    with pytest.raises(ValueError, match="codes are more than"):
        audit(LinearHash(9.0, 10**6, 16381))


def test_rare_codes_do_not_accuse_an_honest_sampler():
    """Five expected reports follow a Poisson law, whose tail a chi-square test underrates: with
    its cell tested at 10^-6 / 3, 14 or 15 reports would be an accusation once in 10^4 tries."""
    law = np.array([5e-6, 1 - 5e-6])
    assert all(_plausible(np.array([k, 10**6 - k]), law, RISK / 3) for k in range(25))
    skewed = np.array([400, 10**6 - 400])
    assert not _plausible(skewed, np.array([2e-4, 1 - 2e-4]), RISK / 3)


@dataclass(frozen=True)
class TooFewDummies(PoissonDummies):
    """Claims an epsilon for which its dummies do not suffice."""

    @property
    def guarantee(self) -> Guarantee:
        return replace(super().guarantee, epsilon=0.99 * self.epsilon)


def test_a_claim_of_a_batch_one_percent_off_is_rejected():
    found = audit_batch(TooFewDummies(0.5, 1e-6, 100_000, 40, honest_share=1.0), 100_000)
    assert not found.holds
    assert found.epsilon[0] > 0.99 * 0.5
