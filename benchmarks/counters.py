"""Noisy counters against the best central mechanisms: what simulated releases err, and the targets.

Neighbours and bounds are the same on both sides; delta is 10^-6. What is measured does not depend
on data, for the noise does not, but for rounding, which is counted at its worst.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.measure import DATA
from mechanisms.channel import Counts, Floats, Neighbours
from mechanisms.counters.amounts import Amounts
from mechanisms.counters.axes import Table as Tab
from mechanisms.counters.axes import flat
from mechanisms.counters.crosstabs import CrossTabs, pairs
from mechanisms.counters.design import Counters
from mechanisms.counters.device_design import DeviceCounters
from mechanisms.counters.split_mix import SplitMix
from mechanisms.counters.tree import Tree
from mechanisms.privacy.search import gaussian_mu
from mechanisms.randomness import SeededRandom
from mechanisms.vector.divided_tables import DividedTables
from mechanisms.vector.mixed_choice import oracle

DELTA, MILLION = 1e-6, 1_000_000
RANGES = 1_000
ADULT = ("workclass", "education", "marital_status", "occupation", "relationship", "sex")


class Figure(NamedTuple):
    """One statistic.

    Attributes:
        statistic: which.
        drawn_by: who draws the noise.
        measured: over all runs.
        most: what it may be.
        runs: of simulated releases.
    """

    statistic: str
    drawn_by: str
    measured: float
    most: float
    runs: int


def columns(design: Any, runs: int, seed: int) -> Floats:
    """(runs * counters,) errors of the weighted sum of a counter of each level.

    Args:
        design: `Counters` or `DeviceCounters`; all counters of a level are alike, so that a release
            of so many times as many is as many releases.
    """
    levels = tuple(level._replace(counters=level.counters * runs) for level in design.levels)
    wide = replace(design, levels=levels)
    rows = wide.centred(wide.simulate(np.zeros(wide.layout.codes, np.int64), SeededRandom(seed)))
    return np.asarray(sum(lv.weight * row for lv, row in zip(levels, rows, strict=True)))


def spread(design: Any, runs: int, seed: int = 1) -> float:
    """The mean square of `columns`."""
    return float(np.mean(columns(design, runs, seed) ** 2))


def laplace(epsilon: float) -> float:
    """The standard deviation of discrete Laplace noise of sensitivity 1."""
    return math.sqrt(0.5) / math.sinh(epsilon / 2)


def _counts() -> Iterator[Figure]:
    for n, d, ours, theirs in (
        (602_325, 915, 8.9e-11, 1.1e-10),
        (MILLION, 42_178, 3.3e-11, 4.6e-11),
    ):
        levels, name = (
            Amounts(d).levels,
            f"histogram, replace, epsilon 0.5, n = {n:,}, d = {d:,}: MSE",
        )
        shuffled = Counters.meeting(levels, "replace", 0.5, DELTA)
        yield Figure(name, "shuffler", spread(shuffled, 100) / n**2, ours, 100)
        sent = DeviceCounters.meeting(levels, "replace", 0.5, DELTA, n)
        yield Figure(name, "devices, 9 in 10 honest", spread(sent, 100) / n**2, theirs, 100)
    mu = gaussian_mu(1.0, DELTA)
    add: Neighbours = "add or remove"
    for name, encoder, anchor, ours, theirs, runs in (
        ("one count, over discrete Laplace", Amounts(1), laplace(1.0), 1.02, 1.3, 1 << 20),
        ("10 of 915 values, over Gaussian", Amounts(915, 10), math.sqrt(10) / mu, 1.02, 1.05, 200),
        ("10 of 915 values, 8 events each, over Gaussian", Amounts(915, 10, 8),
         8 * math.sqrt(10) / mu, 1.05, 1.1, 200),
    ):  # fmt: skip
        shuffled = Counters.meeting(encoder.levels, add, 1.0, DELTA)
        yield Figure(name, "shuffler", math.sqrt(spread(shuffled, runs)) / anchor, ours, runs)
        # What the honest share costs is sqrt(1 / share) everywhere.
        sent = DeviceCounters.meeting(encoder.levels, add, 1.0, DELTA, MILLION, honest_share=1.0)
        yield Figure(
            name, "devices, all honest", math.sqrt(spread(sent, runs)) / anchor, theirs, runs
        )


def _sums() -> Iterator[Figure]:
    name, runs, most = "sum of a number, replace, n = 10^6: standard error in ranges", 1 << 15, 4095
    levels = Amounts(1, 1, most).levels

    def ranges(squared: float, most: int) -> float:
        return math.sqrt(squared + MILLION / 4) / most

    for correlated, target in ((True, 1.55), (False, 3.3)):
        design = Counters.meeting(levels, "replace", 1.0, DELTA, correlated=correlated)
        who = "shuffler, correlated" if correlated else "shuffler"
        yield Figure(name, who, ranges(spread(design, runs), most), target, runs)
    sent = DeviceCounters.meeting(levels[:10], "replace", 1.0, DELTA, MILLION, honest_share=1.0)
    yield Figure(name, "devices, all honest", ranges(spread(sent, runs), 1023), 4.9, runs)
    mixed = SplitMix.meeting(0, most, MILLION, MILLION, "replace", 1.0, DELTA)
    noise = mixed.noise.draw(runs, SeededRandom(2)) - mixed.noise.mu
    who = f"shuffler, split and mix, {mixed.shares} messages"
    yield Figure(name, who, ranges(float(np.mean(noise.astype(float) ** 2)), most), 1.45, runs)
    many = Amounts(400, 400, 31)
    design = Counters.meeting(many.levels, "replace", 1.0, DELTA, most_dummies=1 << 40)
    unit = 2 / 31 / MILLION
    squared = (spread(design, 30) + MILLION / 4) * unit**2
    yield Figure(
        "averages of 400 numbers on [-1, 1], n = 10^6: MSE", "shuffler", squared, 3.1e-8, 30
    )


def _trees() -> Iterator[Figure]:
    for cells, fanout, growth, most in ((512, 2, 1.15, 560.0), (42_178, 3, 1.0, 1600.0)):
        tree, runs = Tree.uniform(cells, fanout, growth), 100 if cells < 1000 else 30
        design = Counters.meeting(tree.levels, "replace", 1.0, DELTA, most_dummies=1 << 40)
        ends = np.sort(np.random.default_rng(3).integers(0, cells + 1, (RANGES, 2)), axis=1)
        errors = []
        for seed in range(runs):
            sums = np.zeros(design.layout.codes, np.int64)
            rows = design.centred(design.simulate(sums, SeededRandom(seed)))
            below = np.append(0.0, np.cumsum(tree.estimate(rows, design.variances, total=0.0)))
            errors.append(below)
        squared = float(np.mean(np.diff(np.stack(errors)[:, ends], axis=2) ** 2))
        yield Figure(
            f"{RANGES:,} random ranges of {cells:,} cells, squared", "shuffler", squared, most, runs
        )
        if cells == 512:
            below = np.arange(1, cells)
            sigma = np.sqrt(tree.range_variances(0 * below, below, design.variances, known=True))
            half, inner = 1.96 * sigma, np.stack(errors)[:, 1:-1]
            name = "distribution function, 512 cells: 95 % interval, "
            yield Figure(name + "length at n = 10^6", "shuffler", 2 * half.mean() / 1e6, 9e-5, runs)
            yield Figure(name + "length at n = 10^8", "shuffler", 2 * half.mean() / 1e8, 9e-7, runs)
            missed = float((np.abs(inner) > half).mean())
            yield Figure(name + "missed (3 % at least)", "shuffler", missed, 0.07, runs)


def _tabs() -> Iterator[Figure]:
    """All one- and two-way tables; central Gaussian noise there is that of two-way tables alone."""
    central, runs = 1 / gaussian_mu(1.0, DELTA) ** 2, 5
    for name, values, targets in people():
        tabs, design, raised, true = counted(values, 1.0)
        two, cells = [*true], [truth.size for truth in true.values()]
        squares: dict[str, list[Floats]] = {"": [], ", fitted": []}
        for seed in range(runs):
            rows = design.centred(design.simulate(raised, SeededRandom(seed)))
            finest = tabs.estimate(rows, design.variances)
            for kind, found in (("", finest), (", fitted", tabs.fitted(finest))):
                published = tabs.published(found)
                squares[kind] += [
                    (published[table].astype(np.float64) - truth).ravel() ** 2
                    for table, truth in true.items()
                ]
        name = f"{len(two)} two-way tables of {name}, {sum(cells):,} cells: MSE"
        measured = {kind: float(np.mean(np.concatenate(each))) for kind, each in squares.items()}
        for kind, most in zip(squares, targets, strict=False):
            over = measured[kind] / (len(two) * central)
            yield Figure(f"{name}{kind}, over Gaussian", "shuffler", over, most, runs)
        # A cell is the sum of many of the table of all columns.
        full = len(two) * math.prod(axis.sizes[-1] for axis in tabs.axes) / sum(cells) * central
        yield Figure(
            f"{name}, over the full table", "shuffler", measured[""] / full, targets[2], runs
        )
        yield from _divided(name, tabs, values, true, targets[2:])


def _divided(
    name: str,
    tabs: CrossTabs,
    values: NDArray[np.int64],
    true: Mapping[Tab, Counts],
    targets: tuple[float, float],
) -> Iterator[Figure]:
    """The same in the local model, where each user is of one table, and what else one may do."""
    n, mechanism = len(values), DividedTables(1.0, tabs)
    found = mechanism.finest(mechanism.count(mechanism.perturb(values, SeededRandom(7))))
    measured = {}
    for kind, tables in (("", found), (", fitted", mechanism.plan.fitted(found))):
        published = mechanism.plan.published(tables)
        squares = [(published[table] - truth).ravel() ** 2 for table, truth in true.items()]
        measured[kind] = float(np.mean(np.concatenate(squares)))
    sizes = [truth.size for truth in true.values()]
    every = DividedTables(1.0 / len(true), CrossTabs(tabs.axes, tuple(true)))
    units = dict(zip(every.plan.candidates, every.plan.units, strict=True))
    each = [units[table] for table in every.plan.measured]  # nobody is left out of any
    split = n * np.concatenate([every.plan.variances(t, each).ravel() for t in true]).mean()
    cells = math.prod(axis.sizes[-1] for axis in tabs.axes)
    full = n * oracle(1.0, cells).average_variance(1) * cells * len(true) / sum(sizes)
    for what, over, most in (
        ("over epsilon split among tables", measured[""] / split, 0.09),
        ("over the full table", measured[""] / full, targets[0]),
        ("fitted, over estimate", measured[", fitted"] / measured[""], targets[1]),
    ):
        yield Figure(f"{name}, {what}", "users", over, most, 1)


def counted(
    values: NDArray[np.int64], epsilon: float
) -> tuple[CrossTabs, Counters, Counts, dict[Tab, Counts]]:
    """All tables of one and two columns of some rows.

    Returns:
        The tables, their counters, what rows add to these, and what is true of two columns.
    """
    sizes = values.max(axis=0) + 1
    tabs = CrossTabs(flat(sizes.tolist()), pairs(sizes.size))
    design = Counters.meeting(tabs.levels, "add or remove", epsilon, DELTA)
    raised = np.zeros(design.layout.codes, np.int64)
    for start, places in zip(design.layout.starts, tabs.encode(values), strict=False):
        raised[start : start + places.max() + 1] += np.bincount(places[:, 0])
    true: dict[Tab, Counts] = {}
    for asked in (asked for asked in tabs.asked if len(asked) == 2):
        cells = np.ravel_multi_index(
            tuple(values[:, column] for column, _ in asked), tabs.shape(asked)
        )
        many = np.bincount(cells, minlength=tabs.cells(asked))
        true[asked] = many.reshape(tabs.shape(asked))
    return tabs, design, raised, true


def people() -> Iterator[tuple[str, NDArray[np.int64], tuple[float, float, float, float]]]:
    """(name, (n, 6) values, targets) of made people whose columns depend, and of real ones."""
    rng, sizes = np.random.default_rng(5), np.array([3, 7, 9, 11, 12, 23])
    kind = rng.integers(0, 8, 1_400_000)  # of which half of all columns are functions
    made = rng.integers(0, sizes, (kind.size, sizes.size))
    own = (kind[:, None] * np.array([1, 3, 5, 4, 7, 11])) % sizes
    yield "made people", np.where(rng.random(made.shape) < 0.5, own, made), (1.1, 1.1, 0.0032, 0.75)
    if (file := DATA / "adult.parquet").exists():
        columns = pq.read_table(file, columns=[*ADULT]).to_pydict()
        codes = [np.unique(column, return_inverse=True)[1] for column in columns.values()]
        yield "adult", np.stack(codes, axis=1), (1.1, 0.8, 0.007, 0.22)


def figures() -> list[Figure]:
    """All of them."""
    return [*_counts(), *_sums(), *_trees(), *_tabs()]


def main() -> None:
    """One row for each statistic and whoever draws."""
    table = Table(title="noisy counters, simulated releases (epsilon 1 where none is named)")
    for heading in ("statistic", "noise of", "measured", "at most", "runs"):
        table.add_column(heading, justify="left" if heading == "statistic" else "right")
    made = figures()
    for one in made:
        table.add_row(
            one.statistic, one.drawn_by, f"{one.measured:.4g}", f"{one.most:g}", f"{one.runs:,}"
        )
    Console(width=150).print(table)
    if over := [one.statistic for one in made if not one.measured <= one.most]:
        raise SystemExit(f"above its target: {', '.join(over)}")


if __name__ == "__main__":
    main()
