"""What encoders make of rows: blocks of thousands of them, which travel from step to step."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Self

from mechanisms.channel import Messages
from mechanisms.randomness import RandomSource
from transforms.encoders.users import Digests

NUMBERED = np.dtype([("code", np.uint64), ("times", np.int64)])
"""Of messages that say how often each code came, or how much is added to its counter."""

AnyBlock = TypeVar("AnyBlock", bound="Block")


class Client(Protocol):
    """What randomises rows: a mechanism for cells (`perturb`), or one for rows (`report`)."""

    @property
    def messages(self) -> float:
        """How many messages a user sends on average."""


class Block(Protocol):
    """A named tuple of arrays with one entry for each row; those that say no more are None."""

    @property
    def users(self) -> Digests | None:
        """(n,) digests of the privacy unit, or None where each row is its own unit."""

    @property
    def size(self) -> int:
        """n, how many rows there are."""

    @property
    def width(self) -> int:
        """How many cells, numbers or categories a row consists of."""

    def perturbed(self, mechanism: Any, rng: RandomSource) -> Messages:
        """The client: what a mechanism for such rows makes of them."""

    def __iter__(self) -> Iterator[Any]: ...

    def _asdict(self) -> dict[str, Any]: ...

    def _replace(self, *, users: Digests | None) -> "Self": ...


class CellBlock(NamedTuple):
    """Usable rows, each as one cell of a mechanism, or as several.

    Attributes:
        cells: (n,) uint32 cells, or (n, k) where k of them are reported of each row.
        users: (n,) uint64 digests of the privacy unit, or None where each row is its own unit.
        applies: (n,) for which rows all that must hold does, or None where that is all of them.
    """

    cells: NDArray[np.uint32]
    users: Digests | None
    applies: NDArray[np.bool_] | None = None

    @property
    def size(self) -> int:
        return len(self.cells)

    @property
    def width(self) -> int:
        return 1 if self.cells.ndim == 1 else self.cells.shape[1]

    def perturbed(self, mechanism: Any, rng: RandomSource) -> Messages:
        return mechanism.perturb(self.cells.reshape(-1), rng)


class PooledBlock(NamedTuple):
    """Rows, each of which is one of some different ones.

    Attributes:
        cells: (n,) which of `pool` each row is.
        pool: (m, k) uint32 cells of the different rows.
        users: (n,) uint64 digests of the privacy unit, or None where each row is its own unit.
        applies: (n,) for which rows all that must hold does, or None where that is all of them.
    """

    cells: NDArray[np.uint32]
    pool: NDArray[np.uint32]
    users: Digests | None = None
    applies: NDArray[np.bool_] | None = None

    @property
    def size(self) -> int:
        return len(self.cells)

    @property
    def width(self) -> int:
        return self.pool.shape[1]

    @property
    def counted(self) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """((r, k) of the pool what some row is, (r,) how many rows are)."""
        times = np.bincount(self.cells, minlength=len(self.pool))
        return self.pool[times > 0], times[times > 0]

    def perturbed(self, mechanism: Any, rng: RandomSource) -> Messages:
        raise TypeError("pooled rows are counted, not perturbed")


class AmountBlock(NamedTuple):
    """Rows, each with a number of a group.

    Attributes:
        cells: (n,) uint32 groups.
        amounts: (n,) numbers; one that is not finite cannot be used.
        users: (n,) uint64 digests of the privacy unit, or None where each row is its own unit.
        applies: (n,) for which rows all that must hold does, or None where that is all of them.
    """

    cells: NDArray[np.uint32]
    amounts: NDArray[np.float64]
    users: Digests | None
    applies: NDArray[np.bool_] | None = None

    @property
    def size(self) -> int:
        return len(self.cells)

    @property
    def width(self) -> int:
        return 1

    def perturbed(self, mechanism: Any, rng: RandomSource) -> Messages:
        raise TypeError("numbers of groups are added up, not perturbed")


class SlotBlock(NamedTuple):
    """What units send to counters: a word for each slot of a report.

    Attributes:
        words: (n, F) unsigned, as narrow as they may be.
        users: (n,) uint64 digests of the privacy unit, or None where they are not needed.
    """

    words: Messages
    users: Digests | None

    @property
    def size(self) -> int:
        return len(self.words)

    @property
    def width(self) -> int:
        return self.words.shape[1]

    def perturbed(self, mechanism: Any, rng: RandomSource) -> Messages:
        """Nothing is: others' dummies hide them."""
        return self.words.reshape(-1)


class RowBlock(NamedTuple):
    """Usable rows, with all that is in them.

    Attributes:
        numbers: (n, w) floats in [-1, 1]: all numbers side by side, in declared order.
        categories: (n, c) int32 indices into the domains.
        users: (n,) uint64 digests of the privacy unit, or None where each row is its own unit.
        applies: (n,) for which rows all that must hold does, or None where that is all of them.
    """

    numbers: NDArray[np.floating[Any]]
    categories: NDArray[np.int32]
    users: Digests | None
    applies: NDArray[np.bool_] | None = None

    @property
    def size(self) -> int:
        return len(self.numbers)

    @property
    def width(self) -> int:
        return self.numbers.shape[1] + self.categories.shape[1]

    def perturbed(self, mechanism: Any, rng: RandomSource) -> Messages:
        numbers = self.numbers.astype(np.float64, copy=False)
        # Mechanisms for rows of numbers alone have no place for categories.
        others = (self.categories,) if self.categories.shape[1] else ()
        return mechanism.report(numbers, *others, rng)


Rows = CellBlock | PooledBlock | AmountBlock | SlotBlock | RowBlock
"""A block of any kind, as Beam checks them."""


def pieces(block: AnyBlock, size: int) -> Iterator[AnyBlock]:
    """A block cut into blocks of at most so many rows."""
    for start in range(0, block.size, size):
        part = slice(start, start + size)
        yield type(block)(*(None if array is None else array[part] for array in block))


def packed(block: Block, **beside: NDArray[Any]) -> NDArray[np.void]:
    """(n,) the rows of a block as one array, users and all, and what else there is of each row."""
    parts = {name: part for name, part in block._asdict().items() if part is not None} | beside
    layout = [(name, part.dtype, part.shape[1:]) for name, part in parts.items()]
    rows = np.empty(block.size, np.dtype(layout))
    for name, part in parts.items():
        rows[name] = part
    return rows


def as_bytes(rows: NDArray[Any]) -> NDArray[Any]:
    """Rows as bytes: numpy copies, joins and picks those at a tenth of the time of fields."""
    return rows if rows.dtype.names is None else rows.view(f"V{rows.itemsize}")


def taken(rows: NDArray[Any], places: NDArray[Any]) -> NDArray[Any]:
    """`rows[places]`."""
    return as_bytes(rows).take(places, axis=0).view(rows.dtype)


def concatenated(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Rows of one layout, whose numbers may be of several widths, one after the other."""
    if len(parts) == 1:
        return parts[0]
    if len({part.dtype for part in parts}) > 1:
        return np.concatenate(parts)
    return np.concatenate([*map(as_bytes, parts)]).view(parts[0].dtype)


def unpacked(kind: type[AnyBlock], rows: NDArray[np.void]) -> AnyBlock:
    """What `packed` was given, whose cells and amounts may have been narrowed since."""
    own = [name for name in rows.dtype.names or () if hasattr(kind, name)]
    parts = {name: np.ascontiguousarray(rows[name]) for name in own}
    for name, dtype in (("cells", np.uint32), ("amounts", np.float64)):
        if name in parts:
            parts[name] = parts[name].astype(dtype, copy=False)
    return kind(**{"users": None, **parts})


def applicable(block: Any) -> Any:
    """The rows of a block for which all that must hold does."""
    if block.applies is None:
        return block
    rows = {name: part for name, part in block._asdict().items() if name != "pool"}
    own = {name: None if part is None else part[block.applies] for name, part in rows.items()}
    return block._replace(**own | {"applies": None})


def one_row(blocks: Sequence[Any], rng: RandomSource) -> list[Any]:
    """A uniformly chosen row of some blocks, as a block; none of none.

    Of rows for which all that must hold does, if there is one.
    """
    live = [part for part in map(applicable, blocks) if part.size]
    blocks = live or blocks
    ends = np.cumsum([block.size for block in blocks], dtype=np.int64)
    if not (ends.size and ends[-1]):
        return []
    # Uniform over rows and not over blocks, which may differ in size.
    row = int(rng.integers(int(ends[-1]), 1)[0])
    place = int(np.searchsorted(ends, row, side="right"))
    block = blocks[place]
    start = row - int(ends[place]) + block.size
    return [type(block)(*(None if part is None else part[start : start + 1] for part in block))]
