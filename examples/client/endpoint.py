"""An example of what takes devices' sealed reports to the shuffler's landing folder.

It belongs to the party of the shuffler. It keeps what was posted and nothing else: no address, no
header, no time, no order. What cannot be a report of the plan is refused, and a body that is large.

    python examples/client/endpoint.py plan.yaml --window 2026-11-20 --landing landing

POST /reports with the bytes that a client made: 204 if they are kept (once, however often they
come), 400 if they are no sealed reports of the plan, 413 if they are too many. Run it behind a
server that ends TLS, with that server's log of addresses switched off.
"""

from __future__ import annotations

import argparse
import fcntl
import io
import os
from collections.abc import Sequence
from pathlib import Path

from aiohttp import web

from mechanisms.randomness import SecureRandom
from mechanisms.wire import binary
from mechanisms.wire.screening import Expected
from pipelines.plan.loading import load
from pipelines.plan.split import split
from pipelines.storage.paths import flush, make_folders

LARGEST = 1 << 17  # bytes of a body; a report to noisy counters has half of that at the most
LEAST = 100  # reports of a landed file: among so many it does not show which came last


class TakenError(Exception):
    """Another endpoint serves a folder."""


class Landing:
    """The folder that the shuffler reads: `*.reports`, and `*.waiting`, which is too few to be one.

    Each window has a waiting file of its own, named by what its reports are for: what another
    window's endpoint has answered for stays there. One process serves a folder: two would each
    overwrite what the other has answered for.

    Attributes:
        folder: where they are.
        expected: what the plan accepts.
        least: reports of a landed file.

    Raises:
        TakenError: another process serves the folder.
    """

    def __init__(self, folder: Path, expected: Expected, least: int = LEAST) -> None:
        self.folder, self.expected, self.least, self.rng = folder, expected, least, SecureRandom()
        for each in reversed(make_folders(str(folder.absolute()))):
            flush(each)
        self._lock = (folder / ".lock").open("ab")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until the process ends
        except BlockingIOError:
            self._lock.close()
            raise TakenError(f"another endpoint serves {folder}") from None
        # A seal is never made twice, so a body that comes again is told by its bytes.
        self.known = {r for path in folder.glob("*.reports") for r in self._records(path)}
        left = self._records(self._waiting) if self._waiting.exists() else []
        self.waiting = [record for record in left if record not in self.known]
        self.known.update(self.waiting)

    def close(self) -> None:
        """Let another process serve the folder."""
        self._lock.close()

    def add(self, body: bytes) -> bool:
        """Keep the reports of a body, each once; false, and nothing kept, if it is none."""
        records = self._parsed(body)
        fresh = [record for record in dict.fromkeys(records) if record not in self.known]
        waiting = [*self.waiting]
        for record in fresh:  # at a random place: nothing tells in which order they came
            waiting.insert(int(self.rng.integers(len(waiting) + 1, 1)[0]), record)
        if len(waiting) >= self.least:
            self._write(self.folder / f"{self.rng.words(2).tobytes().hex()}.reports", waiting)
            waiting = []
            self._waiting.unlink(missing_ok=True)
        elif fresh:
            self._write(self._waiting, waiting)
        # What could not be written was not answered for, and may come again.
        self.waiting = waiting
        self.known.update(fresh)
        return bool(records)

    @property
    def _waiting(self) -> Path:
        return self.folder / f"{self.expected.fingerprint.hex()}.waiting"

    def _records(self, path: Path) -> list[bytes]:
        return self._parsed(path.read_bytes())

    def _parsed(self, body: bytes) -> list[bytes]:
        """The records of a file, as they stand in it; none if anything else is there."""
        screened = list(binary.read(io.BytesIO(body), self.expected))
        if any(part.dropped for part in screened):
            return []
        return [record.tobytes() for part in screened for record in part.reports.records]

    def _write(self, path: Path, records: Sequence[bytes]) -> None:
        """A file, whole or not at all, that tells no time; what is answered for is on the disk."""
        part = path.with_name(f".{path.name}.part")
        with part.open("wb") as file:
            file.write(binary.header(self.expected.form, self.expected.fingerprint))
            file.write(b"".join(records))
            file.flush()
            os.fsync(file.fileno())
        os.utime(part, (0, 0))
        part.rename(path)
        flush(str(self.folder))  # else a power cut may take its name


def application(landing: Landing, largest: int = LARGEST) -> web.Application:
    """What answers posts."""

    async def post(request: web.Request) -> web.Response:
        kept = landing.add(await request.read())  # too large a body is refused here
        # The page may come from another site; what it sends says nothing of who sends it.
        headers = {"Access-Control-Allow-Origin": "*"}
        return web.Response(status=204 if kept else 400, headers=headers)

    app = web.Application(client_max_size=largest)
    app.add_routes([web.post("/reports", post)])
    return app


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="Append sealed reports to a landing folder.")
    parser.add_argument("plan", help="the plan file")
    parser.add_argument("--window", required=True, help="whose reports are taken")
    parser.add_argument("--landing", type=Path, required=True, help="the shuffler's folder")
    parser.add_argument("--port", type=int, default=8080, help="on this machine alone")
    arguments = parser.parse_args(argv)
    parted = split(load(arguments.plan), arguments.window)
    expected = parted.expected(parted.form(sealed=True, places=[0]))
    try:
        landing = Landing(arguments.landing, expected)
    except TakenError as error:
        parser.error(f"--landing: {error}; it ends with that process")
    web.run_app(application(landing), host="127.0.0.1", port=arguments.port, access_log=None)


if __name__ == "__main__":
    main()
