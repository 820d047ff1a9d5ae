"""The columns of a table that say what each figure is of, by the values that were declared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.releases.schema import LABELS
from transforms.encoders.domain import Domain

TOGETHER = " · "

Domains = tuple[tuple[str, Domain], ...]
"""(column, its declared values), by which a statistic is divided."""


def group_names(domains: Sequence[tuple[str, Any]]) -> dict[str, str]:
    """The columns of labels, where figures are of groups of rows.

    Args:
        domains: none to several; from the third on the first ones are one label.

    Returns:
        As of `Heading.labels`.
    """
    return _names(LABELS[: len(domains)], domains)


def value_names(domains: Sequence[tuple[str, Any]]) -> dict[str, str]:
    """The same where figures are of values; of two columns the first is the group.

    Args:
        domains: as of `group_names`.
    """
    return _names(LABELS[max(len(LABELS) - len(domains), 0) :], domains)


def value_group(domains: Sequence[tuple[str, Any]]) -> dict[str, str]:
    """The same where each group has several figures: one label, for the value says which it is."""
    return _names(LABELS[: min(1, len(domains))], domains)


def _names(names: Iterable[str], domains: Sequence[tuple[str, Any]]) -> dict[str, str]:
    names, columns = [*names], [column for column, _ in domains]
    more = len(columns) - len(names)
    if more > 0:
        columns = [TOGETHER.join(columns[: more + 1]), *columns[more + 1 :]]
    return dict(zip(names, columns, strict=True))


def label_columns(names: Iterable[str], domains: Domains) -> dict[str, pa.Array]:
    """Column -> (groups,) the values that each figure is of; null for all other rows.

    Args:
        names: of the columns.
        domains: whose values are there.
    """
    names = [*names]
    sizes = [domain.size for _, domain in domains]
    whole = np.arange(int(np.prod(sizes, dtype=object)) if len(sizes) > 1 else 0)
    columns: dict[str, pa.Array] = {}
    first = len(domains) - len(names)  # that share a label with the one behind them
    for place, (_, domain) in enumerate(domains):
        name = names[max(place - first, 0)]
        inner = int(np.prod(sizes[place + 1 :], dtype=object))
        values = domain.labels()
        if len(domains) > 1:  # else each is there once, in its place
            values = values.take(pa.array(whole // inner % domain.size))
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
        if name in columns:
            both = (one.cast(pa.string()) for one in (columns[name], values))
            values = pc.binary_join_element_wise(*both, TOGETHER)
        columns[name] = values
    return columns


def joined_labels(
    names: Sequence[str], values: Sequence[Sequence[str | None]]
) -> dict[str, pa.Array]:
    """Column -> (groups,) the values of groups that were found; as of `label_columns`.

    Args:
        names: of the columns.
        values: (groups,) of each column that is grouped by; None where one is missing.
    """
    columns = [pa.array(column, pa.string()) for column in values]
    first = len(columns) - len(names) + 1  # that share a label
    if first > 1:
        both = pc.binary_join_element_wise(*columns[:first], TOGETHER, null_handling="replace")
        columns = [both, *columns[first:]]
    return dict(zip(names, columns, strict=True))


def with_labels(labels: Mapping[str, Sequence[Any]], columns: Mapping[str, Any]) -> pa.Table:
    """A table of figures behind what they are of; where there is no number, there is a null.

    Args:
        labels: column -> (groups,) or more, of which the first are taken: not every noise knows of
            those that are in no group.
        columns: column -> (groups,) figures.
    """
    arrays = {name: pa.array(column, from_pandas=True) for name, column in columns.items()}
    rows = len(next(iter(arrays.values())))
    return pa.table({name: column[:rows] for name, column in labels.items()} | arrays)
