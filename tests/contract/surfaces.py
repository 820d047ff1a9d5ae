"""What a release's other faces show: its page, an export, a comparison, a site."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_DOCUMENTED = Path(__file__).parents[2] / "docs/tables.md"
_TYPES = {"text": pa.types.is_string, "number": pa.types.is_floating, "time": pa.types.is_timestamp}


def documented() -> dict[str, str]:
    """The columns that all tables begin with, and their types, as docs/tables.md has them."""
    table = _DOCUMENTED.read_text("utf-8").partition("| column | type |")[2].partition("\n\n")[0]
    found = {}
    for line in table.splitlines()[2:]:
        names, types, *_ = line.strip("|").split("|")
        said = [kind.strip() for kind in types.split(",") if kind.strip() != "UTC"]
        columns = re.findall("`([^`]+)`", names)
        found |= dict(zip(columns, said * (len(columns) if len(said) == 1 else 1), strict=True))
    return found


def require_schema(table: pa.Table) -> None:
    """A table begins with the documented columns, in their order and of their types."""
    columns = documented()
    assert table.column_names[: len(columns)] == [*columns]
    for name, kind in columns.items():
        assert _TYPES[kind](table.schema.field(name).type), f"{name} is no {kind}"


def figures(table: pa.Table) -> Iterator[tuple[tuple[str, ...], float]]:
    """(the labels that there are, the estimate) of each row."""
    columns = (table[name].to_pylist() for name in ("group", "value", "estimate"))
    for group, value, estimate in zip(*columns, strict=True):
        if estimate is not None:
            yield tuple(label for label in (group, value) if label is not None), estimate


def require_page(page: str, tables: Mapping[str, pa.Table]) -> None:
    """The page's first tables show figures of the release, each beside its own labels."""
    rows = _rows(page)
    shown = {
        labels
        for table in tables.values()
        for labels, estimate in figures(table)
        for row in rows
        if _beside(row, labels) and any(_is(cell, estimate) for cell in row)
    } | {
        labels
        for table in tables.values()
        for labels, estimate in figures(table)
        if _is(_crossing(rows, labels), estimate)
    }
    least = min(5, *(len(table) for table in tables.values()))
    assert len(shown) >= least, f"the page shows {len(shown)} figures that the tables have"


def _rows(page: str) -> list[list[str]]:
    """The cells of all tables, row by row."""
    found = re.findall(r"<tr[^>]*>(.*?)</tr>", page, re.DOTALL)
    cells = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in found]
    return [[html.unescape(re.sub("<[^>]*>", "", cell)).strip() for cell in row] for row in cells]


def _beside(row: list[str], labels: tuple[str, ...]) -> bool:
    """Whether a row is that of these labels; a quantile's may be written in percent, or as one."""
    return all({label, *_quantile(label)} & {*row} for label in labels)


def _quantile(label: str) -> list[str]:
    """How a probability is written where it is a quantile's."""
    if _number(label) is None:
        return []
    percent = f"{100 * float(label):g} %"
    return [percent, f"{percent} quantile", *(["median"] if float(label) == 0.5 else [])]


def _crossing(rows: list[list[str]], labels: tuple[str, ...]) -> str:
    """The cell of a table of two columns' values where two labels meet; empty if there is none."""
    one, cross, other = labels[-1].partition(" \u00d7 ") if labels else ("", "", "")
    heads = [row for row in rows if other in row[1:]] if cross else []
    at = [row[heads[0].index(other)] for row in rows if heads and row and row[0] == one]
    return at[0] if at else ""


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", "").replace("\u2212", "-"))
    except ValueError:
        return None


def _is(cell: str, estimate: float) -> bool:
    """Whether a cell is a number, rounded as it shows; shares may be in percent."""
    number = _number(cell)
    if number is None:
        return False
    digits = cell.replace(",", "").partition(".")[2]
    # Of a whole number the last digits may be rounded as well: 92,180 of 92,183.4.
    whole = len(re.sub(r"\D", "", cell)) - len(re.sub(r"\D", "", cell).rstrip("0"))
    step = 10.0 ** -len(digits) if digits else 10.0 ** min(whole, 3)
    return any(abs(number - estimate * factor) <= 0.51 * step for factor in (1, 100))


def require_export(exported: Path, tables: Mapping[str, pa.Table]) -> None:
    """An export holds each table's figures as the table has them."""
    names = [*documented()]
    found = sorted(map(repr, pq.read_table(exported).select(names).to_pylist()))
    wanted = [row for table in tables.values() for row in table.select(names).to_pylist()]
    assert found == sorted(map(repr, wanted))


def require_comparison(rows: list[dict[str, Any]], one: pa.Table, other: pa.Table) -> None:
    """Differences are those of the two tables' figures, before they were moved, if they were."""
    first, second = (dict(figures(_unmoved(table))) for table in (one, other))
    for row in rows:
        labels = tuple(row[name] for name in ("group", "value") if row[name] is not None)
        assert row["first_estimate"] == first[labels]
        assert row["second_estimate"] == second[labels]
        assert abs(row["difference"] - (second[labels] - first[labels])) < 1e-9 * (
            1 + abs(first[labels])
        )


def _unmoved(table: pa.Table) -> pa.Table:
    """The same with unbiased estimates in the place of those that were projected or clipped."""
    if "unbiased" not in table.column_names:
        return table
    place = table.column_names.index("estimate")
    return table.set_column(place, "estimate", table["unbiased"])


def answered(out: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(out)
    return said
