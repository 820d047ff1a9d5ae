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
        name: of the kind of metric.
    """
    kind, growing = registry.options(name), registry.growing(name)
    add_command(commands, name, kind, partial(run, name), growing)


def run(name: str, arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Publish a metric, and show it."""
    words = typed(arguments)
    kind = _kind(name, words)
    options = request(kind, {option: words[option] for option in kind.model_fields})
    # Beam takes a second to import, and warns while it does: what is refused need not wait, and
    # by now logs are silent.
    publish = registry.publisher(options)
    return publish(name, options, beam_arguments, payment(arguments))


def _kind(name: str, words: Mapping[str, Any]) -> type[ReleaseOptions]:
    """What is asked: one release, or one window of a total that grows.

    Raises:
        RequestError: an option means nothing without `--horizon`.
    """
    kind, growing = registry.options(name), registry.growing(name)
    if growing is None:
        return kind
    if words[registry.HORIZON] is not None:
        return growing
    for option in (option for option in growing.model_fields if option not in kind.model_fields):
        if words[option] is not None:
            raise RequestError(
                f"{flag(option)} needs --horizon: it is of totals that grow window by window"
            )
    return kind
