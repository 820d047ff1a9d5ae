"""`hushbeam train` on the command line."""

from __future__ import annotations

import argparse
from typing import Any

from pipelines.command.arguments import add_command, typed
from pipelines.ledger.paying import payment
from pipelines.request.requests import request
from pipelines.train.options import TrainOptions


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    add_command(commands, "train", TrainOptions, run)


def run(arguments: argparse.Namespace, beam_arguments: list[str]) -> int:
    """Train a model, publish it and say how well it does."""
    options = request(TrainOptions, typed(arguments))
    # Beam takes a second to import, and warns while it does: what is refused need not wait, and
    # by now logs are silent.
    from pipelines.train.publish import run as publish

    return publish(options, beam_arguments, payment(arguments))
