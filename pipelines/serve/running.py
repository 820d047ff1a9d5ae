"""What `hushbeam serve` does: opens a window, closes one, or serves all that are open."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
from pathlib import Path
from socket import socket
from types import FrameType

from pipelines.errors import DONE, STOPPED_BY, FailedError, RequestError, reason
from pipelines.parties.window_keys import KeyFolder, most
from pipelines.plan.job import window_of
from pipelines.plan.loading import load
from pipelines.plan.split import Split, require_sealable, split
from pipelines.releases.key_list import Role as KeyRole
from pipelines.request import answers
from pipelines.serve.application import AT_ONCE
from pipelines.serve.command import ServeRequest
from pipelines.serve.service import FOLDER, VARIABLE, enrolled, place
from pipelines.serve.terms import Role, WindowTerms
from pipelines.serve.window import WindowStore
from pipelines.storage.paths import flush, make_folders
from pipelines.views.console import Screen

_LEFT: dict[Role, str] = {
    "reports": "its reports have landed, in no order",
    "tokens": "no more tokens are given, and who has fetched is forgotten",
    "strings": "no more strings are evaluated, and the tokens that paid are forgotten",
}
_CONNECTIONS = 4 * AT_ONCE  # of a process, those that say nothing too; a file each


def serve(request: ServeRequest) -> int:
    """Open, close or serve.

    Args:
        request: what was typed.

    Returns:
        The exit code.

    Raises:
        RequestError: the plan, a seed or the folder cannot be used.
        FailedError: a window could not be closed, and is to be closed again.
    """
    landing = Path(request.landing).absolute()
    if request.open and request.close:
        raise RequestError("--open, --close: a window is opened or closed: leave one out")
    if request.window is not None:
        plan = load(request.plan)
        parted = split(plan, window_of(plan, request.window))
        role: Role = "strings" if request.strings else "tokens" if request.devices else "reports"
        name = parted.fingerprint.hex() if role == "reports" else request.window
        path = place(landing, role, name)
        if request.close:
            return _close(path, request.window, role)
        _open(landing, path, _terms(request, parted, role))
    elif request.open or request.close:
        raise RequestError("--window is missing: name the one that is to be opened or closed")
    if not request.open:
        _run(landing, request)
    return DONE


def _terms(request: ServeRequest, parted: Split, role: Role) -> WindowTerms:
    """What a window takes, by the plan and the options."""
    if not parted.counters:
        require_sealable(parted)
    if request.strings and request.devices:
        raise RequestError(
            "--strings, --devices: who issues tokens must not see what is paid for with them: "
            "serve them in two folders, of two parties"
        )
    if request.devices:
        try:
            enrolled(Path(request.devices))
        except (OSError, ValueError) as error:
            raise RequestError(f"--devices: {request.devices}: {reason(error)}") from None
    kind: KeyRole = "queries" if request.strings or request.queries else "issuer"
    elements = most(parted, "strings" if request.strings else kind)
    if role != "reports" and not elements:
        raise RequestError("the plan asks for no tokens, or seals no strings: nothing to serve")
    seeds = {"issuer": "", "strings": ""}
    if role != "reports" or parted.job.plan.tokens:
        seeds["issuer"] = _seed(request, parted, kind)
    if request.strings:
        seeds["strings"] = _seed(request, parted, "strings")
    return WindowTerms(
        role=role,
        window=parted.job.window,
        fingerprint=parted.fingerprint.hex(),
        metrics=len(parted.metrics),
        slots=_slots(parted),
        published=not parted.counters,
        most=request.most,
        elements=elements,
        devices=str(Path(request.devices).absolute()) if request.devices else "",
        **seeds,
    )


def _seed(request: ServeRequest, parted: Split, kind: KeyRole) -> str:
    """The file of a window's seed, which can be read now."""
    if request.keys is None:
        raise RequestError(
            f"--keys is missing: the folder with the {kind} keys of windows, as of "
            "`hushbeam parties keys`"
        )
    folder = KeyFolder(request.keys)
    folder.evaluator(parted.fingerprint, kind)
    return str(folder.of_window(parted.fingerprint, f"{kind}.seed").absolute())


def _slots(parted: Split) -> tuple[int, ...]:
    form = parted.form(sealed=True, places=[0])
    return parted.expected(form).slots


def _open(landing: Path, path: Path, terms: WindowTerms) -> None:
    try:
        changed = make_folders(str(landing), 0o700)  # others are kept out of both
        changed += make_folders(str(landing / FOLDER), 0o700)
        for folder in reversed(changed):
            flush(folder)
        window = WindowStore.opened(path, terms)
        closed = window.status().closed
        window.release()
    except (OSError, sqlite3.Error) as error:
        raise RequestError(f"--landing: {landing} cannot be used: {reason(error)}") from None
    if closed:
        raise RequestError(
            f"--window: {terms.window} was closed, and is not opened again: name the next one, or "
            "none to serve all that are open"
        )


def _close(path: Path, name: str, role: Role) -> int:
    if not path.exists():
        raise RequestError(f"--close: window {name} was never opened in this folder")
    try:
        WindowStore(path).close()
    except (OSError, sqlite3.Error) as error:
        raise FailedError(
            f"window {name} takes no more, and has not landed whole: {reason(error)}; close it "
            "again"
        ) from None
    answers.tell(window=name, closed=True)
    Screen().say(f"window {name} is closed: {_LEFT[role]}")
    return DONE


def _run(landing: Path, request: ServeRequest) -> None:
    """Serve until interrupted."""
    try:
        import starlette  # noqa: F401 - only the processes of uvicorn look at it
        import uvicorn
        from uvicorn.supervisors.multiprocess import Multiprocess
    except ImportError:
        raise RequestError(
            "serve needs the packages starlette and uvicorn, of the extra `parties`: pip install "
            "'.[parties]' in a clone of hushbeam"
        ) from None
    if not (landing / FOLDER).is_dir():
        raise RequestError(f"--landing: no window was ever opened in {landing}: name a --window")
    os.environ[VARIABLE] = str(landing)

    deaf = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # as under `nohup`

    class Processes(Multiprocess):
        """Which notes what stopped it, and ends with its terminal as one process does."""

        def __init__(self, config: uvicorn.Config, sockets: list[socket]) -> None:
            super().__init__(config, sockets)
            if deaf:  # workers inherit what is ignored, and no handler as uvicorn has set one
                signal.signal(signal.SIGHUP, signal.SIG_IGN)

        def handle_int(self) -> None:
            _remember(signal.SIGINT)
            super().handle_int()

        def handle_term(self) -> None:
            _remember(signal.SIGTERM)
            super().handle_term()

        def handle_hup(self) -> None:  # uvicorn would begin its processes anew
            _remember(signal.SIGHUP)
            super().handle_term()

    # No line for each request, no header of a proxy, no name of ours: nobody is looked at.
    config = uvicorn.Config(
        "pipelines.serve.application:of_environment", factory=True, port=request.port,
        workers=request.processes, log_config=None, access_log=False, proxy_headers=False,
        server_header=False, limit_concurrency=_CONNECTIONS, lifespan="off",
        timeout_worker_healthcheck=60,  # a machine that is busy has processes that are well
    )  # fmt: skip
    Screen().say(f"serving on http://127.0.0.1:{request.port}")
    # An interrupt is how one process ends; uvicorn exits, and says nothing, if the port is taken.
    with contextlib.suppress(KeyboardInterrupt, SystemExit):
        if request.processes > 1:
            Processes(config, sockets=[config.bind_socket()]).run()
        else:
            server = uvicorn.Server(config)

            def hang_up(number: int, frame: FrameType | None) -> None:
                _remember(number)
                server.handle_exit(number, frame)

            if not deaf:  # uvicorn does not take it, and an interrupt is lost in its loop
                signal.signal(signal.SIGHUP, hang_up)
            server.run()
    if not STOPPED_BY:
        raise FailedError(
            f"--port: nothing can be served on {request.port}: is another process there?"
        )
    Screen().say(f"stopped by {STOPPED_BY[-1]}: whatever was answered 2xx is kept")


def _remember(number: int, *_: object) -> None:
    STOPPED_BY.append(signal.Signals(number).name)
