"""An issuer, a party of strings and an endpoint over HTTP, as small as their protocol."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mechanisms.wire.oblivious import Evaluator, split
from mechanisms.wire.tokens import Issuer


@dataclass
class Parties:
    """What the parties of one window know, all in one place.

    Attributes:
        issuer, queries, strings: their keys.
        most: elements of a request for tokens.
        devices: digests of credentials that are enrolled.
        fetched, spent: payer or token -> a digest of what came with it.
        posted: (token, body) of each report that was kept.
        lost: how many answers get lost on their way from now on.
        portal: the status of who answers in their place; None is nobody. It names another address.
        followed: (path, headers) of what has come to that address.
    """

    issuer: Issuer
    queries: Issuer
    strings: Evaluator
    most: int = 1
    devices: set[str] = field(default_factory=set)
    fetched: dict[bytes, bytes] = field(default_factory=dict)
    spent: dict[bytes, bytes] = field(default_factory=dict)
    posted: list[tuple[bytes, bytes]] = field(default_factory=list)
    lost: int = 0
    portal: int | None = None
    followed: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def tokens(self, key: Issuer, credential: str, body: bytes) -> tuple[int, bytes]:
        digest = hashlib.sha256(credential.encode()).hexdigest()
        if digest not in self.devices:
            return 401, b""
        if not 0 < len(body) <= 32 * self.most:
            return 400, b""
        if self.fetched.setdefault(digest.encode(), body) != body:
            return 409, b""
        return 200, _evaluated(key, body)

    def evaluate(self, token: bytes, body: bytes) -> tuple[int, bytes]:
        if not self.queries.valid(token):
            return 401, b""
        if self.spent.setdefault(token, body) != body:
            return 409, b""
        return 200, _evaluated(self.strings, body)

    def report(self, token: bytes, body: bytes) -> tuple[int, bytes]:
        if not self.issuer.valid(token):
            return 401, b""
        fresh = token not in self.spent
        if self.spent.setdefault(token, body) != body:
            return 409, b""
        self.posted += [(token, body)] * fresh
        return 204, b""

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        credential = headers.get("Authorization", "").removeprefix("Bearer ")
        token = base64.urlsafe_b64decode(headers.get("Hushbeam-Token", ""))
        kinds = {"issuer": self.issuer, "queries": self.queries}
        first, _, rest = path.strip("/").partition("/")
        if rest.startswith("tokens/") and first in kinds:
            return self.tokens(kinds[first], credential, body)
        if first == "strings":
            return self.evaluate(token, body)
        return self.report(token, body) if first == "reports" else (404, b"")


def _evaluated(key: Evaluator, body: bytes) -> bytes:
    try:
        evaluated, proof = key.evaluate(split(body))
    except ValueError:
        return b""
    return b"".join(evaluated) + proof


@contextlib.contextmanager
def served(parties: Parties) -> Iterator[str]:
    """Their address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if parties.portal is not None:
                self.written(parties.portal, b"<html>Log in</html>", Location="/elsewhere")
                return
            status, answer = parties.answer(self.path, dict(self.headers), body)
            if parties.lost:
                parties.lost -= 1
                return
            self.written(status, answer)

        def do_GET(self) -> None:
            parties.followed.append((self.path, dict(self.headers)))
            self.written(200, b"<html>Welcome</html>")

        def written(self, status: int, answer: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(answer)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
