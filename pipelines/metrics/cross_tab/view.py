"""What people see of cross-tabs: heat maps in which noise is grey, and the numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from pipelines.metrics.counting import result
from pipelines.views import selected
from pipelines.views.facts import cell
from pipelines.views.heat import heat

OTHER, ALL, TIMES = "(any other)", "all", " × "

_MOST = 16  # rows and columns of a map
_MAPS = 12


def plain(table: pa.Table) -> pa.Table:
    """A release's table without the columns that say the same of each cell once more."""
    kept = [name for name in table.column_names if name in {"group", "value", *result.COLUMNS}]
    return table.select(kept)


def maps(
    table: pa.Table, tables: Sequence[tuple[str, Sequence[pa.Array]]], confidence: float
) -> str:
    """The tables of two columns as heat maps; without any, those of one.

    Args:
        table: the release's.
        tables: (name, labels of each column's groups) of each table, in order.
        confidence: of all intervals together.
    """
    start, maps = 1, []  # the total comes first
    for name, labels in tables:
        size = math.prod(map(len, labels))
        maps.append((name, labels, table.slice(start, size)))
        start += size
    maps = [part for part in maps if len(part[1]) == 2] or maps
    drawn = [_map(*part) for part in maps[:_MAPS]]
    more = f" The first {_MAPS} of {len(maps):,} tables are shown." * (len(maps) > _MAPS)
    said = (
        "Numbers are fitted; the darker, the more. Grey are those that noise alone may have made: "
        f"0 lies in their intervals, which cover all of the {len(table):,} figures together with "
        f"probability {confidence:g}. Of larger tables the {_MOST} largest rows and columns are "
        f"shown.{more}"
    )
    return "\n".join([*drawn, f'<p class="note">{said}</p>', ""])


def _map(name: str, labels: Sequence[pa.Array], table: pa.Table) -> str:
    """One table."""
    shape = (*map(len, labels), 1)[:2]
    numbers = table["fitted"].to_numpy().reshape(shape)
    noise = ~(table[selected.LOWER].to_numpy().reshape(shape) > 0)
    kept = [np.argsort(-numbers.sum(axis=along), kind="stable")[:_MOST] for along in (1, 0)]
    some = [own.take(pa.array(places)) for own, places in zip(labels, kept, strict=False)]
    heads = [[OTHER if value is None else cell(value) for value in own.to_pylist()] for own in some]
    chosen = np.ix_(*kept)
    return heat(name, heads[0], [*heads[1:], [ALL]][0], numbers[chosen], noise[chosen])
