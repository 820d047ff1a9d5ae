"""HPKE as it is put together here: RFC 9180, the library's own suite, and what does not open."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.wire.hpke import Context
from tests.oracles.wire import EXAMPLES, hpke_seal

SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
KEY, OTHER = (X25519PrivateKey.from_private_bytes(bytes([i]) * 32) for i in (1, 2))
BOUND = Context(KEY.public_key(), b"bound to")
BOX = BOUND.seal(b"a message")

# All points of small order below 2^255 - 19 (RFC 7748, section 6.1; cr.yp.to/ecdh.html#validate).
SMALL = [
    "00" * 32,
    "01" + "00" * 31,
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ec" + "ff" * 30 + "7f",
]


def test_a_seal_is_that_of_the_rfc() -> None:
    """Appendix A.1.1: its `enc`, and its first text but for the tag, which has `aad`."""
    exact = bytes.fromhex("52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736")
    private = bytes.fromhex("4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8")
    ephemeral, receiver = map(X25519PrivateKey.from_private_bytes, (exact, private))
    text, info = b"Beauty is truth, truth beauty", b"Ode on a Grecian Urn"
    box = Context(receiver.public_key(), info).seal(text, ephemeral)
    start = "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431"
    start += "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218"
    assert box.hex().startswith(start)
    assert box == hpke_seal(text, receiver.public_key().public_bytes_raw(), info, b"", ephemeral)


@settings(max_examples=EXAMPLES)
@given(st.binary(min_size=32, max_size=32), st.binary(max_size=99), st.binary(max_size=300))
def test_the_librarys_suite_opens_it_and_seals_for_it(
    private: bytes, text: bytes, info: bytes
) -> None:
    key = X25519PrivateKey.from_private_bytes(private)
    context = Context(key.public_key(), info)
    assert SUITE.decrypt(context.seal(text), key, info) == text
    assert context.open(SUITE.encrypt(text, key.public_key(), info), key) == text


def test_each_seal_has_a_key_of_its_own() -> None:
    assert len({BOUND.seal(b"a message")[:32] for _ in range(50)}) == 50


def test_what_was_sealed_otherwise_does_not_open() -> None:
    assert BOUND.open(BOX, KEY) == b"a message"
    assert Context(KEY.public_key(), b"bound elsewhere").open(BOX, KEY) is None
    assert Context(OTHER.public_key(), b"bound to").open(BOX, KEY) is None
    assert Context(OTHER.public_key(), b"bound to").open(BOX, OTHER) is None
    for place in range(len(BOX)):
        changed = bytearray(BOX)
        changed[place] ^= 1
        assert BOUND.open(bytes(changed), KEY) is None


@pytest.mark.parametrize("size", range(len(BOX)))
def test_what_is_cut_off_does_not_open(size: int) -> None:
    assert BOUND.open(BOX[:size], KEY) is None


@pytest.mark.parametrize("point", SMALL)
def test_keys_of_small_order_open_nothing(point: str) -> None:
    """Anybody can seal under one, to all receivers at once: section 7.1.4 has them refused."""
    assert BOUND.open(bytes.fromhex(point) + BOX[32:], KEY) is None


def test_only_the_failure_to_authenticate_is_caught() -> None:
    def fails(_: object) -> bytes:
        raise MemoryError

    private: Any = SimpleNamespace(exchange=fails)
    with pytest.raises(MemoryError):
        BOUND.open(BOX, cast(X25519PrivateKey, private))
