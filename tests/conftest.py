"""Fixtures of the job floor: a log, a domain, and the command run in this process."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests.fakes import canaries

# The same examples in every run: a test that fails does so for the one who broke it. To look for
# new ones: pytest --hypothesis-profile=default. To be slow at drawing them is the machine's fault.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")
# Unless examples are many, none is a constant of whatever module another test has loaded by then.
if "HUSHBEAM_EXAMPLES" not in os.environ and hasattr(providers, "_get_local_constants"):
    providers._get_local_constants = lambda: providers._local_constants

# Where a machine's secret of reports is made: never in the home of who runs the tests.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp()
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp()  # nor what searches have come to
# A shuffler's is there already: it says when it makes one, which most tests are not about.
_kept = Path(os.environ["XDG_STATE_HOME"], "hushbeam", "shuffle-secret")
_kept.parent.mkdir(mode=0o700)
_kept.write_bytes(bytes(range(32)))
Path(_kept.parent, "ledger-key").write_bytes(bytes(range(32, 64)))  # and that of ledgers
# And that of who publishes, whichever account a test makes for itself.
os.environ["HUSHBEAM_SIGNING_KEY"] = str(Path(_kept.parent, "signing-key"))
Path(os.environ["HUSHBEAM_SIGNING_KEY"]).write_bytes(bytes(range(64, 96)))

_MEMORY, _ROOM = "/dev/shm", 6 << 30  # bytes: a tenth of the slow tests left 245 MB


def _fit_for_tests(folder: str) -> bool:
    """Whether a folder has room for what tests write, and lets what they build there be run."""
    try:
        about = os.statvfs(folder)
    except (AttributeError, OSError):
        return False
    noexec = about.f_flag & getattr(os, "ST_NOEXEC", 0)
    return not noexec and about.f_bavail * about.f_frsize >= _ROOM and os.access(folder, os.W_OK)


@pytest.fixture(autouse=True)
def _no_memory() -> None:
    """A shuffler that has sent nothing on: each test hands the same reports to another one."""
    shutil.rmtree(_kept.parent / "shuffle-memory", ignore_errors=True)


def pytest_configure(config: pytest.Config) -> None:
    """Let pytest-randomly choose the order alone: a test seeds what it draws, and says so."""
    if hasattr(config.option, "randomly_reset_seed"):  # `make mutants` runs without plugins
        config.option.randomly_reset_seed = False
    # Workers share what searches have come to: the dearest plan takes 23 CPU seconds, then 6.
    os.environ["XDG_CACHE_HOME"] = getattr(config, "workerinput", os.environ)["XDG_CACHE_HOME"]
    # A release syncs seven files: of 250 releases a test waited for a disk for a third of its time.
    # `make soak` is about disks, and stays on one.
    if _fit_for_tests(_MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _MEMORY)
    # Modules and tests stay: looking for rubbish among them took 4 of collection's 11 seconds, and
    # pytest looks twice at the end. Then all of it goes in order: a library with destructors
    # complains of what it calls leaked.
    gc.disable()
    config.add_cleanup(gc.unfreeze)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist where the others keep what searches have come to."""
    node.workerinput["XDG_CACHE_HOME"] = os.environ["XDG_CACHE_HOME"]


def pytest_collection_finish() -> None:
    """What the pipelines ask for again and again is answered once, if tests of them run at all."""
    if {"apache_beam", "pipelines"} & sys.modules.keys():
        from tests.fakes import remembered, repeating

        remembered.remember()
        repeating.take_place()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log of three files with three row groups each; the glob that matches them."""
    return canaries.write(tmp_path_factory.mktemp("log"), canaries.table())


@pytest.fixture(scope="session")
def domain(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The declared values of the log's `value`, a line each."""
    path = tmp_path_factory.mktemp("domain") / "values.txt"
    path.write_text("\n".join(canaries.DECLARED) + "\n")
    return str(path)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which a test works: current, and with the temporary files inside."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def noiseless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaussian noise that is 0, so that what is counted can be seen."""
    import numpy as np

    from mechanisms.sampling.rounded_normal import RoundedNormal

    zeros = staticmethod(lambda size, rng: np.zeros(size, np.int64))
    monkeypatch.setattr(RoundedNormal, "draw", zeros)


@pytest.fixture
def beams_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs are run by Beam's own runner, with its bundles, coders and processes.

    Others are run step after step in this process, which takes a tenth of the time: whatever a
    test holds of figures, statements and files is the same there.
    """
    from tests.fakes.repeating import InPlaceRunner

    monkeypatch.setattr(InPlaceRunner, "on", False)


Run = Callable[..., canaries.Outcome]


HEARD = "all that libraries say is kept"


@contextlib.contextmanager
def _loud() -> Iterator[None]:
    """In the place of what silences libraries: one that speaks as they do."""
    yield
    logging.getLogger("apache_beam").debug(HEARD)


@pytest.fixture
def run(
    workspace: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """The command, in process. `loud` lets everything be logged that the command would silence."""
    from pipelines.cli import cli

    def run(words: list[str], loud: bool = False) -> canaries.Outcome:
        capfd.readouterr()
        caplog.clear()
        if loud:
            monkeypatch.setattr(cli, "quiet", _loud)
            caplog.set_level(logging.DEBUG)
        try:
            code = cli.main(words)
        except SystemExit as ending:  # --help, --version
            code = int(ending.code or 0)
        out, err = capfd.readouterr()
        return canaries.Outcome(code, out, err, caplog.text)

    return run


@pytest.fixture
def refused(run: Run, workspace: Path) -> Callable[[list[str], str], None]:
    """Runs a request and checks all that a refusal has to be."""

    def refused(words: list[str], expected: str) -> None:
        before = canaries.names(workspace)
        outcome = run(words)
        assert outcome.code == 2, outcome.said
        assert outcome.out == ""
        assert outcome.err.startswith("hushbeam: ")
        assert outcome.err.endswith("\n")
        assert outcome.err.count("\n") == 1
        assert expected in outcome.err
        assert "Traceback" not in outcome.said
        assert not canaries.found(outcome.said)
        assert canaries.names(workspace) == before

    return refused
