"""One training run, from what was typed to what is shown at the end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from apache_beam.io.filesystems import FileSystems
from rich.console import Console

from pipelines import console, release
from pipelines.errors import DONE, FailedError
from pipelines.publishing import carry_out, conclude
from pipelines.requests import request
from pipelines.run import beam_options
from pipelines.train.job import TrainJob, prepare
from pipelines.train.options import TrainOptions
from pipelines.train.publish import PublishModel
from transforms.progress import DIVERGED, REPORTS, WITHHELD

_SLOWER = "lower --learning-rate, which was {learning_rate:.3g}, or have less noise: "
_ADVICE = {  # to those whose run diverged
    "local": _SLOWER + "a larger epsilon, more users a step",
    "dp-sgd": _SLOWER + "a larger epsilon, more rows, a larger --lot",
    "dssgd": _SLOWER + "a smaller --bound or --upload-share, a larger epsilon, fewer --epochs",
}


def run(asked: Mapping[str, Any], beam_arguments: list[str]) -> int:
    """Train a model, publish it and say how well it does.

    Args:
        asked: option -> what was typed.
        beam_arguments: what is for Beam.

    Returns:
        The exit code.

    Raises:
        RequestError: the request or its input is wrong.
        WithheldError: too few took part.
        FailedError: the run diverged, or the job ended without a release.
    """
    options = request(TrainOptions, asked)
    for_beam = beam_options(beam_arguments)
    FileSystems.set_options(for_beam)  # before the first file is looked for
    job = prepare(options)
    screen = console.Screen()
    if carry_out(job, PublishModel(job), for_beam, screen, unpublished):
        show(screen, json.loads(release.read(options.output, release.STATEMENT)))
        conclude(job, screen)
    return DONE


def show(screen: Console, statement: Mapping[str, Any]) -> None:
    """The model in a line, and how well it does in another."""
    model, error = statement["model"], statement["error"]
    told = f"{model['kind']}, {model['parameters']:,} parameters, from {statement['n']:,} rows"
    screen.print(told, highlight=False, markup=False, soft_wrap=True)
    last = error.get("of_the_published_model")
    if last is None or last["error"] is None:
        return
    told = f"{error['measure']}: {last['error']:.5g} ({last['lower']:.5g} to {last['upper']:.5g})"
    screen.print(f"{told} on {error['measured_on']}", highlight=False, markup=False, soft_wrap=True)


def unpublished(job: TrainJob, counted: Mapping[str, int]) -> str | None:
    """That too few took part; None if that is not why nothing was published.

    Raises:
        FailedError: the run diverged.
    """
    if DIVERGED in counted:
        advice = _ADVICE[job.options.method].format(**job.plan.training())
        raise FailedError(
            f"the run diverged at step {counted[DIVERGED]:,} and nothing is published; {advice}, "
            "fewer attributes"
        )
    if WITHHELD not in counted and REPORTS in counted:
        return None
    unit, steps = job.options.unit, job.plan.training().get("steps")
    if steps is None:
        came = counted.get(REPORTS, 0)
        if not came:
            return f"no {unit} could be used, so there is nothing to learn from"
        return f"{came:,} {unit}s could be used, fewer than --min-reports {job.plan.least:,}"
    told = f"too few {unit}s could be used for {steps:,} steps"
    return f"{told}, each of which needs {job.plan.least:,}"
