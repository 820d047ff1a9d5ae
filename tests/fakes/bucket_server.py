"""A bucket over HTTP, as far as a ledger needs one: generations, preconditions, and bad days.

It speaks the part of Cloud Storage's JSON API that google-cloud-storage uses to fetch an object, to
replace it if its generation matches, and to list a bucket.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


class Bucket:
    """What the server holds, and what befalls the next requests.

    Attributes:
        objects: name -> (content, generation).
        faults: of the next uploads: a status; "hang" (nothing is written, no answer); "lost" (it
            is written, no answer); "lost 503" (it is written, and the answer is 503).
        reading: the same for downloads, where "lost" makes no sense.
        uploads: how many uploads came.
    """

    def __init__(self, name: str = "bucket") -> None:
        self.name = name
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.faults: deque[int | str] = deque()
        self.reading: deque[int | str] = deque()
        self.uploads = 0
        self.lock = threading.Lock()
        self.clock = time.time_ns() // 1000

    def replace(self, name: str, content: bytes, expected: int | None) -> int | None:
        """The new generation, or None if the object has another one than expected."""
        with self.lock:
            if expected is not None and expected != self.objects.get(name, (b"", 0))[1]:
                return None
            self.clock += 1
            self.objects[name] = (content, self.clock)
            return self.clock


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else every answer waits for an acknowledgement, 40 ms
    bucket: Bucket
    backoff = 30.0

    def do_GET(self) -> None:
        words = urlsplit(self.path)
        bucket, name = self._target(words.path)
        # The library asks about the bucket, too, whenever it likes: that is no download.
        download = name is not None and self.bucket.reading
        fault = self.bucket.reading.popleft() if download else None
        if fault == "hang":
            return self._silence()
        if isinstance(fault, int):
            return self._answer(fault)
        if bucket != self.bucket.name:
            return self._answer(404)
        if name is None:
            return self._json({"kind": "storage#objects", "items": []})
        content, generation = self.bucket.objects.get(name, (b"", 0))
        if generation == 0:
            return self._answer(404)
        self._answer(200, content, {"X-Goog-Generation": str(generation)})

    def do_POST(self) -> None:
        words = urlsplit(self.path)
        query = parse_qs(words.query)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.bucket.uploads += 1
        fault = self.bucket.faults.popleft() if self.bucket.faults else None
        if fault == "hang":
            return self._silence()
        if isinstance(fault, int):
            return self._answer(fault)
        expected = query.get("ifGenerationMatch")
        name, content = _parts(body, self.headers["Content-Type"])
        generation = self.bucket.replace(name, content, int(expected[0]) if expected else None)
        if fault == "lost":
            return self._silence()
        if fault == "lost 503":
            return self._answer(503)
        if generation is None:
            return self._answer(412)
        self._json({"name": name, "bucket": self.bucket.name, "generation": str(generation)})

    def _target(self, path: str) -> tuple[str, str | None]:
        """Bucket and object of .../b/BUCKET/o/OBJECT."""
        bucket, _, name = path.partition("/b/")[2].partition("/o")
        return unquote(bucket), unquote(name[1:]) or None

    def _silence(self) -> None:
        self.close_connection = True
        time.sleep(self.backoff)

    def _json(self, content: object) -> None:
        self._answer(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _answer(self, status: int, content: bytes = b"{}", headers: dict[str, str] = {}) -> None:  # noqa: B006
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nobody listens."""


def _parts(body: bytes, kind: str) -> tuple[str, bytes]:
    """Name and content of a multipart upload."""
    boundary = kind.partition("boundary=")[2].strip('"').encode()
    metadata, content = body.split(b"--" + boundary)[1:3]
    name = json.loads(metadata.partition(b"\r\n\r\n")[2])["name"]
    return name, content.partition(b"\r\n\r\n")[2][:-2]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a thread that plays dead is not waited for
    request_queue_size = 64


@contextmanager
def serving(backoff: float = 30.0) -> Iterator[tuple[Bucket, str]]:
    """A server while the context lasts: its bucket, and the value for STORAGE_EMULATOR_HOST.

    Args:
        backoff: how long it stays silent when it hangs, in seconds.
    """
    bucket = Bucket()
    handler = type("Handler", (_Handler,), {"bucket": bucket, "backoff": backoff})
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield bucket, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
