"""The answers of a session, beside the budget that its statement promises."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mechanisms.central.exponential import FirstAbove
from mechanisms.privacy.gaussian_filter import WHOLE, range_of_gaussian
from mechanisms.sampling.rounded_normal import RoundedNormal
from pipelines.errors import RequestError
from pipelines.journal.ask_session import AskSession
from pipelines.logs.numbers import read_bounds
from pipelines.verify.verdict import Check, fault, holds, unchecked

_SUBJECT = "price"
_STRANGE = (ValueError, TypeError, KeyError, AttributeError, IndexError, ArithmeticError)
_ROUNDED = 1e-9
_TOO_NEAR = "one of them counts its sampler as nearer to its law than it is"
_SCALES = {"unit", "people", "half"}  # what a number of an answer stands for
_SELECTING = ("most-common", "first-above")  # questions that no noisy number answers


def of_session(folder: str, said: Mapping[str, Any]) -> Check:
    """Whether all answers together keep to the budget, and figures have the noise they pay for.

    Args:
        folder: of the session.
        said: its statement.
    """
    if "://" in folder:
        return unchecked(_SUBJECT, "answers: of sessions on this machine alone")
    try:
        session = AskSession.read(folder)
        wrong = _wrong(session, said)
    except RequestError as error:
        return fault(_SUBJECT, f"answers: {error}")
    except _STRANGE:
        wrong = "they are not as hushbeam writes them"
    if wrong:
        return fault(_SUBJECT, f"answers: {wrong}")
    return holds(_SUBJECT, f"answers: {len(session.answers):,}, within the budget")


def _wrong(session: AskSession, said: Mapping[str, Any]) -> str:
    """What does not agree; empty if all does."""
    budget, spent = session.budget, session.spent
    if session.terms != said["request"]:
        return "they were given under other terms than the statement's"
    # A part or a distance below 0 would make room for others.
    if not all(one.parts >= 1 and one.distance >= 0 for one in spent):
        return "one of them takes no part of the budget"
    far = math.fsum(one.distance for one in spent)
    if not (budget.left(spent) >= 0 and far <= budget.farthest):
        return "together they take more than the budget"
    for one in session.answers:
        mu, answer = budget.mu_of(one["parts"]), one["answer"]
        if wrong := _promised(one, session):
            return wrong
        if one["question"] in _SELECTING:
            if wrong := _selected(one, mu):
                return wrong
            continue
        if len(answer["noisy"]) != len(one["names"]) * (1 + (one["question"] == "mean")):
            return "one of them has more or fewer numbers than names"
        squared = answer["variance"] - 1 / 12
        if not mu**2 * squared >= _moved(one) * (1 - _ROUNDED):
            return "one of them has less noise than its part of the budget buys"
        far = len(answer["noisy"]) * RoundedNormal(math.sqrt(squared)).farthest
        if not one["distance"] >= far * (1 - _ROUNDED):
            return _TOO_NEAR
    return ""


def _promised(one: Mapping[str, Any], session: AskSession) -> str:
    """How an answer promises another thing than its part of the session buys; empty if nowise."""
    budget, claim = session.budget, {**one["guarantee"], "how": ""}
    if one["share"] != one["parts"] / WHOLE:
        return "one of them says another share of the budget than it takes"
    bought = budget.guarantee(budget.epsilon_of(one["parts"]), session.terms["unit"]).as_dict()
    if not claim["epsilon"] >= bought["epsilon"] * (1 - _ROUNDED):
        return "one of them promises more than its part of the budget buys"
    if claim != {**bought, "how": "", "epsilon": claim["epsilon"]}:
        return "one of them promises another thing than the session"
    return ""


def _selected(one: Mapping[str, Any], mu: float) -> str:
    """How what a selection says of its own error differs from what its price gives; or nothing."""
    most, span = one["request"].get("per_value", 1), range_of_gaussian(mu)
    values = len(one["names"])
    if one["question"] == "first-above":
        chosen = FirstAbove(span, most)
        own, error, far = (
            "standard_error",
            chosen.standard_error,
            chosen.distance(values),
        )
    else:
        missed = 1 - one["answer"]["confidence"]
        own, error, far = "within", most / span * math.log(values / missed), 0.0
    if not math.isclose(one["answer"][own], error, rel_tol=_ROUNDED):
        return "one of them is as near the truth as no part of the budget buys"
    return "" if one["distance"] >= far * (1 - _ROUNDED) else _TOO_NEAR


def _moved(one: Mapping[str, Any]) -> float:
    """The squared distance by which a unit moves the numbers of an answer, by its question."""
    request, scale = one["request"], one["answer"]["scale"]
    if not all(0 < abs(scale[name]) < math.inf for name in scale.keys() & _SCALES):
        raise ValueError("the numbers of an answer are of no size")
    groups = min(request.get("rows_per_user", 1), len(one["names"]))
    if one["question"] == "count":
        most = request.get("per_value", 1) / scale["unit"]
    else:
        low, high = read_bounds(request["bounds"])
        most = max(abs(low), abs(high)) / abs(scale.get("unit", 1.0))
    if one["question"] == "mean":
        # A unit moves a sum from the middle of the bounds, and a number of values.
        if [scale["low"], scale["half"]] != [low, (high - low) / 2]:
            raise ValueError("an average is told within other bounds than its question's")
        return float(2 * groups * scale["people"] ** 2)
    return float(groups * most**2)
