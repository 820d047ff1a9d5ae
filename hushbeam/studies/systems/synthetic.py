"""Ways to synthetic records: a release's tables, AIM, and what there is to compare them with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations

import numpy as np

from hushbeam.studies.engine.cells import FigureLine, expanded
from hushbeam.studies.papers import aim
from hushbeam.studies.populations.records import Records
from mechanisms.channel import Counts
from mechanisms.counters.axes import Table, flat
from mechanisms.counters.crosstabs import CrossTabs, pairs
from mechanisms.counters.design import Counters
from mechanisms.counters.job_totals import JobTotals
from mechanisms.postprocess.synthetic_rows import Pair, distance, synthetic_rows
from mechanisms.randomness import SeededRandom

Draw = Callable[[Records, SeededRandom], Records]
Build = Callable[[Sequence[int], float, float], Draw]
"""(sizes of columns, epsilon, delta) -> what makes records of others; a ValueError says why not."""


def _of_tables(
    tables: Callable[[int], tuple[Table, ...]],
    meeting: Callable[..., Counters | JobTotals],
) -> Build:
    """What `hushbeam synthetic` makes of a cross-tab."""

    def build(sizes: Sequence[int], epsilon: float, delta: float) -> Draw:
        tabs = CrossTabs(flat(sizes), tables(len(sizes)))
        design = meeting(tabs.levels, "add or remove", epsilon, delta)

        def draw(records: Records, rng: SeededRandom) -> Records:
            exact = np.zeros(design.layout.codes, np.int64)
            for start, places in zip(design.layout.starts, tabs.encode(records), strict=False):
                own = np.bincount(places[:, 0])
                exact[start : start + own.size] += own
            noisy = design.noisy if isinstance(design, JobTotals) else design.simulate
            counts = design.centred(noisy(exact, rng))
            published = tabs.published(tabs.fitted(tabs.estimate(counts, design.variances)))
            singles = [published[((column, 1),)] for column in range(len(sizes))]
            several = {
                tuple(column for column, _ in one): table
                for one, table in published.items()
                if len(one) > 1
            }
            return synthetic_rows(singles, several, int(published[()]), rng)

        return draw

    return build


def _exact(sizes: Sequence[int], epsilon: float, delta: float) -> Draw:
    """Of the true tables: what is left is what two columns do not tell."""

    def draw(records: Records, rng: SeededRandom) -> Records:
        columns = range(len(sizes))
        singles = [aim.counted(records, sizes, (c,)).astype(np.int64) for c in columns]
        of_two: dict[Pair, Counts] = {
            pair: aim.counted(records, sizes, pair).astype(np.int64).reshape(
                sizes[pair[0]], sizes[pair[1]]
            )
            for pair in combinations(columns, 2)
        }  # fmt: skip
        return synthetic_rows(singles, of_two, len(records), rng)

    return draw


def _by_aim(ways: int) -> Build:
    def build(sizes: Sequence[int], epsilon: float, delta: float) -> Draw:
        aim.require_mbi()

        def draw(records: Records, rng: SeededRandom) -> Records:
            return aim.synthetic(records, sizes, ways, epsilon, delta, rng)[0]

        return draw

    return build


def _truth(sizes: Sequence[int], epsilon: float, delta: float) -> Draw:
    return lambda records, rng: records


def _singles(columns: int) -> tuple[Table, ...]:
    return tuple(((column, 1),) for column in range(columns))


SYSTEMS: Mapping[str, tuple[str, Build]] = {
    "tables": ("central", _of_tables(pairs, JobTotals.meeting)),
    "tables@shuffle": ("shuffle", _of_tables(pairs, Counters.meeting)),
    "tables-3": ("central", _of_tables(partial(pairs, most=3), JobTotals.meeting)),
    "columns": ("central", _of_tables(_singles, JobTotals.meeting)),
    "aim": ("central", _by_aim(2)),
    "aim-3": ("central", _by_aim(3)),
    "exact-tables": ("none", _exact),
    "truth": ("none", _truth),
}
"""Name -> who is trusted with the records, and what makes others of them."""

SETS = {"all": tuple(SYSTEMS)}


def lines(names: Sequence[str]) -> tuple[FigureLine, ...]:
    """The lines of a request.

    Raises:
        RequestError: a name is unknown.

    >>> [str(line) for line in lines(["tables", "truth"])]
    ['tables', 'truth']
    """
    return tuple(
        FigureLine(name, "exact", SYSTEMS[name][0], reference=SYSTEMS[name][0] == "none")
        for name in expanded(names, SYSTEMS, SETS)
    )


def mean_distance(made: Records, truth: Records, sizes: Sequence[int], ways: int) -> float:
    """The total variation distance of a table of so many columns, on average over all of them."""
    apart = [
        distance(aim.counted(made, sizes, one), aim.counted(truth, sizes, one))
        for one in combinations(range(len(sizes)), ways)
    ]
    return math.fsum(apart) / len(apart)


def wrong(made: Records, test: Records, sizes: Sequence[int]) -> float:
    """The share of test records whose last column a tree that was grown on others gets wrong.

    Args:
        made: (n, columns) what it learns from.
        test: (m, columns) true records that nothing was made of.
        sizes: how many values each column has.
    """
    from sklearn.tree import DecisionTreeClassifier  # takes a second to import

    shown = partial(_indicators, sizes=sizes[:-1])
    tree = DecisionTreeClassifier(min_samples_leaf=50, random_state=0)
    tree.fit(shown(made[:, :-1]), made[:, -1])
    return float((tree.predict(shown(test[:, :-1])) != test[:, -1]).mean())


def _indicators(records: Records, sizes: Sequence[int]) -> np.ndarray:
    """(n, values of all columns) 1 where a record has a value."""
    return np.concatenate(
        [np.eye(size, dtype=np.float32)[records[:, c]] for c, size in enumerate(sizes)], axis=1
    )
