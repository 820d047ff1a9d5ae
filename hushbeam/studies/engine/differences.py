"""By how much systems' errors differ from one system's, where repetitions are paired."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hushbeam.studies.engine.measure import Measure
from mechanisms.channel import Floats


@dataclass(frozen=True)
class Differences:
    """A comparison with one system, on the same chance.

    Attributes:
        measure: what is compared; least is best.
        reference: the system that others are compared with.
    """

    measure: Measure
    reference: str

    @property
    def columns(self) -> pa.Schema:
        """Of the table."""
        name = self.measure.column
        return pa.schema(
            [
                ("data", pa.string()),
                ("n", pa.int64()),
                ("epsilon", pa.float64()),
                ("system", pa.string()),
                ("private", pa.bool_()),
                ("runs", pa.int64()),  # all parts of all repetitions
                (name, pa.float64()),  # the mean over runs
                (f"{name}_error", pa.float64()),  # its standard error
                ("difference", pa.float64()),  # the mean of what it exceeds the reference's by
                ("difference_error", pa.float64()),  # its standard error
            ]
        )

    def rows(self, results: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """A row for each setting where the reference was measured, too.

        Parts of one repetition may share data, as folds share training rows, so that standard
        errors of the mean over them are somewhat too small; noise, which dominates, is drawn anew.

        Args:
            results: the rows of results.parquet.
        """
        runs: dict[tuple[Any, ...], list[float]] = {}
        for row in sorted(results, key=lambda row: int(row["repetition"])):
            setting = tuple(row[name] for name in ("data", "n", "epsilon", "system", "private"))
            runs.setdefault(setting, []).extend(row[part] for part in self.measure.parts)
        known = {setting[:4]: np.array(values) for setting, values in runs.items()}
        for data, n, epsilon, system, private in runs:
            errors, others = (
                known.get((data, n, epsilon, name)) for name in (system, self.reference)
            )
            if errors is None or others is None:
                continue
            name, difference = self.measure.column, errors - others
            yield {
                "data": data, "n": n, "epsilon": epsilon, "system": system, "private": private,
                "runs": errors.size, name: float(errors.mean()), f"{name}_error": _error(errors),
                "difference": float(difference.mean()), "difference_error": _error(difference),
            }  # fmt: skip

    def sentences(self, table: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        """One for all private systems, and one for each that did better somewhere."""
        rows = [row for row in table if row["private"] and row["system"] != self.reference]
        better = [row for row in rows if row["difference"] < 0]
        yield (
            f"the {self.reference} has the least mean error in {len(rows) - len(better)} of "
            f"{len(rows)} comparisons with private systems on the same folds"
        )
        for row in better:
            yield (
                f"{row['system']} on {row['data']} (n = {row['n']:,}) at epsilon "
                f"{row['epsilon']:g}: {-row['difference']:.2g} +- {row['difference_error']:.1g} "
                "better"
            )


def _error(values: Floats) -> float:
    """The standard error of a mean."""
    return float(np.std(values, ddof=1)) / math.sqrt(values.size)
