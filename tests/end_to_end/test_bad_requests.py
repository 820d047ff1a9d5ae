"""Whatever is wrong: one line that says what, exit code 2, nothing written, nothing leaked."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import GoogleCloudOptions

from mechanisms.planner.search import Design, search
from mechanisms.targets.rules import Target
from tests.fakes import canaries
from transforms.files.systems import FileSystems


@pytest.fixture
def refuse(refused, log, domain) -> Callable[..., None]:
    """A request that is right but for the changes is refused."""

    def refuse(expected: str, words: tuple[str, ...] = (), **changes: object) -> None:
        refused(
            [
                *canaries.request(log, **({"domain": domain, "drawn_by": "each-report"} | changes)),
                *words,
            ],
            expected,
        )

    return refuse


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        pytest.param(expected, changes, id=f"{'-'.join(changes)}-{number}")
        for number, (expected, changes) in enumerate(
            [
                # privacy loss
                *(
                    (f"--epsilon must be a number greater than 0, not '{e}'", {"epsilon": e})
                    for e in ("0", "-1", "-0.0")
                ),
                *(
                    ("--epsilon must be ", {"epsilon": e})
                    for e in ("nan", "inf", "much", "", "1e308")
                ),
                ("1e-300 is ", {"epsilon": "1e-300", "model": "local"}),
                ("epsilon is missing", {"epsilon": None}),
                ("epsilon is missing", {"epsilon": None, "model": "local"}),
                ("--epsilon-local must be ", {"epsilon_local": "0"}),
                ("--epsilon-local must be ", {"epsilon_local": "nan"}),
                # its probability of failing
                ("delta must lie strictly between 0 and 1", {"delta": "0"}),
                *(("--delta must be ", {"delta": d}) for d in ("1", "nan", "inf", "tiny")),
                ("argument --delta: expected one argument", {"delta": "-1e-6"}),
                ("delta must be 0 in the local model", {"delta": "1e-6", "model": "local"}),
                # the least batch
                *(
                    ("--min-reports must be ", {"min_reports": n})
                    for n in ("0", "-5", "1.5", "many")
                ),
                ("--min-reports is missing", {"user_column": "user"}),
                # what comes out
                *(
                    ("--confidence must be ", {"confidence": c})
                    for c in ("0", "1", "nan", "-1", "high")
                ),
                ("unknown mechanism 'magic'; there are: grr", {"mechanism": "magic"}),
                ("argument --model: invalid choice: 'central'", {"model": "central"}),
                ("boost has a curator count values as they are", {"mechanism": "boost"}),
                ("take --drawn-by job", {"mechanism": "laplace", "model": "local"}),
                ("olh does not serve the", {"mechanism": "olh", "bound": "published"}),
                ("argument --model: invalid choice: 'trusted'", {"model": "trusted"}),
                ("argument --out-of-domain: invalid choice", {"out_of_domain": "keep"}),
                ("argument --postprocess: invalid choice", {"postprocess": "clip"}),
                # options that are missing, unknown, or not what they are said to be
                ("the following arguments are required: --input", {"input": None}),
                ("the following arguments are required: --column", {"column": None}),
                ("the following arguments are required: --domain", {"domain": None}),
                ("the following arguments are required: --output", {"output": None}),
                ("unknown option: --colour red", {"colour": "red"}),
                ("unknown option: --eps 1", {"eps": "1"}),
                ("Unexpected pipeline runner: Walker", {"runner": "Walker"}),
                ("No module named 'no_such'", {"runner": "no_such.Runner"}),
                ("Missing required option: project", {"runner": "DataflowRunner"}),
                # where from
                ("no file matches no-such.parquet", {"input": "no-such.parquet"}),
                ("no file matches no-such-*.parquet", {"input": "no-such-*.parquet"}),
                ("no file matches", {"input": ""}),
                ("cannot look for nowhere://log", {"input": "nowhere://log"}),
                ("no column 'city'; it has: value, user,", {"column": "city"}),
                ("no column ''", {"column": ""}),
                ("no column 'who'", {"user_column": "who", "min_reports": "9"}),
                *(
                    ("--user-column: ", {"user_column": c, "min_reports": "9"})
                    for c in ("real", "moment", "tags", "flag")
                ),
                *(
                    ("--domain: the column holds", {"column": c})
                    for c in ("real", "moment", "tags", "raw", "number", "code")
                ),
                *(
                    ("but the domain declares integers", {"column": c, "domain": "1..9"})
                    for c in ("value", "real", "moment", "tags", "raw", "flag", "kind")
                ),
                # where to
                ("--output must be ", {"output": ""}),
                ("--output: cannot publish in nowhere://out", {"output": "nowhere://out"}),
                ("--output: cannot publish in file:///out", {"output": "file:///out"}),
                ("--output: / already holds files", {"output": "/"}),
            ]
        )
    ],
)
def test_refuses(refuse, expected: str, changes: dict[str, object]) -> None:
    refuse(expected, **changes)


@pytest.mark.parametrize("words", [("stray",), ("--runner", "FnApiRunner", "stray")])
def test_refuses_stray_words(refuse, words: tuple[str, ...]) -> None:
    refuse("unknown option: stray", words=words)


def test_refuses_what_beam_refuses(refuse) -> None:
    expected = "hushbeam: argument --direct_num_workers: invalid int value: 'two'\n"
    refuse(expected, words=("--direct_num_workers", "two"))


def test_refuses_unknown_commands(run) -> None:
    outcome = run(["histogramme"])
    assert outcome.code == 2
    assert outcome.err.startswith("hushbeam: argument COMMAND: invalid choice: 'histogramme'")
    assert outcome.err.count("\n") == 1


@pytest.mark.verify
def test_an_epsilon_next_to_nothing_is_met_or_refused(run, log, domain, workspace) -> None:
    """Shuffled reports can meet it with delta alone; but less than asked is never claimed."""
    outcome = run(canaries.request(log, domain=domain, epsilon="1e-300"))
    # One such release in a thousand is all noise that says surely that no value can be used.
    assert outcome.code in (0, 1, 2)
    if outcome.code < 2:
        statement = json.loads((workspace / "out" / "statement.json").read_text())
        assert statement["guarantees"]["release"]["epsilon"] <= 1e-300


def test_a_design_that_falls_short_is_refused(refuse, monkeypatch) -> None:
    """Whatever the planner comes back with, a release is not begun above the epsilon asked for."""

    def careless(target: Target[Any], name: str) -> Design[Any]:
        return search(replace(target, epsilon=2 * target.epsilon), name)

    monkeypatch.setattr("mechanisms.planner.search.search", careless)
    refuse("--epsilon: 0.5 is less than what can be proven of these reports", epsilon="0.5")


def test_an_unknown_option_is_refused_before_any_file_is_touched(refuse, monkeypatch) -> None:
    monkeypatch.setattr(FileSystems, "match", lambda *_: pytest.fail("a file was looked for"))
    refuse("unknown option: --colour red", input="no-such.parquet", colour="red")


def test_file_systems_get_beams_options_first(run, log, domain, monkeypatch) -> None:
    told = []
    monkeypatch.setattr("apache_beam.io.filesystems.FileSystems.set_options", told.append)
    outcome = run(canaries.request("no-such.parquet", domain=domain, project="mine"))
    assert "no file matches" in outcome.err
    assert [options.view_as(GoogleCloudOptions).project for options in told] == ["mine"]


def test_refuses_what_no_collector_would_finish(refuse) -> None:
    """At this epsilon a hash of many symbols is best, and has far more codes than values."""
    refuse("GiB of memory: more than 8 GiB; declare a coarser domain", domain="1..1000000",
           column="number", model="local", epsilon="6.3", mechanism="olh")  # fmt: skip


# ---- files that are no telemetry ---------------------------------------------------------------


def test_refuses_what_is_not_parquet(refuse, workspace, log) -> None:
    whole = next(Path(log).parent.glob("*.parquet")).read_bytes()
    contents = {
        "empty.parquet": b"",
        "words.parquet": b"CANARY-TEXT\n" * 9,
        "cut.parquet": whole[: len(whole) // 2],
        "footless.parquet": whole[:-9],
        "headless.parquet": whole[-2000:-8] + b"\xff\xff\xff\x7fPAR1",
    }
    (workspace / "folder.parquet").mkdir()
    for name, content in contents.items():
        (workspace / name).write_bytes(content)
    said = {name: f"{name} is not a readable Parquet file" for name in contents}
    for name, text in {**said, "folder.parquet": "folder.parquet: Is a directory"}.items():
        refuse(text, input=name)
        refuse(text, input=[log, name])


def test_refuses_a_log_without_rows(refuse, workspace) -> None:
    pq.write_table(canaries.table().slice(0, 0), workspace / "none.parquet")
    refuse("no rows in 1 file(s)", input="none.parquet")


def test_refuses_files_that_disagree(refuse, workspace) -> None:
    def write(name: str, **columns: pa.Array) -> None:
        pq.write_table(pa.table(columns), workspace / name)

    numbers = pa.array([1, 2, 3])
    write("wide.parquet", n=numbers, who=numbers)
    write("other.parquet", m=numbers, who=numbers)
    write("named.parquet", n=numbers, who=numbers.cast(pa.string()))
    asked = {"column": "n", "domain": "1..3"}
    write("text.parquet", n=numbers.cast(pa.string()), who=numbers)
    refuse(
        "column 'n' holds integers (int64) in wide.parquet but text (string) in text.parquet",
        input=["wide.parquet", "text.parquet"], **asked,
    )  # fmt: skip
    refuse("other.parquet has no column 'n'", input=["wide.parquet", "other.parquet"], **asked)
    refuse(
        "column 'who' holds integers (int64) in wide.parquet but text (string) in named.parquet",
        input=["wide.parquet", "named.parquet"], user_column="who", min_reports=2, **asked,
    )  # fmt: skip


def test_refuses_two_columns_of_one_name(refuse, workspace) -> None:
    twins = pa.table([pa.array([1, 2]), pa.array([1, 2])], names=["n", "n"])
    pq.write_table(twins, workspace / "twins.parquet")
    refuse("several columns 'n'; it has: n, n", input="twins.parquet", column="n", domain="1..2")


# ---- domains that are none ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "--domain: none declared, and at least 1 value is needed"),
        (b"one\n", "at least 2 values"),
        (b"one\ntwo\n\n", "line 3 of domain.txt is blank"),
        (b"\none\ntwo\n", "line 1 of domain.txt is blank"),
        (b"one\n \t\ntwo", "line 2 of domain.txt is blank"),
        ("one\n\u3000\xa0\n\xf8\n".encode(), "line 2 of domain.txt is blank"),
        (b"one\none\ntwo\n", "line 2 of domain.txt repeats line 1"),
        (b"one\ntwo\none\n", "line 3 of domain.txt repeats line 1"),
        (b"one\r\ntwo\r\none\r\n", "line 3 of domain.txt repeats line 1"),
        (b"one\nt\xffo\n", "domain.txt is not UTF-8 text"),
        ("one\ntwo\n".encode("utf-16"), "domain.txt is not UTF-8 text"),
    ],
)
def test_refuses_domain_files(refuse, workspace, content: bytes, expected: str) -> None:
    (workspace / "domain.txt").write_bytes(content)
    refuse(expected, domain="domain.txt")


@pytest.mark.parametrize("content", ["1\n2\n01\n", "1\n2\n+2\n", "1\nII\n", "1\n9" + "9" * 30])
def test_refuses_domain_files_that_are_no_integers(refuse, workspace, content: str) -> None:
    (workspace / "domain.txt").write_text(content)
    refuse("(or integers, if every line is one and none comes twice)", domain="domain.txt",
           column="number")  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5..4", "5..4 is empty"),
        ("4..4", "at least 2 values"),
        ("0..99999999999", "100,000,000,000 values are more than"),
        ("0..9" + "9" * 40, "62-bit integers"),
        ("1..", "neither LOW..HIGH nor a file"),
        ("a..z", "neither LOW..HIGH nor a file"),
        ("1..2..3", "neither LOW..HIGH nor a file"),
        ("no-such.txt", "neither LOW..HIGH nor a file"),
        (".", "neither LOW..HIGH nor a file"),
        ("nowhere://domain", "neither LOW..HIGH nor a file"),
    ],
)
def test_refuses_domains(refuse, text: str, expected: str) -> None:
    refuse(expected, domain=text, column="number")


# ---- places where nothing can be published -----------------------------------------------------


def test_refuses_an_output_that_is_taken(refuse, workspace) -> None:
    release, files, file = workspace / "release", workspace / "files", workspace / "file"
    for folder in (release, files):
        folder.mkdir()
    (release / "statement.json").write_text("{}")
    (files / "notes.txt").write_text("mine")
    file.write_text("mine")
    (workspace / "link").symlink_to(workspace / "gone")
    refuse("release already holds a release; name a new folder", output="release")
    refuse("files already holds files; name a new folder", output="files")
    refuse("file already holds files; name a new folder", output="file")
    refuse("link already holds files; name a new folder", output="link")
    assert file.read_text() == "mine"


def test_refuses_an_output_that_cannot_be_made(refuse, workspace) -> None:
    (workspace / "file").write_text("mine")
    (workspace / "locked").mkdir(mode=0o555)
    # Who is root may write anywhere, but for where the kernel itself says no.
    locked = "/proc/out" if os.geteuid() == 0 else "locked/out"
    refuse("cannot publish in file/out: Not a directory", output="file/out")
    refuse(f"cannot publish in {locked}: ", output=locked)
    refuse("File name too long", output="o" * 400)


def test_refuses_an_output_that_cannot_be_replaced(refuse, workspace, monkeypatch) -> None:
    (workspace / "here").mkdir()
    monkeypatch.chdir(workspace / "here")
    refuse("name a new folder inside it", output=".")


# ---- too little to publish ---------------------------------------------------------------------


def withheld(outcome: canaries.Outcome, expected: str) -> None:
    assert outcome.code == 1, outcome.said
    assert outcome.err == f"hushbeam: withheld: {expected}\n"
    assert outcome.out == ""
    assert not canaries.found(outcome.said)


def test_withholds_where_nothing_can_be_used(run, log, workspace) -> None:
    words = canaries.request(
        log, domain="100..200", column="number", model="local", unusable="count"
    )
    withheld(
        run(words),
        "0 reports came, fewer than --min-reports 1; 2,000 rows: outside the domain",
    )
    assert not (workspace / "out").exists()


# ---- nothing leaks -----------------------------------------------------------------------------
