"""Which rows may lack values, and what serves them."""

from __future__ import annotations

from mechanisms.catalog import find, of_task
from mechanisms.planner import AUTO
from mechanisms.vector.task import VectorTask
from pipelines.errors import RequestError
from pipelines.logs.numbers import read_fill
from pipelines.metrics.vector_mean.options import VectorMeanOptions
from transforms.encoders.attributes import Attribute, categorical


def require_absence(options: VectorMeanOptions, attributes: tuple[Attribute, ...]) -> None:
    """Refuse what cannot stand in the place of values that cannot be used.

    Raises:
        RequestError: a number is to stand for categories, or whole rows are reported at once and
            have no place for what a number lacks.
    """
    if read_fill(options) is not None and categorical(attributes):
        raise RequestError(
            "--unusable fill: no number can stand in the place of a category; use hide or count"
        )
    if not options.hides or options.mechanism == AUTO:
        return
    serving = of_task(VectorTask.name)
    if options.mechanism in serving:
        one = find(options.mechanism, serving)
        if "hides" not in one.parameters:
            raise RequestError(
                f"--mechanism: {one.name} reports whole rows and cannot hide that a number is "
                "missing; use --unusable fill=VALUE or count, or --mechanism auto"
            )
