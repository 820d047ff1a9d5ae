"""The columns that the tables of all kinds share, so that releases can be laid side by side."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.releases import release
from pipelines.releases.statement import parquet
from pipelines.storage.formats import numbered

VERSION = 1

_TIME = pa.timestamp("us", tz="UTC")

# Of which release a figure is; the same in every row of a table.
RELEASE = pa.schema([
    ("collection", pa.string()), ("metric", pa.string()), ("window", pa.string()),
    ("window_start", _TIME), ("window_end", _TIME), ("release_id", pa.string()),
    ("kind", pa.string()), ("figure", pa.string()), ("unit", pa.string()),
    ("epsilon", pa.float64()), ("delta", pa.float64()), ("model", pa.string()),
])  # fmt: skip

# What it is of, and what is known of it.
FIGURE = pa.schema([
    ("group", pa.string()), ("value", pa.string()), ("estimate", pa.float64()),
    ("standard_error", pa.float64()), ("lower", pa.float64()), ("upper", pa.float64()),
    ("lower_simultaneous", pa.float64()), ("upper_simultaneous", pa.float64()),
    ("n", pa.float64()), ("n_standard_error", pa.float64()),
])  # fmt: skip

LONG = pa.unify_schemas([RELEASE, FIGURE])

LABELS = ("group", "value")
"""Where a table says whose a figure is, of every kind and whoever draws the noise.

Never in a column with the name of the log's: that may be the name of any column of these tables.
"""

AVERAGES = frozenset({"mean", "standard deviation", "variance", "ratio"})
"""Figures that are divided by how many there are, which a column beside them says."""

_METADATA = b"hushbeam"

_BLOCK = 1 << 16  # rows of one value, which all others of its column share


def joinable(
    files: Mapping[str, bytes | pa.Table], statement: Mapping[str, Any]
) -> dict[str, bytes]:
    """The files of a metric's release, its tables with the columns that all kinds share.

    Args:
        files: name -> content.
        statement: of the metric's release, with all that its place in a plan adds; "figures" says
            what the estimates of each table are, and a table that is not there stays as it is.
    """
    figures = statement.get("figures", {})
    tables = {name: data for name, data in files.items() if isinstance(data, pa.Table)}
    written = {
        name: parquet(_joinable(table, statement, figures[name]) if name in figures else table)
        for name, table in tables.items()
    }
    return {**files, **written}


def own(table: pa.Table, where: str = "a table of the release") -> pa.Table:
    """A table of a release as its kind made it.

    Raises:
        RequestError: it is of another format.
    """
    return _cast(table, _own(table.schema, where))


def read_own(folder: str, name: str) -> pa.Table:
    """One table of a release as its kind made it: no other column is read."""
    file = pq.ParquetFile(io.BytesIO(release.read(folder, name)))
    kinds = _own(file.schema_arrow, f"{folder}/{name}")
    return _cast(file.read(kinds.names, use_threads=False), kinds)


def _own(schema: pa.Schema, where: str) -> pa.Schema:
    """The columns that a kind made."""
    written = (schema.metadata or {}).get(_METADATA)
    if written is None:
        return schema
    said = numbered(where, written, VERSION, "a release is not made again")
    return pa.schema({name: pa.type_for_alias(kind) for name, kind in said["own"].items()})


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    return table.select(schema.names).cast(schema)


def long(table: pa.Table) -> pa.Table:
    """The columns that all kinds share, and no others."""
    return table.select(LONG.names).cast(LONG).replace_schema_metadata(None)


Part = tuple[pa.Table, Mapping[str, Any], str]
"""A table with the columns of `FIGURE`, the statement of its release, what its estimates are."""


def joined(parts: Sequence[Part]) -> pa.Table:
    """The same of several releases, one below the other; of which each is, its statement says."""
    said = [of_release(statement, figure) for _, statement, figure in parts]
    part = pa.array(np.repeat(np.arange(len(parts)), [len(table) for table, *_ in parts]))
    figures = (table.select(FIGURE.names) for table, *_ in parts)
    below = pa.concat_tables([FIGURE.empty_table(), *figures])
    columns = {field.name: below[field.name] for field in FIGURE}
    for field in RELEASE:
        columns[field.name] = pa.array([one[field.name] for one in said], field.type).take(part)
    return pa.table(columns).select(LONG.names)


def shared(table: pa.Table, statement: Mapping[str, Any], figure: str) -> pa.Table:
    """The columns of `FIGURE`, of a table that has them and of one that its kind has just made.

    Args:
        table: of a release.
        statement: of the release.
        figure: what its estimates are.
    """
    return figures_of(table, statement, figure).cast(FIGURE)


def figures_of(table: pa.Table, statement: Mapping[str, Any], figure: str) -> pa.Table:
    """The same, of the types that the table has: to write a million whole numbers takes a while."""
    if {*FIGURE.names} <= {*table.column_names}:
        return table.select(FIGURE.names)
    rows, figures = len(table), _figures(table, statement, figure)
    return pa.table({
        field.name: figures.get(field.name, _same(None, field.type, rows)) for field in FIGURE
    })  # fmt: skip


def _joinable(table: pa.Table, statement: Mapping[str, Any], figure: str) -> pa.Table:
    """A kind's table, with the columns of all kinds in front of those that it alone has."""
    if strange := [name for name in table.column_names if name in RELEASE.names]:
        raise ValueError(f"tables of all kinds have columns {strange}; name those of one otherwise")
    shared, rows = of_release(statement, figure), len(table)
    columns = {field.name: _same(shared[field.name], field.type, rows) for field in RELEASE}
    figures = figures_of(table, statement, figure)
    columns |= {field.name: figures[field.name].cast(field.type) for field in FIGURE}
    columns |= {name: table[name] for name in table.column_names if name not in columns}
    said = {"version": VERSION, **{name: _plain(value) for name, value in shared.items()}}
    said |= {
        "created": statement["created"],
        "own": {field.name: str(field.type) for field in table.schema},
    }
    metadata = {**(table.schema.metadata or {}), _METADATA: json.dumps(said)}
    return pa.table(columns).replace_schema_metadata(metadata)


def _same(value: Any, kind: pa.DataType, rows: int) -> pa.ChunkedArray:
    """(rows,) of one value. Of a million texts, each by itself, a column took 40 MB, and 20 ms."""
    block = pa.repeat(pa.scalar(value, kind), min(rows, _BLOCK))
    if value is not None and pa.types.is_string(kind):
        block = block.dictionary_encode()
    whole, rest = divmod(rows, _BLOCK)
    return pa.chunked_array([*[block] * whole, block[:rest]], block.type)


def of_release(statement: Mapping[str, Any], figure: str) -> dict[str, Any]:
    """What the columns of `RELEASE` hold, the same in every row.

    Args:
        statement: of the release.
        figure: what the estimates of the table are.
    """
    promised = statement["guarantees"]["release"]
    window = statement.get("window") or {}
    return {
        "collection": statement.get("collection"),
        "metric": statement.get("metric") or statement["release"],
        "window": window.get("name"),
        "window_start": _moment(window.get("start")),
        "window_end": _moment(window.get("end")),
        "release_id": statement["release_id"],
        "kind": statement["release"],
        "figure": figure,
        **{name: promised[name] for name in ("unit", "epsilon", "delta", "model")},
    }


def _figures(table: pa.Table, statement: Mapping[str, Any], figure: str) -> dict[str, pa.Array]:
    """What the columns of `FIGURE` hold, as far as it is known."""
    figures = {name: table[name] for name in FIGURE.names if name in table.column_names}
    figures |= _labels(table, figures)
    if len(table) == 1:  # one interval is simultaneous with itself
        for end in {"lower", "upper"} & figures.keys():
            figures.setdefault(f"{end}_simultaneous", figures[end])
    unit = statement["guarantees"]["release"]["unit"]
    people, took_part = f"{unit}s", statement.get("took_part")
    if figure in AVERAGES and people in table.column_names and "n" not in figures:
        figures |= {"n": table[people], "n_standard_error": table[f"{people}_standard_error"]}
    elif "n" in figures or "n" in statement:
        figures.setdefault("n", _same(float(statement.get("n", 0)), pa.float64(), len(table)))
        figures["n_standard_error"] = _same(0.0, pa.float64(), len(table))
    elif took_part is not None:
        for name, of in (("n", "estimate"), ("n_standard_error", "standard_error")):
            figures[name] = _same(float(took_part[of]), pa.float64(), len(table))
    return figures


def _labels(table: pa.Table, figures: Mapping[str, Any]) -> dict[str, pa.Array]:
    """The columns in front of the estimates say what each is of: one a value, two a group, too."""
    names = table.column_names[: table.column_names.index("estimate")]
    names = [name for name in names if not pa.types.is_boolean(table[name].type)]
    if names == ["low", "high"]:
        ends = (table[name].cast(pa.string()) for name in names)
        return {"value": pc.binary_join_element_wise(*ends, "..")}
    if not names or {*names} <= figures.keys():
        return {}
    *groups, value = (table[name] for name in names)
    return {"value": value} | ({"group": groups[0]} if groups else {})


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
