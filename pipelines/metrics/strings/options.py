"""What a person asks of strings that nobody declared, and which search answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from mechanisms.planner import AUTO
from pipelines.metrics.options import JOB, DrawnBy, EitherOptions, published
from pipelines.request.options import PROMISE, RESULT, option
from pipelines.request.requests import AS_TYPED, Count, Delta

_SEARCH = "how it is searched"
_SEARCHES = "pipelines.metrics.strings"
THRESHOLD, WEIGHTED, LEVELS = "threshold", "weighted", "levels"
_MANY = 100  # strings of a user that count by weights, where nobody says


class StringsOptions(EitherOptions):
    """What a person asks for; every number is checked before anything is read."""

    metric: ClassVar[str] = "pipelines.metrics.statistics.strings:UndeclaredStrings"
    counted: ClassVar[str] = metric
    sizing: ClassVar[str] = "pipelines.size.counters:StringsQuestion"
    withheld: ClassVar[str] = "too little budget, or too few reports"
    brief: ClassVar[str] = "the frequent strings, of which none was declared"
    description: ClassVar[str] = (
        "The frequent strings of a telemetry log and how many hold each, such as addresses, error "
        "messages, names of features or words. No list of candidates is needed. A string that few "
        "hold stays unknown."
    )
    examples: ClassVar[str] = """\
examples, with the files of the repository:
  by a threshold: some twenty holders are enough, and the job is trusted with the strings
    hushbeam strings --input examples/flights.parquet --column destination \\
        --epsilon 1 --output flights-strings
  by levels, of reports: nobody is trusted with a string, and hundreds of a million must hold it
    hushbeam strings --search levels --drawn-by each-report --input examples/flights.parquet \\
        --column destination --alphabet upper --max-length 3 --epsilon 1 --output flights-places

how threshold works: the job counts the strings, adds noise to each number, and publishes those
above a threshold that noise alone never reaches. All others it forgets. Whether anybody takes part
is hidden.

how levels works: strings are built up from their beginnings, and those are followed that stand out
of noise. The job counts beginnings, and adds noise to each number. With --drawn-by each-report
nobody is trusted: each user reports the beginning of its string, of a random length, as a
randomised bucket of a public hash; only far more frequent strings are found. One row of each user
of --user-column counts.

what is found: before the run a line says how many users must hold a string. It falls with a larger
epsilon; of levels also with more users, a smaller --alphabet and a shorter --max-length.
"""
    subject: ClassVar[str] = "what is looked for"

    column: str = option(
        "the column whose strings are looked for; integers are taken as their digits"
    )
    search: Literal["threshold", "weighted", "levels"] = option(
        "threshold (the job counts strings: some twenty holders are enough), weighted (the same "
        "where users have many strings: each counts for the less) or levels (beginnings are "
        "counted, longer and longer ones; with --drawn-by each-report of randomised reports)",
        THRESHOLD, group=_SEARCH, essential=True, figure=True,
    )  # fmt: skip
    max_length: Annotated[int, Field(ge=1, le=1 << 10), AS_TYPED] | None = option(
        "how much of a string is looked at; longer ones are published by their beginning, and "
        "marked. Of a threshold: bytes in UTF-8 (default: 64). Of levels: characters of the "
        "alphabet (default: 32, or 10 for integers)",
        None, metavar="L",
    )  # fmt: skip
    alphabet: tuple[str, ...] | None = option(
        "of levels: which characters a string may hold: bytes (all text), printable, digits, "
        "lower, upper, or characters as they are, as in: lower digits ./-_ ; rows with others "
        "cannot be used (default: bytes, or digits for integers). It must be public knowledge",
        None, metavar="SET",
    )  # fmt: skip
    user_column: str | None = option(
        "protect users, not rows: all rows of a user together; of levels, one uniformly chosen row "
        "of each is used",
        None, group=PROMISE, metavar="COLUMN", essential=True,
    )  # fmt: skip
    delta: Delta | None = option(
        "the probability that epsilon may fail (default: 1e-6, less for batches of a million "
        "reports and more; in the local model 0); about one in as many users as there are, or less",
        None, group=PROMISE,
    )  # fmt: skip
    rows_per_user: Count = option(
        "of a threshold: k, how many different strings of a user count; where a user has more they "
        "are drawn uniformly. The threshold grows with k where k is small, and with its square "
        "root from about 5 on: take what most users have. Of weights: at the most (default: 100)",
        1, group=PROMISE, metavar="K", figure=True, le=1 << 16,
    )  # fmt: skip
    selection_share: float = option(
        "of weights: which part of the price is for finding strings; the rest is for the numbers "
        "of users that hold them. 1 finds most, and publishes noisy weights in their place",
        0.5, group=PROMISE, metavar="S", gt=0, le=1,
    )  # fmt: skip
    model: Literal["local", "shuffle"] = option(
        "of levels: who is trusted. local: every report alone is epsilon-private. shuffle: the "
        "release is (epsilon, delta)-private, and finds far rarer strings",
        "shuffle", group=PROMISE,
    )  # fmt: skip
    min_reports: Count | None = option(
        "of levels: withhold the release if fewer reports come; the search is planned for so many "
        "(default: 99 % of the rows in the shuffle model, or 90 % where rows may be left out; "
        "needed there with --user-column)",
        None, group=PROMISE, metavar="N",
    )  # fmt: skip
    system: Literal["pem", "treehist"] = option(
        "of levels: how long they are. pem: several characters each, as finds the rarest strings. "
        "treehist: one character each, with one-bit reports",
        "pem", group=_SEARCH,
    )  # fmt: skip
    oracle: str = option(
        "of levels: what reports the buckets: grr, olh, srr, hadamard, projective, or auto for the "
        "one that finds the rarest strings",
        AUTO, group=_SEARCH, metavar="NAME",
    )  # fmt: skip
    output: str = published("strings.parquet")
    top: Annotated[int, Field(ge=1, le=10_000), AS_TYPED] | None = option(
        "of levels: the K most frequent only (default: all that stand out)",
        None, group=RESULT, metavar="K",
    )  # fmt: skip
    false_strings: float = option(
        "of levels: how many strings that nobody holds may be in the release on average; below 1 "
        "it bounds the probability that there is any. More lets rarer strings in",
        0.01, group=RESULT, metavar="F", gt=0, le=1000,
    )  # fmt: skip

    @classmethod
    def who_draws(cls, written: Mapping[str, Any]) -> DrawnBy:
        if written.get("search") in (None, THRESHOLD, WEIGHTED):
            return written.get("drawn_by") or JOB
        return super().who_draws(written)

    @property
    def strings_per_user(self) -> int:
        """k of weights."""
        several = self.user_column is not None and "rows_per_user" not in self.model_fields_set
        return _MANY if several else self.rows_per_user

    @property
    def unsaid(self) -> frozenset[str]:
        own = {"selection_share"} if self.search != WEIGHTED else {"rows_per_user"}
        return super().unsaid | (own - self.model_fields_set)

    @property
    def hidden_by(self) -> str:
        if self.search == WEIGHTED:
            return f"{_SEARCHES}.weighted:StringsByWeight"
        if self.search == THRESHOLD:
            return f"{_SEARCHES}.threshold:StringsAboveThreshold"
        by = {True: "counters:LevelsByCounters", False: "reports:LevelsByReports"}
        own = "counters:LevelsByJob" if self.drawn_by == JOB else by[self.hides_presence]
        return f"{_SEARCHES}.levels_by_{own}"

    @property
    def idle(self) -> frozenset[str]:
        own = {"selection_share"} if self.search != WEIGHTED else frozenset[str]()
        if self.search != LEVELS:
            none = {"alphabet", "system", "oracle", "top", "false_strings", "enrolled"}
            return super().idle | none | own
        if self.hides_presence:
            return super().idle | {"system", "oracle", "rows_per_user"} | own
        return super().idle | own
