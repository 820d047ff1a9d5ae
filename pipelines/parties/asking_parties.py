"""How a device asks a party over HTTP, by the standard library."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass

from mechanisms.randomness import SecureRandom
from mechanisms.wire.oblivious import PROOF, split
from pipelines.errors import FailedError, RequestError, reason

_TIMEOUT = 60.0  # seconds
_PAUSES = (0, 1_000, 2_000, 4_000, 8_000)  # before each try, of up to so many milliseconds


class Refused(RequestError):
    """A party's answer to a request that it does not take.

    Attributes:
        status: as HTTP says it.
    """

    def __init__(self, status: int, where: str) -> None:
        super().__init__(f"{where} answered {status}: {WHY.get(status, 'ask who runs it')}")
        self.status = status


class _Staying(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: it would send tokens and credentials elsewhere, and a GET for a POST."""

    def redirect_request(self, *_: object) -> None:
        """None: the redirect is the answer."""


_OPENER = urllib.request.build_opener(_Staying)


@dataclass(frozen=True)
class Web:
    """Where a party answers.

    Attributes:
        url: of the party, without a path of ours.
        flag: the option that named it.
    """

    url: str
    flag: str

    def post(self, path: str, body: bytes, headers: Mapping[str, str], answer: int = 200) -> bytes:
        """The answer to a request, which is sent again if an answer is lost: the same bytes.

        Args:
            path: of the party.
            body: what is sent.
            headers: that go with it.
            answer: the status of success. Any other means that the party did not take it: a
                portal on the way answers 200 with a page of its own.

        Raises:
            Refused: the party does not take it; nothing of the request is quoted.
            RequestError: the address is none.
            FailedError: nobody answers.
        """
        url = f"{self.url.rstrip('/')}/{urllib.parse.quote(path)}"
        if not url.startswith(("https://", "http://")):
            raise RequestError(f"{self.flag}: {self.url} is no address: name https://...")
        request = urllib.request.Request(url, body, dict(headers), method="POST")
        for bound in _PAUSES:
            # Drawn, so that devices that failed together do not come back together.
            time.sleep(int(SecureRandom().integers(bound + 1, 1)[0]) / 1000)
            try:
                with _OPENER.open(request, timeout=_TIMEOUT) as response:
                    if response.status != answer:
                        raise Refused(response.status, f"{self.flag}: {url}")
                    return bytes(response.read())
            except urllib.error.HTTPError as error:
                why = f"answered {error.code}"
                if error.code < 500:
                    raise Refused(error.code, f"{self.flag}: {url}") from None
            except (OSError, http.client.HTTPException) as error:
                # What the library wraps says it in words: "Connection refused".
                why = reason(getattr(error, "reason", error))
        raise FailedError(f"{self.flag}: {url} does not answer ({why}): run this again later")


_ELSEWHERE = "it sends devices elsewhere, which is not followed: name the party's own address"
WHY = {
    **dict.fromkeys((200, 204), "that is no answer of a party, but of a portal on the way perhaps"),
    **dict.fromkeys((301, 302, 303, 307, 308), _ELSEWHERE),
    400: "it cannot use the request: is the plan the same there?",
    401: "it does not know the secret, or the token is none of this window",
    404: "it has no such window: is its name the same there?",
    408: "it waited too long for the request: run this again on a better connection",
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
