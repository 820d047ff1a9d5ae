"""Systems for the sum of one number a user, by name: what they send, and how far a liar gets."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from hushbeam.studies.engine.cells import Cell, FigureLine, expanded
from mechanisms.channel import Counts, Floats, Neighbours
from mechanisms.counters.amounts import Amounts, SignedDigits, units
from mechanisms.counters.design import Counters
from mechanisms.counters.device_design import DeviceCounters
from mechanisms.counters.devices import Law
from mechanisms.counters.noise import Gaussian, Laplace, ShufflerNoise
from mechanisms.counters.split_mix import SplitMix
from mechanisms.honesty import crowd
from mechanisms.mean.task import MeanTask
from mechanisms.papers.ddps import Ddps
from mechanisms.planner.search import search
from mechanisms.privacy.search import gaussian_mu
from mechanisms.randomness import SeededRandom
from mechanisms.targets.rules import Target

_BEYOND = 1e-18  # what central noise may have beyond its table


class SumSetting(NamedTuple):
    """What users have.

    Attributes:
        n: how many they are, each of them enrolled.
        signed: whether there are negative numbers; a bound holds either way then.
        neighbours: what is to look alike.
        honest_share: as in `DeviceCounters`.
    """

    n: int
    signed: bool
    neighbours: Neighbours
    honest_share: float


@dataclass(frozen=True)
class SumDesign:
    """A system for some numbers, in units of which the bound has `most`.

    Attributes:
        most: the largest number of a user.
        drawn_by: who draws the noise.
        messages: of a user, on average.
        dummies: of the shuffler, on average, for all users together.
        lie: how far one liar moves the sum at the most, in units; infinite without a bound.
        variance: (numbers, how many users have each) -> that of the sum.
        release: (numbers, how many users have each, liars besides, randomness) -> the sum.
    """

    most: int
    drawn_by: str
    messages: float
    dummies: float
    lie: float
    variance: Callable[[Counts, Floats], float]
    release: Callable[[Counts, Counts, int, SeededRandom], float]


Build = Callable[[int, SumSetting, float, float, float], SumDesign]
"""(units, numbers, epsilon, delta, most messages) -> the design; a ValueError says why not."""


def _counted(encoder: Amounts, design: Counters | DeviceCounters) -> SumDesign:
    """A sum by counters."""
    weights = [int(level.weight) for level in encoder.levels]
    drawn_by, messages, lifts = "shuffler", float(len(weights)), [1] * len(weights)
    dummies = float(design.number)
    if isinstance(design, DeviceCounters):
        drawn_by, messages, dummies, lifts = "devices", design.messages, 0.0, design.lifts
    lies = np.multiply(weights, lifts)
    lie = float(max(lies[lies > 0].sum(), -lies[lies < 0].sum()))

    def release(numbers: Counts, counts: Counts, liars: int, rng: SeededRandom) -> float:
        sets = encoder.encode(np.zeros((numbers.size, 1), np.int64), numbers[:, None])
        raised = [
            np.bincount(places[:, 0] + 1, counts, level.counters + 1)[1:]
            for places, level in zip(sets, encoder.levels, strict=True)
        ]
        sums = np.concatenate([*raised, np.zeros(len(weights))]).astype(np.int64)
        estimates = encoder.estimate(design.centred(design.simulate(sums, rng)))
        return float(estimates[0]) + liars * lie

    return SumDesign(
        most=encoder.most,
        drawn_by=drawn_by,
        messages=messages,
        dummies=dummies,
        lie=lie,
        variance=lambda *_: encoder.variance(design.column_variance),
        release=release,
    )


def _counters(correlated: bool) -> Build:
    def build(
        most: int, of: SumSetting, epsilon: float, delta: float, messages: float
    ) -> SumDesign:
        encoder = Amounts(1, 1, most, of.signed)
        if of.signed and correlated:
            encoder = SignedDigits(1, 1, most, least=-most)
        _require_messages(len(encoder.levels), messages)
        return _counted(
            encoder,
            Counters.meeting(encoder.levels, of.neighbours, epsilon, delta, correlated=correlated),
        )

    return build


def _devices(law: Law) -> Build:
    def build(
        most: int, of: SumSetting, epsilon: float, delta: float, messages: float
    ) -> SumDesign:
        encoder = Amounts(1, 1, most, of.signed)
        design = DeviceCounters.meeting(
            encoder.levels, of.neighbours, epsilon, delta, of.n, of.honest_share, messages, (law,)
        )
        return _counted(encoder, design)

    return build


def _noisy(most: int, noise: ShufflerNoise, drawn_by: str, messages: int) -> SumDesign:
    """A sum that somebody knows, and adds noise to."""

    def release(numbers: Counts, counts: Counts, liars: int, rng: SeededRandom) -> float:
        return float(numbers @ counts + liars * most + noise.draw(1, rng)[0] - noise.mu)

    return SumDesign(most, drawn_by, messages, 0.0, most, lambda *_: noise.variance, release)


def _split_mix(
    most: int, of: SumSetting, epsilon: float, delta: float, messages: float
) -> SumDesign:
    low, honest = (-most if of.signed else 0), crowd(of.n, of.honest_share)
    mixed = SplitMix.meeting(low, most, of.n, honest, of.neighbours, epsilon, delta)
    _require_messages(mixed.shares, messages)
    plain = _noisy(most, mixed.noise, "shuffler", mixed.shares)

    def release(numbers: Counts, counts: Counts, liars: int, rng: SeededRandom) -> float:
        # One liar is enough for the largest sum that a collector would take.
        return mixed.totals[1] if liars else plain.release(numbers, counts, 0, rng)

    reports = 1 + (mixed.zeros.mu if mixed.zeros is not None else 0)
    return SumDesign(
        most, "shuffler", mixed.shares, reports * mixed.shares, math.inf, plain.variance, release
    )


def _laplace(most: int, of: SumSetting, epsilon: float, delta: float, messages: float) -> SumDesign:
    return _noisy(most, Laplace.ending(epsilon / most, _BEYOND), "curator", 1)


def _gaussian(
    most: int, of: SumSetting, epsilon: float, delta: float, messages: float
) -> SumDesign:
    sigma = most / gaussian_mu(epsilon, delta)
    return _noisy(most, Gaussian.ending(sigma, _BEYOND), "curator", 1)


def _one_report(
    most: int, of: SumSetting, epsilon: float, delta: float, messages: float
) -> SumDesign:
    """The mechanism for means that errs least, of which each user sends one report."""
    if of.neighbours != "replace":
        raise ValueError("reports tell how many users there are; compare under replace")
    target = Target("shuffle", epsilon, delta, of.n, MeanTask(), honest_share=of.honest_share)
    mechanism = search(target).mechanism
    most, highest = mechanism.cells, int(np.argmax(mechanism.decoded))
    table = np.stack([mechanism.channel(cell) for cell in range(mechanism.inputs)])

    def release(numbers: Counts, counts: Counts, liars: int, rng: SeededRandom) -> float:
        cells = np.bincount(numbers, counts, mechanism.inputs).astype(np.int64)
        reports = rng.generator().multinomial(cells, table / table.sum(axis=1)[:, None]).sum(axis=0)
        reports[highest] += liars
        return (float(mechanism.estimate(reports)) + 1) / 2 * most * int(reports.sum())

    def variance(numbers: Counts, counts: Floats) -> float:
        spread = mechanism.second_moment(numbers) - mechanism.grid[numbers] ** 2
        return float(spread @ counts) * (most / 2) ** 2

    return SumDesign(most, "users", 1, 0.0, mechanism.influence / 2 * most, variance, release)


def _unary(bound: str) -> Build:
    def build(
        most: int, of: SumSetting, epsilon: float, delta: float, messages: float
    ) -> SumDesign:
        if of.neighbours != "replace":
            raise ValueError("bits tell how many users there are; compare under replace")
        _require_messages(most, messages)
        bits = Ddps(epsilon, delta, of.n, most, of.honest_share, bound)

        def release(numbers: Counts, counts: Counts, liars: int, rng: SeededRandom) -> float:
            ones, n, source = int(numbers @ counts), int(counts.sum()), rng.generator()
            zeros = n * most - ones
            kept = source.binomial([ones, zeros], 1 - bits.flip)
            lies = np.array([0, liars * most])
            seen = np.array([zeros, ones]) + (kept - [ones, zeros]) @ [[-1, 1], [1, -1]] + lies
            return (float(bits.estimate(seen)) + 1) / 2 * most * (n + liars)

        def variance(numbers: Counts, counts: Floats) -> float:
            spread = bits.second_moment(numbers) - bits.grid[numbers] ** 2
            return float(spread @ counts) * (most / 2) ** 2

        # All ones, or none, in the place of an honest user who holds the other end.
        lie = (bits.influence / 2 + 1) / 2 * most
        return SumDesign(most, "users", most, 0.0, lie, variance, release)

    return build


def _require_messages(needed: int, messages: float) -> None:
    if not needed <= messages:
        raise ValueError(f"it takes {needed} messages a user, more than the {messages:g} allowed")


class _System(NamedTuple):
    build: Build
    error: float  # in ranges at epsilon 1, about: for the number of units to begin with
    limited: bool  # whether messages are what it can have fewer of
    model: str = "shuffle"


SYSTEMS: Mapping[str, _System] = {
    "counters": _System(_counters(correlated=False), 3.1, limited=True),
    "counters-correlated": _System(_counters(correlated=True), 1.5, limited=True),
    "devices-poisson": _System(_devices("poisson"), 4.9, limited=True),
    "devices-masked": _System(_devices("masked"), 4.9, limited=True),
    "split-mix": _System(_split_mix, 1.4, limited=True),
    "ddps": _System(_unary("exact"), 4.3, limited=True),
    "ddps:published": _System(_unary("published"), 4.3, limited=True),
    "one-report": _System(_one_report, math.inf, limited=False),
    "laplace": _System(_laplace, 1.4, limited=False, model="central"),
    "gaussian": _System(_gaussian, 4.2, limited=False, model="central"),
}


@dataclass(frozen=True)
class SumSystem(FigureLine):
    """A system by name, of so many messages a user at the most, some of whose users lie.

    Attributes:
        name: one of `SYSTEMS`.
        most_messages: of a user on average; None for any number.
        liars: their share of the users.
    """

    name: str = ""
    most_messages: int | None = None
    liars: float = 0.0

    def columns(self, cell: Cell) -> dict[str, Any]:
        return {
            **super().columns(cell),
            "system": self.name,
            "most_messages": self.most_messages,
            "liars": self.liars,
            "by_messages": _label(self.name, None, self.liars),
            "by_liars": _label(self.name, self.most_messages, 0.0),
        }


@lru_cache(maxsize=64)  # liars change nothing
def fitted(
    name: str, most_messages: int | None, of: SumSetting, epsilon: float, delta: float
) -> SumDesign:
    """A system with as many units as are of use, or as can be had.

    Raises:
        ValueError: the system cannot serve this at all.
    """
    system, most = SYSTEMS[name], float(most_messages or math.inf)
    wanted = units(system.error / epsilon, of.n, 1.0).bit_length()
    for size in range(wanted, 1, -1):
        try:
            return system.build((1 << size) - 1, of, epsilon, delta, most)
        except ValueError:  # too many messages, or dummies: fewer units take fewer
            continue
    return system.build(1, of, epsilon, delta, most)


def lines(
    names: Sequence[str], messages: Sequence[int], liars: Sequence[float]
) -> tuple[SumSystem, ...]:
    """Every system under every limit that it can make use of, and with every share of liars.

    Raises:
        RequestError: a name is unknown.

    >>> [str(line) for line in lines(["counters", "laplace"], [4, 9], [0.0])]
    ['counters, 4 messages', 'counters, 9 messages', 'laplace']
    """
    made = []
    for name in expanded(names, SYSTEMS, {"all": tuple(SYSTEMS)}):
        system = SYSTEMS[name]
        limits: Sequence[int | None] = messages if messages and system.limited else (None,)
        for most in limits:
            for share in liars:
                label = _label(name, most, share)
                line = SumSystem(
                    label, "exact", system.model, label=label, reference=system.model == "central",
                    name=name, most_messages=most, liars=share,
                )  # fmt: skip
                made.append(line)
    return tuple(made)


def _label(name: str, messages: int | None, liars: float) -> str:
    words = [name]
    words += [] if messages is None else [f"{messages} message{'s' * (messages != 1)}"]
    words += [f"{100 * liars:g} % malicious clients"] if liars else []
    return ", ".join(words)
