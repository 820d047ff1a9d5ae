"""What a query compiles to: the statistics of a plan, and no others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipelines.errors import RequestError
from pipelines.query.clause import QueryTerms
from pipelines.query.compiler import Compiled, compiled
from pipelines.query.public import PublicTable

ZONES = PublicTable({"city": ["Oslo", "Bern", "Rom"], "land": ["north", "south", "south"]})
ASKED = QueryTerms(
    unit="rider", epsilon=1.0, rows=5, groups={"hour": "0..23"}, public={"zones": ZONES}
)
GROUP, ROW = "contribution_bounds_per_group", "contribution_bounds_per_row"
TEN = f"{GROUP} => (0, 10)"
CITIES = "RIGHT JOIN UNNEST(['Oslo', 'Bern']) AS city USING (city)"
BY = {"group": ['city=["Oslo", "Bern"]'], "undeclared": "drop"}


def query(text: str, **asked: Any) -> Compiled:
    return compiled(text, ASKED._replace(**asked))


def only(text: str, **asked: Any) -> dict[str, Any]:
    """The one metric of a query, without its name."""
    (metric,) = query(text, **asked).metrics
    return {name: value for name, value in metric.items() if name != "name"}


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        (f"SELECT COUNT(*, {TEN}) FROM t",
         {"kind": "count", "per_value": 10, "rows_per_user": 1}),
        (f"SELECT COUNT(x, {TEN}) FROM t",
         {"kind": "count", "per_value": 10, "rows_per_user": 1, "where": ["`x` is not null"]}),
        ("SELECT COUNT(*) FROM t", {"kind": "count", "by_row": True, "rows_per_user": 5}),
        ('SELECT COUNTIF(x > 1) FROM t WHERE y = "a\'b"',
         {"kind": "count", "by_row": True, "rows_per_user": 5,
          "where": ["(`y` == 'a''b')", "(`x` > 1)"]}),
        ("SELECT COUNT(DISTINCT rider) FROM t",
         {"kind": "count", "per_value": 1, "rows_per_user": 1}),
        (f"SELECT COUNT(DISTINCT rider, {GROUP} => (0, 1)) FROM t",
         {"kind": "count", "per_value": 1, "rows_per_user": 1}),
        (f"SELECT SUM(x, {GROUP} => (-5, 2.5)) FROM t",
         {"kind": "sum", "column": "x", "bounds": "-5,2.5", "rows_per_user": 1}),
        (f"SELECT AVG(x, {GROUP} => (0, 100)) FROM t",
         {"kind": "mean", "column": "x", "bounds": "0,100", "rows_per_user": 1}),
        (f"SELECT AVG(x, {ROW} => (0, 100)) FROM t",
         {"kind": "mean", "column": "x", "bounds": "0,100", "by_row": True, "rows_per_user": 5}),
        (f"SELECT AVG(x / 60, {GROUP} => (0, 9)) FROM t",
         {"kind": "mean", "column": "expression of the query", "bounds": "0,9",
          "rows_per_user": 1, "derive": {"expression of the query": "(`x` / 60)"}}),
        (f"SELECT city, COUNT(*, {TEN}) FROM t {CITIES} GROUP BY city",
         {"kind": "count", "per_value": 10, "rows_per_user": 1} | BY),
        (f"SELECT PERCENTILE_CONT(x, 0.5, {ROW} => (0, 9)) FROM t",
         {"kind": "distribution", "column": "x", "bounds": "0,9", "quantile": 0.5}),
        (f"SELECT APPROX_QUANTILES(x, 2, {ROW} => (0, 9)) FROM t",
         {"kind": "distribution", "column": "x", "bounds": "0,9", "quantile": 0.5}),
        (f"SELECT APPROX_QUANTILES(x, 100, {ROW} => (0, 9))[OFFSET(95)] FROM t",
         {"kind": "distribution", "column": "x", "bounds": "0,9", "quantile": 0.95}),
        (f"SELECT APPROX_QUANTILES(x, 4, {ROW} => (0, 9))[SAFE_ORDINAL(2)] FROM t",
         {"kind": "distribution", "column": "x", "bounds": "0,9", "quantile": 0.25}),
        (f"SELECT APPROX_QUANTILES(x, 4, {ROW} => (0, 9)) FROM t",
         {"kind": "distribution", "column": "x", "bounds": "0,9", "quantiles": "0.25,0.5,0.75"}),
    ],
)  # fmt: skip
def test_each_aggregate_is_a_statistic(text: str, metric: dict[str, Any]) -> None:
    assert only(text) == metric


def test_a_user_counts_in_as_many_groups_as_is_said_and_in_no_more_than_there_are() -> None:
    text = f"SELECT city, COUNT(*, {TEN}) FROM t {CITIES} GROUP BY city"
    assert only(text, most_groups=2)["rows_per_user"] == 2
    assert only(text, most_groups=9)["rows_per_user"] == 2
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed = 2) "
    assert only(text.replace("SELECT ", clause, 1))["rows_per_user"] == 2
    users = f"SELECT city, COUNT(DISTINCT rider) FROM t {CITIES} GROUP BY city"
    assert only(users)["rows_per_user"] == 2  # of the five rows that count


def test_without_a_unit_column_rows_are_the_unit() -> None:
    assert only(f"SELECT COUNT(*, {TEN}) FROM t", unit=None, rows=None) == {"kind": "count"}
    mean = only(f"SELECT AVG(x, {GROUP} => (0, 1)) FROM t", unit=None, rows=None)
    assert mean == {"kind": "mean", "column": "x", "bounds": "0,1"}


def test_the_clause_and_what_stands_beside_it_are_one() -> None:
    clause = "OPTIONS(epsilon=2, delta=1e-6, privacy_unit_column=id, max_groups_contributed=3)"
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY {clause} COUNT(*, {TEN}) FROM t"
    terms = compiled(text, QueryTerms()).terms
    assert (terms.unit, terms.epsilon, terms.delta, terms.most_groups) == ("id", 2, 1e-6, 3)
    assert compiled(text, QueryTerms(unit="id", epsilon=2.0)).terms.epsilon == 2
    for other in (
        QueryTerms(epsilon=1.0),
        QueryTerms(unit="user"),
        QueryTerms(delta=1e-7),
        QueryTerms(most_groups=1),
    ):
        with pytest.raises(RequestError, match="said beside the query, too, and otherwise"):
            compiled(text, other)


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("hour", "hour=0..23"),
        ("EXTRACT(HOUR FROM t AT TIME ZONE 'Asia/Tokyo')", "0..23"),
        ("x > 3", '["false", "true"]'),
        ("CASE WHEN x > 3 THEN 'far' WHEN x > 1 THEN 'near' END", '["far", "near"]'),
        ("IF(x > 3, 'far', 'near')", '["far", "near"]'),
        ("REGEXP_CONTAINS(s, 'a+')", '["false", "true"]'),
        ("EXTRACT(DAYOFWEEK FROM t)", "1..7"),
        ("EXTRACT(MONTH FROM t AT TIME ZONE 'UTC')", "1..12"),
        ("EXTRACT(DAY FROM t)", "1..31"),
        ("EXTRACT(MINUTE FROM t)", "0..59"),
        ("CAST(x AS BOOL)", '["false", "true"]'),
    ],
)
def test_values_that_a_query_or_its_request_says_are_declared(expression: str, values: str) -> None:
    for by in ("g", "1", expression):
        metric = only(f"SELECT {expression} AS g, COUNT(*) FROM t GROUP BY {by}")
        assert metric["group"][0].endswith(values)


@pytest.mark.parametrize(
    ("expression", "derived"),
    [
        ("CAST(x AS INT64)", "cast(`x`, 'whole')"),
        ("SAFE_CAST(x / 2 AS FLOAT64)", "cast((`x` / 2), 'number')"),
        ("LENGTH(CAST(x AS STRING))", "length(cast(`x`, 'text'))"),
        ("EXTRACT(YEAR FROM t AT TIME ZONE 'Asia/Tokyo')", "year(`t`, 'Asia/Tokyo')"),
        ("EXTRACT(DAYOFWEEK FROM t)", "if(weekday(`t`) == 7, 1, weekday(`t`) + 1)"),
    ],
)
def test_types_and_parts_of_times_are_expressions_of_rows(expression: str, derived: str) -> None:
    metric = only(f"SELECT AVG({expression}, {GROUP} => (0, 9)) FROM t")
    assert [*metric["derive"].values()] == [derived]


def test_groups_are_the_product_of_what_is_declared_in_the_order_of_their_columns() -> None:
    made = query(f"SELECT hour, COUNT(*) n, city FROM t {CITIES} GROUP BY city, hour")
    assert made.metrics[0]["group"] == ['city=["Oslo", "Bern"]', "hour=0..23"]
    assert [label for label, _ in made.answer.groups] == ["city", "hour"]
    assert made.answer.columns == ("g1", "f0", "g0")


@pytest.mark.parametrize("text", ["WITH a AS ({}), b AS ({}) {}", "WITH b AS ({1}) {2}", "{3}"])
def test_subqueries_and_ctes_are_expressions_of_rows_and_what_must_hold(text: str) -> None:
    inner = "SELECT x / 60 AS y, city, rider AS who FROM log WHERE x > 0"
    middle = f"SELECT * FROM {'a' if '{}' in text else f'({inner})'} WHERE y < 5"
    outer = f"SELECT AVG(y, {ROW} => (0, 9)) m, COUNT(DISTINCT who) FROM "
    made = query(text.format(inner, middle, f"{outer} b", f"{outer} ({middle})"))
    mean, users = made.metrics
    assert mean["derive"] == {"y of the query": "(`x` / 60)"}
    assert mean["where"] == users["where"] == ["(`x` > 0)", "((`x` / 60) < 5)"]
    assert made.table == "log"


def test_a_public_table_is_looked_up_by_its_key() -> None:
    text = "SELECT land, COUNT(*) n FROM t {} zones USING (city) GROUP BY land"
    lookup = "lookup(`city`, 'Oslo', 'north', 'Bern', 'south', 'Rom', 'south')"
    inner, left = only(text.format("JOIN")), only(text.format("LEFT JOIN"))
    assert inner["derive"] == left["derive"] == {"land of the query": lookup}
    assert inner["group"] == ['land of the query=["north", "south"]']
    assert inner["where"] == ["(`city` in ('Oslo', 'Bern', 'Rom'))"]
    assert "where" not in left
    right = only("SELECT city, COUNT(*) n FROM t RIGHT JOIN zones USING (city) GROUP BY city")
    assert right["group"] == ['city=["Oslo", "Bern", "Rom"]']


def test_on_names_the_column_of_either_side() -> None:
    lookup = "lookup(`town`, 'Oslo', 'north', 'Bern', 'south', 'Rom', 'south')"
    for on in ("t.town = z.city", "z.city = town"):
        text = f"SELECT land, COUNT(*) n FROM t JOIN zones AS z ON {on} GROUP BY land"
        assert only(text)["derive"] == {"land of the query": lookup}
    right = "SELECT z.city, COUNT(*) n FROM t RIGHT JOIN zones z ON town = z.city GROUP BY z.city"
    assert only(right)["group"] == ['town=["Oslo", "Bern", "Rom"]']
    listed = "(SELECT DISTINCT c FROM UNNEST(['Oslo', 'Bern']) AS c) AS d ON d.c = t.town"
    for values in ("UNNEST(['Oslo', 'Bern']) AS c ON t.town = c", listed):
        made = query(f"SELECT c, COUNT(*) n FROM t RIGHT JOIN {values} GROUP BY c")
        assert made.metrics[0]["group"] == ['town=["Oslo", "Bern"]']
        assert made.answer.groups == (("c", ("Oslo", "Bern")),)


def test_a_column_is_of_the_table_that_is_named() -> None:
    lookup = "lookup(`zone`, 'Oslo', 'north', 'Bern', 'south', 'Rom', 'south')"
    known = "`zone` in ('Oslo', 'Bern', 'Rom')"
    for on, joined, text in (
        ("JOIN zones z ON t.zone = z.city", "t.land", "(`land` == 'x')"),
        ("JOIN zones z ON t.zone = z.city", "z.land", f"({lookup} == 'x')"),
        ("JOIN zones z ON t.zone = z.city", "land", f"({lookup} == 'x')"),
        ("JOIN zones z ON t.zone = z.city", "t.city", "(`city` == 'x')"),
        ("JOIN zones z ON t.zone = z.city", "z.city", "(`zone` == 'x')"),
        ("LEFT JOIN zones z ON t.zone = z.city", "z.city", f"(if(({known}), `zone`, null) == 'x')"),
        ("JOIN zones USING (city)", "t.land", "(`land` == 'x')"),
        ("JOIN zones USING (city)", "city", "(`city` == 'x')"),
    ):
        counted = only(f"SELECT COUNTIF({joined} = 'x') FROM t {on}")
        assert counted["where"][-1] == text
    right = "FROM t RIGHT JOIN UNNEST(['Oslo']) AS home ON t.town = home"
    for by in ("home", "t.town"):
        made = query(f"SELECT {by} AS h, COUNTIF(t.home = 'x') AS n {right} GROUP BY h")
        assert made.metrics[0]["group"] == ['town=["Oslo"]']
        assert made.metrics[0]["where"] == ["(`home` == 'x')"]
        assert made.answer.bare == ((("home", made.answer.text.index("home")),) * (by == "home"))


def test_values_of_a_join_come_before_those_that_another_declares() -> None:
    text = "SELECT hour, COUNT(*) FROM t RIGHT JOIN UNNEST([1, 2]) AS hour USING (hour) GROUP BY 1"
    assert only(text)["group"] == ['hour=["1", "2"]']  # and not 0..23 of the request


def test_how_columns_of_a_joined_table_are_used_says_nothing_of_the_log() -> None:
    text = "SELECT COUNTIF(z.land > 5), COUNTIF(t.x > 5) FROM t JOIN zones z USING (city)"
    assert query(text).types == {"x": "float"}


def test_bounds_that_nobody_says_are_chosen_once_for_each_expression() -> None:
    text = "SELECT AVG(x / 60) a, SUM(x) s, APPROX_QUANTILES(x, 2) q, COUNT(*) n FROM t WHERE y > 1"
    waiting = query(text, bounds={})
    assert waiting.unbounded == {"(`x` / 60)": "(`x` / 60)", "`x`": "x"}
    assert waiting.where == ("(`y` > 1)",)
    made = query(text, bounds={"(`x` / 60)": (0.0, 8.0), "`x`": (-4.0, 512.0)})
    assert not made.unbounded
    wanted = ["0.0,8.0", "-4.0,512.0", "-4.0,512.0", None]
    assert [metric.get("bounds") for metric in made.metrics] == wanted
    assert [metric.get("by_row") for metric in made.metrics] == [True, True, None, True]
    private = query("SELECT AVG(x) FROM t", bounds={"`x`": (0.0, 8.0)}, rows=None, most_groups=3)
    assert private.metrics[0]["rows_per_user"] == 1


def test_quantiles_of_rows_are_said_to_be_of_rows() -> None:
    text = f"SELECT PERCENTILE_CONT(x, 0.5, {ROW} => (0, 9)) FROM t"
    assert (
        query(text).answer.figures[0].meaning
        == "rows, those of a user counted together as one, clipped"
    )
    assert query(text, unit=None, rows=None).answer.figures[0].meaning == "rows, clipped"


def test_what_having_and_order_by_look_at_is_priced_once_and_published() -> None:
    ending = f"HAVING COUNT(*) > 9 AND SUM(x, {GROUP} => (0, 1)) > 2 ORDER BY n DESC, city LIMIT 3"
    made = query(f"SELECT city, COUNT(*) AS n FROM t {CITIES} GROUP BY city {ending}")
    assert [metric["kind"] for metric in made.metrics] == ["count", "sum"]
    assert [figure.label for figure in made.answer.figures] == ["n", ""]
    assert made.answer.having == "((f0 > 9) and (f1 > 2))"
    assert made.answer.order == (("f0", True), ("g0", False))
    assert made.answer.limit == 3


def test_quantiles_of_one_column_are_one_distribution() -> None:
    each = "PERCENTILE_CONT(x, {}, {} => (0, 9)) AS q{}"
    parts = ", ".join(each.format(p, ROW, i) for i, p in enumerate((0.9, 0.5)))
    made = query(f"SELECT {parts} FROM t")
    assert [metric["quantiles"] for metric in made.metrics] == ["0.5,0.9"]
    assert [figure.quantiles for figure in made.answer.figures] == [(0.9,), (0.5,)]


def test_spreads_and_the_mean_of_one_column_are_one_metric() -> None:
    names = ("VARIANCE", "VAR_SAMP", "VAR_POP", "STDDEV", "STDDEV_SAMP", "STDDEV_POP", "AVG")
    aggregates = ", ".join(f"{name}(x, {ROW} => (0, 9)) AS {name}" for name in names)
    for order in (
        f"SELECT {aggregates} FROM t",
        f"SELECT AVG(x, {ROW} => (0, 9)), {aggregates} FROM t",
    ):
        made = query(order)
        assert [metric["kind"] for metric in made.metrics] == ["variance"]
        figures = {one.label: (one.kind, one.sample) for one in made.answer.figures}
        assert figures["VAR_POP"] == ("variance", False)
        assert figures["STDDEV_POP"] == ("deviation", False)
        assert figures["VARIANCE"] == figures["VAR_SAMP"] == ("variance", True)
        assert figures["STDDEV"] == figures["STDDEV_SAMP"] == ("deviation", True)
        assert figures["AVG"] == ("mean", False)
        (metric,) = made.metrics
        assert {one.tables[0] for one in made.answer.figures} == {
            f"{metric['name']}/{name}.parquet" for name in ("variance", "deviation", "mean")
        }
    others = query(f"SELECT AVG(x, {ROW} => (0, 8)), STDDEV(x, {ROW} => (0, 9)) FROM t")
    assert [metric["kind"] for metric in others.metrics] == ["mean", "variance"]


@pytest.mark.parametrize("text", ["{} / {}", "SAFE_DIVIDE({}, ({}))", "(({}) / {})"])
def test_a_quotient_of_totals_is_made_of_what_is_published(text: str) -> None:
    total = f"SUM(x, {GROUP} => (0, 9))"
    divided = text.format(total, "COUNT(DISTINCT rider)")
    made = query(f"SELECT {total} AS s, {divided} AS r FROM t HAVING {total} / 2 > 1 ORDER BY r")
    assert [metric["kind"] for metric in made.metrics] == ["sum", "count"]  # each priced once
    shown, divisor, ratio = made.answer.figures
    assert ratio.over == (shown, divisor)
    assert (ratio.kind, divisor.label, made.answer.columns) == ("ratio", "", ("f0", "f2"))
    assert made.answer.order == (("f2", False),)
    assert made.answer.names[-4:] == ["r", "r_standard_error", "r_lower", "r_upper"]


def test_figures_whose_names_differ_in_signs_alone_are_metrics_of_their_own() -> None:
    bounds = f"{GROUP} => (0, 9)"
    text = f"SELECT SUM(x, {bounds}) AS `n 2`, SUM(y, {bounds}) AS n, AVG(z, {bounds}) AS N, "
    made = query(f"{text} SUM(w, {bounds}) AS `n-2`, SUM(v, {bounds}) AS `n!` FROM t")
    of = {metric["name"]: (metric["kind"], metric["column"]) for metric in made.metrics}
    assert len(of) == len(made.metrics) == 5
    assert [(figure.label, of[figure.metric][1]) for figure in made.answer.figures] == [
        ("n 2", "x"), ("n", "y"), ("N", "z"), ("n-2", "w"), ("n!", "v"),
    ]  # fmt: skip
    assert all(figure.kind == of[figure.metric][0] for figure in made.answer.figures)


def test_names_with_dots_stay_whole_and_named_arguments_are_kept() -> None:
    """sqlglot's BigQuery splits the first at their dots, and its builders lose the others."""
    metric = only(f"SELECT AVG(`a.b.c`, {GROUP} => (1, 2)) FROM `my.log.x`")
    assert (metric["column"], metric["bounds"]) == ("a.b.c", "1,2")
    assert query(f"SELECT COUNT(*, {TEN}) FROM `my.log.x`").table == "my.log.x"
    assert query(f"SELECT COUNT(*, {TEN}) FROM 'a.b/*.csv.gz' AS t").files == ("a.b/*.csv.gz",)


def test_texts_are_written_so_that_no_expression_ends_in_them() -> None:
    metric = only("SELECT COUNT(*) FROM t WHERE s = \"it's') or true or ('\"")
    assert metric["where"] == ["(`s` == 'it''s'') or true or (''')"]
    values = "RIGHT JOIN UNNEST(['a\"b', 'c,d']) AS s USING (s)"
    listed = only(f"SELECT s, COUNT(*) FROM t {values} GROUP BY s")
    assert json.loads(listed["group"][0].partition("=")[2]) == ['a"b', "c,d"]


def test_declared_whole_numbers_are_sorted_as_numbers() -> None:
    values = "RIGHT JOIN UNNEST([9, 10, -1]) AS k USING (k)"
    made = query(f"SELECT k, COUNT(*) FROM t {values} GROUP BY k HAVING k > 0")
    assert made.answer.groups == (("k", (9, 10, -1)),)
    texts = query(f"SELECT k, COUNT(*) FROM t {values} GROUP BY k".replace("9", "'09'"))
    assert texts.answer.groups == (("k", ("09", "10", "-1")),)
