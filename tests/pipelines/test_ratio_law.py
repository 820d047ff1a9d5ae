"""Intervals of ratios hold the truth as often as they say, also where the divisor may be 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mechanisms.randomness import SeededRandom
from pipelines.errors import RequestError
from pipelines.logs.inputs import UNREAD, Source
from pipelines.metrics.ratio.options import RatioOptions
from pipelines.metrics.resolving import resolve
from transforms.collector.collect_counts import Counted

DRAWS = 2000


def asked(**more: Any) -> Any:
    words = {"column": "x", "bounds": "0,10", "over": "y", "over_bounds": "0,40", **more}
    options = RatioOptions(input=("log.parquet",), output="out", epsilon=1.0, **words)
    return resolve(options, Source(telemetry=UNREAD))


@pytest.mark.verify
@pytest.mark.parametrize("confidence", [0.95, 0.5])
@pytest.mark.parametrize("away", [0, 1, 2, 4, 40])  # the divisor, in deviations of its noise
def test_intervals_hold_the_truth(away: float, confidence: float) -> None:
    metric, rng = asked(confidence=confidence), SeededRandom(3)
    one = metric.design.column_variance**0.5
    exact = metric.mechanism.count(np.empty(0, np.uint64))
    exact[:2] = round(0.3 * away * one), round(away * one)
    scales = metric.statistic.scales
    true = exact[0] / exact[1] * scales[1] / scales[0] if away else None
    held = finite = 0
    for _ in range(DRAWS):
        noisy = Counted(metric.design.noisy(exact, rng), 0, 0)
        (row,) = metric.tables(noisy)["ratio.parquet"].to_pylist()
        low = -np.inf if row["lower"] is None else row["lower"]
        high = np.inf if row["upper"] is None else row["upper"]
        finite += row["upper"] is not None
        held += high == np.inf if true is None else low <= true <= high
        assert row["estimate"] is None or low <= row["estimate"] <= high
    assert held >= DRAWS * confidence - 6.1 * np.sqrt(DRAWS * confidence * (1 - confidence))
    # Honest is no excuse for saying nothing, where there is something to say.
    assert finite == DRAWS if away == 40 else finite < DRAWS
    assert away < 40 or held < DRAWS * (confidence + 0.05)


def test_a_divisor_that_may_be_negative_is_refused() -> None:
    for more in ({"over_bounds": "-1,5"}, {"over_bounds": "1,5"}, {"bounds": "2,5"}):
        with pytest.raises(RequestError, match=r"--bounds, --over-bounds: a .* may add nothing"):
            asked(**more)


def test_how_much_of_a_divisor_counts_is_named() -> None:
    for more in ({"over": "y"}, {"over": None, "user_column": "u"}):
        with pytest.raises(RequestError, match="--over-bounds: name 0, and the most of"):
            asked(**more | {"over_bounds": None})
    assert asked(over=None, over_bounds=None).options.divisor_bounds == "0,1"
    with pytest.raises(RequestError, match=r"within 1e.100 of 0"):
        asked(bounds="0,1e200")


def test_rows_are_counted_where_no_column_divides() -> None:
    metric = asked(over=None, over_bounds="0,1")
    assert metric.heading.title == "x per row"
    assert metric.encoder().columns == {"x"}
