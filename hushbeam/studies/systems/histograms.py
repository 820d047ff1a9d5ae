"""Histogram systems, each under which bound and in which model."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hushbeam.studies.engine.cells import FigureLine
from hushbeam.studies.papers import hp_sdp
from hushbeam.studies.systems.augmented_systems import AUGMENTED
from mechanisms.catalog import of_task
from mechanisms.registry import explained
from pipelines.errors import RequestError

BEST = "best"  # what the planner would choose
MODELS = ("shuffle", "central", "local")  # a system is shown in the first of them that it serves

SYSTEMS: dict[str, Sequence[tuple[str, str]]] = {
    **{name: one.serves for name, one in of_task("frequency").items()},
    **{name: [("shuffle", bound) for bound in system.bounds] for name, system in AUGMENTED.items()},
    BEST: tuple((model, "exact") for model in MODELS),
}
"""Name -> every (model, bound) that it serves."""

SETS = {
    "paper": hp_sdp.SYSTEMS,
    "all": tuple(name for name in SYSTEMS if name != BEST),
}

_EXACT, _PUBLISHED = "exact", "published"
_NAME = re.compile(r"(?P<name>[^:@]*)(:(?P<bound>[^:@]*))?(@(?P<model>[^:@]*))?")


def lines(names: Sequence[str], bound: str) -> tuple[FigureLine, ...]:
    """The lines of a request.

    Args:
        names: NAME, NAME:BOUND, NAME@MODEL or NAME:BOUND@MODEL each, where NAME is a system, "best"
            (what the planner would choose) or a set: "paper", "all". Of a set, those are taken
            that serve the model, and those without a published bound under the exact one.
        bound: of names that carry none: "exact"; "published", or exact for a system whose paper
            has no closed form; or "both".

    Returns:
        Each line once, in the order of the request.

    Raises:
        RequestError: a name, bound or model is unknown, or they do not go together.

    >>> [str(line) for line in lines(["sh", "laplace"], "both")]
    ['sh', 'sh:published', 'laplace']
    """
    return tuple(dict.fromkeys(line for name in names for line in _expanded(name, bound)))


def _expanded(text: str, bound: str) -> list[FigureLine]:
    """The lines of one word."""
    match = _NAME.fullmatch(text)
    if match is None:
        raise RequestError(f"--systems: {text!r} is not of the form NAME, NAME:BOUND or NAME@MODEL")
    name, own, model = match["name"], match["bound"], match["model"]
    _require_known(text, "system", name, [*SETS, *SYSTEMS])
    _require_known(text, "bound", own, [_EXACT, _PUBLISHED])
    _require_known(text, "model", model, MODELS)
    if name not in SETS:
        return _of_system(name, own or bound, model, strict=own is not None)
    members = [system for system in SETS[name] if model in (None, *_models(system))]
    if not members:
        raise RequestError(f"--systems: none of {name} serves the {model} model")
    return [
        line for system in members for line in _of_system(system, own or bound, model, strict=False)
    ]


def _require_known(text: str, what: str, word: str | None, known: Sequence[str]) -> None:
    """Refuse a word that means nothing, with those that do."""
    if word is None or word in known:
        return
    if word in explained():
        raise RequestError(f"--systems: {word} is not a mechanism: {explained()[word]}")
    there_are = ", ".join(dict.fromkeys(known))
    raise RequestError(f"--systems: unknown {what} {word!r} in {text!r}; there are: {there_are}")


def _of_system(name: str, bound: str, model: str | None, strict: bool) -> list[FigureLine]:
    """One system, under one bound or both."""
    models = _models(name)
    usual = min(models, key=MODELS.index)
    if model not in (None, *models):
        raise RequestError(
            f"--systems: {name} does not serve the {model} model, but: {', '.join(models)}"
        )
    model = model or usual
    bounds = [served for of_model, served in SYSTEMS[name] if of_model == model]
    if strict and bound not in bounds:
        raise RequestError(
            f"--systems: {name} has no {bound} bound in the {model} model, but: {', '.join(bounds)}"
        )
    if bound != "both":
        bounds = [bound] if bound in bounds else [_EXACT]
    at = "" if model == usual else f"@{model}"  # what goes without saying is left out
    return [
        FigureLine(name, one, model, label=f"{name}{'' if one == _EXACT else f':{one}'}{at}")
        for one in bounds
    ]


def _models(name: str) -> list[str]:
    """Every model of a system."""
    return list(dict.fromkeys(model for model, _ in SYSTEMS[name]))
