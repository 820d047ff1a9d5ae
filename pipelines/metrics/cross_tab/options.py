"""What a person asks for of cross-tabs."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import field_validator

from pipelines.metrics.counting.options import PRESENCE
from pipelines.metrics.options import (
    DEVICES,
    EitherOptions,
    published,
)
from pipelines.request.options import PROMISE, option


class CrossTabOptions(EitherOptions):
    """What a person asks of cross-tabs."""

    metric: ClassVar[str] = "pipelines.metrics.statistics.cross_tab:CrossTab"
    counted: ClassVar[str] = metric
    of_reports: ClassVar[frozenset[str]] = frozenset({"rows_per_user"})
    sizing: ClassVar[str] = "pipelines.size.counters:TablesQuestion"
    files: ClassVar[tuple[str, ...]] = ("domains", "hierarchies")
    brief: ClassVar[str] = "how many there are of each value of several columns, and of each pair"
    description: ClassVar[str] = (
        "Tables of one column and of two: how many users, or rows, have each value and each pair "
        "of values. All tables are estimated together, so their totals agree exactly. "
        f"{PRESENCE} With --drawn-by each-report nobody is trusted: users are divided among "
        "the tables, and every report is randomised."
    )
    examples: ClassVar[str] = """\
examples, with the files of the repository:
  all tables of three columns, one by one and two by two
    hushbeam cross-tab --input examples/flights.parquet --columns origin,carrier,destination \\
        --domains origin=examples/origins.txt carrier=examples/carriers.txt \\
        destination=examples/airports.txt --epsilon 1 --output flights-tabs
  two tables; places.csv has a line for each city: itself, its region and its country
    hushbeam cross-tab --input 'logs/*.parquet' --user-column user --columns city,version,plan \\
        --hierarchies city=places.csv --domains version=1..12 plan=plans.txt \\
        --tables city,plan country,version --epsilon 1 --output users-by
  in the local model: nobody is trusted, and errors grow with the square root of the users
    hushbeam cross-tab --input examples/flights.parquet --columns origin,carrier \\
        --domains origin=examples/origins.txt carrier=examples/carriers.txt \\
        --drawn-by each-report --model local --epsilon 2 --output flights-local
"""
    withheld: ClassVar[str] = "too little budget, or too few reports"
    subject: ClassVar[str] = "what is counted"

    columns: tuple[str, ...] = option(
        "the columns; on a command line also with commas between",
        metavar="COLUMN", min_length=1,
    )  # fmt: skip
    domains: tuple[str, ...] = option(
        "for each column its values: a text file with one a line, or a range of integers; public "
        "knowledge, not taken from the data. All others, and none, are one more value of each",
        (), metavar="COLUMN=FILE|LOW..HIGH", essential=True,
    )  # fmt: skip
    hierarchies: tuple[str, ...] = option(
        "in place of its values, for a column with coarser levels: a CSV file whose first line "
        "names the column and then these, the finest first, as in city,region,country, and each "
        "other line a value and what it belongs to; public knowledge, too",
        (), metavar="COLUMN=FILE",
    )  # fmt: skip
    tables: tuple[str, ...] = option(
        "the tables, each a column or coarser level, or two or three of different columns with "
        "commas between; three where the job or dummies hide them (default: all of one and two)",
        (), metavar="NAME[,NAME]",
    )  # fmt: skip
    max_messages: float | None = option(
        "of dummies: how many messages a user may send on average, dummies among them (default: as "
        "many as give the least error)",
        None, group=PROMISE, metavar="M", ge=1,
    )  # fmt: skip
    output: str = published("cross-tab.parquet")

    @property
    def idle(self) -> frozenset[str]:
        if not self.hides_presence:
            return super().idle | {"max_messages"}
        return super().idle | ({"enrolled"} if self.drawn_by != DEVICES else set())

    @field_validator("columns", "domains", "hierarchies", "tables", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        """One of them need not be written as a list."""
        return (value,) if isinstance(value, str) else value
