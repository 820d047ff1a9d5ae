"""A request for the average row held against its input: what is decided before a row is read."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.mean.public_groups import PublicGroups
from mechanisms.vector.mixed_rows import MixedRows
from mechanisms.vector.sampled import SampledCoordinates
from pipelines.errors import RequestError
from pipelines.logs.inputs import open_telemetry
from pipelines.logs.row_attributes import read_attributes
from pipelines.metrics.metric import columns_read
from pipelines.metrics.resolving import resolve
from pipelines.metrics.statistics.row_evidence import CoordinateScale
from pipelines.metrics.vector_mean.options import VectorMeanOptions
from transforms.elements.conservation import Batches, Shuffled
from transforms.encoders.attributes import Category, Number, NumberList
from transforms.encoders.bounds import Bounds
from transforms.encoders.domain import IntegerRange

ROWS = 2000


def columns(**changes) -> pa.Table:
    rows = range(ROWS)
    held = {
        "f0": [float(k) for k in rows], "f1": [k % 5 for k in rows], "other": [0.5] * ROWS,
        "v": pa.array([[0.0, 1.0, 2.0]] * ROWS),
        "fixed": pa.array([[1, 2]] * ROWS, pa.list_(pa.int8(), 2)),
        "raw": [b"ab"] * ROWS, "c": ["x", "y"] * (ROWS // 2), "k": [k % 3 for k in rows],
        "u": list(rows), "tags": [["x"]] * ROWS,
    } | changes  # fmt: skip
    return pa.table({name: values for name, values in held.items() if values is not None})


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    pq.write_table(columns(), path)
    return str(path)


@pytest.fixture
def job(log, tmp_path):
    def job(**asked):
        defaults = {"input": (log,), "epsilon": 1.0, "model": "local",
                    "output": str(tmp_path / "out")}  # fmt: skip
        return resolve(VectorMeanOptions(**(defaults | asked)))

    return job


# ---- what a row consists of ----------------------------------------------------------------------


def test_attributes_come_in_order_and_globs_in_that_of_the_file(log):
    found = read_attributes(
        ["other=0,1", "f?=0,10"], ["v=3:-5,5"], ["k=0..2"], open_telemetry((log,))
    )
    assert found == (
        Number("other", Bounds(0, 1)),
        Number("f0", Bounds(0, 10)),
        Number("f1", Bounds(0, 10)),
        NumberList("v", 3, Bounds(-5, 5)),
        Category("k", IntegerRange(0, 2)),
    )


def test_a_name_that_looks_like_a_glob_is_that_column(tmp_path):
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"a[1]": [1.0], "a=b": [1.0], "a1": [1.0]}), path)
    found = read_attributes(["a[1]=0,1", "a=b=0,1"], [], [], open_telemetry((str(path),)))
    assert [each.column for each in found] == ["a[1]", "a=b"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((["f0"], [], []), "--number must be COLUMN=L,U"),
        ((["=0,1"], [], []), "--number must be COLUMN=L,U"),
        ((["f0=0"], [], []), "--number f0=0: the bounds must be two numbers"),
        ((["f0=5,1"], [], []), "the first must be below the second"),
        ((["f0=0,nan"], [], []), "must be finite"),
        ((["z*=0,1"], [], []), "no column matches 'z\\*'; it has: f0"),
        ((["zz=0,1"], [], []), "has no column 'zz'"),
        ((["v=0,1"], [], []), "'v' holds list<.*>; numbers are needed"),
        ((["*=0,1"], [], []), "'v' holds list<.*>; .*'\\*' matches it"),
        ((["f0=0,1", "f?=0,1"], [], []), "column 'f0' is named twice"),
        ((["k=0,1"], [], ["k=0..2"]), "column 'k' is named twice"),
        (([], ["v=0,1"], []), "--vector must be COLUMN=LENGTH:L,U"),
        (([], ["v=0:0,1"], []), "the length must be a whole number of 1 .. 1,048,576.*not '0'"),
        (([], ["v=-3:0,1"], []), "the length must be a whole number"),
        (([], ["v=9999999:0,1"], []), "the length must be a whole number"),
        (([], ["v=x:0,1"], []), "the length must be a whole number"),
        (([], ["v=3:1,0"], []), "--vector v=3:1,0: the bounds: the first must be below"),
        (([], ["f0=3:0,1"], []), "'f0' holds double; lists of 3 numbers are needed"),
        (([], ["tags=1:0,1"], []), "'tags' holds list<.*string>; lists"),
        (([], ["fixed=3:0,1"], []), "'fixed' holds lists of 2 int8; lists of 3"),
        (([], [], ["k"]), "--category must be COLUMN=FILE"),
        (([], [], ["k="]), "--category must be COLUMN=FILE"),
        (([], [], ["k=3..1"]), "--category: 'k': 3..1 is empty"),
        (([], [], ["k=1..1"]), "--category: 'k': 1 declared, and at least 2 values are needed$"),
        (([], [], ["f0=0..3"]), "--category: 'f0': the column holds double"),
        (([], [], ["k=no.txt"]), "--category: 'k': no.txt is neither"),
        (([], [], []), "what a row consists of is missing"),
        ((["f0=0,1"], ["v=1048576:0,1"], []), "1,048,577 numbers are more than 1,048,576"),
    ],
)  # fmt: skip
def test_refuses_what_is_no_row(log, asked, expected):
    with pytest.raises(RequestError, match=expected) as caught:
        read_attributes(*asked, open_telemetry((log,)))
    assert "\n" not in str(caught.value)


def test_files_that_disagree_are_refused(tmp_path):
    for name, changes in (("a", {}), ("b", {"f0": ["x"] * ROWS}), ("c", {"f1": None})):
        pq.write_table(columns(**changes), tmp_path / f"{name}.parquet")
    with pytest.raises(
        RequestError, match=r"'f0' holds numbers \(double\) in .*a.parquet but text"
    ):
        read_attributes(["f0=0,1"], [], [], open_telemetry((f"{tmp_path}/[ab].parquet",)))
    with pytest.raises(RequestError, match=r"c.parquet has no column 'f1'"):
        read_attributes(["f*=0,1"], [], [], open_telemetry((f"{tmp_path}/[ac].parquet",)))


# ---- the job -------------------------------------------------------------------------------------


def test_few_coordinates_are_picked(job):
    made = job(number=("f?=0,10",), vector=("v=3:-5,5",))
    assert made.design.name == "multi_optimal"
    assert len(made.statistic.coordinates) == made.rows.dimension == 5
    assert isinstance(made.sampled, SampledCoordinates)
    assert isinstance(made.picked, PublicGroups)
    assert made.picked.codes == made.mechanism.codes
    scale = CoordinateScale.of(made.statistic.attributes)
    assert scale.low.tolist() == [0, 0, -5, -5, -5]
    assert scale.half.tolist() == [5] * 5
    assert (made.min_reports, made.protection.messages, made.radius) == (1, 1, None)
    released, local = made.guarantees
    assert released == local
    assert (released.model, released.epsilon, released.delta) == ("local", 1.0, 0.0)
    there = pickle.loads(pickle.dumps(made))  # without the names of files
    assert replace(there, telemetry=made.telemetry) == made
    assert columns_read(made) == {"f0", "f1", "v"}
    assert made.shuffling.passed.least == 0  # nothing shuffles them


@pytest.mark.parametrize("name", ["meanest", "laplace_vector", "multi_rphm"])
def test_whole_rows_travel_where_more_is_needed(job, name):
    made = job(vector=("v=3:-5,5",), mechanism=name, user_column="u", unusable="count")
    assert made.sampled is made.picked is None
    assert columns_read(made) == {"v", "u"}
    assert made.guarantees[0].unit == "user"


def test_projections_come_with_a_warning(job):
    asked = {"vector": ("v=3:0,1",)}
    assert (
        "intervals do not cover it"
        in job(**asked, mechanism="multi_rphm", unusable="count").cautions[0]
    )
    assert job(**asked).cautions == []


def test_rows_in_a_ball(job):
    made = job(vector=("v=3:-5,5",), mechanism="privunit", radius=0.5, unusable="count")
    assert made.radius == made.mechanism.radius == 0.5
    assert made.picked is None


def test_a_shuffled_batch_hides_more(job):
    made = job(number=("f?=0,10",), model="shuffle", epsilon=None, epsilon_local=2.0)
    released, local = made.guarantees
    assert (released.model, released.delta) == ("shuffle", 1e-6)
    assert released.epsilon < 1.0 < local.epsilon <= 2.0
    assert made.min_reports == made.design.target.n == 1980
    assert made.shuffling.passed == Shuffled(1980, Batches(made.mechanism.codes))


def test_rows_with_categories(job, tmp_path):
    (tmp_path / "c.txt").write_text("x\ny\n")
    made = job(number=("f?=0,10",), category=("k=0..2", f"c={tmp_path}/c.txt"))
    assert isinstance(made.mechanism, MixedRows)
    assert made.mechanism.numeric.tolist() == [True, True, False, False]
    assert made.picked is None
    assert made.statistic.coordinates == ["f0", "f1"]


def test_a_prior_is_read(job, tmp_path):
    (tmp_path / "prior.txt").write_text("1\n2.5\n-3e0\n")
    made = job(vector=("v=3:-5,5",), shrink="prior", prior=str(tmp_path / "prior.txt"))
    np.testing.assert_array_equal(made.prior, [1, 2.5, -3])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1\n2\n", "holds 2 lines; one number a line is needed for each of 3"),
        ("1\n2\n3\n4\n", "holds 4 lines"),
        ("1\nx\n3\n", "line 2 of .* is not a finite number"),
        ("1\n2\nnan\n", "line 3 of .* is not a finite number"),
        ("1\n2\ninf\n", "line 3"),
        (None, "is not a text file that can be read"),
    ],
)
def test_a_prior_that_is_none_is_refused(job, tmp_path, text, expected):
    path = tmp_path / "prior.txt"
    if text is not None:
        path.write_text(text)
    with pytest.raises(RequestError, match=f"--prior: .*{expected}"):
        job(vector=("v=3:-5,5",), shrink="prior", prior=str(path))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"shrink": "prior"}, "--shrink prior and --prior go together"),
        ({"prior": "p.txt"}, "--shrink prior and --prior go together"),
        ({"vector": (), "category": ("k=0..2",)}, "categories alone are what `hushbeam histogram`"),
        ({"category": ("k=0..2",), "mechanism": "meanest"}, "leave --mechanism at auto"),
        ({"category": ("k=0..2",), "radius": 1.0}, "leave --mechanism at auto, and out --radius"),
        ({"user_column": "f0"}, "--user-column: 'f0' holds double"),
        ({"user_column": "u", "model": "shuffle"}, "--min-reports is missing"),
        ({"mechanism": "meanest"}, "cannot hide that a number is missing; use --unusable fill="),
        ({"category": ("k=0..2",), "unusable": "fill=1"}, "no number can stand in the place"),
        ({"unusable": "fill=a"}, "name a finite number"),
        ({"mechanism": "magic"}, "unknown mechanism 'magic'; there are: multi_optimal"),
        ({"epsilon": None}, "epsilon is missing"),
        ({"delta": 1e-6}, "delta must be 0 in the local model"),
        ({"input": ("none.parquet",)}, "no file matches"),
    ],
)
def test_refuses(job, asked, expected):
    with pytest.raises(RequestError, match=expected) as caught:
        job(**({"vector": ("v=3:-5,5",)} | asked))
    assert "\n" not in str(caught.value)
