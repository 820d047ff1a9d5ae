"""What a release says of the opening: who took part, the estimates, and what followed from them."""

from __future__ import annotations

from typing import Any

from mechanisms.learning.local_steps import LocalSteps, Model
from mechanisms.planner.design import Design
from mechanisms.vector.base import VectorMean

IN_WORDS = (
    "In the opening users reported their target or its square, and no gradient; by the mean and "
    "the spread that these tell it was chosen where gradients are cut and where the intercept "
    "begins."
)


def chosen_by(steps: LocalSteps, named: float | None, model: Model | None) -> str:
    """Who chose where gradients are cut.

    Args:
        steps: of the run.
        named: the cut that the request names, or None.
        model: where the run has come to; None before it.
    """
    if named is not None:
        return "--clip"
    if steps.opening is None:
        return "default"
    if model is None:
        return "default, unless the opening says otherwise"
    if model.seen is None:
        return "default, for too few took part in the opening"
    if model.scale == 1:
        return "the opening: targets spread as they usually do"
    return (
        f"the opening: the usual {steps.clip:g} times {model.scale:.3g}, for by so much targets "
        "spread differently than usual, give or take two standard errors"
    )


def opened(steps: LocalSteps, design: Design[VectorMean], model: Model | None) -> dict[str, Any]:
    """Of the opening, for the statement: all of it is computed from reports.

    Args:
        steps: of the run.
        design: of the opening's reports.
        model: where the run has come to; None before it.
    """
    described: dict[str, Any] = {
        "share_of_those_who_train": 1 / steps.groups,
        "mechanism": design.name,
        "constants": design.mechanism.constants(),
    }
    if model is None or model.seen is None or steps.opening is None:
        return described
    seen = {f"target_{name}": value for name, value in model.seen._asdict().items()}
    described |= {"targets_are_on": "a scale from -1 to 1, their declared bounds"} | seen
    return described | {"intercept_to_begin_with": steps.opening.begin(model.seen)}
