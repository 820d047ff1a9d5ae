"""What is said of a statistic before a row is read: of its figures, and of their errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

OF_TOTALS = (
    "Every figure is the truth plus noise of a known law, the same for all of them. Estimates are "
    "unbiased, so where there is little some lie below 0."
)
"""How to read totals."""


class ErrorTerms(NamedTuple):
    """What a statement says of the predicted error.

    Attributes:
        reading: how to read figures and their errors.
        covers: what the error covers, and what it does not.
        key: what it is called.
        of: what it is of, behind "the standard error"; "" if of all figures.
        divides: whether figures are quotients, which err by how many there are.
    """

    reading: str
    covers: str = "the noise of the dummies, and roundings; not what was truncated"
    key: str = "standard_error"
    of: str = ""
    divides: bool = False


class Wording(NamedTuple):
    """What a statement says of a statistic, whatever the data are.

    Attributes:
        errors: of its predicted error.
        words: what a reader must know of what counts.
        request: option -> what it was, where that is not how it was written.
        exactly: what is published as it is, of its input.
    """

    errors: ErrorTerms
    words: Sequence[str] = ()
    request: Mapping[str, Any] = {}
    exactly: tuple[str, ...] = ()


class Forecast(NamedTuple):
    """How far off figures will be, as far as that can be said before a row is read.

    Attributes:
        figure: what one is if all units are alike.
        noise: its standard error then.
        error: the standard error of one figure that is stated.
        words: the same, for a table.
        cautions: what should be thought over.
        of: of how many units it is, where it depends on that.
    """

    figure: float
    noise: float
    error: float
    words: str
    cautions: Sequence[str] = ()
    of: str = ""
