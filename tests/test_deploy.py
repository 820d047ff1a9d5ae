"""What deploy/ says about the project is still so."""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import apache_beam
import pytest
import yaml

from pipelines.plan import command as plan_file_command

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"


@pytest.fixture(scope="module")
def flex() -> ModuleType:
    """deploy/flex_template.py, which lies in no package."""
    spec = importlib.util.spec_from_file_location("flex_template", DEPLOY / "flex_template.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def hushbeam() -> argparse.ArgumentParser:
    """A parser that knows `run` and `check`."""
    parser = argparse.ArgumentParser(exit_on_error=False, allow_abbrev=False)
    plan_file_command.add_to(parser.add_subparsers())
    return parser


def parameters() -> dict[str, dict]:
    """Of the Flex Template, by name."""
    listed = json.loads((DEPLOY / "flex_template_metadata.json").read_text())["parameters"]
    return {each["name"]: each for each in listed}


def test_the_image_holds_what_is_there_and_the_pinned_beam() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    copied = [line.split()[1:-1] for line in text.splitlines() if line.startswith("COPY ")]
    ours = [name for names in copied for name in names if not name.startswith(("-", "/"))]
    floors = {"mechanisms", "transforms", "pipelines", "hushbeam", "hushbeam_command.py"}
    assert floors | {"requirements.lock"} <= {*ours}
    assert [name for name in ours if not (ROOT / name).exists()] == []
    base = f"apache/beam_python3.11_sdk:{apache_beam.__version__}"
    assert _expanded("SDK").strip() == base
    assert base in (DEPLOY / "README.md").read_text()
    started = re.search(r"FLEX_TEMPLATE_PYTHON_PY_FILE=/hushbeam/(\S+)", text)[1]
    assert started in ours


def _expanded(variable: str) -> str:
    """What a variable of the Makefile comes to."""
    show = f"show:\n\t@echo $({variable})\n"
    words = ["make", "--no-print-directory", "--file=Makefile", "--file=-", "show"]
    return subprocess.run(
        words, cwd=ROOT, input=show, capture_output=True, text=True, check=True
    ).stdout


def test_the_image_is_of_digests_and_its_processes_are_nobodys() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    bases = re.findall(r"^FROM (\S+)", text, re.M)
    assert bases == ["${LAUNCHER}", "${SDK}", "hushbeam"]
    # Both are refused without a digest, and neither has one of our own making.
    for base in ("SDK", "LAUNCHER"):
        assert f'RUN case "${{{base}}}" in *@sha256:*) ;; *) echo "{base}:' in text
    assert not re.search(r"sha256:[0-9a-f]", text)
    users = re.findall(r"^USER (.+)$", text, re.M)
    assert users == ["10001"]
    assert text.index("USER 10001") > text.rindex("pip install")


@pytest.mark.skipif(sys.platform == "win32", reason="the linter is not made for it")
def test_a_linter_has_nothing_to_say_of_the_image() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    good = subprocess.run([linter, DEPLOY / "Dockerfile"], capture_output=True, text=True)
    assert (good.returncode, good.stdout) == (0, "")
    bad = "FROM python\nRUN cd /tmp && sudo pip install hushbeam\n"
    assert subprocess.run([linter, "-"], input=bad, capture_output=True, text=True).returncode == 1


def test_the_bill_of_materials_names_every_pin_with_its_hashes() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    said = subprocess.run(
        [sys.executable, DEPLOY / "sbom.py"], capture_output=True, text=True, check=True
    ).stdout
    bill = json.loads(said)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    named = [(part["name"], part["version"]) for part in bill["components"]]
    pins = re.findall(r"^(\S+?)==(\S+)", lock, re.M)
    assert sorted(named) == sorted([*pins, ("uplot", "1.6.32")])
    script = hashlib.sha256((ROOT / "pipelines/site/vendor/uPlot.iife.min.js").read_bytes())
    assert bill["components"][-1]["hashes"][0]["content"] == script.hexdigest()
    hashes = [
        each["content"]
        for part in bill["components"]
        for reference in part.get("externalReferences", ())
        for each in reference["hashes"]
    ]
    assert hashes == re.findall(r"--hash=sha256:(\w+)", lock)
    (root,) = bill["dependencies"]
    assert {*root["dependsOn"]} == {part["bom-ref"] for part in bill["components"]}


def test_the_launchers_words_are_a_run(
    flex: ModuleType, hushbeam, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUSHBEAM_LEDGER_KEY", "this machine's")
    given = {
        "plan": "gs://bucket/plans/trips.yaml", "window": "2026-11-20",
        "ledger_key": "gs://bucket-keys/ledger-key",
        "sdk_container_image": "image", "staging_location": "gs://bucket/staging",
    }  # fmt: skip
    assert given.keys() == parameters().keys()
    launched = [f"--{name}={value}" for name, value in given.items()]
    known, rest = hushbeam.parse_known_args(
        flex.command([*launched, "--runner=DataflowRunner", "--template_location=gs://bucket/job"])
    )
    assert (known.plan, known.window) == (given["plan"], given["window"])
    assert os.environ["HUSHBEAM_LEDGER_KEY"] == given["ledger_key"]
    assert rest == [*launched[3:], "--runner=DataflowRunner", "--template_location=gs://bucket/job"]
    without, _ = hushbeam.parse_known_args(flex.command(launched[:1]))
    assert without.window is None


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("plan", "gs://bucket/plans/trips.yaml", "/etc/trips.yaml"),
        ("window", "2026-11-20", "../../elsewhere"),
        ("staging_location", "gs://bucket/staging", "staging"),
    ],
)
def test_parameters_are_checked_before_anything_starts(name: str, good: str, bad: str) -> None:
    (pattern,) = parameters()[name]["regexes"]
    assert re.fullmatch(pattern.replace(r"\/", "/"), good)
    assert not re.fullmatch(pattern.replace(r"\/", "/"), bad)


def test_the_schedulers_start_runs(hushbeam) -> None:
    (line,) = [
        line for line in (DEPLOY / "schedule" / "crontab").read_text().splitlines()
        if "hushbeam run" in line and not line.startswith("#")
    ]  # fmt: skip
    *_, user, said = line.split(maxsplit=6)
    assert user == "hushbeam"
    words = said.partition(" >")[0].replace('"$(date --utc --date=yesterday +\\%F)"', "2026-11-20")
    known, rest = hushbeam.parse_known_args(words.split()[1:])
    assert (known.window, rest) == ("2026-11-20", [])

    steps = yaml.safe_load((DEPLOY / "schedule" / "cloud-scheduler.yaml").read_text())["main"]
    (launch,) = [step["launch"] for step in steps["steps"] if "launch" in step]
    given = launch["args"]["body"]["launchParameter"]["parameters"]
    required = {name for name, each in parameters().items() if not each.get("isOptional")}
    assert required <= given.keys() <= parameters().keys()
