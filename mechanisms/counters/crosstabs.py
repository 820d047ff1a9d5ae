"""Cross-tabs as counters: tables of one to three columns that add up, each told by all of them.

A table is a sum of details: the total, what each column says beyond it, and what several columns
say beyond fewer. Any table that holds a detail's columns tells it, so it is estimated by all, each
weighed by its precision; and tables are put together from details, so they agree. Where groups
have equally many parts (columns without coarser groups always have) this is the weighted least
squares estimate over all tables at once: the projections on details are orthogonal, and a table's
normal matrix is their sum. Elsewhere it is one that agrees and is unbiased, a little above the
least.

Which tables have counters, and how noise is shared among them, is chosen for the tables that are
asked for: the sum of their cells' mean variances is convex in the precisions.

Source: for details as what tables of noisy counts are put together from, Xiao, He, Zhang, Kifer,
    "An optimal and scalable matrix mechanism for noisy marginals under convex loss functions",
    NeurIPS 2023, there with noise drawn for details, here for whole tables, whose cells users
    raise. For the shares, Silvey, Titterington, Torsney, "An algorithm for optimal designs on a
    finite design space", J. Stat. Plan. Inference 1978.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Counts, Floats
from mechanisms.counters.axes import Details, Table
from mechanisms.counters.levels import Level, Slots
from mechanisms.postprocess.whole_tables import crossed, divided

QUANTUM = 2.0**-20
"""Of a unit: what estimates are whole multiples of, so that sums of doubles are exact."""

MOST_TABLES, MOST_WAYS = 256, 3

_ROUNDS = 2000
_CLOSE = 1e-6  # relative, of the mean variance: when shares are good enough
_NONE = 2e-3  # of the largest share, below which a table has no counters


def pairs(columns: int, most: int = 2) -> tuple[Table, ...]:
    """All tables of one and of two columns, or of more, of columns without coarser groups.

    >>> pairs(2)
    (((0, 1),), ((1, 1),), ((0, 1), (1, 1)))
    """
    return tuple(
        tuple((column, 1) for column in chosen)
        for k in range(1, most + 1)
        for chosen in combinations(range(columns), k)
    )


@dataclass(frozen=True)
class CrossTabs(Details):
    """Tables that are asked for, and the counters that tell them.

    Attributes:
        asked: the tables that are published, and the total, which always is.
        units: where users are divided among tables, in place of noise: the variance of a counter
            of each of `candidates`, if all users were of its table; shares are then of the users,
            and the total is known. Empty where all tables' counters cost alike.

    >>> from mechanisms.counters.axes import flat
    >>> tabs = CrossTabs(flat([3, 4]), pairs(2))
    >>> [level.counters for level in tabs.levels], [round(level.weight, 1) for level in tabs.levels]
    ([3, 4, 12], [0.7, 0.7, 1.0])
    """

    asked: tuple[Table, ...]
    units: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if not (self.asked and len({*self.asked}) == len(self.asked)):
            raise ValueError("name at least one table, and each of them once")
        if len(self.asked) > MOST_TABLES:
            raise ValueError(f"{len(self.asked)} tables are more than {MOST_TABLES}")
        for table in self.asked:
            columns = [column for column, _ in table]
            if not (1 <= len(columns) <= MOST_WAYS and columns == sorted({*columns})):
                raise ValueError(f"a table is of one to {MOST_WAYS} columns, in their order")
            if not all(0 <= c < len(self.axes) and 1 <= k <= self.axes[c].depth for c, k in table):
                raise ValueError("a table is of a column or a level that there is not")

    # ---- the counters ------------------------------------------------------------------------

    @property
    def measured(self) -> tuple[Table, ...]:
        """The tables that have counters."""
        return tuple(self._shares)

    @cached_property
    def _shares(self) -> dict[Table, float]:
        """Of the precision that can be had, the best share of each table that is worth having."""
        shares = self._best(self.candidates)
        least = _NONE * max(shares.values())
        implied = {d for t, share in shares.items() if share > least for d in self.details(t)}
        # What no other table tells must not be lost, however little it is.
        kept = [t for t, share in shares.items() if share > least or {*self.details(t)} - implied]
        shares = self._best(kept)
        most = max(shares.values())
        # Rounded: two machines that compute the same design must agree to the last digit.
        return {table: max(round(share / most, 3), 1e-3) for table, share in shares.items()}

    @property
    def shares(self) -> tuple[float, ...]:
        """Of the users, or of the precision that can be had, for each of `measured`; up to 1."""
        return tuple(self._shares.values())

    @property
    def candidates(self) -> list[Table]:
        """What may have counters: what is asked, and what that adds up to."""
        return list(dict.fromkeys(part for table in self.asked for part in _parts(table)))

    @cached_property
    def finest(self) -> dict[tuple[int, ...], Table]:
        """Of any columns the coarsest table that tells all that are asked for."""
        depth: dict[tuple[int, ...], dict[int, int]] = {(): {}}
        for table in self.asked:
            for part in _parts(table):
                own = depth.setdefault(_columns(part), {})
                own |= {column: max(own.get(column, 0), level) for column, level in part}
        ordered = sorted(depth.items(), key=lambda part: len(part[0]))
        return {columns: tuple(sorted(own.items())) for columns, own in ordered}

    def _best(self, tables: Sequence[Table]) -> dict[Table, float]:
        """Shares of precision that make the mean variances of what is asked least together."""
        details = sorted({detail for table in tables for detail in self.details(table)})
        unit = dict(zip(self.candidates, self.units, strict=False))
        own = np.array(
            [[self.holds(t, d) / self.cells(t) / unit.get(t, 1.0) for d in details] for t in tables]
        )
        worth = np.zeros(len(details))
        for table in self.asked:
            for i, detail in enumerate(details):
                if self.holds(table, detail) and (detail or not self.units):
                    worth[i] += self.dimension(detail) / self.cells(table) ** 2
        shares, before = np.full(len(tables), 1 / len(tables)), math.inf
        for _ in range(_ROUNDS):
            precision = shares @ own
            variance = float((worth / precision).sum())
            if before - variance < _CLOSE * variance:
                break
            before = variance
            shares *= np.sqrt(own @ (worth / precision**2))
            shares /= shares.sum()
        return dict(zip(tables, shares.tolist(), strict=True))

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The footprint: a unit raises one cell of each table; noise goes with one over weights."""
        return tuple(Level(1, self.cells(table), share) for table, share in self._shares.items())

    def encode(self, values: NDArray[np.integer]) -> list[Slots]:
        """The counters that units raise.

        Args:
            values: (n, columns) the place of each value.

        Returns:
            For each table that has counters (n, 1) places.

        Raises:
            ValueError: a place is out of range. The message never holds it.
        """
        depths = np.array([axis.sizes[-1] for axis in self.axes])
        if not ((values >= 0) & (values < depths)).all():
            raise ValueError("a column has no value of that place")
        columns = []
        for table in self.measured:
            places = np.zeros(len(values), np.int64)
            for column, level in table:
                axis, own = self.axes[column], values[:, column]
                groups = own if level == axis.depth else axis.places(level)[own]
                places = places * axis.size(level) + groups
            columns.append(places[:, None])
        return columns

    # ---- the estimate ------------------------------------------------------------------------

    def estimate(self, counts: Sequence[Floats], variances: Sequence[float]) -> dict[Table, Floats]:
        """The finest tables, on which all counters agree best.

        Args:
            counts: for each table that has counters (cells,) less the dummies that were expected.
            variances: of each table's counters.

        Returns:
            Each of `finest` -> an array of its shape, unbiased. What should add up does, to the
            last digit: as long as nothing is larger than 2^33, sums of doubles are exact.
        """
        precisions = self._precisions(variances)
        details = {detail: np.zeros(self.shape(detail)) for detail in precisions}
        for table, row in zip(self.measured, counts, strict=True):
            array = np.asarray(row, np.float64).reshape(self.shape(table))
            own = self._precision(table, variances)
            for detail in self.details(table):
                part = self.own(array, table, detail)
                details[detail] = details[detail] + own / precisions[detail] * part
        return self._exact(details)

    def published(self, finest: Mapping[Table, NDArray[Any]]) -> dict[Table, NDArray[Any]]:
        """The total, by an empty table, and what is asked for.

        Args:
            finest: as `estimate` or `fitted` give them.
        """
        of = self.finest
        return {
            table: self.coarsened(finest[of[_columns(table)]], of[_columns(table)], table)
            for table in ((), *self.asked)
        }

    def fitted(self, finest: Mapping[Table, Floats]) -> dict[Table, Counts]:
        """Whole numbers near an estimate, none below 0, which add up likewise; biased upwards.

        The total is divided among each column's groups, the coarsest first, and these among the
        cells of pairs of columns: two tables that share a column agree on it because both were made
        to. That all of them together are of one table of all columns is not promised, and of three
        columns only that they add up to the table of the first two, and to that of the third.

        Args:
            finest: as `estimate` gives them.
        """
        tables: dict[Table, Counts] = {}
        of = self.finest
        for table in of.values():
            if not table:
                tables[table] = np.maximum(np.rint(finest[table]), 0).astype(np.int64)
            elif len(table) == 1:
                tables[table] = self._divided(finest[table], table, tables[()])
            else:
                last = self.coarsened(
                    tables[of[_columns(table[-1:])]], of[_columns(table[-1:])], table[-1:]
                )
                first = self.due(tables, table, len(table) - 1).ravel()
                own = finest[table].reshape(first.size, -1)
                tables[table] = crossed(own, first, last).reshape(self.shape(table))
        return tables

    def _divided(self, estimate: Floats, table: Table, total: Counts) -> Counts:
        """A total among the groups of a column, level by level."""
        ((column, deepest),) = table
        axis, above = self.axes[column], total.reshape(1)
        for level in range(1, deepest + 1):
            own = axis.summed(estimate, 0, deepest, level)
            places = axis.places(level - 1, level)
            order = np.argsort(places, kind="stable")
            ends = np.cumsum(np.bincount(places))
            parts = np.split(order, ends[:-1])
            below = np.empty(own.size, np.int64)
            for part, due in zip(parts, above.tolist(), strict=True):
                below[part] = divided(due, own[part])
            above = below
        return above

    def _exact(self, details: Mapping[Table, Floats]) -> dict[Table, Floats]:
        """The finest tables from their details: the total first, then what adds up to it.

        All cells but those of last groups are rounded; these are what is left.
        """
        tables: dict[Table, Floats] = {}
        for table in self.finest.values():
            array = np.zeros(self.shape(table))
            for detail in self.details(table):
                if detail in details:
                    array = array + self.spread(details[detail], detail, table)
            array = np.round(array / QUANTUM) * QUANTUM
            for along in range(len(table)):
                rest = np.take(array, range(array.shape[along] - 1), axis=along)
                left = self.due(tables, table, along) - rest.sum(axis=along)
                array = np.concatenate([rest, np.expand_dims(left, along)], axis=along)
            tables[table] = array
        return tables

    def due(self, finest: Mapping[Table, Any], table: Table, along: int) -> NDArray[Any]:
        """What a table has to add up to along one of its columns."""
        others = (*table[:along], *table[along + 1 :])
        fine = self.finest[_columns(others)]
        return self.coarsened(finest[fine], fine, others)

    def variances(self, table: Table, variances: Sequence[float]) -> Floats:
        """Of each cell of a table's estimate, exactly.

        Args:
            table: one that is asked for, or the total.
            variances: of each measured table's counters.
        """
        total, at = np.zeros(self.shape(table)), dict(table)

        # Noise that is alike in all counters is a product over columns: of each column one vector.
        @cache
        def overlap(column: int, own: int, *levels: int) -> Floats:
            axis = self.axes[column]
            return axis.overlap(np.ones(axis.size(own)), 0, at.get(column, 0), own, *levels)

        for measured, variance in zip(self.measured, variances, strict=True):
            columns = sorted({*at, *dict(measured)})
            shares = self._shares_of_details(table, measured, variances)
            for (one, share), (other, more) in product(shares.items(), repeat=2):
                own, low, high = map(dict, (measured, one, other))
                vectors = (overlap(c, *(of.get(c, 0) for of in (own, low, high))) for c in columns)
                squares = reduce(np.multiply.outer, vectors, np.ones(()))
                total += variance * share * more * squares.reshape(total.shape)
        return total

    def squares(
        self, table: Table, measured: Table, noise: Floats, variances: Sequence[float]
    ) -> Floats:
        """What independent noise of one table's counters adds to a table's variances.

        Args:
            table: one that is asked for, or the total.
            measured: the table of the counters.
            noise: the variance of each of them.
            variances: those by which `estimate` weighs the tables.
        """
        total, shares = (
            np.zeros(self.shape(table)),
            self._shares_of_details(table, measured, variances),
        )
        for (one, share), (other, more) in product(shares.items(), repeat=2):
            total = total + share * more * self.overlap(noise, table, measured, one, other)
        return total

    def part(
        self, table: Table, measured: Table, array: Floats, variances: Sequence[float]
    ) -> Floats:
        """What the counters of one table add to a table's estimate, linearly; of `squares`."""
        total = np.zeros(self.shape(table))
        for detail, share in self._shares_of_details(table, measured, variances).items():
            total = total + share * self.spread(self.own(array, measured, detail), detail, table)
        return total

    def _shares_of_details(
        self, table: Table, measured: Table, variances: Sequence[float]
    ) -> dict[Table, float]:
        """Of a table's details those that some counters tell, with their share in each."""
        precisions, own = self._precisions(variances), self._precision(measured, variances)
        return {
            detail: own / precision
            for detail, precision in precisions.items()
            if self.holds(measured, detail)
            and self.holds(table, detail)
            and (detail or not self.units)
        }

    def _precision(self, table: Table, variances: Sequence[float]) -> float:
        """Of any detail that a table tells, if it alone does."""
        return 1 / (variances[self.measured.index(table)] * self.cells(table))

    def _precisions(self, variances: Sequence[float]) -> dict[Table, float]:
        """Of each detail, by all tables that tell it."""
        precisions: dict[Table, float] = {}
        for table in self.measured:
            for detail in self.details(table):
                precisions[detail] = precisions.get(detail, 0.0) + self._precision(table, variances)
        return precisions


def _parts(table: Table) -> Iterator[Table]:
    """A table, and all that it adds up to but the total; the largest first."""
    for ways in range(len(table), 0, -1):
        yield from combinations(table, ways)


def _columns(table: Table) -> tuple[int, ...]:
    return tuple(column for column, _ in table)
