"""The sheet of a plan: what it says is what `check` says, and its errors are the planner's."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from tests.oracles.read_pages import Read, require_plain, require_promise

PLAN = """\
collection: shop
version: 3
unit: {unit}
user_column: user
input: "log/{{window}}.parquet"
output: "out/{{window}}"
{ledger}
epsilon: 1
delta: 1.0e-6
metrics:
  - {{name: visits, kind: count, column: city, domain: cities.txt}}
  - {{name: spent, kind: sum, column: price, bounds: "0,50"}}
"""
LEDGER = "ledger: shop.sqlite\nbudget: {epsilon: 4, delta: 1.0e-5}"


@pytest.fixture
def sheet(run, workspace: Path) -> Any:
    def made(unit: str = "user", ledger: str = LEDGER) -> tuple[Read, dict, str]:
        Path("cities.txt").write_text("Oslo\nBergen\nBod\u00f8\n")
        Path("plan.yaml").write_text(PLAN.format(unit=unit, ledger=ledger))
        assert run(["check", "plan.yaml", "--output", "review.html"]).code == 0
        source = Path("review.html").read_text("utf-8")
        (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', source)
        return Read(source.encode()), json.loads(text), source

    return made


def year(page: Read) -> float:
    """The epsilon of a year, as the head says it."""
    (said,) = re.findall(r"epsilon ([\d.,]+), delta [\d.e-]+\s+a year", page.text)
    return float(said.replace(",", ""))


def test_a_sheet_says_what_check_says(sheet, run) -> None:
    page, data, source = sheet()
    answer = json.loads(run(["check", "plan.yaml", "--json"]).out)
    sentences = re.findall(r"(?:Adding|Changing) .*?\.(?!\d)", page.text)
    require_promise(page.text, {"guarantees": answer["guarantees"], "in_words": sentences})
    assert answer["fingerprint"][:16] in page.text
    (design,) = re.findall(r"resolved to design (\w{16})", run(["check", "plan.yaml"]).out)
    assert design in page.text
    for metric in data["metrics"]:
        assert metric["name"].partition(": ")[0] in page.text
        words, number, percent = metric["errors"][data["rows"].index(metric["own"])][3]
        assert words in page.text  # the table has what the plan has come to
        assert not percent
        assert number > 0
    require_plain(page.text, ["user_id"])
    assert "http" not in source.replace("http://www.w3.org/2000/svg", "")
    assert str(Path.cwd()) not in source


def test_errors_fall_with_epsilon_and_rise_with_k(sheet) -> None:
    _, data, _ = sheet()
    assert data["epsilons"][3] == "1"
    visits = data["metrics"][0]["errors"]
    assert data["rows"][:2] == [1, 4]
    for row in visits:
        errors = [one[1] for one in row if one]
        assert errors == sorted(errors, reverse=True)
        assert errors[0] > 4 * errors[-1]
    one, four = (row[3][1] for row in visits[:2])
    assert 2.6 < four / one < 5.4


def test_simulated_figures_lie_where_figures_can(run, workspace: Path) -> None:
    """A standard deviation was drawn at two million, where it can be no more than 25."""
    Path("cities.txt").write_text("Oslo\nBergen\n")
    plan = PLAN.format(unit="user", ledger="")
    for kind in ("mean", "variance"):
        plan += f'  - {{name: {kind}, kind: {kind}, column: price, bounds: "0,50"}}\n'
    Path("plan.yaml").write_text(plan)
    assert run(["check", "plan.yaml", "--output", "review.html"]).code == 0
    source = Path("review.html").read_text("utf-8")
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', source)
    scales = {m["name"].partition(":")[0]: m["scale"] for m in json.loads(text)["metrics"]}
    assert (scales["mean"], scales["variance"]) == (50, 25)
    assert scales["spent"] > 1000 * 50


def test_a_year_costs_more_than_a_window_and_less_than_the_sum(sheet) -> None:
    page, _, _ = sheet()
    assert "a year of 365 windows" in page.text
    assert math.sqrt(365) / 2 < year(page) < 365
    assert "budget of epsilon 4, delta 1e-05 covers" in page.text


def test_windows_that_do_not_compose_cost_one_price(sheet) -> None:
    page, _, _ = sheet("user per window", "")
    assert "one price covers all windows" in page.text
    assert year(page) == pytest.approx(1, abs=0.01)


def test_a_file_that_is_there_is_not_written_over(sheet, run) -> None:
    _, _, source = sheet()
    outcome = run(["check", "plan.yaml", "--output", "review.html"])
    assert outcome.code == 2
    assert "is there already" in outcome.err
    assert Path("review.html").read_text("utf-8") == source


@pytest.mark.parametrize("unit", ["user", "row"])
def test_rows_that_match_are_not_all_that_count(unit: str, run) -> None:
    text = PLAN.format(unit=unit, ledger="")
    said = plain_sheet(text if unit == "user" else text.replace("user_column: user\n", ""), run)
    assert ("all; of each user at most k count, by metric" in said) == (unit == "user")
    assert re.search(r"rows that match\s+all", said)


def plain_sheet(plan: str, run: Any) -> str:
    Path("cities.txt").write_text("Oslo\nBergen\n")
    Path("plan.yaml").write_text(plan)
    outcome = run(["check", "plan.yaml", "--output", "review.html"])
    assert outcome.code == 0, outcome.said
    return re.sub(r"<[^>]+>", " ", Path("review.html").read_text("utf-8"))


@pytest.mark.parametrize("expected", [None, 5000])
def test_how_many_take_part_is_an_assumption_where_nobody_says_it(expected: Any, run) -> None:
    more = "" if expected is None else f", expected: {expected}"
    text = PLAN.partition("metrics:")[0].format(unit="user", ledger="")
    text += f"""\
metrics:
  - {{name: mean, kind: mean, column: x, bounds: "0,50"{more}}}
  - {{name: below, kind: distribution, column: x, bounds: "0,50"{more}}}
  - {{name: words, kind: strings, column: city, search: threshold{more}}}
"""
    said = plain_sheet(text, run)
    of = ", if 1,000,000 users take part" if expected is None else " of 5,000"
    assert re.search(rf" mean ± [\d.e-]+{of}  ", said)
    assert re.search(rf" share below ± [\d.e-]+ %{of}  ", said)
    assert re.search(rf" finds what \d+ users{'' if expected is None else of} hold  ", said)
    # The sliders' words are the same ones, at other errors.
    (data,) = re.findall(r'id="data">(.*?)</script>', Path("review.html").read_text("utf-8"))
    errors = json.loads(data)["metrics"][0]["errors"][0]
    assert all(re.fullmatch(rf"mean ± [\d.e-]+{of}", text) for text, *_ in errors)


def test_errors_between_those_that_are_searched_for_are_those_of_a_search(run, workspace) -> None:
    """At half the epsilon, where only ends and middle were searched for."""
    plan = PLAN.partition("metrics:")[0].format(unit="user", ledger="")
    plan += "metrics:\n  - {name: cities, kind: count, column: city, domain: 0..9, "
    plan += "rows_per_user: 4, per_value: 2, drawn_by: shuffler}\n"

    def errors(epsilon: str) -> tuple[list, dict]:
        Path("plan.yaml").write_text(plan.replace("epsilon: 1\n", epsilon))
        assert run(["check", "plan.yaml", "--output", f"{len(epsilon)}.html"]).code == 0
        source = Path(f"{len(epsilon)}.html").read_text("utf-8")
        data = json.loads(re.findall(r'id="data">(.*?)</script>', source)[0])
        return data["metrics"][0]["errors"][data["rows"].index(4)], data["metrics"][0]

    whole, chart = errors("epsilon: 1\n")
    half, _ = errors("epsilon: 0.5\n")
    assert whole[2][1] == pytest.approx(half[3][1], rel=0.05)
    assert whole[1][1] == pytest.approx(half[2][1], rel=0.05)
    assert chart["own"] == 4


def test_the_table_says_how_much_of_a_user_counts_and_what_is_declared(run, workspace) -> None:
    Path("log").mkdir()
    Path("log/cities.txt").write_text("Oslo\nBergen\nBod\u00f8\n")
    text = PLAN.partition("metrics:")[0].format(unit="user", ledger="")
    text += f"""\
metrics:
  - {{name: visits, kind: count, column: city, domain: {Path("log/cities.txt").resolve()},
     rows_per_user: 3, per_value: 4}}
  - {{name: spent, kind: sum, column: price, bounds: "0,50", group: ['x=["a/b","c"]', y=1..3]}}
  - {{name: users, kind: count}}
"""
    said = plain_sheet(text, run)
    assert re.search(r" visits  .* 12  domain cities\.txt  nothing ", said)
    assert re.search(r" spent  .* 1  group x=.*a/b.*c.*, y=1\.\.3; bounds 0,50  nothing ", said)
    assert re.search(r" users  .* 1  nothing  nothing ", said)
    assert "so many values times so many rows of each" in said
    assert str(Path.cwd()) not in said
