"""The tables of a published cross-tab, as rows are made from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mechanisms.channel import Counts, Floats
from mechanisms.postprocess.synthetic_rows import Pair, distance, table
from pipelines.errors import RequestError
from pipelines.releases import history
from pipelines.releases.schema import own

_KIND, _FILE = "cross-tab", "cross-tab.parquet"


@dataclass(frozen=True)
class Tables:
    """What a release says of columns and of pairs of them.

    Attributes:
        published: the release.
        names: of the columns that rows have: of each the finest level that has tables.
        labels: of each column its values; the last, null, is any other.
        blocks: columns of a table -> its rows in the release, for those that are used.
        left_out: names of the tables that are not used: of coarser levels.
    """

    published: history.Published
    names: tuple[str, ...]
    labels: tuple[pa.Array, ...]
    blocks: dict[tuple[int, ...], pa.Table]
    left_out: tuple[str, ...]

    @property
    def sizes(self) -> list[int]:
        """How many values each column has."""
        return [len(labels) for labels in self.labels]

    @property
    def total(self) -> int:
        """How many the release has counted."""
        return int(self.blocks[()]["fitted"][0].as_py())

    @cached_property
    def pairs(self) -> dict[Pair, Counts]:
        """The tables of two columns and of three, whole numbers."""
        return {key: self._fitted(key) for key in self.blocks if len(key) >= 2}

    @property
    def ways(self) -> str:
        """Of how many columns tables of several are."""
        return "two and three" if max(map(len, self.blocks)) > 2 else "two"

    @cached_property
    def whole_pairs(self) -> dict[Pair, Counts]:
        """The same, and those of the first two of three columns that are no table of their own."""
        implied = {key[:2]: table.sum(axis=2) for key, table in self.pairs.items() if len(key) > 2}
        return implied | self.pairs

    @cached_property
    def singles(self) -> list[Counts]:
        """Those of one: tables agree, so it does not matter which says it."""
        return [self._single(column) for column in range(len(self.names))]

    def require_whole(self) -> None:
        """Refuse tables of which something is missing, or that do not agree.

        Raises:
            ValueError: they do not.
        """
        levels = len(self.published.statement["request"]["domains"])
        wide = {block.num_columns - block.column_names.index("fitted") - 1
                for block in self.blocks.values()}  # fmt: skip
        _ = self.published.statement["guarantees"]["release"]
        if wide != {levels} or not self.total < 1 << 53 or not self.singles:
            raise ValueError("columns are missing")
        for key in self.blocks:
            counts = self._fitted(key)
            if not (counts.dtype.kind == "i" and counts.min() >= 0 and counts.sum() == self.total):
                raise ValueError("tables do not agree")

    def name(self, pair: Pair) -> str:
        """Of a table, as the release has it."""
        return str(self.blocks[pair]["group"][0])

    def noise(self, pair: Pair) -> float:
        """How far a table's estimate is from the truth, on average, as a total variation distance.

        Of normal noise; for what lies below 0 was raised, rows are made from what is nearer.
        """
        errors: Floats = self.blocks[pair]["standard_error"].to_numpy()
        return min(1.0, 0.5 * math.sqrt(2 / math.pi) * float(errors.sum()) / self.total)

    def distances(self, rows: NDArray[np.int64]) -> dict[Pair, float]:
        """Of each table of several columns, that of rows from that of the release."""
        return {
            pair: distance(table(rows, pair, self.sizes), counts)
            for pair, counts in self.pairs.items()
        }

    def _single(self, column: int) -> Counts:
        if (column,) in self.blocks:
            return self._fitted((column,))
        pair = next(pair for pair in self.pairs if column in pair)
        others = tuple(along for along, one in enumerate(pair) if one != column)
        return np.asarray(self.pairs[pair].sum(axis=others))

    def _fitted(self, key: tuple[int, ...]) -> Counts:
        counts = self.blocks[key]["fitted"].to_numpy()
        return np.asarray(counts.reshape([len(self.labels[column]) for column in key]))


def read(folder: str) -> Tables:
    """The tables of a release.

    Args:
        folder: of a cross-tab, or of a plan that has one.

    Raises:
        RequestError: there is none, or several, or it counts nobody.
    """
    releases = [one for one in history.releases_in([folder]) if one.statement["release"] == _KIND]
    if len(releases) != 1:
        names = ", ".join(one.folder for one in releases) or "of other kinds alone"
        raise RequestError(f"{folder}: name the folder of one {_KIND}; there are: {names}")
    try:
        release = dict(releases[0].tables()).get(_FILE)
        tables = None if release is None else _of(releases[0], own(release, f"{folder}/{_FILE}"))
        if tables is not None:
            tables.require_whole()
    except (KeyError, TypeError, ValueError, IndexError, StopIteration, pa.ArrowException):
        raise RequestError(
            f"{folder}: {_FILE}, or the statement beside it, is damaged; copy the release whole"
        ) from None
    if tables is None:
        raise RequestError(f"{folder}: {_FILE} is missing; copy the release whole")
    if not tables.total > 0:
        raise RequestError(f"{folder}: the release counts nobody, so there is nothing to go by")
    return tables


def _of(published: history.Published, release: pa.Table) -> Tables:
    request = published.statement["request"]
    after = release.column_names.index("fitted") + 1
    levels = release.column_names[after:]  # in the order of `domains`, the coarsest first
    names = [word.rpartition(": ")[0] for word in request["domains"]]
    blocks = {
        tuple(place for place, level in enumerate(levels) if block[level].null_count < len(block)):
        block
        for block in _blocks(release)
    }  # fmt: skip
    there = {place for key in blocks for place in key}
    used = [max(own, default=-1) for own in _dimensions(names, request["columns"], there)]
    used = [place for place in used if place >= 0]
    labels = [
        next(pc.unique(block[levels[place]]) for key, block in blocks.items() if place in key)
        for place in used
    ]
    kept = {
        tuple(used.index(place) for place in key): block
        for key, block in blocks.items()
        if all(place in used for place in key)
    }
    left = [str(block["group"][0]) for key, block in blocks.items() if not {*key} <= {*used}]
    return Tables(
        published, tuple(names[place] for place in used), tuple(labels), kept, tuple(left)
    )


def _blocks(release: pa.Table) -> Iterator[pa.Table]:
    groups = pc.run_end_encode(release["group"].combine_chunks())
    for start, end in pairwise([0, *groups.run_ends.to_pylist()]):
        yield release.slice(start, end - start)


def _dimensions(
    names: Sequence[str], columns: Sequence[str], there: set[int]
) -> Iterator[list[int]]:
    """Of each column its levels, as far as there are tables of them; the finest comes last."""
    levels: list[int] = []
    for place, name in enumerate(names):
        levels += [place] if place in there else []
        if name in columns:
            yield levels
            levels = []
