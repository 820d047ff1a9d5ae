"""What a person asks for of an average row."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from mechanisms.catalog import of_task
from mechanisms.planner import AUTO
from pipelines.metrics.options import (
    JOB,
    EitherOptions,
    RowOptions,
    published,
)
from pipelines.request.options import PROMISE, RESULT, option
from pipelines.request.requests import Count


class VectorMeanOptions(RowOptions, EitherOptions):
    """What a person asks for; every number is checked before anything is read."""

    metric: ClassVar[str] = "pipelines.metrics.statistics.vector_mean:AverageRow"
    sizing: ClassVar[str] = "pipelines.size.counters:AveragesQuestion"
    counted: ClassVar[str] = metric
    of_reports: ClassVar[frozenset[str]] = frozenset(
        {"radius", "mechanism", "shrink", "prior", "rows_per_user"}
    )
    files: ClassVar[tuple[str, ...]] = ("category", "prior")
    brief: ClassVar[str] = (
        "the average of many numbers at once: of columns, or of a column of lists"
    )
    description: ClassVar[str] = (
        "The average row of a log whose rows hold many numbers: columns, or a column of lists, up "
        "to 100,000 and more of them. Of each user one row counts, drawn uniformly; of reports, a "
        "few of its numbers. Numbers are clipped to their bounds; how many were is not published."
    )
    examples: ClassVar[str] = """\
examples:
  hushbeam vector-mean --input 'logs/*.parquet' --number 'f*=0,1' --epsilon 1 --output features
  hushbeam vector-mean --input 'logs/*.parquet' --vector pixels=784:0,255 --user-column user \\
      --min-reports 100000 --epsilon 1 --output average-image
  all numbers of every row, at the error of a trusted collector; who takes part is hidden
    hushbeam vector-mean --input 'logs/*.parquet' --number 'f*=0,1' --user-column user \\
        --drawn-by shuffler --epsilon 1 --output features
"""
    subject: ClassVar[str] = "what is averaged"

    radius: float | None = option(
        "the length (l2 norm) that rows have at the most, once every number is scaled from its "
        "bounds to [-1, 1]; lets auto consider privunit, which shortens longer rows and counts "
        "them on the screen",
        None, metavar="R", gt=0,
    )  # fmt: skip
    mechanism: str = option(
        lambda: "auto takes the one with the least worst-case variance; or one of: "
        + ", ".join(of_task("vector")),
        AUTO, group=PROMISE, metavar="NAME",
    )  # fmt: skip
    digits: Count | None = option(
        "with --drawn-by: how many binary digits of each number are sent, a message each; fewer "
        "round more (default: as many as keep rounding below a third of the noise's variance, for "
        "as many as --expected says); `hushbeam size --averages D` compares",
        None, metavar="T", figure=False, le=16,
    )  # fmt: skip
    count_each: bool = option(
        "of the job: count for each number who has one, at 1.4 times the error; without it one "
        "count serves all, and a number that is missing counts as the middle of its bounds",
        False,
    )  # fmt: skip
    output: str = published("vector-mean.parquet")
    reports: bool = option(
        "publish what each user sent as a row, too: reports.parquet, a data set of perturbed rows "
        "for whatever is asked later, at no further price. With --model local, numbers alone, and "
        "--unusable fill=VALUE or count",
        False, group=RESULT, figure=False,
    )  # fmt: skip
    shrink: Literal["none", "zero", "grand-mean", "prior"] = option(
        "a second estimate, moved towards the middle of the bounds, the mean of all coordinates or "
        "the row in --prior, by as much as the noise suggests (James and Stein): nearer to the "
        "truth in all, biased in each; the unbiased one stays beside it",
        "grand-mean", group=RESULT,
    )  # fmt: skip
    prior: str | None = option(
        "a text file with a number for each coordinate, one a line, in the units of the bounds; "
        "public knowledge, not taken from the data",
        None, group=RESULT, metavar="FILE", min_length=1,
    )  # fmt: skip

    @property
    def idle(self) -> frozenset[str]:
        own = {"reports" if self.hides_presence else "digits"}
        return super().idle | own | (set() if self.drawn_by == JOB else {"count_each"})

    @property
    def one_job_only(self) -> str | None:
        if self.reports:
            return "reports: perturbed rows are put together by the job that reads the log"
        return super().one_job_only

    @property
    def unsaid(self) -> frozenset[str]:
        named = {"reports", "count_each"}
        return super().unsaid | {name for name in named if not getattr(self, name)}

    @property
    def meaning(self) -> dict[str, Any]:
        """As elsewhere, with options that meant nothing and are covered since plans are."""
        return super().meaning | {"column": "", "bounds": None, "cells": None}
