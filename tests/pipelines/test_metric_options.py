"""One contract for the options of every registered metric, wherever they are asked for."""

from __future__ import annotations

import argparse
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator
from pydantic.fields import FieldInfo

from pipelines.cli import cli
from pipelines.command import arguments
from pipelines.command.metric import growing
from pipelines.errors import RequestError
from pipelines.ledger.paying import PREFIX
from pipelines.metrics import registry
from pipelines.metrics.options import ReleaseOptions
from pipelines.plan.described import schema
from pipelines.plan.parts import OF_PLAN
from pipelines.request.options import description, flag, type_of, undashed
from pipelines.request.requests import LARGEST_EPSILON, request
from pipelines.train.options import TrainOptions
from tests.contract.forms import example

ROOT = Path(__file__).parents[2]
COMMANDS: dict[str, type[ReleaseOptions]] = {
    **{name: registry.options(name) for name in registry.names()},
    "train": TrainOptions,
}
_PLACES = {"input": "log.parquet", "output": "out"}

every_command = pytest.mark.parametrize("name", COMMANDS)
every_metric = pytest.mark.parametrize("name", registry.names())


def subparser(name: str) -> argparse.ArgumentParser:
    """What knows a command's own options."""
    parser = cli.parser_of([name])
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return commands.choices[name]


def actions(name: str) -> dict[str, argparse.Action]:
    """Options of a command by field; what is paid, and where, is no option of a release."""
    own = subparser(name)._actions
    others = ("help", "debug", "json", PREFIX)
    own = [action for action in own if action.dest not in beside(name)]
    return {action.dest: action for action in own if not action.dest.startswith(others)}


def beside(name: str) -> dict[str, FieldInfo]:
    """Options of a command that mean something beside another one alone."""
    grows = growing(name) if name in registry.names() else None
    fields = grows.model_fields if grows else {}
    return {key: field for key, field in fields.items() if key not in COMMANDS[name].model_fields}


def required(options: type[ReleaseOptions]) -> dict[str, str]:
    """The least that can be typed: of a metric, what its example of the contract asks."""
    (name,) = (name for name, known in COMMANDS.items() if known is options)
    asked: dict[str, object] = {"target": "y=0,1"}
    if name != "train":
        told = example(name)
        asked = {**next(iter(told.forms.values())).asked, **told.asked}
    asked |= _PLACES
    return {n: str(asked[n]) for n, f in options.model_fields.items() if f.is_required()}


def as_lists(options: type[ReleaseOptions]) -> dict[str, object]:
    """The same as functions have it: what there may be several of is a tuple."""
    several = {key for key, f in options.model_fields.items() if type_of(f)[0] is tuple}
    return {k: (v,) if k in several else v for k, v in required(options).items()}


def typed(name: str, words: dict[str, object]) -> ReleaseOptions:
    """Options, the way from the command line."""
    line = [word for key, value in words.items() for word in (flag(key), str(value))]
    known = subparser(name).parse_args(line)
    values = {key: value for key, value in vars(known).items() if key != "command"}
    return request(COMMANDS[name], values)


def test_what_another_distribution_lists_is_checked_here_too() -> None:
    assert COMMANDS.keys() >= {"histogram", "strings", "mean", "distribution", "vector-mean"}


@every_metric
def test_the_registered_options_are_those_of_the_metric_they_name(name: str) -> None:
    assert registry.find(name).kind == name


# ---- on the command line -------------------------------------------------------------------------


@every_command
def test_the_command_has_every_option_with_its_text(name: str) -> None:
    offered, fields = actions(name), COMMANDS[name].model_fields
    assert offered.keys() == fields.keys()
    for key, action in offered.items():
        assert action.option_strings == [flag(key)]
        shown = arguments.Formatter("hushbeam")._get_help_string(action) or ""
        assert shown.replace("%%", "%").startswith(str(description(fields[key])))
        assert len(str(description(fields[key]))) > 5
        assert action.required == fields[key].is_required()


TOTALS = {"horizon", "window", "secret", "last", "user_windows"}
ALTERNATIVES = {
    "count": ("(with --horizon):", TOTALS), "sum": ("(with --horizon):", TOTALS),
}  # fmt: skip


@pytest.mark.parametrize("name", ALTERNATIVES)
def test_what_means_something_beside_an_option_stands_under_a_heading(name: str, run) -> None:
    heading, options = ALTERNATIVES[name]
    own = run([name, "--help-all"]).out.partition(heading)[2]
    assert options <= beside(name).keys()
    assert all(f"  {flag(key)} " in own for key in beside(name))
    assert not any(a.required for a in subparser(name)._actions if a.dest in beside(name))


def test_an_option_of_a_search_needs_that_search(refused) -> None:
    words = ["strings", "--input", "x.parquet", "--column", "c", "--epsilon", "1", "--output", "o"]
    for option in ("--alphabet lower", "--model local", "--enrolled 9"):
        why = f"{option.split()[0]}: means nothing with --search threshold"
        refused([*words, *option.split()], why)
    refused([*words, "--search", "trees"], "invalid choice: 'trees'")
    words += ["--search", "levels"]
    refused([*words, "--rows-per-user", "2"], "--rows-per-user: one row of a user counts here")
    refused([*words, "--drawn-by", "shuffler", "--system", "pem"], "--system: with --drawn-by")
    refused(["heavy-hitters", *words[1:]], "invalid choice: 'heavy-hitters'")


@every_command
def test_what_is_not_typed_is_as_the_options_have_it(name: str) -> None:
    options = COMMANDS[name]
    least = typed(name, required(options))
    for key, field in options.model_fields.items():
        if key == "drawn_by":
            said = {name: getattr(least, name) for name in least.model_fields_set}
            assert least.drawn_by == options.who_draws(said)
        elif not field.is_required():
            assert getattr(least, key) == field.default


# What most people type, where the command has it.
ESSENTIAL = {"input", "column", "domain", "bounds", "user_column", "epsilon", "output"}


@every_command
def test_help_is_one_screen_and_says_where_the_rest_is(name: str, run, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    outcome = run([name, "--help"])
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert sum(-(-len(line) // 80) or 1 for line in lines) <= 40
    assert lines[-1] == f"`hushbeam {name} --help-all` shows all options"
    shown = set(re.findall(r"^  (--[a-z-]+)", outcome.out, re.MULTILINE))
    options = COMMANDS[name].model_fields
    wanted = (ESSENTIAL & options.keys()) | required(COMMANDS[name]).keys()
    assert shown >= {*map(flag, wanted), "--ledger", "--population"}
    assert len(shown) < len(options) / 2
    assert f"\n  hushbeam {name} " in outcome.out.replace("    hushbeam", "  hushbeam")


OUT_OF_RANGE: list[tuple[dict[str, object], str]] = [
    ({"epsilon": "nan"}, "--epsilon must be a finite number, not 'nan'"),
    ({"epsilon": "0"}, "--epsilon must be a number greater than 0"),
    ({"epsilon_local": 2 * LARGEST_EPSILON}, "--epsilon-local must be a number of at most"),
    ({"delta": "1"}, "--delta must be a number less than 1"),
    ({"min_reports": "0"}, "--min-reports must be a number of at least 1"),
    ({"min_reports": "1.5"}, "--min-reports must be a whole number"),
    ({"confidence": "1"}, "--confidence must be a number less than 1"),
    ({"output": ""}, "--output must be at least 1 character long"),
]


@pytest.mark.parametrize(
    ("name", "changes", "complaint"),
    [
        (name, *one)
        for name in COMMANDS
        for one in OUT_OF_RANGE
        if one[0].keys() <= COMMANDS[name].model_fields.keys()
    ],
)
def test_what_is_out_of_range_is_refused(
    name: str, changes: dict[str, object], complaint: str
) -> None:
    with pytest.raises(RequestError, match=complaint):
        typed(name, required(COMMANDS[name]) | changes)


@every_command
@pytest.mark.parametrize("changes", [{"colour": "red"}, {"input": ()}, {"delta": math.inf}])
def test_what_no_option_can_be_is_refused(name: str, changes: dict[str, object]) -> None:
    with pytest.raises(RequestError, match=flag(*changes)):
        request(COMMANDS[name], as_lists(COMMANDS[name]) | changes)


@every_command
def test_users_are_protected_where_a_column_tells_them_apart(name: str) -> None:
    least = required(COMMANDS[name])
    assert typed(name, least).unit == "row"
    assert typed(name, least | {"user_column": "u"}).unit == "user"


# ---- in plans and in Beam YAML -------------------------------------------------------------------


@every_metric
def test_the_schema_of_plans_has_every_option_with_its_text(name: str) -> None:
    options = registry.options(name)
    (kind,) = (
        part["then"]
        for part in schema()["$defs"]["MetricRequest"]["allOf"]
        if part["if"]["properties"]["kind"]["const"] == name
    )
    fields = registry.options_in_plan(name, (registry.HORIZON,)).model_fields | options.model_fields
    own = fields.keys() - OF_PLAN
    assert kind["properties"].keys() == own | {"name", "share", "kind", "watch"}
    assert set(kind["required"]) == required(options).keys() - OF_PLAN
    for key in own:
        text = kind["properties"][key]["description"]
        assert text == undashed(str(description(fields[key])))
        assert "--" not in text


@every_metric
def test_what_reports_mean_does_not_depend_on_where_they_are(name: str) -> None:
    options = registry.options(name)
    several = {key for key, f in options.model_fields.items() if type_of(f)[0] is tuple}

    def meaning(**more: str) -> object:
        said = (required(options) | more).items()
        return request(options, {k: (v,) if k in several else v for k, v in said}).meaning

    assert meaning() == meaning(input="b", output="c", user_column="u")
    assert meaning() != meaning(epsilon="1")


# ---- of another distribution ---------------------------------------------------------------------

_SHARE = '''
"""The share of even numbers."""
from typing import ClassVar
from pipelines.metrics.options import NumberOptions
from pipelines.request.options import option

class ShareOptions(NumberOptions):
    metric: ClassVar[str] = "even.metric:Share"
    brief: ClassVar[str] = "the share of even numbers"
    description: ClassVar[str] = "The share of even numbers in a column."
    rounding: str = option("where to fractions go", "down")
'''
_POINTS = """
[hushbeam.metrics]
even-share = even.options:ShareOptions
broken = even.nowhere:Options
mean = even.options:ShareOptions
"""


@pytest.fixture
def even(tmp_path: Path) -> Path:
    """A folder with another distribution: a metric, a broken one, and one of a name of ours."""
    for path, text in {
        "even/__init__.py": "", "even/options.py": _SHARE,
        "even-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: even\nVersion: 1.0\n",
        "even-1.0.dist-info/entry_points.txt": _POINTS,
    }.items():  # fmt: skip
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def process(words: list[str], *paths: Path) -> subprocess.CompletedProcess[str]:
    """Python, with these folders on its path."""
    path = os.pathsep.join(map(str, (ROOT, *paths)))
    return subprocess.run(
        [sys.executable, *words], env=os.environ | {"PYTHONPATH": path, "COLUMNS": "100"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_metric_of_another_distribution_is_a_command(even: Path) -> None:
    listed = process(["-m", "pipelines.cli.cli", "--help"], even)
    assert listed.returncode == 0
    assert re.search("even-share +the share of even numbers", listed.stdout)
    assert "metric broken (even.nowhere:Options) cannot be imported" in listed.stdout
    assert "the average of a column of numbers" in listed.stdout
    every = process(["-m", "pipelines.cli.cli", "even-share", "--help-all"], even)
    assert every.returncode == 0
    assert "--rounding ROUNDING   where to fractions go (default: down)" in every.stdout
    refused = process(["-m", "pipelines.cli.cli", "broken", "--help"], even)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "metric broken (even.nowhere:Options) cannot be imported" in refused.stderr


@pytest.mark.verify
def test_a_metric_of_another_distribution_is_in_the_schema(even: Path) -> None:
    (even / "even-1.0.dist-info/entry_points.txt").write_text(
        "[hushbeam.metrics]\neven-share = even.options:ShareOptions\n"
    )
    printed = process(["-m", "pipelines.cli.cli", "check", "--schema"], even)
    assert printed.returncode == 0
    assert '"const": "even-share"' in printed.stdout
    assert "where to fractions go" in printed.stdout


def test_others_are_not_looked_for_where_ours_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look goes through all that is installed."""
    monkeypatch.setattr(registry, "_foreign", lambda: pytest.fail("they were looked for"))
    words = ["mean", "--input=a", "--output=b", "--epsilon=1", "--column=c", "--bounds=0,1"]
    assert "command" in vars(cli.parser_of(words).parse_known_args(words)[0])


# ---- what it costs to ask ------------------------------------------------------------------------

_HEAVY = ("apache_beam", "matplotlib", "pyarrow", "scipy.stats", "sklearn")
_OF_LEDGERS = tuple(name for name in _HEAVY if name != "pyarrow")  # whose tables are Arrow's
_ASK = """
import contextlib, sys
from pipelines.cli import cli
lines, *heavy = sys.argv[1:]
for words in lines.splitlines():
    with contextlib.suppress(SystemExit):
        cli.main(words.split())
sys.exit(", ".join(name for name in heavy if name in sys.modules) or None)
"""


@pytest.mark.parametrize(
    ("lines", "heavy"),
    [
        ("--version", (*_HEAVY, "scipy", "numpy", "pydantic")),
        ("--help", (*_HEAVY, "scipy")),
        ("\n".join(f"{name} --help" for name in COMMANDS), _HEAVY),
    ],
    ids=["version", "list", "pages"],
)
def test_help_imports_nothing_that_takes_long(lines: str, heavy: tuple[str, ...]) -> None:
    done = process(["-c", _ASK, lines, *heavy])
    assert (done.returncode, done.stderr) == (0, "")


def test_a_ledger_is_begun_and_shown_without_what_takes_long(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.sqlite"
    begin = f"ledger init --ledger {ledger} --population riders --budget 2,1e-6"
    words = f"{begin}\nledger show --ledger {ledger}"
    done = process(["-c", _ASK, words, *_OF_LEDGERS, "scipy"])
    assert done.returncode == 0, done.stderr
    assert "riders" in done.stdout


@pytest.mark.verify
@pytest.mark.parametrize(
    "words",
    [
        "histogram --column value --domain 0..9 --min-reports 500 --epsilon 1",
        "count --column value --domain 0..9 --epsilon 1",
        "distribution --column value --bounds 0,9 --min-reports 500 --epsilon 1",
    ],
    ids=lambda words: words.split()[0],
)
def test_a_release_imports_nothing_that_it_does_not_need(words: str, tmp_path: Path) -> None:
    """Pictures are drawn without matplotlib, distribution functions are scipy.special's."""
    log = tmp_path / "log.parquet"
    pq.write_table(pa.table({"value": np.arange(1000) % 10}), log)
    line = f"{words} --input {log} --output {tmp_path / 'out'}"
    needless = ("matplotlib", "scipy.stats", "sklearn", "dp_accounting", "hushbeam.studies")
    done = process(["-c", _ASK, line, *needless])
    assert (done.returncode, done.stderr) == (0, "")
    assert "<svg" in (tmp_path / "out" / "report.html").read_text()


_REQUEST = "mean --input log.parquet --column x --output out"


WRONG = {
    "nonsense": "invalid choice: 'nonsense'",
    "mean --input log.parquet": "the following arguments are required: --column",
    f"{_REQUEST} --epsilon 0": "--epsilon must be a number greater than 0",
    f"{_REQUEST} --model trusted": "--model: invalid choice: 'trusted'",
    "train --input log.parquet --target y --output out --epsilon x": "--epsilon must be a number",
}
NO_LEDGER = "ledger show --ledger there-is-none.sqlite"


def test_what_is_wrong_by_itself_is_refused_before_anything_is_imported() -> None:
    """One after another in one process: what any of them imports is there in the end."""
    done = process(["-c", _ASK, "\n".join(WRONG), *_HEAVY])
    assert done.returncode == 0, done.stderr
    assert [words for words, said in WRONG.items() if said not in done.stderr] == []
    done = process(["-c", _ASK, NO_LEDGER, *_OF_LEDGERS])
    assert (done.returncode, "there is no there-is-none.sqlite" in done.stderr) == (0, True)


@pytest.mark.verify
def test_what_is_decided_before_a_job_is_made_does_not_wait_for_beam(tmp_path: Path) -> None:
    """Neither a plan that is checked, nor requests that their file refuses, make a step."""
    log, plan = tmp_path / "log.parquet", tmp_path / "plan.yaml"
    pq.write_table(pa.table({"origin": ["a"]}), log)
    plan.write_text(
        "{collection: c, version: 1, unit: row, input: log.parquet, output: out, epsilon: 1, "
        "metrics: [{name: m, kind: histogram, column: orign, domain: 0..9}]}"
    )
    asked = f"--input {log} --epsilon 1 --output {tmp_path / 'out'}"
    lines = [
        f"check {ROOT}/examples/flights.yaml",
        f"histogram {asked} --column orign --domain 0..9",
        f"mean {asked} --column origin --bounds 0,1",
        f"count {asked} --column orign --domain 0..9",
        f"run {plan}",
    ]
    done = process(["-c", _ASK, "\n".join(lines), "apache_beam", "scipy.stats"])
    assert done.returncode == 0, done.stderr
    assert "fingerprint" in done.stdout
    assert done.stderr.count("has no column 'orign'") == 3
    assert "'origin' holds string" in done.stderr


@pytest.mark.parametrize(
    ("kind", "name", "written", "typed"),
    [
        ("histogram", "domain", ["Oslo", "Bern, Wabern", 7], '["Oslo", "Bern, Wabern", "7"]'),
        ("count", "by_domain", ["true", "1.10"], '["true", "1.10"]'),
        ("mean", "bounds", [-0.5, 600], "-0.5,600"),
        ("distribution", "quantiles", [0.5], "0.5"),
        ("experiment", "arms", ["old", "new"], "old,new"),
        ("count", "group", {"city": ["Å", "B"], "on": None}, ('city=["Å", "B"]', "on")),
        ("cross-tab", "domains", {"age": "1..9", "on": ["y"]}, ("age=1..9", 'on=["y"]')),
        ("cross-tab", "hierarchies", {"city": "a.csv"}, ("city=a.csv",)),
        ("vector-mean", "number", {"fare": [0, 60]}, ("fare=0,60",)),
        ("funnel", "steps", {"paid": "total > 0"}, ("paid=total > 0",)),
    ],
)
def test_lists_and_mappings_of_a_plan_are_what_a_command_line_takes(
    kind: str, name: str, written: object, typed: object
) -> None:
    field = registry.options(kind).model_fields[name]
    assert description(field).typed(field, written) == typed
    assert description(field).typed(field, typed) == typed
    (own,) = (
        part["then"]["properties"][name]
        for part in schema()["$defs"]["MetricRequest"]["allOf"]
        if part["if"]["properties"]["kind"]["const"] == kind
    )
    check = Draft202012Validator(own)
    assert check.is_valid(written)
    assert check.is_valid(list(typed) if isinstance(typed, tuple) else typed)
    assert not check.is_valid({"city": {"a": 1}})


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"column": ["city"]}, "--column must be a text"),
        ({"domain": {"city": ["Oslo"]}}, "--domain must be a text"),
        ({"domain": ["Oslo", None]}, "put all else in quotes"),
        ({"domain": [["Oslo"]]}, "put all else in quotes"),
        ({"domain": [1.10, 1.9]}, "put all else in quotes"),  # "1.1" is another version
        ({"domain": [True]}, "put all else in quotes"),
    ],
)
def test_a_list_where_none_is_meant_is_refused(changes: dict[str, object], complaint: str) -> None:
    said = {**_PLACES, "input": ["log.parquet"], "column": "city", "domain": ["Oslo"], "epsilon": 1}
    assert request(registry.options("histogram"), said).model_dump()["domain"] == '["Oslo"]'
    with pytest.raises(RequestError, match=complaint):
        request(registry.options("histogram"), said | changes)


@pytest.mark.parametrize("arms", [["a,b", "c"], ["a", " b"], ["a", ""], ["a", None], [["a"]]])
def test_a_name_that_a_command_line_would_take_for_two_is_refused(arms: list[object]) -> None:
    field = registry.options("experiment").model_fields["arms"]
    with pytest.raises(ValueError, match="names without commas"):
        description(field).typed(field, arms)
    domains = registry.options("cross-tab").model_fields["domains"]
    for value in (None, {"a": 1}):
        with pytest.raises(ValueError, match="city needs a text"):
            description(domains).typed(domains, {"city": value})
