"""One quantile, drawn by ranks; and quantiles of groups that nobody declared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hushbeam
from hushbeam import RequestError
from tests.golden.fixed_randomness import fixed_randomness

ROW = "contribution_bounds_per_row => (0, 1000)"


@pytest.fixture(autouse=True)
def fixed() -> Iterator[None]:
    """The same noise in every run."""
    with fixed_randomness():
        yield


def log(users: int = 3000, rows: int = 3) -> pd.DataFrame:
    """Rows of users in four towns, the last of which few have, and in towns of one user each."""
    rng, n = np.random.default_rng(4), users * rows
    town = rng.choice(["a", "b", "c", "d"], n, p=[0.5, 0.3, 0.19, 0.01]).astype(object)
    town[:40] = [f"alone {i}" for i in range(40)]
    wait = np.minimum(rng.lognormal(5, 0.6, n) + 100 * (town == "b"), 1000)
    frame = pd.DataFrame({"user": np.repeat(np.arange(users), rows), "town": town, "wait": wait})
    return frame.assign(whole=np.round(wait).astype(int))


def ranks(numbers: Any, quantile: float, told: float) -> float:
    """How many numbers lie between a quantile and what is told of it."""
    below, most = (np.searchsorted(np.sort(numbers), told, side) for side in ("left", "right"))
    rank = quantile * len(numbers)
    return float(max(below - rank, rank - most, 0))


def published(frame: pd.DataFrame, column: str = "wait", **more: Any) -> hushbeam.Release:
    known = {"column": column, "bounds": (0, 1000), "epsilon": 1.0}
    return hushbeam.distribution(input=frame, **(known | more))


@pytest.mark.parametrize("column", ["wait", "whole"])
@pytest.mark.parametrize(
    "more",
    [{}, {"neighbours": "replace"}, {"user_column": "user"},
     {"user_column": "user", "by_row": True, "rows_per_user": 3}],
    ids=["rows", "replaced", "users", "rows of users"],
)  # fmt: skip
def test_it_is_a_few_rows_from_the_truth_and_within_its_interval(
    column: str, more: dict[str, Any]
) -> None:
    frame = log()
    for quantile in (0.5, 0.9):
        # The noise is the same in every run: 0.999, so that another order of draws fails nothing.
        release = published(frame, column, quantile=quantile, confidence=0.999, **more)
        assert set(release.tables) == {"quantiles"}
        (row,) = release.tables["quantiles"].to_pylist()
        (value,) = (row["estimate"],)
        truth = np.sort(frame[column])[int(np.ceil(quantile * len(frame))) - 1]
        far = 40 * (3 if "rows_per_user" in more or "user_column" in more else 1)
        assert ranks(frame[column], quantile, value) < far
        assert row["lower"] <= truth <= row["upper"]
        assert row["lower"] <= value <= row["upper"] <= row["lower"] + 150
        said = release.statement
        assert said["guarantees"]["release"]["delta"] == 0
        assert said["mechanism"]["name"] == "quantile-choice"
        assert said["error"]["standard_error_of_its_rank"] > 1


def test_a_quantile_of_each_group_and_the_tree_where_a_user_has_many() -> None:
    frame = log()
    release = published(frame, quantile=0.5, group_by="town", groups=["a", "b", "c"])
    rows = release.tables["quantiles"].to_pylist()
    assert [row["group"] for row in rows] == ["a", "b", "c", None]
    for row in rows[:3]:
        own = frame.wait[frame.town == row["group"]]
        assert ranks(own, 0.5, row["estimate"]) < 40
        assert row["lower_simultaneous"] <= np.median(own) <= row["upper_simultaneous"]
    towns = [f"town {i}" for i in range(90)]
    many = {"group_by": "town", "groups": towns, "user_column": "user", "rows_per_user": 90}
    release = published(frame, quantile=0.95, **many)
    assert release.statement["mechanism"]["name"] == "job-totals"
    assert set(release.tables) == {"quantiles"}


def test_a_query_of_one_level_draws_it() -> None:
    frame = log()
    for call in (f"PERCENTILE_CONT(wait, 0.5, {ROW})", f"PERCENTILE_DISC(wait, 0.5, {ROW})",
                 f"APPROX_QUANTILES(wait, 2, {ROW})"):  # fmt: skip
        release = hushbeam.sql(f"SELECT {call} AS m FROM t", tables={"t": frame}, epsilon=1.0)
        (row,) = release.tables["query"].to_pylist()
        assert ranks(frame.wait, 0.5, row["m"]) < 40
        assert row["m_lower"] <= np.median(frame.wait) <= row["m_upper"]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"drawn_by": "shuffler"}, "let the job draw"),
        ({"drawn_by": "each-report"}, "let the job draw"),
        ({"quantiles": "0.5"}, "say one of them"),
        ({"quantile": 1.0}, "less than 1"),
        ({"group_by": "town"}, "have quantiles alone"),
    ],
)
def test_what_means_nothing_is_refused_in_one_line(more: dict[str, Any], why: str) -> None:
    with pytest.raises(RequestError, match=why) as refused:
        published(log(20), **({"quantile": 0.5} | more))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "more", [{}, {"user_column": "user", "rows_per_user": 3},
             {"user_column": "user", "rows_per_user": 3, "by_row": True}],
    ids=["rows", "users", "rows of users"],
)  # fmt: skip
def test_groups_that_nobody_declared_have_quantiles_and_none_is_invented(
    more: dict[str, Any],
) -> None:
    frame, inside, of = log(), 0, 0
    for _ in range(4):
        release = published(frame, group_by="town", quantiles=(0.25, 0.5, 0.75), **more)
        rows = release.tables["quantiles"].to_pylist()
        assert {"a", "b", "c"} <= {row["group"] for row in rows} <= {"a", "b", "c", "d"}
        for row in rows:
            own = np.sort(frame.wait[frame.town == row["group"]])
            truth = own[int(np.ceil(row["p"] * own.size)) - 1]
            low, high = row["lower"], row["upper"]  # none at a bound, to which they were clipped
            inside += (low is None or low <= truth) and (high is None or truth <= high)
            of += 1
    assert of >= 36
    assert inside >= of - 6  # of 36 with 0.95 each 7 or more miss with a probability of 0.002
    shares = release.tables["distribution"].to_pandas()
    assert np.allclose(shares.groupby("group").estimate.sum(), 1)


def test_a_query_of_found_groups_has_their_quantiles_beside_their_counts() -> None:
    frame = log()
    query = f"SELECT town, COUNT(*) AS n, APPROX_QUANTILES(wait, 4, {ROW}) AS q FROM t GROUP BY 1"
    table = hushbeam.sql(query, tables={"t": frame}, epsilon=2.0).tables["query"].to_pandas()
    assert {"a", "b", "c"} <= {*table.town}
    for row in table.set_index("town").loc[["a", "b", "c"]].itertuples():
        own = frame.wait[frame.town == row.Index]
        assert abs(row.n - len(own)) < 40
        assert ranks(own, 0.25, row.q_1) < 100
        assert ranks(own, 0.75, row.q_3) < 100


def test_no_group_leaves_empty_tables() -> None:
    frame = log().assign(town=lambda frame: frame.index.astype(str))
    tables = published(frame, group_by="town").tables
    assert [len(table) for table in tables.values()] == [0, 0]


def test_of_two_columns_labels_stand_together() -> None:
    frame = log().assign(half=lambda frame: np.where(frame.index % 2, "late", "early"))
    table = published(frame, group=("town", "half"), quantiles="0.5").tables["quantiles"]
    assert "a · late" in table["group"].to_pylist()
