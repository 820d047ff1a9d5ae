"""Sessions: from rows of users to a row for each run of them without a long gap."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from transforms.columns import as_floats
from transforms.encoders.users import Digests


@dataclass(frozen=True)
class Sessions:
    """A user's rows in the order of time, cut where the next is later by more than the gap.

    A session has the columns of its first row, and its own. It follows from rows of its user alone,
    so whoever bounds what a user's sessions contribute bounds what its rows do.

    Attributes:
        time: a column of moments or dates; rows without one are of no session.
        gap: in seconds.

    >>> at = pa.array([5, 0, 90, 7], pa.timestamp("s"))
    >>> rows = pa.table({"at": at, "page": ["b", "a", "c", "x"]})
    >>> made = Sessions("at", 60).of(rows, np.array([1, 1, 1, 2], np.uint64))
    >>> [made[name].to_pylist() for name in ("page", *Sessions.fields.names)]
    [['a', 'c', 'x'], [1, 2, 1], [2, 2, 1], [2, 1, 1], [5.0, 0.0, 0.0]]
    """

    time: str
    gap: float

    fields: ClassVar[pa.Schema] = pa.schema([
        ("session", pa.int64()),  # its number among the user's, from 1 on
        ("sessions", pa.int64()),  # how many the user has
        ("session_rows", pa.int64()),
        ("session_seconds", pa.float64()),  # from its first row to its last
    ])  # fmt: skip

    def of(self, rows: pa.Table, owners: Digests) -> pa.Table:
        """A row for each session of some users.

        Args:
            rows: all that they have.
            owners: (rows,) of each.
        """
        # Whole microseconds, so that what is within the gap does not hang on a rounding.
        times = np.rint(as_floats(rows[self.time].combine_chunks()) * 1e6)
        order = np.lexsort((times, owners))
        order = order[np.isfinite(times[order])]
        owners, times = owners[order], times[order]
        others, cut = np.ones((2, order.size), np.bool_)
        others[1:] = owners[1:] != owners[:-1]
        cut[1:] = others[1:] | (np.diff(times) > self.gap * 1e6)
        begins = np.flatnonzero(cut)
        sizes = np.diff(begins, append=order.size)
        firsts = np.flatnonzero(others[begins])  # of each user
        many = np.diff(firsts, append=begins.size)
        number = np.arange(begins.size) - np.repeat(firsts, many) + 1
        lengths = (times[begins + sizes - 1] - times[begins]) / 1e6
        made = rows.take(order[begins])
        own = number, np.repeat(many, many), sizes, lengths
        for name, values in zip(self.fields.names, own, strict=True):
            made = made.append_column(name, pa.array(values))
        return made
