"""From rows to the few numbers of each that its user will report: the others are not even copied.

Which coordinates a user reports does not depend on the row, so it is drawn first, and only these
numbers are clipped, scaled and rounded. A row becomes one word for each of them, and the bound on
contributions, which comes later, moves words and not rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from apache_beam import typehints
from numpy.typing import NDArray

from mechanisms.randomness import RandomSource, SecureRandom
from transforms.attributes import Attribute, numeric, width
from transforms.block_coders import weighed
from transforms.blocks import Generator
from transforms.encode_numbers import Rounding, _Rows
from transforms.encode_rows import ReadRowsDoFn, looked_up
from transforms.users import UserDigest

_LARGEST_CELL = 1 << 32  # cells travel in 32 bits


@weighed
class PickedBlock(NamedTuple):
    """Usable rows, of which the coordinates to be reported were picked and rounded.

    Attributes:
        cells: (n, k) uint32 coordinate * inputs + cell.
        users: (n,) uint64 digests of the privacy unit, or None where each row is its own unit.
    """

    cells: NDArray[np.uint32]
    users: NDArray[np.uint64] | None


class Choice(Protocol):
    """What chooses coordinates; `SampledCoordinates` does."""

    @property
    def dimension(self) -> int:
        """How many coordinates a row has."""

    @property
    def mechanism(self) -> Rounding:
        """What rounds the number in one of them."""

    def choose(self, n: int, rng: RandomSource) -> NDArray[np.int64]:
        """(n, k) distinct coordinates of each of n users."""


@typehints.with_input_types(pa.Table)
@typehints.with_output_types(PickedBlock)
class PickCoordinatesDoFn(ReadRowsDoFn):
    """Tables to `PickedBlock`s; rows that cannot be used are counted under their reason.

    Args:
        attributes: what a row consists of; numbers alone.
        choice: which of them are reported.
        users: the privacy unit, or None.
        open_rng: opens the generator on each worker.
    """

    def __init__(
        self,
        attributes: tuple[Attribute, ...],
        choice: Choice,
        users: UserDigest | None,
        open_rng: Generator = SecureRandom,
    ) -> None:
        super().__init__(attributes, users)
        if not choice.dimension == width(attributes) > 0:
            raise ValueError(
                f"rows have {width(attributes)} numbers, and coordinates are chosen of "
                f"{choice.dimension}"
            )
        if not choice.dimension * choice.mechanism.inputs <= _LARGEST_CELL:
            raise ValueError(
                f"{choice.dimension} coordinates of {choice.mechanism.inputs} cells each are more "
                f"than {_LARGEST_CELL}; use fewer cells"
            )
        self._choice, self._open_rng = choice, open_rng
        self._low, self._high = _limits(attributes)

    def setup(self) -> None:
        self._rng = self._open_rng()

    def take(self, batch: pa.RecordBatch, rows: _Rows) -> tuple[NDArray[Any], ...]:
        coordinates = self._choice.choose(batch.num_rows, self._rng)
        flat, k = coordinates.reshape(-1), coordinates.shape[1]
        order = np.argsort(flat.astype(np.min_scalar_type(self._width)), kind="stable")
        ordered = flat[order]
        numbers = np.empty(flat.size)
        for at, attribute, spans in self.numbers(batch, rows):
            first, last = np.searchsorted(ordered, [at, at + attribute.width])
            places = order[first:last]
            numbers[places] = looked_up(spans, spans.starts[places // k] + flat[places] - at)
        return coordinates, numbers.reshape(coordinates.shape)

    def block(
        self, taken: tuple[NDArray[Any], ...], users: NDArray[np.uint64] | None
    ) -> PickedBlock:
        coordinates, numbers = taken
        scaled = self._scaled(coordinates.reshape(-1), numbers.reshape(-1))
        rounding = self._choice.mechanism
        cells = coordinates.astype(np.uint32) * np.uint32(rounding.inputs)
        cells += rounding.encode(scaled, self._rng).reshape(cells.shape)
        return PickedBlock(cells, users)

    def _scaled(
        self, coordinates: NDArray[np.int64], numbers: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Finite numbers, clipped and mapped to [-1, 1] by the bounds of their coordinates."""
        low, high = self._low[coordinates], self._high[coordinates]
        # As `Bounds.scale`: differences of clipped numbers never round past that of the bounds.
        shifted = np.clip(numbers, low, high)
        shifted -= low
        shifted /= high - low
        shifted *= 2
        shifted -= 1
        return shifted


def _limits(
    attributes: tuple[Attribute, ...],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(w,) the lower bound of each coordinate, and the upper one."""
    widths = [each.width for each in numeric(attributes)]
    ends = np.array([each.bounds for each in numeric(attributes)], np.float64)
    return np.repeat(ends[:, 0], widths), np.repeat(ends[:, 1], widths)
