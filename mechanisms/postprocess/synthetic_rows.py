"""Rows of made people whose tables of some columns are those that were published, or near them.

Columns come one after another, each as random as the tables of it and of those before it allow:
given these, its values have the law of greatest entropy (the joint table raked to all of them),
and how many rows get which is rounded so that hardly any noise of drawing is added. Tables that
were estimated from noise need not be those of any rows; what is left is made less by moving rows,
one value at a time, to where rows are missing.

Source: for raking Deming, Stephan, "On a least squares adjustment of a sampled frequency table
    when the expected marginal totals are known", Ann. Math. Stat. 1940; for columns in the order of
    their dependence Chow, Liu, "Approximating discrete probability distributions with dependence
    trees", IEEE Trans. Inf. Theory 1968 (there each depends on one before it, here on all); for
    moving rows the gradual updates of Zhang et al., "PrivSyn: differentially private data
    synthesis", USENIX Security 2021, there table by table, here by all tables of a column at once.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mechanisms.channel import Counts, Floats
from mechanisms.postprocess.whole_tables import crossed, divided
from mechanisms.randomness import RandomSource

Pair = tuple[int, ...]
"""Two columns, or three."""

MOST_CELLS = 1 << 25
"""Of different rows times the values of a further column: 1.5 GB while they are raked."""

_CYCLES = 30  # of raking; where noise contradicts itself, more change nothing
_CLOSE = 1e-4  # of all rows: which are still misplaced when raking, or moving, ends
_PASSES = 20
_BLOCK = 1024  # rows that are moved at once; each block sees what the one before has left
_GOLDEN = (math.sqrt(5) - 1) / 2


def distance(one: NDArray[np.number], other: NDArray[np.number]) -> float:
    """The total variation distance of two tables, each divided by its total.

    >>> distance(np.array([1, 1]), np.array([2, 0]))
    0.5
    """
    return float(0.5 * np.abs(one / one.sum() - other / other.sum()).sum())


def table(rows: NDArray[np.integer], pair: Pair, sizes: Sequence[int]) -> Counts:
    """How many rows have each combination of values.

    Args:
        rows: (n, columns) places of values.
        pair: which columns.
        sizes: how many values each column has.
    """
    shape = tuple(sizes[column] for column in pair)
    cells = np.ravel_multi_index(tuple(rows[:, column] for column in pair), shape)
    return np.bincount(cells, minlength=math.prod(shape)).reshape(shape)


def synthetic_rows(
    singles: Sequence[Counts], pairs: Mapping[Pair, Counts], n: int, rng: RandomSource
) -> NDArray[np.int64]:
    """Rows with given tables, or near them.

    Args:
        singles: of each column the table: whole numbers, none below 0.
        pairs: (i, j), i < j -> the table of two columns, whose sums are those of `singles`. Two
            columns of which there is none depend as far as others make them. (i, j, k) likewise,
            of which there must be the table of the first two.
        n: of rows.
        rng: of their order, and of which of those that are alike is which.

    Returns:
        (n, columns) places of values.

    Raises:
        ValueError: there is nothing to go by, or too much for the memory.

    >>> from mechanisms.randomness import SeededRandom
    >>> same = np.array([[3, 0], [0, 1]])
    >>> rows = synthetic_rows([same.sum(1), same.sum(0)], {(0, 1): same}, 8, SeededRandom(1))
    >>> table(rows, (0, 1), (2, 2)).tolist()
    [[6, 0], [0, 2]]
    """
    if not (n >= 1 and singles and all(single.sum() > 0 for single in singles)):
        raise ValueError("rows need a column, and each table somebody")
    sizes = [single.size for single in singles]
    margins = [divided(n, single * (n / single.sum())) for single in singles]
    due: dict[Pair, Counts] = {}
    for key in sorted(pairs, key=len):
        first = margins[key[0]] if len(key) == 2 else due[key[:2]].ravel()
        scaled = pairs[key] * (n / pairs[key].sum())
        flat = crossed(scaled.reshape(first.size, -1), first, margins[key[-1]])
        due[key] = flat.reshape(pairs[key].shape)
    made = _chained(margins, due, rng)
    made = made[rng.permutation(n)]
    _move(made, due, sizes, rng)
    return made


def _chained(
    margins: Sequence[Counts], due: Mapping[Pair, Counts], rng: RandomSource
) -> NDArray[np.int64]:
    """Rows, column after column."""
    of_two = {(key[0], key[1]): table for key, table in due.items() if len(key) == 2}
    turned = {(j, i): table.T for (i, j), table in of_two.items()}
    first, *others = order(margins, of_two | turned)
    values = np.zeros((margins[first].size, len(margins)), np.int64)
    values[:, first] = np.arange(margins[first].size)
    many, done = margins[first], [first]
    for column in others:
        kept = many > 0
        values, many = values[kept], many[kept]
        if not values.shape[0] * margins[column].size <= MOST_CELLS:
            raise ValueError(
                f"{values.shape[0]:,} different rows, and {margins[column].size:,} values of a "
                "further column, are too many for the memory"
            )
        tables = [
            (
                np.ravel_multi_index(tuple(values[:, i] for i in rest), last.shape[:-1]),
                last.reshape(-1, last.shape[-1]),
            )
            for rest, last in _telling(due, column)
            if {*rest} <= {*done}
        ]
        shares = _raked(tables, many, margins[column])
        counts = _rounded(shares, many, rng)
        rows, places = np.nonzero(counts)
        values, many = values[rows], counts[rows, places]
        values[:, column] = places
        done.append(column)
    return np.repeat(values, many, axis=0)


def _telling(due: Mapping[Pair, Counts], column: int) -> Iterator[tuple[Pair, Counts]]:
    """(the other columns, the table with this one last) of each table that holds a column."""
    for key, table in due.items():
        if column in key:
            along = key.index(column)
            yield (*key[:along], *key[along + 1 :]), np.moveaxis(table, along, -1)


def order(margins: Sequence[Counts], due: Mapping[tuple[int, int], Counts]) -> list[int]:
    """Columns, each after the one that it depends on most: Prim's tree of mutual information.

    Args:
        margins: of each column.
        due: (i, j), in both orders -> their table.
    """
    information = np.zeros((len(margins), len(margins)))
    for (i, j), joint in due.items():
        p = joint / joint.sum()
        apart = np.outer(p.sum(axis=1), p.sum(axis=0))
        information[i, j] = float((p[p > 0] * np.log(p[p > 0] / apart[p > 0])).sum())
    ordered = [int(np.argmax(information.sum(axis=1)))]
    while len(ordered) < len(margins):
        rest = [column for column in range(len(margins)) if column not in ordered]
        ordered.append(rest[int(np.argmax(information[np.ix_(ordered, rest)].max(axis=0)))])
    return ordered


def _raked(
    tables: Sequence[tuple[NDArray[np.int64], Counts]], many: Counts, margin: Counts
) -> Floats:
    """(different rows, values) how many of each kind of row should have which value of a column.

    Args:
        tables: (the kinds' places in another column, what is due of both columns) each.
        many: (kinds,) rows of each.
        margin: of the column.
    """
    shares: Floats = np.multiply.outer(many.astype(np.float64), margin / margin.sum())
    kinds = np.arange(many.size + 1)
    ones = np.ones(many.size)
    grouping = [
        sparse.csr_array((ones, places, kinds), shape=(many.size, len(due))).T.tocsr()
        for places, due in tables
    ]
    for _ in range(_CYCLES):
        off = 0.0
        for (places, due), groups in zip(tables, grouping, strict=True):
            have = np.asarray(groups @ shares)
            off = max(off, float(np.abs(due - have).sum()))
            factors = np.divide(due, have, out=np.zeros(due.shape), where=have > 0)
            shares *= factors[places]
        if off <= 2 * _CLOSE * many.sum():
            break
    # Where noise contradicts itself, nothing may be left for a kind.
    return np.where(shares.sum(axis=1, keepdims=True) > 0, shares, margin)


def _rounded(shares: Floats, many: Counts, rng: RandomSource) -> Counts:
    """Whole numbers near them, which add up to how many rows there are of each kind.

    Each kind's are rounded at points that lie a whole row apart, moved by the golden ratio from one
    kind to the next. Kinds are sorted by their columns, so that any run of them gets very nearly
    its shares: coins in their place would be off by the square root.
    """
    added = np.cumsum(shares, axis=1)
    ends = added / added[:, -1:] * many[:, None]
    start = int(rng.integers(1 << 53, 1)[0]) / (1 << 53)
    points = (np.arange(many.size) * _GOLDEN + start) % 1
    below = np.floor(ends + points[:, None])
    below[:, -1] = many
    below = np.minimum(below, many[:, None])  # whatever doubles round
    return np.asarray(np.diff(below, axis=1, prepend=0.0).astype(np.int64))


def _move(
    rows: NDArray[np.int64], due: Mapping[Pair, Counts], sizes: Sequence[int], rng: RandomSource
) -> None:
    """Change values, one of a row at a time, as long as tables come nearer, in squares."""
    missing = {pair: gap - table(rows, pair, sizes) for pair, gap in due.items()}
    for _ in range(_PASSES):
        moved = 0
        for column in range(len(sizes)):
            near = [*_telling(missing, column)]  # views of the same numbers
            if not near:
                continue
            # Whoever stays where rows are not too many costs no look at all other values.
            own = sum(gap[_at(rows, others, rows[:, column])] for others, gap in near)
            many = np.flatnonzero(own < 0)
            turn = many[rng.permutation(many.size)]
            for start in range(0, turn.size, _BLOCK):
                moved += _moved(rows, turn[start : start + _BLOCK], column, near)
        if moved <= _CLOSE * len(rows):
            break


def _moved(
    rows: NDArray[np.int64],
    block: NDArray[np.int64],
    column: int,
    near: Sequence[tuple[Pair, Counts]],
) -> int:
    """Give some rows another value of a column; returns how many.

    Args:
        rows: all of them, changed in place.
        block: which may be moved.
        column: the values of which change.
        near: (other columns, what is missing of all, changed in place) each.
    """
    own = rows[block, column]
    wanted = np.sum([missing[_at(rows[block], others)] for others, missing in near], axis=0)
    best = wanted.argmax(axis=1)
    index = np.arange(block.size)
    # A row less here and one more there: squares fall by twice this, less twice for each table.
    gain = wanted[index, best] - wanted[index, own] - len(near)
    chosen = np.flatnonzero((gain > 0) & (best != own))
    kept = np.ones(chosen.size, np.bool_)
    for others, missing in near:
        for values in (own[chosen], best[chosen]):
            cells = _at(rows[block[chosen]], others, values)
            # Of many that want the same cell some go: half of what is missing, so that it is met.
            most = np.maximum(np.abs(missing[cells]) // 2, 1)
            kept &= _turn(np.ravel_multi_index(cells, missing.shape)) < most
    chosen = chosen[kept]
    for others, missing in near:
        np.add.at(missing, _at(rows[block[chosen]], others, own[chosen]), 1)
        np.add.at(missing, _at(rows[block[chosen]], others, best[chosen]), -1)
    rows[block[chosen], column] = best[chosen]
    return int(chosen.size)


def _at(
    rows: NDArray[np.int64], others: Pair, *last: NDArray[np.int64]
) -> tuple[NDArray[np.int64], ...]:
    """The cells of rows in a table whose last column is another one."""
    return (*(rows[:, other] for other in others), *last)


def _turn(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n,) how many of the same there are before each."""
    ordered = np.argsort(cells, kind="stable")
    ranked = cells[ordered]
    first = np.append(True, ranked[1:] != ranked[:-1])
    starts = np.flatnonzero(first)[np.cumsum(first) - 1] if cells.size else ranked
    turns = np.empty(cells.size, np.int64)
    turns[ordered] = np.arange(cells.size) - starts
    return turns
