"""What is misspelt is refused in a line that asks what was meant; counts are typed as people do."""

from __future__ import annotations

from pathlib import Path

import pytest

from mechanisms.heavy_hitters.prefix_code import alphabet
from pipelines.cli import commands
from pipelines.plan.loading import load
from tests.fakes import canaries

PLAN = """\
collection: near
version: 1
input: log.parquet
output: out
epsilon: 1
min_reports: 1e6
metrics:
  - {name: value, kind: histogram, column: value, domain: "0..9"}
"""


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["histgram"], "invalid choice: 'histgram'; there are: histogram"),
        (["ledger", "shw", "--ledger", "l"], "did you mean show?"),
        (["histogram", "--inptu", "x"], "did you mean --input?"),
        (["check", "plan.yaml", "--widnow", "a"], "did you mean --window?"),
        (["audit", "gr", "--epsilon", "1"], "did you mean grr?"),
    ],
)
def test_words_are_asked_about(words: list[str], asked: str, refused) -> None:
    refused(words, asked)


@pytest.mark.parametrize(
    ("changes", "more", "asked"),
    [
        ({"column": "vlaue"}, [], "did you mean value?"),
        ({"model": "locl"}, [], "did you mean local?"),
        ({"mechanism": "hadamrd"}, [], "did you mean hadamard?"),
        ({}, ["--confidense", "0.9"], "did you mean --confidence?"),
        ({}, ["--runer", "FnApiRunner"], "did you mean --runner?"),  # Beam's own
    ],
)
def test_a_request_is_asked_about(changes, more, asked: str, refused, log, domain) -> None:
    refused([*canaries.request(log, **({"domain": domain} | changes)), *more], asked)


def test_nothing_is_asked_where_nothing_is_like_it(run) -> None:
    assert "did you mean" not in run(["xyzzy"]).err


@pytest.mark.parametrize(
    ("old", "new", "asked"),
    [
        ("min_reports", "min_report", "did you mean min_reports?"),
        ("domain:", "domian:", "did you mean domain?"),
        ("kind: histogram", "kind: histgram", "did you mean histogram?"),
    ],
)
def test_keys_of_a_plan_are_asked_about(old: str, new: str, asked: str, run) -> None:
    Path("plan.yaml").write_text(PLAN.replace(old, new))
    outcome = run(["check", "plan.yaml"])
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert asked in outcome.err


def test_counts_of_a_plan_are_written_as_people_do(workspace, run) -> None:
    Path("plan.yaml").write_text(PLAN)
    assert load("plan.yaml").min_reports == 1_000_000
    Path("plan.yaml").write_text(PLAN.replace("1e6", "1.5"))
    outcome = run(["check", "plan.yaml"])
    assert outcome.code == 2
    assert "line 6: min_reports must be a whole number" in outcome.err


@pytest.mark.parametrize("count", ["1.5", "1e-3", "many"])
def test_a_count_is_whole(count: str, refused, log, domain) -> None:
    words = canaries.request(log, domain=domain, min_reports=count)
    refused(words, f"--min-reports must be a whole number, not '{count}'")


@pytest.mark.parametrize("name", ["uper", "Lower", "digit", "printabel", "byte"])
def test_a_misspelt_alphabet_is_no_set_of_its_letters(name: str) -> None:
    with pytest.raises(ValueError, match="is none of bytes, printable, digits, lower, upper; did"):
        alphabet([name])


def test_characters_are_an_alphabet_still() -> None:
    assert alphabet(["ACGT"]) == "ACGT"
    assert alphabet(["epru"]) == "epru"


def test_every_command_stands_in_the_help_once_with_what_it_does(run) -> None:
    lines = run(["--help"]).out.splitlines()
    for name in commands.names():
        (line,) = (line for line in lines if line.startswith(f"  {name} "))
        assert line.removeprefix(f"  {name} ").strip()
        assert len(line) <= 100
    headings = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert len(headings) == 6  # of options, and five tasks
