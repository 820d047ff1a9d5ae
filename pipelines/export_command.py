"""`hushbeam export`: one table of many releases, for whatever reads Parquet or CSV."""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, BinaryIO

from pipelines import answers
from pipelines.errors import DONE, RequestError, reason

if TYPE_CHECKING:
    import pyarrow as pa

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

_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
_NUMBERS = re.compile(r"[+-]?[\d.]+(e[+-]?\d+)?(\.\.[+-]?[\d.]+(e[+-]?\d+)?)?", re.ASCII)


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "export",
        description=_DOC,
        epilog=_EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "releases", nargs="+", metavar="RELEASES",
        help="folders of releases, folders that hold such, or globs of them; local or gs://",
    )  # fmt: skip
    parser.add_argument(
        "--output", required=True, metavar="FILE", help="a new file: .parquet or .csv"
    )
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace, rest: list[str]) -> int:
    """Write one table of many releases.

    Raises:
        RequestError: there is none, or the file is there already, or cannot be written.
    """
    from pipelines import history
    from pipelines.requests import no_more

    no_more(rest)
    output: str = arguments.output
    ending = os.path.splitext(output)[1]
    if ending not in _WRITERS:
        raise RequestError(f"--output: {output} ends in none of {', '.join(_WRITERS)}")
    published = history.found(arguments.releases)
    earlier = sum(not one.figures for one in published)
    try:
        rows = _written(output, history.long(published), _WRITERS[ending])
    except OSError as error:
        raise RequestError(f"--output: {output} cannot be written: {reason(error)}") from None
    answers.tell(output=output, figures=rows, metrics=len(published), without_figures=earlier)
    left = f"; {earlier:,} of models, or of an earlier version, have none" if earlier else ""
    print(f"{rows:,} figures of {len(published):,} metrics in {output}{left}")
    return DONE


def _written(output: str, tables: Iterable[pa.Table], write: Any) -> int:
    """A file that is whole or is not there.

    Returns:
        How many rows it has.
    """
    from apache_beam.io.filesystems import FileSystems

    if FileSystems.exists(output):
        raise RequestError(f"--output: {output} is there already; name a new file")
    if FileSystems.get_scheme(output) is not None:
        with FileSystems.create(output) as stream:
            return int(write(stream, tables))
    folder, name = os.path.split(os.path.abspath(output))
    handle, partial = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
    try:
        with os.fdopen(handle, "wb") as stream:
            rows = int(write(stream, tables))
        os.chmod(partial, 0o644)
        os.link(partial, output)  # fails where another has written it meanwhile
        return rows
    finally:
        os.unlink(partial)


def _parquet(stream: BinaryIO, tables: Iterable[pa.Table]) -> int:
    import pyarrow.parquet as pq

    from pipelines.metrics.schema import LONG

    rows = 0
    with pq.ParquetWriter(stream, LONG, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table)
            rows += len(table)
    return rows


def _csv(stream: BinaryIO, tables: Iterable[pa.Table]) -> int:
    from pyarrow import csv

    from pipelines.metrics.schema import LONG

    rows = 0
    with csv.CSVWriter(stream, LONG) as writer:
        for table in tables:
            writer.write_table(harmless(table))
            rows += len(table)
    return rows


def harmless(table: pa.Table) -> pa.Table:
    """A table whose texts no spreadsheet takes for a formula: clients may have made them up.

    >>> import pyarrow as pa
    >>> harmless(pa.table({"value": ["=1+1", "-5", "Oslo"]}))["value"].to_pylist()
    ["'=1+1", '-5', 'Oslo']
    """
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            texts = [_harmless(text) for text in table.column(place).to_pylist()]
            table = table.set_column(place, field, pa.array(texts, field.type))
    return table


def _harmless(text: str | None) -> str | None:
    if text is None or not text.startswith(_FORMULAS):
        return text
    return text if _NUMBERS.fullmatch(text) else f"'{text}"


_WRITERS = {".parquet": _parquet, ".csv": _csv}
