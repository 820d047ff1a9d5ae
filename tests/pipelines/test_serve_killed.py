"""`hushbeam serve` under load while its processes are killed: none lost, none twice."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from mechanisms.randomness import SeededRandom
from mechanisms.wire import binary
from mechanisms.wire.tokens import Issuer
from pipelines.cli import cli
from pipelines.parties.window_keys import KeyFolder
from pipelines.plan.loading import load
from pipelines.plan.split import split
from tests.fakes import devices
from tests.fakes.devices import minted, request, sealed_reports, send

EXAMPLE = Path(__file__).parents[2] / "examples" / "client"
MONDAY, TUESDAY = "2026-11-23", "2026-11-24"


def command(*words: str) -> list[str]:
    return ["plan.yaml", "--landing", "landing", *words]


def prepare() -> None:
    """The example's plan, with tokens."""
    Path("plan.yaml").write_text((EXAMPLE / "plan.yaml").read_text() + "tokens: 1\n")
    shutil.copy(EXAMPLE / "meals.txt", ".")


def children(parent: int) -> list[int]:
    """The processes of a process, but for the one that tracks what they share."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line, words = (entry / "stat").read_text(), (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if int(line.rpartition(")")[2].split()[1]) == parent and b"spawn_main" in words:
                found.append(int(entry.name))
    return found


class Killer:
    """Kills services at moments of their work, and begins them again.

    Two services have two processes each, and share a folder. At every third kill all of a service
    goes, at the others one of its processes.
    """

    def __init__(self, rng: SeededRandom) -> None:
        self.rng, self.kills = rng, 0
        self.ports = [devices.free_port() for _ in range(2)]
        self.services = [self._begun(port) for port in self.ports]
        for port, process in zip(self.ports, self.services, strict=True):
            devices.wait(port, process)

    def _begun(self, port: int):  # type: ignore[no-untyped-def]
        return devices.begin(port, *command("--processes", "2"))

    def kill(self) -> None:
        place = self._below(2)
        process = self.services[place]
        pids = children(process.pid)
        if self.kills % 3 == 2 or not pids:
            devices.end(process, signal.SIGKILL)
            self.services[place] = self._begun(self.ports[place])
        else:
            os.kill(pids[self._below(len(pids))], signal.SIGKILL)
        self.kills += 1

    def _below(self, bound: int) -> int:
        return int(self.rng.integers(bound, 1)[0])

    def end(self) -> None:
        for process in self.services:
            devices.end(process, signal.SIGKILL)


@pytest.mark.parametrize(
    ("kills", "size"), [(3, 1200), pytest.param(20, 20_000, marks=pytest.mark.verify)]
)
def test_nothing_that_was_answered_is_lost_or_doubled(
    workspace: Path, kills: int, size: int
) -> None:
    """Kills at load, while a window is opened and another closed beside the running services."""
    rng = SeededRandom(kills)
    prepare()
    posts, sent = [], {}
    for window in (MONDAY, TUESDAY):
        parted = split(load("plan.yaml"), window)
        KeyFolder("keys").make(window, parted.fingerprint, "issuer")
        seed = KeyFolder("keys").of_window(parted.fingerprint, "issuer.seed").read_bytes()
        expected = parted.expected(parted.form(True, [0]))
        reports = sealed_reports(expected, size // 2, rng)
        tokens = minted(Issuer(seed), size // 2, rng)
        posts += [request(*pair) for pair in zip(reports, tokens, strict=True)]
        sent[parted.fingerprint.hex()] = [report[binary.HEADER :] for report in reports]

    def serve(window: str, *words: str) -> None:
        assert cli.main(["serve", *command("--window", window, "--keys", "keys", *words)]) == 0

    serve(MONDAY, "--open")
    killer = Killer(rng)
    moments = {size * (k + 1) // (kills + 1) for k in range(kills)}
    answered, after = Counter[str](), []

    def answer(number: int, status: int) -> None:
        total = answered.total()
        answered[MONDAY if number < size // 2 else TUESDAY] += 1
        if total == size // 4:
            serve(TUESDAY, "--open")
        if total in moments:
            killer.kill()
        if answered[MONDAY] == size // 2 and not after:  # while the next window's come
            after.append(threading.Thread(target=serve, args=(MONDAY, "--close")))
            after[0].start()

    try:
        statuses, _ = send(killer.ports, posts, 2000, 64, answer)
        after[0].join()
        # The same again: each is answered alike, and counts no more.
        again, _ = send(killer.ports, posts[-100:], None, 8)
    finally:
        killer.end()
    serve(TUESDAY, "--close")
    assert killer.kills == kills
    assert Counter(statuses) == {204: size}
    assert again == [204] * 100
    for mark, records in sent.items():
        files = [file.read_bytes() for file in Path("landing").glob(f"{mark}-*.reports")]
        landed = b"".join(file[binary.HEADER :] for file in files)
        records_there = np.frombuffer(landed, f"V{len(records[0])}")
        assert sorted(record.tobytes() for record in records_there) == sorted(records)


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize(
    ("stop", "group"),
    [
        (signal.SIGTERM, False),
        (signal.SIGTERM, True),
        (signal.SIGINT, True),
        (signal.SIGHUP, False),
    ],
)
def test_a_service_that_is_told_to_end_says_so_and_loses_nothing(
    workspace: Path, processes: str, stop: signal.Signals, group: bool
) -> None:
    """While devices post, and whether its processes are told as well, as by systemd and Ctrl-C."""
    shutil.copytree(EXAMPLE, ".", dirs_exist_ok=True)
    parted = split(load("plan.yaml"), MONDAY)
    sent = sealed_reports(parted.expected(parted.form(True, [0])), 4000, SeededRandom(5))
    kept, begun = set[int](), threading.Event()

    def answer(number: int, status: int) -> None:
        kept.update([number] * (status == 204))
        begun.set()

    words = command("--window", MONDAY, "--processes", processes)
    with devices.serving(*words, output=subprocess.PIPE) as (port, process):
        posts = [request(report) for report in sent]
        threading.Thread(target=send, args=([port], posts, 1000, 64, answer), daemon=True).start()
        assert begun.wait(60)
        (os.killpg if group else os.kill)(process.pid, stop)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    last = f"stopped by {stop.name}: whatever was answered 2xx is kept"
    assert out.decode().splitlines() == [f"serving on http://127.0.0.1:{port}", last]
    there = {sent[number][binary.HEADER :] for number in kept}
    assert cli.main(["serve", *command("--window", MONDAY, "--close")]) == 0
    landed = b"".join(file.read_bytes() for file in Path("landing").glob("*.reports"))
    size = len(sent[0]) - binary.HEADER
    records = np.frombuffer(landed[binary.HEADER :], f"V{size}")
    assert there <= {record.tobytes() for record in records}
    assert 0 < len(there) < len(sent)


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("through", [[], ["nohup"]])
def test_a_hang_up_of_the_whole_group_cuts_no_post(
    workspace: Path, processes: str, through: list[str]
) -> None:
    """As a terminal that is closed sends it; under `nohup` workers go on, and no new ones begin."""
    shutil.copytree(EXAMPLE, ".", dirs_exist_ok=True)
    parted = split(load("plan.yaml"), MONDAY)
    sent = sealed_reports(parted.expected(parted.form(True, [0])), 2, SeededRandom(5))
    first, second = map(request, sent)
    words = command("--window", MONDAY, "--processes", processes)
    with devices.serving(*words, through=through) as (port, process):
        before = children(process.pid)
        with socket.create_connection(("127.0.0.1", port), 60) as link:
            link.sendall(first)
            assert link.recv(4096).startswith(b"HTTP/1.1 204")
            link.sendall(second[:-1])
            os.killpg(process.pid, signal.SIGHUP)
            time.sleep(1.5)  # three looks of uvicorn's at its signals and its workers
            link.sendall(second[-1:])
            assert link.recv(4096).startswith(b"HTTP/1.1 204")
        if through:
            assert process.poll() is None
            assert children(process.pid) == before
        else:
            assert process.wait(60) == 0


def test_commits_are_synced_before_they_are_seen(workspace: Path) -> None:
    """Kills keep what the system has; that a power cut does, too, is SQLite's promise in FULL."""
    from pipelines.serve.service import FOLDER
    from pipelines.serve.window import WindowStore

    shutil.copytree(EXAMPLE, ".", dirs_exist_ok=True)
    assert cli.main(["serve", *command("--window", MONDAY, "--open")]) == 0
    (path,) = (Path("landing") / FOLDER).glob("*.sqlite")
    database: sqlite3.Connection = WindowStore(path)._connection()
    assert database.execute("PRAGMA synchronous").fetchone() == (2,)
    assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
