"""An interval holds its own estimate, which stays unbiased, and nothing else that cannot be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mechanisms.counters.design import Counters
from mechanisms.counters.levels import Level
from pipelines.cli import cli
from pipelines.metrics.counting.by_counters import ByCounters
from pipelines.metrics.counting.result import FigureError, clipped, columns
from tests.end_to_end.test_counting_release import metric
from transforms.collector.collect_counts import Counted

DESIGN = Counters.meeting([Level(1, 1)], "add or remove", 0.001, 1e-6)
ENDS = ["lower", "upper"], ["lower_simultaneous", "upper_simultaneous"]


@given(arrays(np.int64, st.integers(1, 5), elements=st.integers(-(10**5), 10**5)))
def test_counts_of_little_lie_in_their_intervals(totals) -> None:
    """The lower end is max(low, min(0, estimate)); whole numbers stay whole."""
    errors = FigureError.of(DESIGN, 1, least=0)
    found = columns(totals, errors, 0.95)
    assert found["estimate"].tolist() == totals.tolist()
    for (lower, upper), comparisons in zip(ENDS, (1, totals.size), strict=True):
        if lower not in found:
            continue
        half = int(errors.half(0.95, comparisons))
        assert found[lower].dtype == found[upper].dtype == np.int64
        low = np.maximum(totals - half, np.minimum(0, totals))
        assert found[lower].tolist() == low.tolist()
        assert (found[upper] >= np.maximum(totals + half, 0)).all()


def test_a_count_far_below_nothing() -> None:
    """As seen at epsilon 0.001: -3,600, once in an interval of 0 to 1,400."""
    found = columns(np.array([-3600]), FigureError.of(DESIGN, 1, least=0), 0.95)
    assert (found["lower"].tolist(), found["upper"].tolist()) == ([-3600], [1378])


@pytest.mark.parametrize("whole", [True, False])
def test_ends_are_cut_on_both_sides(whole: bool) -> None:
    kind = int if whole else float
    low, high = np.array([-2, -2, 0, 1], kind), np.array([-1, 2, 3, 9], kind)
    middle = np.array([-1, 0, 1, 4], kind)
    below, above = clipped(low, high, middle, 0, 2)
    assert (below.tolist(), above.tolist()) == ([-1, 0, 0, 1], [0, 2, 2, 4])
    assert below.dtype == above.dtype == np.dtype(kind)
    below, above = clipped(low, high, np.full(4, np.nan), 0, 2)
    assert (below.tolist(), above.tolist()) == ([0, 0, 0, 1], [0, 2, 2, 2])


def test_cells_of_cross_tabs_lie_in_their_intervals(log: str, workspace) -> None:
    from tests.fakes.canaries import DECLARED

    (workspace / "values.txt").write_text("\n".join(DECLARED) + "\n")
    tabs = metric("tabs", log)
    assert isinstance(tabs, ByCounters)
    evidence = tabs.evidence(Counted(np.zeros(tabs.design.layout.codes, np.int64), 0, 0))
    spread = np.linspace(-40, 40, evidence.totals.size)
    evidence = replace(evidence, totals=spread, reach=lambda together: 2.0 + (together > 1))
    found = tabs.statistic.columns(evidence, tabs.options.confidence)
    for lower, upper in ENDS:
        below, middle, above = (found[n] for n in (lower, "estimate", upper))
        assert ((below <= middle) & (middle <= above)).all()
        assert (below[middle >= 0] >= 0).all()


@pytest.mark.parametrize("epsilon", ["40", "50", "60"])
def test_a_distribution_without_noise_to_speak_of_is_published(epsilon: str, workspace) -> None:
    """Its laws' variances are rounded to 0 there, and nothing is divided by them."""
    (workspace / "one.csv").write_text("x\n30\n")
    words = "--types x=float --column x --bounds 0,100 --bins 2 --drawn-by shuffler"
    ends = ["--epsilon", epsilon, "--output", "out"]
    assert cli.main(["distribution", "--input", "one.csv", *words.split(), *ends]) == 0
    table = pq.read_table("out/distribution.parquet")
    assert table["estimate"].to_pylist() == pytest.approx([1, 0], abs=1e-6)
    assert table["cumulative"].to_pylist() == pytest.approx([1, 1], abs=1e-6)
