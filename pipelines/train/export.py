"""A trained model as a JSON file, from which any program can predict."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from mechanisms.channel import Floats
from mechanisms.learning.objective import Objective
from mechanisms.learning.objectives import Hinge, SquaredError
from mechanisms.learning.perceptron import Perceptron
from pipelines.train.schema import Schema

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
