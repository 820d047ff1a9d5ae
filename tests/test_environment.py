"""The environment of `make`: uv fills it with what the lock names, or pip, by the same settings."""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "deploy" / "packages.py"
# Stands in for uv: says how it was called, then fails or not.
UV = """\
import json, os, sys
with open(os.environ["CALLED"], "w") as file:
    json.dump([sys.argv[1:], dict(os.environ)], file)
print("what it says first\\nno such index", file=sys.stderr)
sys.exit(int(os.environ["CODE"]))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty environment, a folder of wheels as the only index, the script beside its pins."""
    folder = tmp_path_factory.mktemp("make")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    shutil.copy(SCRIPT, folder)
    (folder / "uv.txt").write_text(_wheel(folder, "uv", {"uv/__main__.py": UV}))
    (folder / "lock").write_text(_wheel(folder, "pinned", {"pinned.py": ""}))
    return folder


def _wheel(folder: Path, name: str, files: dict[str, str]) -> str:
    """A wheel of a package; the line that pins it."""
    (folder / "wheels").mkdir(exist_ok=True)
    wheel, record = folder / "wheels" / f"{name}-1.0-py3-none-any.whl", f"{name}-1.0.dist-info"
    files |= {
        f"{record}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{record}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{record}/RECORD": "",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return f"{name}==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"


def _make(place: Path, lock: str = "lock", code: int = 0) -> subprocess.CompletedProcess[str]:
    """What `make` runs, where pip's settings know the folder alone."""
    python = place / "venv" / "bin" / "python"
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_"))}
    settings = {
        "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(place / "wheels"), "PIP_CONFIG_FILE": os.devnull,
        "CODE": str(code), "CALLED": str(place / "called"),
    }  # fmt: skip
    (place / "called").unlink(missing_ok=True)
    subprocess.run([python, "-m", "pip", "uninstall", "-qy", "uv", "pinned"], check=True)
    return subprocess.run(
        [python, place / "packages.py", place / lock],
        env=plain | settings, capture_output=True, text=True, check=False,
    )  # fmt: skip


def _installed(place: Path) -> bool:
    """Whether pip has put the package there: what stands in for uv puts nothing."""
    words = [place / "venv" / "bin" / "python", "-c", "import pinned"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def test_uv_installs_by_pips_settings_and_checks_hashes(place: Path) -> None:
    made = _make(place)
    assert (made.returncode, made.stdout, made.stderr) == (0, "", "")
    words, variables = json.loads((place / "called").read_text())
    assert words[:2] == ["pip", "install"]
    assert {"--require-hashes", "--no-deps", str(place / "lock")} <= {*words}
    assert words[-2:] == ["--python", str(place / "venv" / "bin" / "python")]
    assert variables["UV_FIND_LINKS"] == str(place / "wheels")
    assert variables["UV_OFFLINE"] == "1"
    assert not _installed(place)


def test_pip_installs_where_uv_fails_and_one_line_says_why(place: Path) -> None:
    made = _make(place, code=2)
    assert (made.returncode, made.stdout) == (0, "")
    assert made.stderr.splitlines() == [
        "uv cannot install them (no such index): pip does, in a minute or two",
        "pip has fetched 1 of 1 packages",
        "pip installs them",
    ]
    assert _installed(place)


def test_pip_installs_where_there_is_no_uv_or_another_one(place: Path) -> None:
    (wheel,) = (place / "wheels").glob("uv-*")
    right = wheel.read_bytes()
    for wrong in (None, right + b"\0"):
        wheel.unlink()
        if wrong is not None:
            wheel.write_bytes(wrong)
        made = _make(place)
        wheel.write_bytes(right)
        assert (made.returncode, len(made.stderr.splitlines())) == (0, 3)
        assert not (place / "called").exists()
        assert _installed(place)


def test_pip_too_refuses_what_does_not_match(place: Path) -> None:
    (place / "other").write_text("pinned==1.0 --hash=sha256:" + "0" * 64)
    made = _make(place, "other", code=2)
    assert made.returncode != 0
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in made.stderr
    assert not _installed(place)


def test_the_environment_overrules_files_and_install_overrules_all_commands() -> None:
    settings = runpy.run_path(str(SCRIPT))["uv_settings"]
    listed = "\n".join(
        [
            ":env:.cert='/from/the/environment.pem'", ":env:.unknown='x'",
            "global.cert='/global.pem'", "global.index-url='https://name:word@all/simple'",
            r"global.trusted-host='one two'", "global.proxy='http://proxy:1'",
            r"install.extra-index-url='\nhttps://b/simple\nhttps://c/simple'",
            "install.find-links='/a /b'", "install.index-url='https://mine/simple'",
            "download.index-url='https://not-this'",
        ]
    )  # fmt: skip
    assert settings(listed) == {
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_SYSTEM_CERTS": "true",
        "UV_DEFAULT_INDEX": "https://mine/simple",
        "UV_INDEX": "https://b/simple https://c/simple",
        "UV_FIND_LINKS": "/a,/b",
        "UV_INSECURE_HOST": "one two",
        "SSL_CERT_FILE": "/from/the/environment.pem",
        "ALL_PROXY": "http://proxy:1",
    }
