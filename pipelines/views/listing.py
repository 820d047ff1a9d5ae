"""The figures of a table as people read them: which columns there are, and what each cell says."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.views import selected
from pipelines.views.digits import between, digits, spread
from pipelines.views.facts import cell, value_label
from pipelines.views.headline import (
    DATED,
    MISSING,
    OTHER,
    QUANTILE,
    are_moments,
    label,
    moments_between,
    order,
    unit_of,
    valued,
)
from pipelines.wording import moment_of

OTHER_PAIR = "(any other pair)"
NONE = "—"
LONGER = "… (and longer)"

_SHARES = frozenset(
    {"share", "cumulative", "unusable", "lift"}
)  # columns that are shares, whatever the figure is
_LIKE = ("unbiased", "unclipped", "shrunk")  # columns in the unit of the estimates
_HEADS = {"p": "quantile", "low": "bin", "unclipped": "before clipping"}
_COMPARED = 1000  # rows by which a column is told from another
_SUFFIXES = re.compile(r"(lower|upper)|.*_(standard_error|lower|upper|simultaneous|sure)$")

Row = Mapping[str, Any]


class NumberColumn(NamedTuple):
    """One column of numbers.

    Attributes:
        head: above it.
        text: what it says of a row.
        brief: whether a narrow screen has it, too.
    """

    head: str
    text: Callable[[Row], str]
    brief: bool = False


@dataclass(frozen=True)
class Listing:
    """A table for readers.

    Attributes:
        table: of a release, as its kind made it.
        figure: what its estimates are.
        confidence: of its intervals.
        columns_of: labels -> what readers call them.
        sort: whether those come first that readers look for.
        missing: what a label that is missing is called.
        moments: whether numbers of the column are seconds since 1970.
    """

    table: pa.Table
    figure: str
    confidence: float
    columns_of: Mapping[str, str]
    sort: bool = True
    missing: str = OTHER
    moments: bool = False

    @cached_property  # each row asks
    def names(self) -> list[str]:
        """The columns that say what a figure is of."""
        known, kinds = self.table.column_names, self.table.schema
        if "estimate" in known:
            known = known[: known.index("estimate")]
            return [
                name
                for name in known
                if name != "high" and not pa.types.is_boolean(kinds.field(name).type)
            ]
        return [
            name for name in known if name == "low" or pa.types.is_string(kinds.field(name).type)
        ]

    @property
    def has_other(self) -> bool:
        """Whether a row holds the values that are not declared, or are missing."""
        if self.missing != OTHER:
            return False
        nulls = [pc.is_null(self.table[name]).to_numpy() for name in self.names]
        of_row = np.sum(nulls, axis=0)  # where all of several labels are, it is `OTHER_PAIR`
        return bool(np.any((of_row > 0) & ((of_row < len(nulls)) | (len(nulls) == 1))))

    @property
    def heads(self) -> list[str]:
        """Above the labels."""
        return [cell(self.columns_of.get(name, _HEADS.get(name, name))) for name in self.names]

    def rows(self, most: int, beyond: int = 0) -> list[dict[str, Any]]:
        """The first rows, in the order in which they are read.

        Args:
            most: at most so many.
            beyond: how many are left out before them.
        """
        if not self.sort:
            return list(self.table.slice(beyond, most).to_pylist())
        places = order(self.table, self.figure, beyond + most)[beyond:]
        return list(self.table.take(pa.array(places, pa.int64())).to_pylist())

    def labels(self, row: Row) -> list[str]:
        """What a row is of, in characters that are a command to nobody."""
        names = self.names
        group = [self._said(row[name]) for name in names[:-1]]
        if names[-1:] == ["p"]:
            return [*group, label((None, str(row["p"])), QUANTILE)]
        if names[-1:] == ["low"]:
            if self.moments:
                return [*group, moments_between(row["low"], row["high"])]
            width = row["high"] - row["low"]
            return [*group, f"{digits(row['low'], width)} to {digits(row['high'], width)}"]
        if len(names) > 1 and all(row[name] is None for name in names):
            return [OTHER_PAIR, *[""] * (len(names) - 1)]  # either value may be a declared one
        longer = "" if row.get("whole", True) else LONGER
        return [self._said(row[name], longer) for name in names]

    def _said(self, text: Any, longer: str = "") -> str:
        return self.missing if text is None else value_label(text) + longer

    def label(self, row: Row) -> str:
        """The same in one text; numbers with the column that they are of."""
        pairs = zip(self.labels(row), self.names, strict=True)
        texts = (valued(text, self.columns_of.get(name)) for text, name in pairs)
        return " · ".join(filter(None, texts))

    @property
    def columns(self) -> list[NumberColumn]:
        """Those of numbers: the estimate, its error and its intervals, and what is beside them."""
        known = {*self.table.column_names}
        unit = ", %" if self.figure == "share" else ""
        # A weight is less than how many hold a string, and no estimate of that.
        heads = _HEADS | ({"estimate": "weight"} if self.figure == "weight" else {})
        columns = [
            NumberColumn(f"{heads.get(name, name)}{unit}", self._number(name), name != "unclipped")
            for name in ("estimate", *_LIKE)
            if name in known and (name == "estimate" or not self._same(name))
        ]
        if self._has_errors:
            head = f"± s.e.{', s' * self._dated or unit}"
            columns.append(NumberColumn(head, self._number("standard_error"), True))
        several = selected.LOWER in known and len(self.table) > 1
        together = [(selected.LOWER, selected.UPPER)] * several
        percent = f"{100 * self.confidence:g} % interval"
        if "lower" in known:
            columns.append(NumberColumn(percent, self._between("lower", "upper"), not together))
        for ends in together:
            head = f"of all {len(self.table):,} together"
            columns.append(NumberColumn(head, self._between(*ends), True))
        return columns + self._beside(known)

    @property
    def _dated(self) -> bool:
        """Whether estimates are moments, and their errors seconds."""
        return self.moments and self.figure in DATED

    def _same(self, name: str) -> bool:
        """Whether a column has the estimates once more."""
        one, other = self._number("estimate"), self._number(name)
        return all(one(row) == other(row) for row in self.rows(_COMPARED))

    @property
    def _has_errors(self) -> bool:
        errors = "standard_error" in self.table.column_names
        return errors and self.table["standard_error"].null_count < len(self.table)

    def number(self, row: Row) -> str:
        """An estimate with its error, where that is known."""
        error = f" ± {self._number('standard_error')(row)}" if self._has_errors else ""
        unit = " %" if self.figure == "share" else " s" * (self._dated and bool(error))
        return f"{self._number('estimate')(row)}{error}{unit}"

    def _beside(self, known: set[str]) -> list[NumberColumn]:
        """What a table has of its own."""
        taken = {*self.names, "high", "estimate", "standard_error", *_LIKE}
        columns = []
        for name in self.table.column_names:
            kind = self.table[name].type
            plain = pa.types.is_integer(kind) or pa.types.is_floating(kind)
            if name in taken or _SUFFIXES.fullmatch(name) or not plain or name[:7] == "column_":
                continue
            unit = ", %" if name in _SHARES else ""
            columns.append(NumberColumn(name.replace("_", " ") + unit, self._other(name)))
            if f"{name}_lower" in known:
                ends = f"{name}_lower", f"{name}_upper"
                columns.append(NumberColumn(f"interval{unit}", self._between(*ends, name)))
        return columns

    @cached_property
    def _counts(self) -> bool:
        """Whether estimates are whole numbers of units, though a table may have them as floats."""
        if unit_of(self.figure) in ("", "%"):
            return False
        estimates = self.table["estimate"].drop_null()
        return bool(pc.all(pc.equal(pc.round(estimates), estimates)).as_py())

    def _times(self, name: str) -> int:
        """A hundred where a column is of shares."""
        own = name if name in _SHARES else self.figure
        return 100 if own in _SHARES else 1

    def _number(self, name: str) -> Callable[[Row], str]:
        """A number to the digits that the error of its row allows."""
        times, whole = self._times("estimate"), self._counts and name == "estimate"
        dates = self._dated and name in ("estimate", *_LIKE)

        def text(row: Row) -> str:
            if dates and row[name] is not None:
                return moment_of(row[name])
            error = row.get("standard_error") or spread(*selected.ends(row))
            value = row[name]
            if whole and value is not None:
                value = int(value)
            return _digits(value, error, times)

        return text

    def _between(self, low: str, high: str, of: str = "") -> Callable[[Row], str]:
        times = self._times(of or "estimate")

        def text(row: Row) -> str:
            error = (not of and row.get("standard_error")) or spread(row[low], row[high])
            if self._dated and not of:
                return moments_between(row[low], row[high]) or NONE
            return between(row[low], row[high], error or None, times) or NONE

        return text

    def _other(self, name: str) -> Callable[[Row], str]:
        """A number that is no estimate of the figure."""
        times = 100 if name in _SHARES else 1
        beside = f"{name}_standard_error"

        def text(row: Row) -> str:
            value, error = row[name], row.get(beside)
            if value is None:
                return NONE
            if error:
                return f"{_digits(value, error, times)} ± {_digits(error, error, times)}"
            wide = spread(row.get(f"{name}_lower"), row.get(f"{name}_upper"))
            return _digits(value, wide, times)

        return text


def listed(
    name: str, table: pa.Table, statement: Mapping[str, Any], sort: bool | None = None
) -> Listing:
    """A table of a release for its readers.

    Args:
        name: of its file.
        table: as its kind made it.
        statement: of the release.
        sort: as of `Listing`; by default where the headline is of the largest.
    """
    headline = statement.get("headline", {})
    if sort is None:
        # A headline of the first, of the total or of a median says that rows have an order.
        sort = headline.get("rows", "largest") == "largest" and headline.get("table", name) == name
    figure = str(statement.get("figures", {}).get(name, ""))
    confidence = statement.get("confidence") or statement.get("request", {}).get("confidence", 0.95)
    sort = sort and "low" not in table.column_names
    # Of groups that were found in the log, nothing tells how many others there are.
    missing = MISSING if statement.get("request", {}).get("undeclared_groups") else OTHER
    moments = are_moments(statement)
    names = statement.get("labels", {})
    return Listing(table, figure, confidence, names, sort, missing, moments)


def _digits(value: float | None, error: float | None, times: int) -> str:
    if value is None:
        return NONE
    if times == 100 and error is None:
        return f"{100 * value:.3g}"
    return digits(value * times, None if error is None else error * times)


def texts(listing: Listing, columns: Sequence[NumberColumn], row: Row) -> list[str]:
    """The cells of a row: what it is of, and its numbers."""
    return [*listing.labels(row), *(column.text(row) for column in columns)]
