"""The net under the tests: every bug can be planted, and what is no catch is told from one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants.__main__ import MUTANTS, ROOT, main, run
from tests.mutants.mutant import Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_bug_has_its_place_and_its_tests(mutant: Mutant) -> None:
    """A change that moves what a bug replaces anchors the bug anew, here and now."""
    changes = mutant.planted(ROOT)
    path = ROOT / mutant.file
    assert changes[path] != path.read_text()
    if path.suffix == ".py":
        compile(changes[path], path, "exec")
    assert mutant.tests
    for test in mutant.tests:
        assert (ROOT / test.partition("::")[0]).is_file()


def test_bugs_have_names_of_their_own() -> None:
    assert set(Counter(mutant.name for mutant in MUTANTS).values()) == {1}
    assert len(MUTANTS) >= 22


# ---- verdicts, on a tree of a coin and its tests -------------------------------------------------

COIN = Mutant(
    "biased", "Heads are likelier.", "mechanisms/coin.py", "1 / 2", "2 / 3", ("tests/test_coin.py",)
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "mechanisms/__init__.py": "",
        "mechanisms/coin.py": "def heads():\n    return 1 / 2\n",
        "tests/test_coin.py": "from mechanisms.coin import heads\n\n"
        "def test_sign():\n    assert heads() > 0\n\n"
        "def test_heads():\n    assert 2 * heads() == 1\n",
        "tests/test_weak.py": "def test_nothing():\n    pass\n",
        "tests/test_wrong.py": "def test_fails():\n    assert False\n",
        "tests/test_long.py": "from mechanisms.coin import heads\n\n"
        "def test_a_walk_ends():\n    place = 0\n"
        "    while place != 1:\n        place += 2 * heads()\n",
    }
    for name, text in files.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "tree"


@pytest.mark.verify
def test_what_is_no_catch_is_told_from_one(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    others = {
        "survived": replace(COIN, name="unseen", tests=("tests/test_weak.py",)),
        "broken": replace(COIN, name="no-python", after="1 /"),
        "broken ": replace(COIN, name="no-name", after="half"),
        "unsound": replace(COIN, name="always-red", tests=("tests/test_wrong.py",)),
        "broken  ": replace(COIN, name="no-tests", tests=("tests/test_gone.py",)),
        "unplanted": replace(COIN, name="moved", before="1 / 3"),
        "unplanted ": replace(COIN, name="twice", before="e"),
    }
    assert run(root, [COIN, *others.values()], jobs=2) == 1
    out = capsys.readouterr().out
    assert "tests/test_coin.py::test_heads" in out
    assert "8 planted, 1 caught" in out
    for kind, mutant in others.items():
        assert f"{mutant.name} ({kind.strip()})" in out
    assert (root / "mechanisms/coin.py").read_text().endswith("1 / 2\n")  # a copy was changed


@pytest.mark.verify
def test_a_bug_may_be_a_new_file_that_only_some_tests_may_know(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    added = replace(
        COIN,
        after="__import__('mechanisms.third').third.SHARE",
        adds={"mechanisms/third.py": "SHARE = -1\n"},
        known_by="heads",  # though `test_sign` fails before it
    )
    assert run(root, [added], jobs=1) == 0
    assert "tests/test_coin.py::test_heads" in capsys.readouterr().out


@pytest.mark.verify
def test_a_bug_that_makes_a_test_hang_is_caught_by_its_name(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endless = replace(COIN, name="endless", tests=("tests/test_long.py",))
    assert run(root, [endless], jobs=1, longest=2) == 0
    assert "tests/test_long.py::test_a_walk_ends" in capsys.readouterr().out


def test_a_bug_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        main(["no-such-bug"])
    assert ending.value.code == 2
    assert "there is no such bug: no-such-bug" in capsys.readouterr().err
    assert main(["--list", "modulo-bias"]) == 0
    assert capsys.readouterr().out.startswith("modulo-bias: Integers are remainders")
