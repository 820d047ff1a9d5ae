"""What a person asks for of a distribution."""

from __future__ import annotations

from typing import Any, ClassVar

from mechanisms.catalog import of_task
from mechanisms.distribution import LEAST_BINS, MOST_BINS, MOST_COUNTED
from mechanisms.planner import AUTO
from pipelines.metrics.options import TREES, DiscoveryOptions, NumberOptions, published
from pipelines.request.options import PROMISE, RESULT, option
from pipelines.request.requests import Whole


def _about_mechanisms() -> str:
    # Planners take a second to import: who does not ask for this text need not wait.
    from mechanisms.distribution.fitting import oracles

    return (
        "auto takes the square wave, nm, whose quantiles came nearest wherever they were compared; "
        f"or one of: {', '.join((*of_task('mean'), *oracles()))}; those whose reports do not "
        "determine a distribution are refused"
    )


class DistributionOptions(NumberOptions, DiscoveryOptions):
    """What a person asks for; every number is checked before anything is read."""

    metric: ClassVar[str] = "pipelines.metrics.statistics.distribution:Distribution"
    counted: ClassVar[str] = metric
    of_reports: ClassVar[frozenset[str]] = frozenset({"mechanism", "smooth"})
    files: ClassVar[tuple[str, ...]] = ("groups", "group")
    brief: ClassVar[str] = "the histogram and the quantiles of a column of numbers"
    description: ClassVar[str] = (
        "The histogram and the quantiles of a column of numbers. Each user counts once: all of its "
        "rows share it, or, where not the job draws the noise, one that is drawn has it. Numbers "
        "are clipped to --bounds; how many were is not published."
    )
    examples: ClassVar[str] = """\
examples:
  hushbeam distribution --input 'logs/*.parquet' --column seconds --bounds 0,600 \\
      --epsilon 1 --output seconds-distribution
  hushbeam distribution --input 'logs/*.parquet' --column ms --bounds 0,5000 --quantiles 0.5,0.95 \\
      --user-column user --group-by version --groups versions.txt --epsilon 1 --output p95
"""

    group_by: str | None = option(
        "quantiles and shares for each value of this column", None, metavar="COLUMN"
    )
    groups: str | None = option(
        "the groups: a text file with one a line, or a range of integers; public knowledge, not "
        "taken from the data. Without it groups are those that enough users have",
        None, metavar="FILE|LOW..HIGH", min_length=1,
    )  # fmt: skip
    mechanism: str = option(_about_mechanisms, AUTO, group=PROMISE, metavar="NAME")
    output: str = published("distribution.parquet", "quantiles.parquet")
    bins: Whole | None = option(
        "how many bins lie between the bounds (default: about the square root of the number of "
        f"reports, a power of two from 8 to 512, and at most {MOST_BINS:,}; with --drawn-by 1,024, "
        f"and at most {MOST_COUNTED:,})",
        None, group=RESULT, metavar="B", ge=LEAST_BINS, le=MOST_COUNTED,
    )  # fmt: skip
    quantiles: str | None = option(
        "which quantiles are published (default: 0.01,0.05,0.1,0.25,0.5,0.75,0.9,0.95,0.99)",
        None, group=RESULT, metavar="P,P,...", min_length=1,
    )  # fmt: skip
    quantile: float | None = option(
        "this quantile alone, and no shares: the job draws it by the exponential mechanism, a few "
        "rows from the truth, or takes it from the tree, whichever errs less",
        None, group=RESULT, metavar="P", gt=0, lt=1,
    )  # fmt: skip
    smooth: bool = option(
        "smooth the estimated shares (EMS): closer where the distribution is smooth, biased and "
        "far off where it has spikes; intervals, unbiased shares and the mean stay as they are",
        False, group=RESULT,
    )  # fmt: skip

    @property
    def hidden_by(self) -> str:
        return TREES if self.undeclared_columns else super().hidden_by

    @property
    def shared(self) -> bool:
        return super().shared or (self.unit == "user" and self.hidden_by == TREES)

    @property
    def unsaid(self) -> frozenset[str]:
        said = {"choose_bounds"} | ({"quantile"} - self.model_fields_set)
        return super().unsaid | said  # no part of what reports of plans mean

    @property
    def unstated(self) -> frozenset[str]:
        return super().unstated | {"quantiles"}  # its tables say them again

    @property
    def meaning(self) -> dict[str, Any]:
        """As elsewhere, with an option that meant nothing and is covered since plans are."""
        return super().meaning | {"cells": None}
