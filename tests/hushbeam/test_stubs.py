"""What editors know of the functions: what is written is what the options are."""

from __future__ import annotations

import ast
import inspect
import re
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


# A line's words, what is typed in their place, and what a type checker then says.
WRONG = [
    ("column=", "colum=", 'Unexpected keyword argument "colum"'),
    ('drawn_by="each-report"', 'drawn_by="nobody"', "incompatible type \"Literal['nobody']\""),
    ("hushbeam.mean(", "hushbeam.meen(", 'has no attribute "meen"'),
]


@pytest.mark.verify
def test_a_type_checker_knows_them(tmp_path: Path) -> None:
    """All programs in one run: mypy reads Beam's and our own sources once."""
    programs = [PROGRAM, *(PROGRAM.replace(*change[:2]) for change in WRONG)]
    for place, program in enumerate(programs):
        (tmp_path / f"program{place}.py").write_text(program)
    words = ["--strict", "--follow-imports=silent", "--ignore-missing-imports", str(tmp_path)]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *words], capture_output=True, text=True, check=False,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    said = dict.fromkeys(range(len(programs)), "")
    for place, line in re.findall(r"program(\d)\.py:\d+: (error: .*)", checked.stdout):
        said[int(place)] += line
    assert checked.returncode == 1, checked.stdout + checked.stderr
    assert not said[0]
    for place, (*_, complaint) in enumerate(WRONG, start=1):
        assert complaint in said[place]
