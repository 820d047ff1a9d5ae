"""Prism and Flink on this machine, each with two worker pools of Python processes.

    python -m deploy.engines prism     # prints the options for `hushbeam run`, until Ctrl-C
    python -m deploy.engines flink     # within the job server
    python -m deploy.engines cluster   # a Flink job manager and two task managers

Prism is built with `go install`, Flink's job server is put together by Maven; both are kept beside
the environment that runs this. `make test-engines` uses the same functions.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import apache_beam

from deploy.flink_cluster import POOL, Cluster, cluster, loopback
from deploy.worker_pools import Pool, free_port, front, group, pool, wait_for

_KEPT = Path(sys.prefix) / "engines"
_FLINK = Path(__file__).resolve().parent / "flink"
_JOB_SERVER = "org.apache.beam.runners.flink.FlinkJobServerDriver"
_FETCH = 1800.0  # seconds a build or download may take
_IDLE = 3_000  # ms for which workers without work are kept: less than a restart waits, see flink/


@dataclass(frozen=True)
class Running:
    """An engine that takes jobs.

    Attributes:
        name: "prism", "flink" or "cluster".
        options: for Beam, behind `hushbeam run plan.yaml`.
        pools: where its workers live.
        server: that takes its jobs.
        cluster: that carries them out, if the server does not itself.
    """

    name: str
    options: tuple[str, ...]
    pools: tuple[Pool, ...]
    server: subprocess.Popen[bytes]
    cluster: Cluster | None


@contextmanager
def running(name: str, logs: Path, pools: int = 2) -> Iterator[Running]:
    """An engine and its pools, while the context lasts.

    Args:
        name: "prism", "flink" or "cluster".
        logs: a folder that takes what they say. It may quote the data: keep it private.
        pools: how many worker pools.

    Raises:
        RuntimeError: it cannot be fetched, or does not answer within a minute.
    """
    command, flinks = _COMMANDS[name](), None
    with ExitStack() as stack:
        if name == "cluster":
            flinks = stack.enter_context(cluster(classpath(), _FLINK, logs, pools))
            command = [*command, f"--flink-master=localhost:{flinks.rest}"]
        members = tuple(stack.enter_context(pool(logs)) for _ in range(pools))
        place = free_port()
        if flinks:
            for i, member in enumerate(members):
                stack.enter_context(front([member.port], f"{loopback(i)}:{place}"))
        else:
            stack.enter_context(front([member.port for member in members], f"localhost:{place}"))
        port = free_port()
        listening = [*command, *_PORTS[name](port)]
        server = stack.enter_context(group(listening, logs / f"{name}.log", logs))
        wait_for(port)
        options = (
            "--runner=PortableRunner", f"--job_endpoint=localhost:{port}",
            "--environment_type=EXTERNAL",
            f"--environment_config={POOL if flinks else 'localhost'}:{place}",
            # Of each that has workers started: task managers are several, other engines one.
            f"--sdk_worker_parallelism={1 if flinks else pools}",
            # Flink would end its workers wherever a plan has no step in Python for a moment.
            f"--environment_cache_millis={_IDLE}",
        )  # fmt: skip
        yield Running(name, options, members, server, flinks)


def prism() -> list[str]:
    """The command of Prism, built for this Beam if that was not done before."""
    binary = _KEPT / f"prism-{apache_beam.__version__}"
    if not binary.exists():
        source = f"github.com/apache/beam/sdks/v2/go/cmd/prism@v{apache_beam.__version__}"
        _fetch(["go", "install", source], "Prism", {"GOBIN": str(_KEPT)})
        (_KEPT / "prism").rename(binary)
    return [str(binary), "--serve_http=false", "--log_kind=text"]


def classpath() -> str:
    """Flink, Beam's runner for it and its job server: jars that deploy/flink/pom.xml names."""
    listed = _KEPT / "flink-classpath"
    pom = _FLINK / "pom.xml"
    if not listed.exists() or listed.stat().st_mtime < pom.stat().st_mtime:
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"
        words = [f"--file={pom}", goal, "-DincludeScope=runtime", f"-Dmdep.outputFile={listed}"]
        _fetch(["mvn", "--batch-mode", "--quiet", *words], "Flink's job server", {})
    return listed.read_text()


def flink() -> list[str]:
    """The command of Flink's job server, without where its Flink is."""
    return ["java", "-Xmx1g", "-cp", classpath(), _JOB_SERVER, f"--flink-conf-dir={_FLINK}"]


def _flink_ports(port: int) -> list[str]:
    ports = [f"--job-port={port}", f"--artifact-port={free_port()}", "--expansion-port=0"]
    return [*ports, f"--artifacts-dir={_KEPT / 'flink-artifacts'}"]


_COMMANDS: dict[str, Callable[[], list[str]]] = {
    "prism": prism,
    "flink": lambda: [*flink(), "--flink-master=[local]"],
    "cluster": flink,
}
_PORTS: dict[str, Callable[[int], list[str]]] = {
    "prism": lambda port: [f"--job_port={port}"],
    "flink": _flink_ports,
    "cluster": _flink_ports,
}


def _fetch(command: Sequence[str], what: str, more: dict[str, str]) -> None:
    """Run a build tool, once."""
    _KEPT.mkdir(parents=True, exist_ok=True)
    print(f"fetching {what} with {command[0]} (minutes, once)", file=sys.stderr, flush=True)
    try:
        subprocess.run(command, check=True, env=os.environ | more, timeout=_FETCH, cwd=_KEPT)
    except FileNotFoundError:
        raise RuntimeError(f"{what} needs {command[0]} on the PATH") from None
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        raise RuntimeError(f"{command[0]} cannot fetch {what}; what it said is above") from None


def main(name: str) -> None:
    """Keep an engine until Ctrl-C."""
    logs = _KEPT / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    with running(name, logs) as engine:
        print(f"hushbeam run examples/flights.yaml {' '.join(engine.options)}", flush=True)
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in _COMMANDS:
        sys.exit(f"usage: {sys.argv[0]} {' | '.join(_COMMANDS)}")
    try:
        main(sys.argv[1])
    except RuntimeError as error:
        sys.exit(f"{sys.argv[0]}: {error}")
    except KeyboardInterrupt:
        pass
