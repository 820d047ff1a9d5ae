"""One run of some tests in a copy of the tree, and what it says about the bug in it."""

from __future__ import annotations

import os
import shutil
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.mutants.forks import Forks

FOLDERS = ("mechanisms", "transforms", "pipelines", "hushbeam", "tests")
LONGEST = 60  # seconds that a test has; one that takes more hangs, and has failed
_SECONDS = 600  # after which a run hangs that no test of it could end

# What a change that is no Python, or misses a name, ends in: it says nothing about a test.
_NO_BUG = ("NameError", "SyntaxError", "IndentationError", "ImportError", "ModuleNotFoundError")


@dataclass(frozen=True)
class Verdict:
    """What became of a trial.

    Attributes:
        kind: "caught", if a test failed; "survived", if all passed; "broken", if the tree could
            not be imported, a name was missing, or there were no such tests; "hung".
        detail: the test that failed, or what broke.
        seconds: that it took.
    """

    kind: str
    detail: str
    seconds: float


def tried(
    root: Path, changes: Mapping[Path, str], tests: Sequence[str], known_by: str, forks: Forks,
    longest: float = LONGEST,
) -> Verdict:  # fmt: skip
    """Run tests in a copy of a tree, up to the first that fails.

    Args:
        root: of the tree.
        changes: files in it -> how they read in the copy.
        tests: files or tests, from the root.
        known_by: what the name of a test must contain to be run.
        forks: where pytest runs.
        longest: seconds that a test has.
    """
    begun = time.monotonic()
    words = ["-x", *tests, *(["-k", known_by] if known_by else [])]
    code, cases = _ran(root, changes, words, forks, longest)
    kind, detail = _read(cases, code)
    return Verdict(kind, detail, time.monotonic() - begun)


def passing(root: Path, tests: Sequence[str], forks: Forks, longest: float = LONGEST) -> set[str]:
    """Those of some tests that do not fail in a tree as it is.

    Args:
        root: of the tree.
        tests: as a verdict names them. What a bug itself brings into a registry has tests that
            are not there without it: they cannot fail.
        forks: where pytest runs.
        longest: seconds that a test has.
    """
    code, cases = _ran(root, {}, tests, forks, longest)
    if code != pytest.ExitCode.USAGE_ERROR:  # whatever else went wrong, a test is named that ran
        return {_named(case) for case in cases if not len(case)}
    if len(tests) == 1:
        return {*tests}
    return {passed for test in tests for passed in passing(root, [test], forks, longest)}


def _ran(
    root: Path, changes: Mapping[Path, str], words: Sequence[str], forks: Forks, longest: float
) -> tuple[int | None, list[ElementTree.Element]]:
    """How pytest ended, and what became of each test."""
    with TemporaryDirectory(prefix="mutant-") as folder:
        copy, report = _copied(root, Path(folder) / "tree"), Path(folder) / "report.xml"
        for path, text in changes.items():
            target = copy / path.relative_to(root)
            target.unlink(missing_ok=True)  # it is the tree's own file
            target.write_text(text)
        own = [f"--timeout={longest}", "--timeout-method=signal", f"--junitxml={report}"]
        code = forks.run(copy, [*own, *words], _SECONDS)
        cases = ElementTree.parse(report).iter("testcase") if report.is_file() else ()
        return code, [*cases]


def _copied(root: Path, copy: Path) -> Path:
    """The folders that a bug may be in, byte code and all, and links to what stands beside them."""
    copy.mkdir()
    for entry in root.iterdir():
        if entry.name in FOLDERS:
            shutil.copytree(entry, copy / entry.name, copy_function=_linked)
        elif not entry.name.startswith("."):
            (copy / entry.name).symlink_to(entry)
    return copy


def _linked(source: str, target: str) -> None:
    """The same file under another name: to copy trees took as long as their tests."""
    try:
        os.link(source, target)
    except OSError:  # on another disk
        shutil.copy2(source, target)


def _read(cases: Sequence[ElementTree.Element], code: int | None) -> tuple[str, str]:
    """What pytest's report says: a failure of a test, and not an error on the way to it."""
    if code is None:
        return "hung", f"no end after {_SECONDS} s"
    for case in cases:
        failure, error = case.find("failure"), case.find("error")
        if failure is not None:
            said = failure.get("message", "").splitlines()[0]
            if said.startswith(_NO_BUG):
                return "broken", said
            return "caught", _named(case)
        if error is not None:
            return "broken", f"{_named(case)}: {error.get('message', '').splitlines()[0]}"
    if code == 0 and cases:
        return "survived", f"{len(cases)} tests passed"
    return "broken", "there are no such tests" if code in (4, 5) else f"pytest ended with {code}"


def _named(case: ElementTree.Element) -> str:
    """A test as pytest names it."""
    module, name = case.get("classname", ""), case.get("name", "")
    return f"{module.replace('.', '/')}.py::{name}" if module else name
