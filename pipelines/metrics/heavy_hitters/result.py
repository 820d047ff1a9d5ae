"""What a release of heavy hitters holds: its table, and how the strings were searched for."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from mechanisms.heavy_hitters.discovery import FrequentStrings
from mechanisms.heavy_hitters.fitting import Plan

TABLE = "heavy_hitters.parquet"


def heavy_hitters_table(strings: FrequentStrings) -> pa.Table:
    """The published table: one row per string that was found, the most frequent first.

    Columns: value; whole (false for the common beginning of longer strings that were cut);
    estimate and standard_error of the share of reports; lower and upper (an interval for each
    string alone); lower_simultaneous and upper_simultaneous (intervals that cover all strings
    together, however they were chosen); expected_false (how many strings that nobody holds would
    stand out as far, at most, on average).
    """
    names = (
        "estimate", "standard_error", "lower", "upper", "lower_simultaneous",
        "upper_simultaneous", "expected_false",
    )  # fmt: skip
    columns = {name: pa.array(getattr(strings, name), pa.float64()) for name in names}
    first = {"value": pa.array(strings.values, pa.string()), "whole": pa.array(strings.whole)}
    return pa.table(first | columns)


_ESTIMATES = (
    "unbiased before it is known which strings are published; given that one is, its share is too "
    "large on average: by about 0.8 standard errors if it is found every second time, by 0.2 if "
    "nine times in ten. lower_simultaneous and upper_simultaneous cover all the same."
)


def search_statement(plan: Plan, prospect: str, strings: FrequentStrings) -> dict[str, Any]:
    """How strings were searched for, and how many there are."""
    protocol, limit = plan.protocol, plan.detection_limit
    return {
        "prospect": prospect,
        "detection_limit": None if limit == math.inf else limit,
        "planned_for": plan.design.target.n,
        "steps": list(protocol.schedule.steps),
        "rows": list(protocol.schedule.rows),
        "shares": list(protocol.schedule.shares),
        "public_seed": protocol.seed,
        "beam": plan.search.beam,
        "candidates": strings.candidates,
        "strings": len(strings.values),
        "estimates": _ESTIMATES,
    }
