"""Releases of counters and of split and mix, at small examples, for attacks: whole batches."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Counts, Neighbours
from mechanisms.counters.activity import Activity
from mechanisms.counters.amounts import Amounts, Ends, SignedDigits
from mechanisms.counters.axes import flat
from mechanisms.counters.crosstabs import CrossTabs
from mechanisms.counters.crosstabs import pairs as pairs_of
from mechanisms.counters.design import Counters
from mechanisms.counters.device_design import DeviceCounters
from mechanisms.counters.device_slots import SlottedDevices
from mechanisms.counters.levels import Layout, Level, Slots
from mechanisms.counters.rows import RowCounters
from mechanisms.counters.shares import total
from mechanisms.counters.split_mix import SplitMix
from mechanisms.counters.tree import Tree
from mechanisms.privacy.trial import Trial, register_trial
from mechanisms.randomness import RandomSource, SeededRandom

_Encode = Callable[[Any], list[Slots]]
"""Users -> for each level the places that they raise."""

_ENCODER = Amounts(groups=2, most=3)
_SIGNED = SignedDigits(groups=1, most=3, least=-2)
_ENDS = Ends(groups=1, most=3)
_TREE = Tree.uniform(4, 2)
_DAYS = Activity(before=2, kept=1, spans=(1, 3))
_TABS = CrossTabs(flat([2, 2]), pairs_of(2))
_ROWS = RowCounters(numbers=1, steps=3, sizes=(2,))
_DELTA = 0.05
_NOTHING, _MOST, _OTHER = (-1, 0), (0, 3), (1, 3)  # (group, amount) of one user
# A user without rows has no report: one of nulls alone would be a user of another kind.
_PRESENT: list[tuple[Any, Any]] = [([_MOST], []), ([_NOTHING], [])]
_MOVED = [([_MOST], [_OTHER])]


def amounts(encoder: Amounts) -> _Encode:
    """Of users, each of them (group, amount)."""

    def encode(users: Any) -> list[Slots]:
        groups, amounts = np.array(users, np.int64).reshape(-1, 2).T[:, :, None]
        return encoder.encode(groups, amounts)

    return encode


_USUAL = amounts(_ENCODER)


def shuffler_trial(design: Counters, pairs: Any, encode: _Encode = _USUAL) -> Trial:
    """Counts of counters among the shuffler's dummies.

    Args:
        design: of the encoder's levels.
        pairs: of users.
        encode: what they raise.
    """

    def draw(users: Any, times: int, rng: RandomSource) -> NDArray[Any]:
        raised = _counted(design.layout, design.layout.reports(encode(users)))
        counts = np.stack([design.simulate(raised, rng) for _ in range(times)])
        # Where digits share noises, what they add up to shows one of them in the clear.
        parts = np.split(counts, design.layout.starts[1:], axis=1)
        for group in design.dummies.groups:
            if len(group) > 1:
                digits = [int(design.levels[i].weight) * parts[i] for i in group]
                counts = np.concatenate([sum(digits[1:], digits[0]), counts], axis=1)
        return counts

    return Trial("counters among a shuffler's dummies", design.guarantee, pairs, draw)


def _counted(layout: Layout, reports: NDArray[Any]) -> Counts:
    return layout.count(reports.ravel(), np.tile(layout.types, len(reports)))


def slots_trial(design: SlottedDevices, pairs: Any) -> Trial:
    """Counts of the slots of all devices that are counted on; the others' are known.

    Args:
        design: of the encoder's levels.
        pairs: of users' rows; every other device has none.
    """
    unused = Layout(design.levels)

    def draw(users: Any, times: int, rng: RandomSource) -> NDArray[Any]:
        own = unused.reports(_USUAL(users))
        words = np.concatenate([own, unused.idle(design.honest - len(own))])
        sent = (design.filled(words, rng) for _ in range(times))
        return np.stack([_counted(design.layout, reports) for reports in sent])

    return Trial(f"slots of {design.honest:,} devices", design.guarantee, pairs, draw)


def device_trial(design: DeviceCounters, pairs: Any) -> Trial:
    """The same among dummies of the devices that are counted on; the others' are known."""

    def draw(users: Any, times: int, rng: RandomSource) -> NDArray[Any]:
        idle = [_NOTHING] * (design.honest - len(users))
        rows = np.tile(np.array([*users, *idle]), (times, 1))
        messages, senders = design.send(_ENCODER.encode(rows[:, :1], rows[:, 1:]), rng)
        places = senders // design.honest * design.codes + messages.astype(np.int64)
        counts = np.bincount(places, minlength=times * design.codes).reshape(times, -1)
        added, *taken = np.split(counts, design.shares[0].signs, axis=1)
        # What is seen, turned so that a single column shows the noise in the clear.
        return np.concatenate([added - sum(taken), *taken], axis=1)

    what = f"counters among dummies of {design.honest:,} devices"
    return Trial(what, design.guarantee, pairs, draw)


def _tabs(users: Any) -> list[Slots]:
    return _TABS.encode(np.array(users, np.int64).reshape(-1, 2))


def _rows(users: Any) -> list[Slots]:
    numbers, categories = np.array(users, np.float64).reshape(-1, 2, 1).transpose(1, 0, 2)
    # The ends of the range are told without a coin.
    return _ROWS.encode(numbers, categories.astype(np.int64), SeededRandom(0))


def _beside(users: Any) -> list[Slots]:
    return [*_USUAL(users), np.zeros((len(users), 1), np.int64)]


# Name -> levels, what becomes of a user, pairs, what users raise, and what else the design has.
_COUNTERS: dict[str, tuple[Sequence[Level], Neighbours, Any, _Encode, dict[str, Any]]] = {
    "counters": (_ENCODER.levels, "add or remove", _PRESENT, _USUAL, {}),
    "counters-replaced": (_ENCODER.levels, "replace", _MOVED, _USUAL, {}),
    # Digits of one number of either sign, or told from both ends of its bounds: they share noises.
    "counters-correlated": (
        _SIGNED.levels, "add or remove", [([(0, 3)], []), ([(0, -2)], [])], amounts(_SIGNED),
        {"correlated": True},
    ),
    "counters-ends": (
        _ENDS.levels, "add or remove", [([(0, 3)], []), ([(0, 1)], [])], amounts(_ENDS),
        {"correlated": True},
    ),
    # The path to a cell of a tree.
    "counters-tree": (_TREE.levels, "add or remove", [([3], [])], _TREE.encode, {}),
    "counters-tree-replaced": (_TREE.levels, "replace", [([3], [0])], _TREE.encode, {}),
    # All tables of two columns, of a row alone or beside another.
    "counters-tables": (
        _TABS.levels, "add or remove", [([(0, 1)], []), ([(0, 1), (1, 1)], [(1, 1)])], _tabs, {}
    ),
    # A number and a category, and the count of rows.
    "counters-rows": (
        _ROWS.levels, "add or remove", [([(1.0, 1)], []), ([(float("nan"), 2)], [])], _rows, {}
    ),
    # Whether some of a number was cut stands beside its digits.
    "counters-beside": (
        _ENCODER.levels, "add or remove", [([_MOST], [])], _beside, {"beside": [Level(1, 1)]}
    ),
    # Since when users are active, from bitmaps of their days.
    "counters-days": (
        _DAYS.levels, "add or remove", [([0b101], []), ([0b1], [])], _DAYS.encode, {}
    ),
    "counters-days-replaced": (_DAYS.levels, "replace", [([0b11], [0b10])], _DAYS.encode, {}),
}  # fmt: skip


def _shuffled(name: str) -> Trial:
    """The shuffler's dummies among the counters of a design of that name."""
    levels, neighbours, pairs, encode, more = _COUNTERS[name]
    return shuffler_trial(Counters.meeting(levels, neighbours, 1.0, _DELTA, **more), pairs, encode)


def _devices(neighbours: Neighbours, pairs: Any) -> Trial:
    """The devices' dummies."""
    design = DeviceCounters.meeting(_ENCODER.levels, neighbours, 1.0, _DELTA, 4, honest_share=0.7)
    return device_trial(design, pairs)


def _slotted(neighbours: Neighbours, pairs: Any) -> Trial:
    """The slots of all enrolled devices, one of which has other rows or none."""
    design = DeviceCounters.meeting(
        _ENCODER.levels, neighbours, 1.0, _DELTA, 4, honest_share=0.7, laws=["poisson"]
    )
    return slots_trial(SlottedDevices.of(design), pairs)


def split_mix_trial(design: SplitMix, pairs: Any) -> Trial:
    """The words of a sum by split and mix.

    Args:
        design: of numbers 0 .. 3.
        pairs: of users' numbers.
    """

    def draw(numbers: Any, times: int, rng: RandomSource) -> NDArray[Any]:
        return np.array([seen(numbers, rng) for _ in range(times)])

    def seen(numbers: Any, rng: RandomSource) -> list[int]:
        words, reports = design.mix(design.reports(np.array(numbers, np.int64), rng), rng)
        # What the first words add up to is somebody's number, unless the words were mixed.
        first = total(words[: design.shares], design.modulus)
        return [design.estimate(words, reports), reports, first, int(words[0])]

    return Trial("the words of a sum by split and mix", design.guarantee, pairs, draw)


def _split_mix(neighbours: Neighbours, pairs: Any) -> Trial:
    """Split and mix beside four users."""
    return split_mix_trial(SplitMix.meeting(0, 3, 5, 4, neighbours, 1.0, _DELTA), pairs)


_RELEASES: dict[str, Callable[[], Trial]] = {
    **{name: partial(_shuffled, name) for name in _COUNTERS},
    "device-counters": partial(_devices, "add or remove", _PRESENT),
    "device-counters-replaced": partial(_devices, "replace", _MOVED),
    "device-slots": partial(_slotted, "add or remove", [([_MOST], [])]),
    "device-slots-replaced": partial(_slotted, "replace", _MOVED),
    "split-mix": partial(_split_mix, "add or remove", [([3, 0, 0, 0, 0], [0] * 4)]),
    "split-mix-replaced": partial(_split_mix, "replace", [([3, 0, 0, 0, 0], [0] * 5)]),
}
for _name, _make in _RELEASES.items():
    register_trial(_name)(_make)
