"""A client's side of sealed strings: what the party that evaluates them makes of each."""

from __future__ import annotations

import fcntl
import os
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field

from mechanisms.wire.oblivious import Blinded
from mechanisms.wire.tokens import TOKEN
from pipelines.errors import RequestError, because
from pipelines.parties.asking_parties import Web, answered
from pipelines.parties.window_keys import KeyFolder
from pipelines.wording import number_of

FLAG, PAID = "--strings", "--query-tokens"


@dataclass(frozen=True)
class StringKeys:
    """Where a window's strings are evaluated.

    Attributes:
        party: its address; or its folder, for a trial on one machine.
        window: its name.
        fingerprint: that its reports carry.
        public: the key that is published, which answers are held to; empty with a folder.
        tokens: the file of what is paid, a token a query; empty with a folder.
        most: how many strings a token pays for.
    """

    party: str
    window: str
    fingerprint: bytes
    public: bytes = field(repr=False)
    tokens: str
    most: int

    def outputs(self, inputs: Sequence[bytes]) -> dict[bytes, bytes]:
        """What the window's key makes of inputs.

        Args:
            inputs: of `string_inputs`: all of a device's slots, or the strings of a log.

        Raises:
            RequestError: the party refuses, or there are too few tokens.
            FailedError: nobody answers.
        """
        if "://" not in self.party:
            key = KeyFolder(self.party).evaluator(self.fingerprint, "strings")
            return {plain: key.output(plain) for plain in inputs}
        batches = [inputs[i : i + self.most] for i in range(0, len(inputs), self.most)]
        outputs: dict[bytes, bytes] = {}
        for batch, token in zip(batches, take(self.tokens, len(batches)), strict=True):
            blinded = Blinded(batch)
            headers = {"Hushbeam-Token": encoded(token)}
            body = b"".join(blinded.elements)
            answer = Web(self.party, FLAG).post(f"strings/{self.window}", body, headers)
            try:
                outputs |= zip(batch, blinded.outputs(*answered(answer), self.public), strict=True)
            except ValueError as error:
                raise RequestError(f"{FLAG}: {self.party}: {error}") from None
        return outputs


def take(file: str, count: int) -> list[bytes]:
    """The next tokens of a file; workers of one machine share it.

    How many are gone stands in a file beside it: a token that was sent and never answered is gone.

    Raises:
        RequestError: the file cannot be read, or has too few left.
    """
    try:
        with open(file, "rb") as tokens, open(f"{file}.taken", "ab+") as taken:
            fcntl.flock(taken, fcntl.LOCK_EX)
            begun, left = (os.fstat(file.fileno()).st_size for file in (taken, tokens))
            left //= TOKEN
            if begun + count > left:
                raise RequestError(
                    f"{PAID}: {file} has {number_of(left - begun, 'token')} left, and {count:,} "
                    f"{'is' if count == 1 else 'are'} needed: fetch those of more devices, or name "
                    "fewer users"
                )
            taken.write(bytes(count))  # a byte a token
            taken.flush()
            os.fsync(taken.fileno())
            tokens.seek(begun * TOKEN)
            return [tokens.read(TOKEN) for _ in range(count)]
    except OSError as error:
        raise RequestError(f"{PAID}: {file} cannot be read{because(error)}") from None


def encoded(token: bytes) -> str:
    """A token as the header `Hushbeam-Token` has it."""
    return urlsafe_b64encode(token).decode()
