"""The price of a release, computed again from the design that its statement holds as data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

from mechanisms import designs
from mechanisms.channel import Guarantee
from mechanisms.privacy.loss import worst_profile
from pipelines.errors import RequestError
from pipelines.ledger.accounting import short, summed, total
from pipelines.ledger.entries import Loss
from pipelines.verify.verdict import Check, fault, holds, unchecked

_SUBJECT = "price"
_ROUNDED = 1 + 1e-9  # sums of epsilons end in other digits
_TIGHT = 1 - 1e-3
# What a record of anybody may raise on its way to a design, and to its price.
_STRANGE = (
    ValueError, TypeError, KeyError, AttributeError, IndexError, ArithmeticError, MemoryError,
    RecursionError, RequestError,
)  # fmt: skip

# What promises more comes first.
_MODELS, _NEIGHBOURS = ("local", "shuffle", "central"), ("add or remove", "replace")

# What a request and its design, or the mechanism in it, call alike, where both have it.
_NAMED = (
    "model", "neighbours", "above", "horizon", "firings", "radius", "dimension", "cells",
    "max_messages", "bound",
)  # fmt: skip
# Kind of a design -> what it calls the devices that a request has enrolled.
_ENROLLED = {
    "device counters": "enrolled", "split and mix": "most", "split and mix, two numbers": "most",
}  # fmt: skip
# What a statement says of a training -> what its design calls it.
_TRAINING = {"lots": "steps", "probability_of_a_row": "rate", "noise_in_clips": "sigma"}

Statement = Mapping[str, Any]


def of_metric(name: str, said: Statement) -> Check:
    """Whether the design of one metric meets what its statement promises.

    Args:
        name: by which lines call it.
        said: its statement.
    """
    promise, record = said["guarantees"]["release"], said.get("design")
    if promise["epsilon"] is None:
        return unchecked(_SUBJECT, f"{name}: nothing is promised")
    if record is None:
        return unchecked(_SUBJECT, f"{name}: its price cannot be computed from its statement yet")
    epsilon, delta = promise["epsilon"], promise["delta"]
    claim = f"epsilon {epsilon:.6g}, delta {delta:.3g}"
    try:
        design = designs.read(record)
        if design.neighbours != promise.get("neighbours"):
            return fault(_SUBJECT, f"{name}: its noise is for other neighbours than it promises")
        met = designs.require_met(design, epsilon, delta)
    except designs.UnknownDesignError:
        return unchecked(_SUBJECT, f"{name}: this version does not know its design")
    except _STRANGE:
        return fault(_SUBJECT, f"{name}: its noise does not meet {claim}")
    try:
        wrong = _contradicted(design, met.model, said)
    except _STRANGE:
        wrong = "its statement lacks what its price is computed from"
    if wrong:
        return fault(_SUBJECT, f"{name}: {wrong}")
    tight = "computed again" if not _met(design, epsilon * _TIGHT, delta) else "computed to be less"
    return holds(_SUBJECT, f"{name}: {claim}, {tight}")


def _met(design: Any, epsilon: float, delta: float) -> bool:
    try:
        designs.require_met(design, epsilon, delta)
    except _STRANGE:
        return False
    return True


def _contradicted(design: Any, model: str, said: Statement) -> str:
    """What a statement says in words of its own that its design does not.

    Raises:
        KeyError, TypeError: it does not say what the price needs.
    """
    promise, local = (said["guarantees"][name] for name in ("release", "local"))
    request, kind = said["request"], said["design"]["is"]
    if _MODELS.index(promise["model"]) < _MODELS.index(model):
        return f"its noise is that of the {model} model"
    if promise["unit"].split()[0] != request["unit"]:
        return "it promises for another unit than its request names"
    if first := said.get("first_round"):
        spent = design.rounds[0]
        if any(first["guarantee"][name] != getattr(spent, name) for name in ("epsilon", "delta")):
            return "its first round costs another thing in its design"
        if [*map(float, request["bounds"].split(","))] not in first["bounds"].values():
            return "its bounds are not those that its first round chose"
    if not _report_met([_of_report(design)], local):
        return "a single report reveals more than it promises"
    own: dict[str, Any] = {}
    if isinstance(design, designs.RandomisedReports) and design.model == "shuffle":
        own = {"min_reports": design.n, "honest_share": design.honest_share}
        if not said["n"] >= design.n:
            return f"it counts on {design.n:,} reports, and fewer came"
    elif kind in _ENROLLED:
        own = {"enrolled": getattr(design, _ENROLLED[kind])}
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


def _of_report(design: Any) -> tuple[float, float]:
    """Epsilon and delta of a single report, of which most designs promise nothing."""
    local = getattr(design, "local", None)
    return (math.inf, 1.0) if local is None else (local.epsilon, local.delta)


def _report_met(parts: Sequence[tuple[float, float]], promise: Statement) -> bool:
    """Whether all that a unit reports keeps to what is promised of it."""
    if promise["epsilon"] is None:
        return bool(promise["model"] == "none")
    sums = {"epsilon": (e for e, _ in parts), "delta": (d for _, d in parts)}
    return all(math.fsum(sums[name]) <= promise[name] * _ROUNDED for name in sums)


def of_plan(said: Statement, metrics: Mapping[str, Statement]) -> Iterator[Check]:
    """Whether the prices of all metrics compose to what a release promises.

    Args:
        said: the statement of the whole release.
        metrics: the statements of those that were published, by name.
    """
    promise, accounts = said["guarantees"]["release"], said.get("design")
    if promise["epsilon"] is None or accounts is None:
        yield unchecked(_SUBJECT, "the joint price cannot be computed from its statement yet")
        return
    try:
        yield from _joint(said, promise, accounts, metrics)
    except _STRANGE:
        yield fault(_SUBJECT, "the accounts of the release are none, or do not meet their prices")


def _joint(
    said: Statement, promise: Statement, accounts: Any, metrics: Mapping[str, Statement]
) -> Iterator[Check]:
    listed = [name for account in accounts for name in account["metrics"]]
    if sorted(listed) != sorted({*said["metrics"], *said["withheld"]}):
        yield fault(_SUBJECT, "the accounts of the release are not those of its metrics")
        return
    before = said.get("first_round")
    if not all(map(_costs_one, [*accounts, *([] if before is None else before["design"])])):
        yield fault(_SUBJECT, "metrics of one account do not divide the units: their prices add up")
        return
    claims = [own["guarantees"]["release"] for own in metrics.values()]
    for name in ("epsilon", "delta"):
        if any(one[name] is None or not one[name] <= promise[name] * _ROUNDED for one in claims):
            yield fault(_SUBJECT, f"all metrics together: one of them alone has more {name}")
            return
    units = {promise["unit"].split()[0], said["plan"]["unit"].split()[0]}  # "user per window"
    if {one["unit"] for one in claims} - {promise["unit"]} or len(units) > 1:
        yield fault(_SUBJECT, "all metrics together: their unit is another")
        return
    for name, order in (("model", _MODELS), ("neighbours", _NEIGHBOURS)):
        if any(order.index(one[name]) > order.index(promise[name]) for one in claims):
            yield fault(_SUBJECT, f"all metrics together: one of them promises less ({name})")
            return
    losses, reports, unknown = [], list[tuple[float, float]](), 0
    for account in accounts:
        for name, record in account["metrics"].items():
            own = metrics.get(name)
            if own is None:
                continue
            paid = own["guarantees"]["release"]
            if own.get("design") != record or not (
                paid["epsilon"] <= account["epsilon"] and paid["delta"] <= account["delta"]
            ):
                yield fault(_SUBJECT, f"{name} promises another thing than the release says of it")
                return
        known = [record for record in account["metrics"].values() if record is not None]
        unknown += len(account["metrics"]) - len(known)
        if known:
            made = [designs.read(record) for record in known]
            losses.append(_loss(promise["unit"], account, known, made))
            shown = [_of_report(one) for one in made]
            reports.append((max(e for e, _ in shown), max(d for _, d in shown)))
    earlier = [] if before is None else [_known(promise["unit"], one) for one in before["design"]]
    for name, order in (("model", _MODELS), ("neighbours", _NEIGHBOURS)):
        worst = max((order.index(getattr(one, name)) for one in [*losses, *earlier]), default=0)
        if worst > order.index(promise[name]):
            yield fault(_SUBJECT, f"all metrics together: noise of one is for another {name}")
            return
    # Of those that have no design nothing is known, and the others come to this much at the least.
    if not _report_met(reports, said["guarantees"]["local"]):
        yield fault(_SUBJECT, "all metrics together: a unit's reports reveal more than is promised")
        return
    if unknown:
        yield unchecked(_SUBJECT, f"all metrics together: {unknown} of them have no design as data")
        return
    epsilon, delta = promise["epsilon"], promise["delta"]
    claim = f"epsilon {epsilon:.6g}, delta {delta:.3g}"
    if before is not None:
        # What it may cost is fixed before the second, and is added to that.
        first = before["guarantee"]
        if not _composed(earlier, first["epsilon"], first["delta"]):
            yield fault(_SUBJECT, "the first round comes to more than is said of it")
            return
        epsilon, delta = epsilon - first["epsilon"], delta - first["delta"] * (2 - _ROUNDED)
    if _composed(losses, epsilon, delta):
        yield holds(_SUBJECT, f"all metrics together: {claim}, computed again")
    else:
        yield fault(_SUBJECT, f"its metrics together come to more than {claim}")


def _costs_one(account: Statement) -> bool:
    """Whether an account costs what one of its metrics does: a unit's public draw takes it to one.

    A shuffler would show how many answer each, and permanent noise answers all of them in turn.

    Raises:
        KeyError, TypeError, ValueError: whose draw a metric takes is not said.
    """
    metrics = account["metrics"]
    if len(metrics) == 1:
        return True
    draws = sorted((int(first), int(last)) for first, last in account["draws"].values())
    ends = [-1, *chain.from_iterable(draws), 1 << 64]
    parted = all(low < high for low, high in pairwise(ends))
    made = [designs.read(record) for record in metrics.values() if record is not None]
    alone = all(
        isinstance(one, designs.RandomisedReports) and (one.model, one.distinct) == ("local", None)
        for one in made
    )
    return alone and parted and account["draws"].keys() == metrics.keys()


def _composed(losses: Sequence[Loss], epsilon: float, delta: float) -> bool:
    """Whether losses keep to a promise together."""
    added = summed(losses)
    spent = added.epsilon
    if not (spent <= epsilon and added.delta <= delta):
        spent = total(losses, delta).epsilon
    return spent <= epsilon * _ROUNDED


def _known(unit: str, account: Statement) -> Loss:
    """What one account may cost, whose metrics all have a design."""
    records = [*account["metrics"].values()]
    return _loss(unit, account, records, [*map(designs.read, records)])


def _loss(unit: str, account: Statement, records: list[Any], made: list[Any]) -> Loss:
    """What one account may cost, by the designs of its metrics.

    Raises:
        ValueError: their noise is too small for it.
    """
    price = account["epsilon"], account["delta"]
    model = max((designs.require_met(one, *price).model for one in made), key=_MODELS.index)
    neighbours = max((one.neighbours for one in made), key=_NEIGHBOURS.index)
    curves = [designs.profile(one, *price) for one in made]
    # In the digits that the plan has composed: other points are another bound.
    profiles = [
        curve if record.get("distinct") else short(curve)
        for record, curve in zip(records, curves, strict=True)
    ]
    return Loss.of(Guarantee(model, *price, unit, "", neighbours), worst_profile(profiles))
