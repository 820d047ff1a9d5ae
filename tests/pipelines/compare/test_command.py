"""`hushbeam compare`: what it says of releases, what it writes, and what it refuses."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from pipelines.cli import cli
from pipelines.compare.view import SCHEMA
from pipelines.metrics.metric import PAGE, Content
from tests.pipelines.test_export import HOSTILE, publish, publish_day, publish_week_day, statement

DAYS = [f"releases/2026-11-{day:02}" for day in (15, 16)]
ASKED = {
    "unit": "user", "rows_of_a_user": "those of each value", "column": "city", "confidence": 0.95,
    "epsilon": 1.0,
}  # fmt: skip


@pytest.fixture
def releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Oslo falls by 0.4 from one day to the next; `delay` stays; `people` grows by one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for day in (15, 16):
        publish_week_day(day, Path("releases"))
    return tmp_path


def asked(capsys, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert cli.main(["compare", *words, "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def count(
    day: int, noise: np.ndarray, folder: str = "counts", kind: str = "count", **more: Any
) -> str:
    """A release of a count of each value, all 100 but for Laplace noise of scale 2."""
    value = [f"v{place}" for place in range(noise.size)]
    table: dict[str, Any] = {"value": value, "estimate": 100 + noise}
    table["standard_error"] = np.full(noise.size, 8**0.5)
    for end, many in (("", 1), ("_simultaneous", noise.size)):
        half = 2 * np.log(many / 0.05)
        table |= {f"lower{end}": 100 + noise - half, f"upper{end}": 100 + noise + half}
    figure = more.pop("figure", "users")
    said = statement(kind, {f"{kind}.parquet": figure}, **{"request": ASKED, **more})
    files = {f"{kind}.parquet": pa.table(table), PAGE: b""}
    publish(day, {"cities": Content(files, said)}, Path(folder))
    return f"{folder}/2026-11-{day:02}"


def test_what_is_beyond_noise_is_told_first(releases: Path, capsys) -> None:
    answer = asked(capsys, *DAYS)
    first, second, *others = answer["rows"]
    assert {first["value"], second["value"]} == {"Oslo", None}
    assert first["beyond_noise"]
    assert second["beyond_noise"]
    assert not any(row["beyond_noise"] for row in others)
    assert abs(first["difference"]) == pytest.approx(0.4)
    assert first["lower"] < first["difference"] < first["upper"]
    assert (first["first"], first["second"]) == ("2026-11-15", "2026-11-16")
    # The others have standard errors, and nothing that says how far their noise reaches.
    assert answer["compared"] == len(answer["rows"]) == 3
    assert answer["left_out"].keys() == {"people: users", "delay: mean"}
    capsys.readouterr()
    assert cli.main(["compare", *DAYS]) == 0
    shown = capsys.readouterr().out
    assert "beyond noise: 2 of 3 differences" in shown
    assert shown.index("Oslo") < shown.index("Bergen")
    assert "cities: a difference of " in shown


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_all_differences_are_written_as_one_table(releases: Path, ending: str, capsys) -> None:
    for day in (1, 2):
        publish_day(day, Path("hostile"))
    assert cli.main(["compare", *DAYS, "--output", f"changes.{ending}"]) == 0
    read = pq.read_table if ending == "parquet" else pa.csv.read_csv
    table = read(f"changes.{ending}")
    assert table.column_names == SCHEMA.names
    assert table["beyond_noise"].to_pylist() == [True, True, False]
    assert cli.main(["compare", *DAYS, "--output", f"changes.{ending}"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert len(read(f"changes.{ending}")) == 3


@pytest.mark.verify
def test_tables_without_a_finding_raise_an_alarm_as_rarely_as_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,000 values, read from release folders: of 40 pairs more than 12 show something with a
    probability below 1e-9, where 5 % do."""
    monkeypatch.chdir(tmp_path)
    rng, found = np.random.default_rng(3), 0
    for pair in range(40):
        folder = f"pair{pair}"
        names = [count(day, rng.laplace(scale=2, size=1000), folder) for day in (1, 2)]
        assert cli.main(["compare", *names, "--output", f"{folder}.parquet"]) == 0
        beyond = pq.read_table(f"{folder}.parquet")["beyond_noise"].to_pylist()
        assert len(beyond) == 1000
        found += any(beyond)
    assert found <= 12


def test_one_change_among_a_thousand_values_is_found_at_the_size_that_is_stated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """200 values of 1,000 have changed by it: fewer than 154 of them are found with a probability
    below 1e-9, where 90 % are. And twice as many comparisons want a larger one."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    noise = rng.laplace(scale=2, size=(2, 1000))
    size = asked(capsys, count(1, noise[0]), count(2, noise[1]))["rows"][0]["detectable"]
    moved = np.zeros(1000)
    moved[:200] = size
    changed = asked(capsys, count(3, noise[0]), count(4, noise[1] + moved))
    found = {row["value"] for row in changed["rows"] if row["beyond_noise"]}
    assert len(found & {f"v{place}" for place in range(200)}) >= 154
    assert len(found - {f"v{place}" for place in range(200)}) <= 3


def test_a_difference_whose_interval_has_no_end_is_none_that_would_be_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    names = [count(day, np.zeros(1)) for day in (1, 2)]
    for name, column, odd in zip(
        names, ("standard_error", "upper_simultaneous"), (5e-324, 1e300), strict=True
    ):
        path = f"{name}/cities/count.parquet"
        table = pq.read_table(path)
        place = table.column_names.index(column)
        pq.write_table(table.set_column(place, column, pa.array([odd])), path)
    capsys.readouterr()
    assert cli.main(["compare", *names, "--output", "changes.html"]) == 0
    assert "would be found" not in capsys.readouterr().out


def test_two_values_of_a_release_are_compared_as_if_their_noise_were_opposite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    one = count(1, np.array([0.0, 40.0, 3.0]))
    (row,) = asked(capsys, one, "--values", "v0", "v1")["rows"]
    assert (row["first"], row["second"], row["difference"]) == ("v0", "v1", 40.0)
    # As wide as that of all three values together, on both sides.
    assert row["upper"] - row["difference"] == pytest.approx(2 * 2 * np.log(3 / 0.05))
    assert row["standard_error"] == pytest.approx(2 * 8**0.5)
    assert row["beyond_noise"]


def test_two_groups_are_compared_value_by_value(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    table: dict[str, Any] = {
        "plan": ["free", "free", "paid", "paid", "paid"],
        "city": ["Oslo", "Bergen", "Oslo", "Bergen", "Voss"],
        "estimate": [10.0, 20.0, 90.0, 21.0, 5.0],
    }
    table["standard_error"] = [1.0] * 5
    for end, half in (("", 2.0), ("_simultaneous", 3.0)):
        for name, sign in (("lower", -1), ("upper", 1)):
            table[f"{name}{end}"] = [x + sign * half for x in table["estimate"]]
    said = statement("count", {"count.parquet": "users"}, request=ASKED)
    publish(1, {"n": Content({"count.parquet": pa.table(table), PAGE: b""}, said)},
            Path("releases"))  # fmt: skip
    rows = asked(capsys, "releases/2026-11-01", "--groups", "free", "paid")["rows"]
    assert [(row["value"], row["difference"]) for row in rows] == [("Oslo", 80.0), ("Bergen", 1.0)]
    assert [row["beyond_noise"] for row in rows] == [True, False]


def noise(*more: float) -> np.ndarray:
    return np.array([1.0, -1.0, *more])


Other = Callable[[], str]
OTHERS: dict[str, tuple[Other, str]] = {
    "a kind": (
        lambda: count(2, noise(), kind="sum"), "cities: a count and a sum cannot be compared"
    ),
    "a figure": (
        lambda: count(2, noise(), figure="events"), "cities: users and events cannot be compared"
    ),
    "a unit": (
        lambda: count(2, noise(), request=ASKED | {"unit": "row"}),
        "cities: the unit of protection is 'user' in one release and 'row' in the other",
    ),
    "other rows of a user": (
        lambda: count(2, noise(), request=ASKED | {"rows_of_a_user": "one, drawn uniformly"}),
        "cities: what counts of a user's rows is 'those of each value' in one release and "
        "'one, drawn uniformly' in the other, so their figures mean other things",
    ),
    "a column": (
        lambda: count(2, noise(), request=ASKED | {"column": "town"}),
        "cities: --column is 'city' in one release and 'town' in the other",
    ),
    "what must hold": (
        lambda: count(2, noise(), request=ASKED | {"where": ["n > 1"]}),
        "cities: --where is not said in one release and ['n > 1'] in the other",
    ),
    "bounds": (
        lambda: count(2, noise(), bounds={"low": 0, "high": 1}),
        "cities: numbers were clipped to other bounds in each release",
    ),
    "a domain": (
        lambda: count(2, noise(0.0)),
        "cities: the releases are not about the same values: 1 are in one alone",
    ),
    "the same": (lambda: "counts/2026-11-01", "both are the same release; name two"),
    "none": (lambda: "nowhere", "nowhere: there is no release"),
    "several": (lambda: "counts/*", "counts/*: there are several releases; name one"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_what_cannot_be_compared_is_refused_in_a_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    make, why = OTHERS[name]
    count(3, noise())
    one, other = count(1, noise()), make()
    assert cli.main(["compare", one, other, "--output", "changes.csv"]) == 2
    said = capsys.readouterr().err
    assert why in said
    assert said.count("\n") == 1
    assert not Path("changes.csv").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (DAYS[:1], "name two releases, or one with --groups G H or --values V W"),
        ([*DAYS, "--values", "Oslo", "Bergen"], "name two releases, or one"),
        ([DAYS[0], "--values", "Oslo", "Bergn"], "no value 'Bergn'; did you mean Bergen?"),
        ([DAYS[0], "--values", "Oslo", "Oslo"], "--values: 'Oslo' is there twice"),
        ([DAYS[0], "--groups", "a", "b"], "--groups: there is no group 'b'"),
        ([*DAYS, "--confidence", "nan"], "--confidence must be a number"),
        ([*DAYS, "--output", "changes.xlsx"], "changes.xlsx ends in none of .parquet, .csv, .html"),
        ([f"{DAYS[0]}/cities", f"{DAYS[1]}/delay"], "a histogram and a mean cannot be compared"),
        ([f"{DAYS[0]}/people", f"{DAYS[1]}/people"], "there is nothing to compare"),
    ],
)
def test_what_makes_no_comparison_is_refused_in_a_line(
    words: list[str], why: str, releases: Path, capsys
) -> None:
    assert cli.main(["compare", *words]) == 2
    said = capsys.readouterr().err
    assert why in said
    assert said.count("\n") == 1


def test_texts_of_clients_are_shown_and_never_run(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    markup = "[bold]<b>[/]"
    shares = {"value": [HOSTILE, markup], "estimate": [0.5, 0.5]}
    shares |= {"standard_error": [0.01, 0.01]}
    shares |= {"lower": [0.48, 0.48], "upper": [0.52, 0.52]}
    said = statement("histogram", {"histogram.parquet": "share"})
    for day in (1, 2):
        files = {"histogram.parquet": pa.table(shares), PAGE: b""}
        publish(day, {"cities": Content(files, said)}, Path("releases"))
    names = [f"releases/2026-11-{day:02}" for day in (1, 2)]
    monkeypatch.setenv("COLUMNS", "200")
    for ending in ("csv", "html"):
        assert cli.main(["compare", *names, "--output", f"changes.{ending}"]) == 0
    page = Path("changes.html").read_text()
    assert page.count(html.escape(markup)) == 2  # in the picture and below it
    assert "<b>" not in page
    assert markup in capsys.readouterr().out
    values = pa.csv.read_csv("changes.csv")["value"].to_pylist()
    assert f"'{HOSTILE}" in values
