"""A site over releases: what is on its pages, and what never is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli import cli
from pipelines.compare.series import Series
from pipelines.releases import schema
from pipelines.site import build
from pipelines.site.build import in_script
from pipelines.site.serve import HERE, server
from pipelines.views.headline import OTHER
from tests.pipelines.test_export import HOSTILE, publish_day, publish_week_day


@pytest.fixture
def releases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for day in (1, 2, 4):
        publish_day(day, Path("releases"))
    return tmp_path


def made(*words: str) -> int:
    return cli.main(["site", "releases", "--output", "public", *words])


def data(page: str) -> dict[str, Any]:
    """What a page holds for its script."""
    text = Path("public", page).read_text("utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    content: dict[str, Any] = json.loads(found[1])
    return content


def test_the_first_page_lists_metrics_windows_and_gaps(releases: Path, capsys) -> None:
    assert made() == 0
    assert "4 pages over 9 releases of metrics" in capsys.readouterr().out
    (rides,) = data("index.html")["collections"]
    assert rides["name"] == "rides"
    assert [metric["name"] for metric in rides["metrics"]] == ["cities", "delay", "spread"]
    assert [release["window"] for release in rides["releases"]] == [
        "2026-11-01", "2026-11-02", "2026-11-04",
    ]  # fmt: skip
    assert rides["missing"] == ["2026-11-03"]


def test_a_metric_has_its_trend_its_changes_and_its_files(releases: Path) -> None:
    for day in range(5, 31):
        publish_week_day(day, Path("releases"))
    assert made() == 0
    page = data("rides/cities.html")
    (table,) = page["tables"]
    drawn = table["drawn"]
    oslo = drawn["labels"].index([None, "Oslo"])
    assert len(drawn["estimate"][oslo]) == len(page["windows"]) == 29
    assert drawn["estimate"][oslo][-1] == 0.1
    before, week = table["changes"]
    assert (before["since"], before["window"]) == ("the window before", "2026-11-29")
    assert (week["since"], week["window"]) == ("a week before", "2026-11-23")
    assert before["names"] == week["names"] == []
    whole = pq.read_table("public/rides/cities.parquet")
    assert len(whole) == 3 * 2 + 26 * 3


def test_the_newest_figures_stand_as_on_the_release_s_own_page(releases: Path) -> None:
    """The largest share first, and of means the best known; bins as they rise."""
    publish_week_day(16, Path("releases"))  # in the order of their names: 0.1, 0.3, 0.6
    assert made() == 0
    read = {
        name: data(f"rides/{name}.html")["tables"][0]["now"]["columns"]
        for name in ("cities", "delay", "spread")
    }
    assert read["cities"]["value"] == [None, "Bergen", "Oslo"]
    assert read["cities"]["estimate"] == pytest.approx([0.6, 0.3, 0.1])
    assert read["cities"]["lower"] == pytest.approx([0.58, 0.28, 0.08])
    assert read["delay"]["group"] == ["a"]
    assert read["spread"]["low"] == [0.0, 1.0]


def test_nothing_gets_on_a_page_but_through_one_function() -> None:
    """A list, or nothing, that is appended as it is stands there as [object ...] or null."""
    script = Path(build.__file__).with_name("app.js").read_text()
    appended = re.findall(r"\w+\.append\(.*", script)
    assert "innerHTML" not in script
    assert appended == ["place.append(child);"]


def test_what_comes_first_is_what_the_kind_says(releases: Path) -> None:
    assert made() == 0
    (rides,) = data("index.html")["collections"]
    cities, delay, spread = rides["metrics"]
    # Two shares that are alike, and whose intervals reach to 0.
    assert (cities["lines"], cities["which"]) == (
        [], "Of 2 figures nothing stands out of the noise",
    )  # fmt: skip
    # Of means the best known, and not the largest.
    assert delay["lines"] == [["1.50 ± 0.10", "", "a"], ["2.50 ± 0.20", "", "b"]]
    assert delay["trend"] == [1.5, 1.5, 1.5]
    assert spread["trend"] == []


def test_a_ledger_has_one_line_a_population() -> None:
    """Of many windows the one in which most is spent, and never rounded down."""
    account = {
        "population": "people", "scope": "user per window", "unit": "user",
        "budget": {"epsilon": 4.0, "delta": 1e-5}, "further_like_the_last": 1,
    }  # fmt: skip
    accounts = [
        account | {"window": f"2026-11-{day:02}", "total": {"epsilon": spent, "delta": 1e-5}}
        for day, spent in enumerate((1.0, 2.10004, 0.5), 1)
    ]
    (line,) = build._populations(accounts)
    assert (line["spent"], line["windows"], line["further"]) == ("2.101", 3, 1)


@pytest.mark.parametrize(
    ("plan", "begun", "days"),
    [
        ({"schedule": "0 4 * * *"}, "2026-11-01T04:00:00+00:00", 18),
        ({"schedule": "0 4 * * *"}, "2026-11-20T04:00:00+00:00", 0),  # a backfill
        ({}, "2026-11-01T04:00:00+00:00", 0),  # nothing says when it is due
    ],
)
def test_late_is_said_against_a_schedule_alone(plan, begun: str, days: int) -> None:
    until = {"until": "2026-11-02T00:00:00+00:00"}
    whole = {"plan": plan | until, "created": "2026-11-20T04:00:00+00:00"}
    assert build._late(whole, begun) == days


def test_a_fall_beyond_noise_is_told(releases: Path) -> None:
    for day in (14, 15, 16):
        publish_week_day(day, Path("releases"))
    assert made() == 0
    (table,) = data("rides/cities.html")["tables"]
    (before,) = table["changes"]
    assert before["names"][0] in ("Oslo", OTHER)
    assert abs(before["difference"][0]) == pytest.approx(0.4)


def test_statements_and_pages_are_one_click_away(releases: Path) -> None:
    assert made() == 0
    for window in data("rides/cities.html")["windows"]:
        place = Path("public/rides", window["place"]).resolve()
        name = window["name"]
        own = Path("releases", name, "cities", "statement.json").read_bytes()
        assert (place / "statement.json").read_bytes() == own
        page = (place / "report.html").read_text()
        assert 'href="../../../index.html"' in page
        assert "<iframe sandbox " in page


def test_a_statement_is_copied_and_not_written_anew(releases: Path) -> None:
    for path in Path("releases").glob("*/statement.json"):
        path.write_bytes(path.read_bytes() + b"\n")  # as some editor leaves it
    assert made() == 0
    said = {path.read_bytes() for path in Path("releases").glob("*/statement.json")}
    assert {path.read_bytes() for path in Path("public").glob("releases/*/statement.json")} == said


def test_no_path_host_or_hostile_markup_stands_on_any_page(releases: Path) -> None:
    assert made() == 0
    for path in Path("public").rglob("*"):
        if path.is_file() and path.suffix != ".parquet":
            text = path.read_text("utf-8")
            assert str(releases) not in text
            assert not re.search(r"https?://(?!www\.w3\.org/)", re.sub(r"/\*!.*?\*/", "", text))
            if path.suffix == ".csv":
                assert f'"{HOSTILE.replace(chr(34), chr(34) * 2)}"' not in text


def test_what_ends_a_script_cannot_stand_in_its_data() -> None:
    hostile = ["</script><script>alert(1)</script>", "<!--", "\u2028"]
    text = in_script(hostile)
    assert not re.search("[<>&\u2028]", text)
    assert json.loads(text) == hostile


def test_a_site_is_made_again_and_nothing_else_is_overwritten(releases: Path, capsys) -> None:
    assert made() == 0
    publish_day(5, Path("releases"))
    assert made() == 0
    assert len(data("index.html")["collections"][0]["releases"]) == 4
    Path("mine").mkdir()
    Path("mine/letter.txt").write_text("kept")
    capsys.readouterr()
    assert cli.main(["site", "releases", "--output", "mine"]) == 2
    assert "--output: mine holds something else than a site" in capsys.readouterr().err
    assert [path.name for path in Path("mine").iterdir()] == ["letter.txt"]
    assert not [path for path in releases.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--output", "gs://bucket/site"], "a site is made in a local folder"),
        (["--output", "public", "--serve", "70000"], "a port is a number up to 65535"),
        (["--output", "public", "--ledger", "none.sqlite"], "none.sqlite"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(
    releases: Path, words, why: str, capsys, monkeypatch
) -> None:
    # What is wrong is said before the store is asked, which would need credentials.
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
    assert cli.main(["site", "releases", *words]) == 2
    said = capsys.readouterr().err
    assert why in said
    assert said.count("\n") == 1
    assert not Path("public").exists()


def test_it_is_served_to_this_machine_alone(releases: Path) -> None:
    assert made() == 0
    with server("public", 0) as answering:
        assert answering.server_address[0] == HERE == "127.0.0.1"


def test_a_value_that_a_window_lacks_has_no_band_there() -> None:
    """Where figures may lie below 0, and one table has other values than the one before."""
    windows = {}
    for window, values in enumerate((["a"], ["a", "b"])):
        table = pa.table({
            "value": values, "estimate": [-0.5, 3.0][: len(values)],
            "standard_error": [1.0, 1.0][: len(values)], "lower": [-2.0, 1.0][: len(values)],
            "upper": [2.0, 5.0][: len(values)],
        })  # fmt: skip
        missing = {name: pa.nulls(len(table), kind) for name, kind in
                   zip(schema.FIGURE.names, schema.FIGURE.types, strict=True)}  # fmt: skip
        windows[window] = pa.table(missing | {name: table[name] for name in table.column_names})
    drawn = Series("a.parquet", "users", windows, 1, 0.95).drawn()
    assert drawn["labels"] == [[None, "b"], [None, "a"]]
    for line in ("estimate", "lower", "upper"):
        assert drawn[line][0][0] is None
        assert drawn[line][0][1] is not None
    assert drawn["lower"][1][0] < -1


def test_a_band_of_what_cannot_be_below_nothing_begins_at_nothing() -> None:
    """Of variances one of which noise has taken below 0, as its limits and its estimate are not."""
    windows = {}
    for window, (estimate, unclipped) in enumerate(((0.0, -3.0), (0.5, 0.5))):
        figures = {
            "estimate": [estimate], "standard_error": [0.4], "lower": [0.0], "upper": [1.5],
            "unclipped": [unclipped],
        }  # fmt: skip
        missing = {name: pa.nulls(1, kind) for name, kind in
                   zip(schema.FIGURE.names, schema.FIGURE.types, strict=True)}  # fmt: skip
        labels = {name: pa.nulls(1, pa.string()) for name in schema.LABELS}
        windows[window] = pa.table(labels | missing | {k: pa.array(v) for k, v in figures.items()})
    drawn = Series("variance.parquet", "variance", windows, 1, 0.95).drawn()
    assert drawn["lower"] == [[0.0, 0.0]]
    assert min(drawn["upper"][0]) > 0.5
