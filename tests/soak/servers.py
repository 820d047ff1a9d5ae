"""Buckets in processes of their own: the emulator that the tests use, and one of strangers'."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.fakes.cloud_storage import BUCKET

_STRANGER = "github.com/fsouza/fake-gcs-server@v1.52.2"


@contextmanager
def emulator() -> Iterator[str]:
    """The tests' own; its address."""
    program = (
        "import os, signal\n"
        "from tests.fakes.cloud_storage import emulated\n"
        "with emulated():\n"
        "    print(os.environ['STORAGE_EMULATOR_HOST'], flush=True)\n"
        "    signal.pause()\n"
    )
    words = [sys.executable, "-c", program]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        try:
            yield server.stdout.readline().decode().strip()
        finally:
            server.send_signal(signal.SIGKILL)


def stranger(folder: Path) -> Path | None:
    """The program of a server that others have written; None where it cannot be built."""
    if shutil.which("go") is None:
        return None
    made = subprocess.run(
        ["go", "install", _STRANGER], env=os.environ | {"GOBIN": str(folder)}, capture_output=True
    )
    return folder / "fake-gcs-server" if made.returncode == 0 else None


@contextmanager
def strangers(program: Path) -> Iterator[str]:
    """Fake-gcs-server with an empty bucket; its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    words = [
        program, "-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory",
        "-public-host", f"127.0.0.1:{port}", "-external-url", address, "-log-level", "error",
    ]  # fmt: skip
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _with_bucket(address)
            yield address
        finally:
            server.send_signal(signal.SIGKILL)


def _with_bucket(address: str) -> None:
    request = urllib.request.Request(
        f"{address}/storage/v1/b?project=project", f'{{"name": "{BUCKET}"}}'.encode(),
        {"Content-Type": "application/json"},
    )  # fmt: skip
    for _ in range(200):
        with suppress(OSError), urllib.request.urlopen(request):
            return
        time.sleep(0.05)
    raise RuntimeError("the stranger's server does not answer")
