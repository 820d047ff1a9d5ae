"""From rows to groups of declared values, for whoever counts them or adds up a number of each."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.randomness import RandomSource
from transforms.columns import as_floats, decoded, plain
from transforms.encoders import specification
from transforms.encoders.block import AmountBlock, CellBlock
from transforms.encoders.domain import Domain
from transforms.encoders.encoder import BATCH, Rows


@dataclass(frozen=True)
class GroupEncoder:
    """Each row to its group, and a number of it to what it is; nothing is drawn, or left out.

    A row whose value is missing, or none of the declared, is of one more group, the last. Without
    columns there is one group.

    Attributes:
        domains: (column, its declared values), none to several; a group is a value of each.
        number: a column of numbers, if they are added up; those that cannot be used are NaN.
        whole: whether only whole numbers can.
        drops: whether rows of no declared group count for nothing, in place of that last group.

    >>> from mechanisms.randomness import SeededRandom
    >>> from transforms.encoders.domain import IntegerRange
    >>> batch = pa.record_batch({"hour": [7, None, 99]})
    >>> encoder = GroupEncoder((("hour", IntegerRange(0, 23)),))
    >>> encoder.size, encoder.encode(batch, Rows(3), SeededRandom(0)).cells.tolist()
    (25, [7, 24, 24])
    """

    domains: tuple[tuple[str, Domain], ...] = ()
    number: str | None = None
    whole: bool = False
    drops: bool = False
    batch_size: ClassVar = BATCH

    @property
    def kind(self) -> type[Any]:
        return CellBlock if self.number is None else AmountBlock

    @property
    def declared(self) -> int:
        """How many groups there are, the one of all other rows left out."""
        return int(np.prod([domain.size for _, domain in self.domains], dtype=object))

    @property
    def size(self) -> int:
        """How many groups there are."""
        return self.declared + (bool(self.domains) and not self.drops)

    @property
    def columns(self) -> frozenset[str]:
        named = {column for column, _ in self.domains}
        return frozenset(named if self.number is None else named | {self.number})

    @property
    def line_types(self) -> dict[str, pa.DataType]:
        types = {column: domain.kind for column, domain in self.domains}
        return types if self.number is None else types | {self.number: pa.float64()}

    @property
    def specification(self) -> specification.GroupsSpecification:
        """What a client in another language needs."""
        columns = [
            specification.ColumnOfDomain(column=column, domain=domain.specification)
            for column, domain in self.domains
        ]
        return specification.GroupsSpecification(
            columns=columns, number=self.number, whole=self.whole
        )

    def encode(
        self, batch: pa.RecordBatch, rows: Rows, rng: RandomSource
    ) -> CellBlock | AmountBlock:
        groups = rows.of(self._groups(batch)).astype(np.uint32)
        applies = groups < self.declared if self.drops and self.domains else None
        if self.number is None:
            return CellBlock(groups, None, applies)
        numbers = as_floats(decoded(batch.column(self.number)))
        usable = np.where(np.isfinite(numbers), numbers, np.nan)
        if self.whole:
            usable[np.floor(usable) != usable] = np.nan
        return AmountBlock(groups, rows.of(usable), None, applies)

    def _groups(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        cells = [domain.encode(plain(batch.column(column))) for column, domain in self.domains]
        groups, *others = cells or [np.zeros(batch.num_rows, np.int64)]
        for own, (_, domain) in zip(others, self.domains[1:], strict=True):
            groups = groups * domain.size + own
        # Of most batches all values are declared: then no row is looked at by itself.
        if all(own.min(initial=0) >= 0 for own in cells):
            return groups
        return np.where(np.min(cells, axis=0) >= 0, groups, self.declared)
