"""What a case leaves behind, as JSON that is the same in every run of the same tree."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from pipelines.cli import cli
from pipelines.releases.schema import own
from tests.golden import arithmetic
from tests.golden.cases import Case
from tests.golden.fixed_randomness import fixed_randomness
from tests.golden.inputs import write_inputs

VARIES = "(varies)"

# Ids, times, versions and paths of statements, shuffled batches and ledgers: that they are there
# is pinned, what they say is not.
_VARYING = frozenset({
    "release_id", "shuffle_id", "created", "versions", "id", "head", "entry", "owner",
    "reserved_at", "changed_at", "operations", "output", "files", "opened",
})  # fmt: skip
_SEALS = frozenset({"key_id", "sealed"})  # columns, of keys that stay random
_STATEMENTS = frozenset({"statement.json", "shuffle.json", "model.json"})
_WHOLE = 1_000  # cells of a table that is recorded whole
_FIRST = 8  # rows of a larger one


def record(case: Case, folder: Path) -> dict[str, Any]:
    """Run a case and read what it made.

    Args:
        case: to run.
        folder: empty, and the current one.

    Returns:
        A JSON object: how this machine calculates, the commands with their exit codes and what
        those with `--json` print, the names of all files of releases, their statements, and all
        tables.
    """
    write_inputs(folder)
    for name, content in case.files.items():
        (folder / name).write_text(content)
    given = set(folder.rglob("*"))
    # One thread: the order in which BLAS adds up is then the same however many cores there are.
    with fixed_randomness(), threadpool_limits(1):
        commands = [_run(words) for words in case.words]
    made = {str(path.relative_to(folder)): path for path in sorted(set(folder.rglob("*")) - given)}
    return {
        "arithmetic": arithmetic.digest(),
        "commands": commands,
        "released": [name for name in made if name.startswith("out/")],
        "statements": {
            name: without_varying(json.loads(path.read_text()))
            for name, path in made.items() if path.name in _STATEMENTS
        },
        "tables": {
            name: _table(own(pq.ParquetFile(path).read()))
            for name, path in made.items() if path.suffix == ".parquet"
        },
    }  # fmt: skip


def _run(words: list[str]) -> dict[str, Any]:
    """One command: its words, its exit code, and what it prints for programs."""
    given = [str(_key(word)) if word in _KEYS else word for word in words]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = cli.main(given)
    said = {"words": " ".join(words), "code": code}
    if "--json" in words and code == 0:
        said["printed"] = without_varying(json.loads(printed.getvalue()))
    return said


_KEYS = {"PUBLIC": "*.public.pem", "PRIVATE": "*.private.pem"}


def _key(word: str) -> Path:
    """The file that `keys new` has made: its name is its key's id."""
    (path,) = Path("keys").glob(_KEYS[word])
    return path


def without_varying(said: Any) -> Any:
    """JSON with a word in place of ids, times and versions, and digests of privacy profiles."""
    if isinstance(said, list):
        return [without_varying(part) for part in said]
    if not isinstance(said, dict):
        return said
    return {name: _settled(name, value) for name, value in said.items()}


def _settled(name: str, value: Any) -> Any:
    if name in _VARYING and value is not None:
        return VARIES
    if name == "profile":
        return {
            "points": len(value),
            "first": str(value[0]) if value else None,
            "sha256": _digest(value),
        }
    return without_varying(value)


def _digest(rows: list[Any]) -> str:
    """Of every bit of some rows."""
    return hashlib.sha256("\n".join(map(json.dumps, rows)).encode()).hexdigest()


def _table(table: pa.Table) -> dict[str, Any]:
    """A table: whole if it is small, else its first rows and a digest of all of them."""
    columns = {field.name: str(field.type) for field in table.schema}
    if "metric" in columns:  # Beam writes the reports of several metrics in any order of metrics
        table = table.take(np.argsort(table["metric"].to_numpy(), kind="stable"))
    rows = [
        [VARIES if name in _SEALS else _plain(cell) for name, cell in row.items()]
        for row in table.to_pylist()
    ]
    if len(rows) * len(columns) <= _WHOLE:
        return {"columns": columns, "rows": rows}
    first = rows[:_FIRST]
    return {"columns": columns, "rows": len(rows), "first": first, "sha256": _digest(rows)}


def _plain(cell: Any) -> Any:
    """A cell in JSON; a double's shortest digits read back as the same double."""
    return cell.hex() if isinstance(cell, bytes) else cell
