"""`hushbeam experiment` from a log to a release: against numpy, its verdict, its refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.contract.laws import reach
from tests.oracles.releases import Release

N = 6_000
SHARE = 1 / N  # the least step of a mean
BASIC = {
    "input": "log.parquet", "user-column": "user", "arm": "variant", "arms": "control,blue,red",
    "rate": "bought", "mean": "seconds=0,100", "total": "cents=-50,200", "epsilon": "2",
    "output": "out",
}  # fmt: skip


def frame(effect: float = 0.0, n: int = N) -> pd.DataFrame:
    """Users with one to three rows; some in two arms, some without any, some numbers missing."""
    draw = np.random.default_rng(8)
    user = np.repeat(np.arange(n), draw.integers(1, 4, n))
    arm = draw.integers(0, 3, n)[user]
    base = draw.gamma(2.0, 10.0, n)[user]
    rows = pd.DataFrame({
        "user": [f"CANARY-USER-{k:05}" for k in user],
        "variant": pd.Series(np.array(["control", "blue", "red"], object)[arm]),
        "bought": draw.random(user.size) < 0.1 + effect * (arm == 1),
        "seconds": base + draw.normal(0, 5, user.size) + 20 * effect * (arm == 1),
        "cents": draw.integers(-20, 60, user.size).astype(float),
        "before": base,
    })  # fmt: skip
    rows.loc[user < 40, "seconds"] = np.nan
    rows.loc[user % 100 == 7, "variant"] = None
    double = (user % 100 == 9) & (draw.random(user.size) < 0.5)
    rows.loc[double, "variant"] = "red"
    return rows


def write(rows: pd.DataFrame) -> None:
    pq.write_table(pa.Table.from_pandas(rows), "log.parquet", row_group_size=2_000)


def words(**changes: Any) -> list[str]:
    asked = BASIC | {name.replace("_", "-"): value for name, value in changes.items()}
    said = ["experiment"]
    for name, value in asked.items():
        said += [] if value is None else [f"--{name}"] if value is True else [f"--{name}={value}"]
    return said


def truth(rows: pd.DataFrame) -> pd.DataFrame:
    """(arm, outcome) -> the mean of the users, in the user's own words."""
    known = rows[rows.variant.notna()]
    users = known.groupby("user").agg(
        arms=("variant", "nunique"), variant=("variant", "first"), bought=("bought", "max"),
        seconds=("seconds", "mean"), cents=("cents", "sum"),
    )  # fmt: skip
    users = users[users.arms == 1]
    users["seconds"] = users.seconds.fillna(0).clip(0, 100)
    users["cents"] = users.cents.clip(-50, 200)
    return users.groupby("variant")[["bought", "seconds", "cents"]].agg(["mean", "var", "count"])


def released(run: Any, **changes: Any) -> Release:
    return released_in(run, "out", **changes)


def released_in(run: Any, folder: str, **changes: Any) -> Release:
    outcome = run(words(**changes | {"output": folder}))
    assert outcome.code == 0, outcome.said
    assert "CANARY-USER" not in outcome.said
    return Release(Path(folder))


def test_effects_are_those_of_the_users(run, workspace: Path) -> None:
    rows = frame(0.04)
    write(rows)
    release, exact = released(run), truth(rows)
    table = release.table("experiment.parquet").to_pylist()
    assert len(table) == 6
    for row in table:
        own, first = (exact.loc[arm, row["value"]] for arm in (row["group"], "control"))
        noise = row["noise_standard_error"]
        assert abs(row["estimate"] - (own["mean"] - first["mean"])) < reach(noise, SHARE)
        # Chance among users is what their own scatter says, but for the noise on that.
        chance = own["var"] / own["count"] + first["var"] / first["count"]
        assert row["standard_error"] ** 2 - noise**2 == pytest.approx(chance, rel=0.15)
        assert 0 < noise < 0.6 * row["standard_error"]
        assert row["lower_simultaneous"] < row["lower"] < row["estimate"] < row["upper"]
        assert row["lift_lower"] < row["lift"] < row["lift_upper"]
        assert row["lift"] == pytest.approx(row["own_mean"] / row["first_mean"] - 1)
        beyond = not row["lower_simultaneous"] <= 0 <= row["upper_simultaneous"]
        assert row["beyond_chance"] == beyond
    blue = {row["value"]: row["beyond_chance"] for row in table if row["group"] == "blue"}
    assert blue["bought"]  # 10 or more of its standard errors
    statement = release.statement
    assert statement["guarantees"]["release"]["epsilon"] == 2
    several = statement["in_several_arms"]
    doubled = rows.groupby("user").variant.nunique().gt(1).sum()
    assert abs(several["estimate"] - doubled) < reach(several["standard_error"])
    lacking = statement["cut"]["unusable"]
    assert abs(lacking["estimate"] - 40) < reach(lacking["standard_error"]) + 3


def test_quantiles_are_those_of_the_users(run, workspace: Path) -> None:
    rows = frame(0.3)
    write(rows)
    asked = {"rate": None, "mean": None, "total": None, "quantile": "seconds=0,100@0.5,0.9"}
    table = released(run, **asked, epsilon="8").table("experiment.parquet").to_pylist()
    users = rows[rows.variant.notna()].groupby("user").agg(
        arms=("variant", "nunique"), variant=("variant", "first"), seconds=("seconds", "mean")
    )  # fmt: skip
    own = users[users.arms == 1].groupby("variant").seconds
    labels = [(row["group"], row["value"]) for row in table]
    assert labels == [(arm, f"seconds at {p}") for p in (0.5, 0.9) for arm in ("blue", "red")]
    for row in table:
        exact = own.quantile(float(row["value"].split()[-1])).clip(0, 100)
        off = row["estimate"] - (exact[row["group"]] - exact["control"])
        assert abs(off) < reach(row["noise_standard_error"], SHARE) + 0.2  # two bins
        assert row["own_mean"] == pytest.approx(exact[row["group"]], rel=0.1)
        assert row["beyond_chance"] or row["group"] == "red"  # blue has 6 more seconds
        assert row["lower_simultaneous"] < row["lower"] < row["estimate"] < row["upper"]
        assert (row["p_value"] < 0.05) == (not row["lower"] <= 0 <= row["upper"])


def test_the_page_begins_with_the_verdict(run, workspace: Path) -> None:
    write(frame(0.2))
    release = released(run, mean=None, total=None, arms="control,blue", epsilon="8")
    page = (release.folder / "report.html").read_text("utf-8")
    first = re.sub("<[^>]+>", " ", page[page.index("<h1>") :])
    assert "blue - control: +" in first
    assert "% (95 %)" in " ".join(first.split())
    assert "in percentage points: beyond chance; relative to control" in first
    assert first.index("blue - control") < first.index("Exactly what is promised")
    assert '<rect class="bar"' in page
    words = " ".join(release.statement["in_words"])
    assert "Intervals hold for one look" in words
    assert "chance among those who take part" in release.statement["error"]["covers"]


def test_a_covariate_takes_out_what_it_explains(run, workspace: Path) -> None:
    write(frame())
    asked = {"rate": None, "total": None, "arms": "control,blue", "epsilon": "8"}
    plain = released(run, **asked).table("experiment.parquet").to_pylist()[0]
    binned = released_in(run, "fine", **asked, covariate="before=5,10,15,20,30,40")
    fine = binned.table("experiment.parquet").to_pylist()[0]
    assert fine["standard_error"] < 0.6 * plain["standard_error"]
    exact = truth(frame())["seconds"]["mean"]
    off = fine["estimate"] - (exact["blue"] - exact["control"])
    assert abs(off) < reach(plain["standard_error"], SHARE)


@pytest.mark.parametrize("arm", [{}, {"arm": None, "salt": "x-1"}])
def test_two_windows_are_joined_by_user(arm: dict[str, Any], run, workspace: Path) -> None:
    """Rows of an earlier window have no arm, and some users have no others."""
    rows = frame()
    earlier = rows.assign(early=True, variant=None, seconds=rows.before, bought=True)
    only = earlier.assign(user=earlier.user + "-ONLY")
    write(pd.concat([rows.assign(early=False), earlier, only]))
    asked = {"total": None, "arms": "control,blue", "epsilon": "8", **arm}
    more = {"covariate": "seconds=5,10,15,20,30,40", "before": "early"}
    plain = rows if arm == {} else rows.assign(variant=None)
    release = released_in(run, "fine", **asked, **more)
    write(plain)
    before = released_in(run, "plain", **asked)
    fine, coarse = (
        {row["value"]: row for row in one.table("experiment.parquet").to_pylist()}
        for one in (release, before)
    )
    assert fine["seconds"]["standard_error"] < 0.6 * coarse["seconds"]["standard_error"]
    for name, row in fine.items():  # and nothing of an earlier outcome
        off = row["own_mean"] - coarse[name]["own_mean"]
        assert abs(off) < reach(coarse[name]["own_mean_standard_error"], SHARE)
    people = [one.statement["took_part"] for one in (release, before)]
    error = sum(one["standard_error"] for one in people)
    assert abs(people[0]["estimate"] - people[1]["estimate"]) < reach(error)
    assert "The price covers rows of before the start, too" in " ".join(
        release.statement["in_words"]
    )


@pytest.mark.parametrize("unit", ["user", "user per window"])
def test_a_plan_joins_two_windows_where_both_pay(unit: str, run, workspace: Path) -> None:
    Path("logs").mkdir()
    rows = frame(n=500)
    rows = pd.concat([rows.assign(early=False), rows.assign(early=True, variant=None)])
    pq.write_table(pa.Table.from_pandas(rows), "logs/2026-11-02.parquet")
    plan = {
        "collection": "shop", "version": 1, "unit": unit, "user_column": "user",
        "input": ["logs/{window}.parquet"], "output": "releases/{window}", "epsilon": 2,
        "budget": {"epsilon": 5, "delta": 1e-5}, "ledger": "shop.sqlite",
        "metrics": [{
            "name": "button", "kind": "experiment", "arm": "variant", "arms": "control,blue",
            "mean": ["seconds=0,100"], "covariate": "before=10,20,30", "before": "early",
        }],
    }  # fmt: skip
    Path("plan.yaml").write_text(json.dumps(plan))
    outcome = run(["check", "plan.yaml", "--window", "2026-11-02"])
    if unit == "user":
        assert outcome.code == 0, outcome.said
    else:
        assert outcome.code == 2
        assert "rows of two windows are read, and a user per window pays for one" in outcome.err


def test_the_page_of_a_plan_draws_outcomes_of_all_units_in_parts_of_the_first_arm(
    run, workspace: Path
) -> None:
    write(frame(0.2, 2000))
    plan = {
        "collection": "shop", "version": 1, "unit": "user", "user_column": "user",
        "input": ["log.parquet"], "output": "out", "epsilon": 8,
        "metrics": [{
            "name": "button", "kind": "experiment", "arm": "variant", "arms": "control,blue,red",
            "rate": ["bought"], "mean": ["seconds=0,100"], "total": ["cents=-50,200"],
        }],
    }  # fmt: skip
    Path("plan.yaml").write_text(json.dumps(plan))
    outcome = run(["run", "plan.yaml"])
    assert outcome.code == 0, outcome.said
    page = Path("out/report.html").read_text("utf-8")
    [caption] = re.findall("<figcaption[^>]*>(.*?)</figcaption>", page)
    assert caption.startswith("Differences relative to the first arm. Lines are 95 % intervals")
    drawn = page[page.index("<figure") : page.index("<figcaption")]
    # The clearest five of six differences; each number in percent of the first arm's.
    assert len(re.findall(r'<span class="number">-?[\d.,]+ %</span>', drawn)) == 5


def test_arms_that_lost_users_are_cautioned_of(run, workspace: Path) -> None:
    rows = frame()
    whole = released_with_caution(run, rows)
    lost = rows[(rows.variant != "blue") | (rows.user.str[-1] > "1")]  # a fifth of them
    cautions = released_with_caution(run, lost)
    assert whole == []
    assert "do not have the declared shares" in cautions[0]
    assert "(p = " in cautions[0]
    many = frame(n=9000)
    none = released_with_caution(run, many[many.variant != "blue"])
    assert "(p < 1e-300" in none[0]
    assert "no more users than noise in arm 'blue': does --arms spell it" in none[1]
    assert len(cautions) == 1


def test_users_of_several_arms_are_cautioned_of(run, workspace: Path) -> None:
    """They count in none: where a tenth of all do, what is left was chosen by what they did."""
    rows = frame()
    tenth = rows.user.str[-1] == "3"
    [caution] = released_with_caution(
        run, pd.concat([rows, *(rows[tenth].assign(variant=arm) for arm in ("blue", "control"))])
    )
    assert re.match(r"about \d{3},? users, give or take \d+, have rows of several arms", caution)


def released_with_caution(run: Any, rows: pd.DataFrame) -> list[str]:
    write(rows)
    release = released(run, mean=None, total=None)
    said = list(release.statement.get("cautions", []))
    for path in sorted(release.folder.iterdir()):
        path.unlink()
    release.folder.rmdir()
    return said


@pytest.mark.parametrize(
    ("arms", "names"), [([0, 1, 2], "0,1,2"), ([True, False, None], "true,false")]
)
def test_arms_may_be_numbers_or_truths(arms: list[Any], names: str, run, workspace: Path) -> None:
    rows = frame(0.3)
    coded = rows.variant.map(dict(zip(["control", "blue", "red"], arms, strict=True)))
    kind = "boolean" if names == "true,false" else "Int64"
    write(rows.assign(variant=coded.astype(kind)))
    release = released(run, arms=names, mean=None, total=None)
    exact = truth(rows[coded.notna()])["bought"]["mean"]
    row = release.table("experiment.parquet").to_pylist()[0]
    off = row["estimate"] - (exact["blue"] - exact["control"])
    assert abs(off) < reach(row["noise_standard_error"], SHARE)


def test_looks_widen_intervals(run, workspace: Path) -> None:
    write(frame())
    asked = {"mean": None, "total": None, "arms": "control,blue"}
    lengths = {}
    cases: dict[str, dict[str, Any]] = {
        "one": {},
        "second of five": {"looks": 5, "look": 2},
        "last of five": {"looks": 5, "look": 5},
        "any": {"always_valid": True, "expected": 6000, "look": 2},
    }  # fmt: skip
    for name, more in cases.items():
        release = released_in(run, name.replace(" ", "-"), **asked, **more)
        [row] = release.table("experiment.parquet").to_pylist()
        lengths[name] = (row["upper"] - row["lower"]) / row["standard_error"] / 2
        assert (row["p_value"] is None) == (name != "one")
    assert lengths["one"] == pytest.approx(1.96, abs=0.01)
    assert lengths["second of five"] == pytest.approx(3.36, abs=0.05)
    assert lengths["last of five"] == pytest.approx(2.05, abs=0.03)
    assert 3.0 < lengths["any"] < 4.5


def test_a_salt_draws_arms(run, workspace: Path) -> None:
    rows = frame().drop(columns="variant")
    write(rows)
    asked = {"arm": None, "salt": "x-1", "shares": "2,1,1", "mean": None, "total": None}
    release = released(run, **asked)
    ratio = release.statement["sample_ratio"]
    assert ratio["declared"] == {"control": 0.5, "blue": 0.25, "red": 0.25}
    users = np.array([*ratio["users"].values()]) / N
    assert users == pytest.approx([0.5, 0.25, 0.25], abs=0.05)
    assert ratio["p_value"] > 1e-9


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"arm": None}, "--arm, --salt: name the column that says the arm, or the salt"),
        ({"salt": "x"}, "and not both"),
        ({"arm": None, "salt": "x", "user_column": None}, "--salt: draws a user's arm: name the"),
        ({"arms": "control"}, "--arms: name two or more, as in control,treatment"),
        ({"arms": "a,a"}, "--arms: name two or more"),
        ({"shares": "1,2"}, "--shares: 3 numbers above 0 are needed, one an arm"),
        ({"shares": "1,x,2"}, "--shares: 3 numbers"),
        ({"rate": None, "mean": None, "total": None}, "name an outcome, as in --rate bought"),
        ({"mean": "seconds"}, "--mean: a column and its bounds, as in seconds=0,600"),
        ({"mean": "seconds=5,1"}, "--mean seconds: the first must be below the second"),
        ({"total": "cents=-1e101,0"}, "--total cents: squares are added up, so they must lie"),
        ({"mean": "bought=0,1"}, "name each column once"),
        ({"rate": "variant"}, "'variant' holds string; numbers or booleans are needed"),
        ({"covariate": "before=3,2"}, "--covariate: a column, and rising numbers to cut at"),
        ({"quantile": "cents=0,9"}, "--quantile: bounds and probabilities, as in latency=0,2000@"),
        ({"quantile": "cents=0,9@1.5"}, "--quantile: bounds and probabilities"),
        ({"quantile": "cents=9,0@0.5"}, "--quantile cents: the first must be below the second"),
        ({"before": "bought"}, "--before: is of users' rows: name the --user-column and the"),
        ({"looks": 3, "look": 4}, "--look: is beyond the --looks"),
        ({"always_valid": True}, "--expected is missing"),
        ({"always_valid": True, "looks": 3, "expected": 9}, "--looks: means nothing beside"),
        ({"rows_per_user": 2}, "--rows-per-user: all rows of a user count here"),
        ({"drawn_by": "shuffler"}, "--drawn-by shuffler: arms are compared by exact totals"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(changes, complaint, run, workspace: Path) -> None:
    write(frame(n=50))
    outcome = run(words(**changes))
    assert (outcome.code, outcome.out) == (2, "")
    assert complaint in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
    assert not Path("out").exists()


def test_a_log_without_rows_says_nothing_else(run, workspace: Path) -> None:
    write(frame(n=50).head(0).astype({"user": str, "variant": str}))
    release = released(run)
    for row in release.table("experiment.parquet").to_pylist():
        assert row["estimate"] is None
        assert not row["beyond_chance"]


def test_two_experiments_are_compared_with_chance_and_noise(run, workspace: Path) -> None:
    asked = {"mean": None, "total": None, "arms": "control,blue"}
    effects = []
    for name, effect in (("one", 0.02), ("two", 0.3)):
        write(frame(effect))
        released_in(run, name, **asked)
        effects += Release(Path(name)).table("experiment.parquet").to_pylist()
    outcome = run(["compare", "one", "two", "--json"])
    assert outcome.code == 0, outcome.said
    said = json.loads(outcome.out)
    [row] = said["rows"]
    assert said["covers"].startswith("intervals cover chance among users and noise in effects of")
    assert row["difference"] == pytest.approx(effects[1]["estimate"] - effects[0]["estimate"])
    error = np.hypot(*(one["standard_error"] for one in effects))
    assert row["standard_error"] == pytest.approx(error)
    assert row["upper"] - row["difference"] >= 1.959 * error
    assert row["beyond_noise"]
    first = run(["compare", "one", "two"]).said.lstrip().splitlines()[0]
    assert "intervals cover chance among users and noise" in first
    released_in(run, "three", **asked | {"arms": "control,red"})
    outcome = run(["compare", "one", "three"])
    assert outcome.code == 2
    assert "--arms is 'control,blue' in one release and 'control,red' in the other" in outcome.err


def test_compare_of_other_releases_says_that_it_covers_noise_alone(run, workspace: Path) -> None:
    write(frame())
    for name in ("one", "two"):
        words = ["count", "--input", "log.parquet", "--epsilon", "1", "--output", name]
        assert run(words).code == 0
    first = run(["compare", "one", "two"]).said.lstrip().splitlines()[0]
    assert "intervals cover noise alone, not chance among users" in first
    assert "hushbeam experiment" in first
