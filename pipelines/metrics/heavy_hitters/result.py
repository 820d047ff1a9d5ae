"""What a release of heavy hitters holds: its table, and how the strings were searched for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from mechanisms.heavy_hitters.discovery import FrequentStrings
from mechanisms.heavy_hitters.fitting import FittedSearch
from mechanisms.mean.poisoned import NOBODY, quotient_reach
from pipelines.metrics.poisoning import LIARS, Poisoning

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


def poisoning(plan: FittedSearch, forgeable: bool) -> Poisoning:
    """How far liars can move the share of a string, and how many of them make up a string.

    Args:
        plan: what users run.
        forgeable: whether others than the job make reports.
    """
    protocol, limit = plan.protocol, plan.detection_limit
    oracle, shares = protocol.oracle, protocol.schedule.group_shares
    # A string that is judged by one group alone, the smallest of those at the last level: reports
    # say their group, so all liars can be in it.
    least = shares[-1] / sum(shares)
    width = oracle.domain_size
    reports = np.append(oracle.extreme_reports, NOBODY, axis=0)
    reports[:2, 0] = (reports[:2, 0] - 1 / width) / (1 - 1 / width)  # others share its bucket
    moved = max(
        float(quotient_reach((share * least, least), reports, LIARS)) for share in (0.0, 1.0)
    )
    # So many reports for its prefixes as so many holders would make, and none astray.
    needed = limit * oracle.contrast / (1 - oracle.other)
    more, also = (
        f"; {100 * enough:.2g} % are enough to have a string of theirs found, and fewer may be"
        * (limit < math.inf)
        * (limit < math.inf)
        for enough in (limit, needed)
    )
    return Poisoning(
        "the share of any string",
        LIARS,
        moved if forgeable else None,
        more=more,
        also=also,
        beside={"found": {"lies": _known(limit), "forged": _known(needed) if forgeable else None}},
    )


def _known(share: float) -> float | None:
    """A share as JSON can hold it."""
    return share if share < math.inf else None


def search_statement(plan: FittedSearch, prospect: str, strings: FrequentStrings) -> dict[str, Any]:
    """How strings were searched for, and how many there are."""
    protocol, limit = plan.protocol, plan.detection_limit
    return {
        "prospect": prospect,
        "detection_limit": _known(limit),
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


def reading(statement: Mapping[str, Any]) -> list[str]:
    """How the strings of a release are to be read."""
    request, search = statement["request"], statement["search"]
    return [
        f"Nobody declared these strings: they were built up from the reports of {request['unit']}s."
        f" Planned was: {search['prospect']}. Rarer strings are identified by chance or not at "
        "all, so a string that is missing may still be frequent.",
        f"Of {search['candidates']:,} candidates those are listed that chance would bring up "
        f"{request['false_strings']:g} times in a release like this, on average, at most. A share "
        "is of the reports that were counted. Its standard error covers the randomisation of "
        "reports, the division of users among levels, and strings that share a bucket.",
    ]


def facts(statement: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was searched through."""
    request, search = statement["request"], statement["search"]
    levels = "+".join(map(str, search["steps"]))
    return [
        ("system", f"{request['system']}, levels of {levels} symbols"),
        ("symbols that are looked at", f"{request['max_length']} of {request['alphabet']}"),
        ("seed of the public hash", str(search["public_seed"])),
    ]
