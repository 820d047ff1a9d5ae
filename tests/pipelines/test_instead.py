"""What is said of noisy counters where randomised reports were asked for."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli.cli import main
from pipelines.metrics.counting.options import JOB_TRUSTED, TRUSTED
from pipelines.metrics.cross_tab.options import CrossTabOptions
from pipelines.metrics.distribution.options import DistributionOptions
from pipelines.metrics.histogram.options import HistogramOptions
from pipelines.metrics.instead import instead, said
from pipelines.metrics.mean.options import MeanOptions
from pipelines.metrics.metric import Metric
from pipelines.metrics.options import EitherOptions
from pipelines.metrics.permanent import promises
from pipelines.metrics.resolving import resolve

ROWS = 50_000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    rows = range(ROWS)
    pq.write_table(pa.table({"v": [float(k % 10) for k in rows], "g": [k % 5 for k in rows]}), path)
    return str(path)


def resolved(kind: type[EitherOptions], log: str, tmp_path: Path, **asked: object) -> Metric:
    known = {"input": (log,), "epsilon": 1.0, "output": str(tmp_path / "out")}
    options = kind.model_validate(known | asked)
    return resolve(options)


KINDS = pytest.mark.parametrize(
    ("kind", "asked", "alone"),
    [
        (HistogramOptions, {"column": "g", "domain": "0..4"}, {"mechanism": "grr"}),
        (MeanOptions, {"column": "v", "bounds": "0,10"}, {"cells": 16}),
        (DistributionOptions, {"column": "v", "bounds": "0,10", "bins": 16}, {"smooth": False}),
        (CrossTabOptions, {"columns": ("g",), "domains": ("g=0..4",)}, {"drawn_by": "each-report"}),
    ],
)


@KINDS
def test_what_is_said_is_what_counters_expect(kind, asked, alone, log, tmp_path):
    reports = resolved(kind, log, tmp_path, **asked, **alone, min_reports=40_000)
    release = promises(reports)[0]
    counters = resolved(
        kind, log, tmp_path, **asked, drawn_by="job", expected=40_000,
        epsilon=release.epsilon, delta=release.delta,
    )  # fmt: skip
    assert said([reports]) == [f"{JOB_TRUSTED}:", f"  {counters.expected_error}"]
    assert instead(counters) is None
    assert not (tmp_path / "out").exists()


@KINDS
def test_nothing_is_said_where_no_shuffler_is_trusted(kind, asked, alone, log, tmp_path):
    assert said([resolved(kind, log, tmp_path, **asked, **alone, model="local")]) == []


def test_a_plan_of_reports_says_it_too(capsys):
    asked = "size --domain-size 915 --reports 602325 --epsilon 0.5 --delta 1e-6"
    assert main(asked.split()) == 0
    printed = " ".join(capsys.readouterr().out.split())
    # Discrete Laplace noise of slope 0.5 has a standard deviation of 2.8.
    error = float(printed.split(f"{TRUSTED}: standard error ")[1].split()[0])
    assert 2.5 / 602_325 < error < 3.0 / 602_325
    job = float(printed.split(f"{JOB_TRUSTED}: standard error ")[1].split()[0])
    assert 2.5 / 602_325 < job <= error
