"""The command that publishes one metric."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from typing import Any

from pipelines.command.arguments import add_command, typed
from pipelines.errors import RequestError
from pipelines.ledger.paying import payment
from pipelines.metrics import registry
from pipelines.metrics.options import ReleaseOptions
from pipelines.request.options import flag
from pipelines.request.requests import request


def add_to(commands: Any, name: str) -> None:
    """Add the command of a metric.

    Args:
        commands: where it is added.
        name: of the metric.
    """
    grows = growing(name)
    heading = f" (with {flag(registry.HORIZON)})"
    more = {grows.brief + heading: grows.model_fields} if grows else {}
    add_command(commands, name, registry.options(name), partial(run, name), more)


def run(name: str, arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Publish a metric, and show it."""
    words = typed(arguments)
    form = _form(name, words)
    options = request(form, {option: words[option] for option in form.model_fields})
    # Beam takes a second to import, and warns while it does: what is refused need not wait, and
    # by now logs are silent.
    publish = registry.publisher(options)
    return publish(name, options, beam_arguments, payment(arguments))


def growing(name: str) -> type[ReleaseOptions] | None:
    """What the command asks of a total that grows from window to window, if there is one.

    Raises:
        RequestError: as `registry.options`.
    """
    place = registry.options(name).growing
    return registry.imported(place) if place else None


def _form(name: str, words: Mapping[str, Any]) -> type[ReleaseOptions]:
    options, grows = registry.options(name), growing(name)
    if grows is None:
        return options
    if words[registry.HORIZON] is not None:
        return grows
    for option in grows.model_fields:
        if option not in options.model_fields and words[option] is not None:
            raise RequestError(f"{flag(option)} needs {flag(registry.HORIZON)}")
    return options
