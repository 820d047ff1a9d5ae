"""Whoever reads the ten largest of many noisy shares reads intervals that hold them all."""

from __future__ import annotations

import io
import re

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from mechanisms.catalog import build
from mechanisms.frequency.choice import POSTPROCESSING
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.randomness import SeededRandom
from pipelines.logs.inputs import UNREAD, Source
from pipelines.metrics.histogram.options import HistogramOptions
from pipelines.metrics.mean.options import MeanOptions
from pipelines.metrics.reports.shares import share_evidence
from pipelines.metrics.resolving import resolve
from pipelines.metrics.statistics.histogram import Histogram
from pipelines.views import report
from tests.oracles.statistics import zipf
from transforms.collector.collect import frequencies
from transforms.collector.collect_counts import Counted
from transforms.encoders.domain import IntegerRange

SIZE, USERS = 600, 3000
# Everybody holds one of very many values: what is large among the estimates is noise, or nearly.
SPARSE = {
    "alike": np.full(SIZE, 1 / SIZE),
    "flat": zipf(SIZE, 0.3),
    "square roots": zipf(SIZE, 0.5),
    "zipf": zipf(SIZE, 1.0),
    "steep": zipf(SIZE, 1.5),
    "half are nobody's": np.repeat([2 / SIZE, 0.0], SIZE // 2),
    "ten values": np.repeat([0.1, 0.0], [10, SIZE - 10]),
    "one in ten": np.where(np.arange(SIZE) % 10, 0.5 / 540, 0.5 / 60),
}


def released(
    mechanism: FrequencyOracle, shares: np.ndarray, seed: int, postprocess: str = "auto"
) -> tuple[pa.Table, np.ndarray]:
    """A release, and the truth, value by value."""
    rng = np.random.default_rng(seed)
    holders = rng.multinomial(USERS, shares / shares.sum())
    counts = mechanism.simulate(holders, SeededRandom(seed))
    estimate = frequencies(mechanism, postprocess, Counted(counts, USERS, 0), USERS)
    domain = IntegerRange(0, mechanism.domain_size - 1)
    options = HistogramOptions.model_construct(confidence=0.95, user_column=None)
    statistic = Histogram(options=options, domains=(("value", domain),))
    (table,) = statistic.tables(share_evidence(mechanism, estimate)).values()
    return table, holders / USERS


def shown(table: pa.Table) -> list[tuple[int, float, float]]:
    """The rows that a screen shows: the value and the ends of its interval."""
    screen = Console(record=True, width=200, file=io.StringIO())
    said = {
        "release": "histogram", "n": USERS, "request": {"confidence": 0.95},
        "guarantees": {"release": {"epsilon": 0.5, "delta": 0.0, "unit": "row"}},
        "figures": {"histogram.parquet": "share"},
    }  # fmt: skip
    report.show(screen, {"histogram.parquet": table}, said)
    line = r"│ (\d+) +│ +[-\d.]+ │ +[-\d.]+ │ +[\d.]+ │ +([-\d.]+) to ([-\d.]+) │"
    lines = re.findall(line, screen.export_text())
    return [(int(value), float(low) / 100, float(high) / 100) for value, low, high in lines]


@pytest.mark.parametrize("runs", [3, pytest.param(10, marks=pytest.mark.verify)])
def test_what_is_shown_covers_together(runs: int) -> None:
    """Of releases of eight sparse populations; single intervals nearly always miss one."""
    mechanism = build("olh", epsilon=0.5, domain_size=SIZE)
    held = alone = 0
    for place, shares in enumerate(SPARSE.values()):
        for run in range(runs):
            table, truth = released(mechanism, shares, 100 * place + run)
            rows = shown(table)
            assert len(rows) == 10
            # Screens round to a hundred thousandth.
            held += all(low - 1e-5 <= truth[v] <= high + 1e-5 for v, low, high in rows)
            singles = table.take([value for value, *_ in rows]).to_pylist()
            alone += all(row["lower"] <= truth[row["value"]] <= row["upper"] for row in singles)
    releases = runs * len(SPARSE)
    assert held >= 0.95 * releases
    assert alone < 0.5 * releases


@pytest.mark.parametrize("postprocess", POSTPROCESSING)
@pytest.mark.parametrize(("name", "size"), [("grr", 3), ("olh", 60), ("olh", SIZE)])
def test_no_point_lies_outside_its_interval(postprocess: str, name: str, size: int) -> None:
    mechanism = build(name, epsilon=0.5, domain_size=size)
    table, _ = released(mechanism, zipf(size, 1.2), 1, postprocess)
    estimate = table["estimate"].to_numpy()
    for suffix in ("", "_simultaneous"):
        lower, upper = (table[f"{end}{suffix}"].to_numpy() for end in ("lower", "upper"))
        assert (lower <= estimate).all()
        assert (estimate <= upper).all()
        assert (lower < upper).all()
    assert (table["lower_simultaneous"].to_numpy() <= table["lower"].to_numpy()).all()
    assert (table["upper_simultaneous"].to_numpy() >= table["upper"].to_numpy()).all()


def test_means_of_public_groups_are_covered_together() -> None:
    """All forty in nearly every one of 40 releases, where single intervals hardly ever do."""
    groups, users, releases, rng = 40, 500, 40, SeededRandom(7)
    asked = {"column": "v", "bounds": "-1,1", "group_by": "g", "groups": f"0..{groups - 1}",
             "groups_public": True, "unusable": "count", "model": "local"}  # fmt: skip
    options = MeanOptions(input=("-",), output="-", epsilon=1.0, mechanism="duchi", **asked)
    job = resolve(options, Source(UNREAD))
    cells = job.inner.encode(np.zeros(users), rng)
    held = alone = 0
    for _ in range(releases):
        parts = [job.inner.count(job.inner.perturb(cells, rng)) for _ in range(groups)]
        counted = Counted(np.concatenate(parts), groups * users, 0)
        (table,) = job.tables(counted).values()
        ends = {name: table[name].to_numpy() for name in table.column_names if name != "group"}
        held += bool(np.all((ends["lower_simultaneous"] <= 0) & (0 <= ends["upper_simultaneous"])))
        alone += bool(np.all((ends["lower"] <= 0) & (0 <= ends["upper"])))
    assert held >= 0.9 * releases
    assert alone < 0.5 * releases
