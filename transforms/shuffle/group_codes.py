"""A shuffler of a job that counts: what comes out depends on how often each code came, alone.

Between parties every message travels under a random key. Here nothing leaves the job but counts, so
messages are grouped by their codes: each group yields how often each of its codes came, dummies
among them, and neither sender nor file nor order is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from apache_beam.transforms.window import WindowedValue
from numpy.typing import NDArray

from transforms.elements.block_coders import decoded, encoded
from transforms.elements.blocks import GroupOnce, PartitionDoFn, leaving
from transforms.elements.numbers import is_numbered, numbered
from transforms.elements.pieces import Piece

_GROUPS, _CODES = 64, 1 << 14  # groups at the most, and codes of a group at the least


@dataclass
class GroupCodes(beam.PTransform):
    """Blocks of codes, or of how often each came, in; how often each came, a block a group, out.

    Attributes:
        codes: messages are below it; what is not comes out as it, one that no client sends.
    """

    codes: int

    def expand(self, messages: beam.PCollection) -> beam.PCollection:
        return (
            messages
            | "Part by code" >> beam.ParDo(PartCodesDoFn(self.codes))
            | "Group by code" >> GroupOnce()
            | "Add up codes" >> beam.ParDo(AddUpDoFn(self.codes))
        )


def _width(codes: int) -> int:
    """How many codes a group has."""
    return max(_CODES, -(-(codes + 1) // _GROUPS))


@typehints.with_input_types(np.ndarray)
@typehints.with_output_types(tuple[int, Piece])
class PartCodesDoFn(PartitionDoFn):
    """Sends messages to the groups of their codes: sorted, or counted where that is less."""

    most_rows: ClassVar[int] = 1 << 22  # messages are shorter than other rows

    def __init__(self, codes: int) -> None:
        super().__init__(_GROUPS)
        self._codes, self._dtype = codes, np.min_scalar_type(codes)
        self._starts = np.arange(0, codes + 1, _width(codes)).astype(self._dtype)

    def rows(self, block: NDArray[Any]) -> NDArray[Any]:
        if np.iinfo(block.dtype).max > self._codes:
            block = np.minimum(block, self._codes)
        return block.astype(self._dtype, copy=False)

    def assign(self, rows: NDArray[Any]) -> NDArray[Any]:
        return np.searchsorted(self._starts, rows, side="right") - 1

    def process(self, block: Any, window: Any = beam.DoFn.WindowParam) -> Iterator[WindowedValue]:
        if not is_numbered(block):
            yield from super().process(block, window)
            return
        ordered = block[np.argsort(block["code"], kind="stable")]
        codes = np.minimum(ordered["code"], np.uint64(self._codes))
        for group, part in self._cut(numbered(codes, ordered["times"])):
            yield leaving(window, group, self.packed(part))

    def parted(self, rows: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
        # What leaves a worker is in the order of the codes, which tells nothing of whose they are.
        ordered = np.sort(rows)
        changed = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
        firsts = np.append(0, changed)[: ordered.size]
        table = numbered(ordered[firsts], np.diff(firsts, append=ordered.size))
        yield from self._cut(table if table.nbytes < ordered.nbytes else ordered)

    def _cut(self, ordered: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
        """(group, its part) of what is in the order of codes, for each group that has any."""
        codes = ordered["code"] if is_numbered(ordered) else ordered
        ends = [*np.searchsorted(codes, self._starts).tolist(), ordered.size]
        for group, (start, end) in enumerate(pairwise(ends)):
            if end > start:
                yield group, ordered[start:end]

    def packed(self, rows: NDArray[Any]) -> bytes:
        return encoded(rows)


@typehints.with_input_types(tuple[int, Iterable[bytes]])
@typehints.with_output_types(np.ndarray)
class AddUpDoFn(beam.DoFn):
    """How often each code of a group came."""

    def __init__(self, codes: int) -> None:
        self._codes, self._width = codes, _width(codes)

    def process(self, group: tuple[int, Iterable[bytes]]) -> Iterator[NDArray[np.void]]:
        first = group[0] * self._width
        times = np.zeros(min(self._width, self._codes + 1 - first), np.int64)
        for piece in map(decoded, group[1]):
            if is_numbered(piece):
                np.add.at(times, piece["code"].astype(np.int64) - first, piece["times"])
            else:
                times += np.bincount(piece.astype(np.int64) - first, minlength=times.size)
        came = np.flatnonzero(times)
        yield numbered(first + came, times[came])
