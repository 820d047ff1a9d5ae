"""What a person asks with a query, beside its text."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import ConfigDict

from pipelines.command.arguments import add_command
from pipelines.metrics.first_round import ROUND
from pipelines.metrics.options import ReleaseOptions
from pipelines.request.options import PROMISE, RESULT, option
from pipelines.request.requests import Count, Pairs

DESCRIPTION = (
    "Answer one SELECT of GoogleSQL with noise: COUNT, SUM, AVG and quantiles, GROUP BY declared "
    "values. It is compiled to statistics at one joint price; docs/sql.md lists what is answered."
)


class QueryOptions(ReleaseOptions):
    """A query, and what it does not say itself."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    subject: ClassVar[str] = "the query"
    brief: ClassVar[str] = "a SELECT of GoogleSQL, answered with noise"
    description: ClassVar[str] = DESCRIPTION
    files: ClassVar[tuple[str, ...]] = ("groups",)
    logs: ClassVar[tuple[str, ...]] = ("public",)
    publisher: ClassVar[str] = "pipelines.command.query:publish"
    examples: ClassVar[str] = """\
examples:
  hushbeam query "SELECT city, COUNT(*, contribution_bounds_per_group => (0, 10)) AS trips \\
      FROM 'trips/*.csv.gz' RIGHT JOIN UNNEST(['Oslo', 'Bern']) AS city USING (city) \\
      GROUP BY city" --user-column rider --epsilon 1 --output out
  hushbeam query report.sql --user-column rider --epsilon 1 --output out --explain
"""

    query: str = option(
        "the query, or a file that ends in .sql", positional=True, min_length=1, metavar="QUERY"
    )
    input: tuple[str, ...] = option(
        "files or globs of the log, where FROM has a name and no file", (), metavar="FILE",
        figure=False,
    )  # fmt: skip
    user_column: str | None = option(
        "protect users, not rows: all rows of a user together; privacy_unit_column of the clause",
        None, group=PROMISE, metavar="COLUMN", essential=True,
    )  # fmt: skip
    output: str = option(
        "a new folder, local or gs://: query.parquet, query.csv, statement.json, report.html, and "
        "a folder for each statistic",
        "", group=RESULT, metavar="FOLDER", essential=True,
    )  # fmt: skip
    groups: Pairs = option(
        "the values of a column that GROUP BY names: a text file with one a line, or a range of "
        "integers; public knowledge, not taken from the data",
        (), metavar="COLUMN=FILE|LOW..HIGH", repeated=True, essential=True,
    )  # fmt: skip
    public: tuple[str, ...] = option(
        "a small table that everybody may know, to JOIN by a key: a file, whose name without its "
        "ending is the table's, or NAME=FILE",
        (), metavar="[NAME=]FILE", repeated=True,
    )  # fmt: skip
    max_groups: Count | None = option(
        "how many groups of a user count, drawn uniformly where it has more (default: 1); "
        "max_groups_contributed of the query's clause",
        None, group=PROMISE, metavar="K", essential=True,
    )  # fmt: skip
    rows_per_user: Count | None = option(
        "how many rows of a user count where an aggregate has no bounds of a group: each counts "
        "for itself, drawn uniformly where a user has more",
        None, group=PROMISE, metavar="R", essential=True,
    )  # fmt: skip
    choose_bounds: bool = option(
        f"choose bounds that AVG, SUM of rows and quantiles lack, for a tenth of epsilon; {ROUND}",
        False,
        essential=True,
    )
    explain: bool = option(
        "show what the query compiles to, what each figure means, its predicted error and the "
        "price; read no row, and publish nothing", False, group=RESULT, essential=True,
    )  # fmt: skip


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    add_command(commands, "query", QueryOptions, "pipelines.command.query:run")
