"""The TypeScript client against the product: `make test-clients` runs it, for it takes Node.

Reports of 10^5 devices, and those of the example's page in chromium, by way of its endpoint, go
through shuffle and collect; and messages are made of keystreams that no stored vector has. What is
random is held to its law: a test fails by chance with probability below 1e-9 (`FALSE_ALARM`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import asdict
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from mechanisms.catalog import build
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.randomness import PermanentRandom, SeededRandom
from mechanisms.wire import binary
from mechanisms.wire.report import Reports
from mechanisms.wire.sealing import KeyRing, create_key
from pipelines.cli import cli
from pipelines.plan.described import described
from pipelines.plan.loading import load
from pipelines.plan.split import Split, split
from tests.fakes import devices
from tests.oracles.checked_plan import CheckedPlan
from tests.oracles.client_vectors import key_of
from tests.oracles.statistics import FALSE_ALARM, follows, sample_size, tilted

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "typescript"
EXAMPLE = ROOT / "examples" / "client"
WINDOW = "2026-11-20"
PLAN = """\
collection: devices
version: 1
input: log-{window}.parquet
output: released/{window}
unit: user
user_column: user
"""
RANDOMISED = """\
epsilon: 4
model: local
min_reports: 1000
metrics:
  - {name: hour, kind: histogram, column: hour, domain: 0..5, mechanism: olh, postprocess: none}
"""
COUNTERS = """\
drawn_by: shuffler
epsilon: 4
delta: 1e-6
metrics:
  - {name: hours, kind: count, column: hour, domain: 0..2, rows_per_user: 2}
"""
USERS = 100_000
PAGES = 2500  # at least `sample_size` of what the test must tell apart


def node(script: str, *words: object) -> str:
    """What a script of the client's tests prints."""
    done = subprocess.run(
        ["node", str(CLIENT / "test" / script), *map(str, words)],
        capture_output=True, text=True, check=False, timeout=600,
        env={name: value for name, value in os.environ.items() if name != "TMPDIR"},
    )  # fmt: skip
    # Chromium keeps a socket in the folder for temporary files, and its path must be short.
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def prepared(text: str) -> tuple[Split, dict[str, Any]]:
    """A plan in the folder, and what `check --json` tells clients of it."""
    Path("plan.yaml").write_text(text)
    parted = split(load("plan.yaml"), WINDOW)
    told = CheckedPlan.model_validate(described(parted.job, WINDOW, None, parted.job))
    return parted, told.model_dump(mode="json")


def party(command: str, *words: str) -> None:
    """A command on the plan."""
    assert cli.main(["parties", command, "plan.yaml", "--window", WINDOW, *words]) == 0


def read(*files: Path | str, parted: Split, sealed: bool) -> Reports:
    """All reports of some files, none of which is dropped."""
    form = parted.form(sealed, [0])
    found = [binary.decode(Path(file).read_bytes(), parted.expected(form)) for file in files]
    assert not any(screened.dropped for screened in found)
    records = np.concatenate([screened.reports.records for screened in found])
    return Reports(parted.fingerprint, found[0].reports.form, records)


def estimates(name: str, table: str) -> list[float]:
    return pq.read_table(f"released/{WINDOW}/{name}/{table}.parquet")["estimate"].to_pylist()


# ---- messages, both ways -------------------------------------------------------------------------


def drawn_mechanisms() -> list[Any]:
    """Mechanisms of parameters that are drawn."""
    rng = SeededRandom(20261120)

    def below(bound: int) -> int:
        return int(rng.integers(bound, 1)[0])

    found: list[Any] = []
    for _ in range(12):
        epsilon = 0.5 + below(700) / 100
        domain = {"domain_size": 2 + below(3000)}
        orders = [2, 3, 4, 5, 7, 8, 11, 13, 16, 32, 64, 101, 128, 257]
        ranged = domain | {"hash_range": orders[below(len(orders))]}
        found.append(build("grr", epsilon=epsilon, **domain))
        found.append(build("olh", epsilon=epsilon, **ranged))
        found.append(build("projective", epsilon=epsilon, **ranged))
    for epsilon, cells in ((0.3, 3), (2.0, 100), (5.0, 1024)):
        found.append(build("optimal", epsilon=epsilon, cells=cells))
        found.append(WithUnusable(found[-1]))
    for n, size in ((1000, 40), (100_000, 3)):
        found.append(build("poisson", epsilon=1.0, delta=1e-5, n=n, domain_size=size))
    return found


def test_messages_of_new_keystreams_are_those_of_the_python_client(tmp_path: Path) -> None:
    asked, wanted = [], []
    for number, mechanism in enumerate(drawn_mechanisms()):
        key = key_of(f"both ways {number}")
        cells = SeededRandom(number).integers(mechanism.inputs, 400).tolist()
        asked.append({"channel": asdict(mechanism.specification), "key": key.hex(), "cells": cells})
        messages = mechanism.perturb(np.array(cells), PermanentRandom(key))
        wanted.append([str(message) for message in messages.tolist()])
    request = tmp_path / "request.json"
    request.write_text(json.dumps(asked))
    assert json.loads(node("messages.mjs", request)) == wanted


# ---- whole populations ---------------------------------------------------------------------------


def population(told: dict[str, Any], rows: list[Any], pem: str | None = None) -> str:
    """A file of the reports of users with some rows."""
    request = {"plan": told, "metric": told["metrics"][0]["name"], "rows": rows}
    Path("request.json").write_text(json.dumps(request | ({} if pem is None else {"key": pem})))
    node("population.mjs", "request.json", "sent.bin")
    return "sent.bin"


def test_a_hundred_thousand_devices_come_to_the_estimate_of_their_law(workspace: Path) -> None:
    parted, told = prepared(PLAN + RANDOMISED)
    counts = np.array([40_000, 25_000, 20_000, 10_000, 4_000, 0, 1_000])  # the last have none
    hours = [*range(5), 5, None]
    rows = [[{"hour": hour}] for hour, n in zip(hours, counts, strict=True) for _ in range(n)]
    sent = population(told, rows)
    reports = read(sent, parted=parted, sealed=False)
    assert len(reports) == len(np.unique(reports.records["report_id"], axis=0)) == USERS
    mechanism: Any = parted.mechanisms[0]
    law = sum(n * mechanism.channel(cell) for cell, n in enumerate(counts.tolist())) / USERS
    found = mechanism.count(reports.records["message"])
    assert USERS >= sample_size(law, tilted(law))
    assert follows(found, law)
    assert not follows(found, tilted(law))
    party("shuffle", "--input", sent, "--output", "mixed")
    party("collect", "--input", "mixed")
    shares = estimates("hour", "histogram")
    errors = np.sqrt(mechanism.variance(counts[:6] / USERS, USERS))
    far = stats.norm.isf(FALSE_ALARM / 2 / 6)
    assert (np.abs(shares[:6] - counts[:6] / USERS) < far * errors).all()


def test_sealed_counters_are_opened_and_counted(workspace: Path) -> None:
    parted, told = prepared(PLAN + COUNTERS)
    pem = new_keys()
    rows = [[{"hour": k % 3}, {"hour": (k + k // 50) % 3}] for k in range(150)]
    sent = population(told, rows, pem)
    layout = parted.counters[0].layout
    ring = KeyRing.read(Path("keys"))
    opened = ring.open(read(sent, parted=parted, sealed=True).apart(layout.types))
    assert not opened.dropped
    records = opened.reports.records
    counted = layout.count(records["message"], records["level"])
    users = Counter(hour for own in rows for hour in {row["hour"] for row in own})
    assert counted[:3].tolist() == [users[0], users[1], users[2]]
    key = next(Path("keys").glob("*.public.pem"))
    party("shuffle", "--input", sent, "--seal", str(key), "--output", "mixed")
    party("collect", "--input", "mixed", "--key", str(key).replace("public", "private"))
    law = parted.counters[0].error_law()
    far = law.isf(FALSE_ALARM / 8)
    for hour, estimate in enumerate(estimates("hours", "count")[:3]):
        assert abs(estimate - users[hour]) <= far


def new_keys() -> str:
    """A new pair of keys in `keys`; the public one."""
    Path("keys").mkdir()
    create_key(Path("keys"))
    return next(Path("keys").glob("*.public.pem")).read_text()


# ---- the example ---------------------------------------------------------------------------------


@pytest.fixture
def site(workspace: Path) -> Path:
    """What a web site would serve: the page, the client, the plan and the public key."""
    folder = workspace / "site"
    folder.mkdir()
    for name in ("plan.yaml", "meals.txt"):
        shutil.copy(EXAMPLE / name, workspace)
    shutil.copytree(CLIENT / "dist", folder / "client")
    for name in ("index.html", "page.js"):
        shutil.copy(EXAMPLE / name, folder)
    _, told = prepared((EXAMPLE / "plan.yaml").read_text())
    (folder / "plan.json").write_text(json.dumps(told))
    (folder / "key.pem").write_text(new_keys())
    return folder


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """No line for each request."""


def test_pages_in_chromium_report_through_the_endpoint(site: Path) -> None:
    """All answer alike, so that the law of what was landed is one row of the channel."""
    handler = partial(_Quiet, directory=str(site))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    words = ["plan.yaml", "--window", WINDOW, "--landing", "landing"]
    try:
        with devices.serving(*words) as (port, _):
            index, own = site / "index.html", "http://127.0.0.1"
            known = f"{own}:{port} {own}:9;"  # of its policy; at the second nobody listens
            index.write_text(index.read_text().replace("http://localhost:8080;", known))
            page = f"{own}:{server.server_address[1]}/index.html"
            told = json.loads(node("page.mjs", page, f"{own}:{port}/reports", "salad", PAGES))
    finally:
        server.shutdown()
    assert cli.main(["serve", *words, "--close"]) == 0
    assert told == {"thanked": PAGES + 2}
    parted, _ = prepared((EXAMPLE / "plan.yaml").read_text())
    landed = [*Path("landing").glob("*.reports")]
    opened = KeyRing.read(Path("keys")).open(read(*landed, parted=parted, sealed=True))
    mechanism: Any = parted.mechanisms[0]
    found, law = mechanism.count(opened.reports.records["message"]), mechanism.channel(1)
    assert found.sum() == PAGES + 1  # and what came twice is there once
    other = build("grr", epsilon=1.4, domain_size=5).channel(1)  # in the place of the plan's 2
    assert PAGES >= sample_size(law, other)
    assert follows(found, law)
    assert not follows(found, other)
    key = next(Path("keys").glob("*.public.pem"))
    party("shuffle", "--input", *map(str, landed), "--seal", str(key), "--output", "mixed")
    party("collect", "--input", "mixed", "--key", str(key).replace("public", "private"))
    table = pq.read_table(f"lunch-release/{WINDOW}/lunch/histogram.parquet")
    unbiased = mechanism.estimate(found)[:4]
    assert abs(unbiased[1] - 1) < stats.norm.isf(FALSE_ALARM) * np.sqrt(
        mechanism.variance(1.0, PAGES)
    )
    assert int(np.argmax(table["estimate"].to_numpy())) == 1


# ---- the recipe ----------------------------------------------------------------------------------


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_commands_of_the_readme_lead_to_a_release(tmp_path: Path) -> None:
    """As they are typed, one after another, in a copy of what they read; only ports are others."""
    blocks = re.findall(
        r"^```sh\n(.*?)^```", (ROOT / "clients" / "README.md").read_text(), re.M | re.S
    )
    assert len(blocks) == 3
    recipe = "".join(blocks)
    for port in ("8000", "8080"):
        assert port in recipe
        recipe = recipe.replace(port, str(_free_port()))
    clone, commands = tmp_path / "clone", tmp_path / "commands"
    made = shutil.ignore_patterns("node_modules", "dist")
    shutil.copytree(CLIENT, clone / "clients" / "typescript", ignore=made)
    shutil.copytree(EXAMPLE, clone / "examples" / "client")
    commands.mkdir()
    # The environment has what pip would install, and must not get a copy of the tree.
    (commands / "pip").write_text('#!/bin/sh\n[ "$*" = "install .[parties]" ]\n')
    (commands / "pip").chmod(0o755)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"trap 'kill $(jobs -p) || :' EXIT\n{recipe}"],
        cwd=clone, capture_output=True, text=True, timeout=600, check=False,
        env=os.environ | {
            "PATH": f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "XDG_STATE_HOME": str(tmp_path / "state"),
        },
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "{ sent: 1250 }" in done.stdout
    table = pq.read_table(clone / "lunch/lunch-release" / WINDOW / "lunch" / "histogram.parquet")
    assert table["value"].to_pylist() == ["soup", "salad", "sandwich", "nothing"]
    mechanism: Any = build("grr", epsilon=2.0, domain_size=5)
    far = stats.norm.isf(FALSE_ALARM / 8)
    for share, true in zip(table["unbiased"].to_pylist(), (0.4, 0.3, 0.2, 0.1), strict=True):
        assert abs(share - true) < far * np.sqrt(mechanism.variance(true, 1250))
    assert (clone / "lunch/lunch-release" / WINDOW / "report.html").exists()
