"""What clients in other languages read of `check --json`, and its published JSON Schema."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from pipelines.plan.described import ClientMetric


class ReportWindow(BaseModel):
    """What reports of one window carry."""

    name: str
    fingerprint: str = Field(pattern=r"^([0-9a-f]{2})+$")


class CheckedMetric(BaseModel):
    """A metric; whoever is no client finds more members in it."""

    place: int = Field(ge=0, lt=1 << 16)
    name: str
    kind: str
    client: ClientMetric | None = Field(description="null: only a client of the product can serve")


class CheckedPlan(BaseModel):
    """What a plan has come to, for a window: as far as clients need it."""

    format: Literal[1]
    collection: str
    version: int
    one_report: bool = Field(description="whether a user sends one report of a metric and window")
    noise: Literal["fresh", "permanent"]
    tokens: int | None = Field(
        ge=1, description="reports that a user may send in a window, each with a token"
    )
    window: ReportWindow | None
    metrics: list[CheckedMetric]


def client_schema() -> dict[str, Any]:
    """The JSON Schema of what clients read of `check --json`."""
    schema = CheckedPlan.model_json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema
