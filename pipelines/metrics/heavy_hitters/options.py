"""What a person asks for of heavy hitters."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from mechanisms.planner import AUTO
from pipelines.metrics.options import EitherOptions, published
from pipelines.request.options import PROMISE, RESULT, option
from pipelines.request.requests import AS_TYPED, Count

_SEARCH = "how it is searched"


class HeavyHittersOptions(EitherOptions):
    """What a person asks for; every number is checked before anything is read."""

    metric: ClassVar[str] = "pipelines.metrics.heavy_hitters.metric:HeavyHitters"
    counted: ClassVar[str] = "pipelines.metrics.counting.heavy_hitters:CountedHeavyHitters"
    of_reports: ClassVar[frozenset[str]] = frozenset({"system", "oracle", "rows_per_user"})
    brief: ClassVar[str] = "frequent strings, level by level from randomised reports"
    description: ClassVar[str] = (
        "The frequent strings of a telemetry log, of which none was declared: addresses, versions, "
        "queries, words. No list of candidates is needed; a string that few hold stays unknown to "
        "everybody."
    )
    subject: ClassVar[str] = "what is looked for"

    column: str = option(
        "the column whose strings are looked for; integers are taken as their digits"
    )
    alphabet: tuple[str, ...] | None = option(
        "which characters a string may hold: bytes (all text), printable, digits, lower, upper, or "
        "characters as they are, as in: lower digits ./-_ ; rows with others are dropped and "
        "counted (default: bytes, or digits for integers). It must be public knowledge",
        None, metavar="SET",
    )  # fmt: skip
    max_length: Count | None = option(
        "how many characters (of all text: bytes) are looked at (default: 32, or 10 for integers)",
        None, metavar="L",
    )  # fmt: skip
    model: Literal["local", "shuffle"] = option(
        "local: every report alone is epsilon-private. shuffle: the release is (epsilon, "
        "delta)-private, and finds far rarer strings",
        "shuffle", group=PROMISE,
    )  # fmt: skip
    min_reports: Count | None = option(
        "withhold the release if fewer reports come; the search is planned for so many (default: "
        "99 % of the rows in the shuffle model, or 90 % where rows may be left out; needed there "
        "with --user-column)",
        None, group=PROMISE, metavar="N",
    )  # fmt: skip
    system: Literal["pem", "treehist"] = option(
        "pem: several characters a level, as finds the rarest strings. treehist: one character a "
        "level, with one-bit reports",
        "pem", group=_SEARCH,
    )  # fmt: skip
    oracle: str = option(
        "what reports the buckets: grr, olh, srr, hadamard, projective, or auto for the one that "
        "finds the rarest strings",
        AUTO, group=_SEARCH, metavar="NAME",
    )  # fmt: skip
    output: str = published("heavy_hitters.parquet")
    top: Annotated[int, Field(ge=1, le=10_000), AS_TYPED] | None = option(
        "the K most frequent only (default: all that stand out)",
        None, group=RESULT, metavar="K",
    )  # fmt: skip
    false_strings: float = option(
        "how many strings that nobody holds may be in the release on average; below 1 it bounds "
        "the probability that there is any. More lets rarer strings in",
        0.01, group=RESULT, metavar="F", gt=0, le=1000,
    )  # fmt: skip
