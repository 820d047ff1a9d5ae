"""What a person asks for of an average row."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipelines.numbers import NumberOptions


class VectorMeanOptions(NumberOptions):
    """What a person asks for; every number is checked before anything is read."""

    column: str = ""  # rows have several: see the three below
    number: tuple[str, ...] = ()
    vector: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    radius: float | None = Field(None, gt=0)
    shrink: Literal["none", "zero", "grand-mean", "prior"] = "grand-mean"
    prior: str | None = Field(None, min_length=1)
