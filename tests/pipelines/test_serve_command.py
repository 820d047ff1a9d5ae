"""`hushbeam serve` on the command line: what it opens and closes, and what it refuses."""

from __future__ import annotations

import shutil
import signal
import socket
import sys
import threading
from pathlib import Path

import pytest

from pipelines.cli import cli
from pipelines.parties.window_keys import KeyFolder
from pipelines.plan.loading import load
from pipelines.plan.split import split
from pipelines.serve.application import application, of_environment
from pipelines.serve.service import FOLDER, VARIABLE
from pipelines.serve.window import Post, WindowStore

EXAMPLE = Path(__file__).parents[2] / "examples" / "client"
DEVICES = Path(__file__).parents[2] / "deploy" / "two-organisations" / "devices.yaml"
OPEN = ("--window", "monday", "--open")


@pytest.fixture(autouse=True)
def plans(workspace: Path) -> None:
    """A plan without tokens, and one with a token for each user."""
    shutil.copytree(EXAMPLE, workspace, dirs_exist_ok=True)
    shutil.copy(DEVICES, workspace)
    fingerprint = split(load("devices.yaml"), "monday").fingerprint
    KeyFolder("keys").make("monday", fingerprint, "issuer")
    (workspace / "devices").write_text(f"{'0' * 64}\n\n{'f' * 64}\n")
    (workspace / "wrong").write_text(f"{'0' * 64}\nthe issuer enrols {'f' * 64}; all stays\n")


def serve(*words: str, plan: str = "plan.yaml") -> int:
    return cli.main(["serve", plan, "--landing", "landing", *words])


def store() -> WindowStore:
    (path,) = (Path("landing") / FOLDER).glob("*.sqlite")
    return WindowStore(path)


def test_a_window_is_opened_by_its_plan() -> None:
    assert serve(*OPEN) == 0
    assert serve(*OPEN) == 0  # as a schedule does that is run twice
    terms = store().terms
    assert (terms.role, terms.window, terms.metrics, terms.slots) == ("reports", "monday", 1, ())
    assert terms.published
    assert not terms.issuer


def test_a_plan_with_tokens_takes_them() -> None:
    assert serve(*OPEN, "--keys", "keys", plan="devices.yaml") == 0
    terms = store().terms
    assert Path(terms.issuer).name == f"{terms.fingerprint}.issuer.seed"
    assert not terms.published
    assert len(terms.slots) == 1


def test_an_issuer_evaluates_as_many_as_the_plan_has_tokens() -> None:
    words = ("--keys", "keys", "--devices", "devices")
    assert serve(*OPEN, *words, plan="devices.yaml") == 0
    assert (store().terms.role, store().terms.elements) == ("tokens", 1)


@pytest.mark.parametrize(
    ("words", "plan", "line"),
    [
        (("--close",), "plan.yaml", "--window is missing"),
        ((*OPEN, "--close"), "plan.yaml", "opened or closed"),
        (("--window", "monday", "--close"), "plan.yaml", "never opened"),
        (OPEN, "devices.yaml", "--keys is missing"),
        ((*OPEN, "--keys", "elsewhere"), "devices.yaml", "holds no seed"),
        ((*OPEN, "--strings", "--devices", "devices"), "devices.yaml", "must not see"),
        ((*OPEN, "--strings", "--keys", "keys"), "devices.yaml", "seals no strings"),
        (
            (*OPEN, "--devices", "wrong", "--keys", "keys"),
            "devices.yaml",
            "line 2 is nothing",
        ),
        ((*OPEN, "--devices", "none", "--keys", "keys"), "devices.yaml", "none: No such file"),
        ((*OPEN, "--devices", "devices", "--keys", "keys"), "plan.yaml", "asks for no tokens"),
        ((), "plan.yaml", "no window was ever opened"),
    ],
)
def test_what_cannot_be_served_is_refused(
    words: tuple[str, ...], plan: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert serve(*words, plan=plan) == 2
    assert line in capsys.readouterr().err
    assert not [*Path().rglob("*.sqlite")]


def test_a_closed_window_is_not_opened_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert serve(*OPEN) == 0
    assert serve("--window", "monday", "--close") == 0
    assert serve("--window", "monday", "--close") == 0  # as after one that was cut short
    for words in (OPEN, OPEN[:2]):  # which would serve it, too
        capsys.readouterr()
        assert serve(*words) == 2
        assert "monday was closed, and is not opened again" in capsys.readouterr().err


def test_what_has_landed_is_read_by_its_owner_alone() -> None:
    assert serve(*OPEN) == 0
    store().commit([Post(b"", b"b", ((b"d", b"r"),))], {})
    assert serve("--window", "monday", "--close") == 0
    (file,) = Path("landing").glob("*.reports")
    assert file.stat().st_mode & 0o777 == 0o600
    for folder in (Path("landing"), Path("landing") / FOLDER):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_what_closing_leaves_is_said_of_each_party(capsys: pytest.CaptureFixture[str]) -> None:
    for words, line in (
        (("--keys", "keys"), "its reports have landed"),
        (("--keys", "keys", "--devices", "devices"), "no more tokens are given"),
    ):
        assert serve(*OPEN, *words, plan="devices.yaml") == 0
        assert serve("--window", "monday", "--close", *words, plan="devices.yaml") == 0
        assert f"window monday is closed: {line}" in capsys.readouterr().out


def test_a_second_folder_would_take_each_token_again(capsys: pytest.CaptureFixture[str]) -> None:
    words = (*OPEN, "--keys", "keys")
    assert serve(*words, plan="devices.yaml") == 0
    assert serve(*words, "--devices", "devices", plan="devices.yaml") == 0  # another party
    assert cli.main(["serve", "devices.yaml", "--landing", "other", *words]) == 2
    (claim,) = Path("keys").glob("*.issuer.reports")
    assert f"was opened in {Path('landing').absolute()}; another folder" in capsys.readouterr().err
    assert not [*Path("other").rglob("*.sqlite")]
    Path("landing").rename("moved")  # nor a new one in its place, which has no token spent
    assert serve(*words, plan="devices.yaml") == 2
    assert f"or remove {claim.absolute()} if it has only moved" in capsys.readouterr().err
    assert not [*Path("landing").rglob("*.sqlite")]
    claim.unlink()
    assert cli.main(["serve", "devices.yaml", "--landing", "other", *words]) == 0
    assert KeyFolder("keys").forget("monday") == 3  # the seed, and what both parties noted


def test_a_window_is_closed_when_its_seed_is_gone() -> None:
    assert serve(*OPEN, "--keys", "keys", plan="devices.yaml") == 0
    shutil.rmtree("keys")
    assert serve("--window", "monday", "--close", plan="devices.yaml") == 0


def test_a_store_of_another_format_is_left_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert serve(*OPEN) == 0
    path = store().path
    database = store()._connection()
    database.execute("PRAGMA user_version = 7")
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = path.read_bytes()
    assert serve("--window", "monday", "--close") == 2
    assert "is of format 7" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_a_port_that_is_taken_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert serve("--window", "monday", "--port", str(taken.getsockname()[1])) == 3
    assert "--port: nothing can be served" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "left"),
    [
        ("check", "check publishes nothing"),
        ("serve", "whatever was answered 2xx is kept; type the same command again"),
        ("run", "there is a release only if the output folder holds statement.json"),
    ],
)
def test_a_command_that_is_stopped_says_by_what_and_what_it_leaves(
    word: str, left: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line; `check` spoke of a release, which it never makes."""
    monkeypatch.setattr(cli, "STOPPED", threading.Event())
    monkeypatch.setattr(cli, "STOPPED_BY", [])
    monkeypatch.setattr(cli, "require_reachable", lambda _: cli._stop(signal.SIGTERM, None))
    assert cli.main([word, "plan.yaml", *["--landing", "landing"] * (word == "serve")]) == 3
    assert capsys.readouterr().err == f"hushbeam: interrupted by SIGTERM; {left}\n"


def test_processes_know_their_folder_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "landing")
    assert type(of_environment()) is type(application(Path("landing")))


@pytest.mark.parametrize("missing", ["uvicorn", "starlette"])
def test_a_package_that_is_missing_is_said_with_its_extra(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    assert serve("--window", "monday") == 2
    assert "of the extra `parties`: pip install '.[parties]'" in capsys.readouterr().err


def test_a_library_of_tokens_that_is_missing_is_said_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was said with --debug alone, as a run that has failed."""
    monkeypatch.setitem(sys.modules, "voprf", None)
    words = ["parties", "keys", "issuer", "devices.yaml", "--windows", "tuesday", "--folder", "new"]
    for more in ([], ["--debug"]):
        assert cli.main([*words, *more]) == 2
        (line,) = [said for said in capsys.readouterr().err.splitlines() if "extra" in said]
        assert line.startswith("hushbeam: ")
        assert "voprf, of the extra `parties`: pip install '.[parties]'" in line
