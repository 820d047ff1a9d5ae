"""What a statement says beside its design, of which its price is computed: both have to agree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mechanisms import designs, honesty
from mechanisms.adaptive_rounds import AdaptiveRounds
from mechanisms.channel import Guarantee
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.levels import Level
from mechanisms.counters.split_mix import SplitMix
from pipelines.logs.numbers import read_bounds
from pipelines.wording import condition_of

ROUNDED = 1 + 1e-9
"""What sums of epsilons may be off by: they end in other digits."""

# What promises more comes first.
MODELS, NEIGHBOURS = ("local", "shuffle", "central"), ("add or remove", "replace")

UNITS = {"row": "row", "user": "user", "user per window": "user"}
"""What a plan calls a unit -> what a promise does."""

# What a request and its design, or the mechanism in it, call alike, where both have it.
_NAMED = (
    "model", "neighbours", "above", "horizon", "firings", "radius", "dimension", "cells",
    "max_messages", "bound",
)  # fmt: skip
# Kind -> from where its numbers are told: the lower one of its bounds, or 0.
_FROM = {"sum": "zero", "mean": "low", "variance": "low"}
_SPLIT = ("split and mix", "split and mix, two numbers")
# What a statement says of a training -> what its design calls it.
_TRAINING = {"lots": "steps", "probability_of_a_row": "rate", "noise_in_clips": "sigma"}

Statement = Mapping[str, Any]


def contradiction(design: Any, model: str, said: Statement) -> str:
    """What a statement says in words of its own that its design does not; empty if nothing.

    Args:
        design: of the release.
        model: of its noise.
        said: the statement.

    Raises:
        KeyError, TypeError, ValueError: it does not say what the price needs.
    """
    promise, request, kind = said["guarantees"]["release"], said["request"], said["design"]["is"]
    if MODELS.index(promise["model"]) < MODELS.index(model):
        return f"its noise is that of the {model} model"
    if UNITS.get(request["unit"]) != request["unit"] or promise["unit"] != _unit(design, request):
        return "it promises for another unit than its request and its design name"
    if first := said.get("first_round"):
        spent = design.rounds[0]
        if any(first["guarantee"][name] != getattr(spent, name) for name in ("epsilon", "delta")):
            return "its first round costs another thing in its design"
        if [*map(float, request["bounds"].split(","))] not in first["bounds"].values():
            return "its bounds are not those that its first round chose"
    if wrong := of_reports([of_report(design)], said["guarantees"]["local"], request["unit"]):
        return wrong
    distinct = getattr(design, "distinct", None)
    if request.get("distinct_values") != distinct:
        return "a unit reports another number of values in its design than in its request"
    for name in () if distinct else ("epsilon", "delta"):  # permanent noise is paid for by values
        if request.get(name) is not None and not promise[name] <= request[name] * ROUNDED:
            return f"it promises a larger {name} than its request"
    if wrong := _contributed(design, request, said["release"]):
        return wrong
    own: dict[str, Any] = {}
    if isinstance(design, designs.RandomisedReports) and design.model == "shuffle":
        own = {"min_reports": design.n, "honest_share": design.honest_share}
        if not said["n"] >= design.n:
            return f"it counts on {design.n:,} reports, and fewer came"
    elif kind == "device counters":
        own = {"enrolled": design.enrolled, "honest_share": design.honest_share}
    elif kind in _SPLIT:
        own = {"enrolled": design.most}
        if honesty.crowd(request["enrolled"], request["honest_share"]) != design.honest:
            return "it counts on more or fewer honest devices than its request"
    elif kind == "gaussian filter":  # its answers are held to the budget of the request
        own = {"epsilon": design.epsilon, "delta": design.delta}
    for part in (design, getattr(design, "mechanism", None)):
        named = {name: getattr(part, name, None) for name in _NAMED}
        own |= {k: v for k, v in named.items() if None not in (v, request.get(k))}
    for name, value in own.items():
        if request[name] != value:
            shown = value if isinstance(value, str) else f"{value:g}"
            return f"{name} is {shown} in its design, and another in its request"
    if kind == "dp-sgd":
        if any(said["training"][name] != getattr(design, own) for name, own in _TRAINING.items()):
            return "it was trained in other steps, or with other noise, than its design has"
        if (design.averages is None) != request["validation"]:
            return "how wrong the model is was told by others than its design says"
    return ""


def _contributed(design: Any, request: Statement, kind: str) -> str:
    """How a unit may move less in a design than its request lets it; empty if nowise."""
    design = design.rounds[-1] if isinstance(design, AdaptiveRounds) else design
    many, most = request.get("rows_per_user") or 1, request.get("per_value") or 1
    levels = getattr(design, "levels", ())
    own = levels[: len(levels) - getattr(design, "beside", 0)]
    far = _farthest(design, own) if kind in _FROM else None
    if far is not None and not far * ROUNDED >= _span(request, kind):
        return "a unit moves its figures by less in its design than its bounds let it"
    rows = getattr(design, "rows", 1)
    # Rows that count each for itself raise one counter again and again: few counters cap nothing.
    if (request.get("by_row") and rows < many) or any(
        level.slots * rows < min(many, level.counters) for level in own
    ):
        return f"a unit raises fewer counters in its design than its {many:,} rows"
    parts = design.parts if isinstance(design, JobTotals) else ()
    reach = max((part.high for part in parts), default=math.fsum(one.weight for one in own))
    if own and most > 1 and not reach >= most:
        return f"a unit adds less in its design than {most:,}"
    return ""


def bounds_compared(said: Statement) -> bool:
    """Whether bounds of numbers are held to how far a unit moves them in the design."""
    design = said.get("design")
    rounds = design.get("rounds") if isinstance(design, dict) else None
    record = rounds[-1] if isinstance(rounds, list) and rounds else design
    return said["release"] in _FROM and isinstance(record, dict) and "unit" in record


def _farthest(design: Any, levels: Sequence[Level]) -> float | None:
    """How far a unit moves numbers in a design, by the units it has; None if it has no such."""
    if not hasattr(design, "unit"):
        return None
    parts = getattr(design, "parts", ())
    if isinstance(design, SplitMix):
        reach = float(max(design.high, -design.low))
    elif parts:
        reach = float(max(max(part.high, -part.low) for part in parts))
    else:
        weights = [level.weight for level in levels]
        reach = max(abs(math.fsum(w for w in weights if sign * w > 0)) for sign in (1, -1))
    return reach * (design.unit or 0.0)


def _span(request: Statement, kind: str) -> float:
    """How far numbers within the bounds of a request reach from where they are told."""
    low, high = read_bounds(request["bounds"])  # which may be moments
    return high - low if _FROM[kind] == "low" else max(abs(low), abs(high))


def _unit(design: Any, request: Statement) -> str:
    """Whose contribution is protected, by the design: the unit of the request on a condition."""
    unit, many = request["unit"], getattr(design, "contribution", None)
    if many is None:
        return str(unit)
    apart, first = request.get("time_column") is not None, request.get("first")
    return of_all(unit, [f"{unit} {condition_of(unit, many.days, design.horizon, apart, first)}"])


def of_all(unit: str, units: Iterable[str]) -> str:
    """Whose contributions a release of several metrics protects: who meets all conditions.

    >>> of_all("user", ["user", "user who is in May", "user who is in May"])
    'user who is in May'
    """
    conditions = dict.fromkeys(one.removeprefix(unit).strip() for one in units if one != unit)
    return f"{unit} {' and '.join(filter(None, conditions))}".rstrip()


def of_report(design: Any) -> Guarantee:
    """What a single report promises: of most designs nothing."""
    return getattr(design, "local", None) or Guarantee.none("nobody has said what it reveals")


def of_reports(parts: Sequence[Guarantee], promise: Statement, unit: str) -> str:
    """How what is promised of all that a unit reports differs from what holds; empty if nowise.

    Args:
        parts: what each of its reports promises.
        promise: of all of them.
        unit: of the release.
    """
    if promise["epsilon"] is None:
        nothing = (promise["model"], promise["unit"]) == ("none", "nobody")
        return "" if nothing else "reports reveal more than is promised of them"
    if any(
        not math.fsum(getattr(part, name) for part in parts) <= promise[name] * ROUNDED
        for name in ("epsilon", "delta")
    ):
        return "reports reveal more than is promised of them"
    # A report of anybody looks like any other's, to whoever sees it; that it is there is seen.
    if [promise[name] for name in ("model", "unit", "neighbours")] != ["local", unit, "replace"]:
        return "what is promised of reports is for another unit, model or neighbours"
    return ""
