"""What statements say of liars, against liars."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from mechanisms.catalog import build
from mechanisms.distribution.estimator import DistributionEstimator
from mechanisms.frequency.task import FrequencyTask
from mechanisms.heavy_hitters.discovery import discover
from mechanisms.heavy_hitters.fitting import fit
from mechanisms.heavy_hitters.prefix_code import PrefixCode
from mechanisms.heavy_hitters.schedule import Search
from mechanisms.mean.two_point import duchi
from mechanisms.mean.widths import noise
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.postprocess.simplex import project
from mechanisms.randomness import SeededRandom
from mechanisms.targets.rules import Target
from mechanisms.vector.mixed_rows import MixedRows
from pipelines.metrics.poisoning import LIARS, Poisoning
from pipelines.metrics.strings import levels_by_reports


@pytest.mark.parametrize("name", ["grr", "projective", "olh"])
def test_what_cannot_be_seen_is_what_a_population_would_send(name: str) -> None:
    """With as many codes as values, any counts are the expected ones of the shares they give."""
    more = {} if name == "grr" else {"hash_range": 2}
    mechanism = build(name, epsilon=1.0, domain_size=7, **more)
    channel = np.array([mechanism.channel(cell) for cell in range(7)])
    counts = np.bincount(SeededRandom(4).integers(mechanism.codes, 7000).astype(np.int64))
    expected = mechanism.estimate(counts) @ channel * counts.sum()
    unseen = np.allclose(expected, counts, atol=1e-6)
    assert unseen == (mechanism.codes == mechanism.inputs)


def test_projecting_at_most_doubles_the_farthest_move() -> None:
    source = SeededRandom(1).generator()
    largest = 0.0
    for size in (2, 3, 10, 200):
        for _ in range(300):
            before = source.normal(1 / size, 0.3, size)
            moved = source.choice([-0.01, 0.01], size)
            after = np.abs(project(before + moved) - project(before)).max() / 0.01
            largest = max(largest, float(after))
    assert 1.5 < largest <= 2 + 1e-9


@pytest.mark.parametrize("hides", [False, True])
def test_cumulative_shares_move_as_far_as_the_decoder_says(hides: bool) -> None:
    numbers = noise(1.0, cells=7)
    mechanism = WithUnusable(numbers) if hides else numbers
    estimator = DistributionEstimator(mechanism, span=1, hides=hides)
    decoder = estimator.reconstruction

    def sums(counts):
        return np.cumsum(decoder.shares @ counts / (decoder.presence @ counts))

    counts = np.full(estimator.mechanism.codes, 1000)
    n, liars, farthest = counts.sum(), 100, 0.0
    published = sums(counts)
    for gone, instead in product(range(counts.size), repeat=2):
        other = counts.copy()
        other[gone] -= liars
        other[instead] += liars
        moved = np.abs(sums(other) - published)
        farthest = max(farthest, float(moved.max()))
    present = float(decoder.presence @ counts / n)
    rows = np.cumsum(decoder.shares, axis=0)
    bound = decoder.forged_reach(rows, published, present, liars / n)
    # Of quotients the bound takes the worst of numerator and denominator apart.
    assert 0.9 * bound < farthest <= bound * (1 + 1e-9)
    assert hides or farthest == pytest.approx(bound, rel=1e-9)


def test_the_mean_of_a_distribution_moves_no_farther_than_was_said() -> None:
    estimator = DistributionEstimator(WithUnusable(noise(1.0, cells=7)), span=1, hides=True)
    counts = np.full(estimator.mechanism.codes, 1000)
    counts[-1], liars = 400, 100
    published = estimator.summarise(counts)
    _, bound = estimator.forged_reach(published, liars / counts.sum())
    farthest = 0.0
    for gone, instead in product(range(counts.size), repeat=2):
        other = counts.copy()
        other[gone] -= liars
        other[instead] += liars
        moved = estimator.mechanism.estimate(other) - published.mean.estimate
        farthest = max(farthest, abs(float(moved)))
    assert 0.8 * bound < farthest <= bound * (1 + 1e-9)


def test_made_up_reports_move_a_string_no_farther_than_was_said() -> None:
    """All liars at the last level, all for the bucket of one string that was found."""
    target = Target(model="local", epsilon=9.0, delta=0.0, n=60_000, task=FrequencyTask(2))
    plan = fit(target, PrefixCode("abcd", 4), Search(), seed=3, oracle="grr")
    protocol, oracle = plan.protocol, plan.protocol.oracle
    rng = SeededRandom(5)
    words = ["abba"] * 30_000 + ["dada"] * 30_000
    codes, _ = protocol.code.encode(words)
    messages = protocol.levels.perturb(protocol.cells(codes, rng), rng)
    last = protocol.levels.groups - 1
    bucket = int(protocol.hash.buckets(codes[:1], np.array([last]))[0])
    liars = int(LIARS * messages.size)
    poisoned = messages.copy()
    poisoned[-liars:] = last * oracle.codes + bucket  # in place of the other string's users
    shares = []
    for sent in (messages, poisoned):
        found = discover(protocol, protocol.levels.count(sent), plan.search)
        shares.append(dict(zip(found.values, found.estimate.tolist(), strict=True))["abba"])
    bound = levels_by_reports.poisoning(plan, forgeable=True).forged
    assert bound is not None
    assert LIARS < shares[1] - shares[0] <= bound  # more than by lies about values


def test_made_up_reports_of_one_attribute_move_it_no_farther_than_was_said() -> None:
    category = build("grr", epsilon=1.0, domain_size=3)
    rows = MixedRows(1.0, 1, (duchi(1.0, cells=2), category, category))
    rng = SeededRandom(2)
    cells = np.zeros((30_000, 3), np.int64)
    messages = rows.perturb(cells, rng)
    counts = rows.count(messages)
    published = rows.estimate(counts)
    number, share = rows.forged_reach(LIARS)
    for code in range(rows.codes):
        poisoned = messages.copy()
        poisoned[:300] = code
        moved = np.abs(rows.estimate(rows.count(poisoned)) - published)
        # As many as expected report an attribute, but for five standard deviations.
        assert moved[0] <= number * 1.05
        assert moved[1:].max() <= share * 1.05


def test_a_statement_rounds_up_and_says_when_nothing_bounds() -> None:
    forged = Poisoning("a share", 0.01, 0.012341)
    assert "moves by up to 0.0124" in forged.in_words("user")
    assert forged.statement()["forged"] == 0.012341
    anything = Poisoning("a share", 0.01, math.inf)
    assert anything.statement()["forged"] is None
    assert "moves by up to anything" in anything.in_words("user")


def test_where_one_job_makes_the_reports_nobody_forges_any() -> None:
    alone = Poisoning("a share", 0.01, None)
    assert alone.statement()["forged"] is None
    assert "Nobody can make reports up here" in alone.in_words("user")
    assert "can make them up" in Poisoning("a share", 0.01, 0.02).in_words("user")
