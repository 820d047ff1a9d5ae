"""Devices' dummies in slots: what is cut is paid for, and what is empty tells nothing."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from scipy import stats

from mechanisms.counters.amounts import Amounts
from mechanisms.counters.device_design import DeviceCounters
from mechanisms.counters.device_slots import SlottedDevices
from mechanisms.counters.devices import MaskedCounters, PoissonCounters
from mechanisms.counters.levels import Layout, Level
from mechanisms.privacy.masked_laplace import MaskedLaplace
from mechanisms.randomness import SeededRandom
from tests.fakes.few import few
from tests.oracles.statistics import FALSE_ALARM

PAIR = (Level(1, 2),)


def pair(mean: float, room: int, neighbours: str = "replace") -> SlottedDevices:
    """Two counters, and three honest devices of four."""
    noise = PoissonCounters((mean,))
    return SlottedDevices(PAIR, noise, neighbours, 1.0, 0.9, 4, 0.7, room=(room,))  # type: ignore[arg-type]


def meeting(*asked: Any, most_messages: float = math.inf, **more: Any) -> SlottedDevices:
    """The slots of the least Poisson noise that meets a target."""
    return SlottedDevices.of(
        DeviceCounters.meeting(*asked, laws=["poisson"], **more), most_messages
    )


def of_device(mean: float, room: int, size: int = 40) -> np.ndarray:
    """(size, size) the exact law of one device's dummies on two codes, the largest of them cut."""
    law = np.zeros((size, size))
    for k in range(size):
        for j in range(k + 1):
            kept = min(j, room)
            chance = stats.poisson.pmf(k, 2 * mean) * stats.binom.pmf(j, k, 0.5)
            law[kept, min(k - j, room - kept)] += chance
    return law


def of_batch(mean: float, room: int, devices: int, size: int = 40) -> np.ndarray:
    """The exact law of the dummies of several devices, whose means add up to a mean."""
    one = np.fft.fft2(of_device(mean / devices, room, size))
    return np.maximum(np.fft.ifft2(one**devices).real, 0)


@pytest.mark.parametrize("neighbours", ["add or remove", "replace"])
@pytest.mark.parametrize("room", [0, 1, 2, 4, 12])
def test_no_batch_shows_more_than_claimed_whatever_is_cut(room: int, neighbours: str) -> None:
    law = of_batch(4.0, room, 3)
    seen = {c: np.roll(law, c, axis=(0, 1)) for c in ((0, 0), (1, 0), (0, 1))}
    pairs = [p for p in permutations(seen, 2) if neighbours == "replace" or (0, 0) in p]
    design = pair(4.0, room, neighbours)
    for epsilon in (0.3, 1.0, 2.0):
        truth = max(np.maximum(seen[a] - math.exp(epsilon) * seen[b], 0).sum() for a, b in pairs)
        assert truth <= design.price.upper(epsilon) + 1e-9
    if not room:  # no dummy at all: nothing less than everything may be claimed
        assert design.price.upper(2.0) == 1


@pytest.mark.parametrize("own", [(2, 2), (0, 2), (1, 2)])
@pytest.mark.parametrize("room", few((1, 3), bool))
def test_devices_send_what_is_priced_whatever_they_have_to_say(own: tuple, room: int) -> None:
    """Dummies have one law, and never more slots than they may, beside idle words and others."""
    design, n = pair(3.0, room), 40_000
    word = np.full((n, 1), own[0], np.uint64)
    assert (word[0, 0] == design.nulls[0]) == (own[0] == 2)
    reports = design.filled(word, SeededRandom(3))
    assert reports.shape == (n, 1 + room)
    assert (np.diff(reports.astype(int), axis=1) >= 0).all()  # no place tells whose a word is
    drawn = np.stack([(reports == code).sum(axis=1) - (own[0] == code) for code in (0, 1)], axis=1)
    assert drawn.min() == 0
    assert drawn.sum(axis=1).max() == room
    assert goodness(drawn, of_device(1.0, room)) > FALSE_ALARM
    assert goodness(drawn, of_device(1.3, room)) < FALSE_ALARM  # 30 % off would be seen


def goodness(drawn: np.ndarray, law: np.ndarray) -> float:
    """How likely it is that numbers of two codes lie as far from their law."""
    seen = np.zeros_like(law)
    np.add.at(seen, tuple(drawn.T), 1)
    due = law * len(drawn)
    rare = due < 5
    found, expected = (
        np.append(seen[~rare], seen[rare].sum()),
        np.append(due[~rare], due[rare].sum()),
    )
    kept = expected > 0
    return float(
        stats.chisquare(found[kept], expected[kept] * len(drawn) / expected[kept].sum()).pvalue
    )


def test_empty_slots_tell_what_the_counters_leave_of_them_and_nothing_else() -> None:
    """So nulls need no dummies: who has rows changes them as it changes the counters."""
    design = meeting(Amounts(3, 2, 2).levels, "add or remove", 1.0, 1e-6, enrolled=1000)
    own, n = Layout(design.levels), 300
    busy = own.idle(n)
    busy[:, 0], busy[:50, 2] = 1, 4
    for words in (own.idle(n), busy):
        sent = design.filled(words, SeededRandom(1))
        counts = design.layout.count(sent.ravel(), np.tile(design.layout.types, n))
        assert counts.sum() == sent.size
        assert design.reports(counts) == n
        slots = n * np.bincount(design.layout.types)
        sums = [row.sum() for row in design.layout.split(counts)]
        assert (counts[design.nulls] == slots - sums).all()
    assert set(sent.ravel().tolist()) <= set(range(design.codes))


@pytest.mark.parametrize("sent", [12, 9])
def test_totals_are_unbiased_however_many_devices_have_sent(sent: int) -> None:
    """What is lost of the dummies is known by the words that came."""
    design = meeting([Level(1, 4)], "replace", 2.0, 1e-3, 12, honest_share=0.5)
    own, times = Layout(design.levels), 3000
    words = own.idle(sent * times).reshape(times, sent, 1)
    words[:, :5] = 2
    types = np.tile(design.layout.types, sent)
    rng = SeededRandom(2)
    batches = design.filled(words.reshape(-1, 1), rng).reshape(times, -1)
    rows = np.array([design.centred(design.layout.count(batch, types))[0] for batch in batches])
    variance = design.variances[0] * sent / 12
    assert np.abs(rows.mean(axis=0) - [0, 0, 5, 0]).max() < 6.5 * math.sqrt(variance / times)
    assert rows.var(axis=0) == pytest.approx(np.full(4, variance), rel=0.2)
    if sent == 12:
        sums = np.array([design.simulate([0, 0, 5, 0], rng) for _ in range(times)])
        for place in range(design.codes):
            by_words = [design.layout.count(batch, types)[place] for batch in batches[:1000]]
            assert stats.ks_2samp(sums[:, place], by_words).pvalue > FALSE_ALARM


@pytest.mark.parametrize("enrolled", [1000, 100_000])
def test_slots_are_as_few_as_delta_allows(enrolled: int) -> None:
    """And what they cut off is within what was spared of it."""
    levels = [Level(1, 1, float(1 << i)) for i in range(6)]
    design = meeting(levels, "add or remove", 1.0, 1e-6, enrolled)
    assert design.guarantee.delta == 1e-6
    assert 0 < sum(design.distances) * (1 + math.e) < 1e-12
    assert design.layout.poisoning == design.lifts == [1 + room for room in design.room]
    fewer = tuple(room - 1 for room in design.room)
    short = SlottedDevices(
        design.levels, design.noise, "add or remove", 1.0, 1e-6, enrolled, room=fewer
    )
    assert sum(short.distances) * (1 + math.e) > 1e-12
    assert (design.ranges(9), design.least_reports) == ([], enrolled * 9 // 10)


def test_a_liar_moves_a_counter_by_its_slots_and_no_more() -> None:
    design = pair(3.0, 4)
    lies = np.concatenate([np.zeros(5), [1, 2, 3, 2**63, 1]]).astype(np.uint64)
    counts = design.layout.count(lies, np.tile(design.layout.types, 2))
    assert counts.tolist() == [5, 2, 1]
    assert design.lifts == [5]


def test_what_cannot_be_is_refused() -> None:
    masked = MaskedCounters((MaskedLaplace(0.5, 2.0, 0.5),))
    with pytest.raises(ValueError, match="slots are for Poisson dummies"):
        SlottedDevices((Level(1, 1),), masked, "replace", 1.0, 0.5, 4, room=(3,))
    for room in ((), (-1,), (1, 1)):
        with pytest.raises(ValueError, match="for each level"):
            SlottedDevices(PAIR, PoissonCounters((4.0,)), "replace", 1.0, 0.9, 4, room=room)
    with pytest.raises(ValueError, match=r"324 of them for its dummies, and may have 200"):
        meeting([Level(10, 915)], "add or remove", 1.0, 1e-6, 1000, most_messages=200)
