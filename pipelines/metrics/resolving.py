"""From a request to its release: a statistic, and the noise that the request has it take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mechanisms.randomness import SecureRandom
from pipelines.errors import RequestError
from pipelines.logs.inputs import ALONE, Source
from pipelines.metrics.of_statistic import Ingredients
from pipelines.metrics.options import NumberOptions, ReleaseOptions
from pipelines.metrics.registry import imported

if TYPE_CHECKING:
    from pipelines.metrics.metric import Metric
    from transforms.elements.blocks import Generator


def resolve(
    options: ReleaseOptions, source: Source = ALONE, open_rng: Generator = SecureRandom
) -> Metric:
    """Hold a request against its input and choose the mechanism; reads footers only.

    Args:
        options: of any kind.
        source: the files, and what public randomness comes from.
        open_rng: opens generators on workers; a seeded one is for tests.

    Raises:
        RequestError: something is wrong with the request or the input.
    """
    if isinstance(options, NumberOptions) and options.choose_bounds:
        raise RequestError(
            "--choose-bounds: this is one round: `hushbeam query`, `mean` and `distribution` alone "
            "choose bounds, by a first round; name them here, as in bounds 0,600"
        )
    answering, noise = imported(options.answered_by), imported(options.hidden_by)
    if not hasattr(answering, "workload"):  # a metric that is not made of a statistic
        metric: Metric = answering.resolve(options, source, open_rng)
    else:
        noise.require(options, answering.kind)
        statistic, telemetry = answering.read(options, source)
        why = noise.objection(statistic.workload, options.who_draws(dict(options)))
        if why is not None:
            raise RequestError(f"{noise.option(options)}: {why}")
        metric = noise.of(Ingredients(statistic, telemetry, source, open_rng))
    if options.fused and (why := metric.shuffling.unfused) is not None:
        raise RequestError(f"--shuffler fused: {why}; leave it out")
    return metric
