"""docs/tutorial.md as it stands, from the first command to the last, in one shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest

from examples.make_trips import CITIES

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
# Each block with the name of the file that it is to be saved as, if it is no command.
BLOCKS = re.findall(r"(?:as `([\w.-]+)`:\n\n)?^```(\w+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def script() -> str:
    """What a reader types; the package is installed here."""
    typed = []
    for name, language, text in BLOCKS:
        assert (language == "sh") == (name == ""), text
        saved = f"cat > {name} <<'END'\n{text}END\n"
        typed.append(text.replace("pip install .\n", "") if language == "sh" else saved)
    return "".join(typed)


def test_three_commands_lead_from_a_log_to_a_page() -> None:
    first = next(text for _, _, text in BLOCKS if "hushbeam" in text)
    assert [line.split()[1] for line in first.splitlines()] == ["init", "check", "run"]


@pytest.mark.verify
def test_the_tutorial_runs(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    own = {"PATH": paths, "XDG_STATE_HOME": str(tmp_path / "state")}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script()], cwd=tmp_path, env=os.environ | own,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    here = tmp_path / "ten-minutes"
    for page in ("release/report.html", "public/index.html"):
        assert (here / page).is_file()

    days = sorted(path.name for path in (here / "releases").iterdir() if path.is_dir())
    assert days == [f"2026-11-{day:02}" for day in range(1, 8)]
    # What the page says it comes to: 21 Laplace noises of epsilon 1/6 at delta 1e-5.
    assert "together: epsilon 2.844," in done.stdout
    assert "their sum: epsilon 3.5" in done.stdout
    assert "releases: 7 committed" in done.stdout

    # Mixed case and blanks were mended as the plan says, or Oslo would be at a quarter or a half
    # of this; 3 % of all trips name no city. 0.05 is eight standard errors of noise (0.0012) and of
    # which trip was made (0.0056) together: 35 figures are all right but for 1e-10.
    for day in days:
        table = pq.read_table(here / "releases" / day / "cities" / "histogram.parquet")
        shares = dict(zip(table["value"].to_pylist(), table["unbiased"].to_pylist(), strict=True))
        for city, weight in CITIES.items():
            assert abs(shares[city.lower()] - 0.97 * weight / 100) < 0.05
    figures = pv.read_csv(here / "figures.csv")
    assert {*figures["metric"].to_pylist()} == {"cities", "hours", "length"}
