"""The price of a release, computed again from the design that its statement holds as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mechanisms import designs
from mechanisms.channel import Guarantee
from mechanisms.privacy.loss import PrivacyLoss, worst_profile
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
        designs.require_met(design, epsilon, delta)
    except designs.UnknownDesignError:
        return unchecked(_SUBJECT, f"{name}: this version does not know its design")
    except _STRANGE:
        return fault(_SUBJECT, f"{name}: its noise does not meet {claim}")
    if wrong := _contradicted(design, said):
        return fault(_SUBJECT, f"{name}: {wrong}")
    tight = "computed again" if not _met(design, epsilon * _TIGHT, delta) else "computed to be less"
    return holds(_SUBJECT, f"{name}: {claim}, {tight}")


def _met(design: Any, epsilon: float, delta: float) -> bool:
    try:
        designs.require_met(design, epsilon, delta)
    except _STRANGE:
        return False
    return True


def _contradicted(design: Any, said: Statement) -> str:
    """What a statement says in words of its own that its design does not."""
    request = said.get("request", {})
    if isinstance(design, designs.RandomisedReports):
        if said["guarantees"]["release"]["model"] != design.model:
            return f"its reports are those of the {design.model} model"
        if design.model == "shuffle" and not said.get("n", design.n) >= design.n:
            return f"it counts on {design.n:,} reports, and fewer came"
    if isinstance(design, designs.RandomisedReports) and design.model == "shuffle":
        own = {"min_reports": design.n, "honest_share": design.honest_share}
    else:
        own = {name: getattr(design, name) for name in ("enrolled",) if hasattr(design, name)}
    for name, value in own.items():
        if request.get(name) not in (None, value):
            return f"{name} is {value:g} in its design, and another in its request"
    return ""


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
        yield from _joint(promise, accounts, {*said["metrics"], *said["withheld"]}, metrics)
    except _STRANGE:
        yield fault(_SUBJECT, "the accounts of the release are none, or do not meet their prices")


def _joint(
    promise: Statement, accounts: Any, names: set[str], metrics: Mapping[str, Statement]
) -> Iterator[Check]:
    listed = [name for account in accounts for name in account["metrics"]]
    if sorted(listed) != sorted(names):
        yield fault(_SUBJECT, "the accounts of the release are not those of its metrics")
        return
    claims = [said["guarantees"]["release"] for said in metrics.values()]
    for name in ("epsilon", "delta"):
        if any(one[name] is None or not one[name] <= promise[name] * _ROUNDED for one in claims):
            yield fault(_SUBJECT, f"all metrics together: one of them alone has more {name}")
            return
    if {one["unit"] for one in claims} - {promise["unit"]}:
        yield fault(_SUBJECT, "all metrics together: their unit is another")
        return
    for name, order in (("model", _MODELS), ("neighbours", _NEIGHBOURS)):
        if any(order.index(one[name]) > order.index(promise[name]) for one in claims):
            yield fault(_SUBJECT, f"all metrics together: one of them promises less ({name})")
            return
    losses, unknown = [], 0
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
        unknown += sum(record is None for record in account["metrics"].values())
        losses.append(_loss(promise, account))
    if unknown:
        yield unchecked(_SUBJECT, f"all metrics together: {unknown} of them have no design as data")
        return
    added = summed(losses)
    spent = added.epsilon
    if not (spent <= promise["epsilon"] and added.delta <= promise["delta"]):
        spent = total(losses, promise["delta"]).epsilon
    claim = f"epsilon {promise['epsilon']:.6g}, delta {promise['delta']:.3g}"
    if spent <= promise["epsilon"] * _ROUNDED:
        yield holds(_SUBJECT, f"all metrics together: {claim}, computed again")
    else:
        yield fault(_SUBJECT, f"its metrics together come to more than {claim}")


def _loss(promise: Statement, account: Statement) -> Loss:
    """What one account may cost, by the designs of its metrics.

    Raises:
        ValueError: their noise is too small for it.
    """
    epsilon, delta, neighbours = account["epsilon"], account["delta"], promise["neighbours"]
    profiles = []
    for record in account["metrics"].values():
        if record is not None:
            design = designs.read(record)
            neighbours, curve = design.neighbours, designs.profile(design, epsilon, delta)
            # In the digits that the plan has composed: other points are another bound.
            profiles.append(curve if record.get("distinct") else short(curve))
    guarantee = Guarantee(promise["model"], epsilon, delta, promise["unit"], "", neighbours)
    profiles = profiles or [PrivacyLoss.from_guarantee(guarantee)]
    return Loss.of(guarantee, worst_profile(profiles))
