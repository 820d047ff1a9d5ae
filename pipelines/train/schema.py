"""What a model looks at and what it tells, as columns of the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from mechanisms.learning.features import Features
from transforms.encoders.attributes import Attribute, Category, Number, categorical, numeric
from transforms.encoders.domain import Domain


@dataclass(frozen=True)
class Schema:
    """What a model looks at and what it tells, as columns of the log.

    Attributes:
        attributes: what it looks at.
        target: what it tells.
        kinds: column -> type, of all of them.
    """

    attributes: tuple[Attribute, ...]
    target: Number | Category
    kinds: Mapping[str, pa.DataType]

    @cached_property
    def features(self) -> Features:
        """The numbers that stand for a row: of lists one after another, then categories."""
        numbers = [
            (label, number.bounds.low, number.bounds.high)
            for number in numeric(self.attributes)
            for label in number.labels()
        ]
        categories = [
            (number.column, tuple(str(value) for value in number.domain.labels().to_pylist()))
            for number in categorical(self.attributes)
        ]
        return Features(tuple(numbers), tuple(categories))

    @property
    def columns(self) -> list[str]:
        """The columns that the estimator is given, in this order."""
        return [attribute.column for attribute in self.attributes]

    @property
    def classes(self) -> list[Any] | None:
        """What the target can be, as the log has it; None if it is a number."""
        if isinstance(self.target, Number):
            return None
        return values(self.target.domain, self.kinds[self.target.column])

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Of the target, if it is a number."""
        if not isinstance(self.target, Number):
            return None
        return self.target.bounds.low, self.target.bounds.high

    @property
    def unit_of_error(self) -> float:
        """What an error of 1, as models are scored, is in units of the target."""
        return self.target.bounds.half**2 if isinstance(self.target, Number) else 1.0


def values(domain: Domain, kind: pa.DataType) -> list[Any]:
    """The declared values of a column, as Python has them when it reads the column."""
    if pa.types.is_dictionary(kind):
        return values(domain, kind.value_type)
    labels = domain.labels().to_pylist()
    if pa.types.is_boolean(kind):
        return [label == "true" for label in labels]
    return [int(label) for label in labels] if pa.types.is_integer(kind) else labels
