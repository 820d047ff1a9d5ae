"""A library that draws the same noise in every run: for the goldens, and never for a release."""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from mechanisms.randomness import SecureRandom


class _LateCipher:
    """A keystream that takes its key when it is first drawn from, and by how much."""

    def __init__(self) -> None:
        self._cipher: CipherContext | None = None

    def update_into(self, zeros: bytes, piece: memoryview) -> int:
        if self._cipher is None:
            key = hashlib.sha256(b"hushbeam golden, %d bytes" % len(piece)).digest()
            self._cipher = Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor()
        return self._cipher.update_into(zeros, piece)


@contextmanager
def fixed_randomness() -> Iterator[None]:
    """While the context lasts, everything random in this process is the same in every run.

    `SecureRandom` itself is patched, in the class, so it does not matter who imports it and under
    which name. What the goldens pin thereby, and what they leave open:

    * A generator's key follows from how many bytes it first draws, and from nothing else. So it
      does not matter how many generators are opened, when, or in which order they are drawn from:
      Beam itself takes the metrics of a plan in an order that changes from process to process.
      (Generators that begin alike draw the same noise. A release made so protects nobody, and its
      errors may be larger than it says, but it is the same release.)
    * Of one generator everything is pinned: which draws it makes, of which size, in which order.

    Release ids count up, so that files that are named by them keep their order. Beam draws from
    `random`, which is seeded. X25519 keys stay random; no message depends on them.
    """
    numbers, beams = itertools.count(1), random.getstate()

    def start(self: Any, _: bytes) -> None:
        self._cipher, self._process = _LateCipher(), os.getpid()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SecureRandom, "_start", start)
        # Secrets that are made on first use are made anew, and alike.
        patch.setenv("XDG_STATE_HOME", tempfile.mkdtemp())
        patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(numbers)))
        random.seed(1)
        try:
            yield
        finally:
            random.setstate(beams)
