"""The forms in which a kind may be asked for, read off its options."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any, get_args

from pipelines.metrics import registry
from pipelines.metrics.counting.options import SPLIT_MIX
from pipelines.metrics.options import BY_REPORT, DrawnBy
from tests.contract.truth import Example

GROUP = "hushbeam.examples"
"""The entry points by which another distribution names the examples of its kinds."""

HORIZON = "running totals"


def offered(kind: str) -> dict[str, dict[str, Any]]:
    """Name of a form -> the options that ask for it.

    Who adds the noise (each report in the local or the shuffle model, the collector, the shuffler's
    dummies, the devices'), and whatever else another class answers: split and mix, two rounds, one
    quantile, totals that go on from window to window.
    """
    options = registry.options(kind)
    if "search" not in options.model_fields:
        return _drawn(kind, {})
    searches = _choices(options.model_fields["search"].annotation)
    return {
        f"{search}, {name}": {"search": search} | said
        for search in searches
        for name, said in _drawn(kind, {"search": search}).items()
    }


def _drawn(kind: str, asked: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Name of who adds the noise -> the options that say so, beside others that are asked."""
    options = registry.options(kind)
    fields = options.model_fields
    drawers = [*get_args(DrawnBy)] if "drawn_by" in fields else []
    if len({_answers(options, asked | {"drawn_by": name}) for name in drawers}) < 2:
        drawers = []  # what one alone draws leaves no choice
    found: dict[str, dict[str, Any]] = {}
    if "model" in fields and (BY_REPORT in drawers or not options.hides_who(asked)):
        models = _choices(fields["model"].annotation)
        found |= {model: {"model": model} for model in models}
    found |= {name: {"drawn_by": name} for name in drawers if name != BY_REPORT}
    found = found or {"the job": {}}
    for name, value in _answered_otherwise(kind):
        found[name] = value
    if fields.get("quantile") and fields["quantile"].annotation == float | None:
        found["quantile"] = {"quantile": 0.5}  # of a kind that may publish it alone
    if options.running:
        found[HORIZON] = {"horizon": 8}
    return found


def _choices(annotation: Any) -> list[str]:
    """The texts among which an option chooses."""
    if isinstance(annotation, str):
        return [annotation]
    return [text for part in get_args(annotation) for text in _choices(part)]


def _answered_otherwise(kind: str) -> list[tuple[str, dict[str, Any]]]:
    """The switches, and mechanisms, by which another class answers."""
    options = registry.options(kind)
    fields = options.model_fields
    reports = {"drawn_by": BY_REPORT} if "model" in fields else {}
    bools = [name for name, field in fields.items() if field.annotation is bool]
    switches = [({name: True}, reports) for name in bools]
    if "mechanism" in fields:
        switches.append(({"mechanism": SPLIT_MIX}, {"drawn_by": "shuffler"}))
    found = []
    for change, beside in switches:
        said = beside if "drawn_by" in fields else {}
        if _answers(options, said) != _answers(options, said | change):
            (name,) = change
            label = str(change[name]) if name == "mechanism" else name
            found.append((label, change | (said if said != reports else {})))
    return found


def _answers(options: type[Any], said: dict[str, Any]) -> tuple[str, str]:
    """Which statistic answers, and what hides the people in it."""
    drawn = {"drawn_by": options.who_draws(said)} if "drawn_by" in options.model_fields else {}
    request = options.model_construct(**said | drawn)
    return request.answered_by, request.hidden_by


def example(kind: str) -> Example:
    """Of a kind: ours stand in `examples`, those of others behind their entry points.

    Raises:
        KeyError: there is none.
    """
    from tests.contract.examples import EXAMPLES

    if kind in EXAMPLES:
        return EXAMPLES[kind]
    found = {point.name: point for point in entry_points(group=GROUP)}
    loaded: Example = found[kind].load()
    return loaded
