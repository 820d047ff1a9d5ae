"""A large delta is named for what it allows, and a truth is no number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

import hushbeam
from mechanisms.catalog import build
from pipelines.cli.audit import AuditOptions
from pipelines.errors import RequestError
from pipelines.metrics.counting.options import CountOptions
from pipelines.metrics.histogram.options import HistogramOptions
from pipelines.metrics.terms import cautioned
from pipelines.plan.loading import load
from pipelines.request.requests import request
from pipelines.running.options import TotalCountOptions
from pipelines.train.options import TrainOptions

HISTOGRAM = {
    "input": ("x.parquet",), "output": "out", "column": "c", "domain": "0..3", "epsilon": 1,
}  # fmt: skip
REQUESTS = {
    HistogramOptions: HISTOGRAM,
    CountOptions: {"input": ("x.parquet",), "output": "out", "epsilon": 1},
    TotalCountOptions: {
        "input": ("x.parquet",), "output": "out", "epsilon": 1, "horizon": 9, "window": "w",
    },
    TrainOptions: {
        "input": ("x.parquet",), "output": "out", "epsilon": 1, "number": ("x=0,1",),
        "target": "y=0,1",
    },
}  # fmt: skip
PLAN = """\
collection: a
version: 1
input: x.parquet
output: out
epsilon: 1
{more}
metrics:
  - {{name: c, kind: histogram, column: c, domain: 0..3{own}}}
"""


def planned(folder: Path, more: str, own: str = ""):
    path = folder / "plan.yaml"
    path.write_text(PLAN.format(more=more, own=own))
    return load(str(path))


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_delta_above_one_in_a_hundred_needs_a_word_more(kind) -> None:
    asked = REQUESTS[kind]
    with pytest.raises(RequestError, match=r"^--delta: above 0.01 a release may show that share"):
        request(kind, asked | {"delta": "0.5"})
    assert request(kind, asked | {"delta": "0.01"}).delta == 0.01
    meant = request(kind, asked | {"delta": "0.5", "large_delta": True})
    assert meant.delta == 0.5


def test_a_plan_says_so_too_and_its_meaning_is_the_same(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"line 6: delta.*large_delta"):
        planned(tmp_path, "delta: 0.5")
    plan = planned(tmp_path, "delta: 0.5\nlarge_delta: true")
    options = plan.options(plan.metrics[0], "w")
    assert options.delta == 0.5
    assert "large_delta" not in options.meaning
    assert "large_delta" not in HistogramOptions(**HISTOGRAM).meaning


@pytest.mark.parametrize(
    ("delta", "declared", "said"),
    [
        (1e-4, None, []),
        (1.1e-4, None, ["is large"]),
        (1e-6, 999_999, []),
        (1e-6, 1_000_000, ["is not small against 1/n"]),
        (1e-3, 10, ["is large"]),
        (0.0, 10**9, []),
    ],
)
def test_a_caution_is_about_the_number_that_was_declared(delta, declared, said) -> None:
    lines = cautioned(delta, declared)
    assert len(lines) == len(said)
    assert all(part in line for part, line in zip(said, lines, strict=True))


@pytest.mark.parametrize("name", ["epsilon", "delta", "min_reports", "confidence", "epsilon_local"])
@pytest.mark.parametrize("value", [True, False, np.True_, np.False_])
def test_a_truth_is_no_number_of_a_request(name: str, value: Any) -> None:
    with pytest.raises(RequestError, match=f"--{name.replace('_', '-')}: it takes no yes or no"):
        request(HistogramOptions, HISTOGRAM | {name: value})
    with pytest.raises(ValidationError):
        HistogramOptions(**HISTOGRAM | {name: value})


@pytest.mark.parametrize("name", ["rows_per_user", "per_value", "expected"])
def test_a_truth_is_no_number_of_counters(name: str) -> None:
    with pytest.raises(RequestError, match="it takes no yes or no"):
        request(CountOptions, REQUESTS[CountOptions] | {name: True})
    with pytest.raises(ValidationError):
        AuditOptions(mechanism="grr", epsilon=True)


@pytest.mark.parametrize(
    ("more", "own"),
    [
        ("delta: true", ""),
        ("min_reports: true", ""),
        ("ledger: l.sqlite\nbudget: {epsilon: true}", ""),
        ("distinct_values: true\nnoise: permanent", ""),
        ("", ", share: true"),
    ],
)
def test_a_truth_is_no_number_of_a_plan(tmp_path: Path, more: str, own: str) -> None:
    with pytest.raises(RequestError, match="it takes no yes or no"):
        planned(tmp_path, more, own)


def test_a_truth_is_no_number_of_a_mechanism() -> None:
    with pytest.raises(ValueError, match="epsilon is a number, and no truth"):
        build("grr", epsilon=True, domain_size=4)
    with pytest.raises(ValueError, match="epsilon is a number, and no truth"):
        build("grr", epsilon=np.True_, domain_size=4)


def test_a_truth_is_no_number_of_a_function(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="epsilon: it takes no yes or no"):
        hushbeam.histogram("x.parquet", column="c", domain="0..3", epsilon=True, output="out")
    for name in ("epsilon", "delta", "norm", "confidence"):
        asked = {"epsilon": 1.0, "delta": 1e-6, "norm": 1.0, "confidence": 0.95}
        for truth in (True, np.True_):
            with pytest.raises(RequestError, match=f"{name}: it takes no yes or no"):
                hushbeam.RunningTotals(tmp_path / "t", horizon=3, **asked | {name: truth})
    with pytest.raises(RequestError, match=r"delta: above 0\.01"):
        hushbeam.RunningTotals(tmp_path / "t", 1.0, 0.5, 3)
