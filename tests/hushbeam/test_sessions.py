"""Sessions, and commands as functions: figures near the truth, prices, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import hushbeam
from tests.golden.fixed_randomness import fixed_randomness

FAR = 6.5  # standard errors: missed less than once in 10^10
TRIPS = pd.DataFrame(
    {
        "city": ["Oslo", "Bern", "Bern"] * 400, "seconds": [10.0, 20.0, 40.0] * 400,
        "mixed": [1, "a", 2] * 400,
    }
)  # fmt: skip


@pytest.fixture(autouse=True)
def fixed():
    """The same noise in every run."""
    with fixed_randomness():
        yield


def near(row: dict[str, float], truth: float) -> bool:
    return abs(row["estimate"] - truth) < FAR * row["standard_error"]


def test_a_session_answers_within_its_budget() -> None:
    session = hushbeam.Session(TRIPS, epsilon=1)
    assert near(session.count(share=0.2).to_pylist()[0], 1200)
    total = session.sum(column="seconds", bounds=(0, 60), whole_numbers=True, share=0.2)
    assert near(total.to_pylist()[0], 28_000)
    rows = session.count(column="city", domain=["Oslo", "Bern"], share=0.2).to_pylist()
    assert [row["of"] for row in rows[:2]] == ["Oslo", "Bern"]
    assert near(rows[0], 400)
    assert near(rows[1], 800)
    assert session.most_common(column="city", domain=["Oslo", "Bern"], share=0.1).num_rows == 1
    assert session.left == 0.3
    first = session.answers[0]["rows"][0]["standard_error"]
    again = session.count(share=0.2).to_pylist()[0]
    assert near(again, 1200)
    assert again["standard_error"] < 0.8 * first  # both answers are combined
    assert [one["question"] for one in session.answers] == [
        "sum", "count", "most-common", "count",
    ]  # fmt: skip
    assert repr(session) == "<hushbeam.Session of 4 answers, 0.1 of the budget left>"
    with pytest.raises(hushbeam.WithheldError, match=r"^the answer would take 0\.5 of the budget"):
        session.count(share=0.5)
    with pytest.raises(hushbeam.RequestError, match="did you mean column"):
        session.count(colum="city", share=0.1)


def test_a_session_in_a_folder_goes_on(workspace: Path) -> None:
    hushbeam.Session(TRIPS, epsilon=1, output="kept").count(share=0.25)
    again = hushbeam.Session(TRIPS, output="kept")
    assert again.left == 0.75
    with pytest.raises(hushbeam.RequestError, match="begun with other terms"):
        hushbeam.Session(TRIPS, epsilon=2, output="kept")


def test_a_session_protects_users() -> None:
    trips = TRIPS.assign(rider=[f"r{k // 2}" for k in range(1200)])
    session = hushbeam.Session(trips, epsilon=1, user_column="rider")
    assert near(session.count(share=0.5).to_pylist()[0], 600)


def test_a_public_table_is_not_the_log() -> None:
    """Both may be frames: what everybody may know is one of them alone."""
    log = pd.DataFrame({"zone": ["a", "b", "b"] * 400, "region": ["CANARY"] * 1200})
    public = pd.DataFrame({"zone": ["a", "b"], "region": ["north", "south"]})
    release = hushbeam.sql(
        "SELECT region, COUNT(*) AS n FROM log JOIN zones USING (zone) GROUP BY region",
        tables={"log": log[["zone"]].assign(other="CANARY")}, public={"zones": public}, epsilon=1,
    )  # fmt: skip
    assert release.table["region"].to_pylist() == ["north", "south"]
    assert near({"estimate": release.table["n"][0].as_py(), "standard_error": 3.0}, 400)
    assert "CANARY" not in json.dumps(release.statement) + release.page
    words = {"tables": {"log": log}, "public": {"zones": public}, "epsilon": 1}
    text = "SELECT {} AS region, COUNT(*) AS n FROM log JOIN zones USING (zone) GROUP BY region"
    with pytest.raises(hushbeam.RequestError, match="several tables have a column of this name"):
        hushbeam.sql(text.format("region"), **words)
    both = hushbeam.sql(text.format("zones.region"), **words)
    assert both.table["region"].to_pylist() == ["north", "south"]
    assert "CANARY" not in json.dumps(both.statement) + both.page


def test_a_query_in_a_file_sees_all_columns(workspace: Path) -> None:
    Path("asked.sql").write_text("SELECT COUNT(seconds) AS n FROM log WHERE seconds > 15")
    release = hushbeam.sql("asked.sql", tables={"log": TRIPS}, epsilon=1)
    assert near({"estimate": release.table["n"][0].as_py(), "standard_error": 3.0}, 800)


def test_a_temporary_session_goes_with_its_object() -> None:
    session = hushbeam.Session(TRIPS, epsilon=1)
    folder = Path(session.folder)
    assert folder.exists()
    del session
    assert not folder.exists()


def test_commands_answer_as_they_do_to_programs(workspace: Path) -> None:
    shown = hushbeam.size(counts=40, epsilon=1, rows_per_user=[1, 4], per_value=[1])
    assert shown["rows"]
    asked = {"column": "city", "domain": ["Oslo", "Bern"], "epsilon": 1}
    first, second = (hushbeam.count(TRIPS, **asked, output=f"day-{k}") for k in (1, 2))
    assert hushbeam.compare(first, second)["confidence"] == 0.95
    assert hushbeam.site(first, second, output="public")
    assert Path("public/index.html").is_file()
    with pytest.raises(hushbeam.RequestError, match=r"^unknown: colour=red"):
        hushbeam.size(colour="red")


# ---- frames ------------------------------------------------------------------------------------


def test_only_columns_that_are_asked_for_are_looked_at() -> None:
    """A column that Arrow has no type for is in nobody's way, and refused where it is asked for."""
    count = hushbeam.count(TRIPS, where="seconds > 15", epsilon=1)
    assert near(count.table.to_pylist()[0], 800)
    with pytest.raises(hushbeam.RequestError, match="no type for the column 'mixed'"):
        hushbeam.count(TRIPS, column="mixed", domain=["a"], epsilon=1)
    with pytest.raises(hushbeam.RequestError, match="it has: city, seconds; did you mean city"):
        hushbeam.count(TRIPS, column="citi", domain=["a"], epsilon=1)


@pytest.mark.parametrize("option", ["where", "column", "bounds"])
def test_no_message_quotes_a_value_that_was_handed_over(option: str) -> None:
    polars = pytest.importorskip("polars")
    for said in (TRIPS.seconds, TRIPS.seconds > 15, polars.col("seconds") > 15):
        with pytest.raises(hushbeam.RequestError) as refused:
            hushbeam.sum(
                TRIPS, **{"column": "seconds", "bounds": (0, 60), "epsilon": 1, option: said}
            )
        assert str(refused.value).startswith(f"{option}: {type(said).__name__} of a frame")
        assert "20.0" not in str(refused.value)


def test_what_is_no_frame_is_answered_in_words() -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(hushbeam.RequestError, match=r"what collect\(\) gives"):
        hushbeam.count(polars.LazyFrame({"x": [1]}), epsilon=1)
    with pytest.raises(hushbeam.RequestError, match="a Series is one column"):
        hushbeam.count(TRIPS.seconds, epsilon=1)


def test_frames_come_out() -> None:
    polars = pytest.importorskip("polars")
    release = hushbeam.count(TRIPS, epsilon=1)
    assert release.df["estimate"][0] == release.to_polars()["estimate"][0]
    assert isinstance(release.df, pd.DataFrame)
    assert isinstance(release.to_polars("count"), polars.DataFrame)
    with pytest.raises(hushbeam.RequestError, match="no table 'sum'"):
        release.to_polars("sum")
