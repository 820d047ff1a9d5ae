"""deploy/two-organisations: its Compose files are such, and their commands lead to a figure."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as pq
import pytest
import yaml
from scipy import stats

from pipelines.serve.application import shown
from pipelines.serve.terms import WindowTerms
from pipelines.serve.window import Status
from tests.fakes.devices import free_port
from tests.oracles.statistics import FALSE_ALARM

ROOT = Path(__file__).parents[1]
HERE = ROOT / "deploy" / "two-organisations"
FILES = ("shuffler", "collector")
WINDOW = "2026-11-20"


@pytest.fixture(scope="module")
def run() -> ModuleType:
    """run.py, which lies in no package."""
    spec = importlib.util.spec_from_file_location("two_organisations", HERE / "run.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and named tuples look for it there
    spec.loader.exec_module(module)
    return module


def conforms(file: Path) -> bool:
    """To the schema of the Compose specification that check-jsonschema brings."""
    words = ["--builtin-schema", "vendor.compose-spec", str(file)]
    return not subprocess.run(
        [sys.executable, "-m", "check_jsonschema", *words], capture_output=True, check=False
    ).returncode


def test_compose_files_conform_to_the_specification(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    for name in FILES:
        file = HERE / f"{name}.yaml"
        assert conforms(file)
        broken.write_text(file.read_text().replace("restart:", "restarts:"))
        assert not conforms(broken)


def test_compose_files_name_what_they_need() -> None:
    for name in FILES:
        described = yaml.safe_load((HERE / f"{name}.yaml").read_text())
        for service in described["services"].values():
            (command,) = service["command"]
            # A variable of the shell is known to the container; one `$` would be Compose's own.
            variables = set(re.findall(r"\$\$(\w+)", command)) - {"plan"}
            assert variables <= set(service["environment"])
            assert "$" not in command.replace("$$", "")
            assert service["entrypoint"] == ["/bin/sh", "-euc"]
            # Services that run always, and a schedule that nothing starts unasked.
            assert ("restart" in service) != ("profiles" in service)


def test_every_service_is_run_and_by_its_command(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes: list[tuple[str, str, str]] = []

    def record(organisation, service: str) -> None:
        words = organisation._process(service)["args"]
        assert words[:2] == ["/bin/sh", "-euc"]
        processes.append((organisation.name, service, words[2].replace("$", "$$")))

    @contextlib.contextmanager
    def serving(organisation, service: str, port: int):
        record(organisation, service)
        yield

    monkeypatch.setattr(run.Organisation, "run", record)
    monkeypatch.setattr(run.Organisation, "serving", serving)
    for name in ("_site", "_verify"):
        monkeypatch.setattr(run, name, lambda *_: None)
    arguments = argparse.Namespace(window=WINDOW, devices=0, browsers=0, stay=False)
    run.window_of(tmp_path / "two", arguments, run.PORTS)
    described = {
        (name, service, fields["command"][0])
        for name in FILES
        for service, fields in yaml.safe_load((HERE / f"{name}.yaml").read_text())[
            "services"
        ].items()
    }
    assert sorted(processes) == sorted(described)
    recipe = re.search(r"^two-organisations:.*\n\t(.*)", (ROOT / "Makefile").read_text(), re.M)[1]
    assert recipe == "$(BIN)/python deploy/two-organisations/run.py $(ARGS)"


def test_alarms_and_dashboard_ask_for_what_services_show(run: ModuleType) -> None:
    terms = WindowTerms("reports", WINDOW, "00" * 16, 1, (), True, 9)
    lines = shown(Status(terms, True, 3, {409: 1})) + shown(Status(terms, False, 3, {}))
    known = {line.partition("{")[0] for line in lines} | {"hushbeam_commit_failures", "up"}
    labels = {*re.findall(r"(\w+)=", " ".join(lines))} | {"instance", "job"}
    rules = yaml.safe_load((HERE / "alarms.yaml").read_text())["groups"][0]["rules"]
    panels = json.loads((HERE / "dashboard.json").read_text())["panels"]
    asked = [rule["expr"] for rule in rules]
    asked += [target["expr"] for panel in panels for target in panel["targets"]]
    names = {name for text in asked for name in re.findall(r"\b(?:hushbeam_\w+|up)\b", text)}
    assert names == known
    spoken = [rule["annotations"]["summary"] for rule in rules]
    spoken += [target["legendFormat"] for panel in panels for target in panel["targets"]]
    used = re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)", " ".join(spoken))
    assert used
    assert {*used} <= labels
    config = yaml.safe_load((HERE / "prometheus.yaml").read_text())
    read = [to for part in config["scrape_configs"][0]["static_configs"] for to in part["targets"]]
    served = {name: port for name, port in run.PORTS.items() if name != "PAGE"}
    assert sorted(read) == sorted(f"127.0.0.1:{port}" for port in served.values())


@pytest.mark.verify
def test_a_window_leads_from_keys_to_a_figure_that_is_verified(tmp_path: Path) -> None:
    """Two devices with a token each, by both organisations' commands; an empty page's window."""
    folder = tmp_path / "two"
    ports = ("page-endpoint", "issuer", "device-endpoint", "page")
    words = [f"--{name}={free_port()}" for name in ports]
    done = subprocess.run(
        [sys.executable, str(HERE / "run.py"), "--folder", str(folder), "--window", WINDOW,
         "--devices=2", "--browsers=0", *words],
        capture_output=True, text=True, check=False, timeout=800,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "0 faults" in done.stdout
    assert re.search(r"devices: .*\(other or missing\) -?\d", done.stdout)
    assert "None" not in done.stdout
    assert "1 report in" in done.stdout
    assert not re.search(r"\b1 (reports|tokens)\b", done.stdout)
    true = {"page": {}, "devices": {"soup": 1, "salad": 1}}
    for plan, counts in true.items():
        place = folder / "collector" / "released" / WINDOW / plan / "lunch" / "count.parquet"
        table = pq.read_table(place)
        assert {*counts} <= {*table["value"].to_pylist()}
        for row in table.to_pylist():
            far = stats.norm.isf(FALSE_ALARM / 20) * max(1.0, row["standard_error"])
            assert abs(row["estimate"] - counts.get(row["value"], 0)) < far
    # What one organisation must not have: a key that opens seals, or the other's memory.
    assert not [*(folder / "shuffler").rglob("*.private.pem")]
    assert not [*(folder / "exchange").rglob("*.private.pem")]
    assert not [*(folder / "collector" / "issuer").glob("*.seed")]
    shutil.rmtree(folder)
