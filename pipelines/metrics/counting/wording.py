"""What a statement says of noisy counters: who drew the noise, and what is hidden from whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mechanisms.counters.choose import NoisyCounters
from mechanisms.counters.device_design import DeviceCounters
from mechanisms.counters.device_slots import SlottedDevices
from pipelines.wording import upward

_OF_SHUFFLER = (
    "the augmented shuffle model: Murakami, Sei, Eriguchi, 2025 (arXiv 2504.07362); levels and "
    "slots: hushbeam's page on counters"
)
_OF_DEVICES = (
    "Poisson dummies, or masked ones as of Ghazi, Kumar, Manurangsi, Pagh, ICML 2020; levels: "
    "hushbeam's page on counters"
)
_SHUFFLER = (
    "Nothing that a {unit} sends is randomised: the shuffler{here} drew dummies that nobody can "
    "tell from what {unit}s send. The promise is against who sees this release or the shuffled "
    "messages, if the shuffler drew honestly and has told nobody what it drew; it knows the exact "
    "counts."
)
_DEVICES = (
    "Nothing that a {unit} says is randomised: each of {enrolled:,} enrolled devices sends its "
    "share of the dummies in every window, whether it has something to say or not; here the job "
    "that read the log drew them for all of them. The promise is against who sees this release or "
    "the shuffled messages, whoever shuffled them, and counts on {honest:,} devices that send, "
    "follow the protocol and tell nobody what they drew. That a device is enrolled is public."
)
_IN_SLOTS = (
    "Nothing that a {unit} says is randomised: each of {enrolled:,} enrolled devices seals its "
    "share of the dummies in every window, whether it has something to say or not, and nulls in "
    "the rest of its slots, so that all reports are of one size. The promise is against who sees "
    "this release or the shuffled messages, and against a shuffler that passes on all that it was "
    "sent; it counts on {honest:,} devices that send, follow the protocol and tell nobody what "
    "they drew, and nothing is published if fewer have sent. Which devices are enrolled, and send, "
    "is not hidden."
)
NOBODY = "Rows that name no user are of nobody, and count nowhere."


def source(design: NoisyCounters) -> str:
    """Where its dummies are from."""
    return _OF_DEVICES if isinstance(design, DeviceCounters) else _OF_SHUFFLER


def exact(exactly: Sequence[str]) -> str:
    """Which exact counts are published.

    >>> exact(["how many devices sent"]).partition(":")[0]
    'No exact counts are published, except how many devices sent'
    """
    but = f", except {' and '.join(exactly)}" if exactly else ""
    return f"No exact counts are published{but}: neither how many took part nor what was left out."


def who(design: NoisyCounters, unit: str, elsewhere: bool) -> str:
    """Who drew the noise, and whom one has to trust.

    Args:
        design: of the counters.
        unit: whose contribution is protected.
        elsewhere: whether another party draws.
    """
    if isinstance(design, DeviceCounters):
        said = _IN_SLOTS if isinstance(design, SlottedDevices) else _DEVICES
        return said.format(unit=unit, enrolled=design.enrolled, honest=design.honest)
    return _SHUFFLER.format(
        unit=unit, here="" if elsewhere else ", here the job that read the log,"
    )


def liars(design: NoisyCounters, unit: str, influence: float) -> str:
    """What one can do that does not follow the protocol.

    Args:
        design: of the counters.
        unit: whose contribution is protected.
        influence: how far it moves a figure, at the most.
    """
    most = f"moves any one figure by up to {upward(influence, 3):g}"
    if isinstance(design, DeviceCounters) and not isinstance(design, SlottedDevices):
        return (
            f"A device that lies {most} with no more messages than others may happen to send; one "
            "that sends more moves it further, unless the shuffler holds devices to so many. "
            "Nobody sees who lies."
        )
    return (
        f"A {unit} that lies {most}, whatever it sends: a code counts in a slot of its own kind "
        "alone. Nobody sees who lies."
    )


def protected(unit: str, which: str) -> str:
    """What the promises are about, in everyday words.

    Args:
        unit: whose contribution is protected.
        which: neighbours, by name.
    """
    if which == "replace":
        what = "what is in it" if unit == "row" else "which rows it has, and how many of them"
        there = "there is a row" if unit == "row" else "there is such a user"
        return (
            f"The promise covers all that any one {unit} contributes: {what}. It does not cover "
            f"that {there}, nor how many {unit}s took part."
        )
    rows = "all of its rows together, whether they are there or not"
    whole = "whether it is there or not" if unit == "row" else rows
    return (
        f"The promise covers all that any one {unit} contributes: {whole}. It hides whether "
        f"anybody took part, and how many {unit}s did."
    )


def neighbours(unit: str, which: str) -> str:
    """Which two inputs the promises make hard to tell apart; arguments as of `protected`."""
    what = "a row" if unit == "row" else "a user's rows, all of them,"
    if which == "replace":
        return f"{what} becomes any other" if unit == "row" else f"{what} become any others"
    return f"{what} {'is' if unit == 'row' else 'are'} there or not"


def devices(design: NoisyCounters, estimate: Any) -> dict[str, Any]:
    """How many devices sent, if that can be seen: it does not depend on what they have."""
    if not isinstance(design, SlottedDevices):
        return {}
    sent = int(design.reports(estimate.counts))
    return {"devices": {"enrolled": design.enrolled, "counted_on": design.honest, "sent": sent}}
