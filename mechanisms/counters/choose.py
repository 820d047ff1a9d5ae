"""Who is to draw the dummies: the design of least predicted error among those that are allowed."""

import math
from collections.abc import Callable, Collection, Sequence
from typing import Literal

from mechanisms.channel import Neighbours
from mechanisms.counters.design import Counters
from mechanisms.counters.device_design import DeviceCounters
from mechanisms.counters.device_slots import SlottedDevices
from mechanisms.counters.devices import LAWS, Law
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.levels import Level, Portion
from mechanisms.counters.masks import MOST_DUMMIES
from mechanisms.counters.solve import SHARE

Drawer = Literal["shuffler", "devices", "job"]

DummyCounters = Counters | DeviceCounters
NoisyCounters = DummyCounters | JobTotals
SlottedCounters = Counters | SlottedDevices
"""Those whose reports are all of one size, and may be sealed word by word."""

DRAWERS: tuple[Drawer, ...] = ("shuffler", "devices")
"""Those who hide a message among others, in the order in which refusals are told."""


def least_error(
    levels: Sequence[Level],
    neighbours: Neighbours,
    epsilon: float,
    delta: float,
    drawers: Collection[Drawer] = DRAWERS,
    most_messages: float = math.inf,
    enrolled: int | None = None,
    honest_share: float = 0.9,
    correlated: bool = False,
    beside: Sequence[Level] = (),
    share: float = SHARE,
    most_masked: float = MOST_DUMMIES,
    slotted: bool = False,
    releases: int = 1,
    most_dummies: float = math.inf,
    parts: Sequence[Portion] = (),
    rows: int = 1,
) -> NoisyCounters:
    """The counters whose weighted sum errs least.

    Args:
        levels, neighbours, epsilon, delta: as in `Counters`.
        drawers: who may draw the noise: dummies, or what the job adds to totals.
        most_messages: how many a user may send on average, those that raise counters among them.
        enrolled, honest_share: as in `DeviceCounters`; without devices nothing is asked of them.
        correlated: whether the shuffler may correlate dummies; for digits.
        beside: levels that come after these and are no part of the sum.
        share: of the budget, for them: as in `least_noise` and `least_device_noise`.
        most_masked: how many dummies of the shuffler there may be where they are correlated.
        most_dummies: how many dummies of the shuffler there may be at all.
        slotted: whether all reports are to be of one size, those of devices that draw, too.
        releases: as in `least_noise`; devices' noise is what errs least in one.
        parts: as in `JobTotals`.
        rows: as in `JobTotals`; none but the job's noise serves more than 1.

    Raises:
        ValueError: an argument is out of range, or none that is allowed meets the target; what is
            said is said of the shuffler, if it may draw.

    >>> design = least_error([Level(1, 1)], "add or remove", 1.0, 1e-6, enrolled=10_000)
    >>> type(design).__name__, round(design.column_variance, 2)
    ('Counters', 1.84)
    """
    slots = sum(level.slots for level in (*levels, *beside))
    if not slots <= most_messages:
        raise ValueError(
            f"a user raises {slots:,} counters, each of them a message, and may send "
            f"{most_messages:g}; have fewer digits, or allow more messages"
        )

    def of_shuffler() -> Counters:
        return Counters.meeting(
            levels, neighbours, epsilon, delta, beside,
            correlated=correlated, share=share, most_masked=most_masked, releases=releases,
            most_dummies=most_dummies,
        )  # fmt: skip

    def of_devices() -> DeviceCounters:
        if enrolled is None:
            raise ValueError("devices that send dummies must be enrolled: say how many are")
        # Masked noise comes in clusters, for which a device would need a thousand slots.
        laws: Collection[Law] = ("poisson",) if slotted else LAWS
        free = DeviceCounters.meeting(
            levels, neighbours, epsilon, delta, enrolled, honest_share,
            math.inf if slotted else most_messages, laws, beside, share,
        )  # fmt: skip
        return SlottedDevices.of(free, most_messages) if slotted else free

    def of_job() -> JobTotals:
        target = levels, neighbours, epsilon, delta
        return JobTotals.meeting(*target, beside, share, parts, releases, rows)

    makers: dict[Drawer, Callable[[], NoisyCounters]] = {
        "shuffler": of_shuffler,
        "devices": of_devices,
        "job": of_job,
    }
    made: list[NoisyCounters] = []
    refusals: list[ValueError] = []
    for drawer in makers:
        if drawer in drawers:
            try:
                made.append(makers[drawer]())
            except ValueError as refusal:
                refusals.append(refusal)
    if not made:
        raise refusals[0] if refusals else ValueError("somebody must be allowed to draw dummies")
    return min(made, key=lambda design: design.column_variance)
