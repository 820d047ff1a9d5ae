"""Devices by the thousand: HTTP posts over a few connections, sent until they are answered."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from mechanisms.randomness import RandomSource
from mechanisms.wire import binary
from mechanisms.wire.report import SEALED, Reports
from mechanisms.wire.screening import Expected
from mechanisms.wire.tokens import Issuer

ROOT = Path(__file__).parents[2]
_PAUSE = 0.02  # seconds before a post that was not answered is sent again
_PATIENCE = 30.0  # seconds for an answer


def sealed_reports(expected: Expected, size: int, rng: RandomSource) -> list[bytes]:
    """Files of one report each; their seals open under no key, and an endpoint opens none."""
    records = expected.form.empty(size)
    records["report_id"] = rng.words(2 * size).reshape(-1, 2)
    words = rng.words(size * SEALED // 8).reshape(size, -1)
    records["sealed"] = words.view(np.uint8).reshape(records["sealed"].shape)
    head = binary.encode(Reports(expected.fingerprint, expected.form, expected.form.empty(0)))
    return [head + record.tobytes() for record in records]


def minted(issuer: Issuer, size: int, rng: RandomSource) -> list[bytes]:
    """Tokens as who has the issuer's key makes them, in a tenth of the time that devices take."""
    nonces = [rng.words(4).tobytes() for _ in range(size)]
    return [nonce + issuer.output(b"hushbeam token" + nonce)[:32] for nonce in nonces]


def request(body: bytes, token: bytes = b"", path: str = "/reports", more: str = "") -> bytes:
    """An HTTP request, whole."""
    paid = f"Hushbeam-Token: {base64.urlsafe_b64encode(token).decode()}\r\n" if token else ""
    head = f"POST {path} HTTP/1.1\r\nHost: h\r\n{paid}{more}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def send(
    ports: Sequence[int],
    requests: Sequence[bytes],
    rate: float | None = None,
    connections: int = 64,
    answer: Callable[[int, int], None] = lambda number, status: None,
) -> tuple[list[int], list[float]]:
    """Send requests, each until it is answered.

    Args:
        ports: of services on this machine, taken in turn.
        requests: that are sent.
        rate: requests a second; as fast as they are answered by default.
        connections: at a time.
        answer: is called with the number of each request and its status, as it comes.

    Returns:
        Status of each, and seconds from the first try to the answer.
    """
    return asyncio.run(_send(ports, requests, rate, connections, answer))


async def _send(ports, requests, rate, connections, answer):  # type: ignore[no-untyped-def]
    statuses, seconds = [0] * len(requests), [0.0] * len(requests)
    numbers, start = iter(range(len(requests))), time.monotonic()

    async def connection(turn: int) -> None:
        streams = None
        for number in numbers:
            due = start + number / rate if rate else 0
            if (early := due - time.monotonic()) > 0:
                await asyncio.sleep(early)
            first = time.monotonic()
            while not statuses[number]:
                try:
                    if streams is None:
                        turn += connections
                        port = ports[turn % len(ports)]
                        streams = await asyncio.open_connection("127.0.0.1", port)
                    streams[1].write(requests[number])
                    status = await asyncio.wait_for(_status(streams[0]), _PATIENCE)
                    if status < 500:
                        statuses[number] = status
                except (OSError, EOFError, asyncio.TimeoutError):
                    if streams is not None:
                        streams[1].close()
                    streams = None
                if not statuses[number]:
                    await asyncio.sleep(_PAUSE)
            seconds[number] = time.monotonic() - first
            answer(number, statuses[number])
        if streams is not None:
            streams[1].close()

    await asyncio.gather(*map(connection, range(connections)))
    return statuses, seconds


async def _status(reader: asyncio.StreamReader) -> int:
    """Of the answer that comes next, which is read to its end."""
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            await reader.readexactly(int(line[15:]))
    return int(head[9:12])


def free_port() -> int:
    """One that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def begin(
    port: int, *words: str, output: int = subprocess.DEVNULL, through: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    """A process of `hushbeam serve`, in a group of its own; `through` as `nohup` is."""
    return subprocess.Popen(
        [*through, sys.executable, "-m", "pipelines.cli.cli", "serve", *words, "--port", str(port)],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, start_new_session=True,
        stdout=output, stderr=output,
    )  # fmt: skip


def wait(port: int, process: subprocess.Popen[bytes], seconds: float = 120) -> None:
    """Until somebody listens."""
    last = time.monotonic() + seconds
    while time.monotonic() < last and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise TimeoutError(f"nobody listens at port {port}")


def end(process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> int:
    """End a service and its processes; its exit code."""
    with contextlib.suppress(ProcessLookupError):
        if number == signal.SIGKILL:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
    return process.wait(60)


@contextlib.contextmanager
def serving(
    *words: str, output: int = subprocess.DEVNULL, through: Sequence[str] = ()
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A service that runs meanwhile; its port and process."""
    port = free_port()
    process = begin(port, *words, output=output, through=through)
    try:
        wait(port, process)
        yield port, process
    finally:
        end(process)
