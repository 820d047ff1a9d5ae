"""What a person asks for of a histogram."""

from __future__ import annotations

from typing import ClassVar, Literal

from mechanisms.catalog import of_task
from mechanisms.planner import AUTO
from pipelines.metrics.options import LOCAL_OR_SHUFFLE, EitherOptions, published
from pipelines.request.options import PROMISE, RESULT, option


class HistogramOptions(EitherOptions):
    """What a person asks for; every number is checked before anything is read."""

    metric: ClassVar[str] = "pipelines.metrics.statistics.histogram:Histogram"
    counted: ClassVar[str] = metric
    of_reports: ClassVar[frozenset[str]] = frozenset({"mechanism", "max_messages", "bound"})
    files: ClassVar[tuple[str, ...]] = ("domain",)
    brief: ClassVar[str] = "how often each value of a declared domain occurs"
    description: ClassVar[str] = (
        "How often each value of a declared domain occurs in a telemetry log. Each user counts "
        "once, and different values share it; with --rows-per-user each of so many counts. Where "
        "not the job draws the noise, more are drawn from; of reports one row counts."
    )
    examples: ClassVar[str] = """\
examples, with the files of the repository:
  hushbeam histogram --input examples/flights.parquet --column destination \\
      --domain examples/airports.txt --epsilon 1 --output flights-histogram
  which share of the users has each value, of up to ten values a user
    hushbeam histogram --input 'logs/*.parquet' --user-column user --column city \\
        --domain cities.txt --drawn-by shuffler --rows-per-user 10 --epsilon 1 --output cities
"""
    subject: ClassVar[str] = "what is counted"

    column: str = option("the column whose values are counted")
    domain: str = option(
        "the values that may occur: a text file with one a line, or a range of integers. It must "
        "be public knowledge, not taken from the data",
        metavar="FILE|LOW..HIGH", min_length=1,
        hint="--domain=-60..60, with an equals sign, if it starts below 0",
    )  # fmt: skip
    out_of_domain: Literal["drop", "other"] = option(
        "values outside the domain are dropped and counted, or share one more bin", "drop"
    )
    model: Literal["local", "shuffle"] | None = option(  # type: ignore[assignment]
        f"{LOCAL_OR_SHUFFLE} (default: shuffle, or what --mechanism serves)", None, group=PROMISE
    )
    mechanism: str = option(
        lambda: "auto takes the one with the least predicted error; or one of: "
        + ", ".join(name for name, one in of_task("frequency").items() if one.of_reports),
        AUTO, group=PROMISE, metavar="NAME",
    )  # fmt: skip
    max_messages: float = option(
        "shuffle model: how many messages a user may send on average, for auto; more than 1 lets "
        "users hide their values among dummies",
        1.0, group=PROMISE, metavar="M", ge=1,
    )  # fmt: skip
    bound: Literal["exact", "published"] = option(
        "published: choose parameters by the closed form of the system's own paper, to reproduce "
        "it; the statement tells the exact loss",
        "exact", group=PROMISE,
    )  # fmt: skip
    output: str = published("histogram.parquet")
    postprocess: Literal["auto", "pop", "shrinkage", "empirical-bayes", "none"] | None = option(
        "what the estimates are, beside the unbiased ones: auto takes what is estimated to err "
        "least of the others, or that all values are alike; pop is the nearest histogram whose "
        "shares are nonnegative and add up to 1; shrinkage moves all towards alike before, "
        "empirical-bayes to what such estimates usually come from (default: auto, or as a named "
        "system's paper has it; of totals with noise pop, or shares truncated to 0 .. 1 where a "
        "user has several values)",
        None, group=RESULT,
    )  # fmt: skip
