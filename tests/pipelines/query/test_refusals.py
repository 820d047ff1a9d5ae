"""What is no query here: one line each, with its place, and without a value."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from pipelines.compat.google_sql import SqlError, parsed
from pipelines.errors import RequestError
from pipelines.query.allowed import ALLOWED, require_allowed
from pipelines.query.clause import QueryTerms
from pipelines.query.compiler import compiled
from pipelines.query.public import PublicTable

ZONES = PublicTable({"city": ["Oslo", "Bern"], "land": ["n", "n"]})
ASKED = QueryTerms(
    unit="rider", epsilon=1.0, rows=5, groups={"hour": "0..23"}, public={"zones": ZONES}
)
TEN = "contribution_bounds_per_group => (0, 10)"
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY"
ONE = "contribution_bounds_per_row => (0, 1)"
CITIES = "RIGHT JOIN UNNEST(['Oslo', 'Bern']) AS city USING (city)"
CANARY = "CANARY"

FORBIDDEN = {
    # the unit column
    "SELECT rider, COUNT(*) FROM t GROUP BY rider": "unit column",
    f"SELECT COUNT(*) FROM t WHERE rider = '{CANARY}'": "unit column",
    f"SELECT COUNTIF(rider = '{CANARY}') FROM t": "unit column",
    f"SELECT COUNT(*) FROM t WHERE rider IN ('{CANARY}')": "unit column",
    "SELECT COUNT(rider) FROM t": "unit column",
    f"SELECT COUNTIF(rider = '{CANARY}') / COUNT(*) FROM t": "unit column",
    f"SELECT STDDEV(LENGTH(rider), {ONE}) FROM t": "unit column",
    f"SELECT COUNT(*) FROM (SELECT rider AS who FROM t) WHERE who = '{CANARY}'": "unit column",
    f"SELECT COUNT(*) FROM (SELECT rider = '{CANARY}' AS it FROM t) WHERE it": "unit column",
    "SELECT LENGTH(rider) > 3 AS g, COUNT(*) FROM t GROUP BY g": "unit column",
    f"SELECT SUM(LENGTH(rider), {TEN}) FROM t": "unit column",
    f"SELECT COUNT(*) FROM t RIGHT JOIN UNNEST(['{CANARY}']) AS rider USING (rider) GROUP BY rider":
        "aggregate is missing|unit column",
    # subqueries and CTEs
    "SELECT COUNT(*) FROM (SELECT x FROM t LIMIT 5)": "LIMIT",
    "SELECT COUNT(*) FROM (SELECT x FROM t ORDER BY x)": "ORDER BY",
    "SELECT COUNT(*) FROM (SELECT DISTINCT x FROM t)": "DISTINCT",
    "SELECT COUNT(*) FROM (SELECT COUNT(*) AS n FROM t)": "no function of rows",
    "SELECT COUNT(*) FROM (SELECT x, MAX(y) AS m FROM t GROUP BY x)": "GROUP BY",
    "WITH a AS (SELECT x FROM t HAVING x > 1) SELECT COUNT(*) FROM a": "HAVING",
    "SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (ORDER BY x) AS r FROM t)": "window",
    "SELECT COUNT(*) FROM (SELECT x FROM t UNION ALL SELECT x FROM u)": "set operations",
    "SELECT COUNT(*) FROM t UNION ALL SELECT COUNT(*) FROM u": "set operations",
    "SELECT COUNT(*) FROM t EXCEPT DISTINCT SELECT 1": "set operations",
    "SELECT COUNT(*) FROM t WHERE x IN (SELECT y FROM u)": "behind FROM",
    "SELECT COUNT(*) FROM t WHERE EXISTS (SELECT 1 FROM u)": "behind FROM",
    "SELECT COUNT(*) FROM t WHERE x = (SELECT MAX(y) FROM u)": "behind FROM",
    "SELECT (SELECT COUNT(*) FROM t) AS n, COUNT(*) FROM t": "alone",
    "WITH RECURSIVE a AS (SELECT x FROM a) SELECT COUNT(*) FROM a": "does not call itself",
    "WITH a AS (SELECT x FROM t), b AS (SELECT x FROM t) SELECT COUNT(*) FROM a": "nobody names",
    "SELECT COUNT(*) FROM (SELECT x + 1 FROM t)": "has a name",
    # rows
    "SELECT * FROM t": "\\* stands in COUNT",
    "SELECT x FROM t": "GROUP BY names",
    "SELECT x, COUNT(*) FROM t": "GROUP BY names",
    "SELECT DISTINCT x FROM t": "DISTINCT",
    "SELECT COUNT(*) FROM t WHERE RAND() < 0.5": "RAND",
    "SELECT COUNT(*) FROM t TABLESAMPLE SYSTEM (10 PERCENT)": "TABLESAMPLE",
    "SELECT COUNT(*) FROM t, UNNEST(tags) AS tag": "beside the log",
    "SELECT COUNT(*) FROM t AS a JOIN t AS b USING (x)": "beside the log",
    "SELECT COUNT(*) FROM t CROSS JOIN zones": "beside the log",
    "SELECT COUNT(*) FROM t JOIN zones ON t.city = t.city": "beside the log",
    "SELECT COUNT(*) FROM t JOIN zones ON t.city > zones.city": "beside the log",
    "SELECT COUNT(*) FROM t JOIN zones ON LOWER(t.city) = zones.city": "beside the log",
    "SELECT COUNT(*) FROM t JOIN zones ON t.rider = zones.city": "unit column",
    "SELECT COUNT(*) FROM t JOIN zones USING (city) JOIN zones USING (city)": "there already",
    "SELECT COUNT(*) FROM t JOIN zones a USING (city) JOIN zones b USING (city)": "beside the log",
    "SELECT COUNTIF(city = 'Oslo') FROM t LEFT JOIN zones ON t.city = zones.city": "say whose",
    "SELECT COUNTIF(land = 'n') FROM t JOIN zones ON t.land = zones.city": "say whose",
    "SELECT COUNTIF(land = 'n') FROM (SELECT city, land FROM t) JOIN zones USING (city)":
        "say whose",
    "SELECT COUNTIF(z.town = 'n') FROM t JOIN zones z USING (city)": "no such column",
    "SELECT COUNTIF(zones.land = 'n') FROM t JOIN zones z USING (city)": "no table of that name",
    "SELECT t.home, COUNT(*) FROM t RIGHT JOIN UNNEST(['a']) AS home ON t.town = home GROUP BY "
    "t.home": "declared values are of a column that GROUP BY names",
    "SELECT COUNT(*) FROM t FULL JOIN zones USING (city)": "beside the log",
    "SELECT COUNT(*) FROM t JOIN zones USING (land)": "key of a public table",
    "SELECT COUNT(*) FROM zones": "FROM names the log",
    f"SELECT COUNT(*) FROM t WHERE s LIKE '{CANARY}%'": "REGEXP_CONTAINS",
    "SELECT COUNT(*) FROM t WHERE CAST(x AS NUMERIC) > 1": "INT64, FLOAT64, STRING and BOOL",
    "SELECT COUNT(*) FROM t WHERE CAST(x AS STRING FORMAT 'x') = 'y'": "FORMAT cannot stand",
    "SELECT COUNT(*) FROM t WHERE CAST(rider AS INT64) > 1": "unit column",
    "SELECT COUNT(*) FROM t WHERE EXTRACT(WEEK FROM t) = 1": "EXTRACT takes one of DATE, YEAR",
    "SELECT COUNT(*) FROM t WHERE a.b.c > 1": "one name",
    f"SELECT COUNT(*) FROM t WHERE FROBNICATE(x, '{CANARY}')": "no function of rows",
    "SELECT COUNT(*) FROM t QUALIFY ROW_NUMBER() OVER () = 1": "QUALIFY|window",
    "SELECT COUNT(*)": "FROM is missing",
    # aggregates
    "SELECT MIN(x) FROM t": "PERCENTILE_CONT\\(x, 0.01",
    "SELECT MAX(x) FROM t": "PERCENTILE_CONT\\(x, 0.99",
    "SELECT ANY_VALUE(x) FROM t": "ANY_VALUE",
    "SELECT ARRAY_AGG(x) FROM t": "ARRAY_AGG",
    "SELECT COUNT(DISTINCT city) FROM t": "units alone are counted distinctly",
    "SELECT APPROX_COUNT_DISTINCT(rider) FROM t": "COUNT\\(DISTINCT unit",
    "SELECT APPROX_TOP_COUNT(city, 3), COUNT(*) FROM t": "stands alone",
    "SELECT APPROX_TOP_COUNT(city, 3) FROM t GROUP BY hour": "stands alone",
    "SELECT APPROX_TOP_COUNT(city) FROM t": "stands alone",
    "SELECT APPROX_TOP_COUNT(rider, 3) FROM t": "unit column",
    "SELECT APPROX_TOP_COUNT(city, 0) FROM t": "from 1 on",
    "SELECT CORR(x, y) FROM t": "not answered yet",
    "SELECT STDDEV(x) FROM t": "write STDDEV\\(x, contribution_bounds_per_group",
    f"SELECT APPROX_QUANTILES(x, 4, {ONE})[OFFSET(4)] FROM t": "at OFFSET.1. to OFFSET.3.",
    f"SELECT APPROX_QUANTILES(x, 4, {ONE})[OFFSET(0)] FROM t": "at OFFSET.1. to OFFSET.3.",
    "SELECT x[OFFSET(0)] FROM t": "brackets stand behind a quantile alone",
    f"SELECT city, APPROX_QUANTILES(x, 1, {ONE}) FROM t {CITIES} GROUP BY city":
        "a whole number of parts is needed, 2 to 100",
    f"SELECT PERCENTILE_CONT(x, 0.5, {ONE}) OVER () FROM t": "window",
    "SELECT AVG(x) FROM t": "bounds are public knowledge.*contribution_bounds_per_group",
    "SELECT SUM(x) FROM t": "bounds are public knowledge",
    "SELECT PERCENTILE_CONT(x, 0.5) FROM t": "contribution_bounds_per_row",
    "SELECT AVG(x, contribution_bounds_per_group => (9, 1)) FROM t": "the lower one first",
    "SELECT AVG(x, contribution_bounds_per_group => (0, y)) FROM t": "two numbers",
    "SELECT AVG(x, bounds => (0, 1)) FROM t": "one argument has a name",
    "SELECT COUNT(*, contribution_bounds_per_group => (2, 9)) FROM t": "from 0 on",
    f"SELECT COUNT(*, {ONE}) FROM t": "a row counts once",
    "SELECT COUNT(*) / 2 FROM t": "an aggregate stands alone",
    f"SELECT AVG(x, {ONE}) / COUNT(*) FROM t": "an aggregate stands alone",
    "SELECT SAFE_DIVIDE(COUNT(*)) FROM t": "an aggregate stands alone",
    "SELECT COUNT(*) / COUNT(*) FROM t": "a figure over itself is 1",
    "SELECT COUNT(COUNT(*)) FROM t": "no function of rows",
    "SELECT COUNT(*) FROM t WHERE COUNT(*) > 1": "no function of rows",
    "SELECT ANON_COUNT(*) FROM t": "COUNT\\(\\.\\.\\., contribution_bounds_per_group",
    # groups
    "SELECT city, hour, COUNT(*) FROM t GROUP BY city, hour": "or of none.*--groups city=FILE",
    "SELECT a, b, c, COUNT(*) FROM t GROUP BY a, b, c": "two columns that nobody declared",
    f"SELECT city, y, PERCENTILE_CONT(x, 0.5, {ONE}) FROM t GROUP BY city, y":
        "quantiles are of groups of one column",
    f"SELECT city, STDDEV(x, {ONE}) FROM t GROUP BY city": "STDDEV is of groups that are decl",
    "SELECT hour, COUNT(*) FROM t GROUP BY ROLLUP(hour)": "ROLLUP",
    "SELECT hour, COUNT(*) FROM t GROUP BY CUBE(hour)": "CUBE",
    "SELECT hour, COUNT(*) FROM t GROUP BY ALL": "GROUP BY ALL",
    "SELECT hour, COUNT(*) FROM t GROUP BY 7": "no such column",
    "SELECT hour, COUNT(*) n FROM t GROUP BY hour, hour": "twice",
    f"SELECT COUNT(*) FROM t {CITIES}": "that GROUP BY names",
    "SELECT city, COUNT(*) FROM t RIGHT JOIN UNNEST(['Oslo', NULL]) AS city USING (city) GROUP BY "
    "city": "IFNULL",
    f"SELECT city, COUNT(*) FROM t RIGHT JOIN UNNEST(['{CANARY}', '{CANARY}']) AS city USING "
    "(city) GROUP BY city": "repeats value 1",
    "SELECT city, COUNT(*) FROM t LEFT JOIN UNNEST(['Oslo']) AS city USING (city) GROUP BY city":
        "RIGHT JOIN",
    "SELECT COUNT(*) AS n FROM t GROUP BY n": "no aggregate|NAME|UNNEST",
    # afterwards
    "SELECT hour, COUNT(*) n FROM t GROUP BY hour HAVING x > 1": "what is published alone",
    f"SELECT hour, COUNT(*) n FROM t GROUP BY hour HAVING n > '{CANARY}'": "compare numbers",
    "SELECT hour, COUNT(*) n FROM t GROUP BY hour ORDER BY x": "what is published alone",
    "SELECT hour, COUNT(*) n FROM t GROUP BY hour LIMIT -1": "whole number|no query",
    "SELECT COUNT(*) n, COUNT(x) n FROM t": "one name",
    "SELECT COUNT(*) n, COUNT(x) n_lower FROM t": "one name",
    # the clause
    "SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM t": "bounds are public knowledge",
    f"{CLAUSE} OPTIONS(epsilon=2) COUNT(*, {TEN}) FROM t": "say it once",
    f"{CLAUSE} OPTIONS(privacy_unit_column=x) COUNT(*, {TEN}) FROM t":
        "say it once",
    f"{CLAUSE} OPTIONS(group_selection_strategy=LAPLACE_THRESHOLD) hour, COUNT(*, {TEN}) FROM t "
    "GROUP BY hour": "all declared groups are published",
    f"{CLAUSE} OPTIONS(group_selection_strategy=PUBLIC_GROUPS) city, COUNT(*, {TEN}) FROM t "
    "GROUP BY city": "PUBLIC_GROUPS are declared.*--groups city=FILE",
    f"{CLAUSE} OPTIONS(group_selection_strategy=OTHER) COUNT(*, {TEN}) FROM t": "PUBLIC_GROUPS",
    f"{CLAUSE} OPTIONS(min_privacy_units_per_group=5) COUNT(*, {TEN}) FROM t": "HAVING",
    f"{CLAUSE} OPTIONS(frobnicate=5) COUNT(*, {TEN}) FROM t": "takes each once",
    f"SELECT WITH ANONYMIZATION OPTIONS(epsilon=1) COUNT(*, {TEN}) FROM t": "DIFFERENTIAL_PRIVACY",
    # other statements
    "SELECT COUNT(*) FROM t; SELECT COUNT(*) FROM t": "a second statement",
    "DROP TABLE t": "not answered|one SELECT",
    "INSERT INTO t VALUES (1)": "not answered|one SELECT",
    f"SELECT '{CANARY}": "no end",
    f"SELECT '{CANARY}' FROM FROM": "no query",
    "": "no query",
    "SELECT COUNT(*) FROM t WHERE " + "(" * 200 + "x" + ")" * 200: "deep",
}  # fmt: skip


@pytest.mark.parametrize("text", FORBIDDEN)
def test_what_is_forbidden_is_refused_in_one_line_with_its_place(text: str) -> None:
    with pytest.raises(RequestError, match=FORBIDDEN[text]) as caught:
        compiled(text, ASKED)
    said = str(caught.value)
    assert "\n" not in said
    assert said.startswith("query, line 1, column ")
    assert CANARY not in said


def test_there_are_sixty() -> None:
    assert len(FORBIDDEN) >= 60


def test_the_place_is_that_of_what_is_wrong() -> None:
    text = "SELECT\n  COUNT(*) AS n,\n  MAX(seconds)\nFROM t"
    with pytest.raises(RequestError, match=r"^report.sql, line 3, column 3: MAX is"):
        compiled(text, ASKED, "report.sql")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT SUM(x) FROM t", "say --rows-per-user 10"),
        (f"{CLAUSE} SUM(x) FROM t", r"write SUM\(x, contribution_bounds_per_group"),
        ("SELECT COUNT(*) FROM t", "say --rows-per-user 10"),
    ],
)
def test_bounds_that_no_first_round_chooses_are_refused(text: str, why: str) -> None:
    with pytest.raises(RequestError, match=f"^query, line 1, column [0-9]+: .*{why}"):
        compiled(text, ASKED._replace(bounds={}, rows=None))


def test_a_first_round_is_named_where_there_can_be_one() -> None:
    cases: tuple[tuple[Any, bool], ...] = ((None, True), (False, False))
    for bounds, there in cases:
        with pytest.raises(RequestError, match=r"write AVG\(x, ") as caught:
            compiled("SELECT AVG(x) FROM t", ASKED._replace(bounds=bounds))
        assert ("choose-bounds" in str(caught.value)) == there
    assert QueryTerms().bounds is False  # plans and steps of pipelines are one round


def test_columns_that_are_derived_of_the_unit_are_refused_like_it() -> None:
    terms = ASKED._replace(of_unit=frozenset(["u"]))
    for text in ("SELECT COUNT(*) FROM t WHERE u = 1", "SELECT u, COUNT(*) FROM t GROUP BY u"):
        with pytest.raises(RequestError, match="the unit column stands"):
            compiled(text, terms)


def test_an_epsilon_that_promises_nothing_is_refused() -> None:
    with pytest.raises(RequestError, match="above 60 promises nothing"):
        compiled(f"SELECT COUNT(*, {TEN}) FROM t", QueryTerms(epsilon=61.0))
    text = f"{CLAUSE} OPTIONS(epsilon=1e20) COUNT(*, {TEN}) FROM t"
    with pytest.raises(RequestError, match="above 60 promises nothing"):
        compiled(text, QueryTerms())


# ---- any other node

SEED = (
    "WITH a AS (SELECT x / 60 AS y, hour FROM t WHERE x > 0) SELECT hour, COUNT(*) AS n, "
    f"AVG(y, {TEN}) FROM a WHERE NOT (y IN (1, 2) OR y BETWEEN 3 AND 4) AND y IS NOT NULL AND "
    "CASE WHEN y > 1 THEN TRUE ELSE FALSE END GROUP BY hour HAVING n > 1 ORDER BY n DESC LIMIT 5"
)


def kinds() -> Iterator[type[exp.Expr]]:
    """Every node that sqlglot has."""
    waiting = [exp.Expr]
    while waiting:
        waiting += (kind := waiting.pop()).__subclasses__()
        yield kind


STRANGE = sorted({k for k in kinds() if k not in ALLOWED}, key=lambda kind: kind.__name__)
KNOWN = sorted(ALLOWED, key=lambda kind: kind.__name__)


def test_the_seed_is_allowed() -> None:
    require_allowed(parsed(SEED))
    assert len(compiled(SEED, ASKED).metrics) == 2
    assert len(STRANGE) > 800


@given(st.integers(0, 1 << 30))
@settings(max_examples=400)
def test_a_node_outside_the_list_is_refused_wherever_it_stands(number: int) -> None:
    """Whatever it is, and also as an argument of a node that nobody looks at."""
    rng = random.Random(number)
    tree = parsed(SEED)
    nodes = [node for node in tree.walk() if node is not tree]
    strange = rng.choice(STRANGE)
    try:
        odd = strange(this=exp.column("x"))
    except Exception:  # an abstract one
        return
    where = rng.choice(nodes)
    if rng.random() < 0.5:
        where.replace(odd)
    else:
        unknown = sorted({*where.arg_types} - {*ALLOWED[type(where)]})
        if not unknown:
            return
        where.set(rng.choice(unknown), rng.choice([odd, exp.column("x"), True, [exp.column("x")]]))
    with pytest.raises(SqlError):
        require_allowed(tree)


# ---- any text

SIGNS = """SELECT FROM WHERE GROUP BY ORDER HAVING LIMIT WITH AS JOIN RIGHT LEFT UNNEST USING ON
COUNT SUM AVG DISTINCT CASE WHEN THEN ELSE END IN IS NOT NULL BETWEEN AND OR EXTRACT HOUR AT TIME
ZONE CAST SAFE_CAST SAFE . , ( ) [ ] => = < > - + * / ; ' ` ``` -- /* */ # @ @@ ? $1 x city rider
'a' 1 0.5 1e999 OPTIONS DIFFERENTIAL_PRIVACY OVER PARTITION UNION ALL EXISTS t STRUCT ARRAY INTERVAL
DATE PIVOT UNPIVOT FOR TABLESAMPLE QUALIFY WINDOW |>"""
WORDS = st.sampled_from([*SIGNS.split(), "\x00", "\n", '"', "\\"])


def answered(text: str) -> str:
    """What is said of a text that is no query; nothing of one that is."""
    try:
        compiled(text, ASKED)
    except RequestError as error:
        return str(error)
    return ""


@given(st.lists(WORDS, max_size=25).map(" ".join) | st.text(max_size=60))
@settings(max_examples=600)
def test_fuzz_any_text_is_a_query_or_refused_in_one_line(text: str) -> None:
    assert "\n" not in answered(text)


@given(st.data())
@settings(max_examples=300)
def test_fuzz_a_query_that_is_cut_and_mended_raises_nothing_else(data: st.DataObject) -> None:
    base = data.draw(st.sampled_from([SEED, *FORBIDDEN]))
    parts = base.split(" ")
    place = data.draw(st.integers(0, len(parts)))
    parts[place : place + data.draw(st.integers(0, 2))] = data.draw(st.lists(WORDS, max_size=3))
    assert "\n" not in answered(" ".join(parts))
