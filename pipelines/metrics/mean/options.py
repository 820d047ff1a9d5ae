"""What a person asks for of a mean, and which of it goes together."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipelines.errors import RequestError
from pipelines.numbers import NumberOptions, read_bounds
from transforms.encoders.bounds import Bounds


class MeanOptions(NumberOptions):
    """What a person asks for; every number is checked before anything is read."""

    group_by: str | None = None
    groups: str | None = Field(None, min_length=1)
    groups_public: bool = False
    choose_bounds: bool = False
    interval: Literal["plug-in", "worst"] = "plug-in"


def require_sense(options: MeanOptions) -> None:
    """Refuse options that do not go together.

    Raises:
        RequestError: with what is missing, or too much.
    """
    grouped = options.group_by is not None
    if grouped != (options.groups is not None):
        raise RequestError("--group-by and --groups go together: name the column and its values")
    if options.groups_public and not grouped:
        raise RequestError("--groups-public says something of --group-by, which is missing")
    if options.choose_bounds and grouped:
        raise RequestError("--choose-bounds serves one mean; with --group-by declare --bounds")
    if options.groups_public and options.model == "shuffle" and options.min_reports is None:
        raise RequestError(
            "--min-reports is missing: with --groups-public, say how many reports at the least "
            "each group must have (each client's epsilon is chosen for that number)"
        )


def bounds_of(options: MeanOptions) -> Bounds | None:
    """What numbers are clipped to; None where a first round chooses.

    Raises:
        RequestError: both are asked for, or bounds are none.
    """
    if not options.choose_bounds:
        return read_bounds(options.bounds)
    if options.bounds is not None:
        raise RequestError("--bounds and --choose-bounds exclude each other")
    return None
