"""What a person asks for of a histogram."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mechanisms.planner import AUTO
from pipelines.terms import ReleaseOptions


class HistogramOptions(ReleaseOptions):
    """What a person asks for; every number is checked before anything is read."""

    domain: str = Field(min_length=1)
    model: Literal["local", "shuffle", "central"] | None = None
    mechanism: str = AUTO
    max_messages: float = Field(1.0, ge=1)
    honest_share: float = Field(0.9, gt=0, le=1)
    bound: Literal["exact", "published"] = "exact"
    out_of_domain: Literal["drop", "other"] = "drop"
    postprocess: Literal["pop", "none"] | None = None
