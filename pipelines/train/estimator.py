"""A trained model as a plain scikit-learn estimator.

It holds nothing but scikit-learn's, numpy's and Python's own objects, so that it loads where
hushbeam is not, and it predicts from columns as they are in the log. scikit-learn and scipy.stats,
which it imports, took 0.7 of 3.5 CPU seconds of a model by sums, to write a few names and weights:
so they are never imported here. The file says which public calls make the estimator; whoever loads
it executes them.
"""

from __future__ import annotations

import json
import pickle  # noqa: TID251 - written alone, for joblib: nothing here loads one
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.metadata import version
from itertools import groupby
from operator import methodcaller
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.learning.objective import Objective
from mechanisms.learning.objectives import Hinge, SquaredError
from mechanisms.learning.perceptron import Perceptron
from pipelines.train.schema import Schema, values
from transforms.encoders.attributes import Category, Number, NumberList

_PROTOCOL = 3  # the last one that writes a name in one opcode, and numbers what it refers to


class _Call(NamedTuple):
    """An object that is made when a file is loaded.

    Attributes:
        function: a public name of scikit-learn, as "linear_model.Ridge", or a method.
        arguments: of the call.
        state: attributes that it gets then.
    """

    function: str | methodcaller
    arguments: Sequence[Any] = ()
    state: Mapping[str, Any] | None = None


def as_joblib(schema: Schema, objective: Objective, weights: Floats) -> bytes:
    """model.joblib: what `joblib.load` reads wherever scikit-learn is, hushbeam or not.

    It loads as a fitted `Pipeline` of a `ColumnTransformer` and a predictor, which takes a table
    whose columns are `schema.columns`, in this order: a data frame, or an array of objects.

    Args:
        schema: the columns.
        objective: the model.
        weights: (parameters,) of the model.

    Raises:
        ValueError: the model has other columns.

    Source: what is written are opcodes of Python's `pickletools`; joblib reads any pickle that zlib
        has compressed.
    """
    if schema.features.inputs != objective.inputs:
        raise ValueError("the model was fitted to other columns")
    # Fitted to the declared ends, which are public: fitted to rows it would hold what they held.
    columns = _Call(methodcaller("fit", _sample(schema)), [_preprocessing(schema)])
    layers = [np.array(layer, np.float64) for layer in objective.matrices(weights, np.empty(0))]
    if schema.bounds is not None:
        layers[-1] = _unscaled_output(layers[-1], *schema.bounds)
    predictor = _predictor(objective, layers, schema.classes)
    whole = _Call("pipeline.Pipeline", [[("columns", columns), ("model", predictor)]])
    return zlib.compress(pickle.PROTO + bytes([_PROTOCOL]) + _opcodes(whole) + pickle.STOP, 3)


def _opcodes(value: Any) -> bytes:
    """What puts a value, or what a call makes, on the stack of whoever loads it."""
    if isinstance(value, _Call):
        name, state = value.function, value.state
        function = _name(name) if isinstance(name, str) else _opcodes(name)
        called = function + _opcodes(tuple(value.arguments)) + pickle.REDUCE
        return called if state is None else called + _opcodes(state) + pickle.BUILD
    if isinstance(value, (list, tuple)):
        end = pickle.LIST if isinstance(value, list) else pickle.TUPLE
        return pickle.MARK + b"".join(map(_opcodes, value)) + end
    return pickle.dumps(value, _PROTOCOL)[2:-1]  # between the protocol and the stop


def _name(text: str) -> bytes:
    module, _, name = text.rpartition(".")
    return pickle.GLOBAL + f"sklearn.{module}\n{name}\n".encode()


def _with(name: str, *arguments: Any, **parameters: Any) -> _Call:
    """An unfitted estimator, with parameters that only have a name."""
    return _Call(methodcaller("set_params", **parameters), [_Call(name, arguments)])


def _unscaled_output(layer: Floats, low: float, high: float) -> Floats:
    """A last layer that gives numbers in units of the target, rather than of [-1, 1]."""
    half = high / 2 - low / 2
    layer = layer * half
    layer[-1] += low + half
    return layer


def _preprocessing(schema: Schema) -> _Call:
    """What takes recorded columns to the rows of the model, not yet fitted."""
    steps: list[tuple[str, Any, Any]] = []
    for sort, group in groupby(enumerate(schema.attributes), lambda pair: type(pair[1])):
        members = list(group)
        places, attributes = [place for place, _ in members], [member for _, member in members]
        if sort is Number:
            steps.append((f"numbers {len(steps)}", _scaler(), places))
        elif sort is Category:
            declared = [np.array(_objects(schema, attribute), object) for attribute in attributes]
            encoder = _with(
                "preprocessing.OneHotEncoder", categories=declared, drop="first",
                sparse_output=False,
            )  # fmt: skip
            steps.append((f"categories {len(steps)}", encoder, places))
        else:  # one by one: each is a matrix of its own
            steps += [(member.column, _list(schema, member), place) for place, member in members]
    return _Call("compose.ColumnTransformer", [steps])


def _scaler() -> _Call:
    return _with("preprocessing.MinMaxScaler", (-1, 1), clip=True)


def _objects(schema: Schema, category: Any) -> list[Any]:
    return values(category.domain, schema.kinds[category.column])


def _list(schema: Schema, attribute: Any) -> _Call:
    """A column of lists, or of bytes, to a matrix scaled to [-1, 1]."""
    if not _is_binary(schema.kinds[attribute.column]):
        return _Call("pipeline.make_pipeline", [_step(np.stack), _scaler()])
    # Functions are pickled by name, so each must be one that any Python with numpy has.
    length = attribute.length
    unpacked = (
        np.asarray,
        methodcaller("astype", f"S{length}"),
        methodcaller("view", "u1"),
        methodcaller("reshape", (-1, length)),
        # No scaler: it is fitted to ends, and bounds may be numbers that bytes cannot be.
        partial(np.interp, xp=[*attribute.bounds], fp=[-1.0, 1.0]),
    )
    return _Call("pipeline.make_pipeline", [*map(_step, unpacked)])


def _step(function: Any) -> _Call:
    return _Call("preprocessing.FunctionTransformer", [function])


def _is_binary(kind: pa.DataType) -> bool:
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return any(test(kind) for test in tests)


def _sample(schema: Schema) -> NDArray[Any]:
    """Two rows that have all that scikit-learn wants to learn of columns: the declared ends."""
    sample = np.empty((2, len(schema.attributes)), object)
    for place, attribute in enumerate(schema.attributes):
        if isinstance(attribute, Category):
            sample[:, place] = _objects(schema, attribute)[0]
            continue
        for row, end in enumerate(attribute.bounds):
            sample[row, place] = (
                np.full(attribute.width, end) if isinstance(attribute, NumberList) else end
            )
    for place, attribute in enumerate(schema.attributes):
        if isinstance(attribute, NumberList) and _is_binary(schema.kinds[attribute.column]):
            sample[:, place] = [bytes(attribute.length)] * 2
    return sample


def _predictor(objective: Objective, layers: Sequence[Floats], classes: list[Any] | None) -> _Call:
    """scikit-learn's estimator of the same kind, with these weights."""
    if isinstance(objective, Perceptron):
        return _network(objective, layers, classes)
    table, intercept = layers[0][:-1].T, layers[0][-1]
    if classes is None:
        linear = ("Ridge", [objective.penalty]) if objective.penalty else ("LinearRegression", [])
        name, arguments = linear
        fitted = {"coef_": table[0], "intercept_": float(intercept[0])}
        return _Call(f"linear_model.{name}", arguments, _state(fitted, table.shape[1]))
    name = "svm.LinearSVC" if isinstance(objective, Hinge) else "linear_model.LogisticRegression"
    fitted = {"coef_": table, "intercept_": intercept, "classes_": np.array(classes)}
    return _Call(name, (), _state(fitted, table.shape[1]))


def _state(fitted: Mapping[str, Any], inputs: int) -> dict[str, Any]:
    """Of an estimator in a pickle, which warns whoever loads it by another scikit-learn."""
    return {**fitted, "n_features_in_": inputs, "_sklearn_version": version("scikit-learn")}


def _network(objective: Perceptron, layers: Sequence[Floats], classes: list[Any] | None) -> _Call:
    """A network that took one step on nothing, so that it is whole, and is then given weights."""
    rows = np.zeros((len(classes or [0, 1]), objective.inputs - 1))
    network = _with(
        "neural_network.MLPRegressor" if classes is None else "neural_network.MLPClassifier",
        hidden_layer_sizes=objective.hidden, activation=objective.activation, random_state=0,
    )  # fmt: skip
    *inner, last = layers
    step = methodcaller("partial_fit", rows, [0.0, 1.0])
    if classes is not None:
        step = methodcaller("partial_fit", rows, classes, classes=classes)
        last = last[:, np.argsort(np.array(classes))]  # as scikit-learn has them
        if len(classes) == 2:  # scikit-learn has one output then: softmax of two is its logistic
            last = last[:, 1:] - last[:, :1]
    fitted = {
        "coefs_": [layer[:-1] for layer in (*inner, last)],
        "intercepts_": [layer[-1] for layer in (*inner, last)],
    }
    return _Call(step, [network], _state(fitted, objective.inputs - 1))


FORMAT = 1
"""The version of model.json; later ones only gain fields."""


def as_json(
    schema: Schema, objective: Objective, weights: Floats, versions: Mapping[str, str]
) -> bytes:
    """model.json: all that predicting needs, and how it is done."""
    layers = objective.matrices(weights, np.empty(0))
    model: dict[str, Any] = {
        "format": "hushbeam model",
        "format_version": FORMAT,
        "model": kind(objective),
        "columns": schema.columns,
        "features": schema.features.as_dict(),
        "layers": [
            {"weights": layer[:-1].tolist(), "intercept": layer[-1].tolist()} for layer in layers
        ],
        "target": {"column": schema.target.column},
        "how": _how(schema, objective),
        "versions": dict(versions),
    }
    if schema.bounds is not None:
        model["target"] |= dict(zip(("low", "high"), schema.bounds, strict=True))
    else:
        model["target"]["classes"] = schema.classes
    if isinstance(objective, Perceptron):
        model["activation"] = objective.activation
    else:
        slopes, intercept = schema.features.unscaled(layers[0], schema.bounds)
        model["as_recorded"] = {
            "weights": slopes.tolist(),
            "intercept": intercept.tolist(),
            "names": list(schema.features.names[:-1]),
        }
    return (json.dumps(model, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def kind(objective: Objective) -> str:
    """What sort of model it is, in words."""
    if isinstance(objective, SquaredError):
        return "ridge regression" if objective.penalty else "linear regression"
    if isinstance(objective, Hinge):
        return "linear support vector machine"
    if isinstance(objective, Perceptron):
        return "multilayer perceptron"
    return "logistic regression"


def _how(schema: Schema, objective: Objective) -> str:
    """How to predict from the fields of the file, for whoever writes the program."""
    steps = [
        "clip each number to its bounds and scale it by 2 (x - low) / (high - low) - 1",
        "append for each category one number for each value but the first: 1 for the row's value",
        "multiply by each layer's weights and add its intercept",
    ]
    if isinstance(objective, Perceptron):
        steps[-1] += ", with the activation between layers"
    if schema.classes is None:
        steps.append("the score s tells low + (s + 1) (high - low) / 2")
    elif objective.loss.outputs == 1:
        steps.append("a score above 0 tells the second class, otherwise the first")
    else:
        steps.append("the largest score tells the class")
    return "; ".join(steps)
