"""The services as an ASGI application: what is taken, what is answered, and what may be shown.

    POST /reports          a report file; with Hushbeam-Token where the plan asks for tokens
    POST /tokens/WINDOW    blinded elements, of the device that Authorization names
    POST /strings/WINDOW   blinded elements, paid for with Hushbeam-Token
    GET  /health, /metrics

An answer says whether something is kept, and why not. It depends on no sender, and no address is
looked at. Whatever was answered 2xx is answered so again.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import gc
import hashlib
import io
import json
import multiprocessing
import os
import signal
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from mechanisms.wire import binary
from mechanisms.wire.oblivious import split
from mechanisms.wire.tokens import TOKEN
from pipelines.serve.service import UNREADABLE, VARIABLE, Open, Service, digest
from pipelines.serve.terms import Role
from pipelines.serve.window import CLOSED, KEPT, Post, Status

AT_ONCE = 2048  # requests of a process; more are answered 503 at once, and come again
LARGEST = 1 << 17  # bytes of a body; a report to noisy counters has half of that at the most
WITHIN = 30.0  # seconds for a body: without an end, `AT_ONCE` of them hold a process for ever

TOKEN_HEADER = "Hushbeam-Token"

_MALFORMED, _UNPAID, _UNKNOWN, _LARGE, _FAILED = 400, 401, 404, 413, 503
_IDLE = 408
_LATER = {"Retry-After": "30"}
_MARK = slice(binary.HEADER - 16, binary.HEADER)  # of a header: the fingerprint


def application(landing: Path, largest: int = LARGEST) -> Starlette:
    """What a process serves.

    Args:
        landing: the folder of its windows.
        largest: bytes of a body.
    """
    routes = Answers(Service(landing), largest)
    return Starlette(
        routes=[
            Route("/reports", routes.reports, methods=["POST"]),
            Route("/tokens/{window}", routes.tokens, methods=["POST"]),
            Route("/strings/{window}", routes.strings, methods=["POST"]),
            Route("/health", routes.health),
            Route("/metrics", routes.metrics),
        ],
        # The page may come from another site; what it sends says nothing of who sends it.
        middleware=[
            Middleware(
                CORSMiddleware,
                allow_origins=["*"],
                allow_methods=["POST"],
                allow_headers=[TOKEN_HEADER, "Authorization"],
            ),
            Middleware(_AtMost),  # inside, so that a page may read this answer, too
        ],
        exception_handlers=dict.fromkeys(UNREADABLE, _unreadable),
    )


async def _unreadable(request: Request, error: Exception) -> Response:
    """503: of one window; the next look at it finds what was restored, or that it has ended."""
    return PlainTextResponse("this window cannot be read: try again", _FAILED, _LATER)


def of_environment() -> Starlette:
    """What each process of `hushbeam serve` serves."""
    if multiprocessing.parent_process() is not None:  # which is hung up, too, and ends this one
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # What was imported is no garbage. With Python's own threshold, in a process that had imported
    # the tests' tools too, to look through it took 33 to 47 us of 154 to 168 a request.
    gc.freeze()
    gc.set_threshold(100_000)
    return application(Path(os.environ[VARIABLE]))


class _AtMost:
    """Answers 503 to requests beyond `AT_ONCE`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._running = app, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if self._running >= AT_ONCE:
            app = PlainTextResponse("too many requests", _FAILED, _LATER)
        count = int(scope["type"] == "http")  # not the server's own start and end
        self._running += count
        try:
            await app(scope, receive, send)
        finally:
            self._running -= count


class Answers:
    """The handlers of one process.

    Args:
        service: its windows.
        largest: bytes of a body.
    """

    def __init__(self, service: Service, largest: int) -> None:
        self._service, self._largest = service, largest

    async def reports(self, request: Request) -> Response:
        """Keep a report: 204."""
        body = await self._body(request)
        if not body.startswith(binary.MAGIC):
            raise HTTPException(_MALFORMED, "no file of reports")
        window = self._window("reports", body[_MARK].hex())
        records = _records(body, window)
        token = b""
        if window.terms.issuer:
            if len(records) != 1:  # else one token would buy many reports
                raise _refusal(window, _MALFORMED, "a token pays for one report")
            token = _paid(request, window)
        post = Post(token, digest(body), tuple((digest(record), record) for record in records))
        await self._keep(window, post)
        return Response(status_code=KEPT)

    async def tokens(self, request: Request) -> Response:
        """Evaluate a device's one request of a window: elements, and a proof."""
        window = self._window("tokens", request.path_params["window"])
        credential = request.headers.get("Authorization", "").removeprefix("Bearer ").encode()
        if hashlib.sha256(credential).hexdigest() not in window.devices():
            raise _refusal(window, _UNPAID, "no device of this collection")
        # No credential is kept: who knew them all could tell from its digest who has fetched.
        payer = digest(window.issuer.output(b"device" + credential))
        return await self._evaluated(request, window, payer)

    async def strings(self, request: Request) -> Response:
        """Evaluate elements that a token pays for: elements, and a proof."""
        window = self._window("strings", request.path_params["window"])
        return await self._evaluated(request, window, _paid(request, window))

    async def health(self, request: Request) -> Response:
        """200 if posts can be kept."""
        return Response(status_code=200 if self._service.healthy else _FAILED)

    async def metrics(self, request: Request) -> Response:
        """What anybody may know, in Prometheus' text format."""
        # How long commits take would tell that somebody came.
        lines = [f"hushbeam_commit_failures {self._service.failures}"]
        statuses = await self._service.statuses()
        lines += [f"hushbeam_unreadable_windows {statuses.count(None)}"]
        lines += [line for status in statuses if status for line in shown(status)]
        return PlainTextResponse("\n".join([*lines, ""]))

    async def _evaluated(self, request: Request, window: Open, payer: bytes) -> Response:
        body = await self._body(request)
        try:
            elements = split(body)
            if not 0 < len(elements) <= window.terms.elements:
                raise ValueError("too many")
            party = window.issuer if window.terms.role == "tokens" else window.strings
            evaluated, proof = party.evaluate(elements)
        except ValueError:
            most = window.terms.elements
            raise _refusal(window, _MALFORMED, f"1 to {most} elements of 32 bytes") from None
        await self._keep(window, Post(payer, digest(body)))
        return Response(b"".join([*evaluated, proof]), media_type="application/octet-stream")

    async def _body(self, request: Request) -> bytes:
        """All of it."""
        task, late = asyncio.current_task(), False

        def give_up() -> None:
            nonlocal late
            late = task is not None and task.cancel()

        # All together: a byte now and then would hold the process as well as none. `wait_for` does
        # this in a task of its own, and took as long as all of starlette.
        timer = asyncio.get_running_loop().call_later(WITHIN, give_up)
        try:
            return await self._read(request)
        except asyncio.CancelledError:
            if not late:
                raise
            why = f"a body comes within {WITHIN:g} seconds"
            raise HTTPException(_IDLE, why, {"Connection": "close"}) from None
        finally:
            timer.cancel()

    async def _read(self, request: Request) -> bytes:
        """All of a body, or as much as shows that it is too large."""
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > self._largest:
                raise HTTPException(_LARGE, f"a body has at most {self._largest} bytes")
        return body

    def _window(self, role: Role, name: str) -> Open:
        window = self._service.window(role, name)
        if window is None:
            raise HTTPException(_UNKNOWN, "this window is not open")
        if window.closed:
            raise HTTPException(CLOSED, "this window is closed")
        return window

    async def _keep(self, window: Open, post: Post) -> None:
        try:
            answer = await self._service.keep(window, post)
        except Exception:  # as a full disk: nothing was kept, and the client comes again
            raise HTTPException(_FAILED, "not kept: try again", _LATER) from None
        if answer != KEPT:
            raise HTTPException(answer, _WHY[answer])


_WHY = {
    409: "this token was spent on something else",
    CLOSED: "this window is closed",
    429: "this window is full",
}


def shown(status: Status) -> list[str]:
    """What of a window may be shown to anybody.

    Nothing counts before the window is closed: two looks would tell when somebody came. Where the
    release hides who takes part, so must every count of posts, those of refused ones too: one
    that is not zero is a person.
    """
    terms, closed = status.terms, int(status.closed)
    labels = f'window={json.dumps(terms.window)},role="{terms.role}"'
    lines = [f"hushbeam_window_closed{{{labels}}} {closed}"]
    if closed and terms.published:
        lines.append(f"hushbeam_kept{{{labels}}} {status.kept}")
        lines += [
            f'hushbeam_refused{{{labels},answer="{answer}"}} {posts}'
            for answer, posts in sorted(status.refused.items())
        ]
    return lines


def _records(body: bytes, window: Open) -> list[bytes]:
    """The reports of a body, as they stand in it."""
    screened = list(binary.read(io.BytesIO(body), window.terms.expected))
    records = [record.tobytes() for part in screened for record in part.reports.records]
    if not records or any(part.dropped for part in screened):
        raise _refusal(window, _MALFORMED, "no sealed reports of this window")
    return records


def _paid(request: Request, window: Open) -> bytes:
    """The digest of a token that the window's issuer has made."""
    try:
        token = base64.urlsafe_b64decode(request.headers.get(TOKEN_HEADER, ""))
    except (binascii.Error, ValueError):
        token = b""
    if len(token) != TOKEN or not window.issuer.valid(token):
        raise _refusal(window, _UNPAID, "no token of this window")
    return digest(token)


def _refusal(window: Open, answer: int, why: str) -> HTTPException:
    window.refused[answer] += 1
    return HTTPException(answer, why)
