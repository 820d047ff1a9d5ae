"""A query over rows of a pipeline: rows of its answer, in every window, at one price."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms.window import FixedWindows, TimestampedValue

import hushbeam
import hushbeam.beam as private
from pipelines.errors import RequestError

CLEAR = 40.0
TYPES = {"rider": str, "city": str, "seconds": float}
TRIPS = [
    {"rider": f"r{i % 90}", "city": ("Oslo", "Bern", "Rome")[i % 3], "seconds": float(i % 50)}
    for i in range(900)
]
BY_CITY = """\
SELECT city, COUNT(*, contribution_bounds_per_group => (0, 10)) AS trips,
  AVG(seconds, contribution_bounds_per_group => (0, 50)) AS average
FROM trips RIGHT JOIN UNNEST(['Oslo', 'Bern', 'Nowhere']) AS city USING (city)
WHERE seconds / 10 < 4 GROUP BY city ORDER BY city"""


def answers(rows: Any, query: beam.PTransform) -> list[dict[str, Any]]:
    """What a query yields, by way of a file: workers may be other processes."""
    with beam.Pipeline("FnApiRunner") as pipeline:
        figures = pipeline | rows | query
        _ = figures | beam.Map(lambda row: json.dumps(row.as_dict())) | beam.io.WriteToText("a")
    return [
        json.loads(line) for path in Path().glob("a-*") for line in path.read_text().splitlines()
    ]


def test_the_answer_is_the_one_of_the_log(workspace: Path) -> None:
    query = private.Query(BY_CITY, user="rider", epsilon=CLEAR, max_groups=1, types=TYPES)
    seen = answers(beam.Create(TRIPS), query)
    for row in seen:
        mine = [t["seconds"] for t in TRIPS if t["city"] == row["city"] and t["seconds"] < 40]
        # 21 standard errors of geometric noise: a false alarm below 1e-12.
        assert 0.5 < row["trips_standard_error"] < 1
        assert row["trips"] == pytest.approx(len(mine), abs=21 * row["trips_standard_error"])
        if mine:
            assert row["average"] == pytest.approx(sum(mine) / len(mine), abs=2)
    assert [row["city"] for row in seen] == ["Bern", "Nowhere", "Oslo"]
    assert set(query.statement) == {"trips", "average"}


def test_it_has_the_price_and_the_error_of_the_command(workspace: Path) -> None:
    import pyarrow as pa

    words = {"epsilon": 0.8, "delta": 1e-6, "max_groups": 2}
    query = private.Query(BY_CITY, user="rider", types=TYPES, **words)
    _ = beam.Pipeline("FnApiRunner") | beam.Create(TRIPS) | query
    frame = pa.Table.from_pylist(TRIPS)
    release = hushbeam.sql(BY_CITY, tables={"trips": frame}, user_column="rider", **words)
    for name, metric in release.metrics.items():
        mine = query.statement[name]
        assert mine["guarantees"]["release"]["epsilon"] == pytest.approx(
            metric.statement["guarantees"]["release"]["epsilon"], rel=1e-6
        )
        assert mine["error"] == metric.statement["error"]
    joint = query.statement["trips"]["budget"]["promise"]
    assert 0.79 < joint["epsilon"] <= 0.8


def test_it_shares_a_budget(workspace: Path) -> None:
    with beam.Pipeline("FnApiRunner") as pipeline:
        rows = pipeline | beam.Create(TRIPS)
        with private.Budget(1.0, 1e-6) as budget:
            query = private.Query(BY_CITY, user="rider", types=TYPES, budget=budget, share=0.5)
            count = private.Count(user="rider", types=TYPES, budget=budget, share=0.5)
            answer, users = rows | "query" >> query, rows | "count" >> count
        _ = answer | beam.Map(lambda row: row.trips) | "a" >> beam.io.WriteToText("a")
        _ = users | beam.Map(lambda row: row.estimate) | "b" >> beam.io.WriteToText("b")
    assert sum(len(path.read_text().splitlines()) for path in Path().glob("a-*")) == 3
    assert sum(len(path.read_text().splitlines()) for path in Path().glob("b-*")) == 1
    own = [one["guarantees"]["release"]["epsilon"] for one in query.statement.values()]
    assert own[0] == pytest.approx(own[1], rel=1e-3)
    whole = count.statement["guarantees"]["release"]["epsilon"]
    assert whole == pytest.approx(2 * own[0], rel=1e-3)


def test_every_window_has_its_answer(workspace: Path) -> None:
    def at(trip: dict[str, Any]) -> TimestampedValue:
        return TimestampedValue(trip, 7200 + trip["seconds"])  # the third hour alone

    query = private.Query(
        "SELECT COUNT(DISTINCT rider) AS riders FROM trips", user="rider", epsilon=CLEAR,
        types=TYPES, span=("1970-01-01T01:00", "1970-01-01T04:00"),
    )  # fmt: skip
    rows = beam.Create(TRIPS) | beam.Map(at) | beam.WindowInto(FixedWindows(3600))
    seen = sorted(answers(rows, query), key=lambda row: row["window"])
    assert [row["riders"] for row in seen] == [0, 90, 0]
    assert len({row["window"] for row in seen}) == 3


@pytest.mark.parametrize(
    ("sql", "more", "complaint"),
    [
        ("SELECT MAX(seconds) FROM t", {}, r"sql, line 1, column 8: .*PERCENTILE_CONT"),
        ("SELECT COUNT(DISTINCT rider) FROM 'trips.csv'", {}, "FROM has a name"),
        ("SELECT COUNT(DISTINCT rider) AS `number of trips` FROM t", {}, "no name of a Beam Row"),
        ("SELECT COUNT(*) FROM t", {}, "or say rows_per_user 10"),
        ("SELECT COUNT(DISTINCT rider) FROM t", {"colour": 1}, "Query has no option 'colour'"),
        ("SELECT COUNT(DISTINCT rider) FROM t", {"epsilon": None}, "say epsilon"),
        ("SELECT COUNT(DISTINCT rider) FROM t WHERE minutes > 3", {}, "minutes"),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 2) COUNT(DISTINCT rider) FROM t",
            {},
            "epsilon is said beside the query",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(
    sql: str, more: dict[str, Any], complaint: str
) -> None:
    rows = beam.Pipeline("FnApiRunner") | beam.Create(TRIPS)
    words = {"user": "rider", "epsilon": 1.0, "types": TYPES} | more
    with pytest.raises(RequestError, match=complaint) as caught:
        _ = rows | private.Query(sql, **words)
    assert "\n" not in str(caught.value)


def test_the_clause_says_unit_and_epsilon() -> None:
    sql = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 2, delta = 1e-6, "
        "privacy_unit_column = rider) COUNT(*, contribution_bounds_per_group => (0, 5)) AS n FROM t"
    )
    query = private.Query(sql, types=TYPES)
    _ = beam.Pipeline("FnApiRunner") | beam.Create(TRIPS) | query
    assert query.statement["n"]["guarantees"]["release"]["epsilon"] <= 2
    assert query.statement["n"]["guarantees"]["release"]["unit"] == "user"
    for one in ("epsilon = 2, delta = 1e-6, ", "epsilon = 2, ", "delta = 1e-12, "):
        other = sql.replace("epsilon = 2, delta = 1e-6, ", one)
        with pytest.raises(RequestError, match="the budget says it: leave it out of the query"):
            private.Query(other, types=TYPES, budget=private.Budget(1.0, 1e-3))


def test_names_of_a_join_are_resolved_by_their_table(workspace: Path) -> None:
    """A public table with a column of the rows' name hides none of theirs."""
    Path("zones.csv").write_text("rider,city\n" + "".join(f"r{i},Rome\n" for i in range(90)))
    join = "FROM log JOIN zones USING (rider)"
    words: dict[str, Any] = {
        "public": {"zones": "zones.csv"}, "epsilon": CLEAR, "types": TYPES, "rows_per_user": 1
    }  # fmt: skip
    sql = f"SELECT COUNTIF(log.city = 'Oslo') AS a, COUNTIF(zones.city = 'Rome') AS b {join}"
    (row,) = answers(beam.Create(TRIPS), private.Query(sql, **words))
    assert (row["a"], row["b"]) == pytest.approx((300, 900), abs=5)
    bare = private.Query(f"SELECT COUNTIF(city = 'Oslo') AS a {join}", **words)
    with pytest.raises(RequestError, match="sql, line 1, column 16: "):
        _ = beam.Pipeline("FnApiRunner") | beam.Create(TRIPS) | bare
