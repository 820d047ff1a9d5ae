"""What a person asks for of a distribution."""

from __future__ import annotations

from pydantic import Field

from mechanisms.distribution import fitting
from pipelines.numbers import NumberOptions
from pipelines.requests import Whole


class DistributionOptions(NumberOptions):
    """What a person asks for; every number is checked before anything is read."""

    bins: Whole | None = Field(None, ge=fitting.LEAST_BINS, le=fitting.MOST_BINS)
    quantiles: str | None = Field(None, min_length=1)
    smooth: bool = False
