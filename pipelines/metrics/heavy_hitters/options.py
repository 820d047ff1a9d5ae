"""What a person asks for of heavy hitters."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mechanisms.planner import AUTO
from pipelines.requests import Whole
from pipelines.terms import ReleaseOptions


class HeavyHittersOptions(ReleaseOptions):
    """What a person asks for; every number is checked before anything is read."""

    alphabet: tuple[str, ...] | None = None
    max_length: Whole | None = Field(None, ge=1)
    model: Literal["local", "shuffle"] = "shuffle"
    system: Literal["pem", "treehist"] = "pem"
    oracle: str = AUTO
    top: Whole | None = Field(None, ge=1, le=10_000)
    false_strings: float = Field(0.01, gt=0, le=1000)
