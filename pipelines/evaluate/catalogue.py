"""All that studies ask of the catalogue of mechanisms and of the planners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mechanisms import planner, systems
from mechanisms.central.histogram import CentralHistogram
from mechanisms.heavy_hitters import fitting
from mechanisms.heavy_hitters.fitting import Plan
from mechanisms.heavy_hitters.prefix_code import PrefixCode
from mechanisms.heavy_hitters.schedule import Search
from mechanisms.planner import Design
from mechanisms.privacy.amplification import shuffled_epsilon
from mechanisms.target import Target

BEST = "best"  # what the planner would choose
MODELS = ("shuffle", "central", "local")  # a system is shown in the first of them that it serves

zipf = planner.zipf
# ---- histograms ----------------------------------------------------------------------------------

HISTOGRAM_SYSTEMS: dict[str, Sequence[tuple[str, str]]] = {
    **{name: tuple(system.fits) for name, system in systems.SYSTEMS.items()},
    BEST: tuple((model, "exact") for model in MODELS),
}
"""Name -> every (model, bound) that it serves."""

NO_SYSTEMS = systems.PARTS
"""Name -> why it is no system."""


def histogram_design(name: str, model: str, delta: float, **target: Any) -> Design:
    """The best parameters of a system.

    Args:
        name: of the system, or "best".
        model: as in `Target`.
        delta: of the shuffle model; the others ignore it.
        **target: what else `Target` takes.

    Raises:
        ValueError: it cannot meet the target.
    """
    shuffled = delta if model == "shuffle" else 0.0
    what = Target(model=model, delta=shuffled, **target)
    return planner.design(what, systems.AUTO if name == BEST else name)


def true_epsilon(design: Design) -> float:
    """What a histogram costs by the exact accountant, whatever a paper's bound says."""
    target, mechanism = design.target, design.mechanism
    if target.bound == "published" and not isinstance(mechanism, CentralHistogram):
        return shuffled_epsilon(mechanism, target.n, target.delta)[1]
    return design.release.epsilon


# ---- searches ------------------------------------------------------------------------------------

SEARCHES = fitting.SYSTEMS


def search(
    name: str, code: PrefixCode, false_strings: float, model: str, delta: float, **target: Any
) -> Plan:
    """The search that finds the rarest strings.

    Args:
        name: one of `SEARCHES`.
        code: of the strings.
        false_strings: how many strings that nobody has may be listed on average.
        model: as in `Target`.
        delta: of the shuffle model; the others ignore it.
        **target: what else `Target` takes.

    Raises:
        ValueError: it cannot meet the target.
    """
    shuffled = delta if model == "shuffle" else 0.0
    # The number of buckets is the search's to choose; a target must name some size.
    what = Target(model=model, delta=shuffled, domain_size=2, **target)
    return fitting.fit(what, code, Search(false_strings=false_strings), seed=0, system=name)
