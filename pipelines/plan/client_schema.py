"""What `hushbeam check --json` says to clients in other languages, and the JSON Schema of it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mechanisms.specification import Channel
from transforms.encoders.specification import Encoder

FORMAT = 1
"""Of what `check --json` prints. A client refuses a larger one."""

_BYTES = r"^([0-9a-f]{2})+$"
_WORD = r"^[0-9]{1,20}$"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DrawRange(_Strict):
    """Which devices answer, where each answers one of several metrics: whose draw lies here."""

    first: str = Field(pattern=_WORD)
    last: str = Field(pattern=_WORD)


class PermanentKeys(_Strict):
    """What permanent noise is keyed by, besides the user's secret; 16 bytes each."""

    fingerprint: str = Field(pattern=_BYTES)
    law: str = Field(pattern=_BYTES)
    rounding: str | None = Field(pattern=_BYTES, description="of what rounds numbers to a grid")


class ClientMetric(_Strict):
    """All that a client needs of a metric, beside the formulas of docs/appendix/wire.md."""

    form: int = Field(description="of reports: 0, which may be sealed (1); 5, slots, all sealed")
    sealable: bool = Field(description="whether plain reports may be sealed instead")
    encoder: Encoder = Field(discriminator="encoder")
    channel: Channel = Field(discriminator="channel")
    draws: DrawRange | None
    permanent: PermanentKeys | None


class ReportWindow(BaseModel):
    """What reports of one window carry."""

    name: str
    fingerprint: str = Field(pattern=_BYTES)


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
    window: ReportWindow | None
    metrics: list[CheckedMetric]


def client_schema() -> dict[str, Any]:
    """The JSON Schema of what clients read of `check --json`."""
    schema = CheckedPlan.model_json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema
