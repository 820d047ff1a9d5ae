"""A request for a mean held against its input: what is decided before a row is read."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.mean.key_value import KeyValue
from mechanisms.mean.public_groups import PublicGroups
from pipelines.metrics.mean.options import MeanOptions
from pipelines.metrics.resolving import resolve
from transforms.encoders.bounds import Bounds


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    rows = range(20_000)
    table = pa.table({"v": [float(k) for k in rows], "g": [k % 3 for k in rows], "u": list(rows)})
    pq.write_table(table, path)
    return str(path)


@pytest.fixture
def job(log, tmp_path):
    def job(**asked):
        defaults = {"input": (log,), "column": "v", "bounds": "0,10", "epsilon": 1.0, "cells": 16,
                    "output": str(tmp_path / "out")}  # fmt: skip
        options = MeanOptions(**(defaults | asked))
        return resolve(options)

    return job


def test_one_mean(job):
    made = job()
    assert made.bounds == Bounds(0, 10)
    assert made.mechanism is made.design.mechanism
    assert made.inner.rounding is made.mechanism.mechanism
    plain = job(unusable="count")
    assert plain.mechanism is plain.design.mechanism is plain.inner.rounding
    assert made.min_reports == 19_800
    assert plain.min_reports == 18_000  # of rows some may be left out
    released, local = made.guarantees
    assert released.model == "shuffle"
    assert released.epsilon <= 1.0 < local.epsilon
    assert made.cautions == []
    there = pickle.loads(pickle.dumps(made))  # without the names of files
    assert replace(there, telemetry=made.telemetry) == made


def test_private_groups_and_public_ones(job):
    private = job(group_by="g", groups="0..2", model="local", cells=None)
    assert isinstance(private.mechanism, KeyValue)
    assert private.inner.rounding.inputs == private.mechanism.points
    public = job(group_by="g", groups="0..2", groups_public=True, min_reports=5000)
    assert isinstance(public.mechanism, PublicGroups)
    assert public.mechanism.groups == 3
    assert public.inner is public.design.mechanism
    assert public.min_reports == public.design.target.n == 5000
    assert all("group being public" in each.how for each in public.guarantees)


def test_auto_is_prepared_once_for_the_cap_alone(job):
    made = job(epsilon=None, epsilon_local=2.0)
    assert made.design.local.epsilon == 2.0
    assert made.guarantees[0].epsilon < 2.0
