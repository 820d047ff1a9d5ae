"""Which systems are compared, each under which bound and in which model: the lines of a figure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mechanisms import systems
from pipelines.errors import RequestError
from pipelines.evaluate.cells import Line

BEST = "best"
SETS = {"paper": systems.PAPER, "all": tuple(systems.SYSTEMS)}

_EXACT, _PUBLISHED = "exact", "published"
_MODELS = ("shuffle", "central", "local")  # a system is shown in the first of them that it serves
_NAME = re.compile(r"(?P<name>[^:@]*)(:(?P<bound>[^:@]*))?(@(?P<model>[^:@]*))?")

Served = Sequence[tuple[str, str]]  # (model, bound)


def planned(line: Line) -> str:
    """The name by which the planner knows the system of a line."""
    return systems.AUTO if line.system == BEST else line.system


def lines(names: Sequence[str], bound: str) -> tuple[Line, ...]:
    """The lines that a person asked for.

    Args:
        names: NAME, NAME:BOUND, NAME@MODEL or NAME:BOUND@MODEL each, where NAME is a system, "best"
            (what the planner would choose) or a set: "paper", "all". Of a set, those are taken
            that serve the model, and those without a published bound under the exact one.
        bound: of names that carry none: "exact"; "published", or exact for a system whose paper
            has no closed form; or "both".

    Returns:
        Each line once, in the order asked for.

    Raises:
        RequestError: a name, bound or model is unknown, or they do not go together.

    >>> [str(line) for line in lines(["sh", "laplace"], "both")]
    ['sh', 'sh:published', 'laplace']
    """
    found = [line for name in names for line in _expanded(name, bound)]
    return tuple(dict.fromkeys(found))


def _expanded(text: str, bound: str) -> list[Line]:
    """The lines of one word."""
    match = _NAME.fullmatch(text)
    if match is None:
        raise RequestError(f"--systems: {text!r} is not of the form NAME, NAME:BOUND or NAME@MODEL")
    name, model = match["name"], match["model"]
    _require_known(text, name, match["bound"], model)
    asked = match["bound"] or bound
    if name not in SETS:
        return _of_system(name, asked, model, strict=match["bound"] is not None)
    members = [each for each in SETS[name] if model in (None, *_models(_served(each)))]
    if not members:
        raise RequestError(f"--systems: none of {name} serves the {model} model")
    return [line for each in members for line in _of_system(each, asked, model, strict=False)]


def _require_known(text: str, name: str, bound: str | None, model: str | None) -> None:
    """Refuse words that mean nothing, with those that do."""
    known = [*SETS, BEST, *systems.SYSTEMS]
    for what, word, words in (
        ("system", name, known),
        ("bound", bound, [_EXACT, _PUBLISHED]),
        ("model", model, [*_MODELS]),
    ):
        if word is not None and word not in words:
            if what == "system" and word in systems.PARTS:
                raise RequestError(f"--systems: {word} is not a mechanism: {systems.PARTS[word]}")
            raise RequestError(
                f"--systems: unknown {what} {word!r} in {text!r}; there are: {', '.join(words)}"
            )


def _of_system(name: str, bound: str, model: str | None, strict: bool) -> list[Line]:
    """One system, under one bound or both."""
    served = _served(name)
    model = _usual_model(served) if model is None else model
    if model not in _models(served):
        raise RequestError(
            f"--systems: {name} does not serve the {model} model, but: {', '.join(_models(served))}"
        )
    bounds = [each for of_model, each in served if of_model == model]
    if strict and bound not in bounds:
        raise RequestError(
            f"--systems: {name} has no {bound} bound in the {model} model, but: {', '.join(bounds)}"
        )
    if bound != "both":
        bounds = [bound] if bound in bounds else [_EXACT]
    return [Line(name, each, model, _label(name, each, model)) for each in bounds]


def _label(name: str, bound: str, model: str) -> str:
    """A line as its legend says it: what goes without saying is left out."""
    shown = name if bound == _EXACT else f"{name}:{bound}"
    return shown if model == _usual_model(_served(name)) else f"{shown}@{model}"


def _served(name: str) -> Served:
    """Every (model, bound) of a system."""
    if name == BEST:
        return [(model, _EXACT) for model in _MODELS]
    return list(systems.SYSTEMS[name].fits)


def _models(served: Served) -> list[str]:
    """Every model of a system."""
    return list(dict.fromkeys(model for model, _ in served))


def _usual_model(served: Served) -> str:
    """The model in which a system is shown unless another is asked for."""
    return next(model for model in _MODELS if model in _models(served))
