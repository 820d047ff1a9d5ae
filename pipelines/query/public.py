"""A small table that everybody may know, in which rows of a log are looked up, each key once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from sqlglot import exp

from pipelines.errors import RequestError
from pipelines.logs.inputs import matched
from pipelines.query.allowed import refuse
from pipelines.query.rows import RowValue, written
from transforms.files.reading import PLAIN, Reading
from transforms.files.source import UnreadableError, look, tables

MOST = 1000
"""Rows: they stand in the plan, written out."""


class PublicTable:
    """Columns of texts, numbers and truths."""

    def __init__(self, columns: Mapping[str, list[Any]]) -> None:
        self.columns = columns

    @classmethod
    def read(cls, path: str, reading: Reading = PLAIN) -> PublicTable:
        """The table in a file of any format that logs have.

        Args:
            path: of the file, or a glob.
            reading: of text.

        Raises:
            RequestError: it cannot be read, is large, or holds something else.
        """
        try:
            looks = [(file.path, look(file.path, reading)) for file in matched(path)]
            if not 1 <= sum(seen.rows for _, seen in looks) <= MOST:
                raise RequestError(f"--public: {path} has no rows, or more than {MOST:,}")
            parts = [
                part for file, seen in looks for part in tables(file, seen.schema.names, reading)
            ]
        except UnreadableError as error:
            raise RequestError(f"--public: {error}") from None
        columns = pa.concat_tables(parts).to_pydict()
        kinds = {type(value) for column in columns.values() for value in column}
        if not kinds <= {str, int, float, bool, type(None)}:
            raise RequestError(f"--public: {path} holds more than texts, numbers and truths")
        return cls(columns)

    def joined(
        self, key: str, own: RowValue, node: exp.Expr
    ) -> tuple[RowValue, dict[str, RowValue]]:
        """What the table says of a row: whether it has its key, and the other columns.

        Args:
            key: the column that is looked up.
            own: what a row has in its place.
            node: the join.

        Raises:
            SqlError: a key is missing, or there twice.
        """
        keys = self.columns.get(key, [None])
        if None in keys or len({*keys}) < len(keys) or {*map(type, keys)} & {float, bool}:
            refuse(
                node, "the key of a public table is a text or a whole number, in every row, once"
            )
        known = f"{own.text} in ({', '.join(map(written, keys))})"
        columns = {}
        for name in self.columns.keys() - {key}:
            values = self.columns[name]
            pairs = ", ".join(
                f"{written(k)}, {written(value)}" for k, value in zip(keys, values, strict=True)
            )
            text = f"lookup({own.text}, {pairs})"
            columns[name] = RowValue(text, own.names, values=self.values(name))
        return RowValue(f"({known})", own.names), columns

    def values(self, name: str) -> str | None:
        """The different values of a column, as `read_domain` has them; None of other numbers.

        Args:
            name: of the column.
        """
        values = [one for one in dict.fromkeys(self.columns[name]) if one is not None]
        if any(type(one) is float for one in values):
            return None
        return json.dumps([str(one).lower() if type(one) is bool else str(one) for one in values])
