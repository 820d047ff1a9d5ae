"""What protects a metric, as far as that is settled before a row is read."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple


class Protection(NamedTuple):
    """What users run, whom they trust, and what it costs them.

    Attributes:
        system: the name of what protects.
        model: who is trusted: "local", "shuffle" or "central".
        made: what codes come from and are decoded by: a fingerprint covers it to the last bit.
        messages: how many a user sends, on average.
        bits: how many a user sends, on average and at the least.
        honest_share: the share of the users that the promise counts on; None if it counts on none.
    """

    system: str
    model: Literal["local", "shuffle", "central"]
    made: Any
    messages: float
    bits: float
    honest_share: float | None = None
