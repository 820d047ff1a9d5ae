"""Clients' reports through Pub/Sub: from Google's own emulator to a release of each window.

pytest does not pick this file by itself: it takes a minute. `make test-engines` does.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from google.cloud import pubsub_v1

from deploy.worker_pools import free_port, group, wait_for
from mechanisms.randomness import SeededRandom
from mechanisms.wire import binary
from mechanisms.wire.report import Reports as WireReports
from mechanisms.wire.screening import DUPLICATE, NOT_REPORTS, OTHER_PLAN
from pipelines.plan.loading import load
from pipelines.stream.windows import Streamed, streamed
from transforms.elements.progress import REPORTS
from transforms.rows.windowed import LATE

ROOT = Path(__file__).parents[2]
JAR = "HUSHBEAM_PUBSUB_EMULATOR"
INSTALLED = "/usr/lib/google-cloud-sdk/platform/pubsub-emulator/lib"
LENGTH = 10  # seconds of a window
TIMEOUT = 90.0  # seconds until the second release

# Beam's local runner says that all messages of before now have come as soon as it has read ten,
# so the plan has to wait for those that are still in the queue.
PLAN = f"""\
collection: canaries
version: 1
unit: row
input: landing/*.parquet
output: out/{{window}}
epsilon: 3.0
model: local
min_reports: 20
stream: {{window: {LENGTH}s, state: state, time: at, lateness: 15s}}
metrics:
  - {{name: value, kind: histogram, column: value, domain: domain.txt}}
"""


@dataclass(frozen=True)
class Queue:
    """A topic with one subscription, at an emulator of its own."""

    host: str
    publisher: pubsub_v1.PublisherClient
    topic: str
    subscription: str

    def publish(self, *payloads: bytes) -> None:
        for each in [self.publisher.publish(self.topic, payload) for payload in payloads]:
            each.result(timeout=30)


def emulator() -> Path:
    """The emulator's jar."""
    found = os.environ.get(JAR) or max(map(str, Path(INSTALLED).glob("*-all.jar")), default="")
    if not Path(found).is_file() or shutil.which("java") is None:
        pytest.fail(
            "Pub/Sub's emulator needs java, and the Debian package "
            f"google-cloud-cli-pubsub-emulator or {JAR}=its-jar"
        )
    return Path(found)


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    """An emulator, while the test lasts."""
    port = free_port()
    command = ["java", "-jar", str(emulator()), "--host=127.0.0.1", f"--port={port}"]
    with group(command, tmp_path / "emulator.log", tmp_path):
        wait_for(port)
        host = f"127.0.0.1:{port}"
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", host)
        publisher, subscriber = pubsub_v1.PublisherClient(), pubsub_v1.SubscriberClient()
        topic = publisher.topic_path("canaries", "reports")
        subscription = subscriber.subscription_path("canaries", "reports-of-hushbeam")
        publisher.create_topic(name=topic)
        subscriber.create_subscription(name=subscription, topic=topic)
        yield Queue(host, publisher, topic, subscription)
        subscriber.close()


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Streamed:
    monkeypatch.chdir(tmp_path)
    Path("domain.txt").write_text("red\ngreen\nblue\n")
    Path("plan.yaml").write_text(PLAN)
    return streamed(load("plan.yaml"), clients=True)


def reports(plan: Streamed, size: int, seed: int, fingerprint: bytes | None = None) -> WireReports:
    """What `size` clients send."""
    values = np.arange(size, dtype=np.uint32) % 3
    words = plan.metrics[0].mechanism.perturb(values, SeededRandom(seed))
    own = plan.fingerprint
    return WireReports.submitted(fingerprint or own, 0, words, SeededRandom(seed + 1000))


def of_twelve(sent: WireReports) -> list[bytes]:
    """Messages of twelve reports each."""
    return [
        binary.encode(WireReports(sent.fingerprint, sent.form, sent.records[k : k + 12]))
        for k in range(0, len(sent), 12)
    ]


@contextmanager
def ticking(queue: Queue) -> Iterator[None]:
    """Garbage twice a second: a queue without messages keeps the local runner waiting."""
    stop = threading.Event()

    def tick() -> None:
        while not stop.wait(0.5):
            queue.publish(b"CANARY-GARBAGE")

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def early_in_a_window() -> int:
    """Waits for the first second of a window, and returns when it began."""
    while time.time() % LENGTH > 1:
        time.sleep(0.05)
    return int(time.time() // LENGTH * LENGTH)


def name(start: int) -> str:
    return time.strftime("%Y-%m-%dT%H%M%S", time.gmtime(start))


def test_each_window_of_a_subscription_is_released_with_each_report_once(
    queue: Queue, plan: Streamed
) -> None:
    first, second = reports(plan, 360, 1), reports(plan, 240, 2)
    other = reports(plan, 7, 3, bytes(16))
    command = [sys.executable, "-m", "pipelines.cli.cli", "stream", "plan.yaml"]
    run = subprocess.Popen(
        [*command, "--subscription", queue.subscription],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        with ticking(queue):
            start = early_in_a_window()
            queue.publish(*of_twelve(first), *of_twelve(first)[:5], binary.encode(other))
            time.sleep(LENGTH)
            queue.publish(*of_twelve(second))
            asked = [Path("out", name(start + k), "statement.json") for k in (0, LENGTH)]
            deadline = time.monotonic() + TIMEOUT
            while not all(path.exists() for path in asked) and time.monotonic() < deadline:
                assert run.poll() is None, run.communicate()[0]
                time.sleep(0.2)
            run.send_signal(signal.SIGTERM)
            told = run.communicate(timeout=TIMEOUT)[0]
    finally:
        run.kill()
    assert run.returncode == 0, told
    for path, size in zip(asked, (360, 240), strict=True):
        statement = json.loads((path.parent / "value" / "statement.json").read_text())
        assert statement["n"] == size
    counted = {
        name: int(n.replace(",", "")) for n, name in re.findall(r"^([\d,]+) (.+)$", told, re.M)
    }
    assert (counted[DUPLICATE], counted[OTHER_PLAN]) == (60, 7)
    assert counted[NOT_REPORTS] >= LENGTH  # two of them each second
    assert counted[REPORTS] == 660
    assert LATE not in counted
    assert "CANARY" not in told
