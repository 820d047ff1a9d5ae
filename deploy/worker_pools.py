"""Worker pools on this machine: processes that start Beam's Python workers, and their front."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import grpc
from apache_beam.portability.api import beam_fn_api_pb2 as messages
from apache_beam.portability.api import beam_fn_api_pb2_grpc as services

_ROOT = Path(__file__).resolve().parents[1]
START = 60.0  # seconds a server may take to answer
_LOCAL = "127.0.0.1"


@dataclass(frozen=True)
class Pool:
    """A worker pool: a process, the leader of a group, whose children are the workers.

    Attributes:
        port: where it is asked to start workers.
        process: the pool itself.
    """

    port: int
    process: subprocess.Popen[bytes]

    @property
    def workers(self) -> list[int]:
        """The process ids of its workers."""
        threads = Path(f"/proc/{self.process.pid}/task")
        return [int(word) for each in threads.glob("*/children") for word in _words(each)]

    def kill(self) -> None:
        """Lose it and its workers at once, as when a machine goes down."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class InTurn(services.BeamFnExternalWorkerPoolServicer):
    """One address in front of several pools: each worker is started by the next that lives.

    Engines know one pool for a job; on several machines a load balancer stands here.

    Args:
        ports: of the pools.
    """

    def __init__(self, ports: Sequence[int]) -> None:
        channels = [grpc.insecure_channel(f"{_LOCAL}:{port}") for port in ports]
        self._pools = [services.BeamFnExternalWorkerPoolStub(channel) for channel in channels]
        self._turns = itertools.count()
        self._home: dict[str, services.BeamFnExternalWorkerPoolStub] = {}

    def StartWorker(
        self, request: messages.StartWorkerRequest, _: grpc.ServicerContext
    ) -> messages.StartWorkerResponse:
        """Have a worker started."""
        first = next(self._turns)
        for offset in range(len(self._pools)):
            pool = self._pools[(first + offset) % len(self._pools)]
            try:
                answer = pool.StartWorker(request, timeout=10)
            except grpc.RpcError:
                continue  # it is gone
            self._home[request.worker_id] = pool
            return answer
        return messages.StartWorkerResponse(error="no worker pool answers")

    def StopWorker(
        self, request: messages.StopWorkerRequest, _: grpc.ServicerContext
    ) -> messages.StopWorkerResponse:
        """Have it stopped by the pool that started it, if that is still there."""
        pool = self._home.pop(request.worker_id, None)
        if pool is not None:
            with suppress(grpc.RpcError):  # a dead pool's workers are dead
                pool.StopWorker(request, timeout=30)
        return messages.StopWorkerResponse()


@contextmanager
def pool(logs: Path) -> Iterator[Pool]:
    """A worker pool, while the context lasts; what it says goes to a file in `logs`."""
    port = free_port()
    command = [sys.executable, "-m", "apache_beam.runners.worker.worker_pool_main"]
    with group([*command, f"--service_port={port}"], logs / f"pool-{port}.log", logs) as process:
        wait_for(port)
        yield Pool(port, process)


@contextmanager
def front(ports: Sequence[int], address: str = f"{_LOCAL}:0") -> Iterator[int]:
    """The port of an `InTurn` before the pools at `ports`, while the context lasts."""
    server = grpc.server(ThreadPoolExecutor(8))
    services.add_BeamFnExternalWorkerPoolServicer_to_server(InTurn(ports), server)
    port = server.add_insecure_port(address)
    server.start()
    try:
        yield port
    finally:
        server.stop(1).wait()


@contextmanager
def group(command: Sequence[str], log: Path, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own; the whole group ends with the context."""
    # A pool starts its workers as `python`: that must be the one which has Beam and hushbeam.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = os.environ | {"PATH": path, "PYTHONPATH": str(_ROOT)}
    with log.open("wb") as said:
        process = subprocess.Popen(
            command, stdout=said, stderr=said, stdin=subprocess.DEVNULL, env=env, cwd=folder,
            start_new_session=True,
        )  # fmt: skip
        try:
            yield process
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to leave, and then make it; its children, too."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for(port: int) -> None:
    """Return once a server answers.

    Raises:
        RuntimeError: none has within a minute.
    """
    with grpc.insecure_channel(f"{_LOCAL}:{port}") as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=START)
        except grpc.FutureTimeoutError:
            raise RuntimeError(f"nothing answers at port {port} after {START:.0f} s") from None


def _words(file: Path) -> list[str]:
    """What a file of /proc says; nothing once its owner has ended."""
    try:
        return file.read_text().split()
    except OSError:
        return []


def free_port() -> int:
    """One that nobody listens to now."""
    with socket.socket() as probe:
        probe.bind((_LOCAL, 0))
        return int(probe.getsockname()[1])
