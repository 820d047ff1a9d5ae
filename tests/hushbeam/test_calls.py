"""Releases from Python: what goes in, what comes out, and what is said on the way."""

from __future__ import annotations

import gc
import html
import json
import os
import re
import shutil
import stat
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hushbeam
from hushbeam import frames
from hushbeam.frames import Handed
from pipelines.errors import Caution
from tests.contract.laws import reach
from tests.fakes import canaries

TABLE = canaries.table()
USABLE = {"column": "value", "domain": list(canaries.DECLARED), "epsilon": 1}
BOUNDED = {"column": "real", "bounds": (0, 300), "epsilon": 1}


@pytest.fixture(autouse=True)
def _here(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary files are the workspace's, those in memory too."""
    monkeypatch.setattr(frames, "_MEMORY", str(workspace / "tmp"))


def left(workspace: Path) -> set[str]:
    """The temporary files that are there."""
    gc.collect()
    return {path.name for path in (workspace / "tmp").iterdir()}


def total(release: hushbeam.Release) -> float:
    return release.table["estimate"][0].as_py()


# ---- what goes in --------------------------------------------------------------------------------


def _pandas() -> pd.DataFrame:
    return TABLE.drop_columns(["kind"]).to_pandas().astype({"user": "category"})


@pytest.mark.parametrize(("free", "in_memory"), [(3, True), (2, False)])
def test_a_frame_is_in_memory_where_there_is_room(
    free: int, in_memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "_MEMORY", str(tmp_path))
    room = shutil.disk_usage(tmp_path)._replace(free=free * TABLE.nbytes)
    monkeypatch.setattr(frames.shutil, "disk_usage", lambda _: room)
    with Handed() as handed:
        (path,) = handed.log(TABLE)
        assert path.startswith(str(tmp_path / "hushbeam-")) == in_memory


@pytest.mark.parametrize(
    "data",
    [
        lambda: TABLE,
        lambda: TABLE.to_batches()[0],
        _pandas,
        lambda: pl.from_arrow(TABLE),
        lambda: pl.from_arrow(TABLE).with_columns(pl.col("user").cast(pl.Categorical)),
    ],
    ids=["pyarrow", "batch", "pandas", "polars", "categories of polars"],
)
def test_frames_are_logs(data: Any, workspace: Path) -> None:
    with Handed() as handed:
        (path,) = handed.log(data())
        read = pq.read_table(path)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
    assert left(workspace) == set()
    assert {"value", "user", "real"} <= {*read.column_names}
    for name in ("value", "user", "number", "real", "moment", "tags"):
        wanted = TABLE[name].cast(pa.string()) if name == "value" else TABLE[name]
        assert read[name].to_pylist() == wanted.to_pylist()
        assert read.schema.field(name).type == pq_type(name)


def pq_type(name: str) -> pa.DataType:
    """Of a column, as files of no Arrow schema have it."""
    kind = TABLE.schema.field(name).type
    return pa.list_(pa.field("element", pa.string())) if pa.types.is_list(kind) else kind


@pytest.mark.verify
@pytest.mark.parametrize("data", [_pandas, lambda: pl.from_arrow(TABLE)], ids=["pandas", "polars"])
def test_frames_are_counted(data: Any) -> None:
    found = hushbeam.count(data(), user_column="user", **USABLE, rows_per_user=4)
    # All but 6 of 500 users have a row of each value that is declared; noise is of some units.
    assert found.statement["request"]["domain"] == "4 declared values"
    for row in found.table.to_pylist()[:4]:
        assert abs(row["estimate"] - 470) <= 50 + reach(row["standard_error"])


@pytest.mark.parametrize("far", [1 << 61, -(1 << 61), (1 << 63) - 1, -(1 << 63) + 1])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_whether_a_frame_is_a_log_does_not_tell_of_a_moment(far: int, unit: str) -> None:
    """Parquet has milliseconds: seconds beyond them are nulls, and no refusal tells of the row."""
    table = pa.table({"at": pa.array([0, None, far], pa.timestamp(unit)), "n": [1, 2, 3]})
    with Handed() as handed:
        read = pq.read_table(handed.log(table)[0])
    assert read["n"].to_pylist() == [1, 2, 3]
    assert read["at"].null_count == (2 if unit == "s" else 1)
    assert read["at"][0].value == 0


def test_paths_and_globs_are_logs(log: str, domain: str) -> None:
    one = hushbeam.count(log, epsilon=1)
    several = hushbeam.count([Path(path) for path in _matches(log)], epsilon=1)
    for found in (one, several):
        (row,) = found.table.to_pylist()
        assert abs(row["estimate"] - canaries.ROWS) <= reach(row["standard_error"])
    named = hushbeam.histogram(log, column="value", domain=Path(domain), epsilon=1)
    assert named.statement["request"]["domain"] == "4 declared values"


def _matches(log: str) -> list[str]:
    folder, pattern = os.path.split(log)
    return [str(path) for path in sorted(Path(folder).glob(pattern))]


def test_options_are_of_python() -> None:
    table = pa.table({"number": [3] * 900, "x": [0.25] * 900, "word": ["a"] * 900})
    found = hushbeam.vector_mean(
        table, number={"x": (0, 1)}, category={"number": range(1, 5), "word": ["a", "b"]},
        epsilon=4, where="number == 3",
    )  # fmt: skip
    asked = found.statement["request"]
    assert asked["number"] == ["x=0,1"]
    assert asked["category"] == ["number: 4 declared values", "word: 2 declared values"]
    assert asked["where"] == ["number == 3"]
    grouped = hushbeam.mean(
        table, column="x", bounds=(0, 1), group_by="word", groups=["a", "b"], epsilon=4
    )
    assert grouped.table["group"].to_pylist() == ["a", "b", None]
    assert "tmp" not in json.dumps(grouped.statement) + grouped.page
    derived = hushbeam.sum(table, column="y", bounds=(0, 10), derive={"y": "number*2"}, epsilon=1)
    assert abs(total(derived) - 5400) <= reach(derived.table["standard_error"][0].as_py())


# ---- what comes out ------------------------------------------------------------------------------


def test_a_release_is_read_like_its_files(workspace: Path) -> None:
    made = hushbeam.histogram(TABLE, output=workspace / "out", **USABLE)
    opened = hushbeam.Release("out")
    assert made.folder == str(workspace / "out")
    assert opened.table == made.table == pq.read_table("out/histogram.parquet")
    assert opened.statement == json.loads(Path("out/statement.json").read_text())
    assert opened.page == Path("out/report.html").read_text()
    assert opened.metrics == {}
    about, figures, lost, where = re.split(": |; ", repr(opened))
    assert (about, lost) == ("<hushbeam.Release of histogram", "epsilon 1 per row")
    assert where == "out>"
    largest = max(opened.table.to_pylist(), key=lambda row: row["estimate"])
    name, number, _, error, unit = figures.partition(", ")[0].split(" ")
    assert (name, unit) == (largest["value"], "%")
    assert float(number) == pytest.approx(100 * largest["estimate"], abs=float(error))
    assert float(error) == pytest.approx(100 * largest["standard_error"], rel=0.06)
    (framed,) = re.findall(r'<iframe sandbox [^>]*srcdoc="([^"]*)"', opened._repr_html_())
    assert html.unescape(framed) == opened.page
    assert {"histogram"} == opened.tables.keys()
    # Nothing that was handed over is there, or is named.
    everything = "".join(path.read_text("latin-1") for path in Path("out").iterdir())
    assert not canaries.found(everything, declared=False)
    assert str(workspace) not in everything
    assert left(workspace) == set()


def test_without_an_output_a_release_goes_with_its_object(workspace: Path) -> None:
    made = hushbeam.mean(TABLE, **BOUNDED)
    folder = made.folder
    assert os.path.isdir(folder)
    assert [*left(workspace)] == [os.path.basename(os.path.dirname(folder))]
    table = made.table
    del made
    assert left(workspace) == set()
    assert len(table) == 1


def test_tables_by_name(workspace: Path) -> None:
    made = hushbeam.distribution(TABLE, bins=8, **BOUNDED)
    assert made.tables.keys() == {"distribution", "quantiles"}
    with pytest.raises(hushbeam.RequestError, match=r"holds .tables\['distribution'\], .tables"):
        made.table  # noqa: B018
    with pytest.raises(hushbeam.RequestError, match="and no table 'other'"):
        made.plot("other")


# ---- pictures ------------------------------------------------------------------------------------


def test_bars_are_the_estimates_with_their_intervals() -> None:
    made = hushbeam.histogram(TABLE, **USABLE)
    (axes,) = made.plot().axes
    rows = sorted(made.table.to_pylist(), key=lambda row: -row["estimate"])
    assert [bar.get_width() for bar in axes.patches] == [100 * row["estimate"] for row in rows]
    assert [label.get_text() for label in axes.get_yticklabels()] == [row["value"] for row in rows]
    (lines,) = axes.collections
    for (start, end), row in zip(lines.get_segments(), rows, strict=True):
        ends = 100 * row["lower_simultaneous"], 100 * row["upper_simultaneous"]
        assert (start[0], end[0]) == pytest.approx(ends)
    assert axes.get_xlabel() == "%"


def test_bins_are_drawn_along_the_numbers() -> None:
    made = hushbeam.distribution(TABLE, bins=8, drawn_by="each-report", **BOUNDED)
    (axes,) = made.plot().axes
    band, line = (patch.get_data() for patch in axes.patches)
    table = made.tables["distribution"]
    assert [*line.edges] == [*table["low"].to_pylist(), 300]
    assert [*line.values] == pytest.approx([100 * x for x in table["estimate"].to_pylist()])
    assert np.all(band.values >= band.baseline)
    assert len(made.plot("quantiles").axes[0].patches) == len(made.tables["quantiles"])


def test_labels_that_look_like_formulas_are_texts(workspace: Path) -> None:
    table = pa.table({"value": ["$\\frac{$"] * 600 + ["$x^2$"] * 400})
    made = hushbeam.histogram(table, column="value", domain=["$\\frac{$", "$x^2$"], epsilon=4)
    made.plot().savefig("picture.png")
    assert Path("picture.png").stat().st_size > 1000


def test_without_matplotlib_a_picture_says_what_to_install(monkeypatch) -> None:
    made = hushbeam.mean(TABLE, **BOUNDED)
    monkeypatch.setattr("pipelines.views.plots.find_spec", lambda name: None)
    with pytest.raises(hushbeam.RequestError, match=r"pip install '.\[plots\]'"):
        made.plot()


# ---- what is said --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (
            lambda: hushbeam.histogram(TABLE, colum="value", domain="0..3"),
            "histogram has no option 'colum'; did you mean 'column'?",
        ),
        (lambda: hushbeam.count(TABLE, xyz=1), "count has no option 'xyz'; it has: beam, by, "),
        (lambda: hushbeam.mean(TABLE), "column is missing"),
        (
            lambda: hushbeam.count(TABLE, epsilon=0),
            "epsilon must be a number greater than 0, not 0",
        ),
        (
            lambda: hushbeam.mean(TABLE, column="nothing", bounds=(0, 1), epsilon=1),
            "column: the table has no column 'nothing'; it has: value, user, ",
        ),
        (
            lambda: hushbeam.histogram(TABLE, column="value", domain=["a", "b", "a"], epsilon=1),
            "domain: line 3 of 3 declared values repeats line 1; keep one of them",
        ),
        (
            lambda: hushbeam.histogram(TABLE, column="value", domain=["c", "a\nb"], epsilon=1),
            "domain: value 2 is missing or has a line break; write it as one line of text",
        ),
        (lambda: hushbeam.count({"value": [1]}, epsilon=1), "input: dict is no log; hand over a "),
        (
            lambda: hushbeam.count(
                pd.DataFrame({"ok": [1, 2], "x": [1, "CANARY-X"]}), where="x > 1", epsilon=1
            ),
            "input: Arrow has no type for the column 'x': give it values of one type",
        ),
        (
            lambda: hushbeam.count(pd.DataFrame([[1, 2]], columns=["x", "x"]), epsilon=1),
            "input: several columns are called 'x': give each a name of its own",
        ),
        (
            lambda: hushbeam.count(
                pa.table({"x": pa.array([{}], pa.struct([]))}), where="x > 1", epsilon=1
            ),
            "input: a column is of a type that Parquet has not; leave it out, or cast it",
        ),
        (lambda: hushbeam.count("no.parquet", epsilon=1), "input: no file matches no.parquet"),
        (
            lambda: hushbeam.count(TABLE, epsilon=1, beam=["--runner=DataflowRunner"]),
            "input: what is handed over in memory stays on this machine; write it where ",
        ),
        (
            lambda: hushbeam.count(TABLE, epsilon=1, ledger="ledger.sqlite", population="all"),
            "output is missing: what was paid for is kept in a folder of yours",
        ),
        (
            lambda: hushbeam.count(TABLE, epsilon=1, output="out", ledger="ledger.sqlite"),
            "population is missing: a release is paid for out of the budget of a population",
        ),
        (lambda: hushbeam.Release("nothing"), "nothing holds no release: there is no nothing/"),
        (lambda: hushbeam.Plan("no.yaml").check(), "no.yaml is not a file of UTF-8 text that can"),
        (lambda: hushbeam.Ledger("no.sqlite").show(), "ledger: there is no no.sqlite: "),
    ],
)
def test_errors_are_those_of_the_command(call: Any, complaint: str, workspace: Path) -> None:
    with pytest.raises(hushbeam.RequestError) as raised:
        call()
    said = str(raised.value)
    assert said.startswith(complaint)
    assert "\n" not in said
    assert not canaries.found(said)
    assert left(workspace) == set()


def test_a_batch_that_is_too_small_is_withheld(workspace: Path) -> None:
    with pytest.raises(hushbeam.WithheldError) as raised:
        hushbeam.histogram(TABLE, min_reports=9_999, **USABLE, output="out")
    assert str(raised.value).startswith("2,000 reports came, fewer than min_reports 9,999")
    assert not Path("out").exists()
    assert left(workspace) == set()


def test_what_others_raise_is_not_passed_on(monkeypatch, workspace: Path, capfd, caplog) -> None:
    from transforms.rows.encode import EncodeDoFn

    def fails(self: Any, *_: Any) -> None:
        raise ValueError("CANARY-IN-AN-EXCEPTION")

    monkeypatch.setattr(EncodeDoFn, "process", fails)
    with pytest.raises(hushbeam.FailedError, match=r"^the run failed with ") as raised:
        hushbeam.histogram(TABLE, **USABLE)
    assert not canaries.found(str(raised.value) + "".join(capfd.readouterr()) + caplog.text)
    assert raised.value.__suppress_context__
    assert left(workspace) == set()
    with pytest.raises(Exception, match="CANARY-IN-AN-EXCEPTION"):
        hushbeam.histogram(TABLE, debug=True, **USABLE)


def test_cautions_are_warnings_of_the_caller(capfd) -> None:
    with pytest.warns(Caution, match=r"^delta 0\.001 is large: ") as warned:
        hushbeam.histogram(TABLE, delta=1e-3, drawn_by="shuffler", **USABLE)
    assert {Path(one.filename).name for one in warned} == {Path(__file__).name}
    assert capfd.readouterr() == ("", "")


# ---- plans and ledgers ---------------------------------------------------------------------------

_PLAN = """\
collection: canaries
version: 1
input: {log}
output: releases/{{window}}
unit: row
ledger: ledger.sqlite
budget: {{epsilon: 4, delta: 1e-5}}
epsilon: 1
delta: 1e-6
metrics:
  - {{name: rows, kind: count}}
  - {{name: values, kind: histogram, column: value, domain: {domain}, mechanism: grr,
     min_reports: {least}}}
"""


@pytest.fixture
def plan(workspace: Path, log: str, domain: str, run: Any) -> Path:
    (workspace / "plan.yaml").write_text(_PLAN.format(log=log, domain=domain, least=500))
    assert run(["ledger", "init", "plan.yaml"]).code == 0
    return workspace / "plan.yaml"


def test_a_plan_is_checked_run_and_paid_for(plan: Path, run: Any) -> None:
    checked = hushbeam.Plan(plan).check(window="2026-11-20")
    printed = json.loads(run(["check", "plan.yaml", "--json", "--window", "2026-11-20"]).out)
    assert checked == printed
    made = hushbeam.Plan(plan).run(window="2026-11-20")
    assert made.keys() == {"rows", "values"}
    assert abs(total(made["rows"]) - 2000) <= reach(made["rows"].table["standard_error"][0].as_py())
    whole = hushbeam.Release("releases/2026-11-20")
    assert whole.metrics.keys() == made.keys()
    assert re.fullmatch(
        r"<hushbeam.Release of plan: rows [\d,]+ ± [\d.]+ rows, values .+ [\d.]+ ± [\d.]+ %; "
        r"epsilon [\d.]+ per row; releases/2026-11-20>",
        repr(whole),
    )
    assert "rows/report.html" in whole.page
    again = hushbeam.Plan(plan).run(window="2026-11-20")
    assert again["rows"].table == made["rows"].table
    ledger = hushbeam.Ledger("ledger.sqlite")
    (entry,) = ledger.show()
    assert (entry["state"], entry["window"]) == ("committed", "2026-11-20")
    (account,) = ledger.explain()
    assert account["releases"] == {"committed": 1}
    assert repr(ledger) == "hushbeam.Ledger('ledger.sqlite')"


def test_a_metric_that_is_withheld_is_not_there(workspace: Path, log: str, domain: str) -> None:
    text = re.sub(r"(ledger|budget): .*\n", "", _PLAN.format(log=log, domain=domain, least=9_999))
    Path("plan.yaml").write_text(text)
    with pytest.warns(Caution, match="^withheld, too few reports: values$"):
        made = hushbeam.Plan("plan.yaml").run(window="day")
    assert [*made] == ["rows"]


def test_a_release_of_its_own_pays(plan: Path, workspace: Path) -> None:
    paying = {"ledger": "ledger.sqlite", "population": "canaries", "epsilon": 1}
    hushbeam.count(TABLE, output="first", **paying)
    (entry,) = hushbeam.Ledger("ledger.sqlite").show()
    assert entry["output"] == str(workspace / "first")
    with pytest.raises(hushbeam.WithheldError, match="budget"):
        hushbeam.count(TABLE, output="second", **(paying | {"epsilon": 4}))
    assert not Path("second").exists()


def test_nothing_is_said_of_what_goes_well(capfd) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hushbeam.count(TABLE, epsilon=1)
    assert capfd.readouterr() == ("", "")
