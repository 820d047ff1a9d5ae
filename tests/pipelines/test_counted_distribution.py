"""A distribution from a tree of counters: how near its figures are, and what its limits hold.

Of whole releases, drawn from the priced law and decoded as a job decodes them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from mechanisms.randomness import SeededRandom
from pipelines.logs.inputs import ALONE
from pipelines.metrics import registry
from pipelines.metrics.resolving import resolve
from pipelines.request.requests import request
from tests.fakes.few import few
from transforms.collector.collect_counts import Counted
from transforms.encoders.encoder import Rows

RUNS, FAR = 60, 6.2  # releases of each; standard errors, so a false alarm is below 10^-9
_RNG = np.random.default_rng(29)


def gamma() -> np.ndarray:
    """Nine tenths of the bins hold nothing: where a projection's bias adds up."""
    return _RNG.gamma(2, 40, 300_000)


def spikes() -> np.ndarray:
    """Two hills far apart, and four tenths on single numbers."""
    hills = [_RNG.normal(200, 4, 60_000), _RNG.normal(3000, 100, 60_000)]
    return np.concatenate([*hills, np.repeat([1000.0, 1003.0, 4000.0, 4999.0], 20_000)])


def even() -> np.ndarray:
    return _RNG.uniform(0, 5000, 20_000)


class Seen(NamedTuple):
    """What releases said, and what was so.

    Attributes:
        metric: that made them.
        numbers: (n,) sorted.
        true: (bins,) how many lie below each `high`.
        tables: (bins.., quantiles..) of each release.
    """

    metric: Any
    numbers: np.ndarray
    true: np.ndarray
    tables: list[tuple[pa.Table, pa.Table]]

    def column(self, name: str, table: int = 0) -> np.ndarray:
        """(RUNS, rows)."""
        return np.stack([each[table][name].to_numpy() for each in self.tables])


@lru_cache(maxsize=8)
def seen(draw: Callable[[], np.ndarray], high: int, drawn_by: str, whole: bool = False) -> Seen:
    numbers = np.clip(np.sort(draw()), 0, high)
    numbers = np.rint(numbers).astype(np.int64) if whole else numbers
    log = pa.table({"x": numbers})
    file = Path("log.parquet").absolute()
    pq.write_table(log, file)
    asked = {"column": "x", "bounds": f"0,{high}", "epsilon": 1.0, "drawn_by": drawn_by,
             "input": (str(file),), "output": str(file.parent / "out")}  # fmt: skip
    asked |= {"enrolled": 400_000} if drawn_by == "devices" else {}
    options = request(registry.options("distribution"), asked)
    metric = resolve(options, ALONE, lambda: SeededRandom(0))
    (batch,) = log.combine_chunks().to_batches()
    block = metric.encoder().encode(batch, Rows(len(log)), SeededRandom(0))
    paths = metric.reporting.tree.encode(block.cells.astype(np.int64))
    raised = np.zeros(metric.design.layout.codes, np.int64)
    for start, path in zip(metric.design.layout.starts, paths, strict=False):
        raised += np.bincount(start + path[:, 0], minlength=raised.size)
    tables = []
    for seed in range(RUNS):
        counts = metric.design.simulate(raised, SeededRandom(seed))
        made = metric.tables(Counted(counts, 0, 0))
        tables.append((made["distribution.parquet"], made["quantiles.parquet"]))
    edges = tables[0][0]["high"].to_numpy()
    true = np.searchsorted(numbers, edges, "left")
    true[-1] = numbers.size  # the last bin holds its end
    return Seen(metric, numbers, true, tables)


every_log = pytest.mark.parametrize(
    ("draw", "high", "drawn_by", "whole"),
    few([
        (gamma, 5000, "shuffler", False), (spikes, 5000, "shuffler", False),
        (even, 5000, "shuffler", False), (gamma, 600, "shuffler", True),
        (gamma, 5000, "devices", False),
    ], lambda case: case[2]),
    ids=["gamma", "spikes", "even", "whole", "devices"],
)  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@every_log
def test_shares_below_err_by_no_more_than_least_squares(
    draw: Any, high: int, drawn_by: str, whole: bool
) -> None:
    """Whose variance is known exactly; a sum of projected shares errs by up to 20 times as much."""
    logs = seen(draw, high, drawn_by, whole)
    metric, n = logs.metric, logs.numbers.size
    tree, variances = metric.reporting.tree, metric.design.variances[:-1]
    places = np.searchsorted(metric.statistic.edges[1:-1], logs.column("high")[0][:-1], "left") + 1
    shares = np.zeros(tree.cells + 1)
    shares[places] = logs.true[:-1] / n
    exact = float(tree.below_variances(shares, variances)[places].mean())
    squared = ((logs.column("cumulative") * n - logs.true)[:, :-1] ** 2).mean(axis=1)
    spread = FAR * squared.std(ddof=1) / np.sqrt(RUNS)
    assert spread < exact  # so twice the variance is seen, and the sum of shares has 12 and more
    assert squared.mean() <= exact + spread
    assert np.sqrt(squared.mean()) < 11


@every_log
def test_shares_and_their_sums_agree(draw: Any, high: int, drawn_by: str, whole: bool) -> None:
    logs = seen(draw, high, drawn_by, whole)
    shares, cumulative = logs.column("estimate"), logs.column("cumulative")
    assert (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(np.cumsum(shares, axis=1), cumulative, atol=1e-12)
    assert (cumulative[:, -1] == 1).all()
    counts, unbiased = logs.column("rows"), logs.column("unbiased")
    np.testing.assert_allclose(unbiased * counts.sum(axis=1, keepdims=True), counts, atol=1e-6)


@every_log
def test_limits_cover_and_hold_their_estimates(
    draw: Any, high: int, drawn_by: str, whole: bool
) -> None:
    logs = seen(draw, high, drawn_by, whole)
    true, cumulative = logs.true / logs.numbers.size, logs.column("cumulative")
    for suffix in ("", "_simultaneous"):
        low, up = (logs.column(f"cumulative_{end}{suffix}") for end in ("lower", "upper"))
        assert (low <= cumulative).all()
        assert (cumulative <= up).all()
        assert (np.diff(low, axis=1) >= 0).all()
        assert (np.diff(up, axis=1) >= 0).all()
        covers = (low <= true + 1e-12) & (true <= up + 1e-12)
        if suffix:  # a half of the length would miss in most runs, a binomial law's tail in 10^-9
            missed = int((~covers.all(axis=1)).sum())
            assert missed <= stats.binom.isf(1e-9, RUNS, 0.05)
        else:
            share = covers[:, :-1].mean(axis=1)
            spread = FAR * share.std(ddof=1) / np.sqrt(RUNS)
            assert spread < 0.2  # half the length covers in about 67 %
            assert share.mean() >= 0.95 - spread
        wider = low <= logs.column("cumulative_lower"), logs.column("cumulative_upper") <= up
        assert all(each.all() for each in wider)


@pytest.mark.verify
@every_log
def test_counts_err_as_they_say(draw: Any, high: int, drawn_by: str, whole: bool) -> None:
    logs = seen(draw, high, drawn_by, whole)
    true = np.diff(np.append(0, logs.true))
    far = (logs.column("rows") - true) / logs.column("rows_standard_error")
    squared = (far**2).mean(axis=1)
    spread = FAR * squared.std(ddof=1) / np.sqrt(RUNS)
    assert spread < 0.35
    assert squared.mean() == pytest.approx(1, abs=spread)


@every_log
def test_quantiles_lie_where_their_shares_do(
    draw: Any, high: int, drawn_by: str, whole: bool
) -> None:
    """Each in its interval, and that holds the true one; of noise alone, they err by some rows."""
    logs = seen(draw, high, drawn_by, whole)
    n, levels = logs.numbers.size, logs.column("p", 1)[0]
    estimate, low, up = (logs.column(name, 1) for name in ("estimate", "lower", "upper"))
    true = np.quantile(logs.numbers, levels, method="inverted_cdf")
    low, up = (np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(up), np.inf, up))
    assert (low <= estimate).all()
    assert (estimate <= up).all()
    missed = (~((low <= true) & (true <= up))).sum(axis=0)
    assert (missed <= stats.binom.isf(1e-9, RUNS, 0.05)).all()
    below, to = (np.searchsorted(logs.numbers, estimate, side) for side in ("left", "right"))
    ranks = np.maximum(np.maximum(below - levels * n, levels * n - to), 0)
    if draw is even or whole:  # inside of a bin numbers are even, or all one
        assert np.sqrt((ranks**2).mean(axis=0)).max() < 20  # 70 to 156 from projected shares


def test_whole_numbers_have_whole_bins_and_quantiles() -> None:
    """Of 601 numbers in 1,024 bins; each bin is one of them, and ends before the next."""
    logs = seen(gamma, 600, "shuffler", True)
    assert logs.column("low")[0].tolist() == [*range(601)]
    assert logs.column("high")[0].tolist() == [*range(1, 602)]
    assert logs.metric.encoder().bins == 1024
    for name in ("estimate", "lower", "upper"):
        assert logs.tables[0][1][name].type == pa.int64()
    # A quantile ends with the last number of a bin: the one before the first that lies behind it.
    ends, lower = logs.column("high")[0], logs.column("cumulative_lower")[0]
    behind = ends[np.searchsorted(lower, logs.column("p", 1)[0], "left")]
    assert logs.column("upper", 1)[0].tolist() == (behind - 1).tolist()
    coarse = seen(gamma, 5000, "shuffler", True)
    assert (coarse.column("high")[0][:-1] == np.ceil(coarse.metric.statistic.edges[1:-1])).all()
    assert coarse.column("high")[0][-1] == 5001
