"""The `hushbeam` command itself: its help, its exit codes, its manners."""

from __future__ import annotations

import logging
import os
import re
import shlex
import subprocess
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.cli import cli
from tests.fakes import canaries
from tests.fakes.waiting import HANGS

ROOT = Path(__file__).parents[2]
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def test_help_names_the_commands(run) -> None:
    outcome = run(["--help"])
    assert outcome.code == 0
    assert outcome.err == ""
    assert "histogram" in outcome.out
    assert "--version" in outcome.out


def test_without_a_command_there_is_help_and_a_wrong_request(run) -> None:
    outcome = run([])
    assert outcome.code == 2
    assert outcome.out == run(["--help"]).out
    assert outcome.err == ""


def test_version(run) -> None:
    outcome = run(["--version"])
    assert (outcome.code, outcome.out) == (0, f"hushbeam {version('hushbeam')}\n")


def test_the_example_of_help_runs_as_it_stands(run, workspace, monkeypatch) -> None:
    shown = run(["histogram", "--help"]).out
    example = re.search(r"^  (hushbeam histogram .*?[^\\])\n", shown, re.DOTALL | re.MULTILINE)
    assert example is not None
    words = shlex.split(example[1].replace("\\\n", " "))
    (workspace / "examples").symlink_to(ROOT / "examples")
    outcome = run(words[1:])
    assert outcome.code == 0, outcome.said
    assert (workspace / "flights-histogram" / "report.html").exists()


def test_what_is_printed_off_a_terminal_is_plain_text(run, log, domain) -> None:
    outcome = run(canaries.request(log, domain=domain, model="local"))
    assert outcome.code == 0
    assert outcome.err == ""
    assert not CONTROL.search(outcome.out)
    assert outcome.out.count("report: out/report.html\n") == 1
    assert "local: epsilon 1, delta 0, per row\n" in outcome.out


def test_markup_in_the_name_of_the_output_is_text(run, log, domain, workspace) -> None:
    outcome = run(canaries.request(log, domain=domain, model="local", output="[red]out[/red]"))
    assert outcome.code == 0
    assert "report: [red]out[/red]/report.html\n" in outcome.out


def test_the_callers_logging_and_warnings_are_left_as_they_were(run, log) -> None:
    def callers() -> tuple[int, list[object], tuple[int, int]]:
        # Which file descriptor 2 is, and not when it was last written to: time passes in between.
        stream = os.fstat(2)
        return logging.getLogger().level, list(warnings.filters), (stream.st_dev, stream.st_ino)

    before = callers()
    run(canaries.request(log, epsilon="0"))
    assert callers() == before


def test_a_complaint_is_one_line_whatever_is_in_it(run, log) -> None:
    outcome = run(canaries.request(log, column="two\nlines\r\tand \x0b\x0c more"))
    assert outcome.code == 2
    assert outcome.err.splitlines() == [outcome.err.rstrip("\n")]


def test_a_negative_bound_is_told_how_it_is_written(run, log) -> None:
    outcome = run(["mean", "--input", log, "--column", "real", "--bounds", "-5,5"])
    assert outcome.code == 2
    assert "--bounds: expected one argument; one that begins with - needs an equals sign" in (
        outcome.err
    )


@pytest.mark.parametrize(
    "words",
    [["--column", "b"], ["--column=b"], ["--input", "other.parquet"]],
    ids=["one value", "equals sign", "several values"],
)
def test_an_option_that_is_given_twice_is_refused(run, log, words) -> None:
    outcome = run([*canaries.request(log), *words])
    assert outcome.code == 2
    assert f"{words[0].partition('=')[0]} is there 2 times; say it once" in outcome.err


def test_options_that_add_up_are_given_as_often_as_there_are_values(run) -> None:
    parameters = ("--parameter", "domain_size=4", "--parameter", "epsilon=1")
    assert run(["audit", "grr", *parameters]).code == 0


def test_debug_is_an_option_of_every_command_and_a_value_as_well(run, log, domain) -> None:
    for words in (["--debug", "audit", "grr"], ["audit", "grr", "--debug"]):
        assert "unknown" not in run([*words, "--epsilon", "1", "--domain-size", "4"]).err
    refused = run([*canaries.request(log, domain=domain, column=None), "--column=--debug"])
    assert "no column '--debug'" in refused.err


# ---- as a process of its own -------------------------------------------------------------------


def process(words: list[str], folder: Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pipelines.cli.cli", *words],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False, **options,
    )  # fmt: skip


_LITTER = """
import weakref
from pipelines.cli import cli
class Cycle:
    def __init__(self): self.itself = self
def litter():
    made = weakref.WeakSet()
    for count in 1_000, 1_000_000:
        for _ in range(count): made.add(Cycle())
        print(len(made))
    return 0
cli.main = litter
cli.entry()
"""


def test_garbage_is_collected_once_there_is_much() -> None:
    """No sooner: what is imported would be looked through for it again and again."""
    path = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", _LITTER], env=path, capture_output=True, text=True)
    few, many = map(int, done.stdout.split())
    assert few == 1_000
    assert many < 600_000


_POOL = """
import os
from pipelines.cli import cli
def pool():
    print(os.environ.get("ARROW_DEFAULT_MEMORY_POOL", ""))
    return 0
cli.main = pool
cli.entry()
"""


@pytest.mark.parametrize("said", ["", "system"])
@pytest.mark.parametrize("tag", ["manylinux_2_28_x86_64", "manylinux_2_28_aarch64", "linux_x86_64"])
def test_arrow_takes_memory_from_what_it_has_or_where_somebody_has_said(
    said: str, tag: str, tmp_path: Path
) -> None:
    described = tmp_path / "pyarrow-25.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Name: pyarrow\nVersion: 25.0\n")
    (described / "WHEEL").write_text(f"Wheel-Version: 1.0\nTag: cp311-cp311-{tag}\n")
    usual = {name: value for name, value in os.environ.items() if "MEMORY_POOL" not in name}
    path = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-c", _POOL],
        env=usual | path | ({"ARROW_DEFAULT_MEMORY_POOL": said} if said else {}),
        capture_output=True, text=True,
    )  # fmt: skip
    known = {"manylinux_2_28_x86_64": "jemalloc"}
    assert (done.stdout.strip(), done.stderr) == (said or known.get(tag, ""), "")


def test_the_build_that_is_here_has_the_memory_that_it_is_told_of() -> None:
    told = {*cli.memory_pool().values()}
    assert told <= {*pa.supported_memory_backends()}


@pytest.mark.verify
@pytest.mark.parametrize(
    ("changes", "code", "complaint"),
    [
        ({"model": "local"}, 0, ""),
        (
            {"delta": 1e-3, "drawn_by": "shuffler"},
            0,
            "hushbeam: warning: delta 0.001 is large: ",
        ),
        (
            {"min_reports": 9_999_999, "delta": 1e-9},
            1,
            "hushbeam: withheld: 2,000 reports came, fewer than ",
        ),
        ({"epsilon": "0"}, 2, "hushbeam: --epsilon must be a number greater than 0, not '0'\n"),
    ],
)
def test_exit_codes_and_stderr_of_a_process(
    log, domain, tmp_path, changes: dict[str, object], code: int, complaint: str
) -> None:
    done = process(canaries.request(log, **({"domain": domain} | changes)), tmp_path)
    assert done.returncode == code
    assert done.stderr.startswith(complaint)
    lines = done.stderr.splitlines()
    said = [line for line in lines if "many of the rows have no value" not in line]
    assert len(said) == (1 if complaint else 0)


@pytest.mark.verify
@pytest.mark.parametrize("behind", ["a reader who leaves", "a full disk"])
def test_output_that_nobody_reads_does_not_change_the_exit_code(
    behind: str, log, domain, tmp_path
) -> None:
    """`hushbeam ... | head -1` has published; 1 would say that it withheld, 3 that it failed."""
    reading, writing = os.pipe() if behind == "a reader who leaves" else (None, None)
    with open("/dev/full", "w") if writing is None else open(writing, "w") as stdout:
        job = subprocess.Popen(
            [sys.executable, "-m", "pipelines.cli.cli", *canaries.request(log, domain=domain)],
            cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=stdout, stderr=subprocess.PIPE,
        )  # fmt: skip
    if reading is not None:
        os.close(reading)  # before a word came
    assert (job.wait(timeout=HANGS), job.stderr.read()) == (0, b"")
    job.stderr.close()
    assert (tmp_path / "out" / "statement.json").exists()
