"""What the statements of all releases have in common, and how tables are written."""

from __future__ import annotations

import io
import platform
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from functools import cache
from importlib.metadata import version
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mechanisms.channel import Guarantee
from pipelines.views.wording import RAW_ROWS, meaning
from transforms.progress import ROWS

_PACKAGES = ("hushbeam", "apache-beam", "numpy", "scipy", "pyarrow", "cryptography")
_version = cache(version)  # a package's whole description is read for it, 1 ms each


def head(
    kind: str,
    guarantees: tuple[Guarantee, Guarantee],
    first: str,
    more_words: Iterable[str],
    least: int,
) -> dict[str, Any]:
    """How the statement of any release begins.

    Args:
        kind: of metric.
        guarantees: what the release promises, and what a single report does.
        first: what they are about.
        more_words: cautions, and what else the promises need.
        least: the least batch for which the guarantee was computed.
    """
    released, local = guarantees
    in_words = [meaning(guarantee, least) for guarantee in dict.fromkeys(guarantees)]
    return {
        "statement_version": 1,
        "release": kind,
        "release_id": None,  # whoever publishes knows it
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "in_words": [first, *in_words, *more_words, RAW_ROWS],
        "guarantees": {"release": released.as_dict(), "local": local.as_dict()},
    }


def counted(n: int, invalid: int, tallies: Mapping[str, int], unusable: bool) -> dict[str, Any]:
    """What a statement counts: all of it is published as it is.

    Args:
        n: how many reports there are.
        invalid: how many messages no client could have sent.
        tallies: the rows read, and those that were left out, by reason.
        unusable: whether rows are left out for their values.
    """
    return {
        "published_exactly": published_exactly("of reports", unusable),
        "n": n,
        "rows_read": tallies.get(ROWS, 0),
        "rejects": {name: amount for name, amount in sorted(tallies.items()) if name != ROWS},
        "invalid_reports": invalid,
    }


def published_exactly(reports: str, unusable: bool) -> str:
    """What no promise covers.

    Args:
        reports: of which kind they are counted.
        unusable: whether rows are left out for their values.
    """
    rejects = "of rejects by reason" if unusable else "of rows without a user"
    return f"the number {reports}, of rows read and {rejects}"


def versions() -> dict[str, str]:
    """What the release was made with."""
    return {name: _version(name) for name in _PACKAGES} | {"python": platform.python_version()}


def parquet(table: pa.Table) -> bytes:
    """A table as a file."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()
