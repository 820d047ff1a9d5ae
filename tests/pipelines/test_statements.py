"""Releases that somebody else may have written: nothing of them leads out of their folders."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from datetime import datetime
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hushbeam
from pipelines.cli import cli
from pipelines.releases.schema import LONG
from pipelines.releases.statements import Statement
from tests.pipelines.test_export import publish_day

KEY = bytes(range(200, 232))
OTHERS = Path("theirs/2026-11-01")
Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a stranger, beside what is ours."""
    monkeypatch.chdir(tmp_path)
    publish_day(1, Path("theirs"))
    Path("private").mkdir()
    shutil.copytree(OTHERS / "cities", "private/cities")
    Path("private/key").write_bytes(KEY)
    Path("out").mkdir()
    Path("out/statement.json").write_text("mine")
    return tmp_path


def rewritten(change: Change, inner: str = "") -> None:
    path = OTHERS / inner / "statement.json"
    said = json.loads(path.read_text())
    change(said)
    path.write_text(json.dumps(said))


COMMANDS = {
    "site": ["site", "theirs", "--output", "public"],
    "export": ["export", "theirs", "--output", "all.csv"],
    "compare": ["compare", str(OTHERS), "--values", "Oslo", "Bergen"],
    "synthetic": ["synthetic", "theirs", "--output", "made.parquet"],
}


def refused(words: list[str], *said: str) -> None:
    """A refusal is one line that names the file, and leaves nothing."""
    before = {path: path.stat().st_size for path in Path().rglob("*")}
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as heard:
        code = cli.main(words)
    line = heard.getvalue()
    assert (code, line.count("\n")) == (2, 1), line
    assert all(word in line for word in said), line
    assert {path: path.stat().st_size for path in Path().rglob("*")} == before


ODD: dict[str, tuple[str, Change, str]] = {
    "an id that is an absolute path": (
        "", lambda s: s.update(release_id=os.path.abspath("out")), "release_id"),
    "an id that leads up": ("", lambda s: s.update(release_id="../../out"), "release_id"),
    "a metric elsewhere": ("", lambda s: s.update(metrics=["../private/cities"]), "metrics"),
    "a metric that is a number": ("", lambda s: s.update(metrics=[7]), "metrics"),
    "no metrics": ("", lambda s: s.pop("metrics"), "metrics"),
    "many metrics": ("", lambda s: s.update(metrics=["m"] * 2000), "metrics"),
    "a table elsewhere": (
        "cities", lambda s: s.update(figures={"../../../private/x.parquet": "share"}), "figures"),
    "a device": ("cities", lambda s: s.update(figures={"/dev/zero": "share"}), "figures"),
    "a hidden table": ("cities", lambda s: s.update(figures={".x.parquet": "share"}), "figures"),
    "a window without length": (
        "cities", lambda s: s["window"].update(end=s["window"]["start"]), "window"),
    "a window that is no time": ("cities", lambda s: s["window"].update(start="now"), "window"),
    "a time without a zone": (
        "cities", lambda s: s["window"].update(start="2026-11-01T00:00:00"), "window"),
    "a window in the year 1": (
        "cities", lambda s: s["window"].update(start="0001-01-02T00:00:00+00:00"), "window"),
    "a window up to the year 9999": (
        "cities", lambda s: s["window"].update(end="9999-01-01T00:00:00+00:00"), "window"),
    "a headline that is a list": ("cities", lambda s: s.update(headline=[{}]), "headline"),
    "a headline without a table": ("cities", lambda s: s.update(headline={"table": None}), "table"),
    "rows of a headline that are none": (
        "cities", lambda s: s.update(headline={"rows": ["first"]}), "headline"),
    "a number of reports in words": ("cities", lambda s: s.update(n="many"), "n: "),
    "as many who took part as there are letters": (
        "cities", lambda s: s.update(took_part={"estimate": "a", "standard_error": 1}), "estimate"),
    "nobody knows how many took part": (
        "cities", lambda s: s.update(took_part={"estimate": 3}), "took_part"),
    "a secret that is a list": ("cities", lambda s: s.update(secret_id=[]), "secret_id"),
    "no guarantee": ("cities", lambda s: s.pop("guarantees"), "guarantees"),
    "a guarantee of a word": (
        "cities", lambda s: s["guarantees"]["release"].update(epsilon="low"), "epsilon"),
    "a negative delta": (
        "cities", lambda s: s["guarantees"]["release"].update(delta=-1), "delta"),
    "words that are no text": ("cities", lambda s: s.update(in_words=[{}]), "in_words"),
    "made never": ("", lambda s: s.update(created="some day"), "created"),
    "a confidence of 2": ("cities", lambda s: s.update(request={"confidence": 2.0}), "confidence"),
    "another release's metric": (
        "cities", lambda s: s.update(release_id="f" * 32), "is of another release"),
    "another metric's folder": ("cities", lambda s: s.update(metric="delay"), "another release"),
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("odd", ODD)
def test_an_odd_statement_is_refused_by_its_file_and_field(
    odd: str, command: str, theirs: Path
) -> None:
    inner, change, field = ODD[odd]
    rewritten(change, inner)
    refused(COMMANDS[command], str(OTHERS / inner / "statement.json"), field)
    assert Path("out/statement.json").read_text() == "mine"


@pytest.mark.parametrize("odd", ["an id that leads up", "a metric elsewhere"])
def test_the_same_is_refused_in_python(odd: str, theirs: Path) -> None:
    inner, change, field = ODD[odd]
    rewritten(change, inner)
    with pytest.raises(hushbeam.RequestError, match=field):
        hushbeam.Release(OTHERS)


@pytest.mark.parametrize("content", ["", "[]", "{", "null", "[" * 100_000, '{"a": NaN}', "\x00"])
def test_what_is_no_statement_is_refused_by_its_file(content: str, theirs: Path) -> None:
    (OTHERS / "cities/statement.json").write_text(content)
    refused(COMMANDS["site"], str(OTHERS / "cities/statement.json"))


LINKS = {
    "its page": ("cities/report.html", "private/key"),
    "its statement": ("cities/statement.json", "private/cities/statement.json"),
    "a table": ("cities/histogram.parquet", "private/cities/histogram.parquet"),
    "a metric": ("cities", "private/cities"),
}


@pytest.mark.parametrize("what", LINKS)
def test_a_link_is_not_followed(what: str, theirs: Path) -> None:
    name, target = LINKS[what]
    path = OTHERS / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.symlink_to(Path(target).resolve())
    refused(COMMANDS["site"], str(path), "is a link")
    release = hushbeam.Release(OTHERS)
    with pytest.raises(hushbeam.RequestError, match="is a link"):
        _ = (release.metrics["cities"].page, release.metrics["cities"].tables)


def test_a_pipe_in_the_place_of_a_page_does_not_block(theirs: Path) -> None:
    (OTHERS / "cities/report.html").unlink()
    os.mkfifo(OTHERS / "cities/report.html")
    refused(COMMANDS["site"], "report.html cannot be read: it is no file")


def bomb() -> pa.Table:
    """A megabyte of text in each of 10,000 rows: a file of some kilobytes."""
    text = pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int32()), ["x" * (1 << 20)])
    others = {field.name: pa.nulls(10_000, field.type) for field in LONG}
    return pa.table(others | {"value": text, "estimate": pa.array([0.5] * 10_000)})


def odd_column(table: pa.Table, cell: object) -> pa.Table:
    return table.append_column("odd", pa.array([cell] * len(table)))


TABLES: dict[str, Callable[[pa.Table], pa.Table]] = {
    "it has no column group": lambda table: table.drop_columns(["group"]),
    "its column estimate is string": lambda table: table.set_column(
        table.column_names.index("estimate"), "estimate", pa.array(["a"] * len(table))
    ),
    "two of its columns have one name": lambda table: table.append_column("n", table["n"]),
    "it unpacks to": lambda table: bomb(),
    "its column unbiased is": lambda table: table.set_column(
        table.column_names.index("unbiased"), "unbiased", pa.array(["a"] * len(table))
    ),
    "its column odd is binary": lambda table: odd_column(table, b"\xff"),
    "its column odd is timestamp": lambda table: odd_column(table, datetime(2026, 11, 1)),
    "its column odd is decimal": lambda table: odd_column(table, Decimal("1.5")),
    "its column odd is list": lambda table: odd_column(table, [float("nan")]),
}


@pytest.mark.parametrize("why", TABLES)
@pytest.mark.parametrize("command", ["site", "export", "compare"])
def test_a_table_that_no_kind_has_is_refused_by_its_file(
    why: str, command: str, theirs: Path
) -> None:
    path = OTHERS / "cities/histogram.parquet"
    made = TABLES[why](pq.read_table(path))
    # Without Arrow's schema a dictionary comes back as texts, each at its whole length.
    pq.write_table(made, path, compression="zstd", store_schema=why != "it unpacks to")
    assert path.stat().st_size < 100_000
    refused(COMMANDS[command], f"{path} is no table of a release: {why}")


def test_windows_that_are_as_short_as_can_be_are_soon_looked_through(theirs: Path) -> None:
    for day in (2, 3):
        publish_day(day, Path("theirs"))
    for day, end in ((1, "01T00:00:00.000001"), (2, "02T00:00:00.000001"), (3, "29T00:00:00")):
        path = Path(f"theirs/2026-11-0{day}/cities/statement.json")
        said = json.loads(path.read_text())
        said["window"]["end"] = f"2026-11-{end}+00:00"
        path.write_text(json.dumps(said))
    assert cli.main(COMMANDS["site"]) == 0


@pytest.mark.parametrize("number", [float("inf"), 1.7e308])
@pytest.mark.parametrize("column", ["estimate", "standard_error"])
def test_figures_without_end_are_no_figures_of_a_site(
    number: float, column: str, theirs: Path
) -> None:
    publish_day(2, Path("theirs"))
    path = OTHERS / "cities/histogram.parquet"
    table = pq.read_table(path)
    numbers = pa.array([number] * len(table))
    pq.write_table(table.set_column(table.column_names.index(column), column, numbers), path)
    assert cli.main(COMMANDS["site"]) == 0
    pages = "".join(page.read_text() for page in Path("public").rglob("*.html"))
    assert ":Infinity" not in pages
    assert "[Infinity" not in pages


def test_the_page_of_a_stranger_is_framed(theirs: Path) -> None:
    hostile = '<script>alert("canary")</script>'
    (OTHERS / "cities/report.html").write_text(hostile)
    assert cli.main(COMMANDS["site"]) == 0
    (page,) = Path("public/releases").glob("*/cities/report.html")
    text = page.read_text()
    assert hostile not in text
    assert 'srcdoc="&lt;script&gt;alert(&quot;canary&quot;)' in text
    assert "<iframe sandbox " in text


def with_column(table: pa.Table, name: str, cells: list[Any]) -> pa.Table:
    """A table with other cells in a column, of its type."""
    field = table.schema.field(name)
    place = table.column_names.index(name)
    return table.set_column(place, field, pa.array(cells, field.type))


@pytest.mark.parametrize("rows", ["median", "first", "total", "largest"])
@pytest.mark.parametrize("level", ["a", None, "nan", "inf", "", "1e999"])
def test_levels_of_no_quantile_are_shown_as_they_are(
    level: str | None, rows: str, theirs: Path
) -> None:
    headline = {"table": "histogram.parquet", "rows": rows}
    rewritten(
        lambda s: s.update(figures={"histogram.parquet": "quantile"}, headline=headline), "cities"
    )
    path = OTHERS / "cities/histogram.parquet"
    table = pq.read_table(path)
    pq.write_table(with_column(table, "value", [level] * len(table)), path)
    assert cli.main(COMMANDS["site"]) == 0
    assert cli.main(COMMANDS["export"]) == 0


def test_errors_without_end_are_no_digits_of_a_page(theirs: Path) -> None:
    path = OTHERS / "cities/histogram.parquet"
    table = pq.read_table(path).slice(0, 1)
    pq.write_table(with_column(table, "n_standard_error", [float("inf")]), path)
    assert cli.main(COMMANDS["site"]) == 0


SHOWN = ("pass", "title", "labels", "error", "bounds", "unusable", "cut", "cautions", "missing")
"""Of a statement, what no schema asks for and pages may show."""

SMALL = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=4,
)


@pytest.mark.verify
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.sampled_from(["", "cities"]),
    st.lists(st.tuples(st.sampled_from([*Statement.model_fields, *SHOWN]), SMALL), min_size=1),
    st.sampled_from([*COMMANDS]),
)
def test_fuzz_no_statement_ends_a_command_in_an_error(
    tmp_path_factory, inner: str, changes: list[tuple[str, Any]], command: str
) -> None:
    home = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        publish_day(1, Path("theirs"))
        rewritten(lambda said: said.update(changes), inner)
        before = set(Path("theirs").rglob("*"))
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as heard:
            code = cli.main(COMMANDS[command])
        assert code in (0, 2), heard.getvalue()
        assert set(Path("theirs").rglob("*")) == before
        made = {path.name for path in Path().iterdir()} - {"theirs"}
        assert made <= {"public", "all.csv", "made.parquet"}
    shutil.rmtree(home)


NUMBERS = st.none() | st.floats() | st.sampled_from([0.0, -1.0, 1e300, 5e-324])
TEXTS = st.none() | st.sampled_from(["", "a", "0.5", "nan", "\u202e"]) | st.text(max_size=8)


@pytest.mark.verify
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.sampled_from([field.name for field in LONG if pa.types.is_floating(field.type)]),
        NUMBERS, min_size=1,
    ),
    st.dictionaries(st.sampled_from(["group", "value", "unit", "kind", "figure"]), TEXTS),
    st.sampled_from(["share", "quantile", "mean", "rows", "sum"]),
    st.sampled_from(["median", "first", "total", "largest"]),
    st.integers(0, 3),
    st.sampled_from([*COMMANDS]),
)  # fmt: skip
def test_fuzz_no_table_ends_a_command_in_an_error(
    tmp_path_factory, numbers, texts, figure: str, rows: str, many: int, command: str
) -> None:
    home = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        publish_day(1, Path("theirs"))
        said = {
            "figures": {"histogram.parquet": figure},
            "headline": {"table": "histogram.parquet", "rows": rows},
        }
        rewritten(lambda statement: statement.update(said), "cities")
        path = OTHERS / "cities/histogram.parquet"
        table = pq.read_table(path)
        table = table.slice(0, len(table) if many > 2 else many)
        for name, cell in (numbers | texts).items():
            table = with_column(table, name, [cell] * len(table))
        pq.write_table(table, path)
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as heard:
            code = cli.main(COMMANDS[command])
        assert code in (0, 2), heard.getvalue()
    shutil.rmtree(home)
