"""Whatever a log and its columns are called, what `init` drafts of it passes `check`."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.errors import RequestError
from pipelines.plan.check import summary
from pipelines.plan.draft import draft
from pipelines.plan.job import open_job
from pipelines.plan.loading import load
from tests.fakes import canaries

ODD = [
    "no", "on", "null", "true", "1", "\N{GRINNING FACE}", "City", "city", "in", "and", "a b", "a.b",
    "is", "not", "~", "-", "- x", "#", "a: b", "{a}", "[b]", "*", "&x", "!t", "%", "@", "`", "a`b",
    "'", '"', "\\", "a=b", "=", " pad", "pad ", "1e5", "0x10", "0o7", "1:30", "2026-11-20", "nan",
    "hour_of_in", "column_1", "rows", "users", "user_id", "client", "\x85", "\u2028", "\x7f", "é",
    "a" * 80, "a" * 79 + "b", "{window}", "{day}", "x\ty",
]  # fmt: skip
NAMES = st.one_of(
    st.sampled_from(ODD),
    st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x00"), min_size=1, max_size=12),
)
FILES = [
    "20261120", "123", "no", "on", "null", "1e5", "true", "City", "a b", "\N{GRINNING FACE}", "-x",
    "a.b", "=", "#",
]  # fmt: skip
CELLS = {
    "text": ["alice", "bob", "c d"],
    "int": ["1", "22", "-3"],
    "float": ["1.5", "2.25", "1e3"],
    "time": ["2026-11-20T08:00", "2026-11-21 09:30:00", "2026-11-22T10:00Z"],
    "date": ["2026-11-20", "2026-11-21", "2026-11-22"],
    "bool": ["true", "false", "true"],
    "comma": ["1,5", "2,25", "3,0"],
    "code": ["007", "010", "100"],
    "none": ["", "", ""],
}
ARROW = {
    "text": pa.array(["a", "b", None]),
    "int": pa.array([1, 2, None], pa.int32()),
    "float": pa.array([1.5, None, 2.0]),
    "time": pa.array([1, 2, None], pa.timestamp("us", "UTC")),
    "date": pa.array([1, 2, None], pa.date32()),
    "bool": pa.array([True, None, False]),
    "comma": pa.array(["1,5", "2,5", None]).dictionary_encode(),
    "code": pa.array([b"x", None, b"y"]),
    "none": pa.nulls(3),
}


def passes(log: tuple[str, ...]) -> None:
    """A draft is a plan, it can be served, and its files are what it says."""
    text = draft(log)
    Path("plan.yaml").write_text(text, encoding="utf-8")
    summary("plan.yaml")
    plan = load("plan.yaml")
    assert open_job(plan, "all").metrics


def _passes_if(some: bool, path: Path) -> None:
    try:
        if some:
            passes((str(path),))
        else:
            with pytest.raises(RequestError, match="no column that can be asked for"):
                draft((str(path),))
    finally:
        path.unlink()


COLUMNS = st.lists(st.tuples(NAMES, st.sampled_from([*CELLS])), min_size=1, max_size=3)
MANY = settings(
    max_examples=int(os.environ.get("HUSHBEAM_EXAMPLES", "15")),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.verify
@MANY
@given(COLUMNS, st.sampled_from(FILES), st.sampled_from([",", ";", "\t", "|"]))
def test_a_draft_of_text_passes_check(
    workspace: Path, columns: list[tuple[str, str]], file: str, delimiter: str
) -> None:
    path = Path(f"{file}.csv")
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow([name for name, _ in columns])
        writer.writerows(zip(*(CELLS[kind] * 4 for _, kind in columns), strict=True))
    names = [name for name, _ in columns]
    # A file all of whose columns have one name, or blanks, has none to ask for.
    some = any(name.strip() and names.count(name) == 1 for name in names)
    _passes_if(some, path)


@pytest.mark.verify
@MANY
@given(COLUMNS, st.sampled_from(FILES))
def test_a_draft_of_types_of_its_own_passes_check(
    workspace: Path, columns: list[tuple[str, str]], file: str
) -> None:
    path = Path(f"{file}.parquet")
    named = {name: ARROW[kind] for name, kind in columns}
    pq.write_table(pa.table(named), path)
    _passes_if(any(name.strip() for name in named), path)


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [("a;b;c\n1,5;x;2\n2,5;y;3\n", ";"), ("a\tb\n1\tx\n", "\t"), ("a|b\n1|x\n", "|")],
)
def test_what_stands_between_fields_is_found(workspace: Path, text: str, delimiter: str) -> None:
    Path("log.csv").write_text(text)
    passes(("log.csv",))
    plan = load("plan.yaml")
    assert plan.reading.delimiter == delimiter
    assert open_job(plan, "all").telemetry.schemas[0].names == text.split("\n")[0].split(delimiter)


def test_commas_within_quotes_are_no_delimiters(workspace: Path) -> None:
    Path("log.csv").write_text('name,place\n"a;b;c",x\n"d;e;f",y\n')
    assert "delimiter" not in draft(("log.csv",))


def test_a_folder_is_all_files_in_it(workspace: Path) -> None:
    for day in ("2026-11-20", "2026-11-21"):
        folder = Path("logs", f"day={day}")
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"n": [1, 2]}), folder / "part-0.parquet")
        (folder / "_SUCCESS").write_text("")
    passes(("logs",))
    plan = load("plan.yaml")
    assert plan.input == (str(workspace / "logs/*/*.parquet"),)
    assert open_job(plan, "all").telemetry.rows == 4
    Path("empty").mkdir()
    with pytest.raises(RequestError, match="a folder without a file whose name says its format"):
        draft(("empty",))


def test_numbers_alone_make_a_plan(workspace: Path) -> None:
    Path("123.csv").write_text("x,y\n1,2\n3,4\n")
    passes(("123.csv",))
    assert [metric.kind for metric in load("plan.yaml").metrics] == ["count"]


@pytest.mark.verify
def test_names_are_told_apart(workspace: Path) -> None:
    Path("log.csv").write_text("City,city,CITY,a b,a.b\n" + "x,y,z,v,w\n" * 3)
    passes(("log.csv",))
    assert [metric.name for metric in load("plan.yaml").metrics] == [
        "rows", "city", "city-2", "city-3", "a-b", "a-b-2",
    ]  # fmt: skip


def test_codes_stay_texts(workspace: Path) -> None:
    Path("log.csv").write_text("zip,n\n" + "00123,1\n12345,2\n" * 5)
    assert 'types: {"n": int}' in draft(("log.csv",))


def test_a_first_line_that_is_a_row_is_in_no_draft(workspace: Path) -> None:
    for n, text in enumerate(
        (
            "CANARY-A@example.com,1\nCANARY-B@example.com,2\n",
            "CANARY-A,1\nCANARY-B,2\n",
            "CANARY-A,2026-11-20\nCANARY-B,2026-11-21\n",
            "CANARY-A,x\nCANARY-B,x\nCANARY-A,y\n",
        )
    ):
        path = Path(f"log{n}.csv")
        path.write_text(text)
        passes((str(path),))
        assert not canaries.found(Path("plan.yaml").read_text())
        assert load("plan.yaml").header == ("column_1", "column_2")


def test_many_columns_make_few_metrics(workspace: Path) -> None:
    pq.write_table(pa.table({f"c{k}": ["x"] for k in range(40)}), "wide.parquet")
    passes(("wide.parquet",))
    assert len(load("plan.yaml").metrics) == 9


def test_an_array_of_objects_is_no_log(workspace: Path) -> None:
    Path("log.json").write_text(json.dumps([{"a": 1}, {"a": 2}], indent=1))
    with pytest.raises(RequestError, match=r"log\.json"):
        draft(("log.json",))


@pytest.mark.parametrize(
    ("cells", "line"),
    [
        (["1,5", "2,25"], 'number(v, decimal=",")'),
        (["11/20/2026", "1/2/2026"], 'parse_time(v, "%m/%d/%Y")'),
        (["20/11/2026", "1/2/2026"], 'parse_time(v, "%d/%m/%Y")'),
        (["20.11.2026", "1.2.2026"], 'parse_time(v, "%d.%m.%Y")'),
        (["1795161600000", "1795161700000"], 'epoch(v, "ms")'),
    ],
)
def test_a_draft_says_how_a_column_is_read(
    workspace: Path, run, cells: list[str], line: str
) -> None:
    Path("log.csv").write_text("k;v\n" + "".join(f"x;{cell}\n" for cell in cells * 5))
    outcome = run(["init", "log.csv"])
    assert outcome.code == 0
    assert line in outcome.err
    passes(("log.csv",))
    plan = load("plan.yaml")
    (derived,) = (one for one in plan.derive if line in one)
    name = derived.partition("=")[0]  # by which metrics read it
    hours = [one for one in plan.derive if one == f"hour_of_{name}=hour(`{name}`, 'UTC')"]
    assert hours or f'# - {{name: "v", kind: mean, column: "{name}"' in outcome.out
