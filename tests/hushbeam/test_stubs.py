"""What editors know of the functions: what is written is what the options are."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import hushbeam
from deploy import stubs
from hushbeam.kinds import functions

PROGRAM = """\
import hushbeam
import pandas as pd

log = pd.DataFrame({"x": [1]})
release: hushbeam.Release = hushbeam.count(log, epsilon=1, column="x", domain=range(9))
hushbeam.mean("log.parquet", column="x", bounds=(0, 60), epsilon=1, drawn_by="each-report")
"""


def test_the_file_is_what_the_options_say() -> None:
    assert stubs.FILE.read_text("utf-8") == stubs.text()


def test_it_has_every_function_with_every_option() -> None:
    tree = ast.parse(stubs.text())
    found = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}
    for name in functions():
        parameters = inspect.signature(getattr(hushbeam, name)).parameters
        said = found[name].args
        assert {arg.arg for arg in said.kwonlyargs} | {"input"} == parameters.keys()
        words = zip(said.kwonlyargs, said.kw_defaults, strict=True)
        usual = {word.arg for word, default in words if default is None}
        required = {k for k, p in parameters.items() if p.default is inspect.Parameter.empty}
        assert usual | {"input"} == required


@pytest.mark.verify  # mypy over Beam's and our own sources
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ((), ""),
        (("column=", "colum="), 'Unexpected keyword argument "colum"'),
        (
            ('drawn_by="each-report"', 'drawn_by="nobody"'),
            "incompatible type \"Literal['nobody']\"",
        ),
        (("hushbeam.mean(", "hushbeam.meen("), 'has no attribute "meen"'),
    ],
)
def test_a_type_checker_knows_them(change: tuple[str, ...], complaint: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.replace(*change) if change else PROGRAM)
    words = ["--strict", "--follow-imports=silent", "--ignore-missing-imports", str(program)]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *words], capture_output=True, text=True, check=False,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert (done.returncode == 0) == (not complaint), done.stdout
    assert complaint in done.stdout
