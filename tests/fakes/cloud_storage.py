"""Cloud Storage on this machine: the emulator from PyPI, and what it lacks.

The emulator stores, lists and serves objects, but writes whatever `ifGenerationMatch` says, does
not tell an object's generation with its content, and stores what has come of one whose sender was
killed on the way. A ledger stands on the first two, and whoever is killed on the last.
It serves one request after the other: nothing comes between a comparison and its write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import pytest
from apache_beam.internal.gcp import auth
from gcp_storage_emulator import server
from gcp_storage_emulator.exceptions import NotFound
from gcp_storage_emulator.handlers import objects

BUCKET = "bucket"


def _generation(storage: Any, bucket: str, name: str) -> int:
    """Of an object; 0 if there is none."""
    try:
        return int(storage.get_file_obj(bucket, name)["generation"])
    except NotFound:
        return 0


def _insert(request: Any, response: Any, storage: Any, *rest: Any, **more: Any) -> None:
    """Write an object, if it has the generation that was expected."""
    expected = request.query.get("ifGenerationMatch")
    if expected is not None:
        name = request.data["meta"]["name"]
        if int(expected[0]) != _generation(storage, request.params["bucket_name"], name):
            response.status = HTTPStatus.PRECONDITION_FAILED
            response.json({"error": {"code": 412, "message": "conditionNotMet"}})
            return
    objects.insert(request, response, storage, *rest, **more)


def _telling(answer: Callable[..., None]) -> Callable[..., None]:
    """An object's content, with its generation."""

    def told(request: Any, response: Any, storage: Any, *rest: Any, **more: Any) -> None:
        answer(request, response, storage, *rest, **more)
        place = request.params["bucket_name"], request.params["object_id"]
        response["X-Goog-Generation"] = str(_generation(storage, *place))

    return told


def _whole(handler: Any) -> bytes | None:
    """A request's body; nothing is to come of one that was cut off."""
    length = handler.headers.get("Content-Length")
    if length is None:
        return _read(handler)
    body: bytes = handler.rfile.read(int(length))
    if len(body) < int(length):
        raise ConnectionAbortedError("the body was cut off")
    return body


_read = server._read_raw_data
_MENDED = {
    objects.insert: _insert,
    objects.download: _telling(objects.download),
    objects.get: _telling(objects.get),  # which also serves contents
}


@contextmanager
def emulated() -> Iterator[None]:
    """Cloud Storage with an empty `BUCKET`, for every client in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            server, "HANDLERS",
            tuple(
                (path, {verb: _MENDED.get(handler, handler) for verb, handler in verbs.items()})
                for path, verbs in server.HANDLERS
            ),
        )  # fmt: skip
        patch.setattr(server, "_read_raw_data", _whole)
        # Beam would look for credentials for half a minute before it goes on without.
        patch.setattr(auth._Credentials, "_credentials_init", True)
        running = server.create_server("127.0.0.1", 0, in_memory=True, default_bucket=BUCKET)
        running.start()
        try:
            port = running._api._httpd.server_port
            patch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{port}")
            patch.setenv("GOOGLE_CLOUD_PROJECT", "project")
            yield
        finally:
            running.stop()
