"""docs/extending/your-own-mechanism.md as it stands: its package is installed, its commands run."""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.installed import blocks, install

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/extending/your-own-mechanism.md").read_text("utf-8")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the page's package, as pip would have left it there."""
    (module,), (project,) = (blocks(PAGE, language) for language in ("python", "toml"))
    site = tmp_path_factory.mktemp("site")
    (site / "lies.py").write_text(module)
    install(project, site)
    return site


def environment(site: Path) -> dict[str, str]:
    """One in which the package is installed, and `python` and `hushbeam` are those of this run."""
    paths = [str(site), str(ROOT)]
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PATH": programs}


def run(command: list[str], site: Path, folder: Path = ROOT) -> str:
    """What a command prints, which must succeed."""
    done = subprocess.run(
        command, cwd=folder, env=environment(site), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_sessions_are_as_printed(site: Path, tmp_path: Path) -> None:
    (session,) = blocks(PAGE, "pycon")
    assert len(doctest.DocTestParser().get_examples(session)) == 3
    (tmp_path / "session.txt").write_text(session)
    run([sys.executable, "-m", "doctest", "session.txt"], site, tmp_path)


AUDIT, HISTOGRAM, CONTRACT = blocks(PAGE, "sh")


@pytest.mark.verify
def test_the_audit_finds_that_the_claim_holds(site: Path) -> None:
    assert "the claim holds" in run(["sh", "-c", AUDIT], site)


def test_a_release_is_made_with_it(site: Path, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    run(["sh", "-c", HISTOGRAM], site, tmp_path)
    statement = json.loads((tmp_path / "origins/statement.json").read_text())
    assert statement["mechanism"]["name"] == "lies"
    assert statement["guarantees"]["local"]["epsilon"] == 4.0


@pytest.mark.verify
def test_the_contract_takes_it(site: Path) -> None:
    printed = run(["sh", "-c", CONTRACT], site)
    assert re.search(r"\b[2-9]\d passed", printed)
    assert "failed" not in printed
