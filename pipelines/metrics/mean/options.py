"""What a person asks for of a mean, and which of it goes together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from mechanisms.catalog import of_task
from mechanisms.planner import AUTO
from pipelines.errors import RequestError
from pipelines.metrics.counting.options import (
    MEAN_FACTOR,
    MIXED,
    SPLIT_MIX,
    SPLIT_MIX_TERMS,
    drawn_for,
)
from pipelines.metrics.options import (
    SHUFFLER,
    DiscoveryOptions,
    DrawnBy,
    NumberOptions,
    published,
)
from pipelines.request.options import PROMISE, RESULT, option
from pipelines.request.requests import Count


def _about_cells() -> str:
    # Planners take a second to import: who does not ask for this text need not wait.
    from mechanisms.mean.task import LOCAL_CELLS, SHUFFLE_CELLS

    return (
        "into how many cells the range between the bounds is divided; values are stochastically "
        f"rounded to their ends (unbiased; default: {LOCAL_CELLS} in the local model, "
        f"{SHUFFLE_CELLS} in the shuffle model, what is best for private groups)"
    )


class MeanOptions(NumberOptions, DiscoveryOptions):
    """What a person asks for; every number is checked before anything is read."""

    metric: ClassVar[str] = "pipelines.metrics.statistics.mean:Mean"
    counted: ClassVar[str] = metric
    of_reports: ClassVar[frozenset[str]] = frozenset(
        {"mechanism", "groups_public", "cells", "interval"}
    )
    files: ClassVar[tuple[str, ...]] = ("groups", "group")
    local_delta: ClassVar[bool] = True
    brief: ClassVar[str] = "the average of a column of numbers, or of each group of rows"
    description: ClassVar[str] = (
        "The average of a column of numbers, or of each group of rows. A user counts with the "
        "average of its rows; of reports, with one of them, drawn uniformly. Numbers are clipped "
        "to --bounds; how many were is not published."
    )
    examples: ClassVar[str] = """\
examples:
  hushbeam mean --input 'logs/*.parquet' --column seconds --bounds 0,600 \\
      --epsilon 1 --output seconds-mean
  hushbeam mean --input 'logs/*.parquet' --column seconds --bounds 0,600 --user-column user \\
      --min-reports 100000 --group-by city --groups cities.txt --epsilon 1 --output seconds-by-city
"""
    subject: ClassVar[str] = "what is averaged"

    group_by: str | None = option(
        "one mean for each value of this column; which group a user is in stays as private as the "
        "number",
        None, metavar="COLUMN",
    )  # fmt: skip
    groups: str | None = option(
        "the groups: a text file with one a line, or a range of integers; public knowledge, not "
        "taken from the data. Without it groups are those that enough users have",
        None, metavar="FILE|LOW..HIGH", min_length=1,
    )  # fmt: skip
    groups_public: bool = option(
        "everybody may know who is in which group: reports say it in the clear. Errors are then "
        "smaller: in the local model 2 to 95 times, in the shuffle model 1.2 to 1.9 times (for 2 "
        "to 100 groups); --min-reports is then the least of each group",
        False,
    )  # fmt: skip
    mechanism: str = option(
        lambda: "auto takes the one with the least worst-case variance; or one of: "
        f"{', '.join(of_task('mean'))}; of private groups only "
        f"{', '.join(of_task('group means'))}. With --drawn-by shuffler: {SPLIT_MIX}, of one mean, "
        f"whose standard error is {MEAN_FACTOR}: {SPLIT_MIX_TERMS}",
        AUTO, group=PROMISE, metavar="NAME",
    )  # fmt: skip
    cells: Count | None = option(_about_cells, None, group=PROMISE, metavar="N")
    output: str = published("mean.parquet")
    interval: Literal["plug-in", "worst"] = option(
        "plug-in: as wide as the reports show it must be. worst: wide enough for any values",
        "plug-in", group=RESULT,
    )  # fmt: skip

    @classmethod
    def who_draws(cls, written: Mapping[str, Any]) -> DrawnBy:
        return drawn_for(written) or super().who_draws(written)

    @property
    def mixed(self) -> bool:
        """Whether numbers are split into shares."""
        return self.mechanism == SPLIT_MIX and self.drawn_by == SHUFFLER

    @property
    def idle(self) -> frozenset[str]:
        return super().idle - ({"honest_share"} if self.mixed else set())

    @property
    def public_columns(self) -> frozenset[str]:
        return frozenset([self.group_by] if self.groups_public and self.group_by else [])

    @property
    def meaningless(self) -> frozenset[str]:
        return super().meaningless - ({"mechanism"} if self.mixed else set())

    @property
    def hidden_by(self) -> str:
        return MIXED if self.mixed else super().hidden_by


def require_sense(options: MeanOptions) -> None:
    """Refuse options that do not go together.

    Raises:
        RequestError: with what is missing, or too much.
    """
    if options.mechanism == SPLIT_MIX:
        raise RequestError(
            f"--mechanism {SPLIT_MIX}: its noise is drawn by the shuffler; say --drawn-by shuffler"
        )
    grouped = options.group_by is not None
    if options.groups_public and not grouped:
        raise RequestError("--groups-public says something of --group-by, which is missing")
    if options.groups_public and options.model == "shuffle" and options.min_reports is None:
        raise RequestError(
            "--min-reports is missing: with --groups-public, say how many reports at the least "
            "each group must have (each client's epsilon is chosen for that number)"
        )
