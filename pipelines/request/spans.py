"""Spans of time as people write them."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

_SPAN = re.compile(r"(\d{1,6}) ?(s|min|h|d)")
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86_400}


def _require_span(written: str) -> str:
    if not _SPAN.fullmatch(written):
        raise ValueError("a number and a unit are needed, as in 30s, 15min, 1h or 1d")
    return written


TimeSpan = Annotated[str, AfterValidator(_require_span)]


def seconds_of(span: str) -> int:
    """A span of time as people write it.

    >>> seconds_of("15min")
    900
    """
    match = _SPAN.fullmatch(span)
    if match is None:
        raise ValueError("no span of time")
    return int(match[1]) * _SECONDS[match[2]]
