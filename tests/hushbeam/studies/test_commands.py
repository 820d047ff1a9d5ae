"""What all studies have in common: help, requests, refusals, pages, and a way to go on."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hushbeam.studies.engine.command import StudyCommand
from hushbeam.studies.papers import dssgd
from hushbeam.studies.populations.tables import TABLES
from hushbeam.studies.studies import dp_sgd, key_value, mean, vector_mean
from hushbeam.studies.systems import (
    distributions,
    gradients,
    histograms,
    liars,
    means,
    number_sums,
    rows,
    synthetic,
)
from hushbeam.studies.systems.treatments import TREATMENTS
from mechanisms.heavy_hitters import fitting
from pipelines.cli import cli
from pipelines.request.options import flag
from tests.fakes.few import few

APPENDIX = Path(__file__).parents[3] / "docs" / "appendix"
ONE_JOB = ["--jobs", "1"]  # starting processes takes seconds

STUDIES = ["histogram", "poisoning", "heavy-hitters", "distribution", "mean", "sum", "vector-mean",
           "key-value", "synthetic", "train"]  # fmt: skip
MODULES = [f"hushbeam.studies.studies.{name.replace('-', '_')}" for name in STUDIES]
COMMANDS: dict[str, StudyCommand] = {
    name: import_module(module).COMMAND for name, module in zip(STUDIES, MODULES, strict=True)
}

NAMES = {
    "histogram": [*histograms.SYSTEMS, *histograms.SETS, "normal:N,D"],
    "poisoning": [*histograms.SYSTEMS, *liars.ATTACKS, "normal:N,D"],
    "heavy-hitters": fitting.SYSTEMS,
    "distribution": [*distributions.SYSTEMS, *distributions.SETS, "beta:N,A,B"],
    "mean": [*means.MEANS, *means.PUBLISHED, *means.SUMMED, *mean.SETS, "nm-em", "nm-ems"],
    "sum": [*number_sums.SYSTEMS, "gauss:N,MEAN,SD"],
    "vector-mean": [
        *rows.VECTORS,
        *vector_mean.SETS,
        *rows.REFERENCES,
        *filter(None, TREATMENTS),
    ],
    "key-value": [*key_value.MECHANISMS, "privkv_published", "privkvm-C", "keys:N,D,S"],
    "synthetic": [*synthetic.SYSTEMS, *synthetic.SETS, "people:N"],
    "train": [*gradients.SETS["all"], *dp_sgd.MODELS, *dssgd.RULES, *TABLES],
}

# Page -> study, the least number of its commands, and how its figures are called.
PAGES = {
    "reproduction.md": ("histogram", 5, "reproduction-", 4),
    "reproduction-means.md": ("mean", 6, "means-", 5),
    "reproduction-vectors.md": ("vector-mean", 6, "vectors-", 4),
    "reproduction-training.md": ("train", 8, "training-", 4),
}


def table(folder: str) -> list[dict[str, Any]]:
    """The results, without the one column that is not repeatable, in an order of their own."""
    runs = pq.read_table(f"{folder}/results.parquet").drop_columns(["seconds"]).to_pylist()
    return sorted(runs, key=lambda row: repr([row[name] for name in sorted(row)]))


# ---- help and pages ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STUDIES)
def test_help_explains_every_option_and_gives_examples(run, name) -> None:
    outcome = run(["evaluate", name, "--help"])
    assert (outcome.code, outcome.err) == (0, "")
    options = {option for study in COMMANDS[name].studies.values()
               for option in study.options.model_fields}  # fmt: skip
    for said in (*map(flag, options), *NAMES[name], "--debug", "examples:", "exit codes"):
        assert said in outcome.out


def commands(text: str) -> list[str]:
    """The commands of a page or a help text, a line each."""
    return re.findall(r"^ *(hushbeam evaluate .*)$", text.replace("\\\n", " "), re.MULTILINE)


def can_be_typed(command: str) -> None:
    """Whether a command is understood, but for files that are not here."""
    words = shlex.split(command)[1:]
    known, rest = cli.parser_of(words).parse_known_args(words)
    assert rest == []
    words = vars(known)
    _, study, options = COMMANDS[shlex.split(command)[2]].parsed(words)
    assert study.lines(options)
    made = tuple(text for text in options.data if ".parquet" not in text)
    few = {"ns": (1000,), "dimensions": (3,)}  # making many rows takes long
    changed = {key: value for key, value in few.items() if getattr(options, key, ())}
    assert len(study.data(options.model_copy(update={"data": made, **changed}))) >= len(made)


@pytest.mark.parametrize("name", STUDIES)
def test_examples_can_be_typed(run, name) -> None:
    examples = commands(run(["evaluate", name, "--help"]).out)
    assert len(examples) >= 2
    for command in examples:
        can_be_typed(command)


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_pages_can_be_typed(page) -> None:
    _, least, _, _ = PAGES[page]
    shown = commands((APPENDIX / page).read_text())
    assert len(shown) >= least
    for command in shown:
        can_be_typed(command)


def of_sources() -> list[str]:
    """The commands of the table of all systems that the source papers name."""
    page = (APPENDIX / "systems.md").read_text("utf-8")
    (rows,) = re.findall(r"<!-- sources -->\n(.*?)\n\n", page, re.DOTALL)
    return re.findall(r"`(hushbeam evaluate [^`]*)`", rows)


def test_every_named_system_has_a_command_or_a_module() -> None:
    assert len(of_sources()) >= 15
    for command in of_sources():
        can_be_typed(command)
    page = (APPENDIX / "systems.md").read_text("utf-8")
    modules = re.findall(r"`(mechanisms\.[a-z_.]+)`", page.partition("<!-- sources -->")[2])
    assert len(modules) >= 5
    for module in modules:
        assert import_module(module).__doc__


@pytest.mark.verify
@pytest.mark.parametrize("command", of_sources())
def test_every_named_system_runs(run, unseen, command) -> None:
    outcome = run([*shlex.split(command)[1:], "--repetitions", "1", *ONE_JOB])
    assert outcome.code == 0, outcome.err
    assert Path("out/refused.json").read_text().strip() == "[]"


@pytest.mark.parametrize("page", PAGES)
def test_figures_of_pages_exist_and_are_small(page) -> None:
    _, _, prefix, least = PAGES[page]
    named = re.findall(
        rf"!\[[^\]]+\]\((\.\./figures/{prefix}[^)]+)\)", (APPENDIX / page).read_text()
    )
    assert len(named) >= least
    for name in named:
        assert len((APPENDIX / name).read_bytes()) < 250_000


def test_what_is_evaluated_has_to_be_said(run) -> None:
    outcome = run(["evaluate"])
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "WHAT" in outcome.err
    overview = run(["evaluate", "--help"]).out
    assert all(name in overview for name in STUDIES)


def test_nobody_waits_for_beam_nor_for_pictures_before_there_are_any(workspace) -> None:
    words = ["evaluate", "histogram", "--systems", "laplace", "--output", "out", *ONE_JOB]
    more = ["--epsilons", "1", "--data", "zipf:100,5,1", "--repetitions", "1"]
    script = (
        f"import sys, importlib; [importlib.import_module(name) for name in {MODULES}];"
        "early = 'matplotlib' in sys.modules; from pipelines.cli.cli import main;"
        f"sys.exit(early or main({words + more}) or 'apache_beam' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, env=environment)
    assert (ran.returncode, ran.stderr) == (0, b"")


# ---- going on ------------------------------------------------------------------------------------

BEGUN = {
    "histogram": (
        "--systems grr@local laplace --data zipf:1000,5,1 --epsilons 0.5 1 --repetitions 2",
        ["--seed 1", "--honest-share 0.9", "--deltas 1e-7", "--max-messages 2"],
    ),
    "poisoning": (
        "--systems grr@local oue@local --data zipf:1000,5,1 --epsilons 0.5 1 --repetitions 2 "
        "--attacks none input target",
        ["--liars 0.1", "--targets 2", "--attacks input"],
    ),
    "heavy-hitters": (
        "--systems pem@local --epsilons 6 --top 5 --data zipf:2000,5,1.2 --repetitions 2 "
        "--alphabet digits abcdef --max-length 4",
        ["--top 6", "--max-length 5", "--alphabet lower digits"],
    ),
    "mean": (
        "--systems duchi dct dct_published laplace@central --data uniform:10 spike:10,0.5 "
        "--epsilons 0.5 1 --deltas 1e-6 1e-2 --ns 20 200 --alphas 2 best --repetitions 2",
        ["--alphas 2", "--ns 20", "--seed 1"],
    ),
    "vector-mean": (
        "--systems multi_hm multi_rphm multi_optimal-zero zeros --data gauss:50,6,0.3,0.25 "
        "--ns 30 300 --epsilons 1 2 --repetitions 2",
        ["--dimensions 7", "--ns 20", "--seed 1"],
    ),
    "key-value": (
        "--systems privkv privkvm-2 --data keys:500,3,1 --epsilons 1 4 --repetitions 2",
        ["--seed 1"],
    ),
    "train --study regression": (
        "--data census:400 --epsilons 1 4 --repetitions 2 --systems pm dct_published constant",
        ["--draws 2", "--own-schedules", "--clip 1", "--seed 1"],
    ),
    "train --study dssgd": (
        "--systems noisy alone --data digits:200 --shares 0.1 1 --participants 4 --epochs 1 "
        "--repetitions 2",
        ["--epochs 2", "--noise 2", "--deltas 1e-6", "--shares 0.1"],
    ),
}


SHORT = ("histogram", "mean", "train --study dssgd")


@pytest.mark.parametrize("name", few(BEGUN, lambda name: name if name in SHORT else None))
def test_an_interrupted_study_goes_on_and_ends_alike(run, unseen, name) -> None:
    words, others = BEGUN[name]
    command = ["evaluate", *name.split(), *words.split(), *ONE_JOB, "--output"]
    assert run([*command, "whole"]).code == 0
    journal = Path("whole/journal.jsonl").read_bytes()
    Path("killed").mkdir()
    entries = journal.splitlines(keepends=True)
    Path("killed/journal.jsonl").write_bytes(b"".join(entries[::3]) + entries[-1][:40])
    Path("killed/request.json").write_bytes(Path("whole/request.json").read_bytes())
    assert run([*command, "killed"]).code == 0
    assert table("killed") == table("whole")
    assert run([*command, "whole"]).code == 0  # nothing is left to do
    assert Path("whole/journal.jsonl").read_bytes() == journal
    for other in others:
        outcome = run(overruled([*command, "whole"], other.split()))
        assert (outcome.code, outcome.err.count("\n")) == (2, 1)
        assert "another request" in outcome.err
        assert other.split()[0] in outcome.err


# ---- refusals ------------------------------------------------------------------------------------


def overruled(words: list[str], changed: list[str]) -> list[str]:
    """A command line with some options, each with all of its values, in the place of its own."""
    kept, dropping = list[str](), False
    for word in words:
        dropping = word in changed if word.startswith("--") else dropping
        kept += [] if dropping else [word]
    return [*kept, *changed]


GOOD = {
    "histogram": "--systems sh --data zipf:1000,20,1 --epsilons 1",
    "poisoning": "--systems grr@local --data zipf:1000,20,1 --epsilons 1",
    "heavy-hitters": "--epsilons 1 --data zipf:1000,10",
    "mean": "--systems pm --epsilons 1 --data uniform:100 --ns 10",
    "vector-mean": "--systems multi_hm --epsilons 1 --data gauss:50,6,0.3,0.25 --ns 10",
    "key-value": "--systems privkv --epsilons 1 --data keys:50,2,0",
    "train --study regression": "--epsilons 1 --data census:100",
    "train --study dp-sgd": "--epsilons 1 --data digits:100",
    "train --study dssgd": "--data digits:100",
}


@pytest.mark.parametrize(
    ("name", "changed", "said"),
    [
        ("histogram", "--systems nothing", "unknown system 'nothing'"),
        ("histogram", "--epsilons 0", "--epsilons must be a number greater than 0"),
        ("histogram", "--epsilons nan", "--epsilons must be a"),
        ("histogram", "--epsilons much", "--epsilons must be a number"),
        ("histogram", "--deltas 1", "--deltas must be a number less than 1"),
        ("histogram", "--data log.csv", "is not of the form"),
        ("histogram", "--repetitions 0", "--repetitions must be a number of at least 1"),
        ("histogram", "--jobs 0", "--jobs must be a number of at least 1"),
        ("histogram", "--honest-share 1.5", "--honest-share must be a number of at most 1"),
        ("histogram", "--seed x", "--seed must be a whole number"),
        ("histogram", "--bound tight", "invalid choice"),
        ("histogram", "--output log.txt/out", "--output: cannot write"),
        ("histogram", "--banana", "unknown: --banana"),
        ("poisoning", "--attacks magic", "not 'magic'"),
        ("poisoning", "--liars 1", "--liars must be a number less than 1"),
        ("poisoning", "--targets 0", "--targets must be a number of at least 1"),
        ("heavy-hitters", "--alphabet é", "--alphabet: an alphabet is made of ASCII"),
        ("heavy-hitters", "--top 0", "--top must be a number of at least 1"),
        ("heavy-hitters", "--max-length 1000", "--max-length must be a number of at most 256"),
        ("heavy-hitters", "--systems grr", "is not of the form NAME"),
        ("heavy-hitters", "--data nowhere.parquet:x", "there is no file"),
        ("key-value", "--systems privkvm", "unknown system 'privkvm'"),
        ("key-value", "--data keys:50,2,-1", "exponent"),
        ("key-value", "--data keys:2,9,9", "nobody holds"),
        ("key-value", "--data log.csv", "is not of the form"),
        ("mean", "--systems grr", "unknown system 'grr'"),
        ("mean", "--alphas 0", "--alphas must be positive"),
        ("mean", "--data normal:100,10", "is not of the form"),
        ("mean", "--data nowhere.parquet:x,0,1", "there is no file"),
        ("mean", "--data uniform:10 uniform:20", "two data sets are called"),
        ("mean", "--ns many", "--ns must be a whole number"),
        ("mean", "--ns 0", "has 0 users"),
        ("vector-mean", "--systems pm", "unknown system 'pm'"),
        ("vector-mean", "--systems zeros-mean", "zeros is not mean"),
        ("vector-mean", "--data normal:100,10", "is not of the form"),
        ("vector-mean", "--data gauss:100,10,0.3", "is not of the form"),
        ("vector-mean", "--data gauss:100,10,0.3,-1", "must be positive"),
        ("vector-mean", "--data gauss:100,10,nan,1", "is not of the form"),
        ("vector-mean", "--data nowhere.parquet:x=0,1", "there is no file"),
        ("vector-mean", "--ns 1", "has 1 rows; 2 to"),
        ("vector-mean", "--dimensions 0", "1 to 1,048,576 can be simulated"),
        ("vector-mean", "--ns 1e9 --dimensions 1000", "2 to 100,000,000,000 can be simulated"),
        ("vector-mean", "--deltas 1e-6", "unknown: --deltas"),
        ("train --study regression", "--systems x", "unknown system 'x'"),
        ("train --study regression", "--data census:5", "100 to 10,000,000"),
        ("train --study regression", "--data census:x", "not of the form"),
        ("train --study regression", "--data x.parquet", "no known table"),
        ("train --study regression", "--data adult.parquet", "no file"),
        ("train --study regression", "--shares 1", "--shares"),
        ("train --study regression", "--deltas 1e-6", "--deltas"),
        ("train --study dp-sgd", "--systems pm", "unknown system 'pm'"),
        ("train --study dp-sgd", "--data digits:7", "100 to 1,000,000"),
        ("train --study dp-sgd", "--data x.parquet", "no file"),
        ("train --study dssgd", "--systems pm", "unknown system 'pm'"),
        ("train --study dssgd", "--shares 2", "--shares"),
        ("train --study dssgd", "--epsilons 2", "--epsilons"),
        ("train --study dssgd", "--participants 200", "cannot share"),
    ],
)
def test_bad_requests_get_one_line(run, name, changed, said) -> None:
    Path("log.txt").write_text("")
    words = [*GOOD[name].split(), "--output", "out", *ONE_JOB]
    outcome = run(["evaluate", *name.split(), *overruled(words, changed.split())])
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert outcome.err.startswith("hushbeam: ")
    assert said in outcome.err
    assert not Path("out").exists()


def test_without_matplotlib_nothing_is_begun(run, monkeypatch) -> None:
    monkeypatch.setattr("pipelines.views.plots.find_spec", lambda name: None)
    words = "evaluate histogram --systems grr --epsilons 1 --data zipf:900,9,1.2 --output figures"
    outcome = run([*words.split(), "--repetitions", "1"])
    assert outcome.code == 2
    assert "pip install '.[plots]'" in outcome.err
    assert not Path("figures").exists()
