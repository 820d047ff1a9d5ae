"""Releases of files that are no Parquet, and of what a plan makes of their rows."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.errors import RequestError
from pipelines.plan.loading import load
from pipelines.plan.metrics import mark
from tests.contract.laws import reach
from tests.fakes import canaries
from tests.fakes.file_formats import WRITERS
from tests.golden.fixed_randomness import fixed_randomness

N = 3000
CITIES = ("Oslo", "Rome", "Bern")
TYPES = ["n=int", "x=float", "user=int"]
LOCAL = ["--model", "local", "--epsilon", "4", "--min-reports", "10"]
HISTOGRAM = [
    "histogram",
    "--column",
    "city",
    "--domain",
    "cities.txt",
    "--mechanism",
    "grr",
    *LOCAL,
]
MEAN = ["mean", "--column", "x", "--bounds", "0,10", "--mechanism", "duchi", *LOCAL]
COUNT = ["count", "--column", "n", "--domain", "0..3", "--epsilon", "2"]


def rows() -> pa.Table:
    """A third of the cities in capitals, and every tenth row without a number."""
    k = np.arange(N)
    return pa.table(
        {
            "city": [CITIES[i % 3].upper() if i % 2 else CITIES[i % 3] for i in range(N)],
            "n": pa.array(k % 5),
            "x": pa.array([None if i % 10 == 0 else float(i % 11) for i in range(N)]),
            "user": pa.array(k // 3),
        }
    )


@pytest.fixture
def files(workspace: Path) -> Path:
    (workspace / "cities.txt").write_text("\n".join(CITIES))
    for ending, write in WRITERS.items():
        (workspace / f"log{ending}").write_bytes(write(rows()))
    return workspace


def released(folder: str = "out") -> tuple[pa.Table, dict]:
    (table,) = Path(folder).glob("*.parquet")
    return pq.read_table(table), json.loads(Path(folder, "statement.json").read_text())


def asked(words: list[str], ending: str, out: str = "out") -> list[str]:
    return [*words, "--input", f"log{ending}", "--output", out, "--types", *TYPES]


def require_alike(run, words: list[str], *endings: str) -> None:
    """The release of a file is that of the same rows in Parquet, to the last bit."""
    found = []
    for each in (".parquet", *endings):
        with fixed_randomness():
            outcome = run(asked(words, each, f"out{each}"))
        assert outcome.code == 0, outcome.said
        found.append(released(f"out{each}"))
    for table, statement in found[1:]:
        assert table.equals(found[0][0])
        assert statement.get("n") == found[0][1].get("n")


def test_a_packed_csv_file_is_released_like_parquet(files, run) -> None:
    require_alike(run, HISTOGRAM, ".csv.gz")


@pytest.mark.verify
@pytest.mark.parametrize("words", [HISTOGRAM, MEAN, COUNT], ids=lambda words: words[0])
def test_any_file_is_released_like_parquet(words, files, run) -> None:
    require_alike(run, words, *(ending for ending in WRITERS if ending != ".parquet"))


# ---- expressions

DERIVED = ["--derive", "home=substring(city, 1, 1)", "--derive", "low=lower(city)"]


def test_who_fails_is_in_n_and_nobody_learns_who(files, run) -> None:
    Path("low.txt").write_text("oslo\nrome\nbern\n")
    words = ["histogram", "--column", "low", "--domain", "low.txt", "--mechanism", "grr",
             "--model", "local", "--epsilon", "30", "--min-reports", "10"]  # fmt: skip
    outcome = run(asked([*words, *DERIVED, "--where", "n > 0", "--where", "x < 5"], ".csv"))
    assert outcome.code == 0, outcome.said
    table, statement = released()
    told = rows().to_pylist()
    passing = [row for row in told if row["n"] > 0 and row["x"] is not None and row["x"] < 5]
    assert statement["n"] == N
    assert "rejects" not in statement or not statement["rejects"]
    share = len(passing) / N  # an epsilon of 30 hides next to nothing
    assert statement["unusable"]["share"] == pytest.approx(1 - share, abs=1e-3)
    for value, found in zip(table["value"].to_pylist(), table["unbiased"].to_pylist(), strict=True):
        true = sum(row["city"].lower() == value for row in passing) / N
        assert found == pytest.approx(true, abs=1e-3)
    assert statement["request"]["where"] == ["n > 0", "x < 5"] or statement["request"]["where"] == (
        "n > 0", "x < 5"
    )  # fmt: skip
    assert any("n > 0 and x < 5" in text for text in statement["in_words"])


@pytest.mark.verify
def test_a_user_counts_with_any_row_that_passes(files, run) -> None:
    """Rows 0, 5, 10 ... have n = 0: a fifth; of users of three rows three in five have one."""
    words = ["histogram", "--column", "n", "--domain", "0..4", "--mechanism", "grr", "--model",
             "local", "--epsilon", "30", "--min-reports", "9", "--user-column", "user"]  # fmt: skip
    outcome = run(asked([*words, "--where", "n == 0"], ".jsonl"))
    assert outcome.code == 0, outcome.said
    table, statement = released()
    assert statement["n"] == N // 3
    assert table["unbiased"].to_pylist()[0] == pytest.approx(0.6, abs=1e-3)
    assert statement["unusable"]["share"] == pytest.approx(0.4, abs=1e-3)


NUMBER = ["--column", "x", "--bounds", "0,10", "--epsilon", "4"]


@pytest.mark.verify
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        # Of each user one row at the most has both; the last group is of all other rows.
        ([*COUNT, "--user-column", "user"], lambda hits: [0, 0, len(hits), 0, 0]),
        (["sum", *NUMBER], lambda hits: [4.0 * len(hits)]),
        (["mean", *NUMBER, "--drawn-by", "shuffler", "--expected", "3000"], lambda hits: [4.0]),
    ],
    ids=["count", "sum", "mean"],
)
def test_of_counters_who_fails_raises_nothing(words, expected, files, run) -> None:
    mark = "x == 4" if words[0] == "mean" else "x == 4 and n == 2"
    outcome = run(asked([*words, "--where", mark], ".csv"))
    assert outcome.code == 0, outcome.said
    table, _ = released()
    hits = [row for row in rows().to_pylist() if row["n"] == 2 and row["x"] == 4]
    assert len({row["user"] for row in hits}) == len(hits)
    error = np.array(table["standard_error"].to_pylist())
    off = np.array(table["estimate"].to_pylist()) - expected(hits)
    far = reach(error, 1e-3 if words[0] == "mean" else 1.0)
    assert (np.abs(off) <= far).all()
    # What would be there if all rows counted: 600 of each value, 5 on average.
    other = {"count": 600 - len(hits), "sum": 13_000, "mean": 1}[words[0]]
    assert (2 * far < other).all()


# ---- plans, parties, streams

PLAN = """\
collection: files
version: 1
input: {input}
output: out
types: {{n: int, x: float, user: int}}
derive:
  low: lower(city)
where: n < 4
epsilon: 8
model: local
min_reports: 10
metrics:
  - {{name: city, kind: histogram, column: low, domain: low.txt, mechanism: grr}}
  - name: number
    kind: mean
    column: double
    bounds: "0,20"
    mechanism: duchi
    derive: {{double: x * 2}}
    where: low == 'oslo'
"""


def plan(text: str = PLAN, **more: str) -> str:
    Path("low.txt").write_text("oslo\nrome\nbern\n")
    Path("plan.yaml").write_text(text.format(**{"input": "log.csv.gz", **more}))
    return "plan.yaml"


def test_a_plan_says_types_and_expressions_and_its_fingerprint_covers_them(files) -> None:
    first = mark(load(plan()))
    for old, new in (
        ("n: int", "n: float"),
        ("lower(city)", "upper(city)"),
        ("n < 4", "n < 3"),
        ("'oslo'", "'rome'"),
    ):
        assert mark(load(plan(PLAN.replace(old, new)))) != first
    assert mark(load(plan(input="log.jsonl"))) == first  # what stands where is none of its business


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("n < 4", "n <", "line 8: where: a column, a value or a bracket was expected, at"),
        ("lower(city)", "lowr(city)", "line 6: derive: low: there is no function 'lowr'"),
        ("x * 2", "x ** 2", "line 19: derive: double: a column, a value"),
        ("low == 'oslo'", "low = 'CANARY", "line 20: where: a quote is opened and not closed"),
        ("n: int", "n: integer", "line 5: types: n: a column may hold string, int, float"),
    ],
)  # fmt: skip
def test_a_plan_is_refused_with_the_line_and_the_position(old, new, said, workspace) -> None:
    with pytest.raises(RequestError) as caught:
        load(plan(PLAN.replace(old, new)))
    assert said in str(caught.value)
    assert "CANARY" not in str(caught.value)


@pytest.mark.verify
def test_three_parties_read_the_same_files_by_the_same_plan(files, run) -> None:
    text = PLAN.replace("model: local\nmin_reports: 10", "min_reports: 2000")
    where = plan(text.replace("mechanism: grr", "share: 0.5").replace("    mechanism: duchi\n", ""))
    for words in (
        ["parties", "client", where, "--input", "log.jsonl.zst", "--output", "sent.bin"],
        ["parties", "shuffle", where, "--input", "sent.bin", "--output", "mixed"],
        ["parties", "collect", where, "--input", "mixed", "--output", "out"],
    ):
        outcome = run(words)
        assert outcome.code == 0, outcome.said
    told = json.loads(Path("out/number/statement.json").read_text())
    assert told["n"] == N
    table = pq.read_table("out/city/histogram.parquet")
    error = max(table["standard_error"].to_pylist())
    for value, found in zip(table["value"].to_pylist(), table["unbiased"].to_pylist(), strict=True):
        true = sum(r["city"].lower() == value and r["n"] < 4 for r in rows().to_pylist()) / N
        assert abs(found - true) < 7 * error
    one = ["parties", "client", where, "--input", "-", "--metric", "city", "--output", "own.bin"]
    assert "the standard input holds values, and the plan derives" in run(one).err


STREAM = """\
collection: landed
version: 1
input: landing/*
output: out/{{window}}
types: {{at: timestamp, x: float}}
where: x > 2
epsilon: 8.0
model: local
min_reports: 100
stream: {{window: 1h, state: state, time: at}}
metrics:
  - {{name: x, kind: mean, column: x, bounds: "0,10", mechanism: duchi}}
"""


@pytest.mark.verify
def test_a_stream_lands_text_and_leaves_a_damaged_file_aside(workspace, run) -> None:
    table = pa.table(
        {
            "at": [f"2024-11-20T{k // 600:02}:{k % 60:02}:00Z" for k in range(1200)],
            "x": [float(k % 11) for k in range(1200)],
        }
    )
    Path("landing").mkdir()
    for ending, part in ((".csv.gz", table.slice(0, 700)), (".jsonl", table.slice(700))):
        Path(f"landing/part{ending}").write_bytes(WRITERS[ending](part))
    whole = WRITERS[".csv.gz"](table)
    Path("landing/torn.csv.gz").write_bytes(whole[: len(whole) // 2])
    Path("plan.yaml").write_text(STREAM.format())
    outcome = run(["stream", "plan.yaml", "--drain"])
    assert outcome.code == 0, outcome.said
    for name in ("2024-11-20T0000", "2024-11-20T0100"):
        told = json.loads(Path(f"out/{name}/x/statement.json").read_text())
        assert told["n"] == 600
        mean = pq.read_table(f"out/{name}/x/mean.parquet")
        error = mean["standard_error"][0].as_py()
        assert abs(mean["estimate"][0].as_py() - 6.5) < 7 * error
    assert "torn" in run(["stream", "status", "plan.yaml"]).out


# ---- a log of many writers


def estimates(table: pa.Table, column: str = "value") -> dict[str | None, float]:
    """Each value's estimate, wherever the table has the value."""
    return {
        None if (value := row["value"]) is None else str(value).lower()
        if column == "big" else str(value): row["estimate"]
        for row in table.to_pylist()
    }  # fmt: skip


def a_month(folder: str = "month") -> dict[str, float]:
    """Seven files that lay the same columns out differently; sums and counts over all of them."""
    Path(folder).mkdir()
    days = [
        (pa.array([1, 2], pa.int32()), pa.array(["Oslo", "Rome"])),
        (pa.array([3, None], pa.int64()), pa.array(["Oslo", "Bern"], pa.large_string())),
        (pa.nulls(2), pa.array(["Oslo", "Oslo"]).dictionary_encode()),
        (pa.array([4], pa.uint16()), pa.nulls(1)),
        (pa.array([], pa.string()), pa.array([], pa.float64())),
        (pa.array([5, 6], pa.int8()), pa.array(["Rome", None], pa.string_view())),
    ]
    for day, (numbers, cities) in enumerate(days, 1):
        pq.write_table(
            pa.table({"k": numbers, "city": cities}), f"{folder}/2026-11-{day:02}.parquet"
        )
    return {"rows": 9, "Oslo": 4, "Rome": 2, "Bern": 1, "sum": 21, "with numbers": 6}


def test_files_of_many_writers_are_one_log(files, run) -> None:
    true = a_month()
    log = ["--input", "month/*.parquet", "--epsilon", "30"]
    counted = run(["count", *log, "--column", "city", "--domain", "cities.txt", "--output", "a"])
    assert counted.code == 0, counted.said
    table, _ = released("a")
    found = estimates(table)
    # At epsilon 30 the noise of a count is 0 but once in 10^13.
    assert {city: found[city] for city in CITIES} == {city: true[city] for city in CITIES}
    assert found[None] == 2
    by_number = run(["count", *log, "--column", "k", "--domain", "1..6", "--output", "b"])
    assert by_number.code == 0, by_number.said
    table, _ = released("b")
    found = estimates(table, "k")
    assert found == {**{str(n): 1 for n in range(1, 7)}, None: 3}
    added = run(["sum", "--input", "month/*.parquet", "--epsilon", "8", "--column", "k",
                 "--bounds", "0,10", "--whole-numbers", "--derive", "half=k / 2", "--where",
                 "half > 0 or k is null", "--output", "c"])  # fmt: skip
    assert added.code == 0, added.said
    table, _ = released("c")
    off = table["estimate"][0].as_py() - true["sum"]
    assert abs(off) <= reach(table["standard_error"][0].as_py())


def test_text_beside_numbers_is_no_one_column(files, refused) -> None:
    a_month()
    pq.write_table(pa.table({"k": ["x"], "city": ["Oslo"]}), "month/2026-11-09.parquet")
    words = ["count", "--input", "month/*.parquet", "--epsilon", "1", "--column", "k", "--domain",
             "1..6", "--output", "out"]  # fmt: skip
    refused(
        words, "column 'k' holds integers (int32) in month/2026-11-01.parquet but text (string)"
    )


MONTH = """
collection: months
version: 1
input: "month/*.parquet"
output: "out/{window}"
unit: row
epsilon: 30
min_reports: 1
derive: {big: "k >= 3"}
stream: {window: 16d, state: state, first: 2026-10-26, last: 2026-10-26}
metrics:
  - {name: cities, kind: count, column: city, domain: cities.txt}
  - {name: numbers, kind: count, column: k, domain: 1..6}
  - {name: large, kind: count, column: big, domain: truths.txt}
"""


@pytest.mark.verify
def test_a_stream_reads_files_of_many_writers_as_one_log(files, run) -> None:
    true = a_month()
    Path("truths.txt").write_text("true\nfalse\n")
    Path("plan.yaml").write_text(MONTH)
    outcome = run(["stream", "plan.yaml", "--drain"])
    assert outcome.code == 0, outcome.said
    (folder,) = Path("out").iterdir()
    table, _ = released(str(folder / "cities"))
    found = estimates(table)
    assert {city: found[city] for city in CITIES} == {city: true[city] for city in CITIES}
    table, _ = released(str(folder / "large"))
    found = estimates(table, "big")
    assert found == {"true": 4, "false": 2, None: 3}


# ---- what is refused


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"where": "valu == 'x'"},
            "where: no such column: 'valu', at position 1; it has: ",
        ),
        ({"where": "number"}, "--where: yes or no is needed: column 'number' holds a whole number"),
        ({"where": "value == 'CANARY-Q"}, "--where: a quote is opened and not closed, at"),
        ({"derive": "value=lower(value)"}, "--derive: value: the file has a column of that name"),
        ({"derive": "CANARYless"}, "--derive: a name, = and what it is are needed"),
        ({"types": "value=text"}, "--types: value: a column may hold string, int"),
        ({"delimiter": "::"}, "--delimiter: one sign"),
        ({"encoding": "klingon"}, "--encoding: there is no encoding 'klingon'; as in latin-1"),
        ({"where": "number > 0", "unusable": "fill=CANARY-DECLARED-0"}, "--where: a row of"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_request_is_said_and_no_value(changes, said, log, domain, refused):
    refused(canaries.request(log, domain=domain, **changes), said)


def test_a_column_of_text_is_no_number_until_somebody_says_so(files, refused) -> None:
    words = ["mean", "--input", "log.csv", "--column", "x", "--bounds", "0,1", "--output", "out"]
    refused([*words, "--epsilon", "1"], "say what it holds: --types x=float")


@pytest.mark.parametrize("ending", [".csv.gz", ".jsonl.zst", ".orc", ".avro", ".arrow"])
def test_a_file_that_is_cut_off_is_refused_by_its_name(ending: str, workspace, refused) -> None:
    table = canaries.table().select(["value", "user", "number"])
    whole = WRITERS[ending](table.set_column(2, "number", table["number"].cast(pa.int64())))
    Path(f"log{ending}").write_bytes(whole[: len(whole) * 2 // 3])
    Path("values.txt").write_text("\n".join(canaries.DECLARED))
    words = canaries.request(f"log{ending}", domain="values.txt")
    refused(words, f"log{ending} is not a readable")


@pytest.mark.verify
def test_a_file_that_is_damaged_inside_is_refused_by_its_name(workspace, run) -> None:
    whole = WRITERS[".arrow"](pa.table({"value": ["CANARY-AAAA"] * 900}))
    ends = struct.pack("<3i", 0, 11, 22)
    assert ends in whole  # the heads of batches stay, and tell of 900 rows
    Path("log.arrow").write_bytes(whole.replace(ends, struct.pack("<3i", 0, 1 << 30, 22)))
    Path("values.txt").write_text("\n".join(canaries.DECLARED))
    outcome = run(canaries.request("log.arrow", domain="values.txt"))
    why = "column 'value' contradicts itself: a value does not fit its type, or lies outside of it"
    said = f"log.arrow is not a readable Arrow file ({why})"
    assert (outcome.code, outcome.err) == (2, f"hushbeam: {said}; put it right or aside\n")
    assert not Path("out").exists()


@pytest.mark.verify
def test_timestamps_are_averaged_between_bounds_that_are_some(workspace, run, refused) -> None:
    Path("log.csv").write_text(
        "at\n" + "".join(f"2026-11-20T{k % 24:02}:30:00+01:00\n" for k in range(2400)) + "never\n"
    )
    words = ["mean", "--input", "log.csv", "--types", "at=timestamp", "--column", "at", "--output",
             "out", *LOCAL, "--mechanism", "duchi"]  # fmt: skip
    refused([*words, "--bounds", "0,1"], "--bounds: 'at' holds timestamps")
    outcome = run([*words, "--bounds", "2026-11-19,2026-11-22"])
    assert outcome.code == 0, outcome.said
    table, statement = released()
    middle = np.datetime64("2026-11-20T11:00", "s").astype(int)
    assert statement["n"] == 2401
    assert abs(table["estimate"][0].as_py() - middle) < 7 * table["standard_error"][0].as_py()
    said = np.datetime64(round(table["estimate"][0].as_py()), "s")
    assert statement["timestamps"][0]["estimate"] == f"{said}Z"
    assert f"<strong>{said}Z ± " in Path("out/report.html").read_text("utf-8")


# ---- a log as a spreadsheet in Europe writes it


def test_decimal_commas_days_and_latin_letters_are_read_by_what_a_plan_says(workspace, run) -> None:
    lines = [f"{1 + i % 28}.11.2026;{i % 10},5;{1795161600000 + i};Müllheim" for i in range(400)]
    lines += ["31.02.2026;x;99999999999999999999;Müllheim"]  # no day, no number, no moment
    Path("log.csv").write_bytes("\r\n".join(["tag;s;ms;ort", *lines]).encode("cp1252"))
    Path("plan.yaml").write_text(
        """
collection: buch
version: 1
input: log.csv
encoding: cp1252
delimiter: ";"
types: {ms: int}
output: out
epsilon: 30
model: local
min_reports: 10
derive:
  number: number(s, decimal=",")
  day: day(parse_time(tag, "%d.%m.%Y"))
  at: day(epoch(ms, "ms"))
metrics:
  - {name: s, kind: mean, column: number, bounds: "0,10", mechanism: duchi}
  - {name: day, kind: histogram, column: day, domain: day.txt, mechanism: grr}
  - {name: at, kind: histogram, column: at, domain: at.txt, mechanism: grr}
  - {name: ort, kind: histogram, column: ort, domain: ort.txt, mechanism: grr}
"""
    )
    Path("day.txt").write_text("2026-11-01\n2026-11-28\n")
    Path("at.txt").write_text("2026-11-20\n2026-11-21\n")
    Path("ort.txt").write_text("Müllheim\nBasel\n")
    outcome = run(["run", "plan.yaml"])
    assert outcome.code == 0, outcome.said
    mean = pq.read_table("out/s/mean.parquet").to_pylist()[0]
    assert abs(mean["estimate"] - 5.0) < 7 * mean["standard_error"] + 0.01
    share = {
        name: pq.read_table(f"out/{name}/histogram.parquet").to_pylist()[0]
        for name in ("day", "at", "ort")
    }
    for name, wanted in (("day", 15 / 401), ("at", 400 / 401), ("ort", 1.0)):
        assert abs(share[name]["estimate"] - wanted) < 7 * share[name]["standard_error"] + 1e-3
