"""What a person asks for of cross-tabs."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import field_validator

from pipelines.metrics.counting.options import PRESENCE, CountingOptions
from pipelines.metrics.options import published
from pipelines.options import option


class CrossTabOptions(CountingOptions):
    """What a person asks of cross-tabs."""

    metric: ClassVar[str] = "pipelines.metrics.cross_tab.metric:CrossTab"
    planned: ClassVar[str] = "pipelines.planner.tables:TablesQuestion"
    files: ClassVar[tuple[str, ...]] = ("domains", "hierarchies")
    brief: ClassVar[str] = "how many there are of each value of several columns, and of each pair"
    description: ClassVar[str] = (
        "Tables of one column and of two: how many users, or rows, have each value and each pair "
        "of values. All tables are estimated from all counters together, so they agree: what "
        f"should add up does, to the last digit. {PRESENCE}"
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
"""

    columns: tuple[str, ...] = option(
        "the columns; on a command line also with commas between",
        metavar="COLUMN", min_length=1,
    )  # fmt: skip
    domains: tuple[str, ...] = option(
        "for each column its values: a text file with one a line, or a range of integers; public "
        "knowledge, not taken from the data. All others, and none, are one more value of each",
        (), metavar="COLUMN=FILE|LOW..HIGH",
    )  # fmt: skip
    hierarchies: tuple[str, ...] = option(
        "in place of its values, for a column with coarser levels: a CSV file whose first line "
        "names the column and then these, the finest first, as in city,region,country, and each "
        "other line a value and what it belongs to; public knowledge, too",
        (), metavar="COLUMN=FILE",
    )  # fmt: skip
    tables: tuple[str, ...] = option(
        "the tables, each a column or coarser level, or two of different columns with a comma "
        "between (default: all of them)",
        (), metavar="NAME[,NAME]",
    )  # fmt: skip
    output: str = published("cross-tab.parquet")

    @field_validator("columns", "domains", "hierarchies", "tables", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        """One of them need not be written as a list."""
        return (value,) if isinstance(value, str) else value
