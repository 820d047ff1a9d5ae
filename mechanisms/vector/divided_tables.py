"""Cross-tabs of randomised reports: each user tells a cell of one table, drawn for it at random."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Counts, Floats, Guarantee, Mechanism, Messages, checked_counts
from mechanisms.counters.axes import Table
from mechanisms.counters.crosstabs import CrossTabs
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.mean.scalar import LARGEST_ALPHABET
from mechanisms.privacy.coordinate_laws import sampled_laws
from mechanisms.privacy.pair_law import ShuffleLaws
from mechanisms.randomness import RandomSource
from mechanisms.registry import register
from mechanisms.targets.rules import Target, Task
from mechanisms.vector.coordinates import cells_in_range
from mechanisms.vector.mixed_choice import oracle

_PARTS = 1000
"""Of the largest share of users that a table has: shares are whole multiples of one."""


class Spread(NamedTuple):
    """The noise of a contrast of a table's shares: sum c_j^2 (base + slope f_j), sum c_j = 0.

    Attributes:
        base: of a value that nobody holds.
        slope: by how much it grows with the share of its holders.
    """

    base: float
    slope: float


def contrasts(mechanism: FrequencyOracle) -> Spread:
    """The noise that one report adds to contrasts of shares, in squared shares.

    Supports of two values by one report are correlated alike whatever the values, so that in a
    contrast only the diagonal is left: of values that a report always supports equally many of
    (`supportable`) the covariances follow from that number. Of linear hashes this is so on average
    over which values are looked at; of k-ary responses and subsets always.

    >>> from mechanisms.frequency.hashed_responses import k_ary
    >>> response = k_ary(1.0, 4)
    >>> spread = contrasts(response)
    >>> round(spread.base + spread.slope / 4, 4) == round(response.average_variance(1) * 4 / 3, 4)
    True
    """
    keep, other, many = mechanism.keep, mechanism.other, mechanism.supportable
    own, free = keep * (1 - keep), other * (1 - other)
    with_own = 0.0 if many is None else -own / (many - 1)
    # Of two values both of which the user does not hold: their sum with the holder's is constant.
    apart = 0.0 if many is None or many < 3 else -(free + with_own) / (many - 2)
    scale = mechanism.contrast**2
    return Spread((free - apart) / scale, (own - free - 2 * (with_own - apart)) / scale)


@dataclass(frozen=True)
class DividedTables(Mechanism):
    """A user draws a table, whatever its row is, and reports the row's cell of it by an oracle.

    A message is the offset of its table plus the oracle's code. An input is the number of a row of
    places, the first column's the most significant.

    Attributes:
        epsilon: privacy loss of a report, in nats.
        tabs: the tables that are asked for; which are reported, by how many users, is chosen here.

    Source: Zhang, Wang, Li, He, Chen, "CALM: consistent adaptive local marginal for marginal
        release under local differential privacy", CCS 2018. There tables are equally large random
        sets of columns with equally many users; here those that are asked for and their parts,
        with the shares of users at which the mean variance of all that is asked for is least,
        and least squares make them agree, each weighed by its variance.

    >>> from mechanisms.counters.axes import flat
    >>> from mechanisms.counters.crosstabs import pairs
    >>> some = DividedTables(1.0, CrossTabs(flat([3, 4]), pairs(2)))
    >>> [x.domain_size for x in some.oracles], some.shares, some.codes
    ([3, 4, 12], (573, 598, 1000), 20)
    """

    epsilon: float
    tabs: CrossTabs

    def __post_init__(self) -> None:
        if self.tabs.units:
            raise ValueError("tables have no units yet: they follow from epsilon")
        if not self.codes <= LARGEST_ALPHABET:
            raise ValueError(
                f"reports of these tables have {self.codes:,} codes, more than "
                f"{LARGEST_ALPHABET:,}; name fewer tables, or coarser levels"
            )

    # ---- what users report -------------------------------------------------------------------

    def _oracle(self, table: Table) -> FrequencyOracle:
        return oracle(self.epsilon, self.tabs.cells(table))

    @cached_property
    def plan(self) -> CrossTabs:
        """The tables, with what each costs, of which the shares follow."""
        return replace(self.tabs, units=tuple(self._unit(t) for t in self.tabs.candidates))

    def _unit(self, table: Table) -> float:
        """The variance of a share, of one report on this table, which one in many is."""
        cells = self.tabs.cells(table)
        base, slope = contrasts(self._oracle(table))
        return base + (slope + 1) / cells - 1 / cells**2

    @cached_property
    def oracles(self) -> tuple[FrequencyOracle, ...]:
        """(tables,) what randomises the cell of each table that is reported."""
        return tuple(self._oracle(table) for table in self.plan.measured)

    @cached_property
    def shares(self) -> tuple[int, ...]:
        """(tables,) how likely each is drawn, as integers."""
        return tuple(round(share * _PARTS) for share in self.plan.shares)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """(tables,) the first code of each."""
        return np.cumsum([0, *(x.codes for x in self.oracles)])[:-1]

    @property
    def _sizes(self) -> list[int]:
        """(columns,) how many values each has."""
        return [axis.sizes[-1] for axis in self.tabs.axes]

    @property
    def inputs(self) -> int:
        return math.prod(self._sizes)

    @property
    def codes(self) -> int:
        return sum(x.codes for x in self.oracles)

    @property
    def guarantee(self) -> Guarantee:
        reasons = "; ".join(dict.fromkeys(x.guarantee.how for x in self.oracles))
        return Guarantee.of_report(
            self.epsilon, 0.0,
            f"one of {len(self.oracles)} tables, drawn whatever the row is, and sent in the clear; "
            f"of each: {reasons}",
        )  # fmt: skip

    def constants(self) -> dict[str, float]:
        return {"epsilon": self.epsilon, "tables": len(self.oracles), "codes": self.codes}

    # ---- the law of a report -----------------------------------------------------------------

    def row(self, number: int) -> list[int]:
        """(columns,) the places of an input."""
        if not 0 <= number < self.inputs:
            raise ValueError("1 of 1 cells lie outside the inputs")
        return [int(place) for place in np.unravel_index(number, self._sizes)]

    def weights(self, cell: int) -> tuple[NDArray[Any], int]:
        places = self.plan.encode(np.array([self.row(cell)]))
        pairs = zip(self.oracles, places, strict=True)
        laws = [x.weights(int(place[0, 0])) for x, place in pairs]
        total = math.lcm(*(denominator for _, denominator in laws))
        parts = [
            law.astype(object) * (total // denominator * share)
            for share, (law, denominator) in zip(self.shares, laws, strict=True)
        ]
        return np.concatenate(parts), total * sum(self.shares)

    def pairs(self) -> Iterable[tuple[int, int]]:
        """Two rows that differ in every table: oracles treat all pairs of cells alike.

        A table that two rows share tells nothing of them, and hockey-stick divergences are averages
        over the tables that are drawn.
        """
        return [(0, self.inputs - 1), (self.inputs - 1, 0)]

    def shuffle_laws(self) -> ShuffleLaws:
        """A table with so many parts of the users is so many attributes, of which one is told."""
        times: Counter[FrequencyOracle] = Counter()
        for mechanism, share in zip(self.oracles, self.shares, strict=True):
            times[mechanism] += share
        return sampled_laws(times, 1)

    def tally(self, cell: int, size: int, rng: RandomSource) -> Counts:
        return self.count(self.perturb(np.tile(self.row(cell), (size, 1)), rng))

    # ---- the client --------------------------------------------------------------------------

    def report(self, numbers: ArrayLike, categories: ArrayLike, rng: RandomSource) -> Messages:
        """The client of rows that are at hand as a block.

        Args:
            numbers: (n, 0), for there are none.
            categories: (n, columns) places.
            rng: the generator of this process.
        """
        return self.perturb(categories, rng)

    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        rows = cells_in_range(cells, np.array(self._sizes))
        # Shares are integers, so uniform slots make a draw that follows them exactly.
        ends = np.cumsum(self.shares)
        slots = rng.integers(int(ends[-1]), len(rows)).astype(np.int64)
        drawn = np.searchsorted(ends, slots, side="right")
        messages = self.offsets[drawn].astype(np.uint64)
        for number, mechanism in enumerate(self.oracles):
            (here,) = np.nonzero(drawn == number)
            places = self.plan.encode(rows[here])[number][:, 0]
            messages[here] += mechanism.perturb(places, rng)
        return messages

    # ---- the collector -----------------------------------------------------------------------

    @property
    def variances(self) -> list[float]:
        """(tables,) those of a share in each, times the number of users; tables are so weighed."""
        unit = dict(zip(self.plan.candidates, self.plan.units, strict=True))
        everybody = sum(self.shares)
        return [
            unit[table] * everybody / share
            for table, share in zip(self.plan.measured, self.shares, strict=True)
        ]

    def parts(self, counts: Counts) -> list[Counts]:
        """The counts of each table's own oracle.

        Raises:
            ValueError: counts of another mechanism.
        """
        return np.split(checked_counts(counts, self.codes), self.offsets[1:])

    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        """Shares of the cells of all that is asked for, table by table; the total is known.

        Args:
            counts: (codes,) from `count`.
            n: not needed: every message is a user's.

        Raises:
            ValueError: there is no report.
        """
        tables = self.plan.published(self.finest(counts))
        total = float(tables.pop(()))
        return np.concatenate([array.ravel() / total for array in tables.values()])

    def finest(self, counts: Counts, answering_share: float = 1.0) -> dict[Table, Floats]:
        """How many users have each cell of the finest tables, unbiased; see `CrossTabs.estimate`.

        Args:
            counts: (codes,) from `count`.
            answering_share: the share of all users who were asked, drawn whatever they have.

        Raises:
            ValueError: there is no report.
        """
        parts = self.parts(counts)
        n = sum(int(part.sum()) for part in parts)
        if not n:
            raise ValueError("there is no report to estimate from")
        rows = []
        for mechanism, part in zip(self.oracles, parts, strict=True):
            shares = mechanism.estimate(part) if part.any() else np.zeros(mechanism.domain_size)
            # How many take part is known: what a table's shares add up to beyond it is noise.
            rows.append(n / answering_share * (shares + (1 - shares.sum()) / shares.size))
        return self.plan.estimate(rows, self.variances)

    def errors(self, counts: Counts, finest: dict[Table, Any]) -> Iterator[Floats]:
        """The standard errors of the numbers of users, table by table, the total's in front.

        Over what oracles draw and who is drawn for which table, given how many were.

        Args:
            counts: (codes,) from `count`.
            finest: how many users have each cell, none below 0: `CrossTabs.fitted` of the estimate.
        """
        tabs, users = self.plan, [max(int(part.sum()), 1) for part in self.parts(counts)]
        n, published = sum(users), tabs.published(finest)
        for table, array in published.items():
            share = array / n
            variance = -n * share * (1 - share)  # those who are not drawn are not unknown
            if not table:
                yield np.zeros(())
                continue
            for measured, mechanism, own in zip(tabs.measured, self.oracles, users, strict=True):
                fine = tabs.finest[tuple(column for column, _ in measured)]
                shares = tabs.coarsened(finest[fine], fine, measured) / n
                variance = variance + n**2 / own * self._one(table, measured, mechanism, shares)
            yield np.sqrt(np.maximum(variance, 0.0))

    def _one(
        self, table: Table, measured: Table, mechanism: FrequencyOracle, shares: Floats
    ) -> Floats:
        """The variance of what one report on a table adds to each share of another."""
        tabs, weights = self.plan, self.variances
        base, slope = contrasts(mechanism)
        slope += 1  # of holders one in many is drawn
        ones = np.ones(shares.shape)
        # Coefficients less their mean: rows are made to add up, which takes it away.
        mean = tabs.part(table, measured, ones, weights) / shares.size
        part = tabs.part(table, measured, shares, weights)
        whole = tabs.squares(table, measured, base + slope * shares, weights)
        whole = whole - 2 * mean * (base * shares.size * mean + slope * part)
        return whole + mean**2 * (shares.size * base + slope) - (part - mean) ** 2

    # ---- its error ---------------------------------------------------------------------------

    def table_variance(self, table: Table) -> float:
        """Mean over the cells of a table that is asked for: n times the variance of a share."""
        size = self.tabs.cells(table)
        # Who is not drawn is no unknown: it is of these very users that shares are told.
        known = 1 / size * (1 - 1 / size)
        return max(float(self.plan.variances(table, self.variances).mean()) - known, 0.0)

    @cached_property
    def report_variance(self) -> float:
        """The same, over the cells of all tables together."""
        cells = [self.tabs.cells(table) for table in self.tabs.asked]
        return float(np.average([self.table_variance(t) for t in self.tabs.asked], weights=cells))


@dataclass(frozen=True)
class TablesTask(Task[DividedTables]):
    """The shares of the cells of tables.

    Attributes:
        tabs: those that are asked for.
    """

    tabs: CrossTabs

    name = "tables"

    def error(self, mechanism: DividedTables, n: int) -> float:
        """Mean squared error of a cell's share, where users are spread evenly over cells."""
        return mechanism.report_variance / n

    def offers(self, target: Target[Any]) -> dict[str, Any]:
        return {"tabs": self.tabs}


def _small() -> Sequence[dict[str, Any]]:
    """Two columns, and of three some tables."""
    from mechanisms.counters.axes import flat

    some = ((0, 1), (1, 1)), ((2, 1),)
    return (
        {"epsilon": 1.0, "tabs": CrossTabs(flat([2, 3]), (((0, 1),), ((1, 1),)))},
        {"epsilon": 2.0, "tabs": CrossTabs(flat([2, 2, 3]), some)},
    )


@register(
    "divided_tables",
    task=TablesTask.name,
    sends="a cell of one table, drawn at random, through an oracle",
    source="Zhang, Wang, Li, He, Chen, CCS 2018",
    searched=True,
    small=_small(),
)
def divided_tables(epsilon: float, tabs: CrossTabs) -> DividedTables:
    """Cross-tabs by users who are divided among tables.

    Args:
        epsilon: privacy loss of a report, in nats.
        tabs: the tables.

    Raises:
        ValueError: a parameter is out of range.
    """
    return DividedTables(epsilon, tabs)
