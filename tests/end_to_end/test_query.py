"""`hushbeam query`, `hushbeam.sql` and queries in plans, on a log whose truth is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hushbeam
from pipelines.errors import RequestError
from tests.contract.laws import reach

ROWS, RIDERS = 24_000, 4000
BOUNDS = "contribution_bounds_per_group => (0, {})"
CITIES = "RIGHT JOIN UNNEST(['Oslo', 'Bern', 'Paris']) AS city USING (city)"


@pytest.fixture(scope="module")
def trips(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Six rows a rider; the third city is none that is asked for, and the last one has no rows."""
    rng = np.random.default_rng(7)
    rider = np.repeat(np.arange(RIDERS), 6)
    city = np.array(["Oslo", "Bern", "Rom"])[rng.choice(3, ROWS, p=[0.5, 0.3, 0.2])]
    seconds = rng.gamma(2.0, 300.0, ROWS).round()
    table = pa.table({
        "rider": rider, "city": pa.array(city, mask=rng.random(ROWS) < 0.1),
        "seconds": pa.array(seconds, mask=rng.random(ROWS) < 0.03),
        "hour": rng.integers(0, 24, ROWS),
    })  # fmt: skip
    path = tmp_path_factory.mktemp("trips") / "trips.parquet"
    pq.write_table(table, path)
    return str(path), table.to_pandas()


def near(table: pa.Table, label: str, truth: Any, wide: float = 1) -> None:
    """Hold figures to what they are of; one that is 30 % off would be found.

    Args:
        table: the release.
        label: the column of figures.
        truth: what they are of, one by one.
        wide: how many times as wide as they had to be bounds were, and as large the errors are.
    """
    # A row of thousands moves a mean by less.
    pitch = 1e-3 if label in {"mean", "minutes"} else 1.0

    for estimate, error, true in zip(
        table[label].to_pylist(), table[f"{label}_standard_error"].to_pylist(), truth, strict=True
    ):
        far = reach(error, pitch)
        assert abs(estimate - true) <= far
        assert true == 0 or 0.3 * abs(true) * wide > 2 * far


@pytest.mark.usefixtures("workspace")
def test_a_query_is_answered_by_one_line(run: Any, trips: Any) -> None:
    path, log = trips
    text = (
        f"SELECT city, COUNT(*, {BOUNDS.format(6)}) AS n, COUNT(DISTINCT rider) AS riders, "
        f"AVG(seconds, {BOUNDS.format(3600)}) AS mean, "
        f"SUM(seconds, {BOUNDS.format(9000)}) AS total "
        f"FROM '{path}' {CITIES} WHERE seconds > 60 GROUP BY city"
    )
    words = ["query", text, "--user-column", "rider", "--epsilon", "20", "--max-groups", "3"]
    outcome = run([*words, "--output", "out"])
    assert outcome.code == 0, outcome.said
    assert "Oslo" in outcome.out
    assert " ± " in outcome.out
    table = pq.read_table("out/query.parquet")
    assert table["city"].to_pylist() == ["Oslo", "Bern", "Paris"]
    rows = log[log.seconds > 60]
    by = rows.groupby("city")
    truth = [by.size().get(one, 0) for one in ("Oslo", "Bern", "Paris")]
    near(table, "n", truth)
    near(table, "riders", [by.rider.nunique().get(one, 0) for one in ("Oslo", "Bern", "Paris")])
    each = rows.groupby(["city", "rider"]).seconds
    means = each.mean().clip(0, 3600).groupby("city").mean()
    near(table.slice(0, 2), "mean", [means["Oslo"], means["Bern"]])
    near(
        table.slice(0, 2), "total", each.sum().clip(0, 9000).groupby("city").sum()[["Oslo", "Bern"]]
    )
    statement = json.loads(Path("out/statement.json").read_text())
    assert statement["queries"] == {"query": text}
    assert 19 < statement["guarantees"]["release"]["epsilon"] <= 20
    assert statement["metrics"] == ["n", "riders", "mean", "total"]
    again = run([*words, "--output", "out"])
    assert again.code == 0
    assert "released before" in again.out + again.err
    other = run([*words[:1], text.replace("60", "61"), *words[2:], "--output", "out"])
    assert other.code == 2


@pytest.mark.usefixtures("workspace")
def test_without_bounds_of_groups_each_row_counts_for_itself(trips: Any) -> None:
    path, log = trips
    text = (
        "SELECT city, COUNT(*) AS n, COUNT(seconds) AS told, COUNTIF(hour < 6) AS early, "
        f"AVG(seconds, contribution_bounds_per_row => (0, 3600)) AS mean FROM trips {CITIES} "
        "GROUP BY city"
    )
    asked = {"user_column": "rider", "epsilon": 20}
    release = hushbeam.sql(text, tables={"trips": path}, rows_per_user=6, **asked)
    by, two = log.groupby("city"), ["Oslo", "Bern"]
    near(release.table, "n", [*by.size()[two], 0])
    near(release.table, "told", [*by.seconds.count()[two], 0])
    near(release.table, "early", [*log[log.hour < 6].groupby("city").size()[two], 0])
    clipped = log.assign(seconds=log.seconds.clip(0, 3600)).groupby("city").seconds.mean()
    near(release.table.slice(0, 2), "mean", clipped[two])
    # Two of six rows, drawn uniformly: of each city a third, and means as they were.
    with pytest.warns(match="had more than was counted"):
        few = hushbeam.sql(text, tables={"trips": log}, rows_per_user=2, **asked)
    declared = log[log.city.isin(two)]
    kept = np.minimum(declared.groupby("rider").size(), 2).sum()
    assert sum(few.table["n"].to_pylist()) == pytest.approx(kept, abs=float(reach(5)))
    share = few.table["n"].to_pylist()[0] / kept
    assert share == pytest.approx(0.625, abs=6.2 * 0.5 / kept**0.5 + 0.01)


@pytest.mark.usefixtures("workspace")
def test_quantiles_are_of_one_row_of_each_user(trips: Any) -> None:
    path, log = trips
    bounds = "contribution_bounds_per_row => (0, 3000)"
    text = (
        f"SELECT PERCENTILE_CONT(seconds, 0.9, {bounds}) AS p90, "
        f"APPROX_QUANTILES(seconds, 4, {bounds}) AS q FROM '{path}'"
    )
    table = hushbeam.sql(text, user_column="rider", epsilon=20).table
    truth = log.seconds.quantile([0.9, 0.25, 0.5, 0.75]).tolist()
    named = zip(("p90", "q_1", "q_2", "q_3"), (0.9, 0.25, 0.5, 0.75), truth, strict=True)
    for label, shares, true in named:
        (estimate,) = table[label].to_pylist()
        # A row of each user is a sample of them: 6.2 of its standard errors, and a bin.
        far = 6.2 * (shares * (1 - shares) / RIDERS) ** 0.5
        low, high = log.seconds.quantile([max(shares - far, 0), min(shares + far, 1)])
        assert low - 10 <= estimate <= high + 10
        assert not low - 10 <= 1.3 * true <= high + 10
        assert f"{label}_standard_error" not in table.column_names


@pytest.mark.usefixtures("workspace")
def test_a_cte_a_public_table_and_what_is_done_afterwards(run: Any, trips: Any) -> None:
    path, log = trips
    Path("zones.csv").write_text("city,land\nOslo,north\nBern,south\n")
    Path("report.sql").write_text(
        "WITH t AS (SELECT city, seconds / 60 AS minutes, rider AS who FROM trips)\n"
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 20, privacy_unit_column = who,\n"
        "  max_groups_contributed = 2)\n"
        f"  land, AVG(minutes, {BOUNDS.format(60)}) AS mean\n"
        "FROM t JOIN zones USING (city) GROUP BY land\n"
        f"HAVING COUNT(*, {BOUNDS.format(6)}) > 9000 ORDER BY mean DESC\n"
    )
    words = ["query", "report.sql", "--input", path, "--public", "zones.csv"]
    explained = run([*words, "--explain"])
    assert explained.code == 0, explained.said
    for said in ("averaged", "count ±", "kind: mean", "together: central: epsilon"):
        assert said in explained.out
    assert not Path("out").exists()
    outcome = run([*words, "--output", "out", "--json"])
    assert outcome.code == 0, outcome.said
    said = json.loads(outcome.out)
    assert said["exit_code"] == 0
    assert said["answers"][0]["rows"] == pq.read_table("out/query.parquet").to_pylist()
    table = pq.read_table("out/query.parquet")
    land = log.city.map({"Oslo": "north", "Bern": "south"})
    sizes = log.groupby(land).size()
    assert min(abs(sizes - 9000)) > 500
    kept = [one for one in sizes.index if sizes[one] > 9000]
    assert table["land"].to_pylist() == kept
    means = (log.seconds / 60).groupby([land, log.rider]).mean().groupby("city").mean()
    near(table, "mean", [means[one] for one in kept])


@pytest.mark.usefixtures("workspace")
def test_a_saved_query_is_a_metric_of_a_plan(run: Any, trips: Any) -> None:
    path, log = trips
    plan = f"""\
collection: trips
version: 1
unit: user
user_column: rider
input: {path}
output: out
epsilon: 20
metrics:
- name: riders
  kind: count
- name: hours
  kind: count
  column: hour
  domain: 0..23
- name: cities
  kind: query
  sql: SELECT city, COUNT(*, {BOUNDS.format(6)}) AS n FROM log GROUP BY city ORDER BY n
  max_groups: 2
  groups: {{city: cities.txt}}
"""
    Path("cities.txt").write_text("Oslo\nBern\n")
    Path("plan.yaml").write_text(plan)
    assert run(["check", "plan.yaml"]).code == 0
    outcome = run(["run", "plan.yaml"])
    assert outcome.code == 0, outcome.said
    table = pq.read_table("out/cities.parquet")
    assert table["city"].to_pylist() == ["Bern", "Oslo"]
    near(table, "n", log.groupby("city").size()[["Bern", "Oslo"]])
    assert {*json.loads(Path("out/statement.json").read_text())["metrics"]} == {
        "riders",
        "hours",
        "cities-n",
    }
    Path("plan.yaml").write_text(plan.replace("city,", "hour,").replace("BY city", "BY hour"))
    assert run(["check", "plan.yaml"]).code == 0  # values that another metric declares
    clause = "sql: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({}) "
    clause += f"COUNT(*, {BOUNDS.format(6)}) AS n FROM log"
    for wrong, said in (
        (clause.format("delta=1e-12"), "plan.yaml, line 15: sql: the plan alone says its delta"),
        (clause.format("epsilon=19"), "column 50: epsilon is said beside the query, too"),
        (clause.format("privacy_unit_column=hour"), "privacy_unit_column is said beside the"),
        (
            "sql: SELECT AVG(seconds) FROM log",
            "write AVG(x, contribution_bounds_per_group => (low, high))\n",
        ),
        ("sql: SELECT COUNT(*) FROM log", "or say rows_per_user 10\n"),
        ("sql: SELECT MAX(x) FROM log", "plan.yaml, line 15: sql, line 1, column 8: MAX"),
        ("sql: SELECT COUNT(*) FROM 'x.csv'\n  rows_per_user: 2", "the plan says its input"),
        ("sq: SELECT COUNT(*) FROM log", "did you mean sql"),
        (
            f"sql: SELECT COUNT(*, {BOUNDS.format(6)}) FROM log WHERE LOWER(seconds) = 'CANARY'",
            "plan.yaml, line 15: sql, line 1, column 73: a text is needed, and column 'seconds'",
        ),
        ("sql: SELECT AVG(seconds) FROM log\n  choose_bounds: true", "a plan is one round"),
        ("file: none.sql", "none.sql is no file"),
        ("sql: [1]", "sql must be a text"),
        ("sql: SELECT COUNT(*) FROM log\n  public: 3", "public must be of the form"),
    ):
        line = next(one for one in plan.split("\n") if "sql:" in one)
        Path("plan.yaml").write_text(plan.replace(line.strip(), wrong))
        outcome = run(["check", "plan.yaml"])
        assert (outcome.code, outcome.err.count("\n")) == (2, 1)
        assert said in outcome.err


@pytest.mark.usefixtures("workspace")
def test_a_joined_table_does_not_hide_the_columns_of_the_log() -> None:
    log = pa.table({"city": ["Oslo"] * 600 + ["Bern"] * 400, "zone": ["b"] * 1000})
    zones = pa.table({"zone": ["a", "b"], "city": ["Oslo", "Bern"]})
    given: dict[str, Any] = {"tables": {"log": log}, "public": {"z": zones}, "epsilon": 20}
    for on in ("USING (zone)", "ON log.zone = z.zone"):
        text = "SELECT COUNTIF(log.city = 'Oslo') AS own, COUNTIF(z.city = 'Oslo') AS public, "
        text += f"COUNTIF(z.city = 'Bern') AS bern FROM log JOIN z {on}"
        table = hushbeam.sql(text, **given).table
        for label, truth in {"own": 600, "public": 0, "bern": 1000}.items():
            near(table, label, [truth])
        with pytest.raises(RequestError, match=r"^query, line 1, column 16: several tables have"):
            hushbeam.sql(text.replace("log.city", "city"), **given)
    for join in ("JOIN z USING (zone)", "RIGHT JOIN UNNEST(['b']) AS city ON log.zone = city"):
        by = "log.city" + ", log.zone" * join.startswith("RIGHT")
        text = f"SELECT {by}, COUNT(*) AS n FROM log {join} GROUP BY {by}"
        near(hushbeam.sql(text, groups={"city": ["Oslo", "Bern"]}, **given).table, "n", [600, 400])


@pytest.mark.usefixtures("workspace")
def test_what_fails_on_a_row_is_null_and_does_not_count() -> None:
    log = pa.table({"x": [1.0, 0.0] * 500, "z": [0.0] * 700 + [2.0] * 300, "w": [1.0] * 1000})
    text = (
        "SELECT COUNT(x / z) AS a, COUNTIF(x / z > 0.2) AS b, COUNT(z / z) AS c, COUNTIF(CAST(w "
        "AS STRING) = '1.0') AS d, COUNT(CAST(w * 5e18 AS INT64)) AS e, "
        "COUNT(SAFE_DIVIDE(x, z)) AS f FROM log"
    )
    table = hushbeam.sql(text, tables={"log": log}, epsilon=20).table
    wanted = {"a": 300, "b": 150, "c": 300, "d": 1000, "e": 1000, "f": 300}
    for label, truth in wanted.items():
        near(table, label, [truth])


@pytest.mark.usefixtures("workspace")
def test_a_clause_of_a_plan_promises_what_the_plan_does(run: Any, trips: Any) -> None:
    path, _ = trips
    plan = (
        "{collection: t, version: 1, unit: user, user_column: rider, input: PATH, output: out, "
        "epsilon: 1, DELTA metrics: [{name: q, kind: query, sql: 'SELECT WITH DIFFERENTIAL_PRIVACY "
        "OPTIONS(epsilon=1, delta=1e-6, privacy_unit_column=rider) COUNT(*, "
        "contribution_bounds_per_group => (0, 6)) AS n FROM log'}]}"
    ).replace("PATH", path)
    for delta, code in (("delta: 1e-6,", 0), ("delta: 0.000001,", 0), ("delta: 1e-7,", 2), ("", 2)):
        Path("plan.yaml").write_text(plan.replace("DELTA", delta))
        outcome = run(["check", "plan.yaml"])
        assert (outcome.code, outcome.err.count("\n")) == (code, code // 2), outcome.said


@pytest.mark.usefixtures("workspace")
def test_the_unit_column_is_not_read_beside_a_query_either(run: Any, trips: Any) -> None:
    path, _ = trips
    text = f"SELECT COUNT(DISTINCT rider) AS n FROM '{path}'"
    words = ["--user-column", "rider", "--epsilon", "1", "--output", "out"]
    for more, where in (
        (["--derive", "u=rider + 0", "--derive", "v=u"], "--derive u: the unit column"),
        (["--where", "rider == 17"], "--where: the unit column"),
    ):
        outcome = run(["query", text, *words, *more])
        assert (outcome.code, outcome.err.count("\n")) == (2, 1)
        assert where in outcome.err
        assert "17" not in outcome.err
    assert not Path("out").exists()
    plan = (
        "{collection: t, version: 1, unit: user, user_column: rider, input: PATH, output: out, "
        "epsilon: 1, derive: {u: rider + 0, v: u * 2, h: hour * 2}, metrics: [{name: q, "
        "kind: query, rows_per_user: 2, sql: SELECT COUNTIF(NAME > 17) AS n FROM log}]}"
    ).replace("PATH", path)
    for name, code in (("u", 2), ("v", 2), ("h", 0)):
        Path("plan.yaml").write_text(plan.replace("NAME", name))
        outcome = run(["check", "plan.yaml"])
        assert (outcome.code, "column 16: the unit column" in outcome.err) == (code, code == 2)


@pytest.mark.usefixtures("workspace")
def test_a_query_pays_to_a_ledger_and_stops_where_too_little_is_left(run: Any, trips: Any) -> None:
    path, _ = trips
    begin = ["ledger", "init", "--ledger", "l.sqlite", "--population", "p", "--unit", "user"]
    assert run([*begin, "--budget", "1.5,1e-6"]).code == 0
    text = f"SELECT COUNT(DISTINCT rider) AS n FROM '{path}'"
    words = ["query", text, "--user-column", "rider", "--ledger", "l.sqlite", "--population", "p"]
    outcome = run([*words, "--epsilon", "1", "--output", "one"])
    assert outcome.code == 0, outcome.said
    outcome = run([*words, "--epsilon", "1", "--output", "two"])
    assert outcome.code == 1
    assert not Path("two").exists()


@pytest.mark.usefixtures("workspace")
def test_bounds_are_chosen_by_a_first_round_that_is_priced_and_published(
    run: Any, trips: Any
) -> None:
    path, log = trips
    text = (
        "SELECT city, AVG(seconds / 60) AS minutes, SUM(seconds) AS total "
        f"FROM '{path}' {CITIES} WHERE hour < 12 GROUP BY city"
    )
    words = ["query", text, "--user-column", "rider", "--epsilon", "20", "--rows-per-user", "6"]
    refused = run([*words, "--output", "out"])
    assert refused.code == 2
    assert "write AVG(x, contribution_bounds_per_group => (low, high)), or say" in refused.err
    words += ["--choose-bounds", "--output", "out"]
    explained = run([*words, "--explain"])
    assert "together: central: epsilon 20" in explained.out
    assert "a first round chooses bounds, at epsilon 2 of the whole" in explained.out
    assert not Path("out-bounds").exists()
    begin = ["ledger", "init", "--ledger", "l.sqlite", "--population", "p", "--unit", "user"]
    assert run([*begin, "--budget", "20.5,1e-6"]).code == 0
    words += ["--ledger", "l.sqlite", "--population", "p"]
    outcome = run(words)
    assert outcome.code == 0, outcome.said
    first, whole = (
        json.loads(Path(folder, "statement.json").read_text()) for folder in ("out-bounds", "out")
    )
    assert first["guarantees"]["release"]["epsilon"] == pytest.approx(2)
    assert 19 < whole["guarantees"]["release"]["epsilon"] <= 20 + 1e-9
    bounds = whole["first_round"]["bounds"]
    # The largest of 24,000 is about 4,000. Next to what is sure noise widens bounds by a power of
    # two once in 70, so five times in a row less than once in 10^9.
    wide = {label: high for label, (_, high) in bounds.items()}
    assert wide["seconds"] in 2048 * 2 ** np.arange(7)
    assert wide["(`seconds` / 60)"] in 32 * 2 ** np.arange(7)
    assert "published in out-bounds, at epsilon 2 of the whole" in " ".join(whole["in_words"])
    assert "published in out-bounds" in Path("out/report.html").read_text()
    table = pq.read_table("out/query.parquet").slice(0, 2)
    rows = log[log.hour < 12].dropna(subset="seconds")
    clipped = (rows.seconds / 60).clip(*bounds["(`seconds` / 60)"]).groupby(rows.city).mean()
    near(table, "minutes", clipped[["Oslo", "Bern"]], max(1, wide["(`seconds` / 60)"] / 64))
    sums = rows.seconds.clip(*bounds["seconds"]).groupby(rows.city).sum()
    near(table, "total", sums[["Oslo", "Bern"]], max(1, wide["seconds"] / 4096))
    spent = run(["ledger", "show", "--ledger", "l.sqlite", "--json"])
    assert [one["state"] for one in json.loads(spent.out)] == ["committed", "committed"], spent.out
    # The second round counts at what was fixed before the first, and by no curve of its answer.
    (loss,) = json.loads(spent.out)[1]["losses"]
    assert loss["epsilon"] == pytest.approx(18)
    assert not loss.get("profile")
    again = run(words)
    assert (again.code, again.out.count("released before")) == (0, 1)


@pytest.mark.usefixtures("workspace")
def test_what_is_wrong_is_said_in_one_line_and_nothing_is_written(run: Any, trips: Any) -> None:
    path, log = trips
    for text, more, said in (
        (f"SELECT MAX(seconds) FROM '{path}'", [], "query, line 1, column 8: MAX"),
        (f"SELECT COUNT(*) FROM '{path}'", ["--input", path], "--input: the query names its files"),
        ("SELECT COUNT(*) FROM trips", [], "--input is missing"),
        (f"SELECT COUNT(*) FROM '{path}' WHERE secods > 1", [], "no such column: 'secods'"),
        (
            f"SELECT COUNT(*) FROM '{path}' WHERE hour > 1 AND\nseconds > 'CANARY'",
            [],
            "query, line 2, column 1: cannot compare two kinds",
        ),
        (
            f"SELECT COUNT(*) FROM '{path}' WHERE hour + 1",
            [],
            f"column {len(path) + 31}: a truth is needed",
        ),
        (f"SELECT AVG(city) FROM '{path}'", ["--choose-bounds"], "column 8: a number is needed"),
        ("none.sql", [], "none.sql is no file"),
        (f"SELECT hour, COUNT(*) FROM '{path}' GROUP BY hour", ["--groups", "hour"], "--groups"),
        (f"SELECT COUNT(*) FROM '{path}'", ["--public", "none.csv"], "none.csv"),
    ):
        words = ["query", text, "--user-column", "rider", "--rows-per-user", "2", *more]
        outcome = run([*words, "--epsilon", "1", "--output", "out"])
        assert outcome.code == 2
        assert outcome.err.count("\n") == 1
        assert said in outcome.err
        assert "CANARY" not in outcome.err
        assert not Path("out").exists()
    for asked, said in (
        ({"epsilon": 1, "frobnicate": 2}, "no option 'frobnicate'"),
        ({}, "epsilon is missing"),
        ({"epsilon": 1, "tables": {"a": log, "b": log}}, "one log is queried"),
        ({"epsilon": 1, "ledger": "l.sqlite"}, "output is missing"),
    ):
        with pytest.raises(RequestError, match=said):
            hushbeam.sql("SELECT COUNT(*) FROM trips", **({"tables": {"trips": log}} | asked))


@pytest.mark.usefixtures("workspace")
def test_columns_of_text_that_are_used_as_numbers_are_numbers(run: Any, trips: Any) -> None:
    """As in a file that knows its types: what does not parse is NULL."""
    _, log = trips
    log[["rider", "city", "seconds", "hour"]].to_csv("trips.csv.gz", index=False)
    text = (
        f"SELECT COUNT(DISTINCT rider) AS riders, AVG(seconds, {BOUNDS.format(3600)}) AS mean "
        "FROM 'trips.csv.gz' WHERE seconds > 60 AND hour BETWEEN 3 AND 20 AND city = 'Oslo'"
    )
    outcome = run(["query", text, "--user-column", "rider", "--epsilon", "20", "--output", "out"])
    assert outcome.code == 0, outcome.said
    kept = log[(log.seconds > 60) & log.hour.between(3, 20) & (log.city == "Oslo")]
    table = pq.read_table("out/query.parquet")
    near(table, "riders", [kept.rider.nunique()])
    near(table, "mean", [kept.groupby("rider").seconds.mean().mean()])
    assert "cannot be used" not in outcome.err
    # Nothing is taken for a number that is compared with texts, or said to be something else.
    refused = run(["query", text.replace("seconds > 60", "rider > 'a'"), "--types", "seconds=text",
                   "--user-column", "rider", "--epsilon", "20", "--output", "other"])  # fmt: skip
    assert refused.code == 2
    assert refused.err.count("\n") == 1


@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_text_holds_what_a_query_uses_it_as(ending: str, run: Any) -> None:
    """A number in JSON and its text in CSV are the same column."""
    rows = [{"n": k % 7, "x": 1.5 * k, "city": f"z{k % 3}"} for k in range(600)]
    written = {
        "csv": "n,x,city\n" + "".join(f"{r['n']},{r['x']},{r['city']}\n" for r in rows),
        "jsonl": "".join(json.dumps(row) + "\n" for row in rows),
    }
    Path(f"log.{ending}").write_text(written[ending])
    bounds = "contribution_bounds_per_row => (0, 900)"

    def asked(text: str, *more: str) -> Any:
        output = ["--output", f"out{len(text)}"]
        return run(["query", text, "--epsilon", "60", *output, *more])

    several = f"SELECT COUNTIF(n > 3) AS many, AVG(x, {bounds}) AS mean FROM 'log.{ending}'"
    outcome = asked(several)
    assert outcome.code == 0, outcome.said
    (row,) = pq.read_table(f"out{len(several)}/query.parquet").to_pylist()
    # At such an epsilon noise of a count is 0 but once in 10^12.
    assert row["many"] == sum(one["n"] > 3 for one in rows)
    assert row["mean"] == pytest.approx(np.mean([one["x"] for one in rows]), abs=5)
    absent = asked(f"SELECT COUNT(*) AS c FROM 'log.{ending}' WHERE m > 3")
    assert (absent.code, "no such column: 'm'; it has: n, x, city" in absent.err) == (2, True)
    told = asked(f"SELECT AVG(x, {bounds}) AS mean FROM 'log.{ending}'", "--types", "x=string")
    assert (told.code, "say what it holds: --types x=float" in told.err) == (2, True)
