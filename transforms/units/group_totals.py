"""All rows of a unit to what it adds to groups that nobody declared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from transforms.encoders.block import SlotBlock
from transforms.units.units import ReportDoFn, ReportUnits, ReportUsersDoFn


@dataclass
class TotalUnits(ReportUnits):
    """As `ReportUnits`, with rows of `GroupSums.table` in the place of reports."""

    @property
    def steps(self) -> tuple[type[ReportDoFn], type[ReportUsersDoFn]]:
        return TotalDoFn, TotalUsersDoFn


class TotalDoFn(ReportDoFn):
    """What each row adds."""

    def _reports(
        self, users: Any, cells: Any, numbers: Any, names: Any, applies: Any
    ) -> Iterator[SlotBlock]:
        kept = np.arange(len(cells)) if applies is None else np.flatnonzero(applies)
        owners = kept if users is None else users[kept]
        numbers = None if numbers is None else numbers[kept]
        table = self._reporting.table(owners, cells[kept], numbers, len(names), self._rng)
        yield SlotBlock(table, None)


class TotalUsersDoFn(TotalDoFn, ReportUsersDoFn):
    """What each user of a bucket adds."""
