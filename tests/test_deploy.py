"""What deploy/ says about the project is still so."""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
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
    assert {"mechanisms", "transforms", "pipelines", "requirements.lock"} <= {*ours}
    assert [name for name in ours if not (ROOT / name).exists()] == []
    assert re.search(r"^ARG BEAM=(.+)$", text, re.M)[1] == apache_beam.__version__
    started = re.search(r"FLEX_TEMPLATE_PYTHON_PY_FILE=/hushbeam/(\S+)", text)[1]
    assert started in ours


def test_the_launchers_words_are_a_run(flex: ModuleType, hushbeam) -> None:
    given = {
        "plan": "gs://bucket/plans/trips.yaml", "window": "2026-11-20",
        "sdk_container_image": "image", "staging_location": "gs://bucket/staging",
    }  # fmt: skip
    assert given.keys() == parameters().keys()
    launched = [f"--{name}={value}" for name, value in given.items()]
    known, rest = hushbeam.parse_known_args(
        flex.command([*launched, "--runner=DataflowRunner", "--template_location=gs://bucket/job"])
    )
    assert (known.plan, known.window) == (given["plan"], given["window"])
    assert rest == [*launched[2:], "--runner=DataflowRunner", "--template_location=gs://bucket/job"]
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
