"""The search, on simulated users: what it finds, what it must not, and how far off it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from hushbeam.studies.systems.searches import report
from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.frequency.projective_geometry import ProjectiveGeometry
from mechanisms.heavy_hitters import discovery
from mechanisms.heavy_hitters.discovery import FrequentStrings, discover
from mechanisms.heavy_hitters.fitting import best_schedule
from mechanisms.heavy_hitters.prefix_code import PrefixCode, alphabet
from mechanisms.heavy_hitters.protocol import Protocol
from mechanisms.heavy_hitters.schedule import MISSED, Schedule, Search
from mechanisms.randomness import SeededRandom
from tests.oracles.statistics import FALSE_ALARM, zipf

CERTAIN = k_ary(40.0, 1 << 12)  # a report lies once in 10^13
NOISY = ProjectiveGeometry(4.0, 1 << 12, 16)
SMALL = PrefixCode("abcde", 7)
STEPS = Schedule((3, 2, 2), (3, 3, 4), (2, 3, 3))


def words(size: int, seed: int, code: PrefixCode = SMALL, longest: int = 7) -> list[str]:
    """Distinct strings of all lengths up to a longest."""
    rng, found = SeededRandom(seed), {}
    while len(found) < size:
        length = int(rng.integers(longest + 1, 1)[0])
        letters = rng.integers(len(code.characters), length)
        found["".join(code.characters[int(k)] for k in letters)] = None
    return list(found)


def search(
    protocol: Protocol, values, holders, seed: int, wanted: Search, **more
) -> FrequentStrings:
    return discover(protocol, report(protocol, values, holders, SeededRandom(seed)), wanted, **more)


def test_without_noise_all_strings_are_found_with_their_shares() -> None:
    """Of all lengths: the empty one, those of full length, and longer ones by their beginning."""
    values = ["", "a", "ab", "abc", "abcd", "abcdeab", "abcdeabc", "abcdeabd", "eeeeeee", "eeee"]
    holders = np.full(10, 4000)
    protocol = Protocol(SMALL, STEPS, CERTAIN, seed=1)
    found = search(protocol, values, holders, 2, Search(beam=64))
    shares = dict(
        zip(zip(found.values, found.whole.tolist(), strict=True), found.estimate, strict=True)
    )
    expected = {(value, True): 0.1 for value in values if len(value) <= 7}
    expected["abcdeab", False] = 0.2
    assert shares.keys() == expected.keys()
    for string, share in expected.items():
        assert shares[string] == pytest.approx(share, abs=0.02)
    assert found.n == 40_000


def test_what_is_found_does_not_hang_on_how_many_are_looked_at_together(monkeypatch) -> None:
    values = words(30, 5)
    protocol = Protocol(SMALL, STEPS, NOISY, seed=6)
    counts = report(protocol, values, np.arange(30, 0, -1) * 200, SeededRandom(7))
    together = discover(protocol, counts, Search(beam=64))
    monkeypatch.setattr(discovery, "_PIECE", 7)
    monkeypatch.setattr(discovery, "_BLOCK", 21)
    assert len(together.values) > 5
    assert list(map(repr, discover(protocol, counts, Search(beam=64)))) == list(map(repr, together))


def test_text_of_any_script_is_found() -> None:
    values = ["naïve", "日本", "日本語", "😀", "plain", "日", "a\0b"]
    code = PrefixCode("", 9)
    schedule = Schedule((2, 2, 1, 2, 2), (3,) * 5, (1,) * 5)
    protocol = Protocol(code, schedule, CERTAIN, seed=3)
    found = search(protocol, values, np.full(7, 3000), 4, Search(beam=64))
    assert dict(zip(found.values, found.whole.tolist(), strict=True)) == dict.fromkeys(values, True)


def test_the_most_frequent_come_first_and_no_more_than_wanted() -> None:
    values = words(30, 5)
    holders = np.arange(30, 0, -1) * 200
    protocol = Protocol(SMALL, STEPS, CERTAIN, seed=6)
    everything = search(protocol, values, holders, 7, Search(beam=128))
    assert (np.diff(everything.estimate) <= 0).all()
    top = search(protocol, values, holders, 7, Search(beam=128), top=5)
    assert top.values == everything.values[:5]
    assert top.candidates == everything.candidates


# ---- what must not be found ----------------------------------------------------------------------


@pytest.mark.verify
def test_strings_that_nobody_holds_are_as_rare_as_was_said() -> None:
    """Over many public seeds: a population of a few frequent strings and many rare ones.

    The bound is on a mean, so the total over the seeds is compared with a Poisson number. Had the
    bound not been used up to a tenth at least, it would be worth nothing either.
    """
    values = words(3000, 8)
    holders = np.rint(40_000 * zipf(3000, 1.3)).astype(int)
    held = {value[:7] for value, amount in zip(values, holders, strict=True) if amount}
    seeds, expected = 40, 2.0
    total = 0
    for seed in range(seeds):
        protocol = Protocol(SMALL, STEPS, NOISY, seed)
        found = search(protocol, values, holders, 100 + seed, Search(64, expected))
        assert (found.expected_false <= expected).all()
        total += len(set(found.values) - held)
    assert total <= stats.poisson.isf(FALSE_ALARM, seeds * expected)
    assert total > seeds * expected / 10


def test_a_population_without_frequent_strings_yields_none() -> None:
    values = words(5000, 9)
    for seed in range(5):
        protocol = Protocol(SMALL, STEPS, NOISY, seed)
        found = search(protocol, values, np.full(5000, 4), 200 + seed, Search(64, 1e-4))
        assert found.values == []
        assert found.candidates > 1000


def test_nobody_yields_nothing() -> None:
    protocol = Protocol(SMALL, STEPS, NOISY, 1)
    found = discover(protocol, np.zeros(protocol.levels.codes, np.int64), Search())
    assert (found.values, found.n, found.estimate.size) == ([], 0, 0)


# ---- what must be found --------------------------------------------------------------------------


@pytest.mark.verify
def test_strings_at_the_detection_limit_are_found_as_often_as_was_said() -> None:
    """One string of full length at the limit, the others rare: found in nine of ten searches."""
    n, wanted = 60_000, Search(64, 0.05)
    schedule = best_schedule(SMALL, NOISY, n, wanted)
    limit = schedule.detection_limit(SMALL, NOISY, n, wanted)
    assert 0.005 < limit < 0.1
    rare = words(2000, 10)
    values = ["deabcda", *(word for word in rare if word != "deabcda")]
    holders = np.full(len(values), (n - round(limit * n)) // (len(values) - 1))
    holders[0] = round(limit * n)
    runs = 50
    hits = sum(
        "deabcda"
        in search(Protocol(SMALL, schedule, NOISY, seed), values, holders, seed, wanted).values
        for seed in range(runs)
    )
    assert hits >= stats.binom.ppf(FALSE_ALARM, runs, 1 - MISSED)


def test_the_head_of_a_zipf_law_is_found() -> None:
    """100,000 users with numbers of up to five digits, at a local epsilon of 4."""
    n, code = 100_000, PrefixCode(alphabet(["digits"]), 5)
    rng = SeededRandom(11)
    values = [str(number) for number in rng.choice(30_000, 5000).tolist()]
    holders = np.rint(n * zipf(5000, 1.1)).astype(int)
    oracle, wanted = ProjectiveGeometry(4.0, 1 << 17, 53), Search()
    schedule = best_schedule(code, oracle, n, wanted)
    limit = schedule.detection_limit(code, oracle, n, wanted)
    certain = [v for v, amount in zip(values, holders, strict=True) if amount >= 1.2 * limit * n]
    assert len(certain) >= 10
    for seed in range(3):
        found = search(Protocol(code, schedule, oracle, seed), values, holders, 300 + seed, wanted)
        assert set(certain) <= set(found.values)
        assert set(found.values) <= set(values)


# ---- how far off the shares are ------------------------------------------------------------------


@pytest.mark.verify
@pytest.mark.parametrize("oracle", [NOISY, k_ary(8.0, 1 << 12)], ids=["geometry", "k-ary"])
def test_shares_are_off_by_what_their_standard_errors_say(oracle) -> None:
    """Strings far above the limit, so that whether they are found does not hang on their noise."""
    values = words(500, 12)
    holders = np.full(500, 40)
    holders[:6] = [9000, 7000, 5000, 4000, 3500, 3500]
    n = int(holders.sum())
    truth = {value: amount / n for value, amount in zip(values[:6], holders[:6], strict=True)}
    scores, covered, together = [], [], []
    for seed in range(40):
        found = search(Protocol(SMALL, STEPS, oracle, seed), values, holders, seed, Search(64))
        for place, value in enumerate(found.values):
            if value in truth:
                error = found.estimate[place] - truth[value]
                scores.append(error / found.standard_error[place])
                covered.append(found.lower[place] <= truth[value] <= found.upper[place])
                all_ = found.lower_simultaneous[place], found.upper_simultaneous[place]
                together.append(all_[0] <= truth[value] <= all_[1])
    assert len(scores) == 240
    assert abs(np.mean(scores)) < stats.norm.isf(FALSE_ALARM / 2) / np.sqrt(len(scores))
    assert 0.6 < np.var(scores) < 1.5  # the variance of 240 squares is known to 1 in 11
    assert np.sum(covered) >= stats.binom.ppf(FALSE_ALARM, 240, 0.95)
    assert np.mean(covered) < 1
    assert all(together)


def test_a_bucket_that_two_strings_share_is_left_to_the_other_rows() -> None:
    """Without noise: with few buckets many of the strings that are found share one somewhere."""
    oracle = k_ary(40.0, 64)
    values = words(12, 13, longest=3)
    holders = np.arange(12, 0, -1) * 500
    schedule = Schedule((3, 4), (4, 6), (1, 1))
    truth = dict(zip(values, holders / holders.sum(), strict=True))
    seen = 0
    for seed in range(20):
        found = search(
            Protocol(SMALL, schedule, oracle, seed), values, holders, seed, Search(64, 1.0)
        )
        for value, estimate in zip(found.values, found.estimate, strict=True):
            if value in truth:
                seen += 1
                assert estimate == pytest.approx(truth[value], abs=0.03)
    assert seen > 100


def test_confidence_widens_intervals() -> None:
    values, holders = words(20, 14), np.full(20, 2000)
    protocol = Protocol(SMALL, STEPS, NOISY, 2)
    counts = report(protocol, values, holders, SeededRandom(15))
    wide, narrow = (discover(protocol, counts, Search(), confidence=c) for c in (0.99, 0.5))
    assert (wide.lower <= narrow.lower).all()
    assert (wide.upper >= narrow.upper).all()
    assert (wide.upper > narrow.upper).any()
    assert (wide.lower_simultaneous <= wide.lower).all()
    with pytest.raises(ValueError, match="confidence"):
        discover(protocol, counts, Search(), confidence=1.0)


def test_steps_must_make_up_the_string() -> None:
    with pytest.raises(ValueError, match="add up to 7"):
        Protocol(SMALL, replace(STEPS, steps=(3, 2, 1)), NOISY, 1)
