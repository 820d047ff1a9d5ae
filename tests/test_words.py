"""Names in the product say what they name: see docs/extending/architecture.md."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRODUCT = ("mechanisms", "transforms", "pipelines", "hushbeam")
WORDS = {"told", "found", "asked", "held", "each"}

# Fingerprints of plans cover the names of mechanisms and of their fields, by
# `mechanisms.wire.fingerprint`: under others, reports on their way would be dropped as those of
# another plan.
TWICE = {
    "Gaussian": {"mechanisms/counters/noise.py", "mechanisms/mean/gaussian.py"},
    "Laplace": {"mechanisms/counters/noise.py", "mechanisms/papers/laplace.py"},
    "RunningTotals": {"mechanisms/running/totals.py", "hushbeam/totals.py"},
    # What users of Beam type: `private.Count`, and the statistic behind it.
    **{
        name: {"hushbeam/beam.py", f"pipelines/metrics/statistics/{name.lower()}.py"}
        for name in ("Count", "Distribution", "Histogram", "Mean", "Sum")
    },
    "Strings": {"hushbeam/beam.py", "mechanisms/heavy_hitters/discovery.py"},
}
FIELDS = {
    ("mechanisms/counters/crosstabs.py", "asked"),
    ("pipelines/metrics/vector_mean/options.py", "count_each"),  # people type it
}


@cache
def modules() -> dict[str, ast.Module]:
    """Path from the root -> what stands there."""
    files = (path for package in PRODUCT for path in sorted((ROOT / package).rglob("*.py")))
    return {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text("utf-8")) for path in files}


def bound(tree: ast.AST) -> Iterator[str]:
    """Names that a module gives: to variables, arguments, fields, properties and functions."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ExceptHandler(name=str(name)) | ast.alias(asname=str(name)):
                yield name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.MatchMapping(rest=str(name)):
                yield name


def participles(tree: ast.AST) -> set[str]:
    """Names made of words that say how a value was come by, and not what it is."""
    return {name for name in bound(tree) if not WORDS.isdisjoint(name.lower().split("_"))}


def test_no_name_says_only_how_its_value_was_come_by() -> None:
    wrong = {(file, name) for file, tree in modules().items() for name in participles(tree)}
    assert wrong == FIELDS


def test_no_two_classes_have_one_name() -> None:
    files = defaultdict(list)
    for file, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                files[node.name].append(file)
    assert {name: {*where} for name, where in files.items() if len(where) > 1} == TWICE


@pytest.mark.parametrize(
    "code",
    [
        "found = 1",
        "for _each in (): pass",
        "def f(*, asked=1): pass",
        "lambda told: 1",
        "class A:\n    held: int = 1",
        "class A:\n    def is_held(self): pass",
        "self._told = 1",
        "if (found := 1): pass",
        "with open(1) as held: pass",
        "try: pass\nexcept E as found: pass",
        "import x as found",
        "match 1:\n    case [*found]: pass",
        "_HELD_BACK = 1",
    ],
)
def test_such_names_are_noticed(code: str) -> None:
    assert len(participles(ast.parse(code))) == 1


def test_what_others_have_named_and_longer_words_are_let_be() -> None:
    assert not participles(ast.parse("withheld, foundation = theirs.found, f(each=1)"))
