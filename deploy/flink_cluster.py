"""A Flink cluster on this machine: a job manager and task managers, each a process of its own.

`python -m deploy.engines cluster` starts one with worker pools and a job server, from the jars that
deploy/flink/pom.xml asks for: Flink's own start scripts do no more than launch these two classes.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname
from typing import Any

from deploy.worker_pools import START, free_port, group

_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"

# What a task manager may take, in MB: the scripts would divide a total. A group-by sorts in
# `managed` and spills from there; `heap` holds the pieces of one bucket.
_FRAMEWORK, _HEAP, _DIRECT, _NETWORK, _MANAGED, _CLASSES = 128, 768, 128, 256, 512, 256
_MEMORY = {
    "framework.heap.size": _FRAMEWORK, "framework.off-heap.size": _FRAMEWORK,
    "task.heap.size": _HEAP, "task.off-heap.size": _DIRECT,
    "network.min": _NETWORK, "network.max": _NETWORK, "managed.size": _MANAGED,
    "jvm-metaspace.size": _CLASSES, "jvm-overhead.min": _FRAMEWORK, "jvm-overhead.max": _FRAMEWORK,
}  # fmt: skip


# Where a task manager looks for its worker pool: each has its own, at the same address of its own
# machine. It calls its workers 1-1, 2-1 and so on, as all others do: in a pool for several, one
# would stop the workers of another.
POOL = "worker-pool"


def loopback(i: int) -> str:
    """The address of this machine that stands for the i-th task manager's."""
    return f"127.0.0.{i + 1}"


@dataclass(frozen=True)
class Cluster:
    """A cluster that takes jobs.

    Attributes:
        rest: the job manager's port, where jobs are handed in and asked about.
        job_manager: its process.
        task_managers: their processes.
    """

    rest: int
    job_manager: subprocess.Popen[bytes]
    task_managers: tuple[subprocess.Popen[bytes], ...]

    def ask(self, path: str) -> Any:
        """What the job manager answers, as in https://nightlies.apache.org/flink, REST API."""
        with urllib.request.urlopen(f"http://localhost:{self.rest}/{path}", timeout=60) as answer:
            return json.load(answer)

    def shuffled(self) -> int:
        """Bytes that the tasks of all jobs, as they last ran, have handed to one another."""
        jobs = [self.ask(f"jobs/{job['id']}") for job in self.ask("jobs")["jobs"]]
        return sum(task["metrics"]["write-bytes"] for job in jobs for task in job["vertices"])

    def failures(self) -> int:
        """How often a part of a job has failed, of all jobs."""
        said = (self.ask(f"jobs/{job['id']}/exceptions") for job in self.ask("jobs")["jobs"])
        return sum(len(job["exceptionHistory"]["entries"]) for job in said)


@contextmanager
def cluster(classpath: str, configuration: Path, logs: Path, managers: int) -> Iterator[Cluster]:
    """A job manager and some task managers, while the context lasts.

    Args:
        classpath: of Flink and of Beam's runner for it.
        configuration: the folder of flink-conf.yaml.
        logs: a folder that takes what they say, and what they spill. Keep it private.
        managers: how many task managers.

    Raises:
        RuntimeError: they have not found each other within a minute.
    """
    rest = free_port()
    common = _settings({
        "jobmanager.rpc.address": "localhost", "jobmanager.rpc.port": free_port(),
        "rest.address": "localhost", "rest.bind-address": "localhost", "rest.port": rest,
        "io.tmp.dirs": logs / "flink",
    })  # fmt: skip
    # Each manager's shares of memory are stated; `cpu.cores` is a weight, and nobody's limit.
    shares = {f"taskmanager.memory.{name}": f"{size}m" for name, size in _MEMORY.items()}
    own = _settings(shares | {"taskmanager.cpu.cores": 1, "taskmanager.host": "localhost"})
    limits = [
        f"-Xmx{_FRAMEWORK + _HEAP}m", f"-XX:MaxMetaspaceSize={_CLASSES}m",
        f"-XX:MaxDirectMemorySize={_FRAMEWORK + _DIRECT + _NETWORK}m",
    ]  # fmt: skip
    where = ["--configDir", str(configuration)]
    with ExitStack() as stack:

        def java(name: str, *command: str) -> subprocess.Popen[bytes]:
            started = ["java", "-cp", classpath, *command, *where, *common]
            return stack.enter_context(group(started, logs / f"{name}.log", logs))

        job_manager = java("job-manager", "-Xmx512m", _JOB_MANAGER)
        members = tuple(
            java(f"task-manager-{i}", *limits, _hosts(logs, i), _TASK_MANAGER, *own)
            for i in range(managers)
        )
        made = Cluster(rest, job_manager, members)
        _gather(made)
        yield made


def _gather(cluster: Cluster) -> None:
    """Return once all task managers have come."""
    deadline, came = time.monotonic() + START, 0
    while came < len(cluster.task_managers):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{came} task managers have come in {START:.0f} s; see their logs")
        time.sleep(0.5)
        with suppress(OSError):  # the job manager is not up yet
            came = cluster.ask("overview")["taskmanagers"]


def _hosts(logs: Path, i: int) -> str:
    """What tells the i-th task manager's Java where its pool is."""
    hosts = logs / f"hosts-{i}"
    hosts.write_text(f"127.0.0.1 localhost\n127.0.0.1 {gethostname()}\n{loopback(i)} {POOL}\n")
    return f"-Djdk.net.hosts.file={hosts}"


def _settings(values: dict[str, Any]) -> list[str]:
    """Settings as Flink's commands take them."""
    return [f"-D{name}={value}" for name, value in values.items()]
