"""How a device asks a party over HTTP, by the standard library."""

from __future__ import annotations

import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass

from mechanisms.wire.oblivious import PROOF, split
from pipelines.errors import FailedError, RequestError, reason

_TIMEOUT = 60.0  # seconds


@dataclass(frozen=True)
class Web:
    """Where a party answers.

    Attributes:
        url: of the party, without a path of ours.
        flag: the option that named it.
    """

    url: str
    flag: str

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        """The answer to a request.

        Raises:
            RequestError: the party refuses it; nothing of the request is quoted.
            FailedError: nobody answers.
        """
        url = f"{self.url.rstrip('/')}/{urllib.parse.quote(path)}"
        if not url.startswith(("https://", "http://")):
            raise RequestError(f"{self.flag}: {self.url} is no address: name https://...")
        request = urllib.request.Request(url, body, dict(headers), method="POST")
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            why = _STATUS.get(error.code, "ask who runs it")
            raise RequestError(f"{self.flag}: {url} answered {error.code}: {why}") from None
        except (OSError, ValueError) as error:
            raise FailedError(f"{self.flag}: {url} does not answer ({reason(error)})") from None


_STATUS = {
    400: "it cannot use the request: is the plan the same there?",
    401: "it does not know the secret, or the token is none of this window",
    404: "it has no such window: is its name the same there?",
    409: "this was used before, with something else: what was fetched or sent first counts",
    410: "the window is closed",
    413: "it takes no body of this size",
    429: "too many requests: come again later",
}


def answered(body: bytes) -> tuple[list[bytes], bytes]:
    """Evaluated elements, and the proof.

    Raises:
        ValueError: it is no such answer.
    """
    return split(body[:-PROOF]), body[-PROOF:]
