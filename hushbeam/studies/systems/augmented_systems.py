"""Systems whose shuffler draws the dummies, by name; they are in no catalogue of what users run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hushbeam.studies.systems.augmented import Augmented
from hushbeam.studies.systems.dummy_laws import LAWS, PUBLISHED
from hushbeam.studies.systems.filtered import Filtered
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.frequency.task import FrequencyTask
from mechanisms.planner.search import Design, search
from mechanisms.targets.rules import Target


@dataclass(frozen=True)
class _Design(Design[FrequencyOracle]):
    """A design that is in no catalogue, for users are only half of it."""

    postprocess: str = "auto"


def _drawn(name: str, target: Target[FrequencyTask]) -> Design[FrequencyOracle]:
    """A system whose shuffler adds dummies to every value."""
    return _Design(target, name, Augmented.meeting(target, parts=LAWS[name](target)))


def _filtered(name: str, target: Target[FrequencyTask]) -> Design[FrequencyOracle]:
    """A system whose shuffler adds dummies to the values that pass a filter."""
    return _Design(target, name, Filtered.fitting(target), postprocess="pop")


class _AugmentedSystem(NamedTuple):
    made: Callable[[str, Target[FrequencyTask]], Design[FrequencyOracle]]
    bounds: tuple[str, ...] = ("exact",)


AUGMENTED: Mapping[str, _AugmentedSystem] = {
    **{
        name: _AugmentedSystem(_drawn, ("exact", *["published"] * (name in PUBLISHED)))
        for name in LAWS
    },
    "fme": _AugmentedSystem(_filtered),
}
"""Name -> (its name, target) -> the design; and the bounds that it serves."""


def best_design(target: Target[FrequencyTask], name: str) -> Design[FrequencyOracle]:
    """The best parameters of a system, augmented or of the catalogue.

    Args:
        target: what must hold.
        name: one of `histograms.SYSTEMS`.

    Raises:
        ValueError: the target is out of reach.
    """
    return AUGMENTED[name].made(name, target) if name in AUGMENTED else search(target, name)
