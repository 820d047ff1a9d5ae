"""What a release of means holds: its table, its statement, its page, and nobody."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli import cli
from pipelines.metrics.mean.options import MeanOptions
from pipelines.metrics.publishable import ContentDoFn
from pipelines.metrics.release import PublishDoFn
from pipelines.metrics.resolving import resolve
from pipelines.releases.schema import own
from tests.end_to_end.test_mean_requests import words
from tests.fakes import canaries
from tests.oracles.releases import Release
from transforms.collector.collect_counts import Counted
from transforms.elements.progress import ROWS

pytestmark = pytest.mark.verify


ASKED: dict[str, dict[str, Any]] = {
    "shuffle": {},
    "users": {"user_column": "user", "min_reports": 400, "delta": 1e-9, "mechanism": "duchi"},
    "local": {"model": "local", "interval": "worst", "confidence": "0.9"},
    "delta": {"model": "local", "delta": "1e-5", "mechanism": "ndm"},
    "private": {"group_by": "value", "model": "local", "epsilon": "3"},
    "public": {"group_by": "value", "groups_public": True, "min_reports": 300},
    "chosen": {"bounds": None, "choose_bounds": True, "epsilon": "5", "cells": None},
    "integers": {"column": "number", "bounds": "0,3", "group_by": "flag"},
}


class Means(Release):
    """One release, read back."""

    @property
    def rows(self) -> pa.Table:
        return own(self.tables["mean.parquet"])


@pytest.fixture(scope="module")
def releases(log: str, domain: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Means]:
    """Every request, carried out once."""
    made = {}
    for name, changes in ASKED.items():
        folder = tmp_path_factory.mktemp(name) / "out"
        asked = dict(changes)
        if "group_by" in asked:
            asked["groups"] = domain
        if asked.get("group_by") == "flag":
            flags = folder.parent.parent / f"{name}.txt"
            flags.write_text("true\nfalse\n")
            asked["groups"] = str(flags)
        assert cli.main(words(log, **asked, output=folder)) == 0
        made[name] = Means(folder, asked)
    return made


@pytest.fixture(params=list(ASKED))
def release(request: pytest.FixtureRequest, releases: dict[str, Means]) -> Means:
    return releases[request.param]


def test_worst_case_errors_are_those_of_the_closed_form(releases: dict[str, Means]) -> None:
    release = releases["local"]
    row, statement = release.rows.to_pylist()[0], release.statement
    worst = statement["error"]["worst_standard_deviation_of_a_report"]
    assert worst == pytest.approx(
        math.sqrt(statement["mechanism"]["constants"]["worst_variance"]) * 150
    )
    # A quotient's is that of the sum over the share of those who have a number.
    share = 1 - statement["unusable"]["unbiased"]
    assert row["standard_error"] <= worst / math.sqrt(2000) / share * 1.1
    assert row["standard_error"] >= worst / math.sqrt(2000) / share * 0.5


def test_a_worker_that_is_retried_publishes_once(log, domain, tmp_path) -> None:
    """The same step again finds its own release; another job's finds the folder taken."""
    options = MeanOptions(
        input=(log,), column="real", bounds="0,300", epsilon=1, model="local",
        output=str(tmp_path / "out"), mechanism="duchi", unusable="count",
    )  # fmt: skip
    job = resolve(options)
    counted = Counted(np.array([900, 1100]), 2000, 3)
    told = ContentDoFn(job).process(counted, {ROWS: canaries.ROWS}, None)
    (content,) = told
    for _ in range(2):
        PublishDoFn(str(tmp_path / "out"), {"release_id": "a" * 32}).process(content)
    written = json.loads((tmp_path / "out" / "statement.json").read_text())
    assert (written["release_id"], written["invalid_reports"]) == ("a" * 32, 3)
    with pytest.raises(Exception, match="already holds a release"):
        PublishDoFn(str(tmp_path / "out"), {"release_id": "b" * 32}).process(content)
    (again,) = job.tables(counted).values()
    assert again == own(pq.ParquetFile(tmp_path / "out" / "mean.parquet").read())


def test_groups_that_may_be_empty_have_no_estimate_and_are_shown(run, log, workspace) -> None:
    (workspace / "groups.txt").write_text("\n".join([*canaries.DECLARED, "NOBODY-1", "NOBODY-2"]))
    asked = {"group_by": "value", "groups": "groups.txt", "model": "local", "epsilon": "9"}
    outcome = run(words(log, **asked))
    assert outcome.code == 0, outcome.err
    assert "NOBODY-1" in outcome.out
    rows = pq.ParquetFile("out/mean.parquet").read().to_pylist()
    for row in rows[-2:]:
        assert abs(row["rows"]) < 0.01 * canaries.ROWS
        assert (row["lower"], row["upper"]) == (0, 300) or row["upper"] - row["lower"] > 30
        if row["rows"] <= 0:
            assert row["estimate"] is row["unclipped"] is row["standard_error"] is None
