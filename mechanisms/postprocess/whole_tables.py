"""Tables of whole numbers, none below 0, that add up to given margins and lie close to estimates.

An estimate is moved to the nearest table without negative cells that has the margins, and then
rounded so that it keeps them: what a cell is rounded by is carried to the next one of its column.
"""

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Counts, Floats
from mechanisms.postprocess.simplex import project

_ROUNDS = 60
_CLOSE = 0.5  # how far margins may be off before cells are rounded


def divided(total: int, estimate: Floats) -> Counts:
    """A whole number divided: the division nearest to an estimate, rounded.

    Args:
        total: at least 0.
        estimate: (d,) finite numbers.

    Returns:
        (d,) whole numbers, none below 0, that add up to the total.

    >>> divided(10, [6.4, 4.4, -1.0]).tolist()
    [6, 4, 0]
    """
    numbers = np.asarray(estimate, np.float64)
    if total == 0:
        return np.zeros(numbers.size, np.int64)
    shares = project(numbers / total) * total
    whole = np.floor(shares).astype(np.int64)
    left = total - int(whole.sum())
    # Doubles may add up to a hair more or less than the total.
    order = np.argsort(whole - shares, kind="stable")
    whole[order[: max(left, 0)]] += 1
    for place in order[::-1][: max(-left, 0)]:
        whole[place] -= whole[place] > 0
    return whole


def crossed(estimate: Floats, rows: Counts, columns: Counts) -> Counts:
    """A table with given margins near an estimate.

    Args:
        estimate: (r, c) finite numbers.
        rows, columns: (r,) and (c,) whole numbers, none below 0, which add up to the same.

    Returns:
        (r, c) whole numbers, none below 0, whose sums are `rows` and `columns`.

    Raises:
        ValueError: margins are negative, or do not add up to the same.

    >>> crossed(np.array([[5.2, -1.0], [1.3, 2.0]]), np.array([4, 3]), np.array([5, 2])).tolist()
    [[4, 0], [1, 2]]
    """
    if not (min(rows.min(), columns.min()) >= 0 and rows.sum() == columns.sum()):
        raise ValueError("margins must not be negative, and add up to the same")
    if len(rows) > len(columns):  # fewer rows are fewer steps
        return crossed(estimate.T, columns, rows).T
    return _rounded(_nearest(estimate, rows, columns), rows, columns)


def _nearest(estimate: Floats, rows: Counts, columns: Counts) -> Floats:
    """The nearest table without negative cells, whose margins are given, or all but.

    Its cells are those of the estimate, moved by a number of their row and one of their column and
    cut at 0; the numbers of rows and of columns are found in turns, by exact projections.
    """
    moved = estimate.T.astype(np.float64)
    for _ in range(_ROUNDS):
        moved = moved + _shifts(moved, columns)[:, None]
        moved = moved.T + _shifts(moved.T, rows)[:, None]
        table = np.maximum(moved, 0.0)
        moved = moved.T
        if np.abs(table.sum(axis=0) - columns).max() < _CLOSE:
            break
    return table


def _shifts(table: Floats, sums: Counts) -> Floats:
    """(r,) what each row is moved by so that its positive cells add up."""
    descending = -np.sort(-table, axis=1)
    excess = (np.cumsum(descending, axis=1) - sums[:, None]) / np.arange(1, table.shape[1] + 1)
    # The last cell above its shift ends the support; of a row without units it is the first.
    support = np.maximum((descending > excess).sum(axis=1) - 1, 0)
    return np.asarray(-excess[np.arange(len(table)), support])


def _rounded(table: Floats, rows: Counts, columns: Counts) -> Counts:
    """Rounded down, and what is then due given row by row to the cells that lost most."""
    for along, sums in ((1, rows), (0, columns)):
        have = np.expand_dims(table.sum(axis=along), along)
        table = table * np.minimum(1.0, np.expand_dims(sums, along) / np.maximum(have, 1e-300))
    whole = np.floor(table).astype(np.int64)
    fractions = table - whole
    due, open_ = rows - whole.sum(axis=1), columns - whole.sum(axis=0)
    carried = np.zeros(len(columns))
    for row in range(len(rows)):
        carried += fractions[row]
        free = np.flatnonzero(open_ > 0)
        many = min(int(due[row]), free.size)
        if many:
            chosen = free[np.argpartition(-carried[free], many - 1)[:many]]
            whole[row, chosen] += 1
            carried[chosen] -= 1
            open_[chosen] -= 1
            due[row] -= many
    return whole + _corners(due, open_)


def _corners(rows: Counts, columns: Counts) -> NDArray[np.int64]:
    """A table with such margins, whatever they are: the corner rule of transport problems."""
    ends = np.cumsum(rows), np.cumsum(columns)
    low = np.maximum.outer(ends[0] - rows, ends[1] - columns)
    return np.asarray(np.maximum(np.minimum.outer(*ends) - low, 0))
