"""What a shell completes: every command, and every option of the one that is typed."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest

from pipelines.cli import commands


def offered(script: str, *words: str) -> set[str]:
    """What bash offers at the end of these words."""
    typed = " ".join(map(shlex.quote, words))
    ask = f"COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _hushbeam; "
    ask += "printf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return {*done.stdout.split()}


@pytest.fixture
def bash(run) -> str:
    outcome = run(["completion", "bash"])
    assert (outcome.code, outcome.err) == (0, "")
    return outcome.out


def test_bash_completes_commands_parts_options_and_files(bash: str, workspace) -> None:
    (workspace / "plan.yaml").touch()
    assert offered(bash, "hushbeam", "") == {*commands.names()}
    assert offered(bash, "hushbeam", "hist") == {"histogram"}
    assert offered(bash, "hushbeam", "ledger", "se") == {"settle"}
    assert offered(bash, "hushbeam", "run", "pl") == {"plan.yaml"}
    assert offered(bash, "hushbeam", "run", "plan.yaml", "--wind") == {"--window", "--windows"}
    assert {"--column", "--domain"} <= offered(bash, "hushbeam", "histogram", "--")
    assert "--releases" in offered(bash, "hushbeam", "ledger", "check", "--")
    assert {"--help-all", "--encoding"} <= offered(bash, "hushbeam", "count", "--")  # not in --help


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_the_same_words(shell: str, run) -> None:
    outcome = run(["completion", shell])
    assert outcome.code == 0
    assert all(name in outcome.out for name in commands.names())
    wanted = "-l out-of-domain" if shell == "fish" else "--out-of-domain"
    assert wanted in outcome.out
    if shutil.which(shell):
        check = subprocess.run([shell, "-n"], input=outcome.out, text=True, capture_output=True)
        assert (check.returncode, check.stderr) == (0, "")


def test_another_shell_is_refused(refused) -> None:
    refused(["completion", "csh"], "invalid choice: 'csh'; there are: bash, zsh, fish")
