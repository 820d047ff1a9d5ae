"""`hushbeam.sql`: a query over files and frames, answered with noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hushbeam.kinds import published, require_known
from hushbeam.releases import Release
from pipelines.errors import RequestError


def sql(
    query: str,
    *,
    tables: Mapping[str, Any] | None = None,
    public: Mapping[str, Any] | None = None,
    **request: Any,
) -> Release:
    """Answer one SELECT of GoogleSQL; see docs/sql.md.

    Args:
        query: the query, or a file that ends in .sql.
        tables: the log, by the name behind FROM: paths or globs, or a pyarrow table, a
            pandas or a polars frame. None where FROM names files.
        public: tables that everybody may know, by name, of the same types.
        **request: user_column, epsilon, delta, groups, max_groups, rows_per_user and the other
            options of `hushbeam query`; ledger, population, beam and debug as of other functions.

    Returns:
        The release; `.table` is the answer, and `.metrics` are its statistics.

    Raises:
        RequestError: the query or its input is wrong: one line, with the place in the query.
        WithheldError: too little budget is left.
        FailedError: the job ended without a release.
    """
    from pipelines.command.query_options import QueryOptions

    require_known("sql", QueryOptions, request)
    if tables is not None and len(tables) != 1:
        raise RequestError("tables: one log is queried; what everybody may know is `public`")
    log = () if tables is None else next(iter(tables.values()))
    return published(
        "query", QueryOptions, {"input": log, "query": query, "public": public} | request
    )
