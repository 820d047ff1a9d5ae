"""What an example of a kind says: what is asked, and what is true of the log that was made for it.

Truth is a function of the log alone, in plain numpy: it must not be worked out by the product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

Log = Mapping[str, NDArray[Any]]
"""Column -> its values, a row each; where a value is missing, NaN or an empty text."""

Key = tuple[str | None, ...]
"""What tells a figure from others of its table, as the table's columns have it."""


@dataclass(frozen=True)
class Truth:
    """One column of estimates, and what is true of it.

    Attributes:
        table: the file.
        of: the log -> each figure's key and its true value. The table has these figures alone.
        keys: the columns that hold the keys.
        estimate: the column of the figures.
        error: the column of their standard errors; None where none is stated.
        interval: the columns of intervals that hold one by one; None where there are none.
        joint: those of intervals that hold together; None where there are none.
        processed: whether figures were moved after the noise was added (projected, shrunk, made
            isotonic): they must not err by more than the unbiased ones, of which the stated error
            is, and may err by less.
        shared: whether figures of one release share noise. Of each release one is then looked at,
            and all of them elsewhere.
        within: whether each figure lies in its own intervals.
    """

    table: str
    of: Callable[[Log], Mapping[Key, float]]
    keys: tuple[str, ...] = ("value",)
    estimate: str = "estimate"
    error: str | None = "standard_error"
    interval: tuple[str, str] | None = ("lower", "upper")
    joint: tuple[str, str] | None = ("lower_simultaneous", "upper_simultaneous")
    processed: bool = False
    shared: bool = False
    within: bool = True


@dataclass(frozen=True)
class Form:
    """What is asked to have a kind in one form, and what is true then.

    Attributes:
        asked: options by their names in plans; those of all forms are in the example.
        truths: of what is published.
        refused: what the kind says where it does not offer the form; nothing, where it does.
    """

    asked: Mapping[str, Any] = field(default_factory=dict)
    truths: tuple[Truth, ...] = ()
    refused: str = ""


@dataclass(frozen=True)
class Example:
    """A small request of one kind in every form that it offers.

    Attributes:
        asked: the options that all forms share.
        forms: name of the form (see `forms.offered`) -> what is asked and true there.
    """

    asked: Mapping[str, Any]
    forms: Mapping[str, Form]
