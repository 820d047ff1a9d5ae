"""One training run, from what was typed to what is shown at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apache_beam.io.filesystems import FileSystems
from rich.console import Console

from pipelines.errors import DONE
from pipelines.jobs.publishing import carry_out, conclude, say_where
from pipelines.jobs.run import beam_options
from pipelines.ledger.paying import Payment, ReleasePrice, paid
from pipelines.ledger.spans import digests
from pipelines.releases import release
from pipelines.request import answers
from pipelines.train.job import prepare
from pipelines.train.options import TrainOptions
from pipelines.train.page import used
from pipelines.train.publish import PublishModel
from pipelines.views import console


def run(options: TrainOptions, beam_arguments: list[str], payment: Payment | None = None) -> int:
    """Train a model, publish it and say how well it does.

    Args:
        options: of the request.
        beam_arguments: what is for Beam.
        payment: where it is paid for, if it is.

    Returns:
        The exit code.

    Raises:
        RequestError: the request or its input is wrong.
        WithheldError: too few took part, or too little budget is left.
        FailedError: the run diverged, or the job ended without a release.
    """
    for_beam = beam_options(beam_arguments)
    FileSystems.set_options(for_beam)  # before the first file is looked for
    job = prepare(options)
    screen = console.Screen()
    files = digests(job.telemetry.files)
    price = ReleasePrice("train", job.guarantees[0], job.plan.profile, options.output, files)
    with paid(payment, lambda: price) as right:
        if right.published:
            say_where(right.output, screen)
            return DONE
        # Rounds of short stages, at whose ends all workers would wait for each other.
        publish = PublishModel(job, right.stamp, right.ledger)
        published = carry_out(job, publish, for_beam, screen, alone=True)
        right.conclude(published)
    if published:
        show(screen, release.statement_of(options.output))
        conclude(job, screen)
    return DONE


def show(screen: Console, statement: Mapping[str, Any]) -> None:
    """Whether the model is of any use, what it is, and how well it does: a line each."""
    model, error = statement["model"], statement["error"]
    last = error.get("of_the_published_model")
    answers.tell(
        model={"kind": model["kind"], "parameters": model["parameters"]},
        verdict=error["verdict"], measure=error["measure"], of_the_published_model=last,
    )  # fmt: skip
    line = f"{model['kind']}, {model['parameters']:,} parameters, from {used(statement)} rows"
    for text in (error["verdict"], line):
        screen.print(text, highlight=False, markup=False, soft_wrap=True)
    if last is None or last["error"] is None:
        return
    line = f"{error['measure']}: {last['error']:.5g} ({last['lower']:.5g} to {last['upper']:.5g})"
    screen.print(f"{line} on {error['measured_on']}", highlight=False, markup=False, soft_wrap=True)
