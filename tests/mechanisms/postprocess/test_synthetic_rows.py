"""Synthetic rows: tables that can be had are had, others nearly; nothing is added to them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from mechanisms.counters.axes import flat
from mechanisms.counters.crosstabs import CrossTabs, pairs
from mechanisms.postprocess import synthetic_rows as made
from mechanisms.randomness import SeededRandom

SIZES = (3, 4, 5, 7)
N = 20_000


def people(seed: int = 1) -> NDArray[np.int64]:
    """(N, 4): each column depends on the one before it, half of the time."""
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, SIZES[0], N)]
    for size in SIZES[1:]:
        other = np.minimum(rng.geometric(0.4, N) - 1, size - 1)
        columns.append(np.where(rng.random(N) < 0.5, columns[-1] % size, other))
    return np.stack(columns, axis=1)


def tables(rows: NDArray[np.int64]) -> dict[made.Pair, NDArray[np.int64]]:
    return {pair: made.table(rows, pair, SIZES) for pair in combinations(range(len(SIZES)), 2)}


def singles(rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    return [np.bincount(rows[:, i], minlength=size) for i, size in enumerate(SIZES)]


def noisy(rows: NDArray[np.int64], sigma: float) -> tuple[list[NDArray[np.int64]], dict]:
    """Tables of one and of two columns as a release has them: fitted, of estimates with noise."""
    tabs = CrossTabs(flat(SIZES), pairs(len(SIZES)))
    rng = np.random.default_rng(2)
    counts = [
        np.bincount(places[:, 0], minlength=tabs.cells(table))
        + rng.normal(0, sigma, tabs.cells(table))
        for table, places in zip(tabs.measured, tabs.encode(rows), strict=True)
    ]
    variances = [sigma**2] * len(counts)
    found = tabs.published(tabs.fitted(tabs.estimate(counts, variances)))
    ones = [found[((i, 1),)] for i in range(len(SIZES))]
    return ones, {(i, j): found[((i, 1), (j, 1))] for i, j in combinations(range(len(SIZES)), 2)}


@pytest.mark.parametrize("n", [1, 100, N, 3 * N])
def test_tables_that_rows_can_have_are_had(n: int) -> None:
    """Rounded to whole rows, and but for a few rows: those to whom a move would cost a table."""
    true = people()
    rows = made.synthetic_rows(singles(true), tables(true), n, SeededRandom(1))
    assert rows.shape == (n, len(SIZES))
    for pair, table in tables(rows).items():
        apart = np.abs(table - tables(true)[pair] * (n / N))
        assert apart.sum() / 2 <= 0.75 * table.size + 1e-3 * n, pair
    other = made.table(people(seed=2), (0, 1), SIZES)  # what is asked for is not met by any rows
    mine = made.table(rows, (0, 1), SIZES)
    assert n < N or np.abs(mine - other * (n / N)).sum() / 2 > 0.75 * other.size + 1e-3 * n


def test_two_columns_are_had_to_the_last_row() -> None:
    table = np.array([[5, 0, 2], [0, 7, 1]])
    ones = [table.sum(axis=1), table.sum(axis=0)]
    rows = made.synthetic_rows(ones, {(0, 1): table}, 15, SeededRandom(1))
    assert (made.table(rows, (0, 1), table.shape) == table).all()


def test_three_columns_are_as_random_as_their_tables_allow() -> None:
    """The third column is told by the other two, and no table of two columns shows that: then rows
    must not have it, either."""
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2, (N, 2))
    hidden = np.column_stack([bits, bits[:, 0] ^ bits[:, 1]])
    sizes = (2, 2, 2)
    given = {pair: made.table(hidden, pair, sizes) for pair in combinations(range(3), 2)}
    ones = [np.bincount(hidden[:, i]) for i in range(3)]
    rows = made.synthetic_rows(ones, given, N, SeededRandom(2))
    for pair, table in given.items():
        assert np.abs(made.table(rows, pair, sizes) - table).max() <= 3
    cells = np.bincount(rows @ [4, 2, 1], minlength=8)
    # Eight cells of N / 8; the parity of the three bits, which nobody has measured, is fair.
    assert np.abs(cells / N - 1 / 8).max() < 0.01


@pytest.mark.parametrize("turn", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_what_three_columns_say_together_is_had_where_their_table_is_given(turn) -> None:
    """The same hidden parity, beside a column of 5 values that depends on nothing."""
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2, (N, 2))
    hidden = np.column_stack([bits, bits[:, 0] ^ bits[:, 1]])[:, turn]
    true = np.insert(hidden, 1, rng.integers(0, 5, N), axis=1)
    sizes, key = (2, 5, 2, 2), (0, 2, 3)
    given = {pair: made.table(true, pair, sizes) for pair in combinations(range(4), 2)}
    ones = [np.bincount(true[:, i]) for i in range(4)]
    for three, least in (({}, 0.4), ({key: made.table(true, key, sizes)}, 0.0)):
        rows = made.synthetic_rows(ones, given | three, N, SeededRandom(2))
        odd = (rows[:, 0] ^ rows[:, 2] ^ rows[:, 3]).mean()
        assert least <= odd < (0.6 if least else 0.002)
        for pair, table in given.items():
            assert made.distance(made.table(rows, pair, sizes), table) < 0.002


def test_columns_of_which_there_is_no_table_are_independent() -> None:
    true = people()
    given = {(0, 1): tables(true)[0, 1]}
    rows = made.synthetic_rows(singles(true), given, N, SeededRandom(3))
    found = tables(rows)
    assert made.distance(found[0, 1], given[0, 1]) == 0
    for i, j in {*found} - {(0, 1)}:
        alone = np.outer(singles(true)[i], singles(true)[j])
        assert made.distance(found[i, j], alone) < 0.01
        assert (found[i, j].sum(axis=1) == singles(true)[i]).all()


@pytest.mark.parametrize("sigma", [10.0, 60.0, 1000.0])
def test_noise_is_not_added_to(sigma: float) -> None:
    """Tables of rows are tables that can be, which noise alone need not leave: they are nearer."""
    true = people()
    ones, given = noisy(true, sigma)
    n = int(ones[0].sum())
    rows = made.synthetic_rows(ones, given, n, SeededRandom(4))
    truth, found = tables(true), tables(rows)
    before = np.mean([made.distance(given[pair], truth[pair]) for pair in given])
    after = np.mean([made.distance(found[pair], truth[pair]) for pair in given])
    assert after < 1.05 * before
    assert ((rows >= 0) & (rows < SIZES)).all()


def test_tables_that_contradict_each_other_make_rows_all_the_same() -> None:
    """Two columns are equal, and the third equal to one of them and never to the other."""
    same, never = np.array([[50, 0], [0, 50]]), np.array([[0, 50], [50, 0]])
    ones = [same.sum(axis=1)] * 3
    rows = made.synthetic_rows(
        ones, {(0, 1): same, (0, 2): same, (1, 2): never}, 100, SeededRandom(9)
    )
    assert rows.shape == (100, 3)
    assert ((rows == 0) | (rows == 1)).all()
    given = [((0, 1), same), ((0, 2), same), ((1, 2), never)]
    apart = sum(made.distance(made.table(rows, pair, (2, 2, 2)), table) for pair, table in given)
    assert apart == pytest.approx(1.0, abs=0.05)  # each row is wrong in one of them, at the least


def test_moves_bring_tables_nearer(monkeypatch: pytest.MonkeyPatch) -> None:
    ones, given = noisy(people(), 60.0)
    apart = []
    for passes in (0, made._PASSES):
        monkeypatch.setattr(made, "_PASSES", passes)
        rows = made.synthetic_rows(ones, given, N, SeededRandom(5))
        apart.append(np.mean([made.distance(tables(rows)[pair], given[pair]) for pair in given]))
    assert apart[1] < 0.6 * apart[0]


def test_rows_come_in_any_order_and_from_the_generator_alone() -> None:
    ones, given = noisy(people(), 10.0)
    one, same, other = (
        made.synthetic_rows(ones, given, 5000, SeededRandom(seed)) for seed in (6, 6, 7)
    )
    assert (one == same).all()
    assert not (one == other).all()
    # A half has its share of each value: hypergeometric, so within 7 standard deviations but for
    # 3e-12 of each of 19.
    for column, size in enumerate(SIZES):
        half, whole = (np.bincount(part[:, column], minlength=size) for part in (one[:2500], one))
        assert (np.abs(half - whole / 2) <= 7 * np.sqrt(whole / 4) + 1).all()


@pytest.mark.parametrize(
    ("ones", "n"), [([], 3), ([np.zeros(2, np.int64)], 3), ([np.ones(2, np.int64)], 0)]
)
def test_what_no_rows_can_be_made_of_is_refused(ones: list[NDArray[np.int64]], n: int) -> None:
    with pytest.raises(ValueError, match="rows need a column, and each table somebody"):
        made.synthetic_rows(ones, {}, n, SeededRandom(1))


def test_what_the_memory_does_not_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "MOST_CELLS", 30)
    true = people()
    with pytest.raises(ValueError, match="too many for the memory"):
        made.synthetic_rows(singles(true), tables(true), N, SeededRandom(1))
