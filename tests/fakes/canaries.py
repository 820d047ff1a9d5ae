"""A small log whose values and user ids are canaries: wherever one turns up, something leaks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 2000
NULL_VALUES, STRAY_VALUES, NULL_USERS = 32, 48, 24  # 4 %: below the 5 % of cautions
DECLARED = tuple(f"CANARY-DECLARED-{k}" for k in range(4))

_FIRST_ID, _FIRST_CODE = 98_700_000_000, 55_500_000_000
# A number is one from its first digit: among the decimals of all estimates in a run, such a row of
# digits turns up by chance once in a thousand runs.
_CANARY = re.compile(r"CANARY-\w+|(?<![\d.])(?:98700000|55500000)\d+")


def found(text: str, declared: bool = True) -> set[str]:
    """The canaries in a text; of the declared values only where none of them may be either."""
    return {word for word in _CANARY.findall(text) if declared or word != "CANARY-DECLARED"}


def table() -> pa.Table:
    """The log: four rows a user; every usable user has rows that can be used."""
    row = np.arange(ROWS)
    value = pa.array([DECLARED[k] for k in row % 4])
    value = _where(row < NULL_VALUES, None, value)
    value = _where((row >= NULL_VALUES) & (row < NULL_VALUES + STRAY_VALUES), "CANARY-STRAY", value)
    user = pa.array([f"CANARY-USER-{k:04}" for k in row // 4])
    moment = datetime(2026, 11, 21, tzinfo=timezone.utc)
    return pa.table(
        {
            "value": value,
            "user": _where(row >= ROWS - NULL_USERS, None, user),
            "user_id": pa.array(_FIRST_ID + row // 4),
            "code": pa.array(_FIRST_CODE + row % 4),
            "number": pa.array((row % 7 - 3).astype(np.int16)),
            "flag": pa.array(row % 3 == 0),
            "kind": value.dictionary_encode(),
            "real": pa.array(row / 7),
            "moment": pa.array([moment] * ROWS),
            "tags": pa.array([["CANARY-TAG"]] * ROWS),
            "raw": pa.array([b"CANARY-BYTES"] * ROWS),
        }
    )


def write(folder: Path, rows: pa.Table, files: int = 3, row_group_size: int = 300) -> str:
    """The rows in several files of several row groups each; the glob that matches them."""
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-len(rows) // files)
    for number in range(files):
        part = rows.slice(number * size, size)
        pq.write_table(part, folder / f"part-{number}.parquet", row_group_size=row_group_size)
    return str(folder / "*.parquet")


def request(log: str, **changes: object) -> list[str]:
    """The words of a request that is right but for the changes; None takes an option away."""
    asked = {
        "input": log,
        "column": "value",
        "domain": "\n".join(DECLARED),
        "epsilon": "1",
        "output": "out",
    } | changes
    return words("histogram", asked)


def words(command: str, asked: Mapping[str, object], joined: bool = False) -> list[str]:
    """The words of a request for a kind: None is no word, True an option alone, a list several.

    A value may be joined to its option by an equals sign, as one that begins with a minus must be.
    """
    found = [command]
    for name, value in asked.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            found.append(flag)
        elif joined and value is not None:
            several = value if isinstance(value, list | tuple) else [value]
            found += [f"{flag}={one}" for one in several]
        elif value is not None:
            found += [flag, *map(str, value if isinstance(value, list | tuple) else [value])]
    return found


def names(folder: Path) -> set[str]:
    """All that a folder holds."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def crash(*_: object, **__: object) -> None:
    """Stands for a step that fails, and says too much."""
    raise ValueError("cannot handle 'CANARY-VALUE' of CANARY-USER")


@dataclass(frozen=True)
class Outcome:
    """What a command left behind, the files apart."""

    code: int
    out: str
    err: str
    log: str

    @property
    def said(self) -> str:
        """All of it."""
        return self.out + self.err + self.log


def _where(condition: np.ndarray, value: str | None, otherwise: pa.Array) -> pa.Array:
    """`value` where the condition holds."""
    chosen = zip(condition, otherwise.to_pylist(), strict=True)
    return pa.array([value if changed else old for changed, old in chosen], pa.string())
