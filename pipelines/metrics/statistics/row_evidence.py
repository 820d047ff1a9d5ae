"""What noise leaves to be known of rows: of each number, and of each value of a category."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mechanisms.channel import Floats
from pipelines.metrics.counting.result import Noisy
from pipelines.metrics.statistics.evidence import Evidence
from pipelines.metrics.unusable.share import Share
from transforms.encoders.attributes import Attribute, numeric


class CoordinateScale(NamedTuple):
    """What takes coordinates from [-1, 1] to the units of their bounds.

    Attributes:
        low: (dimension,) the lower bounds.
        half: (dimension,) half the distance between the bounds.
    """

    low: Floats
    half: Floats

    @classmethod
    def of(cls, attributes: Sequence[Attribute]) -> CoordinateScale:
        """That of all coordinates of a row, in their order."""
        numbers = numeric(attributes)
        ends = np.array([number.bounds for number in numbers], np.float64)
        bounds = np.repeat(ends, [number.width for number in numbers], axis=0)
        return cls(bounds[:, 0], bounds[:, 1] / 2 - bounds[:, 0] / 2)

    def units(self, values: Floats) -> Floats:
        """In the units of the bounds, as far beyond them as values lie beyond [-1, 1]."""
        return self.low + (values + 1) * self.half

    def inside(self, values: Floats) -> Floats:
        """In the units of the bounds, and within them."""
        high = self.low + 2 * self.half
        return np.clip(self.units(np.clip(values, -1, 1)), self.low, high)


class RowFigures(NamedTuple):
    """Means of numbers, or the shares of the values of one category.

    Attributes:
        estimate: (k,) within what can be.
        unbiased: (k,) straight from the counts; NaN where there is none.
        error: (k,) the standard errors of `unbiased`.
        alone: ends of intervals, (k,) each, that cover each for itself.
        together: the same, of intervals that cover all figures of the table at once.
        units: (k,) about how many units have the number, or the value.
        units_error: (k,) the standard errors of that.
        more: column -> (k,) what this noise alone lets be known.
    """

    estimate: Floats
    unbiased: Floats
    error: Floats
    alone: tuple[Floats, Floats]
    together: tuple[Floats, Floats]
    units: Floats
    units_error: Floats
    more: Mapping[str, Any]

    def scaled(self, scale: CoordinateScale) -> RowFigures:
        """Means in the units of their bounds, from those on the scale of [-1, 1]."""
        (low, high), (lowest, highest) = self.alone, self.together
        return self._replace(
            estimate=scale.inside(self.estimate), unbiased=scale.units(self.unbiased),
            error=self.error * scale.half, alone=(scale.inside(low), scale.inside(high)),
            together=(scale.inside(lowest), scale.inside(highest)),
        )  # fmt: skip

    def columns(self, unit: str) -> dict[str, Any]:
        """What is published of them beside their labels.

        Args:
            unit: whose numbers and values they are.
        """
        return {
            "estimate": self.estimate, "standard_error": self.error,
            "lower": self.alone[0], "upper": self.alone[1],
            "lower_simultaneous": self.together[0], "upper_simultaneous": self.together[1],
            "unbiased": self.unbiased,
            f"{unit}s": self.units, f"{unit}s_standard_error": self.units_error, **self.more,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RowEvidence(Evidence):
    """What is known of a batch of rows; its totals are of numbers on the scale of [-1, 1].

    Attributes:
        numbers: their means, on that scale.
        categories: of each, the shares of its declared values.
        absent: a confidence with which all hold together -> of each number and then of each
            category, the share of units that lack it; none where that is not known.
        present: how many units took part, and the standard error of that; None of a number that is
            public.
        shrunk: (dimension,) the means, moved towards a target on that scale; None if none are.
        perturbed: (n, dimension) what each unit's report says by itself, on that scale; None
            unless that is published.
    """

    numbers: RowFigures
    categories: tuple[RowFigures, ...]
    absent: Callable[[float], list[Share]]
    present: Noisy | None = None
    shrunk: Floats | None = None
    perturbed: Floats | None = None


def nullable(columns: Mapping[str, Any]) -> dict[str, pa.Array]:
    """Columns of a table; where there is no finite number, there is a null.

    Args:
        columns: name -> (k,) numbers.
    """
    return {
        name: pa.array(column, mask=~np.isfinite(np.asarray(column)))
        for name, column in columns.items()
    }
