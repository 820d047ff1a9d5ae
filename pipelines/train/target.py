"""--target: a number within bounds that is predicted, or a class."""

from __future__ import annotations

import pyarrow as pa

from pipelines.errors import RequestError
from pipelines.logs import inputs
from pipelines.logs.numbers import read_bounds
from transforms.encoders.attributes import Attribute, Category, Number
from transforms.encoders.bounds import Bounds
from transforms.encoders.domain import DeclaredValues, Domain, integer_range

_NUMBERS = ("linear", "ridge")  # losses of numbers
_SHAPE = (
    "--target must be COLUMN=LOW,HIGH for a number, or COLUMN=FILE, COLUMN=LOW..HIGH or "
    "COLUMN=A,B for a class"
)


def read_target(
    text: str, loss: str, attributes: tuple[Attribute, ...], telemetry: inputs.Telemetry
) -> Number | Category:
    """What a model tells, held against the files.

    Args:
        text: as it was typed.
        loss: by which it is known whether a number or a class is meant; a perceptron takes two
            numbers with a comma for bounds.
        attributes: what the model looks at.
        telemetry: the files.

    Raises:
        RequestError: it is malformed, does not fit the column or the loss, or the column is looked
            at already.
    """
    column, equals, spec = text.partition("=")
    if not (column and equals and spec):
        raise RequestError(f"{_SHAPE}, not {text!r}")
    kind = telemetry.column_type(column, "--target")
    if column in {attribute.column for attribute in attributes}:
        raise RequestError(
            f"--target: {column!r} is also among --number, --vector, --category; a model that is "
            "shown the answer learns nothing: leave it out there"
        )
    if loss in _NUMBERS or (loss == "perceptron" and _are_bounds(spec)):
        target = Number(column, _bounds(text, spec))
        if not target.accepts(kind):
            raise RequestError(f"--target: {column!r} holds {kind}; {loss} needs numbers")
        return target
    category = Category(column, _classes(spec, kind))
    if not category.accepts(kind):
        raise RequestError(
            f"--target: {column!r} holds {kind}, which are not the classes that {spec!r} declares"
        )
    if loss == "svm" and category.size != 2:
        raise RequestError(
            f"--target: --loss svm tells two classes apart, not {category.size:,}; logistic and "
            "perceptron take more"
        )
    return category


def _are_bounds(spec: str) -> bool:
    """Whether it is two numbers with a comma."""
    try:
        return len([float(part) for part in spec.split(",")]) == 2
    except ValueError:
        return False


def _bounds(text: str, spec: str) -> Bounds:
    try:
        return read_bounds(spec)
    except RequestError as error:
        line = str(error).replace("--bounds", f"--target {text}: the bounds", 1)
        raise RequestError(line) from None


def _classes(spec: str, kind: pa.DataType) -> Domain:
    """The classes of a column: a range, a list with commas, or a file."""
    if integer_range(spec) is None and "," in spec:
        classes = tuple(part.strip() for part in spec.split(","))
        if "" in classes or len(set(classes)) != len(classes):
            raise RequestError(f"--target: classes must be there, each once, not {spec!r}")
        return DeclaredValues(classes)
    try:
        return inputs.read_domain(spec, kind, other=False)
    except RequestError as error:
        # What classes must be is what a domain must be; only the flag has another name.
        line = str(error).replace("--domain", "--target").replace("a histogram needs", "needed are")
        raise RequestError(line.replace(" (or --out-of-domain other)", "")) from None
