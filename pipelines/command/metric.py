"""The command that publishes one metric."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from typing import Any

from pipelines.command.arguments import add_command, typed
from pipelines.errors import RequestError
from pipelines.ledger.paying import payment
from pipelines.metrics import naming, registry
from pipelines.metrics.options import ReleaseOptions
from pipelines.request.options import flag
from pipelines.request.requests import request


def add_to(commands: Any, name: str) -> None:
    """Add the command of a metric.

    Args:
        commands: where it is added.
        name: as it is typed.
    """
    kind, others = naming.command_options(name), naming.alternatives(name)
    more = {f"{one.options.brief} (with {one})": one.options.model_fields for one in others}
    add_command(commands, name, kind, partial(run, name), more)


def run(name: str, arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Publish a metric, and show it."""
    words = typed(arguments)
    kind, form = _kind(name, words)
    options = request(form, {option: words[option] for option in form.model_fields})
    # Beam takes a second to import, and warns while it does: what is refused need not wait, and
    # by now logs are silent.
    publish = registry.publisher(options)
    return publish(kind, options, beam_arguments, payment(arguments))


def _kind(name: str, words: Mapping[str, Any]) -> tuple[str, type[ReleaseOptions]]:
    """Which kind of metric is asked for, and what it asks.

    Raises:
        RequestError: an option means nothing beside the others.
    """
    others = naming.alternatives(name)
    for one in others:
        if one.chosen(words):
            return one.kind, one.options
    kind = naming.usual(name)
    options = registry.options(kind)
    for one in others:
        for option in one.options.model_fields:
            if option not in options.model_fields and words[option] is not None:
                raise RequestError(f"{flag(option)} needs {one}")
    return kind, options
