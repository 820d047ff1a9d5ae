"""What the README shows is run as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)


def test_there_are_snippets():
    assert len(SNIPPETS) == 2


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_snippets_run(number, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SNIPPETS[number]], cwd=README.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert number == 0 or done.stdout.startswith("20000 [")


def test_the_commands_exist(capsys):
    from pipelines.cli import main

    with pytest.raises(SystemExit):
        main(["--help"])
    listed = capsys.readouterr().out
    for command in set(re.findall(r"^hushbeam ([a-z-]+)", README.read_text("utf-8"), re.MULTILINE)):
        assert command in listed
