"""What a release of heavy hitters holds: its table and its statement."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mechanisms.systems import find
from pipelines.numbers import counted, statement_head, versions
from transforms.discover import Discovered

if TYPE_CHECKING:
    from pipelines.metrics.heavy_hitters.job import HeavyHittersJob

TABLE = "heavy_hitters.parquet"


def heavy_hitters_table(discovered: Discovered) -> pa.Table:
    """The published table: one row per string that was found, the most frequent first.

    Columns: value; whole (false for the common beginning of longer strings that were cut);
    estimate and standard_error of the share of reports; lower and upper (an interval for each
    string alone); lower_simultaneous and upper_simultaneous (intervals that cover all strings
    together, however they were chosen); expected_false (how many strings that nobody holds would
    stand out as far, at most, on average).
    """
    found = discovered.found
    names = (
        "estimate", "standard_error", "lower", "upper", "lower_simultaneous",
        "upper_simultaneous", "expected_false",
    )  # fmt: skip
    columns = {name: pa.array(getattr(found, name), pa.float64()) for name in names}
    first = {"value": pa.array(found.values, pa.string()), "whole": pa.array(found.whole)}
    return pa.table(first | columns)


def heavy_hitters_statement(
    job: HeavyHittersJob, discovered: Discovered, tallies: Mapping[str, int]
) -> dict[str, Any]:
    """What was asked, what was done, and what it guarantees."""
    options, plan, found = job.options, job.plan, discovered.found
    protocol, design = plan.protocol, plan.design
    limit = plan.detection_limit
    head = statement_head("heavy-hitters", job.guarantees, job.cautions, job.min_reports)
    return head | {
        "neighbours": f"one {job.unit}'s string is replaced by any other string of the alphabet",
        **counted(found.n, discovered.invalid, tallies),
        "asked": {
            "column": options.column,
            "user_column": options.user_column,
            "unit": job.unit,
            "alphabet": protocol.code.characters or "all text, as UTF-8 bytes",
            "max_length": protocol.code.max_length,
            "model": options.model,
            "epsilon": options.epsilon,
            "delta": design.target.delta,
            "epsilon_local": options.epsilon_local,
            "min_reports": job.min_reports,
            "system": options.system,
            "oracle": options.oracle,
            "top": options.top,
            "false_strings": options.false_strings,
            "confidence": options.confidence,
        },
        "mechanism": {
            "name": design.name,
            "source": find(design.name).source,
            "constants": protocol.levels.constants(),
            "messages_per_user": design.messages,
            "bits_per_message": (protocol.levels.codes - 1).bit_length(),
        },
        "search": {
            "prospect": job.prospect,
            "detection_limit": None if limit == math.inf else limit,
            "planned_for": design.target.n,
            "steps": list(protocol.schedule.steps),
            "rows": list(protocol.schedule.rows),
            "shares": list(protocol.schedule.shares),
            "public_seed": protocol.seed,
            "beam": plan.search.beam,
            "candidates": found.candidates,
            "strings": len(found.values),
        },
        "versions": versions(),
    }
