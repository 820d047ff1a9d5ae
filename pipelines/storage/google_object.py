"""An object in Google Cloud Storage, or in an emulator that STORAGE_EMULATOR_HOST names."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pipelines.errors import RequestError
from pipelines.storage.objects import Changed, Unavailable
from pipelines.storage.stores import GOOGLE_EXTRA

_TIMEOUT = 10.0  # seconds that one request may take
_LATER = (408, 429, 500, 502, 503, 504)  # Cloud Storage asks to try these again


@dataclass(frozen=True)
class GoogleObject:
    """An object, by its address.

    Attributes:
        name: gs://bucket/object.
        timeout: for one request, in seconds.
        flag: what named it, for messages.
    """

    name: str
    timeout: float = _TIMEOUT
    flag: str = "--ledger"

    def __post_init__(self) -> None:
        bucket, _, path = self.name.removeprefix("gs://").partition("/")
        if not (self.name.startswith("gs://") and bucket and path and not path.endswith("/")):
            raise RequestError(
                f"{self.flag}: {self.name} names no object; write gs://BUCKET/FOLDER/ledger.json"
            )
        self._google("google.cloud.storage")

    def beside(self, name: str) -> GoogleObject:
        """See `StoredObject`."""
        return replace(self, name=name)

    def fetch(self) -> tuple[bytes, int]:
        """See `StoredObject`."""
        with self._plain_words():
            blob = self._blob()
            try:
                # Without the library's own retries: the pauses are ours, and they end when ours do.
                content = blob.download_as_bytes(timeout=self.timeout, retry=None)
            except self._errors.NotFound:
                self._require_bucket()
                return b"", 0
            return content, int(blob.generation)  # from the headers of the same answer

    def swap(self, content: bytes, generation: int) -> None:
        """See `StoredObject`."""
        with self._plain_words():
            # `retry=None`: a second attempt of the library's would meet the first one's success
            # and call it a conflict.
            self._blob().upload_from_string(
                content, content_type="application/json", if_generation_match=generation,
                timeout=self.timeout, retry=None,
            )  # fmt: skip

    def _blob(self) -> Any:
        bucket, _, path = self.name.removeprefix("gs://").partition("/")
        return self._client.bucket(bucket).blob(path)

    def _require_bucket(self) -> None:
        """Tell a bucket without the object from no bucket."""
        bucket = self._blob().bucket
        listing = self._client.list_blobs(bucket, max_results=1, timeout=self.timeout, retry=None)
        try:
            next(iter(listing), None)
        except self._errors.NotFound:
            raise RequestError(f"{self.flag}: there is no bucket {bucket.name}") from None

    @contextmanager
    def _plain_words(self) -> Iterator[None]:
        """The library's errors as ours."""
        errors = self._errors
        try:
            yield
        except errors.PreconditionFailed:
            raise Changed from None
        except errors.GoogleAPICallError as error:
            if error.code in _LATER:
                raise Unavailable from None
            raise RequestError(f"{self.flag}: {self.name} was refused ({error.code})") from None
        except (*self._cut_off, errors.RetryError):
            raise Unavailable from None
        except self._credentials as error:
            raise RequestError(
                f"{self.flag}: {self.name}: no credentials ({type(error).__name__}); "
                "run `gcloud auth application-default login`"
            ) from None

    @cached_property
    def _client(self) -> Any:
        return self._google("google.cloud.storage").Client()

    @property
    def _errors(self) -> Any:
        return self._google("google.api_core.exceptions")

    @property
    def _cut_off(self) -> tuple[type[Exception], ...]:
        """What a request ends in that is not answered, or whose answer is cut short."""
        stream = importlib.import_module("requests.exceptions").RequestException
        transport = self._google("google.auth.exceptions").TransportError
        return stream, transport, OSError

    @property
    def _credentials(self) -> type[Exception]:
        return self._google("google.auth.exceptions").GoogleAuthError

    def _google(self, module: str) -> Any:
        try:
            return importlib.import_module(module)
        except ImportError:
            raise RequestError(
                f"{self.flag}: {self.name}: an object in a bucket needs the package "
                f"google-cloud-storage ({GOOGLE_EXTRA})"
            ) from None
