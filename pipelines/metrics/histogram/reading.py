"""How shares of randomised reports are to be read, by what was done with them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_POSTPROCESSED = {
    "uniform": "The estimate is of all values alike: of all that was compared, shares that are all "
    "alike are estimated to be nearest to the truth, or not clearly farther from it.",
    "shrinkage": "Moving all shares towards alike (James and Stein) before projecting them on "
    "nonnegative ones that add up to 1 makes the whole histogram more accurate and each single bar "
    "biased: large ones down, small ones up. The intervals belong to the unbiased estimate.",
    "empirical-bayes": "Every share was moved to what such estimates usually come from, as all of "
    "them together show it: the whole histogram is more accurate, and each single bar biased "
    "towards its like. The intervals belong to the unbiased estimate.",
    "pop": "Projecting on nonnegative shares that add up to 1 (POP) makes the whole histogram more "
    "accurate and each single bar slightly biased: large ones down, small ones up. The intervals "
    "belong to the unbiased estimate.",
    "none": "The shares are as they were decoded: some may lie below 0, and they need not add up "
    "to 1.",
}


def reading(statement: Mapping[str, Any]) -> list[str]:
    """What a reader must know of a release's shares."""
    return [
        f"The shares are of the {statement['n']:,} reports that were counted. Every report was "
        "randomised by itself before anything was counted. Bars that differ by less than their "
        "intervals do not differ.",
        _POSTPROCESSED[statement["postprocessing"]["taken"]],
    ]


def facts(statement: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was done with the unbiased shares, and why."""
    taken, risks = statement["postprocessing"]["taken"], statement["postprocessing"]["risks"]
    if not risks:
        return [("after decoding", str(taken))]
    compared = ", ".join(f"{name} {math.sqrt(max(risk, 0.0)):.2g}" for name, risk in risks.items())
    why = f"{taken}, of these by the error of a share that is estimated for each: {compared}"
    return [("after decoding", why)]
