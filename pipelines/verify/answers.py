"""The answers of a session, beside the budget that its statement promises."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pipelines.errors import RequestError
from pipelines.journal.ask_session import AskSession
from pipelines.verify.verdict import Check, fault, holds, unchecked

_SUBJECT = "price"
_STRANGE = (ValueError, TypeError, KeyError, AttributeError, IndexError, ArithmeticError)
_ROUNDED = 1e-9
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
        if not one["guarantee"]["epsilon"] >= budget.epsilon_of(one["parts"]) * (1 - _ROUNDED):
            return "one of them promises more than its part of the budget buys"
        # A unit moves a number by 1 at the least; by how much more its statement does not say.
        figures = one["question"] not in _SELECTING or "noisy" in answer
        if figures and not mu**2 * (answer["variance"] - 1 / 12) >= 1 - _ROUNDED:
            return "one of them has less noise than its part of the budget buys"
    return ""
