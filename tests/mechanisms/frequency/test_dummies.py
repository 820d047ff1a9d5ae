"""Values among dummies: whole batches by convolution, samplers, errors, and the papers' numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from mechanisms.frequency.dummies import PoissonDummies
from mechanisms.frequency.dummy_batch import DummyBatch
from mechanisms.papers.aue import Aue
from mechanisms.papers.dump import MixDump, PureDump
from mechanisms.privacy.amplification import shuffled_delta, shuffled_epsilon
from mechanisms.privacy.divergence import tight_delta
from mechanisms.randomness import SeededRandom
from tests.oracles.dummies import exact_batch_delta

VECTORS = json.loads(Path(__file__).parents[2].joinpath("data/vectors.json").read_text())

TINY = [
    PoissonDummies(1.0, 0.05, 4, 2, honest_share=0.75),
    PoissonDummies(3.0, 0.5, 3, 3, honest_share=0.7),
    Aue(1.0, 0.1, 14, 2, honest_share=0.8),
    Aue(2.0, 0.3, 4, 3, honest_share=1.0),
    PureDump(1.0, 0.05, 4, 3, honest_share=0.75),
    PureDump(1.5, 0.2, 5, 2, honest_share=0.6),
    MixDump(0.5, 0.02, 4, 3, honest_share=0.75, epsilon_local=2.0),
    MixDump(0.6, 0.1, 3, 4, honest_share=1.0, epsilon_local=1.5),
]
LARGE = [
    PoissonDummies(0.5, 1e-6, 600_000, 600),
    Aue(0.5, 1e-6, 600_000, 600),
    Aue(0.5, 1e-6, 600_000, 600, bound="published"),
    PureDump(0.5, 1e-6, 600_000, 600),
    PureDump(0.5, 1e-6, 600_000, 600, bound="published"),
    MixDump(0.2, 1e-6, 600_000, 600),
    MixDump(0.2, 1e-6, 600_000, 600, bound="published"),
]

tiny = pytest.mark.parametrize("mechanism", TINY, ids=lambda m: f"{type(m).__name__}-{m.inputs}")
large = pytest.mark.parametrize("mechanism", LARGE, ids=lambda m: f"{type(m).__name__}-{m.bound}")


# ---- privacy -------------------------------------------------------------------------------------


@pytest.mark.verify
@large
def test_claims_are_met(mechanism: DummyBatch) -> None:
    claim = mechanism.guarantee
    assert (claim.model, claim.epsilon, claim.delta) == (
        "shuffle",
        mechanism.epsilon,
        mechanism.delta,
    )
    lower, upper = mechanism.batch_delta(mechanism.n, mechanism.epsilon)
    assert lower <= upper <= mechanism.delta
    low, high = mechanism.batch_epsilon(mechanism.n, mechanism.delta)
    assert low <= high <= mechanism.epsilon
    assert shuffled_delta(mechanism, mechanism.n, 0.1) == mechanism.batch_delta(mechanism.n, 0.1)
    assert shuffled_epsilon(mechanism, mechanism.n, mechanism.delta) == (low, high)
    if mechanism.bound == "published":
        assert high < 0.8 * mechanism.epsilon
    elif not isinstance(mechanism, MixDump):
        assert high > mechanism.epsilon * (1 - 1e-3)  # nothing is given away
        full = replace(mechanism, honest_share=1.0)
        assert full.batch_epsilon(full.n, full.delta)[0] > mechanism.epsilon * (1 - 1e-3)


@pytest.mark.verify
@large
def test_more_users_are_more_private(mechanism: DummyBatch) -> None:
    n = mechanism.n
    losses = [mechanism.batch_epsilon(size, 1e-6)[1] for size in (n // 2, n, 3 * n)]
    assert losses == sorted(losses, reverse=True)
    alone = mechanism.batch_delta(1, 1.0)[1]  # a user's own dummies hide next to nothing
    low, high = (0.97, 1.0) if not isinstance(mechanism, MixDump) else (0.82, 0.84)
    assert low < alone < high
    most = mechanism.local.epsilon
    assert 0.98 * most <= mechanism.batch_epsilon(1, 1e-6)[1] <= most


def test_dropouts_are_paid_for() -> None:
    for family in (PoissonDummies, Aue, PureDump):
        careful, trusting = (
            family(0.5, 1e-6, 100_000, 50, honest_share=share) for share in (0.5, 1.0)
        )
        assert careful.dummies == pytest.approx(2 * trusting.dummies, rel=2e-3)
        assert careful.honest(100_000) == 50_000
        larger = family(0.5, 1e-6, 1_000_000, 50, honest_share=1.0)
        assert larger.dummies == pytest.approx(trusting.dummies / 10, rel=2e-3)


# ---- client --------------------------------------------------------------------------------------


@tiny
def test_laws_add_up_and_give_the_expectations(mechanism: DummyBatch) -> None:
    """Mean and variance of a user's support of each value, exactly from the law of a report."""
    for cell in (0, mechanism.inputs - 1):
        law = mechanism.report_law(cell)
        assert sum(law.values()) == 1
        for value in range(mechanism.inputs):
            times = [(report.count(value), p) for report, p in law.items()]
            mean = sum((k * p for k, p in times), Fraction(0))
            square = sum((k * k * p for k, p in times), Fraction(0))
            expected = mechanism.keep if value == cell else mechanism.other
            assert float(mean) == pytest.approx(expected, rel=1e-12)
            predicted = mechanism.variance(1.0 if value == cell else 0.0, 1)
            spread = float(square - mean**2) / mechanism.contrast**2
            assert spread == pytest.approx(float(predicted), rel=1e-9)
        messages = sum((len(report) * p for report, p in law.items()), Fraction(0))
        assert float(messages) == pytest.approx(mechanism.messages, rel=1e-12)


@large
def test_messages_name_their_senders_in_an_order_that_tells_nothing(mechanism: DummyBatch) -> None:
    cells = SeededRandom(1).integers(600, 3000)
    messages, senders = mechanism.send(cells, SeededRandom(2))
    np.testing.assert_array_equal(messages, mechanism.perturb(cells, SeededRandom(2)))
    keys = senders * 600 + messages.astype(np.int64)
    assert np.all(np.diff(keys) >= 0)
    assert mechanism.valid(messages).all()
    if not isinstance(mechanism, MixDump):
        present = np.isin(np.arange(3000) * 600 + cells.astype(np.int64), keys)
        assert present.all()
    assert messages.size / 3000 == pytest.approx(mechanism.messages, rel=0.2)
    whole = mechanism.count(messages)
    parts = sum(mechanism.count(part) for part in np.array_split(messages, 7))
    np.testing.assert_array_equal(parts, whole)
    assert mechanism.perturb([], SeededRandom(1)).size == 0


def test_blocks_of_users_do_not_mix() -> None:
    """So many dummies that every user is a block: sent by the right one all the same."""
    mechanism = PoissonDummies(0.01, 1e-9, 20_000, 40_000, honest_share=1.0)
    assert mechanism.dummies > 1 << 19
    messages, senders = mechanism.send([5, 7], SeededRandom(1))
    assert np.bincount(senders).size == 2
    assert messages.size == pytest.approx(2 * mechanism.messages, rel=0.01)


# ---- collector -----------------------------------------------------------------------------------


def errors(mechanism: DummyBatch, histogram: np.ndarray, counts: np.ndarray) -> np.ndarray:
    n = int(histogram.sum())
    return mechanism.estimate(counts, n) - histogram / n


@large
def test_measured_error_is_the_predicted_one(mechanism: DummyBatch) -> None:
    """20 runs over 600 bins: the ratio's standard deviation is 1.3 %, so 10 % is 7 of them."""
    histogram = np.full(600, 1000)
    rng = SeededRandom(4)
    runs = [errors(mechanism, histogram, mechanism.simulate(histogram, rng)) for _ in range(20)]
    ratio = np.mean(np.square(runs)) / mechanism.average_variance(600_000)
    assert 0.9 < ratio < 1.1
    assert abs(np.mean(runs)) < 7 * math.sqrt(mechanism.average_variance(600_000) / 12_000)


@large
def test_added_noise_has_the_moments_of_the_error(mechanism: DummyBatch) -> None:
    noise = mechanism.added(50_000)
    if isinstance(mechanism, MixDump):
        assert noise is None
        return
    assert noise is not None
    assert noise.mean() == pytest.approx(50_000 * mechanism.other)
    variance = float(mechanism.variance(0.0, 50_000)) * 50_000**2
    for tail in (1e-3, 1e-6):
        reach = stats.norm.isf(tail) * math.sqrt(variance)
        assert noise.isf(tail) == pytest.approx(noise.mean() + reach, rel=0.25)
        assert noise.ppf(tail) == pytest.approx(noise.mean() - reach, abs=0.5 * reach + 2)


def test_two_kinds_of_dummies_make_one_noise() -> None:
    """A whole number and a chance of one more: the sum of two binomials."""
    mechanism = PureDump(0.5, 1e-6, 2000, 50, honest_share=1.0)
    whole, chance = mechanism.numbers
    assert whole >= 1
    assert chance > 0
    noise = mechanism.added(2000)
    assert noise is not None
    counts = stats.binom.rvs(2000 * whole, 1 / 50, size=20_000, random_state=1)
    counts += stats.binom.rvs(2000, chance / 50, size=20_000, random_state=2)
    for q in (0.1, 0.5, 0.9):
        below = np.mean(counts <= noise.ppf(q))
        assert below == pytest.approx(np.mean(counts <= np.quantile(counts, q)), abs=0.02)


# ---- numbers to reach ----------------------------------------------------------------------------


def test_poisson_dummies_reach_their_numbers() -> None:
    for epsilon, delta, mean in [
        (0.5, 1e-6, 136.1), (0.1, 1e-6, 2641), (1.0, 1e-6, 42.65), (0.1, 1e-9, 5051.6),
    ]:  # fmt: skip
        assert PoissonDummies(epsilon, delta, 10**6, 100).bin_mean == pytest.approx(mean, rel=5e-4)
    adult = PoissonDummies(0.5, 1e-6, 602_325, 915, honest_share=1.0)
    kosarak = PoissonDummies(0.5, 1e-6, 10**6, 42_178, honest_share=1.0)
    assert adult.average_variance(602_325) == pytest.approx(3.75e-10, rel=5e-3)
    assert kosarak.average_variance(10**6) == pytest.approx(1.36e-10, rel=5e-3)
    assert adult.dummies == pytest.approx(0.21, abs=5e-3)
    assert kosarak.dummies == pytest.approx(5.74, abs=5e-3)


@pytest.mark.parametrize("case", VECTORS["aue"], ids=str)
def test_published_aue(case: dict) -> None:
    p = case["params"]
    mechanism = Aue(p["eps"], p["delta"], p["n"], 2, honest_share=1.0, bound="published")
    constants = case["constants"]
    assert mechanism.chance == pytest.approx(constants["one_minus_p"], rel=1e-9)
    assert mechanism.constants()["p"] == pytest.approx(constants["p"], rel=1e-9)
    assert mechanism.constants()["printed_messages"] == pytest.approx(1 + 2 * constants["p"])
    assert float(mechanism.variance(0.3, p["n"])) == pytest.approx(
        case["variance_of_f_hat"], rel=1e-9
    )
    for epsilon in (0.1, 1.0, 5.0):
        assert tight_delta(mechanism, epsilon) == pytest.approx(
            case["local_delta_any_eps"], rel=1e-9
        )
    least = math.ceil(case["minimum_n"])
    with pytest.raises(ValueError, match=f"at least {least:,}"):
        replace(mechanism, n=least - 1)
    assert replace(mechanism, n=least).chance <= 0.5


@dataclass(frozen=True)
class Fixed(PureDump):
    """pureDUMP with a number of dummies that nobody calibrated."""

    each: int = 1

    @property
    def numbers(self) -> tuple[int, float]:
        return self.each, 0.0


@pytest.mark.parametrize("case", VECTORS["puredump"], ids=str)
def test_published_puredump(case: dict) -> None:
    k, n, s = (case["params"][key] for key in "kns")
    ((delta, epsilon),) = case["published_eps"].items()
    mechanism = Fixed(1.0, float(delta), n, k, honest_share=1.0, each=s)
    assert float(mechanism.variance(0.2, n)) == pytest.approx(case["variance_of_f_hat"], rel=1e-9)
    lower, upper = mechanism.batch_delta(n, case["tight"]["eps"])
    assert lower <= case["tight"]["delta"] * (1 + 1e-9)
    assert upper == pytest.approx(case["tight"]["delta"], rel=1e-4)
    by_paper = PureDump(epsilon, float(delta), n, k, honest_share=1.0, bound="published")
    assert by_paper.dummies == pytest.approx(s, rel=0.02)


def test_the_papers_bounds_cost_what_they_are_said_to() -> None:
    n, d = 602_325, 915
    aue, pure = (
        family(0.5, 1e-6, n, d, honest_share=1.0, bound="published") for family in (Aue, PureDump)
    )
    assert aue.average_variance(n) == pytest.approx(3.4e-8, rel=0.05)
    assert pure.average_variance(n) == pytest.approx(2.2e-9, rel=0.03)
    assert aue.batch_epsilon(n, 1e-6)[1] == pytest.approx(0.044, abs=1e-3)
    assert pure.batch_epsilon(n, 1e-6)[1] == pytest.approx(0.188, abs=1e-3)


# ---- refusals ------------------------------------------------------------------------------------

REFUSED: list[tuple[str, Callable[[], object]]] = [
    *(
        (name, lambda family=family, fields=fields: family(**{
            "epsilon": 0.5, "delta": 1e-6, "n": 10_000, "domain_size": 10, **fields
        }))
        for family in (PoissonDummies, Aue, PureDump, MixDump)
        for name, fields in [
            ("epsilon", {"epsilon": 1e-30}),
            ("domain_size", {"domain_size": 1 << 40}),
            ("honest_share", {"honest_share": 1.1}),
            ("bound", {"bound": "best"}),
        ]
    ),
    ("bound must be exact", lambda: PoissonDummies(0.5, 1e-6, 100, 10, bound="published")),
    ("at least 583 ", lambda: Aue(0.5, 1e-6, 582, 10)),
    ("at least 27,026 ", lambda: Aue(0.5, 1e-6, 27_025, 10, bound="published")),
    ("epsilon up to 2", lambda: Aue(2.5, 1e-6, 10**6, 10, bound="published")),
    ("epsilon up to 1", lambda: PureDump(1.5, 1e-6, 10**6, 10, bound="published")),
    ("delta up to", lambda: PureDump(0.5, 0.5, 10**6, 10, bound="published")),
    ("at least 2,885 ", lambda: PoissonDummies(0.5, 1e-6, 2884, 20_000_000)),
    ("at least 2,8", lambda: PureDump(0.5, 1e-6, 10, 20_000_000)),
    ("delta must be at least", lambda: PoissonDummies(0.5, 1e-25, 10**6, 10)),
    ("epsilon_local", lambda: MixDump(0.5, 1e-6, 10**4, 10, epsilon_local=math.nan)),
    ("epsilon_local", lambda: MixDump(0.5, 1e-6, 10**4, 10, epsilon_local=0.0)),
    ("too many reports", lambda: PoissonDummies(0.5, 1e-6, 10**4, 10).report_law(0)),
    ("too many", lambda: Aue(0.5, 1e-6, 10**4, 13).report_law(0)),
    ("cells", lambda: LARGE[0].report_law(600)),
    ("cells", lambda: LARGE[0].perturb([600], SeededRandom(1))),
]  # fmt: skip


@pytest.mark.parametrize(("message", "call"), REFUSED)
def test_refusals(message: str, call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_the_least_number_that_works_works() -> None:
    assert Aue(0.5, 1e-6, 583, 10).chance <= 0.5
    assert PoissonDummies(0.5, 1e-6, 2885, 20_000_000).dummies <= 1 << 20
    assert Aue(0.5, 1e-6, 27_026, 10, bound="published").chance <= 0.5


@pytest.mark.parametrize("n", [4, 10])
def test_two_values_have_a_lower_end_that_is_of_use(n):
    """There is no third value for the others to hold; where one was taken, it was too high."""
    mechanism = MixDump(0.5, 1e-3, n, 2, honest_share=1.0, epsilon_local=1.0)
    for epsilon in (0.0, 0.3, 0.8):
        truth = exact_batch_delta(mechanism, n, epsilon)
        lower, _ = mechanism.batch_delta(n, epsilon)
        assert 0.9 * truth <= lower <= truth * (1 + 1e-9)
