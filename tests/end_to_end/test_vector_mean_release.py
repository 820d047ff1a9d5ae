"""`hushbeam vector-mean` from a log to a release: right, complete, and nobody in it."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli import cli
from pipelines.metrics.metric import columns_read
from pipelines.metrics.resolving import resolve
from pipelines.metrics.vector_mean.options import VectorMeanOptions
from tests.contract.laws import reach
from tests.fakes import canaries
from tests.oracles.releases import Release
from tests.oracles.transforms import fresh_stream, restart
from tests.oracles.transforms import run as run_pipeline
from transforms.rows.telemetry import ReadTelemetry

pytestmark = pytest.mark.verify

USERS, EACH, D = 3000, 2, 4
ROWS = USERS * EACH
LOW, HIGH = -20.0, 60.0
FAR = 7  # standard errors; some hundred comparisons are all within them but for 1e-9


WHOLE = {"unusable": "count", "epsilon": "2"}  # whole rows cannot hide what they lack
AS_COLUMNS, AS_LIST = {"number": "f?=-20,60"}, {"vector": f"v={D}:-20,60"}
ASKED: dict[str, dict[str, Any]] = {
    "local": AS_COLUMNS | {"epsilon": "2"},
    "list": AS_LIST | {"epsilon": "2", "shrink": "none", "confidence": "0.9"},
    "bytes": {"vector": f"raw={D}:0,255", "epsilon": "2", "shrink": "zero"},
    "shuffle": AS_COLUMNS | {"model": "shuffle", "epsilon": "1", "mechanism": "multi_optimal"},
    "users": AS_LIST | {"user_column": "user", "epsilon": "4", "mechanism": "multi_hm"},
    "several": AS_LIST | {"user_column": "user", "epsilon": "9", "mechanism": "multi_optimal"},
    "meanest": AS_COLUMNS | WHOLE | {"mechanism": "meanest", "user_column": "user"},
    "laplace": AS_LIST | WHOLE | {"mechanism": "laplace_vector", "epsilon": "8"},
    "ball": AS_LIST | WHOLE | {"mechanism": "privunit", "radius": "0.9", "epsilon": "3"},
    "mixed": AS_COLUMNS | {"category": ["city", "kind=0..2"], "epsilon": "4"},
}  # fmt: skip


def values() -> np.ndarray:
    """(ROWS, D) numbers, some of them beyond the bounds; a user's rows are alike."""
    rng = np.random.default_rng(5)
    each = rng.normal([0.0, 20.0, 40.0, -10.0], 15.0, (USERS, D))
    return np.repeat(each, EACH, axis=0)


def octets() -> np.ndarray:
    return np.random.default_rng(6).integers(0, 200, (ROWS, D)).astype(np.uint8)


def cities() -> np.ndarray:
    return np.random.default_rng(7).choice(3, ROWS, p=[0.6, 0.3, 0.1])


def table() -> pa.Table:
    rows = values()
    user = [f"CANARY-USER-{k // EACH:05}" for k in range(ROWS)]
    return pa.table(
        {f"f{i}": rows[:, i] for i in range(D)}
        | {
            "v": pa.array(rows.tolist()),
            "raw": pa.array([row.tobytes() for row in octets()]),
            "city": [canaries.DECLARED[k] for k in cities()],
            "kind": np.arange(ROWS) % 3,
            "user": user,
        }
    )


@pytest.fixture(scope="module")
def rows_log(tmp_path_factory: pytest.TempPathFactory) -> str:
    return canaries.write(tmp_path_factory.mktemp("log"), table(), row_group_size=2500)


def words(log: str, **changes: object) -> list[str]:
    """The words of a request that is right but for the changes; None takes an option away."""
    asked = {"input": log, "model": "local", "epsilon": "2", "output": "out"} | changes
    found = ["vector-mean"]
    for name, given in asked.items():
        for value in given if isinstance(given, list) else [given]:
            if value is not None:
                found += [f"--{name.replace('_', '-')}", str(value)]
    return found


class Rows(Release):
    """One release, read back."""

    @property
    def rows(self) -> pa.Table:
        return self.tables["vector-mean.parquet"]

    def column(self, name: str) -> np.ndarray:
        return self.rows[name].to_numpy()

    @property
    def truth(self) -> np.ndarray:
        """(D,) the mean row, its numbers clipped as the request says."""
        if "raw" in self.asked.get("vector", ""):
            return octets().mean(axis=0)
        clipped = np.clip(values(), LOW, HIGH)
        if "radius" not in self.asked:
            return clipped.mean(axis=0)
        scaled = (clipped - LOW) / (HIGH - LOW) * 2 - 1
        length = np.linalg.norm(scaled, axis=1, keepdims=True)
        short = scaled * np.minimum(1, float(self.asked["radius"]) / length)
        return LOW + (short.mean(axis=0) + 1) / 2 * (HIGH - LOW)


@pytest.fixture(scope="module")
def releases(rows_log: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rows]:
    """Every request, carried out once."""
    made = {}
    for name, changes in ASKED.items():
        folder = tmp_path_factory.mktemp(name) / "out"
        asked = dict(changes)
        if "category" in asked:
            declared = folder.parent.parent / "cities.txt"
            declared.write_text("\n".join(canaries.DECLARED[:3]) + "\n")
            asked["category"] = [f"city={declared}", asked["category"][1]]
        assert cli.main(words(rows_log, **asked, output=folder)) == 0
        made[name] = Rows(folder, asked)
    return made


@pytest.fixture(params=list(ASKED))
def release(request: pytest.FixtureRequest, releases: dict[str, Rows]) -> Rows:
    return releases[request.param]


# ---- every release -------------------------------------------------------------------------------


def test_estimates_are_unbiased(release: Rows) -> None:
    off = release.column("unbiased") - release.truth
    assert (np.abs(off) < FAR * release.column("standard_error")).all()
    # And not because standard errors are large: those of the worst case are known.
    half = (HIGH - LOW) / 2 if "raw" not in release.asked.get("vector", "") else 127.5
    said = release.statement["error"]["root_mean_square_of_standard_errors"]
    assert said == pytest.approx(np.sqrt(np.mean((release.column("standard_error") / half) ** 2)))
    assert 0 < said < 0.2


# ---- some of them --------------------------------------------------------------------------------


def test_shrinking_moves_towards_what_was_asked(releases: dict[str, Rows]) -> None:
    release = releases["bytes"]
    told = release.statement["error"]["shrunk"]
    expected = 127.5 + told["factor"] * (release.column("unbiased") - 127.5)
    np.testing.assert_allclose(release.column("shrunk"), np.clip(expected, 0, 255))
    mean = releases["local"].column("unbiased").mean()
    told = releases["local"].statement["error"]["shrunk"]
    expected = mean + told["factor"] * (releases["local"].column("unbiased") - mean)
    np.testing.assert_allclose(releases["local"].column("shrunk"), np.clip(expected, LOW, HIGH))
    assert 0 < told["factor"] < 1


def test_categories_beside_numbers(releases: dict[str, Rows]) -> None:
    found = releases["mixed"].table("frequencies.parquet")
    assert found["attribute"].to_pylist() == ["city"] * 3 + ["kind"] * 3
    assert found["value"].to_pylist() == [*canaries.DECLARED[:3], "0", "1", "2"]
    truth = np.concatenate([np.bincount(cities()) / ROWS, np.full(3, 1 / 3)])
    off = np.abs(found["unbiased"].to_numpy() - truth)
    assert (off < FAR * found["standard_error"].to_numpy()).all()
    assert (found["standard_error"].to_numpy() < 0.05).all()
    unusable = releases["mixed"].statement["unusable"]["categories"]
    for name, part in (("city", found.slice(0, 3)), ("kind", found.slice(3, 3))):
        rest = unusable[name]["share"]
        assert sum(part["estimate"].to_pylist()) + rest == pytest.approx(1)
        # Nobody lacks a category. The interval is one of 95 %, which misses that now and then.
        assert abs(unusable[name]["unbiased"]) < FAR * unusable[name]["standard_error"]
        assert unusable[name]["standard_error"] < 0.05
        assert unusable[name]["lower"] <= rest <= unusable[name]["upper"]
    assert "<h2>Frequencies</h2>" in releases["mixed"].page


def test_a_column_of_lists_and_columns_are_the_same_rows(rows_log, workspace) -> None:
    """The same messages whichever way numbers are stored: the client draws the same coins."""

    def published(asked: dict[str, str], seed: int) -> pa.Table:
        restart(seed)
        given = {name: (text,) for name, text in asked.items()}
        options = VectorMeanOptions(
            input=(rows_log,), epsilon=2.0, model="local", output=str(workspace / "none"), **given
        )
        job = resolve(options, open_rng=fresh_stream)

        def build(pipeline: beam.Pipeline) -> beam.PCollection:
            columns = tuple(sorted(columns_read(job)))
            read = pipeline | ReadTelemetry(job.telemetry.files[:1], columns)
            return job.estimated(job.reports(read))

        (counted,) = run_pipeline(build).elements
        return job.tables(job.decoded(counted))["vector-mean.parquet"].drop(["coordinate"])

    assert published(AS_COLUMNS, 3) == published(AS_LIST, 3)
    assert published(AS_COLUMNS, 3) != published(AS_COLUMNS, 4)


# ---- what is not published -----------------------------------------------------------------------


def test_unusable_rows_are_rejected_and_counted(run, workspace) -> None:
    good = [[0.0, 1.0]] * 500
    rows = [*good, [math.nan, 0.0], [0.0], [1.0] * 3, [None, 1.0], None, [math.inf, 0.0], []]
    pq.write_table(pa.table({"v": pa.array(rows, pa.list_(pa.float64()))}), "log.parquet")
    # Intervals that cover but for 1e-10: one of 95 % missed the shares once in five hundred runs.
    asked = {"vector": "v=2:-1,1", "epsilon": "9", "confidence": "0.9999999999"}
    assert run(words("log.parquet", **asked, output="hidden")).code == 0
    hidden = Rows(Path("hidden"), asked)
    assert (hidden.statement["n"], hidden.statement["rejects"]) == (507, {})
    assert np.all(hidden.column("unusable_lower") <= np.array([7, 5]) / 507)
    assert np.all(hidden.column("unusable_upper") >= np.array([7, 5]) / 507)
    outcome = run(words("log.parquet", **asked, unusable="count"))
    assert outcome.code == 0, outcome.err
    statement = json.loads(Path("out/statement.json").read_text())
    assert statement["rejects"] == {
        "infinite value": 1, "list of another length": 3, "null value": 2,
        "value is not a number": 1,
    }  # fmt: skip
    assert (statement["n"], statement["rows_read"]) == (500, 507)


def test_how_many_rows_are_long_is_told_to_nobody(run, rows_log) -> None:
    asked = AS_LIST | WHOLE | {"mechanism": "privunit", "radius": "0.4", "epsilon": "3"}
    outcome = run(words(rows_log, **asked))
    assert outcome.code == 0, outcome.err
    scaled = (np.clip(values(), LOW, HIGH) - LOW) / (HIGH - LOW) * 2 - 1
    long = (np.linalg.norm(scaled, axis=1) > 0.4).sum()
    for text in (outcome.said, Path("out/statement.json").read_text()):
        assert not re.search(rf"(?<![\d.,])({long}|{long:,})(?!\d|[.,]\d)", text)


@pytest.mark.parametrize("noise", ["reports", "dummies"])
def test_shares_of_a_category_are_of_all_units_also_of_those_without_one(noise: str, run) -> None:
    """A quarter lacks one: a value of a third of the others is one of a quarter of all."""
    rows = np.arange(24_000)
    kind = np.array([None, "a", "b", "c"], object)[rows % 4]
    pq.write_table(pa.table({"x": rows / rows.size, "kind": pa.array(kind)}), "quarter.parquet")
    Path("kinds.txt").write_text("a\nb\nc\n")
    asked = ["vector-mean", "--input", "quarter.parquet", "--number", "x=0,1", "--category",
             "kind=kinds.txt", "--epsilon", "4"]  # fmt: skip
    drawn = ["--drawn-by", "shuffler", "--expected", "24000"]
    how = drawn if noise == "dummies" else ["--min-reports", "20000"]
    assert run([*asked, *how, "--output", "out"]).code == 0
    release = Release(Path("out"))
    found = release.table("frequencies.parquet")
    assert found["value"].to_pylist() == ["a", "b", "c"]
    for row in found.to_pylist():
        far = reach(row["standard_error"], 1 / 24_000)
        assert abs(row["unbiased"] - 1 / 4) <= far < 1 / 12  # a third would show
        assert abs(row["rows"] - 6000) <= reach(row["rows_standard_error"])
        assert row["lower_simultaneous"] <= row["lower"] <= row["upper"]
    assert "is of all units, also of those without a value." in release.page
