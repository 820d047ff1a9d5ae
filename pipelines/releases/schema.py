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


def joinable(files: Mapping[str, bytes], statement: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of a metric's release, its tables with the columns that all kinds share.

    Args:
        files: name -> content.
        statement: of the metric's release, with all that its place in a plan adds; "figures" says
            what the estimates of each table are, and a table that is not there stays as it is.
    """
    return {
        name: _joinable(data, statement, statement["figures"][name])
        if name in statement.get("figures", {})
        else data
        for name, data in files.items()
    }


def own(table: pa.Table, where: str = "a table of the release") -> pa.Table:
    """A table of a release as its kind made it.

    Raises:
        RequestError: it is of another format.
    """
    written = (table.schema.metadata or {}).get(_METADATA)
    if written is None:
        return table
    said = numbered(where, written, VERSION, "a release is not made again")
    kinds = {name: pa.type_for_alias(kind) for name, kind in said["own"].items()}
    return table.select([*kinds]).cast(pa.schema(kinds))


def read_own(folder: str, name: str) -> pa.Table:
    """One table of a release as its kind made it."""
    return own(release.read_table(folder, name), f"{folder}/{name}")


def long(table: pa.Table) -> pa.Table:
    """The columns that all kinds share, and no others."""
    return table.select(LONG.names).cast(LONG).replace_schema_metadata(None)


Part = tuple[pa.Table, Mapping[str, Any], str]
"""A table with the columns of `FIGURE`, the statement of its release, what its estimates are."""


def joined(parts: Sequence[Part]) -> pa.Table:
    """The same of several releases, one below the other; of which each is, its statement says."""
    said = [_of_release(statement, figure) for _, statement, figure in parts]
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
    if {*FIGURE.names} <= {*table.column_names}:
        return table.select(FIGURE.names).cast(FIGURE)
    figures = _figures(table, statement, figure)
    return pa.table({
        field.name: figures[field.name].cast(field.type)
        if field.name in figures
        else pa.nulls(len(table), field.type)
        for field in FIGURE
    })  # fmt: skip


def _joinable(data: bytes, statement: Mapping[str, Any], figure: str) -> bytes:
    """A kind's table, with the columns of all kinds in front of those that it alone has."""
    table = pq.ParquetFile(io.BytesIO(data)).read()
    if strange := [name for name in table.column_names if name in RELEASE.names]:
        raise ValueError(f"tables of all kinds have columns {strange}; name those of one otherwise")
    shared = _of_release(statement, figure)
    columns = {
        field.name: pa.repeat(pa.scalar(shared[field.name], field.type), len(table))
        for field in RELEASE
    }
    figures = _figures(table, statement, figure)
    for field in FIGURE:
        column = figures.get(field.name)
        columns[field.name] = (
            pa.nulls(len(table), field.type) if column is None else column.cast(field.type)
        )
    columns |= {name: table[name] for name in table.column_names if name not in columns}
    said = {"version": VERSION, **{name: _plain(value) for name, value in shared.items()}}
    said |= {
        "created": statement["created"],
        "own": {field.name: str(field.type) for field in table.schema},
    }
    metadata = {**(table.schema.metadata or {}), _METADATA: json.dumps(said)}
    return parquet(pa.table(columns).replace_schema_metadata(metadata))


def _of_release(statement: Mapping[str, Any], figure: str) -> dict[str, Any]:
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
        figures.setdefault("n", pa.repeat(float(statement.get("n", 0)), len(table)))
        figures["n_standard_error"] = pa.repeat(0.0, len(table))
    elif took_part is not None:
        figures["n"] = pa.repeat(float(took_part["estimate"]), len(table))
        figures["n_standard_error"] = pa.repeat(float(took_part["standard_error"]), len(table))
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
    *groups, value = (table[name].cast(pa.string()) for name in names)
    return {"value": value} | ({"group": groups[0]} if groups else {})


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
