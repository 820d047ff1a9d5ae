"""The price of a release, computed again from the design that its statement holds as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any

from mechanisms import designs
from mechanisms.channel import Guarantee
from mechanisms.privacy.loss import worst_profile
from pipelines.errors import RequestError
from pipelines.ledger.accounting import short, summed, total
from pipelines.ledger.entries import Loss
from pipelines.metrics import registry
from pipelines.metrics.options import BY_REPORT, MetricOptions
from pipelines.verify.stated import (
    MODELS,
    NEIGHBOURS,
    ROUNDED,
    UNITS,
    Statement,
    contradiction,
    of_all,
    of_report,
    of_reports,
)  # fmt: skip
from pipelines.verify.verdict import Check, fault, holds, unchecked

_SUBJECT = "price"
_TIGHT = 1 - 1e-3
# What a record of anybody may raise on its way to a design, and to its price.
_STRANGE = (
    ValueError, TypeError, KeyError, AttributeError, IndexError, ArithmeticError, MemoryError,
    RecursionError, RequestError,
)  # fmt: skip


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
        try:
            wrong = _lacking(said)
        except _STRANGE:
            wrong = "and its statement lacks what would tell why"
        if wrong:
            return fault(_SUBJECT, f"{name}: it has no design, {wrong}")
        claims = "it says that it is made of randomised reports, and has no design to show it"
        return unchecked(_SUBJECT, f"{name}: {claims}")
    epsilon, delta = promise["epsilon"], promise["delta"]
    claim = f"epsilon {epsilon:.6g}, delta {delta:.3g}"
    try:
        design = designs.read(record)
        if design.neighbours != promise.get("neighbours"):
            return fault(_SUBJECT, f"{name}: its noise is for other neighbours than it promises")
        met = designs.require_met(design, epsilon, delta)
    except designs.UnknownDesignError:
        why = "this version does not know its design: verify it with the one that made it"
        return fault(_SUBJECT, f"{name}: {why}")
    except _STRANGE:
        return fault(_SUBJECT, f"{name}: its noise does not meet {claim}")
    try:
        wrong = contradiction(design, met.model, said)
    except _STRANGE:
        wrong = "its statement lacks what its price is computed from"
    if wrong:
        return fault(_SUBJECT, f"{name}: {wrong}")
    tight = "computed again" if not _met(design, epsilon * _TIGHT, delta) else "computed to be less"
    return holds(_SUBJECT, f"{name}: {claim}, {tight}")


def _lacking(said: Statement) -> str:
    """How what a release says of itself needs a design; empty of reports, of any mechanism."""
    promised, request = said["guarantees"], said.get("request", {})
    release, kind = promised["release"], str(said["release"])
    replaced = release.get("neighbours") == "replace" and release["model"] in designs.MODELS
    if not (replaced and request.get("drawn_by") in (None, BY_REPORT)):
        return "from which its price follows"
    if registry.known(kind) and not issubclass(registry.options(kind), MetricOptions):
        return f"and no {kind} is made of randomised reports"
    if "cut" in said or type(said.get("n")) is not int or "rejects" not in said:
        return "and it does not count reports, as releases that are made of them do"
    if release["model"] == "local" and promised["local"]["epsilon"] is None:
        return "and nothing is promised of the reports that it says it is made of"
    return ""


def _met(design: Any, epsilon: float, delta: float) -> bool:
    try:
        designs.require_met(design, epsilon, delta)
    except _STRANGE:
        return False
    return True


def of_plan(said: Statement, metrics: Mapping[str, Statement]) -> Iterator[Check]:
    """Whether the prices of all metrics compose to what a release promises.

    Args:
        said: the statement of the whole release.
        metrics: the statements of those that were published, by name.
    """
    promise, accounts = said["guarantees"]["release"], said.get("design")
    if promise["epsilon"] is None:
        yield unchecked(_SUBJECT, "all metrics together: nothing is promised")
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
        if any(one[name] is None or not one[name] <= promise[name] * ROUNDED for one in claims):
            yield fault(_SUBJECT, f"all metrics together: one of them alone has more {name}")
            return
    plan = said["plan"]
    unit = UNITS[plan["unit"]]
    in_order = [metrics[name]["guarantees"]["release"] for name in listed if name in metrics]
    if promise["unit"] != of_all(unit, (one["unit"] for one in in_order)):
        yield fault(_SUBJECT, "all metrics together: their unit is another")
        return
    for name, order in (("model", MODELS), ("neighbours", NEIGHBOURS)):
        if any(order.index(one[name]) > order.index(promise[name]) for one in claims):
            yield fault(_SUBJECT, f"all metrics together: one of them promises less ({name})")
            return
    if (plan.get("noise") == "permanent") != (plan.get("distinct_values") is not None):
        yield fault(_SUBJECT, "permanent noise and distinct_values go together in a plan")
        return
    losses, reports, unknown = [], list[Guarantee](), 0
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
            shown = [of_report(one) for one in made]
            worst = {
                name: max(getattr(one, name) for one in shown) for name in ("epsilon", "delta")
            }
            reports.append(replace(shown[0], **worst))
            distinct = {one.distinct for one in made if isinstance(one, designs.RandomisedReports)}
            if distinct - {plan.get("distinct_values")}:
                yield fault(_SUBJECT, "a unit reports another number of values than the plan says")
                return
    earlier = [] if before is None else [_known(promise["unit"], one) for one in before["design"]]
    for name, order in (("model", MODELS), ("neighbours", NEIGHBOURS)):
        least = max((order.index(getattr(one, name)) for one in [*losses, *earlier]), default=0)
        if least > order.index(promise[name]):
            yield fault(_SUBJECT, f"all metrics together: noise of one is for another {name}")
            return
    # Of those that have no design nothing is known, and the others come to this much at the least.
    if wrong := of_reports(reports, said["guarantees"]["local"], unit):
        yield fault(_SUBJECT, f"all metrics together: {wrong}")
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
        epsilon, delta = epsilon - first["epsilon"], delta - first["delta"] * (2 - ROUNDED)
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
    return spent <= epsilon * ROUNDED


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
    model = max((designs.require_met(one, *price).model for one in made), key=MODELS.index)
    neighbours = max((one.neighbours for one in made), key=NEIGHBOURS.index)
    curves = [designs.profile(one, *price) for one in made]
    # In the digits that the plan has composed: other points are another bound.
    profiles = [
        curve if record.get("distinct") else short(curve)
        for record, curve in zip(records, curves, strict=True)
    ]
    return Loss.of(Guarantee(model, *price, unit, "", neighbours), worst_profile(profiles))
