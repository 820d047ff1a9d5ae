"""The small log that every golden stands on, by formula: no generator, and no rounding."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

ROWS, USERS, ROW_GROUP = 2400, 800, 700
VALUES = ("amber", "blue", "coral", "denim", "ebony", "fawn")
GROUPS = ("north", "south", "west")
WORDS = ("ab", "cab", "dad")
BEGIN = datetime(2024, 5, 1, tzinfo=timezone.utc)  # past for every clock

_HALF = ROWS // 2


def write_inputs(folder: Path) -> None:
    """All files that the cases name, into a folder.

    Columns miss different numbers of rows, so that generators of two metrics begin with draws of
    different sizes, and ids of their reports differ (see `fixed_randomness`).
    """
    (folder / "log").mkdir()
    log = _log()
    for part in range(2):
        rows = log.slice(part * _HALF, _HALF)
        pq.write_table(rows, folder / f"log/part-{part}.parquet", row_group_size=ROW_GROUP)
    pq.write_table(log.slice(0, 200), folder / "public.parquet")
    pq.write_table(log.slice(0, 3).select(["value", "number"]), folder / "mine.parquet")
    (folder / "values.txt").write_text("\n".join(VALUES) + "\n")
    (folder / "groups.txt").write_text("\n".join(GROUPS) + "\n")
    (folder / "secret").write_bytes(bytes(range(32)))
    (folder / "keys").mkdir()
    (folder / "landing").mkdir()
    for part in range(2):  # out of order: rows of both hours in both files
        pq.write_table(log.slice(part * _HALF, _HALF), folder / f"landing/part-{part}.parquet")


def _log() -> pa.Table:
    row = np.arange(ROWS)
    steps = [(row * stride) % 257 for stride in (91, 33, 140, 58)]
    numbers = [(step - 128) / 128 for step in steps]  # in [-1, 1], exact in binary
    group = (row * row + row // 7) % 13 % 3
    target = 4 * numbers[0] - 2 * numbers[1] + (group == 2)
    words = [WORDS[k % 3] if k % 10 else None for k in (row * 7 + row // 11).tolist()]
    minutes = (row * 37 % 120).tolist()
    return pa.table(
        {
            "value": _strings(VALUES, (row * row + row // 3) % 11 % 7, row % 97 != 0),
            "number": pa.array((row * 7919) % 1000 / 8, mask=row % 101 == 0),
            "group": _strings(GROUPS, group, row % 211 != 0),
            "word": pa.array(words),
            "user": pa.array([f"user-{k:03}" for k in (row % USERS).tolist()]),
            "vector": pa.array(np.stack(numbers, axis=1).tolist()),
            "target": pa.array(target),
            "class": pa.array(np.where(target > 0, "yes", "no")),
            "at": pa.array([BEGIN + timedelta(minutes=k) for k in minutes]),
        }
        | {f"f{i}": pa.array(column) for i, column in enumerate(numbers)}
    )


def _strings(
    names: tuple[str, ...], numbers: NDArray[np.int64], valid: NDArray[np.bool_]
) -> pa.Array:
    """Names by number, one of them undeclared, and null where they are not valid."""
    return pa.array([(*names, "undeclared")[k] for k in numbers.tolist()], mask=~valid)
