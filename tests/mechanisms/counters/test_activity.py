"""Active users: bitmaps against their definitions, and what histories may touch, all of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mechanisms.counters.activity import HISTORIES, Activity, bitmaps
from mechanisms.counters.design import Counters
from mechanisms.counters.levels import Level
from mechanisms.counters.noise import Gaussian
from mechanisms.counters.price import Charge, Price
from mechanisms.randomness import SeededRandom
from pipelines.ledger.accounting import total
from pipelines.ledger.entries import Loss
from tests.mechanisms.counters.constants import GAUSSIAN

SMALL = [
    Activity(1, 3, 3, (1, 3, 6)),
    Activity(1, 4, 2, (1, 2, 4)),
    Activity(1, 3, 0, (1, 3, 6)),
    Activity(2, 2, 2, (1, 2, 4)),
    Activity(3, 2, 1, (1, 3, 6)),
]
every_small = pytest.mark.parametrize("activity", SMALL, ids=str)
MONTHLY = 0.21  # epsilon of a release of which 28 come to 1, at delta 10^-6
USUAL = [Activity(), Activity(7, 4, 4), Activity(1, 28, 7)]


def figures(activity: Activity, active: set[int]) -> dict[tuple[str, int], int]:
    """What a user adds to each figure, by its definition.

    Args:
        activity: what is told.
        active: how many days ago the user was active.
    """
    size = activity.period

    def at(k: int) -> bool:
        return any(day in active for day in range(size * k, size * (k + 1)))

    def new(k: int) -> bool:
        return at(k) and not any(at(k + i) for i in range(1, activity.before + 1))

    found = {("active", span): any(day in active for day in range(span)) for span in activity.spans}
    known = [new(0), at(0) and at(1)]
    found |= {(what, 0): is_ for what, is_ in zip(HISTORIES, known, strict=False)}
    found["resurrected", 0] = at(0) and not any(known)
    found |= {("kept", k): at(0) and new(k) for k in range(1, activity.kept + 1)}
    return {name: int(value) for name, value in found.items()}


def counted(activity: Activity, days: np.ndarray) -> list[np.ndarray]:
    """The counters of users without noise."""
    sets = activity.encode(days)
    return [
        np.bincount(places[places >= 0], minlength=level.counters)
        for places, level in zip(sets, activity.levels, strict=True)
    ]


def told(activity: Activity, days: np.ndarray) -> dict[tuple[str, int], int]:
    counts = counted(activity, days)
    return {
        (one.what, one.size): int(counts[one.level][list(one.cells)].sum())
        for one in activity.figures
    }


@every_small
def test_every_bitmap_is_counted_by_the_definitions(activity: Activity) -> None:
    for word in range(1 << activity.days):
        active = {day for day in range(activity.days) if word >> day & 1}
        assert told(activity, np.array([word])) == figures(activity, active)


@pytest.mark.parametrize("activity", USUAL, ids=str)
def test_long_bitmaps_are_counted_by_the_definitions(activity: Activity) -> None:
    rng = np.random.default_rng(8)
    chosen = [rng.random(64) < rng.choice([0.05, 0.2, 0.5]) for _ in range(2000)]
    for row in chosen:  # all began on some day, and most are active now
        row[rng.integers(64) :] = False
        row[0] |= rng.random() < 0.8
    words = np.array([sum(1 << k for k in np.flatnonzero(row).tolist()) for row in chosen], object)
    expected: dict[tuple[str, int], int] = {}
    for row in chosen:
        for name, value in figures(activity, {*np.flatnonzero(row).tolist()}).items():
            expected[name] = expected.get(name, 0) + value
    assert told(activity, words.astype(np.uint64)) == expected
    assert min(expected.values()) > 5


@every_small
def test_figures_depend_on_the_days_that_they_name_alone(activity: Activity) -> None:
    """Whatever is in a gap, a figure that does not look at it is the same."""
    words = np.arange(1 << activity.days, dtype=np.uint64)
    sets = activity.encode(words)
    for day in range(activity.days):
        other = activity.encode(words ^ np.uint64(1 << day))
        for one in activity.figures:
            ends = [np.isin(found[one.level], one.cells) for found in (sets, other)]
            assert (day in one.ages) == bool((ends[0] != ends[1]).any()), (one, day)


def test_how_long_a_lost_day_is_missed() -> None:
    """As docs/active-users.md says: on each day after it, by the figures that can be told."""
    shown = {
        after: {(f.what, f.size) for f in Activity().figures if after not in f.ages}
        for after in range(1, 60)
    }
    back = {
        name: 1 + max((after for after, names in shown.items() if name not in names), default=0)
        for name in ((f.what, f.size) for f in Activity().figures)
    }
    cohorts = {("kept", k): 29 + k for k in range(1, 29)}
    assert back == cohorts | {
        ("active", 1): 1, ("returning", 0): 2, ("active", 7): 7, ("active", 28): 28,
        ("new", 0): 29, ("resurrected", 0): 29,
    }  # fmt: skip
    for after in range(1, 30):  # lost one a day, the youngest first
        kept = {name for name in shown[after] if name[0] == "kept"}
        assert kept == {("kept", k) for k in range(after + 1, 29)}


# ---- what is priced ------------------------------------------------------------------------------


def histories(activity: Activity, days: int, releases: range) -> np.ndarray:
    """(levels, histories, releases) the counter of each level, or -1, of all sets of some days.

    Args:
        activity: what is told.
        days: of which a history is; bit i of its number is the day i before the last.
        releases: days after the last one, or before it.
    """
    words = np.arange(1 << days, dtype=np.uint64)
    places = []
    for after in releases:
        moved = words << np.uint64(after) if after >= 0 else words >> np.uint64(-after)
        places.append([found[:, 0] for found in activity.encode(moved)])
    return np.array(places).transpose(1, 2, 0)


@every_small
def test_no_two_histories_differ_in_more_than_is_priced(activity: Activity) -> None:
    """All pairs of 8 days, in all releases that see them: one up and one down a level and release.

    So 28 releases of a user who is there, or is not, are priced as 28 counters of each level.
    """
    releases = range(-7, activity.days)
    places = histories(activity, 8, releases)
    raised = places >= 0
    for slots, level in zip(raised, activity.levels, strict=True):
        assert level.slots == 1
        # From nobody to a history, whole: what adding or removing a user changes.
        assert slots.sum(axis=1).max() <= len(releases)
    assert raised[0, -1, :8].all()  # who is active on all days raises one in all releases
    for one in range(places.shape[1]):
        differs = places != places[:, one : one + 1]
        for changed in (differs & raised, differs & raised[:, one : one + 1]):
            assert changed.sum(axis=2).max() <= len(releases)


@every_small
@pytest.mark.parametrize("length", [1, 2, 4])
def test_some_days_of_activity_touch_releases_that_look_at_them(
    activity: Activity, length: int
) -> None:
    """Of 11 days all histories, and all in a stretch of them: see docs/active-users.md."""
    releases = range(-10, activity.days)
    places = histories(activity, 11, releases)
    first = 11 - length  # the days are as old as can be
    others = np.arange(1 << first)
    longest = max(activity.spans[-1], activity.period * (activity.before + 1))
    seen = (longest, activity.days)
    for part in range(1, 1 << length):
        differs = places[:, others] != places[:, others | part << first]
        for changed, most in zip(differs, seen, strict=False):
            assert changed.sum(axis=1).max() <= most + length - 1
    assert differs[0].any(axis=0).any()


def repeated(design: Counters, releases: int) -> Price:
    """What all counters reveal that a user raises in several releases."""
    charges = design.dummies.charges(design.levels, design.neighbours)
    return Price([one.repeated(releases) for one in charges], design.neighbours)


@pytest.mark.verify
def test_the_ledger_composes_the_exact_price() -> None:
    """28 entries come to what 28 counters of each level do, or 1 % more, and to 1 at the most."""
    design = Counters.meeting(Activity().levels, "add or remove", MONTHLY, 1e-8, releases=28)
    loss = Loss.of(design.guarantee, design.profile())
    together = total([loss] * 28, 1e-6)
    low, high = repeated(design, 28).epsilon(1e-6)
    assert low <= together.epsilon <= min(1.01 * high, 1.0)


@pytest.mark.parametrize(
    ("neighbours", "counters", "epsilon", "delta", "low", "high"),
    [row for row in GAUSSIAN if row[1] in (10, 100)],
)
def test_releases_of_a_user_cost_what_equal_counters_do(
    neighbours, counters, epsilon, delta, low, high
) -> None:
    """Five releases of two levels are ten counters, fifty are a hundred: independent constants."""
    levels = Activity().levels
    releases = counters // len(levels)

    def upper(sigma: float) -> float:
        law = Gaussian(math.ceil(9 * sigma), sigma).seen()
        charges = [
            Charge(law, releases * level.slots, releases * level.counters) for level in levels
        ]
        return Price(charges, neighbours).upper(epsilon)

    assert upper(1.005 * high) <= delta < upper(0.995 * low)


def test_spans_that_exclude_each_other_cost_less_than_such_as_do_not() -> None:
    """A month's actives err less although they are a sum, for a user raises one counter of five."""
    target = "add or remove", 1.0, 1e-6
    nested = Counters.meeting([Level(3, 3), Level(1, 3)], *target)
    standing = Counters.meeting(Activity(kept=0).levels, *target)
    assert 5 * standing.variances[0] < nested.variances[0] / 3


@pytest.mark.verify
def test_noise_for_many_releases_errs_less_at_the_same_price() -> None:
    """Of 28 that come to the same, those with the law for 28 err by 0.71 of those for one."""
    target = Activity().levels, "add or remove"
    one, many = Counters.meeting(*target, 0.0632, 1e-8), Counters.meeting(*target, MONTHLY, 1e-8,
                                                                          releases=28)  # fmt: skip
    prices = [repeated(design, 28).epsilon(1e-6)[1] for design in (one, many)]
    assert prices == pytest.approx([0.989, 0.989], rel=0.002)
    assert math.sqrt(many.variances[0] / one.variances[0]) == pytest.approx(0.71, abs=0.01)
    assert many.price.upper(MONTHLY) <= 1e-8
    # And of one release, or of few, it is what errs least in one.
    alone = Counters.meeting(*target, 1.0, 1e-6)
    assert Counters.meeting(*target, 1.0, 1e-6, releases=2).variances[0] < 1.01 * alone.variances[0]


# ---- bitmaps, and what is refused ----------------------------------------------------------------


def test_bitmaps_take_rows_in_any_order_any_number_of_times() -> None:
    rng = np.random.default_rng(2)
    users, ages = rng.integers(0, 50, 3000), rng.integers(-3, 70, 3000)
    expected = np.zeros(50, object)
    for user, age in zip(users.tolist(), ages.tolist(), strict=True):
        expected[user] |= 1 << age if 0 <= age < 64 else 0
    assert bitmaps(users, ages, 50).tolist() == expected.tolist()
    order = rng.permutation(6000)
    twice = np.tile(users, 2)[order], np.tile(ages, 2)[order]
    assert bitmaps(*twice, 50).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"period": 2}, "a period must be one of the spans"),
        ({"before": 1, "kept": 0}, "at least 2 periods"),
        ({"before": 3, "kept": 4}, "a cohort is known for as many periods"),
        ({"before": 40, "kept": 40}, "64 days at the most, and this takes 81"),
        ({"spans": (7, 28)}, "spans must rise, from a day on"),
        ({"spans": (1, 28, 7)}, "spans must rise"),
    ],
)
def test_what_cannot_be_told_is_refused(asked: dict, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Activity(**asked)


# ---- how well figures are known ------------------------------------------------------------------


@pytest.mark.verify
def test_a_million_devices_over_ninety_days() -> None:
    """A user's 28 releases of a month at epsilon 1: a month within 0.1 %, a cohort within 1 %.

    Devices come, stay less and less, and come back; the releases are made of their sums, which is
    the same law. Of 1,122 errors one is beyond 7.2 standard errors, or their spread is off by more
    than six of its own, less than once in 10^9.
    """
    activity = Activity()
    design = Counters.meeting(activity.levels, "add or remove", MONTHLY, 1e-8, releases=28)
    assert repeated(design, 28).upper(1.0) <= 1e-6
    rng, secret = np.random.default_rng(17), SeededRandom(3)
    n, days = 1_000_000, np.zeros(1_000_000, np.uint64)
    born = rng.integers(-30, 90, n)
    loyal = rng.beta(0.6, 1.4, n).astype(np.float32)
    of_month, of_cohort, far = [], [], []
    for today in range(90):
        age = today - born
        stays = loyal * (1 + 1 / (1 + np.maximum(age, 0).astype(np.float32))) / 2
        active = (age == 0) | ((age > 0) & (rng.random(n, np.float32) < stays))
        days = (days << np.uint64(1)) | active.astype(np.uint64)
        if today < 57:  # before that cohorts are not whole
            continue
        counts = counted(activity, days)
        raised = np.concatenate([*counts, [0, 0]])
        centred = design.centred(design.simulate(raised, secret))
        for one in activity.figures:
            cells = list(one.cells)
            truth = counts[one.level][cells].sum()
            error = math.sqrt(len(cells) * design.variances[one.level])
            far.append((centred[one.level][cells].sum() - truth) / error)
            if one.what == "active" and one.size == 28:
                of_month.append(error / truth)
            if one.what == "kept":
                of_cohort.append(error / np.count_nonzero(born == today - one.size))
    assert np.abs(far).max() < 7.2
    assert 0.87 < np.std(far) < 1.13
    assert max(of_month) < 0.001
    assert max(of_cohort) < 0.01
