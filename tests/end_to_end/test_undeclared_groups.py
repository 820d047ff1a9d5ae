"""Groups that nobody declared: figures against the truth, nothing invented, and what is refused."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import hushbeam
from hushbeam import RequestError
from pipelines.cli import cli
from tests.golden.fixed_randomness import fixed_randomness
from tests.oracles.set_union import central_error

SURE = 1e-9  # of a false alarm


@pytest.fixture(autouse=True)
def fixed() -> Iterator[None]:
    """The same noise in every run."""
    with fixed_randomness():
        yield


EPSILON, DELTA, MOST = 1.0, 1e-6, 4
_JOB = """
import numpy as np, pandas as pd, hushbeam
rng = np.random.default_rng(3)
rare = np.arange(1_000_000)  # each of them once, and some that many have
often = rng.integers(1_000_000, 1_000_050, 1_000_000)
users = rng.integers(0, 300_000, 2_000_000)
pd.DataFrame({"user": users, "url": np.append(rare, often)}).to_parquet("log.parquet")
made = hushbeam.strings("log.parquet", column="url", user_column="user", search="weighted",
                        epsilon=1)
found = {*map(int, made.table["value"].to_pylist())}
assert found == {*range(1_000_000, 1_000_050)}, len(found)
"""


def log(users: int = 4000, seed: int = 2) -> pd.DataFrame:
    """Rows of users with up to `MOST` towns each, of a thousand, of which most are rare."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 9, users)
    user = np.repeat(np.arange(users), rows)
    towns = np.minimum(rng.zipf(1.4, (users, MOST)), 1000)
    town = towns[user, rng.integers(0, MOST, user.size)]
    fare = np.round(rng.gamma(2, 8, user.size), 2)
    frame = pd.DataFrame({"user": user, "town": [f"t{x}" for x in town], "fare": fare})
    frame.loc[frame.town == "t3", "town"] = None
    frame["hour"] = rng.integers(0, 3, user.size)
    return frame


def truth(frame: pd.DataFrame, kind: str) -> pd.Series:
    """What is true of each town: users, up to three rows of each, clipped sums, means of means."""
    named = frame.assign(town=frame.town.fillna("none"))
    by = named.groupby(["town", "user"])
    if kind == "users":
        return by.size().groupby("town").size()
    if kind == "events":
        return by.size().clip(upper=3).groupby("town").sum()
    if kind == "sum":
        return by.fare.sum().clip(0, 40).groupby("town").sum()
    return by.fare.mean().clip(0, 60).groupby("town").mean()


def released(kind: str, frame: Any, **more: Any) -> hushbeam.Release:
    asked: dict[str, Any] = {
        "group_by": "town", "user_column": "user", "rows_per_user": MOST, "epsilon": EPSILON,
    }  # fmt: skip
    asked |= more
    if kind == "events":
        return hushbeam.count(frame, per_value=3, **asked)
    if kind == "sum":
        return hushbeam.sum(frame, column="fare", bounds=(0, 40), **asked)
    if kind == "mean":
        return hushbeam.mean(frame, column="fare", bounds=(0, 60), **asked)
    return hushbeam.count(frame, **asked)


def figures(release: hushbeam.Release, labels: tuple[str, ...] = ("value", "group")) -> Any:
    """The table of a release by its labels."""
    table = release.table.to_pandas()
    named = [name for name in labels if name in table and table[name].notna().any()]
    return table.assign(town=table[named[0]].fillna("none")).set_index("town")


@pytest.mark.parametrize("kind", ["users", "events", "sum", "mean"])
def test_figures_are_the_truth_with_the_stated_noise(kind: str) -> None:
    """Some 40 groups have independent noise: their squares together tell 30 % more or less of it.

    Intervals are held to binomial tails; roundings and delta methods are within a few percent.
    """
    frame = log(20_000)
    table, known = figures(released(kind, frame)), truth(frame, kind)
    assert {*table.index} <= {*known.index}
    assert "none" in table.index  # who has no town is a group like any other
    if kind == "mean":  # a quotient is all but normal where its count is ten errors away
        table = table[table.users > 10 * table.users_standard_error]
    exact = known[table.index]
    z = ((table.estimate - exact) / table.standard_error).to_numpy()
    low, high = stats.chi2.isf([1 - SURE, SURE], len(z))
    assert low < (z**2).sum() < high
    inside = int(((table.lower <= exact) & (exact <= table.upper)).sum())
    assert stats.binom.cdf(inside, len(z), 0.93) > SURE
    # What has enough users is there: ten deviations above.
    limit, users = released_limit(MOST), truth(frame, "users")
    assert {*users[users > limit].index} <= {*table.index}
    assert len(table) > 10


def released_limit(most: int) -> float:
    from mechanisms.counters.levels import Portion
    from mechanisms.heavy_hitters.group_selection import GroupSelection

    asked = most, "add or remove", EPSILON, DELTA, (Portion(1, 0, 1),)
    return 2.5 * GroupSelection.meeting(*asked).limit(most)


@pytest.mark.parametrize("most", [1, 3, 10, 50])
@pytest.mark.parametrize("share", [0.25, 0.5])
@pytest.mark.parametrize("kind", ["users", "sum"])
def test_errors_are_those_of_a_central_program(kind: str, most: int, share: float) -> None:
    frame = log(300)
    release = released(kind, frame, rows_per_user=most, selection_share=share)
    bound = 1 if kind == "users" else 40
    error = central_error(most, bound, EPSILON, DELTA, share)
    assert release.statement["error"]["standard_error"] <= 1.1 * error


def test_rows_two_columns_and_conditions() -> None:
    frame = log(20_000)
    rows = hushbeam.count(frame, group=("town", "hour"), where="hour < 2", epsilon=EPSILON)
    table = rows.table.to_pandas()
    named = frame[frame.hour < 2].assign(town=lambda x: x.town.fillna("none")).astype({"hour": str})
    known = named.groupby(["town", "hour"]).size()
    keys = [*zip(table.group.fillna("none"), table.value, strict=True)]
    assert {*keys} <= {*known.index}
    z = (table.estimate - known[keys].to_numpy()) / table.standard_error
    low, high = stats.chi2.isf([1 - SURE, SURE], len(z))
    assert low / 1.2 < (z**2).sum() < 1.2 * high  # Laplace noise has longer tails
    by_row = released("users", frame, by_row=True, rows_per_user=9)
    table, known = figures(by_row), named.groupby("town").size()
    whole = frame.assign(town=frame.town.fillna("none")).groupby("town").size()[table.index]
    z = ((table.estimate - whole) / table.standard_error).to_numpy()
    assert (z**2).sum() < 1.2 * stats.chi2.isf(SURE, len(z))


def test_who_has_nothing_usable_counts_nowhere_and_no_group_is_invented() -> None:
    """Groups of one user are there with less than delta; of no user, and no number, never."""
    frame = pd.DataFrame({"user": range(2000), "town": [f"only {i}" for i in range(2000)]})
    frame["fare"] = np.nan
    assert released("users", frame, user_column="user").table.num_rows == 0
    assert released("sum", frame.assign(town="one")).table.num_rows == 0
    page = released("users", frame).page
    assert "only " not in page


def test_a_page_and_a_statement_say_what_was_chosen_and_nothing_exact() -> None:
    release = released("users", log(4000))
    said = " ".join(release.statement["in_words"])
    assert "Nobody declared the groups" in said
    assert "How many groups there were is not published" in said
    assert release.statement["published_exactly"] == "nothing"
    assert release.statement["request"]["selection_share"] == 0.5
    assert release.statement["search"]["detection_limit"] > 20
    assert release.page.index(">t1<") < release.page.index(">t2<")  # the largest come first


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"drawn_by": "shuffler"}, "drawn_by shuffler: .*declare them with groups"),
        ({"drawn_by": "devices", "enrolled": 10}, "declare them with groups"),
        ({"delta": 0}, "delta"), ({"group_by": "fare"}, "holds double"),
        ({"group_by": "nowhere"}, "no column 'nowhere'"),
        ({"column": "hour", "domain": range(3)}, "of all columns are declared or of none"),
        ({"group": ("town",)}, "named once"),
        ({"group_by": None, "selection_share": 0.3}, "says something of groups that nobody"),
        ({"epsilon": 1e-8}, "too small"),
        ({"group_by": "user"}, "says who a user is"),
        ({"user_column": None}, "rows_per_user"), ({"selection_share": 1}, "selection_share"),
    ],
)  # fmt: skip
def test_what_cannot_be_promised_is_refused_in_one_line(more: dict[str, Any], why: str) -> None:
    with pytest.raises(RequestError, match=why) as caught:
        released("users", log(50), **more)
    assert "\n" not in str(caught.value)


def test_each_report_and_a_total_that_grows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="declare them with groups"):
        released("mean", log(50), drawn_by="each-report", rows_per_user=1)
    log(50).to_parquet(tmp_path / "log.parquet")
    words = f"count --input {tmp_path}/log.parquet --group-by town --user-column user --epsilon 1"
    words += f" --window 2026-11-20 --horizon 30 --user-windows 30 --output {tmp_path}/out"
    assert cli.main(words.split()) == 2


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_strings_by_weights_are_those_that_enough_users_hold(share: float) -> None:
    frame = log(20_000)
    release = hushbeam.strings(
        frame, column="town", user_column="user", search="weighted", selection_share=share,
        epsilon=EPSILON,
    )  # fmt: skip
    table = release.table.to_pandas().set_index("value")
    known = frame.dropna().groupby("town").user.nunique()
    assert {*table.index} <= {*known.index}
    assert release.statement["request"]["strings_per_user"] == 100
    if share < 1:
        z = ((table.estimate - known[table.index]) / table.standard_error).to_numpy()
        low, high = stats.chi2.isf([1 - SURE, SURE], len(z))
        assert low < (z**2).sum() < high
    else:
        have = frame.dropna().groupby("user").town.nunique()
        pairs = frame.dropna()[["user", "town"]].drop_duplicates()
        weights = (1 / np.sqrt(have[pairs.user])).groupby(pairs.town.to_numpy()).sum()
        z = ((table.estimate - weights[table.index]) / table.standard_error).to_numpy()
        assert (z**2).sum() < stats.chi2.isf(SURE, len(z))


@pytest.mark.verify
def test_a_million_different_strings_fit_into_a_minute_and_two_gigabytes(tmp_path: Path) -> None:
    """Of a process of its own: what its log takes to be made is part of it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", _JOB], cwd=tmp_path, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent < 60
    assert after.ru_maxrss < 2 << 20  # kB: the largest of all children so far


def test_queries_show_the_groups_that_all_of_their_aggregates_found() -> None:
    frame = log(20_000)
    answer = hushbeam.sql(
        "SELECT town, COUNT(DISTINCT user) AS n, "
        "AVG(fare, contribution_bounds_per_group => (0, 60)) AS fare "
        "FROM frame GROUP BY town HAVING n > 300 ORDER BY n DESC",
        tables={"frame": frame}, user_column="user", max_groups=MOST, epsilon=4,
    )  # fmt: skip
    table = answer.table.to_pandas().fillna({"town": "none"}).set_index("town")
    users, fares = truth(frame, "users")[table.index], truth(frame, "mean")[table.index]
    assert len(table) > 5
    assert (table.n > 300).all() and table.n.is_monotonic_decreasing  # noqa: PT018
    far = stats.norm.isf(SURE)
    assert (abs(table.n - users) < far * table.n_standard_error).all()
    assert (abs(table.fare - fares) < far * table.fare_standard_error).all()
    parts = {
        name: pd.read_parquet(f"{answer.folder}/{name}/{kind}.parquet")
        for name, kind in (("n", "count"), ("fare", "mean"))
    }
    shown = [set(part.group.fillna(part.value).fillna("none")) for part in parts.values()]
    assert {*table.index} <= shown[0] & shown[1]


@pytest.mark.parametrize("unit", [None, "user"])
def test_the_most_frequent_values_come_first(unit: str | None) -> None:
    frame = log(20_000)
    answer = hushbeam.sql(
        "SELECT APPROX_TOP_COUNT(town, 3) FROM frame WHERE hour < 2", tables={"frame": frame},
        user_column=unit, epsilon=4,
    ).table.to_pandas()  # fmt: skip
    assert answer["value"].tolist() == ["t1", "t2", None]
    rows = frame[frame.hour < 2]
    if unit is None:
        known = rows.assign(town=rows.town.fillna("none")).groupby("town").size()
        assert (abs(answer["count"] - known[["t1", "t2", "none"]].to_numpy()) < 30).all()


def test_steps_of_a_pipeline_find_groups_in_every_window() -> None:
    """Two windows, each with groups of its own; one without rows has none."""
    import apache_beam as beam
    from apache_beam.testing.util import assert_that

    import hushbeam.beam as private

    start = 1764374400
    rows = [
        {"user": i, "town": f"{'early' if i % 2 else 'late'} {i % 4}", "at": start + (i % 2) * 3600}
        for i in range(1200)
    ]
    span = ("2025-11-29T00:00", "2025-11-29T03:00")

    def check(figures: list) -> None:
        found = {(one.window[-4:], one.value) for one in figures}
        assert found == {
            ("0100", "early 1"), ("0100", "early 3"), ("0000", "late 0"), ("0000", "late 2")
        }  # fmt: skip
        assert all(abs(one.estimate - 300) < 60 for one in figures)

    with beam.Pipeline() as pipeline:
        windows = (
            pipeline
            | beam.Create(rows)
            | beam.Map(lambda row: beam.window.TimestampedValue(row, row["at"]))
            | beam.WindowInto(beam.window.FixedWindows(3600))
        )
        count = private.Count(
            by="town", user="user", epsilon=1, span=span, types={"user": int, "town": str}
        )
        assert_that(windows | count, check)
        assert "Nobody declared" in " ".join(count.statement["in_words"])
