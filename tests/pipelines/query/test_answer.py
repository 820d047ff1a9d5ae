"""What is made of published figures: the table, its rows in their order, and how it is shown."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.randomness import SeededRandom
from pipelines.query.answer import QueryResult, ResultColumn
from pipelines.releases.statement import parquet
from pipelines.views.console import Screen

CITIES = ("Oslo", "Bern", "Rom <b>", "Paris")
COUNTS = pa.table({
    "value": ["Oslo", "Bern", "Rom <b>", "Paris"], "estimate": [500, 30, 420, 30],
    "standard_error": [2.5] * 4, "lower": [495, 25, 415, 25], "upper": [505, 35, 425, 35],
    "lower_simultaneous": [493, 23, 413, 23], "upper_simultaneous": [507, 37, 427, 37],
})  # fmt: skip
MEANS = pa.table({
    "group": [*CITIES], "estimate": [1.5, None, 9.25, 4.0], "standard_error": [0.1, None, 0.2, 1.0],
    "lower": [1.3, 0.0, 8.9, 2.0], "upper": [1.7, 10.0, 9.6, 6.0],
})  # fmt: skip
TABLES = {"n/count.parquet": COUNTS, "m/mean.parquet": MEANS}
ANSWER = QueryResult(
    "query", (("city", CITIES),), (ResultColumn("n", "n", "count"), ResultColumn("", "m", "mean")),
    ("g0", "f0"),
)  # fmt: skip


def rows(**more: Any) -> list[str]:
    return replace(ANSWER, **more).table(TABLES)["city"].to_pylist()


def test_each_figure_stands_with_its_error_and_its_own_interval() -> None:
    table = ANSWER.table(TABLES)
    assert table.column_names == ["city", "n", "n_standard_error", "n_lower", "n_upper"]
    assert table["n_lower"].to_pylist() == [495, 25, 415, 25]
    assert table["city"].to_pylist() == [*CITIES]


def test_rows_that_figures_choose_have_intervals_that_hold_together() -> None:
    for chosen in ({"having": "(f0 > 100)"}, {"order": (("f0", True),), "limit": 2}):
        assert replace(ANSWER, **chosen).table(TABLES)["n_lower"].to_pylist() == [493, 413]
    assert replace(ANSWER, order=(("g0", False),)).table(TABLES)["n_lower"].to_pylist()[0] == 25


def test_rows_are_filtered_sorted_and_cut_by_what_is_published() -> None:
    assert rows(having="(f0 > 100)") == ["Oslo", "Rom <b>"]
    assert rows(having="(f1 > 2)") == ["Rom <b>", "Paris"]  # no figure is no
    assert rows(order=(("f0", True),)) == ["Oslo", "Rom <b>", "Bern", "Paris"]
    assert rows(order=(("f0", False), ("g0", True))) == ["Paris", "Bern", "Rom <b>", "Oslo"]
    assert rows(order=(("f1", False),)) == ["Bern", "Oslo", "Paris", "Rom <b>"]  # null is the least
    assert rows(order=(("f1", True),)) == ["Rom <b>", "Paris", "Oslo", "Bern"]
    assert rows(order=(("(-f0)", False),), limit=2, offset=1) == ["Rom <b>", "Bern"]
    assert rows(having="(f0 > 1000)") == []
    assert rows(limit=0) == []


def test_a_quotient_has_fiellers_interval() -> None:
    """By hand: all r for which |a - r b| is at most 1.2 of its standard deviations."""
    sums = pa.table({
        "value": [*CITIES], "estimate": [100.0, -3.0, 8.0, 1.0], "standard_error": [5.0] * 4,
        "lower": [94.0, -9.0, 2.0, -5.0], "upper": [106.0, 3.0, 14.0, 7.0],
    })  # fmt: skip
    over = ResultColumn("", "s", "sum"), ResultColumn("", "n", "count")
    figures = (ResultColumn("r", "", "ratio", over=over),)
    answer = QueryResult("query", (("city", CITIES),), figures, ("g0", "f0"))
    counts = COUNTS.set_column(2, "standard_error", pa.array([2.5, 2.5, 2.5, 100.0]))
    counts = counts.set_column(4, "upper", pa.array([503, 33, 423, 140]))
    table = answer.table({"s/sum.parquet": sums, "n/count.parquet": counts})
    known = table.to_pydict()
    assert known["r"] == [0.2, -0.1, 8 / 420, 1 / 30]
    assert known["r_standard_error"][0] == pytest.approx(np.hypot(5, 0.2 * 2.5) / 500)
    for place in range(3):
        a, b = known["r"][place] * (n := [500, 30, 420][place]), n
        for end in ("r_lower", "r_upper"):
            r = known[end][place]
            assert abs(a - r * b) == pytest.approx(1.2 * np.hypot(5, r * 2.5))
    # What may be nothing divides nothing.
    assert (known["r_lower"][3], known["r_upper"][3]) == (None, None)
    assert answer.rows(table)[1][0] == ["Oslo", "0.200 ± 0.010"]


def test_quotients_cover() -> None:
    """Of 20,000 intervals 95 % do where noise is normal: below 94 % by chance once in 10^9."""
    rng, n = SeededRandom(5), 20_000
    uniform = (rng.words(4 * n).reshape(4, n).astype(float) + 0.5) / 2.0**64
    noise = np.sqrt(-2 * np.log(uniform[:2])) * np.cos(2 * np.pi * uniform[2:])
    tables = {}
    for place, (name, true, error) in enumerate((("a", 30.0, 4.0), ("b", 90.0, 9.0))):
        estimate = true + error * noise[place]
        tables[f"{name}/sum.parquet"] = pa.table({
            "value": [*map(str, range(n))], "estimate": estimate,
            "standard_error": np.full(n, error), "lower": estimate - 1.96 * error,
            "upper": estimate + 1.96 * error,
        })  # fmt: skip
    over = ResultColumn("", "a", "sum"), ResultColumn("", "b", "sum")
    figures = (ResultColumn("r", "", "ratio", over=over),)
    answer = QueryResult("query", (("k", tuple(range(n))),), figures, ("g0", "f0"))
    table = answer.table(tables).to_pydict()
    lower, upper = (np.array(table[end], float) for end in ("r_lower", "r_upper"))
    assert 0.94 < np.mean((lower <= 1 / 3) & (1 / 3 <= upper)) < 0.96


def test_variances_of_samples_are_larger() -> None:
    spreads = pa.table({
        "value": [*CITIES], "estimate": [4.0] * 4, "standard_error": [0.5] * 4, "lower": [3.0] * 4,
        "upper": [5.0] * 4, "rows": [11.0, 1001.0, 0.2, 3.0], "rows_standard_error": [1.0] * 4,
    })  # fmt: skip
    figures = tuple(
        ResultColumn(name, "x", kind, sample=sample)
        for name, kind, sample in (
            ("pop", "variance", False), ("var", "variance", True), ("sd", "deviation", True)
        )
    )  # fmt: skip
    answer = QueryResult("query", (("city", CITIES),), figures, ("g0", "f0", "f1", "f2"))
    files = {"x/variance.parquet": spreads, "x/deviation.parquet": spreads}
    table = answer.table(files).to_pydict()
    assert table["pop"] == [4.0] * 4
    assert table["var"] == pytest.approx([4 * 11 / 10, 4 * 1001 / 1000, 8, 6])
    assert table["sd"] == pytest.approx([4 * 1.1**0.5, 4 * 1.001**0.5, 4 * 2**0.5, 4 * 1.5**0.5])
    # Of 8 to 14 rows, as noise allows.
    assert table["var_lower"][0] == pytest.approx(3 * 14 / 13)
    assert table["var_upper"][0] == pytest.approx(5 * 8 / 7)
    assert table["var_standard_error"][0] == pytest.approx(0.5 * 1.1)


def test_quantiles_are_columns_of_one_row() -> None:
    quantiles = pa.table({
        "p": [0.25, 0.5, 0.9], "estimate": [1.0, 2.0, 9.0], "lower": [0.9, 1.8, 8.0],
        "upper": [1.1, 2.2, 10.0],
    })  # fmt: skip
    figures = (
        ResultColumn("q", "m", "distribution", (0.25, 0.9)),
        ResultColumn("h", "m", "distribution", (0.5,)),
    )
    answer = QueryResult("query", (), figures, ("f0", "f1"))
    table = answer.table({"m/quantiles.parquet": quantiles})
    assert table.select(["q_1", "q_2", "h"]).to_pylist() == [{"q_1": 1.0, "q_2": 9.0, "h": 2.0}]
    heads, cells = answer.rows(table)
    assert heads == ["q_1 ±", "q_2 ±", "h ±"]
    assert cells == [["1.000 ± 0.050", "9.00 ± 0.50", "2.00 ± 0.10"]]


def test_it_is_shown_with_errors_on_a_screen_and_on_a_page(capsys: Any) -> None:
    table = ANSWER.table(TABLES)
    ANSWER.show(table, Screen(width=80))
    shown = capsys.readouterr().out
    assert "500.0 ± 2.5" in shown or "500 ± 2.5" in shown
    page = ANSWER.page(table)
    assert "Rom &lt;b&gt;" in page
    assert "<b>" not in page


def test_strangers_texts_are_commands_to_nobody(capsys: Any) -> None:
    """Groups that nobody declared are texts that users wrote."""
    texts = ["[/b]", "[link=http://a]b", "\x1b[2J\n", "=1+1"]
    found = COUNTS.set_column(0, "value", pa.array(texts))
    answer = replace(ANSWER, groups=(("city", None),), figures=ANSWER.figures[:1])
    table = answer.table({"n/count.parquet": found})
    answer.show(table, Screen(width=80))
    shown = capsys.readouterr().out
    for text in ("[/b]", "[link=http://a]b", r"\x1b[2J\n", "=1+1"):
        assert f" {text} " in shown
    assert "\x1b" not in answer.page(table)
    assert '"\'=1+1",' in answer.files(table)["query.csv"].decode()


STATEMENT = {"guarantees": {"release": {"unit": "row"}}}


def first(answer: QueryResult, table: pa.Table) -> tuple[list[tuple[str, str, str]], str]:
    """(number, unit, label) of the figures that come first, and which these are."""
    said = answer.headline(table, STATEMENT)
    return [line[:3] for line in said.lines], said.which


def test_a_page_begins_with_the_largest_figures_that_stand_out_of_the_noise() -> None:
    table = ANSWER.table(TABLES)
    shown, which = first(ANSWER, table)
    assert shown[:2] == [("500 ± 2.5", "n", "Oslo"), ("420 ± 2.5", "n", "Rom <b>")]
    assert (len(shown), which, ANSWER.title) == (3, "the 3 largest of 4", "n by city")
    noise = table.set_column(3, "n_lower", pa.array([-1, -2, -3, -4]))
    assert first(ANSWER, noise) == ([], "Of 4 figures nothing stands out of the noise")


def test_a_missing_value_and_a_text_that_says_so_are_two() -> None:
    found = COUNTS.set_column(0, "value", pa.array([None, "", "None", "Rom"]))
    answer = replace(ANSWER, groups=(("city", None),), figures=ANSWER.figures[:1])
    table = answer.table({"n/count.parquet": found})
    assert [row[0] for row in answer.rows(table)[1]] == ["(missing)", "(empty)", "None", "Rom"]
    assert [label for _, _, label in first(answer, table)[0]] == ["(missing)", "None", "(empty)"]


def test_a_page_follows_the_order_that_a_query_names() -> None:
    answer = replace(ANSWER, order=(("f0", False),))
    shown, which = first(answer, answer.table(TABLES))
    assert [label for _, _, label in shown] == ["Bern", "Paris", "Rom <b>"]
    assert which == "the first 3 of 4"
    assert first(answer, answer.table(TABLES).slice(0, 0)) == ([], "")


def test_a_page_of_one_row_begins_with_all_its_figures() -> None:
    figures = (ResultColumn("n", "n", "count"), ResultColumn("m", "m", "mean"))
    answer = QueryResult("query", (), figures, ("f0", "f1"))
    tables = {name: table.slice(0, 1) for name, table in TABLES.items()}
    shown, which = first(answer, answer.table(tables))
    assert [(unit, label) for _, unit, label in shown] == [("n", ""), ("m", "")]
    assert shown[1][0] == "1.50 ± 0.10"
    assert (which, answer.title) == ("", "n, m")


def test_it_is_written_where_nothing_of_it_was_withheld() -> None:
    files = {name: parquet(table) for name, table in TABLES.items()}
    made = ANSWER.files(ANSWER.table(TABLES))
    assert ANSWER.of_files(files) == ANSWER.table(TABLES)
    assert pq.read_table(io.BytesIO(made["query.parquet"])).equals(ANSWER.table(TABLES))
    assert made["query.csv"].decode().startswith('"city","n","n_standard_error"')
    assert ANSWER.of_files({"n/count.parquet": files["n/count.parquet"]}) is None
