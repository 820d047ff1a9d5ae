"""Whether a user has a value that can be used shows nowhere: neither in sizes nor in laws."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import special

from mechanisms.randomness import SeededRandom
from pipelines.cli import cli
from pipelines.logs.inputs import Source
from pipelines.metrics import registry
from pipelines.metrics.resolving import resolve
from tests.oracles.encoders import encode_table

USERS, RUNS, EPSILON = 2001, 2000, 1.0
ASKED = {
    "histogram": {"column": "value", "domain": "0..4", "out_of_domain": "drop"},
    "mean": {"column": "value", "bounds": "0,4", "cells": 4},
    "distribution": {"column": "value", "bounds": "0,4", "bins": 8},
    "vector-mean": {"number": ("value=0,4",)},
    "strings": {"search": "levels", "column": "value", "max_length": 2, "min_reports": USERS},
}


@pytest.fixture(scope="module", params=ASKED)
def metric(request, tmp_path_factory):
    """A metric in the local model over a log of 2,001 users."""
    log = tmp_path_factory.mktemp("absence") / "log.parquet"
    pq.write_table(table(1), log)
    options = registry.options(request.param)(
        input=(str(log),), output="out", model="local", epsilon=EPSILON, **ASKED[request.param]
    )
    return resolve(options, Source(seed=5))


def table(last: int | None) -> pa.Table:
    """Everybody's values but the last one's, half of them missing or strange, and that one's."""
    return pa.table({"value": pa.array([3, None, 9, 4] * (USERS // 4) + [last], pa.int64())})


def reports(metric, last: int | None, rng: SeededRandom) -> np.ndarray:
    block, rejects = encode_table(metric.encoder(), table(last), rng=rng)
    assert rejects == {}
    return block.perturbed(metric.mechanism, rng)


def test_a_release_is_of_one_size_whatever_a_value_is(metric):
    for last in (1, 9, None):
        assert reports(metric, last, SeededRandom(1)).size == USERS


def test_laws_keep_the_promise_whatever_a_value_is(metric):
    """What the last user's report shows, over seeded runs: no event is likelier by more than e.

    Of each code the lower end of the loss, by exact binomial limits of which each errs with
    probability 1e-12, stays below epsilon: a false alarm has a probability below 1e-8 for hundreds
    of codes. With 2,000 runs a report that shows by its code that a value is missing, and lies once
    in ten times, is seen with a probability above 0.999.
    """
    laws = [law(metric, last) for last in (1, 9, None)]
    for one in laws:
        for other in laws:
            least, most = limit(one, lower=True), limit(other, lower=False)
            assert np.all(least <= math.exp(EPSILON) * most)


def law(metric, last: int | None) -> np.ndarray:
    """(16,) how often the last user's message fell into each of 16 classes of codes."""
    rng = SeededRandom(11)
    rows = pa.table({"value": pa.array([last] * RUNS, pa.int64())})
    block, _ = encode_table(metric.encoder(), rows, rng=rng)
    messages = block.perturbed(metric.mechanism, rng)
    return np.bincount((messages % np.uint64(16)).astype(np.int64), minlength=16)


def limit(counts: np.ndarray, lower: bool) -> np.ndarray:
    """An end of the exact interval of each share (Clopper, Pearson 1934)."""
    k, n, risk = counts, counts.sum(), 1e-12
    if lower:
        return np.where(k > 0, special.betaincinv(np.maximum(k, 1), n - k + 1, risk), 0.0)
    return np.where(k < n, special.betaincinv(k + 1, np.maximum(n - k, 1), 1 - risk), 1.0)


@pytest.mark.verify
def test_a_model_is_of_as_many_rows_whatever_one_of_them_lacks(tmp_path, monkeypatch):
    """What is published exactly is the same: n, the rows left out, and whether there is a model."""
    monkeypatch.chdir(tmp_path)
    told = []
    for last in (1, 9, None):
        numbers = table(last).append_column("y", pa.array(range(USERS), pa.int64()))
        pq.write_table(numbers, f"{last}.parquet")
        words = ["--input", f"{last}.parquet", "--number", "value=0,4", "--target", "y=0,2000"]
        words += ["--method", "dp-sgd", "--epsilon", "8", "--output", f"{last}"]
        assert cli.main(["train", *words]) == 0
        statement = json.loads((tmp_path / f"{last}/statement.json").read_text())
        told.append([statement[name] for name in ("n", "rows_read", "rejects", "unusable")])
    assert told[0] == told[1] == told[2]
    assert told[0][1:3] == [USERS, {}]
    assert told[0][0] == USERS
