"""Figures of a pipeline against the truth: the exact law of their noise, and every kind of row."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from datetime import datetime, timezone
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from scipy import stats

import hushbeam.beam as private
from mechanisms.randomness import SeededRandom
from pipelines.errors import RequestError
from tests.fakes.prism import LOCAL, options_of
from tests.oracles.statistics import FALSE_ALARM

CLEAR = 27.0  # the noise is 0 but with probability 2e-12
_seen: dict[str, list[Any]] = defaultdict(list)


class Named(NamedTuple):
    user: str
    city: str | None
    seconds: float


@dataclasses.dataclass
class Plain:
    user: str
    city: str | None
    seconds: float


@dataclasses.dataclass(frozen=True)
class Frozen:
    user: str
    city: str | None
    seconds: float


VALUES = [(f"u{i % 40}", ("Oslo", "Bern", None, "Rome")[i % 4], float(i % 10)) for i in range(120)]
NAMES = ("user", "city", "seconds")
TABLE = pa.table(dict(zip(NAMES, zip(*VALUES, strict=True), strict=True)))
TYPES = {"user": str, "city": str, "seconds": float}
ROWS: dict[str, tuple[list[Any], Any]] = {
    "dicts": ([dict(zip(NAMES, row, strict=True)) for row in VALUES], TYPES),
    "Beam Rows": ([beam.Row(**dict(zip(NAMES, row, strict=True))) for row in VALUES], TYPES),
    "named tuples": ([Named(*row) for row in VALUES], None),
    "dataclasses": ([Plain(*row) for row in VALUES], None),
    "frozen dataclasses": ([Frozen(*row) for row in VALUES], None),
    "Arrow tables": ([TABLE.slice(0, 50), TABLE.slice(50)], None),
    "Arrow record batches": ([*TABLE.to_batches(max_chunksize=33)], None),
}


def keep(figure: beam.Row, name: str) -> None:
    _seen[name].append(figure)


def figures(elements: list[Any], **transforms: Any) -> dict[str, list[beam.Row]]:
    with beam.Pipeline("FnApiRunner") as pipeline:
        rows = pipeline | beam.Create(elements)
        for name, transform in transforms.items():
            _ = rows | name >> transform | f"Keep {name}" >> beam.Map(keep, name)
    return {name: _seen.pop(name, []) for name in transforms}


@pytest.mark.parametrize("kind", ROWS)
def test_rows_of_every_kind_come_to_the_same_figures(kind: str) -> None:
    elements, types = ROWS[kind]
    asked = {"types": types, "epsilon": CLEAR, "user": "user"}
    cities = {"by": "city", "values": ["Oslo", "Bern"], "rows_per_user": 2}
    found = figures(
        elements,
        count=private.Count(**cities, **asked),
        total=private.Sum("seconds", (0, 30), **asked, whole_numbers=True),
        mean=private.Mean("seconds", (0, 9), **asked),
        shares=private.Histogram("city", ["Oslo", "Bern"], **asked),
        spread=private.Distribution("seconds", (0, 10), **asked, bins=8),
    )
    assert {one.value: one.estimate for one in found["count"]} == {
        "Oslo": 10, "Bern": 10, None: 20
    }  # fmt: skip
    [total], [mean] = found["total"], found["mean"]
    assert total.estimate == pytest.approx(sum(row[2] for row in VALUES), abs=25)
    assert mean.estimate == pytest.approx(4.5, abs=0.05)
    assert sum(one.estimate for one in found["shares"]) == pytest.approx(0.5, abs=0.05)
    assert {one.figure for one in found["spread"]} > {"quantile"}


def test_noise_has_the_law_that_the_statement_says() -> None:
    """2,000 draws against the discrete Laplace law; a scale that is 30 % off is told from it."""
    epsilon, values, hours = 1.0, [str(i) for i in range(40)], 50
    span = (datetime.fromtimestamp(0, timezone.utc),) * 2
    span = (span[0], datetime.fromtimestamp(3600 * hours, timezone.utc))
    budget = private.Budget(epsilon, open_rng=lambda: SeededRandom(20))
    count = private.Count(
        by="city", values=values, user="user", types=TYPES, span=span, budget=budget
    )
    with beam.Pipeline("FnApiRunner") as pipeline:
        rows = pipeline | beam.Create([TimestampedValue({"user": "a", "city": "0"}, 0)])
        with budget:
            out = rows | beam.WindowInto(FixedWindows(3600)) | count
        _ = out | "Keep" >> beam.Map(keep, "noise")
    seen = _seen.pop("noise")
    assert len(seen) == (len(values) + 1) * hours
    truth = {("0", "1970-01-01T0000"): 1}
    noise = np.array([one.estimate - truth.get((one.value, one.window), 0) for one in seen])

    def p_value(scale: float) -> float:
        ends = np.arange(-6, 7)
        inside = stats.dlaplace(1 / scale).cdf(ends)
        expected = noise.size * np.diff(inside, prepend=0, append=1)
        found = np.diff(np.searchsorted(np.sort(noise), ends, "right"), prepend=0)
        observed = np.append(found, noise.size - found.sum())
        return float(stats.chisquare(observed, expected).pvalue)

    scale = count.statement["error"]["law"]["scale"]
    assert 1 / epsilon <= scale < 1.02 / epsilon  # a little goes to how many had more values
    assert p_value(scale) > FALSE_ALARM
    assert p_value(1.3 * scale) < FALSE_ALARM
    assert p_value(0.7 * scale) < FALSE_ALARM
    [error] = {one.standard_error for one in seen}
    assert error == pytest.approx(stats.dlaplace(1 / scale).std(), rel=1e-3)


def test_figures_are_the_long_table() -> None:
    [row] = figures(ROWS["named tuples"][0], count=private.Count(user="user", epsilon=1))["count"]
    said = (row.metric, row.kind, row.figure, row.unit, row.epsilon, row.delta, row.model)
    assert said == ("count", "count", "users", "user", 1.0, 0.0, "central")
    assert row.window is None
    assert len(row.release_id) == 32
    assert row.lower <= row.estimate <= row.upper


def test_the_statement_says_the_promise_before_a_row_is_read() -> None:
    with beam.Pipeline("FnApiRunner") as pipeline:
        rows = pipeline | beam.Create(ROWS["named tuples"][0])
        count = private.Count(user="user", epsilon=0.5, statements=True)
        _, statements = rows | count
        said = count.statement
        _ = statements | "Keep" >> beam.Map(keep, "statement")
    [told] = _seen.pop("statement")
    after = json.loads(told.statement)
    for key in ("guarantees", "release", "metric", "error", "budget"):
        assert after[key] == said[key]
    assert said["guarantees"]["release"]["epsilon"] == 0.5
    assert after["release_id"] == told.release_id
    assert after["published_exactly"] == "nothing"
    drawn = "drawn once in this run"
    assert all(any(drawn in line for line in one["in_words"]) for one in (said, after))


def test_a_budget_in_a_transform_of_ones_own() -> None:
    """As in a library of somebody's: the budget opens and closes while another step is built."""

    class Shop(beam.PTransform):
        def expand(self, rows: beam.PCollection) -> beam.PCollection:
            with private.Budget(2 * CLEAR) as budget:
                count = rows | "count" >> private.Count(user="user", budget=budget)
                total = rows | "sum" >> private.Sum("seconds", (0, 100), user="user", budget=budget)
            return (count, total) | beam.Flatten()

    found = figures(ROWS["named tuples"][0], shop=Shop())["shop"]
    assert {one.metric for one in found} == {"count", "sum"}
    [count] = [one.estimate for one in found if one.metric == "count"]
    assert count == 40


@pytest.mark.parametrize("runner", LOCAL)
def test_what_each_runner_makes_of_a_batch(runner: str) -> None:
    with beam.Pipeline(runner, options=options_of(runner)) as pipeline:
        rows = pipeline | beam.Create(ROWS["named tuples"][0])
        _ = rows | private.Count(user="user", epsilon=CLEAR) | "Keep" >> beam.Map(keep, runner)
    assert [one.estimate for one in _seen.pop(runner)] == [40]


TUPLES = ROWS["named tuples"][0]


@pytest.mark.parametrize(
    ("elements", "transform", "complaint"),
    [
        (ROWS["dicts"][0], private.Count(user="user", epsilon=1), "the rows have no schema .dicts"),
        (TUPLES, private.Count(user="rider", epsilon=1), "user: this PCollection has no colu"),
        (TUPLES, private.Count(by="town", values=["a"], epsilon=1), "by: this PCollection has n"),
        (TUPLES, private.Count(values=["a"], epsilon=1), "by and values go together"),
        (TUPLES, private.Mean("city", (0, 1), epsilon=1), "column: .*numbers are needed|city"),
        (TUPLES, private.Count(epsilon=-1), "epsilon must be a number greater than 0"),
        (TUPLES, private.Count(epsilon=1, drawn_by="shuffler"), "drawn_by: count in a pipeline"),
        (TUPLES, private.Sum("seconds", (9, 0), epsilon=1), "bounds"),
        (TUPLES, private.Count(epsilon=1, types={"user": list}), "types: column 'user' is one of"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line_where_it_is_applied(
    elements: list[Any], transform: Any, complaint: str
) -> None:
    rows = beam.Pipeline("FnApiRunner") | beam.Create(elements)
    with pytest.raises(RequestError, match=complaint) as caught:
        _ = rows | transform
    assert "\n" not in str(caught.value)
    assert "--" not in str(caught.value)


def test_what_says_no_price_is_refused() -> None:
    for more in ({}, {"epsilon": 1.0, "budget": private.Budget(1.0)}):
        with pytest.raises(RequestError, match="say epsilon, or the budget"):
            private.Count(**more)
    with pytest.raises(RequestError, match="delta: the budget says it"):
        private.Count(budget=private.Budget(1.0), delta=1e-6)
    with pytest.raises(RequestError, match="two columns have two lists"):
        private.Count(by=("a", "b"), values=["x"], epsilon=1)
    with pytest.raises(RequestError, match="count has no option 'colour'"):
        private.Count(epsilon=1, colour=2)
    with pytest.raises(RequestError, match="apply the transform"):
        _ = private.Count(epsilon=1).statement


@pytest.mark.parametrize("kind", ["dicts", "Arrow tables"])
def test_a_value_of_another_type_is_not_quoted(kind: str) -> None:
    elements, _ = ROWS[kind]
    bad = {"user": "u", "city": "canary", "seconds": "canary"}
    more = bad if kind == "dicts" else pa.table({name: [value] for name, value in bad.items()})
    with pytest.raises(Exception, match="was declared") as caught:
        figures([*elements, more], sum=private.Sum("seconds", (0, 9), epsilon=1, types=TYPES))
    assert "canary" not in str(caught.value)
