"""Alarms of releases: which figures are watched, what is said, and how commands end."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli import cli
from pipelines.compare.series import histories
from pipelines.errors import Caution
from pipelines.metrics.metric import PAGE, Content
from pipelines.plan.publish import gathered
from pipelines.plan.run import code_of
from pipelines.releases import history, release
from pipelines.stream.driver import Driver
from pipelines.views.console import Screen
from pipelines.views.headline import Head
from pipelines.views.pages import whole as page
from pipelines.watch.alarms import alarms_of, courses
from tests.pipelines.test_export import GUARANTEE, statement

FIRST = datetime(2026, 9, 1, tzinfo=timezone.utc)
HOSTILE = "<img src=x>[red]"
Figures = Mapping[str, Sequence[float]]


def publish(
    folder: Path, number: int, figures: Mapping[str, float], length: timedelta = timedelta(days=1),
    watch: Mapping[str, Any] | None = None, request: Mapping[str, Any] = {}, **more: Any,
) -> str:  # fmt: skip
    """One window of a plan with a histogram; its folder."""
    start = FIRST + number * length
    name = start.strftime("%Y-%m-%d" if length >= timedelta(days=1) else "%Y-%m-%dT%H%M")
    table = pa.table({
        "value": [*figures], "estimate": [*figures.values()],
        "standard_error": [0.0015 * max(figures.values())] * len(figures),
        "lower": [x - 3 for x in figures.values()], "upper": [x + 3 for x in figures.values()],
    })  # fmt: skip
    plan = {
        "collection": "rides", "version": 1, "window": name, "fingerprint": "f", "noise": "fresh",
        "from": start.isoformat(), "until": (start + length).isoformat(),
    }  # fmt: skip
    whole: dict[str, Any] = {
        "release": "plan", "release_id": f"{number:032x}", "in_words": [], "plan": plan | more,
        "created": "2026-11-21T03:00:00+00:00", "guarantees": {"release": GUARANTEE},
        "watch": {"cities": {}} if watch is None else watch,
    }  # fmt: skip
    said = statement("histogram", {"histogram.parquet": "users"}, request=dict(request))
    made = page(Head("", '<h1></h1>\n<p class="lead"></p>\n'), "")
    content = Content({"histogram.parquet": table, PAGE: made}, said)
    files, whole = gathered(["cities"], {"cities": content}, whole)
    release.publish(str(folder / name), files, whole)
    return str(folder / name)


def weeks(count: int, shift: float, at: int, seed: int = 1) -> list[dict[str, float]]:
    """Days of two cities with weekends, of which the first one shifts."""
    rng, days = np.random.default_rng(seed), np.arange(count)
    oslo = 5000 - 800 * (days % 7 > 4) + 40 * rng.standard_normal(count) + shift * (days >= at)
    bergen = 2000 + 30 * rng.standard_normal(count)
    rows = zip(np.round(oslo), np.round(bergen), strict=True)
    return [{"Oslo": float(o), "Bergen": float(b)} for o, b in rows]


@pytest.fixture
def shifted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """60 days, the last 3 of which are shifted by 200 down; the alarm is of the last one."""
    monkeypatch.chdir(tmp_path)
    for number, figures in enumerate(weeks(52, -120, 49)):
        publish(Path("releases"), number, figures)
    return tmp_path / "releases"


def of(folder: Path, unless_said: bool = False) -> list[Any]:
    metrics = histories(history.releases_in([str(folder)]))
    return [course for metric in metrics for course in courses(metric, unless_said)]


def test_the_command_names_the_shift(shifted: Path, capsys) -> None:
    code = cli.main(["watch", "releases"])
    out = capsys.readouterr().out
    (course,) = of(shifted)
    (alarm,) = course.alarms
    assert alarm.at >= 49
    assert code == (4 if alarm.at == 51 else 0)
    said = re.search(
        r"^alarm: cities, Oslo: (\d+) ± \d+ users less since (\S+), seen in (\S+)$", out, re.M
    )
    assert said is not None
    assert float(said[1]) == pytest.approx(120, abs=60)
    assert "2026-10-18" <= said[2] <= "2026-10-21"
    assert said[3] >= "2026-10-20"


def test_programs_are_told_numbers(shifted: Path, capsys) -> None:
    code = cli.main(["watch", "releases", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["exit_code"] == code
    (alarm,) = answer["alarms"]
    assert (alarm["metric"], alarm["figure"], alarm["collection"]) == ("cities", "Oslo", "rides")
    assert (alarm["group"], alarm["value"]) == (None, "Oslo")
    assert alarm["size"] == pytest.approx(-120, abs=60)
    (watched,) = answer["watched"]
    assert (watched["windows"], watched["learning"]) == (52, 0)


def test_a_run_hears_of_its_own_window_alone(shifted: Path) -> None:
    """Not of alarms before, nor of what was published of later windows."""
    (course,) = of(shifted)
    place = course.alarms[0].at
    names = sorted(path.name for path in shifted.iterdir())
    heard = {name: alarms_of(str(shifted / name))[0] for name in names[45:]}
    assert [name for name, alarms in heard.items() if alarms] == [names[place]]
    (alarm,) = heard[names[place]]
    assert alarm == course.facts[0]


def test_figures_that_are_named_share_the_false_alarms(tmp_path: Path) -> None:
    watch = {"cities": {"figures": ["Bergen", "Oslo"], "windows_per_false_alarm": 100}}
    for number, figures in enumerate(weeks(40, 500, 35)):
        publish(tmp_path / "r", number, figures, watch=watch)
    oslo, bergen = of(tmp_path / "r")
    assert (oslo.name, bergen.name) == ("Oslo", "Bergen")
    assert oslo.alarms[0].at == 35
    assert bergen.alarms == []


def test_a_figure_that_no_release_has_is_said_and_blocks_no_other(tmp_path: Path, capfd) -> None:
    for number, figures in enumerate(weeks(40, 900, 36)):
        watch = {"cities": {"figures": ["Olso", "Oslo"]}}
        folder = publish(tmp_path / "r", number, figures, watch=watch)
    (course,) = of(tmp_path / "r")
    assert (course.name, course.alarms[0].at) == ("Oslo", 36)
    said = "cities: watch: there is no figure 'Olso'; name it as the release's page does"
    assert cli.main(["watch", str(tmp_path / "r")]) == 2
    heard = capfd.readouterr()
    assert said in heard.err
    assert "alarm: cities, Oslo: " in heard.out
    assert alarms_of(folder) == ([], [f"{said}; did you mean Oslo?"])
    at_36 = sorted(str(path) for path in (tmp_path / "r").iterdir())[36]
    with pytest.warns(Caution, match="no figure 'Olso'"):
        assert code_of(at_36) == 4  # an alarm, whatever else is wrong
    with pytest.warns(Caution, match="no figure 'Olso'"):
        assert code_of(folder) == 2


def test_the_first_figure_stays_the_first(tmp_path: Path) -> None:
    """Another city becomes the largest: the one that is watched stays."""
    for number, figures in enumerate(weeks(40, -4500, 35)):
        publish(tmp_path / "r", number, figures)
    (course,) = of(tmp_path / "r")
    assert (course.name, course.alarms[0].at) == ("Oslo", 35)


def test_releases_of_another_meaning_teach_nothing(tmp_path: Path) -> None:
    for number, figures in enumerate(weeks(40, 0, 0)):
        column = {"column": "city" if number < 10 else "home"}
        publish(tmp_path / "r", number, figures, request=column)
    (course,) = of(tmp_path / "r")
    assert (len(course.places), course.places[0]) == (30, 10)


def test_a_window_without_usable_values_is_left_out(tmp_path: Path) -> None:
    """Its release says a share alone, and has no table; also where it is the newest."""
    for number, figures in enumerate(weeks(42, 500, 40)):
        folder = publish(tmp_path / "r", number, figures)
        if number in (30, 41):
            said = json.loads(Path(folder, "cities", "statement.json").read_text())
            Path(folder, "cities", "statement.json").write_text(json.dumps(said | {"figures": {}}))
            Path(folder, "cities", "histogram.parquet").unlink()
    (course,) = of(tmp_path / "r")
    (fact,) = course.facts
    assert (len(course.places), fact["place"]) == (40, 40)
    assert "users more since" in fact["line"]


@pytest.mark.verify
def test_hours_have_a_season_of_a_day(tmp_path: Path) -> None:
    """Nights are no shifts; and of hours a year has 8,760."""
    rng = np.random.default_rng(3)
    for number in range(24 * 6):
        night = 900.0 * (number % 24 < 6)
        figures = {"Oslo": float(round(1000 - night + 20 * rng.standard_normal()))}
        figures["Oslo"] += 300 * (number >= 24 * 5 + 12)
        publish(tmp_path / "r", number, figures, timedelta(hours=1))
    (course,) = of(tmp_path / "r")
    (alarm,) = course.alarms
    assert (alarm.at - 132 in (0, 1, 2), alarm.since) == (True, 132)


def test_nothing_is_watched_of_noise_that_goes_on(tmp_path: Path, capsys) -> None:
    for number, figures in enumerate(weeks(2, 0, 0)):
        publish(tmp_path / "r", number, figures, noise="permanent")
    assert of(tmp_path / "r", unless_said=True) == []
    assert cli.main(["watch", str(tmp_path / "r")]) == 2
    assert "no metric has a figure with fresh noise" in capsys.readouterr().err


def test_without_a_word_of_plans_the_first_figure_is_watched(tmp_path: Path, capsys) -> None:
    for number, figures in enumerate(weeks(20, 0, 0)):
        publish(tmp_path / "r", number, figures, watch={})
    assert of(tmp_path / "r") == []
    assert cli.main(["watch", str(tmp_path / "r")]) == 0
    out = capsys.readouterr().out
    assert "cities, Oslo" in out
    assert "learning: 8 more to come" in out


def test_strangers_texts_are_shown_as_they_are(tmp_path: Path, capsys) -> None:
    for number, figures in enumerate(weeks(40, 900, 36)):
        publish(tmp_path / "r", number, {HOSTILE: figures["Oslo"], "Oslo": 1.0})
    cli.main(["watch", str(tmp_path / "r")])
    out = capsys.readouterr().out
    assert f"alarm: cities, {HOSTILE}: " in out
    assert f" cities, {HOSTILE} " in out  # in the table, too


def test_a_statement_that_asks_what_no_plan_may_is_refused(tmp_path: Path, capsys) -> None:
    publish(tmp_path / "r", 0, {"Oslo": 1.0}, watch={"cities": {"windows_per_false_alarm": 1}})
    assert cli.main(["watch", str(tmp_path / "r")]) == 2
    assert "watch.cities.windows_per_false_alarm" in capsys.readouterr().err


def test_a_site_marks_alarms_in_words(shifted: Path) -> None:
    (course,) = of(shifted)
    assert cli.main(["site", "releases", "--output", "public"]) == 0

    def data(page: str) -> dict[str, Any]:
        text = Path("public", page).read_text("utf-8")
        found = re.search(r'id="data">(.*?)</script>', text, re.DOTALL)
        assert found is not None
        content: dict[str, Any] = json.loads(found[1])
        return content

    (alarm,) = data("rides/cities.html")["alarms"]
    assert alarm["line"] == course.facts[0]["line"]
    assert alarm["place"] == course.alarms[0].at
    ((metric,),) = [one["metrics"] for one in data("index.html")["collections"]]
    assert metric["alarms"] == [alarm["line"]] * (alarm["place"] == 51)


PLAN = """\
collection: rides
version: 1
unit: user per window
user_column: user
input: logs/{window}.parquet
output: releases/{window}
epsilon: 1
delta: 1.0e-6
metrics:
  - {name: cities, kind: histogram, column: city, domain: cities.txt, watch: true}
"""


@pytest.mark.parametrize(
    ("written", "line"),
    [
        ("watch: daily", "metrics.0.watch is wrong: say true, or {figures: [Oslo], "),
        ("watch: {figure: [Oslo]}", "metrics.0.watch.figure is nothing that a plan says"),
        ("watch: {windows_per_false_alarm: 1}", "metrics.0.watch.windows_per_false_alarm must be"),
    ],
)
def test_a_plan_is_refused_in_one_line(tmp_path: Path, capsys, written: str, line: str) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.replace("watch: true", written))
    assert cli.main(["check", str(plan)]) == 2
    said = capsys.readouterr().err
    assert line in said
    assert said.startswith(f"{plan}, line 10: ") or "line 10" in said


@pytest.mark.parametrize(
    ("metric", "line"),
    [
        ("kind: histogram, column: city, domain: 1..3", "'Olso'; name it as the release's page"),
        ("kind: histogram, column: city, domain: '[\"Oslo\"]'", "did you mean Oslo?"),
        ("kind: histogram, column: city, domain: 1..3, drawn_by: each-report, min_reports: 9000",
         "'Olso'"),
        ("kind: mean, column: x, bounds: '0,1', drawn_by: each-report, min_reports: 9000",
         "say watch: true"),
        ("kind: count", "say watch: true, for there is one"),
        ("kind: cross-tab, columns: [city, n], domains: ['city=[\"Olso\"]', n=1..2]", "'Olso'"),
        ("kind: distribution, column: x, bounds: '0,10', bins: 16", "'Olso'"),
        ("kind: count, group: [city]", None),  # which groups are found is not known
    ],
)  # fmt: skip
def test_a_misspelt_figure_is_refused_before_anything_is_read(
    tmp_path: Path, capsys, metric: str, line: str | None
) -> None:
    plan = tmp_path / "plan.yaml"
    own = "kind: histogram, column: city, domain: cities.txt, watch: true"
    plan.write_text(PLAN.replace(own, f"{metric}, watch: {{figures: [Olso]}}"))
    assert cli.main(["check", str(plan)]) == (0 if line is None else 2)
    said = capsys.readouterr().err
    assert line is None or (said.startswith(f"hushbeam: {plan}, line 10: watch: ") and line in said)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"releases/{window}": "releases"}, "watch is wrong: needs an output with {window}"),
        ({"epsilon: 1\n": "epsilon: 1\nnoise: permanent\ndistinct_values: 2\nmodel: local\n",
          "user per window": "user"}, "fresh noise in each window"),
    ],
)  # fmt: skip
def test_what_cannot_be_watched_is_refused(
    tmp_path: Path, capsys, change: dict[str, str], line: str
) -> None:
    text = PLAN
    for old, new in change.items():
        text = text.replace(old, new)
    (tmp_path / "plan.yaml").write_text(text)
    assert cli.main(["check", str(tmp_path / "plan.yaml")]) == 2
    assert line in capsys.readouterr().err


@pytest.mark.verify
def test_a_run_ends_with_4_and_a_backfill_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """Days before were published; today Oslo has lost a third. What is watched is no new design."""
    monkeypatch.chdir(tmp_path)
    Path("plan.yaml").write_text(PLAN)
    Path("cities.txt").write_text("Oslo\nBergen\n")
    Path("logs").mkdir()
    rng = np.random.default_rng(5)

    def log(day: str, oslo: int) -> None:
        city = ["Oslo"] * oslo + ["Bergen"] * (1000 - oslo)
        pq.write_table(pa.table({"user": range(1000), "city": city}), f"logs/{day}.parquet")

    log("2026-10-01", 600)
    assert cli.main(["run", "plan.yaml", "--window", "2026-10-01"]) == 0
    said = json.loads(Path("releases/2026-10-01/statement.json").read_text())
    assert said["watch"] == {"cities": {"figures": [], "windows_per_false_alarm": None}}
    own = json.loads(Path("releases/2026-10-01/cities/statement.json").read_text())
    assert own["figures"] == {"histogram.parquet": "share"}
    for number in range(30):
        shares = {"Oslo": 0.6 + 0.01 * rng.standard_normal(), "Bergen": 0.4}
        publish(Path("releases"), number, shares, request=own["request"])
    log("2026-10-02", 300)
    capsys.readouterr()
    assert cli.main(["run", "plan.yaml", "--window", "2026-10-02", "--json"]) == 4
    answer = json.loads(capsys.readouterr().out)
    (alarm,) = answer["alarms"]
    assert (alarm["window"], alarm["since"]) == ("2026-10-02", "2026-10-02")
    assert alarm["figure"] == "Oslo"
    assert alarm["size"] == pytest.approx(-0.3, abs=0.05)
    # Again: it is not made again, and ends alike.
    assert cli.main(["run", "plan.yaml", "--window", "2026-10-02"]) == 4
    assert "alarm: cities, Oslo: " in capsys.readouterr().out
    log("2026-10-03", 300)
    assert cli.main(["run", "plan.yaml", "--windows", "2026-10-02..2026-10-03"]) == 4
    out = capsys.readouterr().out
    assert "an alarm" in out


def test_a_stream_says_alarms_of_its_windows(shifted: Path, capsys) -> None:
    (course,) = of(shifted)
    place = course.alarms[0].at
    windows = SimpleNamespace(name=lambda start: start)
    stream: Any = SimpleNamespace(
        streamed=SimpleNamespace(windows=windows), screen=Screen(), withheld=False, watch_code=0
    )
    for name in sorted(path.name for path in shifted.iterdir())[place - 1 : place + 2]:
        Driver._tell(stream, name, "released", release=str(shifted / name))
    assert stream.watch_code == 4
    said = capsys.readouterr().out.splitlines()
    assert [line for line in said if line.startswith("alarm: ")] == [
        f"alarm: {course.facts[0]['line']}"
    ]
