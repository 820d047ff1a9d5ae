"""Sealing: it is RFC 9180, bound to plan, metric and key; what does not open is counted."""

from __future__ import annotations

import pickle
import stat
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.randomness import SeededRandom
from mechanisms.wire import binary, screening
from mechanisms.wire.report import Form, Reports
from mechanisms.wire.sealing import KeyRing, create_key, info, key_id, public_key, seal
from tests.oracles.wire import (
    DATA,
    EXAMPLES,
    GOLDEN_KEY,
    PLAN,
    expected,
    fields,
    golden,
    hpke_open,
    hpke_seal,
)

KEYS = [X25519PrivateKey.from_private_bytes(bytes([i]) * 32) for i in (1, 2, 3)]
RING = KeyRing(KEYS[:2])


def sealed(n: int = 4, key: X25519PrivateKey = KEYS[0]) -> Reports:
    """Messages 0 .. n - 1 of metric 1, sealed."""
    plain = Reports.submitted(PLAN, 1, np.arange(n), SeededRandom(1))
    return seal(plain, key.public_key())


def test_the_oracle_is_rfc_9180():
    """Appendix A.1.1, base setup, encryption 0."""
    private = X25519PrivateKey.from_private_bytes(
        bytes.fromhex("4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8")
    )
    box = bytes.fromhex(
        "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431"
        "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a"
    )
    text = b"Beauty is truth, truth beauty"
    assert hpke_open(box, private, b"Ode on a Grecian Urn", b"Count-0") == text
    ephemeral = X25519PrivateKey.from_private_bytes(
        bytes.fromhex("52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736")
    )
    public = private.public_key().public_bytes_raw()
    assert hpke_seal(text, public, b"Ode on a Grecian Urn", b"Count-0", ephemeral) == box


def test_seals_are_hpke_both_ways():
    context = info(PLAN, 1, key_id(KEYS[0].public_key()))
    for number, record in enumerate(sealed().records):
        text = hpke_open(record["sealed"].tobytes(), KEYS[0], context, b"")
        assert int.from_bytes(text, "little") == number
    reports = sealed()
    public = KEYS[0].public_key().public_bytes_raw()
    box = hpke_seal((77).to_bytes(8, "little"), public, context, b"", KEYS[2])
    reports.records["sealed"][0] = np.frombuffer(box, np.uint8)
    assert RING.open(reports).reports.records["message"].tolist() == [77, 1, 2, 3]


def test_what_a_seal_is_bound_to_is_spelt_out():
    assert info(PLAN, 258, b"8 bytes!") == (
        b"hushbeam report" + b"\x02\x00" + b"\x02\x01" + b"8 bytes!" + PLAN
    )


@pytest.mark.parametrize("shuffled", [False, True])
def test_golden_files_open_for_ever(shuffled):
    form = Form(sealed=True, shuffled=shuffled)
    name = "shuffled-sealed" if shuffled else "submitted-sealed"
    screened = binary.decode((DATA / f"{name}.reports").read_bytes(), expected(form))
    ring = KeyRing.read(DATA)
    assert ring.ids == [key_id(GOLDEN_KEY.public_key())]
    opened = ring.open(screened.reports)
    assert fields(opened.reports) == fields(golden(replace(form, sealed=False)))
    assert not opened.dropped


def test_opening_keeps_order_ids_and_metrics_over_several_keys():
    blocks = [sealed(5, KEYS[0]), sealed(5, KEYS[1])]
    records = np.stack([block.records for block in blocks], axis=1).reshape(-1)
    records["metric"][4:6] = 0  # sealed for metric 1: they cannot open
    opened = RING.open(replace(blocks[0], records=records))
    assert opened.dropped == {screening.UNOPENED: 2}
    assert opened.reports.records["message"].tolist() == [0, 0, 1, 1, 3, 3, 4, 4]
    kept = np.r_[0:4, 6:10]
    assert (opened.reports.records["report_id"] == records["report_id"][kept]).all()


def test_unknown_keys_are_counted():
    opened = RING.open(sealed(4, KEYS[2]))
    assert (len(opened.reports), opened.dropped) == (0, {screening.UNKNOWN_KEY: 4})


def test_tens_of_thousands_of_foreign_keys_are_counted():
    reports = sealed(1)
    records = reports.records.repeat(50_000)
    records["key_id"][1:] = np.arange(1, 50_000)
    opened = RING.open(replace(reports, records=records))
    assert opened.dropped == {screening.UNKNOWN_KEY: 49_999}


def test_a_seal_opens_for_no_other_plan_metric_or_key():
    reports = sealed()
    metric, other = reports.records.copy(), reports.records.copy()
    metric["metric"] = 0
    other["key_id"] = int.from_bytes(key_id(KEYS[1].public_key()), "little")
    for changed in (
        replace(reports, fingerprint=bytes(16)),
        replace(reports, records=metric),
        replace(reports, records=other),
    ):
        assert RING.open(changed).dropped == {screening.UNOPENED: 4}


def test_two_seals_of_one_message_have_nothing_in_common():
    one, other = (sealed(1).records["sealed"][0] for _ in range(2))
    # Of 56 random bytes, 20 or more agree with probability below 1e-31.
    assert np.count_nonzero(one == other) < 20


ONE = sealed(1)
CHANGES = st.dictionaries(st.integers(0, 55), st.integers(1, 255), min_size=1, max_size=5)


@settings(max_examples=EXAMPLES)
@given(CHANGES)
def test_fuzz_seals(changes):
    """Any change of a sealed message leaves it shut, and raises nothing."""
    records = ONE.records.copy()
    for place, change in changes.items():
        records["sealed"][0, place] ^= change
    opened = RING.open(replace(ONE, records=records))
    assert (len(opened.reports), opened.dropped) == (0, {screening.UNOPENED: 1})


def test_keys_are_files_that_only_their_owner_reads(tmp_path):
    first, second = create_key(tmp_path), create_key(tmp_path)
    ring = KeyRing.read(tmp_path)
    assert sorted(ring.ids) == sorted([first, second])
    for name in (first, second):
        secret = tmp_path / f"{name.hex()}.private.pem"
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
        public = public_key((tmp_path / f"{name.hex()}.public.pem").read_bytes())
        assert key_id(public) == name
        plain = Reports.shuffled(PLAN, 0, [5, 6])
        assert ring.open(seal(plain, public)).reports.records["message"].tolist() == [5, 6]


@pytest.mark.parametrize("data", [b"", b"secret words", b"-----BEGIN PRIVATE KEY-----\nsecret\n"])
def test_other_files_are_no_keys_and_are_not_quoted(data, tmp_path):
    with pytest.raises(ValueError, match="X25519 private key") as error:
        KeyRing.of([data])
    assert "secret" not in str(error.value)
    with pytest.raises(ValueError, match=r"X25519 public key|holds a private key"):
        public_key(data)
    with pytest.raises(ValueError, match="X25519 private key"):
        KeyRing.of([(DATA / "golden.public.pem").read_bytes()])
    with pytest.raises(ValueError, match="at least one"):
        KeyRing.read(tmp_path)


def test_what_all_could_open_is_no_key():
    """The point of zeros, and one of order 8, as a key of the right form."""
    for point in ("00" * 32, "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"):
        key = X25519PublicKey.from_public_bytes(bytes.fromhex(point))
        pem = key.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        with pytest.raises(ValueError, match="small order"):
            public_key(pem)


def test_keys_stay_where_they_were_read():
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(RING)


def test_empty_blocks_open():
    assert len(RING.open(seal(Reports.shuffled(PLAN, 0, []), KEYS[0].public_key())).reports) == 0
