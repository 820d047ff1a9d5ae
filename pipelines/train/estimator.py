"""A trained model as a plain scikit-learn estimator.

It holds nothing but scikit-learn's, numpy's and Python's own objects, so that it loads where
hushbeam is not, and it predicts from columns as they are in the log.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import methodcaller
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.learning.objective import Objective
from mechanisms.learning.objectives import Hinge, SquaredError
from mechanisms.learning.perceptron import Perceptron
from pipelines.train.schema import Schema, values
from transforms.encoders.attributes import Category, Number, NumberList


def as_joblib(schema: Schema, objective: Objective, weights: Floats) -> bytes:
    """model.joblib: what `joblib.load` reads wherever scikit-learn is, hushbeam or not."""
    import joblib

    buffer = io.BytesIO()
    joblib.dump(estimator(schema, objective, weights), buffer, compress=3)
    return buffer.getvalue()


def estimator(schema: Schema, objective: Objective, weights: Floats) -> Any:
    """A scikit-learn Pipeline that predicts what the model does, from columns as recorded.

    Args:
        schema: the columns.
        objective: the model.
        weights: (parameters,) of the model.

    Returns:
        A fitted `Pipeline` of a `ColumnTransformer` and a predictor. It takes a table whose
        columns are `schema.columns`, in this order: a data frame, or an array of objects.
    """
    from sklearn.pipeline import Pipeline

    sample = _sample(schema)
    # Fitted to the declared ends, which are public: fitted to rows it would hold what they held.
    columns = _preprocessing(schema).fit(sample)
    for attribute in schema.attributes:  # bounds may be numbers that bytes cannot be
        if isinstance(attribute, NumberList):
            columns.named_transformers_[attribute.column][-1].fit(_ends(attribute))
    width = columns.transform(sample).shape[1]
    if width != objective.inputs - 1:
        raise ValueError("the model was fitted to other columns")
    layers = [np.array(layer, np.float64) for layer in objective.matrices(weights, np.empty(0))]
    if schema.bounds is not None:
        layers[-1] = _unscaled_output(layers[-1], *schema.bounds)
    predictor = _predictor(objective, layers, schema.classes)
    return Pipeline([("columns", columns), ("model", predictor)])


def _unscaled_output(layer: Floats, low: float, high: float) -> Floats:
    """A last layer that gives numbers in units of the target, rather than of [-1, 1]."""
    half = high / 2 - low / 2
    layer = layer * half
    layer[-1] += low + half
    return layer


def _preprocessing(schema: Schema) -> Any:
    """What takes recorded columns to the rows of the model, not yet fitted."""
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

    steps: list[tuple[str, Any, Any]] = []
    for sort, group in groupby(enumerate(schema.attributes), lambda pair: type(pair[1])):
        members = list(group)
        places, attributes = [place for place, _ in members], [member for _, member in members]
        if sort is Number:
            steps.append((f"numbers {len(steps)}", MinMaxScaler((-1, 1), clip=True), places))
        elif sort is Category:
            declared = [np.array(_objects(schema, attribute), object) for attribute in attributes]
            encoder = OneHotEncoder(categories=declared, drop="first", sparse_output=False)
            steps.append((f"categories {len(steps)}", encoder, places))
        else:  # one by one: each is a matrix of its own
            steps += [(member.column, _list(schema, member), place) for place, member in members]
    return ColumnTransformer(steps)


def _objects(schema: Schema, category: Any) -> list[Any]:
    return values(category.domain, schema.kinds[category.column])


def _list(schema: Schema, attribute: Any) -> Any:
    """A column of lists, or of bytes, to a matrix scaled to [-1, 1]."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, MinMaxScaler

    scaler = MinMaxScaler((-1, 1), clip=True)
    if not _is_binary(schema.kinds[attribute.column]):
        return make_pipeline(FunctionTransformer(np.stack), scaler)
    # Functions are pickled by name, so each must be one that any Python with numpy has.
    length = attribute.length
    unpacked = (
        np.asarray,
        methodcaller("astype", f"S{length}"),
        methodcaller("view", "u1"),
        methodcaller("reshape", (-1, length)),
    )
    return make_pipeline(*(FunctionTransformer(step) for step in unpacked), scaler)


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


def _ends(attribute: NumberList) -> Floats:
    """Two rows that hold the least and the largest numbers of a list."""
    return np.repeat(np.array(attribute.bounds)[:, None], attribute.length, axis=1)


def _predictor(objective: Objective, layers: Sequence[Floats], classes: list[Any] | None) -> Any:
    """scikit-learn's estimator of the same kind, with these weights."""
    from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
    from sklearn.svm import LinearSVC

    if isinstance(objective, Perceptron):
        return _network(objective, layers, classes)
    table, intercept = layers[0][:-1].T, layers[0][-1]
    if classes is None:
        predictor = Ridge(objective.penalty) if objective.penalty else LinearRegression()
        predictor.coef_, predictor.intercept_ = table[0], float(intercept[0])
    else:
        predictor = LinearSVC() if isinstance(objective, Hinge) else LogisticRegression()
        predictor.coef_, predictor.intercept_ = table, intercept
        predictor.classes_ = np.array(classes)
    predictor.n_features_in_ = table.shape[1]
    return predictor


def _network(objective: Perceptron, layers: Sequence[Floats], classes: list[Any] | None) -> Any:
    """A network that was fitted to nothing, so that it is whole, and then given weights."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    rows = np.zeros((len(classes or [0, 1]), objective.inputs - 1))
    sort = MLPRegressor if classes is None else MLPClassifier
    predictor = sort(
        hidden_layer_sizes=objective.hidden, activation=objective.activation, max_iter=1,
        random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        predictor.fit(rows, [0.0, 1.0] if classes is None else classes)
    *inner, last = layers
    if classes is not None:
        last = last[:, [classes.index(label) for label in predictor.classes_.tolist()]]
        if len(classes) == 2:  # scikit-learn has one output then: softmax of two is its logistic
            last = last[:, 1:] - last[:, :1]
    predictor.coefs_ = [layer[:-1] for layer in (*inner, last)]
    predictor.intercepts_ = [layer[-1] for layer in (*inner, last)]
    return predictor


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
