"""One run of some tests in a copy of the tree, and what it says about the bug in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

FOLDERS = ("mechanisms", "transforms", "pipelines", "hushbeam", "tests")
_SECONDS = 900  # after which a run counts as one that hangs

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
    root: Path, changes: Mapping[Path, str], tests: Sequence[str], known_by: str = ""
) -> Verdict:
    """Run tests in a copy of a tree.

    Args:
        root: of the tree.
        changes: files in it -> how they read in the copy.
        tests: files or tests, from the root.
        known_by: what the name of a test must contain to be run.
    """
    begun = time.monotonic()
    with TemporaryDirectory(prefix="mutant-") as folder:
        copy = _copied(root, Path(folder) / "tree")
        for path, text in changes.items():
            target = copy / path.relative_to(root)
            target.write_text(text)
        report = Path(folder) / "report.xml"
        code = _pytest(copy, report, [*tests, *(["-k", known_by] if known_by else [])])
        kind, detail = _read(report, code)
    return Verdict(kind, detail, time.monotonic() - begun)


def _copied(root: Path, copy: Path) -> Path:
    """The folders that a bug may be in, byte code and all, and links to what stands beside them."""
    copy.mkdir()
    for entry in root.iterdir():
        if entry.name in FOLDERS:
            shutil.copytree(entry, copy / entry.name)
        elif not entry.name.startswith("."):
            (copy / entry.name).symlink_to(entry)
    return copy


def _pytest(copy: Path, report: Path, words: Sequence[str]) -> int | None:
    """The exit code of pytest, or None if it hangs."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    # Plugins that nothing here needs take longer to load than most of these tests to run; but
    # for the one whose option stands in pyproject.toml.
    command += ["-p", "pytest_timeout"]
    settings = {
        "PYTHONPATH": str(copy),
        "PYTEST_ADDOPTS": "",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    try:
        return subprocess.run(
            [*command, f"--junitxml={report}", *words],
            cwd=copy,
            env={**os.environ, **threads, **settings},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        ).returncode
    except subprocess.TimeoutExpired:
        return None


def _read(report: Path, code: int | None) -> tuple[str, str]:
    """What pytest's report says: a failure of a test, and not an error on the way to it."""
    if code is None:
        return "hung", f"no end after {_SECONDS} s"
    cases = list(ElementTree.parse(report).iter("testcase")) if report.is_file() else []
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
