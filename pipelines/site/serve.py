"""A site in a browser on this machine: bound to the loopback, and to nothing else."""

from __future__ import annotations

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pipelines.errors import RequestError, reason

HERE = "127.0.0.1"


class _Quiet(SimpleHTTPRequestHandler):
    """Says nothing of who looked at what."""

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "no-store")
        super().end_headers()


def server(folder: str, port: int) -> ThreadingHTTPServer:
    """What answers; nobody is asked yet.

    Args:
        folder: of the site.
        port: 0 for any that is free.

    Raises:
        RequestError: the port is taken.
    """
    try:
        return ThreadingHTTPServer((HERE, port), partial(_Quiet, directory=folder))
    except OSError as error:
        raise RequestError(f"--serve: port {port} cannot be used: {reason(error)}") from None


def serve(folder: str, port: int) -> None:
    """Answer until somebody interrupts."""
    with server(folder, port) as answering:
        print(f"http://{HERE}:{answering.server_address[1]}/  (Ctrl-C ends it)", flush=True)
        try:
            answering.serve_forever()
        except KeyboardInterrupt:
            return
