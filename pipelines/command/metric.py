"""The command that publishes one metric."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from pipelines.command.arguments import add_command, typed
from pipelines.ledger.paying import payment
from pipelines.metrics import registry
from pipelines.request.requests import request


def add_to(commands: Any, name: str) -> None:
    """Add the command of a metric.

    Args:
        commands: where it is added.
        name: of the kind of metric.
    """
    add_command(commands, name, registry.options(name), partial(run, name))


def run(name: str, arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Publish a metric, and show it."""
    options = request(registry.options(name), typed(arguments))
    # Beam takes a second to import, and warns while it does: what is refused need not wait, and
    # by now logs are silent.
    from pipelines.command.single import publish_one

    return publish_one(name, options, beam_arguments, payment(arguments))
