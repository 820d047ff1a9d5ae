"""A job that dies, wherever it does, leaves no release and no leftovers, and quotes no data."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from mechanisms.catalog import build
from tests.fakes import canaries
from tests.fakes.ledgers import begun
from tests.fakes.waiting import HANGS, until

pytestmark = [pytest.mark.verify, pytest.mark.usefixtures("beams_runner")]

ROOT = Path(__file__).parents[2]

# The road of one value, by the functions that a stranger's exception could come out of.
STEPS = [
    "transforms.encoders.values.ValueEncoder.encode",
    "transforms.encoders.users.UserDigest.__call__",
    "transforms.units.contributions.choose_one_per_user",
    "mechanism.perturb",
    "mechanisms.randomness.SecureRandom.integers",
    "mechanism.count",
    "mechanism.estimate",
    "pipelines.metrics.reports.shares.opened",
    "pipelines.metrics.reports.shares.largest_error_bound",
    "pipelines.views.report.page",
    "pipelines.releases.release.publish",
    "pipelines.releases.release.os.fsync",
    "pipelines.releases.release.os.rename",
]


def request(log: str, domain: str, **changes: object) -> list[str]:
    asked = {"domain": domain, "user_column": "user", "min_reports": 100}
    return canaries.request(log, **(asked | changes))


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_leaves_nothing_and_says_nothing(
    step: str, run, log, domain, workspace, monkeypatch
) -> None:
    before = canaries.names(workspace)
    owner, _, name = step.rpartition(".")
    if owner == "mechanism":
        monkeypatch.setattr(type(build("grr", epsilon=1.0, domain_size=4)), name, canaries.crash)
    else:
        monkeypatch.setattr(step, canaries.crash)
    outcome = run(request(log, domain, mechanism="grr"))
    assert outcome.code == 3
    assert outcome.out == ""
    assert outcome.err.startswith("hushbeam: the run failed with ")
    assert outcome.err.count("\n") == 1
    assert "there is a release only if the output folder holds statement.json" in outcome.err
    assert not canaries.found(outcome.said)
    assert canaries.names(workspace) == before


def test_a_crash_shows_its_traceback_to_who_asks_for_it(
    run, log, domain, workspace, monkeypatch
) -> None:
    def crash(*_: object) -> None:
        raise ValueError("what exactly went wrong")

    monkeypatch.setattr("pipelines.views.report.page", crash)
    outcome = run([*request(log, domain), "--debug"])
    assert outcome.code == 3  # not Python's own 1, which would mean withheld
    assert "what exactly went wrong" in outcome.err
    assert not (workspace / "out").exists()


def test_an_interrupted_run_says_so(run, log, domain, workspace, monkeypatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pipelines.jobs.run.run_beam", interrupt)
    outcome = run(request(log, domain))
    assert outcome.code == 3
    assert outcome.err.startswith("hushbeam: interrupted; there is a release only if")
    assert outcome.err.count("\n") == 1


def test_a_failure_to_show_a_release_does_not_deny_it(
    run, log, domain, workspace, monkeypatch
) -> None:
    def crash(*_: object) -> None:
        raise ValueError("no such terminal")

    monkeypatch.setattr("pipelines.views.report.show", crash)
    outcome = run(request(log, domain))
    assert outcome.code == 3
    assert "nothing was published" not in outcome.err
    assert (workspace / "out" / "statement.json").exists()


def test_a_job_whose_workers_wrote_elsewhere_is_not_called_withheld(
    run, log, domain, workspace, monkeypatch
) -> None:
    monkeypatch.setattr("pipelines.releases.release.publish", lambda *_: None)
    outcome = run(request(log, domain))
    assert outcome.code == 3
    assert outcome.err == (
        "hushbeam: the job came to its end, but out holds no release; if its workers "
        "write to disks of their own, name a folder that they share\n"
    )


@pytest.mark.parametrize(("min_reports", "code"), [(100, 0), (100_000, 3)])
def test_a_runner_that_cannot_be_asked_denies_no_release(
    run, log, domain, monkeypatch, min_reports: int, code: int
) -> None:
    def lost(_: object) -> None:
        raise ValueError("unknown job id")

    monkeypatch.setattr("pipelines.jobs.run.counters", lost)
    outcome = run(request(log, domain, min_reports=min_reports))
    assert outcome.code == code
    assert ("cannot be asked why" in outcome.err) == (code == 3)


def test_a_job_that_was_only_handed_over_is_done(run, log, domain, monkeypatch) -> None:
    monkeypatch.setattr("pipelines.jobs.run.run_beam", lambda *_: None)
    outcome = run(request(log, domain))
    assert (outcome.code, outcome.err) == (0, "")
    assert "handed over" in outcome.out


# Runs the command until it reaches the function named first, and stops there for good.
STALLED = """
import importlib, pathlib, sys, threading
from pipelines.cli import cli

def stall(*_):
    pathlib.Path("reached").touch()
    threading.Event().wait()

module, _, name = sys.argv[1].rpartition(".")
setattr(importlib.import_module(module), name, stall)
del sys.argv[1]
cli.entry()
"""


@pytest.mark.parametrize(
    ("step", "stop", "leftovers"),
    [
        ("pipelines.views.report.page", signal.SIGKILL, 0),  # after the shuffle
        ("pipelines.views.report.page", signal.SIGTERM, 0),  # as schedulers stop a job
        # All is written, under a hidden name that nobody takes for a release.
        ("os.rename", signal.SIGKILL, 1),
    ],
)
def test_a_killed_job_leaves_no_release(
    step: str, stop: signal.Signals, leftovers: int, run, log, domain, workspace
) -> None:
    words = request(log, domain)
    job = subprocess.Popen(
        [sys.executable, "-c", STALLED, step, *words],
        cwd=workspace,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until((workspace / "reached").exists, job)
    finally:
        job.send_signal(stop)
        said = job.communicate(timeout=HANGS)[1]
    if stop is signal.SIGTERM:  # told what to do, it ends in order
        assert job.returncode == 3
        line = f"hushbeam: interrupted by {stop.name}; there is a release only if "
        assert said.startswith(line)
    assert not (workspace / "out").exists()
    left = [path.name for path in workspace.iterdir() if path.name not in ("reached", "tmp")]
    assert len(left) == leftovers
    assert all(name.startswith(".out.partial-") for name in left)
    assert not list((workspace / "tmp").iterdir())
    # The same request then publishes where the dead one would have.
    assert run(words).code == 0
    assert pq.ParquetFile(workspace / "out" / "histogram.parquet").metadata.num_rows == 4


# A worker that comes to the page stops for good. Each says that it is there.
STALLED_WORKER = """
import os, pathlib, signal, threading
from pipelines.views import report

signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background ignores it

def stall(*_):
    pathlib.Path("reached").write_text(str(os.getpid()))
    threading.Event().wait()

def there():
    (pathlib.Path("workers") / str(os.getpid())).touch()

report.page = stall
if "WORKER_ID" in os.environ:
    there()
os.register_at_fork(after_in_child=there)
"""
# With a thread of a stranger's, which a copy would miss, a command has its workers started anew.
STRANGER = "threading.Thread(target=threading.Event().wait, daemon=True).start()"


@pytest.mark.parametrize(
    ("busy", "more"), [(True, ""), (False, ""), (True, STRANGER)], ids=["busy", "idle", "new"]
)
def test_a_worker_that_is_killed_ends_the_job(
    busy: bool, more: str, run, log, domain, workspace
) -> None:
    (workspace / "workers").mkdir()
    (workspace / "site").mkdir()
    (workspace / "site" / "sitecustomize.py").write_text(STALLED_WORKER + more)
    words = [*request(log, domain), "--ledger=ledger.db", "--population=all"]
    begun("ledger.db", "all")
    mode = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    job = subprocess.Popen(
        [sys.executable, "-m", "pipelines.cli.cli", *words, *mode],
        cwd=workspace,
        env=os.environ | {"PYTHONPATH": f"{workspace / 'site'}:{ROOT}"},
        stderr=subprocess.PIPE,
        text=True,
    )
    workers = workspace / "workers"
    try:
        until(lambda: (workspace / "reached").exists() and len(list(workers.iterdir())) == 2, job)
        until((workspace / "reached").read_text, job)
        stalled = int((workspace / "reached").read_text())
        everyone = {int(path.name) for path in workers.iterdir()}
        os.kill(stalled if busy else min(everyone - {stalled}), signal.SIGKILL)
        said = job.communicate(timeout=HANGS)[1]
    finally:
        job.kill()
    assert job.returncode == 3
    assert [line for line in said.splitlines() if "warning" not in line] == [
        "hushbeam: a worker process died, or could not be started, perhaps for want of memory, and "
        "the job with it; see what stands in the output folder, and run it again, with fewer "
        "--direct_num_workers if memory or processes are short"
    ]
    assert not any(map(_lives, everyone))  # who outlived its job could still publish
    assert not list(workspace.glob("*out*"))
    assert not list((workspace / "tmp").glob("beam-pipeline-temp*"))
    assert "returned" in run(["ledger", "show", "--ledger=ledger.db"]).out
    assert run(words).code == 0


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_workers_end_with_their_command(stop: int, log, domain, workspace) -> None:
    for folder in ("workers", "site"):
        (workspace / folder).mkdir()
    (workspace / "site" / "sitecustomize.py").write_text(STALLED_WORKER)
    mode = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    job = subprocess.Popen(
        [sys.executable, "-m", "pipelines.cli.cli", *request(log, domain), *mode],
        cwd=workspace,
        env=os.environ | {"PYTHONPATH": f"{workspace / 'site'}:{ROOT}"},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        until((workspace / "reached").exists, job)
        workers = {int(path.name) for path in (workspace / "workers").iterdir()}
        if stop == signal.SIGKILL:
            job.kill()
        else:  # as a terminal does it, or who stops a service: all that belong to the command
            os.killpg(job.pid, stop)
        said = job.communicate(timeout=HANGS)[1]
    finally:
        job.kill()
    assert len(workers) == 2
    assert not list((workspace / "tmp").glob("beam-pipeline-temp*"))
    until(lambda: not any(map(_lives, workers)))
    assert not (workspace / "out").exists()
    if stop != signal.SIGKILL:
        assert job.returncode == 3
        line = f"hushbeam: interrupted by {stop.name}; there is a release only if "
        assert said.startswith(line)


def _lives(process: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
