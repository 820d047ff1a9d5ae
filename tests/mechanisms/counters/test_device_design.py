"""Devices' counters: batches by brute force from the tables that are drawn from, draws, liars."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

import numpy as np
import pytest
from scipy import stats

from mechanisms.counters.amounts import Amounts
from mechanisms.counters.choose import least_error
from mechanisms.counters.design import Counters
from mechanisms.counters.device_design import DeviceCounters
from mechanisms.counters.devices import DeviceNoise, MaskedCounters, PoissonCounters
from mechanisms.counters.levels import Level
from mechanisms.counters.price import Neighbours
from mechanisms.counters.trials import device_trial
from mechanisms.privacy.masked_laplace import MaskedLaplace
from mechanisms.privacy.rejection import measure
from mechanisms.randomness import SeededRandom
from mechanisms.sampling.dummy_shares import DummyShare, MaskedShare, PoissonShare
from mechanisms.sampling.integer_tables import IntegerTable, logarithmic, poisson
from tests.fakes.few import few

ONE, VALUES, NUMBER = [Level(1, 1)], [Level(1, 2)], list(Amounts(1, 1, 3).levels)
FAINT = MaskedLaplace(0.2, 0.5, 0.2)
BATCHES = [
    ("count", ONE, PoissonCounters((2.5,)), 64),
    ("values", VALUES, PoissonCounters((3.0,)), 64),
    ("number", NUMBER, PoissonCounters((4.0, 2.0)), 64),
    ("masked count", ONE, MaskedCounters((MaskedLaplace(0.5, 2.0, 0.5),)), 160),
    ("masked values", VALUES, MaskedCounters((FAINT,)), 22),
    ("masked number", NUMBER, MaskedCounters((FAINT, FAINT)), 22),
]


def generating(table: IntegerTable, at: np.ndarray) -> np.ndarray:
    """E[at^N]."""
    total = np.zeros_like(at)
    for weight in reversed(table.weights):
        total = total * at + weight / 2.0**128
    return total * at**table.first


def transform(share: DummyShare, turns: Sequence[np.ndarray]) -> np.ndarray:
    """The generating function of one device's messages, from the tables that it draws from."""
    if isinstance(share, PoissonShare):
        return generating(poisson(share.most), sum(turns) / share.bins)
    assert isinstance(share, MaskedShare)
    signed, paired = (poisson(mean) for mean in share.clusters)
    alone = sum(generating(logarithmic(share.decay), turn) for turn in turns) / share.codes
    both = [turns[i] * turns[i + share.bins] for i in range(share.bins)]
    pairs = sum(generating(logarithmic(share.ratio), turn) for turn in both) / share.bins
    return generating(signed, alone) * generating(paired, pairs)


def batch_law(design: DeviceCounters, size: int, devices: int) -> np.ndarray:
    """(size, ...) the exact law of all codes' dummies; what is larger is next to nothing."""
    turn = np.exp(-2j * math.pi * np.arange(size) / size)
    turns = np.meshgrid(*[turn] * design.codes, indexing="ij", sparse=True)
    m, start, whole = sum(level.counters for level in design.levels), 0, np.ones(1, complex)
    for share in design.shares:
        places = [s * m + start + i for s in range(share.signs) for i in range(share.bins)]
        whole = whole * transform(share, [turns[place] for place in places])
        start += share.bins
    law = np.maximum(np.fft.ifftn(np.broadcast_to(whole, [size] * design.codes) ** devices).real, 0)
    assert law.sum() == pytest.approx(1)
    return law


@pytest.mark.parametrize("neighbours", ["add or remove", "replace"])
@pytest.mark.parametrize(("name", "levels", "noise", "size"), BATCHES, ids=lambda x: str(x)[:16])
def test_no_batch_of_devices_shows_more_than_claimed(
    name: str, levels: list[Level], noise: DeviceNoise, size: int, neighbours: Neighbours
) -> None:
    design = DeviceCounters(tuple(levels), noise, neighbours, 1.0, 0.5, 4, honest_share=0.7)
    assert design.honest == 3  # the user's own device, and two of the three others
    law = batch_law(design, size, design.honest)
    # A value of two, or any digits of a number.
    counters = sum(level.counters for level in levels)
    sets = [s for s in itertools.product((0, 1), repeat=counters) if levels != VALUES or sum(s) < 2]
    laws = {s: np.roll(law, s, axis=range(counters)) for s in sets}
    pairs = list(itertools.permutations(sets, 2))
    if neighbours == "add or remove":
        pairs = [pair for pair in pairs if not min(map(sum, pair))]
    for epsilon in (0.3, 1.0, 2.0):
        truth = max(
            float(np.maximum(laws[one] - math.exp(epsilon) * laws[other], 0).sum())
            for one, other in pairs
        )
        claimed = design.price.upper(epsilon)
        assert truth <= claimed + 1e-7
        # Nothing is claimed that two levels of opposite directions could not show.
        assert claimed <= truth * 1.01 + 1e-6 or neighbours == "replace"
        assert claimed <= truth * 1.6 + 1e-6


@pytest.mark.parametrize(("name", "levels", "noise", "size"), BATCHES, ids=lambda x: str(x)[:16])
def test_devices_send_what_is_priced(
    name: str, levels: list[Level], noise: DeviceNoise, size: int
) -> None:
    design, times = DeviceCounters(tuple(levels), noise, "replace", 1.0, 0.5, 4, 0.7), 40_000
    idle = [np.full((3 * times, level.slots), -1) for level in levels]
    messages, senders = design.send(idle, SeededRandom(5))
    places = senders // 3 * design.codes + messages.astype(np.int64)
    drawn = np.bincount(places, minlength=times * design.codes).reshape(times, design.codes)
    law = batch_law(design, size, 3)
    for i in range(design.codes):
        alone = law.sum(axis=tuple(j for j in range(design.codes) if j != i))
        seen = np.bincount(drawn[:, i], minlength=size)[:size] / times
        assert (np.abs(seen - alone) <= 6.5 * np.sqrt(alone / times) + 20 / times).all()
    # Whatever the codes have in common: how often none of them was sent, and products.
    nothing = law[(0,) * design.codes]
    assert (drawn == 0).all(axis=1).mean() == pytest.approx(
        nothing, abs=6.5 * math.sqrt(nothing / times) + 20 / times
    )
    balances = design.centred(drawn.sum(axis=0))
    spread = [math.sqrt(variance * times) for variance in noise.variances]
    for row, mean, error in zip(balances, noise.expected, spread, strict=True):
        # `centred` took one batch's dummies of four devices, three of which were drawn.
        drift = row + mean * design.enrolled / design.honest - mean * times
        assert (np.abs(drift) <= 6.5 * error).all()


@pytest.mark.parametrize(
    ("neighbours", "masked"),
    few(itertools.product(["replace", "add or remove"], [True, False]), itemgetter(1)),
)
def test_totals_are_unbiased_with_the_variance_stated(neighbours: Neighbours, masked: bool) -> None:
    encoder = Amounts(2) if masked else Amounts(6, 5, 3)
    design = DeviceCounters.meeting(encoder.levels, neighbours, 2.0, 1e-3, 12, honest_share=0.5)
    assert isinstance(design.noise, MaskedCounters) == masked
    assert design.guarantee.epsilon == 2.0
    groups = np.full((12, encoder.most_groups), -1)
    groups[:7, 0] = 1  # five devices have no rows, and send dummies all the same
    amounts = np.where(groups >= 0, encoder.most, 0)
    times = 2000
    sets = encoder.encode(np.tile(groups, (times, 1)), np.tile(amounts, (times, 1)))
    messages, senders = design.send(sets, SeededRandom(6))
    assert (np.diff(senders * design.codes + messages.astype(np.int64)) >= 0).all()
    ends = np.searchsorted(senders, 12 * np.arange(1, times))
    totals = np.array(
        [
            encoder.estimate(design.centred(design.count(words)))
            for words in np.split(messages, ends)
        ]
    )
    variance = encoder.variance(design.column_variance)
    truth = np.zeros(encoder.groups)
    truth[1] = 7 * encoder.most
    assert (np.abs(totals.mean(axis=0) - truth) < 6 * math.sqrt(variance / times)).all()
    assert totals.var(axis=0) == pytest.approx(np.full(encoder.groups, variance), rel=0.25)


@pytest.mark.verify
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("signed", [False, True])
def test_sums_have_the_law_of_what_is_sent(masked: bool, signed: bool) -> None:
    encoder = Amounts(1, 1, 1 if masked else 6, signed)
    noise: DeviceNoise = PoissonCounters((4.0, 3.0, 2.0))
    if masked:
        noise = MaskedCounters((MaskedLaplace(0.5, 2.0, 0.5),))
    design = DeviceCounters(encoder.levels, noise, "replace", 1.0, 0.5, 12, 0.5)
    # As many as see means that are 10 % off: p is below 1e-14 of Poisson noise, 1e-18 of masked.
    columns, times = 2 if signed else 1, 20_000 if masked else 6000
    have = np.array([[encoder.most]] * 5 + [[0]] * 7)
    sets = encoder.encode(np.zeros_like(have), have)
    raised = design.layout.count(design.layout.reports(sets), np.tile(design.layout.types, (12, 1)))
    rng = SeededRandom(7)
    by_sums = np.array([design.simulate(raised, rng) for _ in range(times)])
    messages, senders = design.send([np.tile(s, (times, 1)) for s in sets], rng)
    places = senders // 12 * design.codes + messages.astype(np.int64)
    sent = np.bincount(places, minlength=times * design.codes).reshape(times, -1)
    for a, b in zip(by_sums.T, sent.T, strict=True):
        # A false alarm of 1e-9 or less each.
        assert stats.ks_2samp(a, b).pvalue > 1e-9
    errors = (
        np.array([encoder.estimate(design.centred(row))[0] for row in by_sums]) - 5 * encoder.most
    )
    law = design.error_law(columns, columns - 1)
    assert law.mean() == pytest.approx(0, abs=1e-9)
    assert law.var() == pytest.approx(encoder.variance(design.column_variance))
    places, seen = np.unique(np.rint(errors - law.first).astype(int), return_counts=True)
    assert errors - law.first == pytest.approx(np.rint(errors - law.first), abs=1e-6)
    chances = law.pmf[places]
    assert (np.abs(seen / times - chances) <= 6.5 * np.sqrt(chances / times) + 20 / times).all()


@pytest.mark.parametrize("masked", [False, True])
def test_what_one_job_draws_for_all_devices_is_what_they_send(masked: bool) -> None:
    """Of 3,000 counters, fitted to the law of them all: a false alarm in 10^9."""
    noise: DeviceNoise = PoissonCounters((5.0, 40.0))
    if masked:
        noise = MaskedCounters((MaskedLaplace(0.5, 2.0, 0.5), MaskedLaplace(0.9, 0.5, 0.8)))
    levels = (Level(1, 3000), Level(1, 3000, 2.0))
    design = DeviceCounters(levels, noise, "replace", 1.0, 0.5, 40, 0.5)
    ranges, rng = design.ranges(1 << 12), SeededRandom(8)
    assert len({tuple(r) for r in ranges}) == len(ranges) > 4
    for level in range(2):
        assert sum(r.stop - r.start for r in ranges if r.levels == (level,)) == design.enrolled
    counts = np.zeros(design.codes, np.int64)
    for range_ in ranges:
        np.add.at(counts, *design.draw(range_, rng))
    rows = zip(design.centred(counts), design.variances, strict=True)
    for level, (balance, variance) in enumerate(rows):
        law = design.level_law(level)
        assert law.var() == pytest.approx(variance, rel=1e-6)
        assert abs(balance.mean()) < 6.2 * math.sqrt(variance / 3000)
        places = np.rint(balance - law.first).astype(int)
        likely = law.pmf * 3000 >= 5
        seen = np.bincount(places, minlength=law.pmf.size)
        observed = [*seen[likely], seen[~likely].sum()]
        wanted = [*(3000 * law.pmf[likely]), 3000 * law.pmf[~likely].sum()]
        assert stats.chisquare(observed, wanted, sum_check=False).pvalue > 1e-9


def test_what_stands_beside_costs_its_share() -> None:
    """And the sum's error hardly grows: by half a hundredth of its noise where that is normal."""
    encoder, target = Amounts(915, 10), ("add or remove", 1.0, 1e-6, 10**6)
    alone = DeviceCounters.meeting(encoder.levels, *target)  # type: ignore[arg-type]
    both = DeviceCounters.meeting(encoder.levels, *target, beside=[Level(2, 2)])  # type: ignore[arg-type]
    assert both.beside == 1
    assert 1 < both.column_variance / alone.column_variance < 1.02
    assert both.variances[1] / both.variances[0] == pytest.approx(0.99 / 0.01 * 2 / 10, rel=1e-6)
    assert both.price.upper(1.0) <= 1e-6


def test_messages_are_counted_and_bounded() -> None:
    levels = Amounts(1).levels
    free = DeviceCounters.meeting(levels, "add or remove", 1.0, 1e-6, 100)
    assert isinstance(free.noise, MaskedCounters)
    few = DeviceCounters.meeting(levels, "add or remove", 1.0, 1e-6, 100, most_messages=2)
    assert isinstance(few.noise, PoissonCounters)
    assert few.messages <= 2 < free.messages
    assert few.column_variance > free.column_variance
    with pytest.raises(ValueError, match="dummies and may have"):
        DeviceCounters.meeting(levels, "add or remove", 1.0, 1e-6, 100, most_messages=1.1)


def test_the_least_error_of_those_allowed() -> None:
    levels, target = Amounts(1, 1, 31).levels, ("add or remove", 1.0, 1e-6)
    every = {"enrolled": 10**6, "honest_share": 1.0}
    free = least_error(levels, *target, **every)  # type: ignore[arg-type]
    assert isinstance(free, Counters)
    tied = least_error(levels, *target, correlated=True)  # type: ignore[arg-type]
    assert tied.column_variance < free.column_variance / 3
    devices = least_error(levels, *target, ("devices",), **every)  # type: ignore[arg-type]
    assert isinstance(devices, DeviceCounters)
    assert devices.column_variance > free.column_variance
    with pytest.raises(ValueError, match="have fewer digits"):
        least_error(levels, *target, most_messages=4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be enrolled"):
        least_error(levels, *target, ("devices",))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="somebody must"):
        least_error(levels, *target, ())  # type: ignore[arg-type]


def test_the_guarantee_names_the_honest_share() -> None:
    design = DeviceCounters.meeting(Amounts(915, 10).levels, "add or remove", 1.0, 1e-6, 10**6)
    assert design.honest == 900_000
    how = design.guarantee.how
    assert "900,000 of 1,000,000" in how
    assert "every enrolled device" in how
    assert "add or remove" in how
    everyone = DeviceCounters.meeting(design.levels, "add or remove", 1.0, 1e-6, 10**6, 1.0)
    assert design.column_variance == pytest.approx(everyone.column_variance / 0.9, rel=1e-4)
    assert pickle.loads(pickle.dumps(design)) == design
    assert design.lifts[0] > 1
    assert design.profile().delta(1.0) <= 1e-6 < design.profile().delta(0.5)
    assert design.count(np.array([0, 0, 1 << 63], np.uint64)).tolist()[:2] == [2, 0]


def test_what_tables_round_is_part_of_delta() -> None:
    sharp = DeviceCounters.meeting(ONE, "add or remove", 1.0, 1e-6, 1000)
    bare = sharp.noise.price(ONE, "add or remove").upper(1.0)
    moved = sharp.noise.price(ONE, "add or remove", [1e-9]).upper(1.0)
    assert moved == pytest.approx(bare + (1 + math.e) * 1e-9, rel=1e-6)
    assert sharp.price.upper(1.0) >= bare


def test_too_few_dummies_are_refused_and_found_by_attack() -> None:
    levels = Amounts(groups=2, most=3).levels
    design = DeviceCounters.meeting(levels, "add or remove", 1.0, 0.05, 4, honest_share=0.7)
    pairs = [([(0, 3)], [])]
    made = device_trial(design, pairs)
    assert measure(made, SeededRandom(3), 20_000).epsilon <= 1.0
    loose = DeviceCounters.meeting(levels, "add or remove", 3.0, 0.05, 4, honest_share=0.7)
    wrong = replace(device_trial(loose, pairs), promise=design.guarantee)
    # Power: measured 2.4.
    assert measure(wrong, SeededRandom(3), 20_000).epsilon > 1.5
    weak = DeviceCounters(design.levels, loose.noise, "add or remove", 1.0, 0.05, 4, 0.7)
    with pytest.raises(ValueError, match="this noise does not meet"):
        _ = weak.guarantee


def test_bad_designs_are_refused() -> None:
    with pytest.raises(ValueError, match="enrolled must be at least"):
        DeviceCounters.meeting([Level(1, 1 << 20)], "replace", 0.1, 1e-6, enrolled=10)
    for share in (0.0, 1.1, math.nan):
        with pytest.raises(ValueError, match="honest_share"):
            DeviceCounters.meeting(ONE, "replace", 1.0, 1e-6, 10, share)
    with pytest.raises(ValueError, match="noise for each level"):
        DeviceCounters(tuple(NUMBER), PoissonCounters((1.0,)), "replace", 1.0, 0.5, 4)
    with pytest.raises(ValueError, match=r"n must be|users|reports"):
        DeviceCounters(tuple(ONE), PoissonCounters((1.0,)), "replace", 1.0, 0.5, 0)


def test_workers_get_what_they_draw_by_and_no_tables() -> None:
    """28 MB went to each step, compressed, where 100 devices had asked for their guarantee."""
    design = DeviceCounters.meeting([Level(1, 1), Level(1, 1, 2)], "add or remove", 1.0, 1e-6, 100)
    before = len(pickle.dumps(design))
    assert design.guarantee.epsilon == 1.0
    assert design.profile() is not None
    assert len(pickle.dumps(design)) == before < 10_000
    assert pickle.loads(pickle.dumps(design)) == design
