"""Releases of counters and of split and mix, at small examples, for attacks: whole batches."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Neighbours
from mechanisms.counters.amounts import Amounts
from mechanisms.counters.design import Counters
from mechanisms.counters.device_design import DeviceCounters
from mechanisms.counters.shares import total
from mechanisms.counters.split_mix import SplitMix
from mechanisms.privacy.trial import Trial, register_trial
from mechanisms.randomness import RandomSource

_ENCODER = Amounts(groups=2, most=3)
_DELTA = 0.05
_NOTHING, _MOST, _OTHER = (-1, 0), (0, 3), (1, 3)  # (group, amount) of one user
# A user without rows has no report: one of nulls alone would be a user of another kind.
_PRESENT: list[tuple[Any, Any]] = [([_MOST], []), ([_NOTHING], [])]
_MOVED = [([_MOST], [_OTHER])]


def shuffler_trial(design: Counters, pairs: Any) -> Trial:
    """Counts of `Amounts(groups=2, most=3)` among the shuffler's dummies.

    Args:
        design: of those levels.
        pairs: of users, each of them (group, amount).
    """

    def draw(users: Any, times: int, rng: RandomSource) -> NDArray[Any]:
        groups, amounts = np.array(users, np.int64).reshape(-1, 2).T[:, :, None]
        reports = design.layout.reports(_ENCODER.encode(groups, amounts))
        types = np.tile(design.layout.types, len(reports))
        raised = design.layout.count(reports.ravel(), types)
        return np.stack([design.simulate(raised, rng) for _ in range(times)])

    return Trial("counters among a shuffler's dummies", design.guarantee, pairs, draw)


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


def _shuffler(neighbours: Neighbours) -> Counters:
    return Counters.meeting(_ENCODER.levels, neighbours, 1.0, _DELTA)


def _devices(neighbours: Neighbours) -> DeviceCounters:
    return DeviceCounters.meeting(_ENCODER.levels, neighbours, 1.0, _DELTA, 4, honest_share=0.7)


@register_trial("counters")
def counters() -> Trial:
    """The shuffler's dummies; a user is there or is not."""
    return shuffler_trial(_shuffler("add or remove"), _PRESENT)


@register_trial("counters-replaced")
def counters_replaced() -> Trial:
    """The shuffler's dummies; a user's rows become others."""
    return shuffler_trial(_shuffler("replace"), _MOVED)


@register_trial("device-counters")
def device_counters() -> Trial:
    """The devices' dummies; a user is there or is not."""
    return device_trial(_devices("add or remove"), _PRESENT)


@register_trial("device-counters-replaced")
def device_counters_replaced() -> Trial:
    """The devices' dummies; a user's rows become others."""
    return device_trial(_devices("replace"), _MOVED)


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


def _split_mix(neighbours: Neighbours) -> SplitMix:
    return SplitMix.meeting(0, 3, 5, 4, neighbours, 1.0, _DELTA)


@register_trial("split-mix")
def split_mix() -> Trial:
    """Split and mix; a user is there or is not, beside four who are."""
    return split_mix_trial(_split_mix("add or remove"), [([3, 0, 0, 0, 0], [0] * 4)])


@register_trial("split-mix-replaced")
def split_mix_replaced() -> Trial:
    """Split and mix; a user's number becomes another."""
    return split_mix_trial(_split_mix("replace"), [([3, 0, 0, 0, 0], [0] * 5)])
