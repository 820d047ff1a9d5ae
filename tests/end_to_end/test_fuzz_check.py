"""Plans of every brokenness through the whole of `hushbeam check`: a table or one line."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipelines.cli import cli
from tests.fakes import canaries
from tests.oracles.wire import EXAMPLES

RUNS = max(20, EXAMPLES // 20)  # of the whole command

PLAN: dict[str, Any] = {
    "collection": "trips", "version": 2, "unit": "user", "user_column": "user", "model": "local",
    "input": "logs/{window}/*.parquet", "output": "out/{window}", "min_reports": 1000,
    "epsilon": 2.0, "budget": {"epsilon": 8.0, "delta": 1e-6}, "ledger": "ledger.sqlite",
    "metrics": [
        {"name": "city", "kind": "histogram", "column": "city", "domain": "declared.txt",
         "share": 0.25},
        {"name": "speed", "kind": "mean", "column": "speed", "bounds": "0,60"},
        {"name": "rows", "kind": "vector-mean", "number": ["f1=0,1", "f2=-1,1"],
         "category": ["kind=declared.txt"], "share": 0.5},
    ],
}  # fmt: skip
RAW = ("raw.parquet", "raw.txt")  # what people did, where a file of declared values should be named

WORDS = [
    *RAW, "", " ", "none.txt", ".", "..", "/", "~", "{window}", "{", "{0}", "%s", "\0", "\u2028",
    "\ud800", "\x1b[31m", "[red]", "1..3", "3..1", "0..0", "1..1000000", "1..9" + 30 * "9",
    "0,60", "60,0", "0,", "nan,1", "0,inf", "-1e308,1e308", "x=0,1", "f*=0,1", "x=1..2",
    "x=raw.txt", "user", "row", "local", "central", "histogram", "mean", "distribution",
    "vector-mean", "strings", "levels", "threshold", "train", "auto", "grr", "duchi", "none",
    "user per day", "P1D", "1d", "-1d", "gs://", "sqlite", "2026-11-21", "x" * 300,
]  # fmt: skip
ODD = [
    None, True, False, 0, -1, 1, 3, 0.1, 1e-300, 1e300, 10**30, -(10**30), float("nan"),
    float("inf"), float("-inf"), [], {}, [[]], {"a": {}}, ["x=0,1"],
]  # fmt: skip
KEYS = [
    "collection", "version", "unit", "user_column", "model", "input", "output", "min_reports",
    "epsilon", "delta", "budget", "ledger", "metrics", "name", "kind", "column", "domain", "bounds",
    "share", "number", "vector", "category", "mechanism", "radius", "shrink", "confidence", "cells",
    "stream", "schedule", "epsilon_local", "groups", "of", "more", "",
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where plans are checked: the declared values are no secret there, and the raw ones are."""
    folder, before = tmp_path_factory.mktemp("plans"), Path.cwd()
    (folder / "declared.txt").write_text("red\ngreen\nblue\n")
    pq.write_table(canaries.table(), folder / "raw.parquet")
    users = canaries.table()["user"].drop_null().to_pylist()
    (folder / "raw.txt").write_text("\n".join(users) + "\n")  # many of them twice
    os.chdir(folder)
    yield
    os.chdir(before)


def places(plan: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all that a plan consists of."""
    if isinstance(plan, dict):
        inner = list(plan.items())
    else:
        inner = list(enumerate(plan)) if isinstance(plan, list) else []
    return [found for key, value in inner for found in ((*way, key), *places(value, (*way, key)))]


@st.composite
def plans(draw: st.DrawFn) -> str:
    """The plan with parts changed, gone, doubled or under other names."""
    plan = copy.deepcopy(PLAN)
    for _ in range(draw(st.integers(1, 3))):
        found = places(plan)
        if not found:
            break
        *way, last = draw(st.sampled_from(found))
        holder = plan
        for key in way:
            holder = holder[key]
        kind = draw(st.sampled_from(["word", "odd", "gone", "key", "double"]))
        if kind == "word":
            holder[last] = draw(st.sampled_from(WORDS))
        elif kind == "odd":
            holder[last] = copy.deepcopy(draw(st.sampled_from(ODD)))
        elif kind == "gone":
            del holder[last]
        elif isinstance(holder, list):
            holder.append(copy.deepcopy(holder[last]))
        else:
            holder[draw(st.sampled_from(KEYS))] = copy.deepcopy(holder[last])
    return json.dumps(plan, indent=1)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """The plan's text, cut and put together otherwise, without new digits, for size takes time."""
    text = json.dumps(PLAN, indent=1)
    signs = st.text(st.characters(exclude_categories=["Nd", "Cs"]), max_size=8)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 30)))
        text = text[:start] + draw(signs) + text[end:]
    return text


def checked(text: str) -> int:
    """The exit code of a check, of whatever it says no word being a secret."""
    out, err = io.StringIO(), io.StringIO()
    # Beside the files that it names.
    Path("plan.yaml").write_text(text, encoding="utf-8", errors="replace")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main(["check", "plan.yaml"])
    said = out.getvalue() + err.getvalue()
    assert code in (0, 2), said
    assert "Traceback" not in said
    assert not canaries.found(said), said
    lines = err.getvalue().splitlines()
    assert all(line.startswith("hushbeam: ") for line in lines), said
    if code == 0:
        assert "one report" in out.getvalue()
        assert all(line.startswith("hushbeam: warning: ") for line in lines), said
    else:
        assert (out.getvalue(), len(lines)) == ("", 1), said
    return code


def named(name: str) -> str:
    """The plan with raw values in place of declared ones."""
    return json.dumps(PLAN).replace("declared.txt", name)


@given(st.one_of(plans(), texts()))
@example(named("raw.parquet"))
@example(named("raw.txt"))
@settings(max_examples=RUNS, deadline=None)
def test_fuzz_a_check_shows_a_table_or_one_line(text: str) -> None:
    checked(text)


def test_the_plan_itself_is_fine_and_one_letter_less_is_not() -> None:
    text = json.dumps(PLAN)
    assert checked(text) == 0
    assert checked(text.replace("trips", "")) == 2
