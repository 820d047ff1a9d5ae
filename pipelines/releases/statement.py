"""What the statements of all releases have in common, and how tables are written."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import cache
from importlib.metadata import version
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mechanisms.channel import Guarantee
from mechanisms.designs import UnknownDesignError, written
from pipelines.releases.release import STATEMENT_VERSION
from pipelines.wording import RAW_ROWS, distinct_promises, meaning
from transforms.elements.progress import ROWS
from transforms.encoders.encoder import NULL_USER
from transforms.encoders.part import ELSEWHERE

_PACKAGES = ("hushbeam", "apache-beam", "numpy", "scipy", "pyarrow", "cryptography")
_HEAD = 1 << 14  # values of a column, which tell whether a dictionary of it pays
_version = cache(version)  # a package's whole description is read for it, 1 ms each


def head(
    kind: str,
    guarantees: tuple[Guarantee, Guarantee],
    covers: str,
    more_words: Iterable[str],
    least: int,
    design: Any = None,
) -> dict[str, Any]:
    """How the statement of any release begins.

    Args:
        kind: of metric.
        guarantees: what the release promises, and what a single report does.
        covers: what the promise covers, in words.
        more_words: cautions, and what else the promises need.
        least: the least batch for which the guarantee was computed.
        design: from which anybody computes it again; None if nobody can.
    """
    released, local = guarantees
    promise, *alone = (meaning(guarantee, least) for guarantee in distinct_promises(guarantees))
    return {
        "statement_version": STATEMENT_VERSION,
        "release": kind,
        "release_id": None,  # whoever publishes knows it
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "in_words": [promise, covers, *alone, *more_words, RAW_ROWS],
        "guarantees": {"release": released.as_dict(), "local": local.as_dict()},
        "design": recorded(design),
    }


def recorded(design: Any) -> Any:
    """A design as data; None of one whose price nobody can compute from its data yet."""
    try:
        return written(design)
    except UnknownDesignError:
        return None


def counted(
    n: int, invalid: int, tallies: Mapping[str, int], unusable: bool, unit: str
) -> dict[str, Any]:
    """What a statement counts: all of it is published as it is.

    How many rows there are is public where a row is what is replaced: there are as many as before.
    A user who is replaced may have more rows than before, so of users' rows nothing is counted but
    those that a request leaves out for their values, and says so.

    Args:
        n: how many reports there are.
        invalid: how many messages no client could have sent.
        tallies: the rows read, and those that were left out, by reason.
        unusable: whether rows are left out for their values.
        unit: what is replaced.
    """
    hidden = () if unit == "row" else (NULL_USER, ELSEWHERE)
    reasons = sorted(tallies.keys() - {ROWS, *hidden})
    return {
        "published_exactly": published_exactly("of reports", unusable, unit),
        "n": n,
        **({"rows_read": tallies.get(ROWS, 0)} if unit == "row" else {}),
        "rejects": {name: tallies[name] for name in reasons},
        "invalid_reports": invalid,
    }


def published_exactly(reports: str, unusable: bool, unit: str) -> str:
    """What no promise covers.

    Args:
        reports: of which kind they are counted.
        unusable: whether rows are left out for their values.
        unit: what is replaced.
    """
    parts = [f"the number {reports}"]
    parts += ["of rows read"] * (unit == "row") + ["of rejects by reason"] * unusable
    return listed(parts)


def listed(parts: Sequence[str]) -> str:
    """One or more things, as people list them.

    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b and c', 'a')
    """
    return ", ".join(parts[:-1]) + " and " * (len(parts) > 1) + parts[-1]


def versions() -> dict[str, str]:
    """What the release was made with."""
    return {name: _version(name) for name in _PACKAGES} | {"python": platform.python_version()}


def parquet(table: pa.Table) -> bytes:
    """A table as a file; columns of few values, which may be dictionaries here, are plain there."""
    sink = pa.BufferOutputStream()
    few = [name for name in table.column_names if _repeats(table[name])]
    layout: dict[str, Any] = {"compression": "zstd", "store_schema": False, "use_dictionary": few}
    with pq.ParquetWriter(sink, table.schema, **layout) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(table.schema.metadata or {})
    return bytes(sink.getvalue())


def _repeats(column: pa.ChunkedArray) -> bool:
    """Whether a column's first values stand there twice, on average.

    A dictionary of a million different labels or estimates takes twice the time, and more room;
    one of whole numbers takes half.
    """
    head = column.slice(0, _HEAD)
    nested = pa.types.is_nested(column.type)  # Arrow compares no lists
    return not nested and 2 * len(head.unique()) <= len(head)
