"""Cross-tabs: least squares by its definition, sums to the last digit, best shares."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from mechanisms.counters.axes import Axis, Table, flat
from mechanisms.counters.crosstabs import CrossTabs, pairs

EVEN = Axis((2, 6), ((0, 1, 0, 1, 1, 0),))  # all groups have as many parts
UNEVEN = Axis((2, 3, 7), ((0, 1, 0), (2, 0, 1, 1, 0, 1, 1)))
FLAT = CrossTabs(flat([3, 2, 4]), pairs(3))
SOME = CrossTabs(flat([3, 2, 4, 5]), (((0, 1), (2, 1)), ((1, 1),), ((2, 1), (3, 1))))
EVENLY = CrossTabs(
    (EVEN, *flat([3, 2])),
    (((0, 1),), ((0, 2),), ((0, 1), (1, 1)), ((0, 2), (1, 1)), ((1, 1), (2, 1)), ((0, 1), (2, 1))),
)
UNEVENLY = CrossTabs(
    (UNEVEN, EVEN, *flat([2])),
    (((0, 1),), ((0, 3),), ((0, 2), (1, 1)), ((0, 1), (1, 2)), ((0, 3), (2, 1)), ((1, 2), (2, 1))),
)  # fmt: skip
THREE = CrossTabs(flat([3, 2, 4, 2]), pairs(4, 3))
MIXED = CrossTabs(flat([3, 2, 4, 5]), (((0, 1), (1, 1), (3, 1)), ((2, 1),), ((1, 1), (2, 1))))
EVEN_OF_THREE = CrossTabs((EVEN, *flat([3, 2])), (((0, 1), (1, 1), (2, 1)), ((0, 2), (2, 1))))
ALL = {
    "of three": THREE,
    "one of three": MIXED,
    "even of three": EVEN_OF_THREE,
    "all": FLAT,
    "some": SOME,
    "even groups": EVENLY,
    "uneven groups": UNEVENLY,
}
every = pytest.mark.parametrize("name", ALL)


def sums(tabs: CrossTabs, table: Table) -> np.ndarray:
    """(cells of a table, cells of the table of all columns) which are added up."""
    found = np.ones((1, 1))
    for column, axis in enumerate(tabs.axes):
        level = dict(table).get(column, 0)
        own = (axis.places(level) == np.arange(axis.size(level))[:, None]).astype(float)
        found = np.kron(found, own)
    return found


def system(tabs: CrossTabs) -> np.ndarray:
    return np.concatenate([sums(tabs, table) for table in tabs.measured])


def noisy(tabs: CrossTabs, seed: int = 3) -> tuple[list[np.ndarray], list[float]]:
    rng = np.random.default_rng(seed)
    variances = [2.0 + i for i in range(len(tabs.measured))]
    return [rng.normal(9, 5, tabs.cells(table)) for table in tabs.measured], variances


def estimated(tabs: CrossTabs, rows: list[np.ndarray], variances: list[float]) -> dict:
    return tabs.published(tabs.estimate(rows, variances))


@pytest.mark.parametrize("name", [name for name in ALL if name != "uneven groups"])
def test_least_squares_by_its_definition(name: str) -> None:
    tabs = ALL[name]
    rows, variances = noisy(tabs)
    design = system(tabs)
    weights = np.repeat(1 / np.array(variances), [tabs.cells(t) for t in tabs.measured])
    inverse = np.linalg.pinv(design.T @ (design * weights[:, None]))
    best = inverse @ (design.T @ (weights * np.concatenate(rows)))
    for table, estimate in estimated(tabs, rows, variances).items():
        adding = sums(tabs, table)
        assert estimate.ravel() == pytest.approx(adding @ best, abs=1e-4)
        exact = np.einsum("ij,jk,ik->i", adding, inverse, adding)
        assert tabs.variances(table, variances).ravel() == pytest.approx(exact)


@every
def test_estimates_are_unbiased_and_their_variances_exact(name: str) -> None:
    tabs = ALL[name]
    variances = noisy(tabs)[1]
    ends = np.cumsum([tabs.cells(table) for table in tabs.measured])
    truth = np.random.default_rng(1).integers(0, 9, len(system(tabs)[0]))
    true = np.split(system(tabs) @ truth, ends[:-1])
    exact = estimated(tabs, true, variances)
    for table, estimate in exact.items():
        assert estimate.ravel() == pytest.approx(sums(tabs, table) @ truth, abs=1e-4)
    # The estimate is linear: its columns, one for each counter, say the variance.
    spread = {table: np.zeros(array.shape) for table, array in exact.items()}
    scale = 1e4  # estimates are rounded to the quantum
    for place in range(ends[-1]):
        unit = np.split(scale * np.eye(1, ends[-1], place)[0], ends[:-1])
        at = int(np.searchsorted(ends, place, side="right"))
        for table, column in estimated(tabs, unit, variances).items():
            spread[table] += variances[at] * (column / scale) ** 2
    for table, variance in spread.items():
        assert tabs.variances(table, variances) == pytest.approx(variance, rel=1e-4)


@every
def test_tables_add_up_to_the_last_digit(name: str) -> None:
    tabs = ALL[name]
    rows, variances = noisy(tabs)
    finest = tabs.estimate([1e6 * row for row in rows], variances)
    for fitted in (False, True):
        tables = tabs.published(tabs.fitted(finest) if fitted else finest)
        for (one, array), (other, coarse) in product(tables.items(), repeat=2):
            levels, columns = dict(one), [column for column, _ in other]
            # Of three columns whole numbers add up to the first two, and to the third, alone.
            of_three = fitted and len(one) == 3 and len(other) < 3
            if of_three and not ({*columns} <= {*[*levels][:2]} or columns == [*levels][2:]):
                continue
            if all(level <= levels.get(column, 0) for column, level in other):
                added = np.zeros(coarse.shape, array.dtype)
                places = [
                    tabs.axes[column].places(level, levels[column]) for column, level in other
                ]
                for cell in np.ndindex(array.shape):  # one by one, in order
                    at = [cell[[c for c, _ in one].index(column)] for column, _ in other]
                    added[tuple(p[i] for p, i in zip(places, at, strict=True))] += array[cell]
                assert (added == coarse).all()


@every
def test_fitted_tables_are_whole_and_never_below_0(name: str) -> None:
    tabs = ALL[name]
    rows, variances = noisy(tabs)
    for rows_ in (rows, [row - 9 for row in rows], [-row for row in rows]):
        for array in tabs.fitted(tabs.estimate(rows_, variances)).values():
            assert array.dtype == np.int64
            assert (array >= 0).all()


def test_shares_are_those_of_least_variance() -> None:
    """No share of the precision moved from one table to another makes the mean variance less."""

    def variance(precisions: dict[Table, float]) -> float:
        spread = [1 / precisions[table] for table in FLAT.measured]
        return sum(float(FLAT.variances(table, spread).mean()) for table in FLAT.asked)

    total = sum(level.weight for level in FLAT.levels)
    weights = [level.weight / total for level in FLAT.levels]
    best = dict(zip(FLAT.measured, weights, strict=True))
    least = variance(best)
    for one, other in product(best, repeat=2):
        if one != other:
            assert variance(best | {one: best[one] - 0.01, other: best[other] + 0.01}) > least
    assert variance(dict.fromkeys(best, 1 / len(best))) > least


def test_units_raise_one_cell_of_each_table() -> None:
    values = np.random.default_rng(2).integers(0, [7, 6, 2], (200, 3))
    for table, places in zip(UNEVENLY.measured, UNEVENLY.encode(values), strict=True):
        groups = [UNEVENLY.axes[column].places(level)[values[:, column]] for column, level in table]
        expected = np.ravel_multi_index(groups, UNEVENLY.shape(table))
        assert (places[:, 0] == expected).all()
    with pytest.raises(ValueError, match="no value of that place"):
        UNEVENLY.encode(np.array([[0, 0, 2]]))


@pytest.mark.parametrize(
    ("columns", "asked"),
    [
        (flat([2, 2]), ()),
        (flat([2, 2]), (((0, 1),), ((0, 1),))),
        (flat([2, 2]), (((1, 1), (0, 1)),)),
        (flat([2, 2]), (((0, 1), (0, 1)),)),
        (flat([2, 2]), (((2, 1),),)),
        (flat([2, 2]), (((0, 2),),)),
        (flat([2, 2, 2, 2]), (((0, 1), (1, 1), (2, 1), (3, 1)),)),
    ],
)  # fmt: skip
def test_tables_that_cannot_be(columns: tuple[Axis, ...], asked: tuple[Table, ...]) -> None:
    with pytest.raises(ValueError, match="table"):
        CrossTabs(columns, asked)


@pytest.mark.parametrize("parents", [((0, 0, 2),), ((0, 0),), ((0, 0, 0),), ()])
def test_groups_that_cannot_be(parents: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ValueError, match="parent"):
        Axis((2, 3), parents)


def test_a_table_that_alone_tells_something_has_counters() -> None:
    """Though it tells two values of all apart, and others tell all else better."""
    many, others = 2_000_000, 12
    axis = Axis((many, many + 1), ((*range(many), many - 1),))
    crossed = tuple(((0, 1), (1 + k, 1)) for k in range(others))
    tabs = CrossTabs((axis, *flat([2] * others)), (((0, 1),), ((0, 2),), *crossed))
    assert ((0, 1),) not in tabs.measured
    assert ((0, 2),) in tabs.measured
