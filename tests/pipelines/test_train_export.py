"""A model's two forms: both predict what the model does, and neither needs hushbeam."""

from __future__ import annotations

import io
import json
import pickletools
import subprocess
import sys
import zlib
from pathlib import Path

import joblib
import numpy as np
import pyarrow as pa
import pytest

from mechanisms.learning.objectives import Hinge, Logistic, Softmax, SquaredError
from mechanisms.learning.perceptron import Perceptron
from pipelines.train.estimator import as_joblib, as_json, kind
from pipelines.train.schema import Schema, values
from tests.oracles.encoders import encode_table
from transforms.encoders.attributes import Category, Number, NumberList
from transforms.encoders.bounds import Bounds
from transforms.encoders.domain import DeclaredValues, IntegerRange
from transforms.encoders.rows import RowEncoder
from transforms.rows.encode import Examples

N = 60
ATTRIBUTES = (
    Number("a", Bounds(0.0, 10.0)),
    Number("b", Bounds(-3.0, 8.0)),
    NumberList("list", 3, Bounds(-1.0, 1.0)),
    NumberList("bytes", 4, Bounds(10.0, 300.0)),
    Category("text", DeclaredValues(("z", "x", "y"))),
    Category("number", IntegerRange(-1, 2)),
    Category("flag", DeclaredValues(("true", "false"))),
)
TARGETS = {
    "value": Number("value", Bounds(-30.0, 20.0)),
    "two": Category("two", DeclaredValues(("yes", "no"))),
    "many": Category("many", IntegerRange(3, 6)),
}
MODELS = {
    "linear": ("value", lambda inputs: SquaredError(inputs)),
    "ridge": ("value", lambda inputs: SquaredError(inputs, 0.5)),
    "network of numbers": ("value", lambda inputs: Perceptron(inputs, (5,))),
    "logistic": ("two", lambda inputs: Logistic(inputs)),
    "svm": ("two", lambda inputs: Hinge(inputs)),
    "network of two": ("two", lambda inputs: Perceptron(inputs, (4,), 2, "relu")),
    "softmax": ("many", lambda inputs: Softmax(inputs, 0.0, 4)),
    "network of many": ("many", lambda inputs: Perceptron(inputs, (6, 4), 4)),
}


def log() -> pa.Table:
    """Rows of every kind; numbers reach beyond their bounds."""
    rng = np.random.default_rng(4)
    return pa.table(
        {
            "a": rng.normal(5, 4, N),
            "b": rng.integers(-5, 9, N),
            "list": pa.array(list(rng.normal(0, 2, (N, 3)))),
            "bytes": pa.array(
                [bytes(row) for row in rng.integers(0, 256, (N, 4), np.uint8)], pa.binary()
            ),
            "text": np.array(["x", "y", "z"])[rng.integers(0, 3, N)],
            "number": rng.integers(-1, 3, N),
            "flag": rng.integers(0, 2, N) > 0,
            "value": rng.normal(0, 20, N),
            "two": np.array(["no", "yes"])[rng.integers(0, 2, N)],
            "many": rng.integers(3, 7, N),
        }
    )


TABLE = log()


def schema(target: str) -> Schema:
    return Schema(ATTRIBUTES, TARGETS[target], {each.name: each.type for each in TABLE.schema})


def recorded(columns: list[str]) -> np.ndarray:
    """The columns as Python has them, which is what an estimator takes."""
    table = np.empty((N, len(columns)), object)
    for place, column in enumerate(columns):
        table[:, place] = TABLE[column].to_pylist()
    return table


def truth(target: str, objective, weights) -> np.ndarray:
    """What the model itself says of the same rows, encoded as the pipeline does."""
    made = schema(target)
    block, _ = encode_table(RowEncoder((*ATTRIBUTES, TARGETS[target])), TABLE)
    rows, _ = Examples(made.features, made.classes is not None)(block)
    told = objective.predict(weights, rows.astype(np.float64))
    if made.classes is None:
        return -30.0 + (told + 1) * 25.0
    return np.array(made.classes, object)[told]


@pytest.fixture(params=list(MODELS))
def model(request):
    target, build = MODELS[request.param]
    objective = build(schema(target).features.inputs)
    weights = np.random.default_rng(9).normal(size=objective.parameters)
    return target, objective, weights


def test_the_estimator_predicts_what_the_model_does(model):
    target, objective, weights = model
    made = joblib.load(io.BytesIO(as_joblib(schema(target), objective, weights)))
    told, expected = made.predict(recorded(schema(target).columns)), truth(*model)
    if target == "value":
        # The pipeline's rows are single precision.
        np.testing.assert_allclose(told, expected, atol=2e-5)
    else:
        np.testing.assert_array_equal(told, expected)
        assert len(set(told.tolist())) > 1


def from_json(text: bytes, table: pa.Table) -> list:
    """A reader of model.json that knows nothing but what the file says."""
    told = json.loads(text)
    parts = []
    for each in told["features"]["numbers"]:
        name, _, index = each["name"].rstrip("]").partition("[")
        column = table[name].to_pylist()
        numbers = np.array([row[int(index)] if index else row for row in column], float)
        clipped = np.clip(numbers, each["low"], each["high"])
        parts.append(2 * (clipped - each["low"]) / (each["high"] - each["low"]) - 1)
    for each in told["features"]["categories"]:
        column = [str(value).lower() for value in table[each["name"]].to_pylist()]
        parts += [np.array([row == value for row in column], float) for value in each["values"][1:]]
    rows = np.stack(parts, axis=1)
    *inner, last = told["layers"]
    for layer in inner:
        rows = rows @ np.array(layer["weights"]) + layer["intercept"]
        rows = np.tanh(rows) if told["activation"] == "tanh" else np.maximum(rows, 0)
    scores = rows @ np.array(last["weights"]) + last["intercept"]
    target = told["target"]
    if "low" in target:
        return target["low"] + (scores[:, 0] + 1) * (target["high"] - target["low"]) / 2
    places = scores[:, 0] > 0 if scores.shape[1] == 1 else scores.argmax(axis=1)
    return [target["classes"][int(place)] for place in places]


def test_the_file_for_any_program_says_enough_to_predict(model):
    target, objective, weights = model
    text = as_json(schema(target), objective, weights, {"hushbeam": "0"})
    told = from_json(text, TABLE)
    if target == "value":
        np.testing.assert_allclose(told, truth(*model), atol=2e-5)
    else:
        assert told == truth(*model).tolist()
    assert json.loads(text)["model"] == kind(objective)


def test_weights_as_recorded_need_no_scaling():
    objective = SquaredError(schema("value").features.inputs)
    weights = np.random.default_rng(6).normal(size=objective.parameters)
    told = json.loads(as_json(schema("value"), objective, weights, {}))["as_recorded"]
    slopes = dict(zip(told["names"], np.array(told["weights"])[:, 0], strict=True))
    # Numbers within their bounds move predictions by their weight.
    scaled = objective.matrices(weights, np.empty(0))[0][:, 0] * 25
    assert slopes["a"] == pytest.approx(scaled[0] / 5)
    assert slopes["b"] == pytest.approx(scaled[1] / 5.5)
    assert slopes["text=x"] == pytest.approx(scaled[9])


# No path to the checkout, and an import hook that refuses it by name.
STRANGER = """
import sys
sys.path[:] = [path for path in sys.path if path not in ("", sys.argv[1])]
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("hushbeam", "mechanisms", "transforms", "pipelines"):
            raise ModuleNotFoundError(name)
        if name.startswith("__editable__"):
            return None
sys.meta_path.insert(0, Refuse())
for name in ("mechanisms", "pipelines"):
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    sys.exit("hushbeam is there")
import joblib, numpy
rows = numpy.load("rows.npy", allow_pickle=True)
for name in sys.argv[2:]:
    model = joblib.load(name + ".joblib")
    numpy.save(name + ".npy", numpy.asarray(model.predict(rows)), allow_pickle=True)
"""


def test_estimators_load_where_hushbeam_is_not(tmp_path: Path):
    expected = {}
    for number, (target, build) in enumerate(MODELS.values()):
        objective = build(schema(target).features.inputs)
        weights = np.random.default_rng(number).normal(size=objective.parameters)
        (tmp_path / f"m{number}.joblib").write_bytes(as_joblib(schema(target), objective, weights))
        made = joblib.load(tmp_path / f"m{number}.joblib")
        expected[f"m{number}"] = made.predict(recorded(schema(target).columns))
    np.save(tmp_path / "rows.npy", recorded(schema("two").columns), allow_pickle=True)
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", STRANGER, root, *expected],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for name, told in expected.items():
        found = np.load(tmp_path / f"{name}.npy", allow_pickle=True)
        if told.dtype.kind == "f":
            np.testing.assert_allclose(found, told, rtol=1e-12)
        else:
            np.testing.assert_array_equal(found, told)


def test_the_columns_must_be_those_of_the_model():
    objective = SquaredError(3)
    with pytest.raises(ValueError, match="fitted to other columns"):
        as_joblib(schema("value"), objective, np.zeros(3))


def test_values_are_what_python_reads():
    assert values(DeclaredValues(("1", "2")), pa.int32()) == [1, 2]
    assert values(DeclaredValues(("1", "2")), pa.string()) == ["1", "2"]
    assert values(DeclaredValues(("false",)), pa.bool_()) == [False]
    dictionary = pa.dictionary(pa.int8(), pa.string())
    assert values(DeclaredValues(("x",)), dictionary) == ["x"]


def test_a_file_names_public_parts_alone(model):
    """Names with an underscore move from one version of scikit-learn to the next."""
    target, objective, weights = model
    text = zlib.decompress(as_joblib(schema(target), objective, weights))
    names = [name for code, name, _ in pickletools.genops(text) if code.name == "GLOBAL"]
    assert "sklearn.pipeline Pipeline" in names
    parts = [part for name in names if name.startswith("sklearn") for part in name.split(".")]
    assert not [part for part in parts if part.startswith("_")]


def test_a_model_is_written_without_scikit_learn():
    """To import it takes longer than to train by sums."""
    written = (
        "import sys\n"
        "from tests.pipelines import test_train_export as its\n"
        "for name, (target, build) in its.MODELS.items():\n"
        "    made = build(its.schema(target).features.inputs)\n"
        "    its.as_joblib(its.schema(target), made, its.np.zeros(made.parameters))\n"
        "import pipelines.train.publish\n"
        "print([name for name in ('sklearn', 'scipy.stats') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", written], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
