"""`hushbeam export`: one table of many releases, for whatever reads Parquet or CSV."""

from __future__ import annotations

from typing import Any

from pipelines.errors import DONE
from pipelines.request import answers
from pipelines.request.commands import add
from pipelines.request.options import option
from pipelines.request.requests import RequestOptions
from pipelines.wording import number_of

_DOC = "One table of the releases in some folders: a row for each figure, the same columns for all."

_EXAMPLE = """\
examples:
  hushbeam export releases --output figures.parquet
  hushbeam export 'releases/2026-11-*' --output november.csv
  hushbeam export gs://bucket/releases --output gs://bucket/figures.parquet

Columns: collection, metric, window, window_start, window_end, release_id, kind, figure, unit,
epsilon, delta, model; group, value; estimate, standard_error, lower, upper, lower_simultaneous,
upper_simultaneous, n, n_standard_error. What each means, and how DuckDB, pandas and BigQuery read
them: docs/tables.md.
"""


class ExportOptions(RequestOptions):
    """Which releases, and where to."""

    releases: tuple[str, ...] = option(
        "folders of releases, folders that hold such, or globs of them; local or gs://",
        metavar="RELEASES", positional=True,
    )  # fmt: skip
    output: str = option("a new file: .parquet or .csv", metavar="FILE")


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    add(commands, "export", ExportOptions, run, _DOC, _EXAMPLE)


def run(options: ExportOptions) -> int:
    """Write one table of many releases.

    Raises:
        RequestError: there is none, or the file is there already, or cannot be written.
    """
    from pipelines.releases import history
    from pipelines.releases.schema import LONG
    from pipelines.storage import table_files

    output = options.output
    table_files.require_writable(output)
    published = history.releases_in(options.releases)
    without = sum(not one.figures for one in published)
    rows = table_files.write(output, LONG, history.long(published))
    answers.tell(output=output, figures=rows, metrics=len(published), without_figures=without)
    left = f"; {without:,} of models have none" if without else ""
    print(f"{number_of(rows, 'figure')} of {number_of(len(published), 'metric')} in {output}{left}")
    return DONE
