"""Ids of reports: one of each user, window and metric, and none that others can make or link."""

from __future__ import annotations

import hashlib
import hmac

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from mechanisms.wire.identity import ReportIds
from tests.oracles.wire import PLAN

SECRET = bytes(range(32))
BASE = {"secret": SECRET, "fingerprint": PLAN, "metric": 0, "window": "2026-11-20"}
OTHERS = [
    {"secret": bytes(32)}, {"fingerprint": bytes(16)}, {"metric": 1}, {"metric": 256},
    {"window": "2026-11-21"}, {"window": ""},
]  # fmt: skip


def ids(**changed: object) -> ReportIds:
    return ReportIds(**{**BASE, **changed})


def test_an_id_is_what_the_document_says() -> None:
    """HMAC-SHA256 of the context, and AES of the digest under its first half."""
    for purpose, made, word in (
        (b"hushbeam id of a device 1", ids().of_device(), 0),
        (b"hushbeam ids of users 1", ids().of_users([77]), 77),
    ):
        key = hmac.digest(SECRET, purpose + PLAN + b"\0\0" + b"2026-11-20", hashlib.sha256)[:16]
        block = word.to_bytes(8, "little") + bytes(8)
        expected = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)
        assert made.astype("<u8").tobytes() == expected
    digests = hmac.digest(SECRET, b"hushbeam user digests 1", hashlib.sha256)[:8]
    assert ids().user_key == int.from_bytes(digests, "little")


def test_a_user_has_one_id_and_users_have_others() -> None:
    users = np.arange(5000, dtype=np.uint64)
    made = ids().of_users(users)
    assert np.array_equal(made[::-1], ids().of_users(users[::-1]))
    assert len(np.unique(made, axis=0)) == 5000
    assert not (made == ids().of_device()).all(axis=1).any()


@pytest.mark.parametrize("changed", OTHERS, ids=str)
def test_metrics_windows_plans_and_secrets_have_ids_that_share_nothing(changed) -> None:
    """Of two independent words of 64 bits no half is ever equal: 10^4 pairs, 2^-64 each."""
    users = np.arange(5000, dtype=np.uint64)
    one, other = ids(), ids(**changed)
    assert not (one.of_users(users) == other.of_users(users)).any()
    assert not (one.of_device() == other.of_device()).any()


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"secret": bytes(31)}, "32 bytes"),
        ({"fingerprint": bytes(15)}, "16 bytes"),
        ({"metric": 65_536}, "metric"),
        ({"metric": -1}, "metric"),
    ],
)
def test_what_is_no_secret_or_no_plan_is_refused(changed, match) -> None:
    with pytest.raises(ValueError, match=match):
        ids(**changed)


def test_a_secret_is_not_shown() -> None:
    assert "secret" not in repr(ids())
