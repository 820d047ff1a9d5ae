"""The wire done slowly: HPKE from its primitives, a parser of one byte after another, goldens."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections import Counter
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mechanisms.catalog import build
from mechanisms.wire import screening
from mechanisms.wire.report import Form, Reports
from mechanisms.wire.screening import Expected

DATA = Path(__file__).parents[1] / "data" / "wire"
FORMS = [Form.of(kind) for kind in range(4)]
PLAN = bytes(range(16))
MECHANISMS = (
    build("grr", epsilon=1.0, domain_size=9),
    build("olh", epsilon=1.0, domain_size=1000),
)

# Of the fuzzing tests; `make fuzz` looks longer.
EXAMPLES = int(os.environ.get("HUSHBEAM_EXAMPLES", "300"))


def expected(form: Form) -> Expected:
    """What the tests' plan accepts."""
    return Expected(PLAN, MECHANISMS, form)


# ---- the golden files' contents ----------------------------------------------------------------

GOLDEN_KEY = X25519PrivateKey.from_private_bytes(hashlib.sha256(b"hushbeam golden key").digest())
GOLDEN_ROWS = [(0, 0), (0, 8), (1, 7), (1, 1_000), (0, 3)]  # metric, message


def golden(form: Form) -> Reports:
    """What the golden file of a form holds, without its seals."""
    records = form.empty(len(GOLDEN_ROWS))
    records["metric"], words = np.array(GOLDEN_ROWS).T
    if not form.sealed:
        records["message"] = words
    if not form.shuffled:
        ids = b"".join(hashlib.sha256(b"report %d" % i).digest()[:16] for i in range(len(words)))
        records["report_id"] = np.frombuffer(ids, "<u8").reshape(-1, 2)
    return Reports(PLAN, form, records)


# ---- a reader that takes one field after another -----------------------------------------------

SIZES = {0: [2, 16, 8], 1: [2, 16, 8, 56], 2: [2, 8], 3: [2, 8, 56]}


def parse(data: bytes, form: Form) -> tuple[list[tuple[bytes, ...]], dict[str, int]]:
    """The fields of each usable record of a file, and why the others are not."""
    if data[:8] != bytes.fromhex("8948555348420d0a"):
        return [], {screening.NOT_REPORTS: 1}
    if len(data) < 28:
        return [], {screening.TRUNCATED: 1}
    version, kind = (int.from_bytes(data[i : i + 2], "little") for i in (8, 10))
    if version != 2:
        return [], {screening.OTHER_VERSION: 1}
    if kind > 3:
        return [], {screening.OTHER_FORM: 1}
    rows, dropped, rest = [], Counter(), data[28:]
    while len(rest) >= 2 and len(rest) >= 2 + (length := int.from_bytes(rest[:2], "little")):
        fields, record, rest = [], rest[2 : 2 + length], rest[2 + length :]
        if length != sum(SIZES[kind]):
            dropped[screening.OTHER_WIDTH] += 1
            continue
        for size in SIZES[kind]:
            fields.append(record[:size])
            record = record[size:]
        metric = int.from_bytes(fields[0], "little")
        if data[12:28] != PLAN:
            dropped[screening.OTHER_PLAN] += 1
        elif kind != form.kind:
            dropped[screening.OTHER_FORM] += 1
        elif metric >= len(MECHANISMS):
            dropped[screening.UNKNOWN_METRIC] += 1
        elif not form.sealed and int.from_bytes(fields[-1], "little") >= MECHANISMS[metric].codes:
            dropped[screening.IMPOSSIBLE] += 1
        else:
            rows.append(tuple(fields))
    if rest:
        dropped[screening.TRUNCATED] += 1
    return rows, dict(dropped)


def fields(reports: Reports) -> list[tuple[bytes, ...]]:
    """The fields of each record, as bytes."""
    names = (reports.form.dtype.names or ())[1:]
    return [tuple(record[name].tobytes() for name in names) for record in reports.records]


# ---- HPKE, RFC 9180, base mode, DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM -------------

_KEM = b"KEM" + (0x0020).to_bytes(2, "big")
_HPKE = b"HPKE" + b"".join(number.to_bytes(2, "big") for number in (0x0020, 0x0001, 0x0001))


def _extract(suite: bytes, salt: bytes, label: bytes, key: bytes) -> bytes:
    """LabeledExtract, section 4."""
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + key, "sha256")


def _expand(suite: bytes, key: bytes, label: bytes, context: bytes, length: int) -> bytes:
    """LabeledExpand, section 4; one block of HKDF is enough here."""
    text = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + context
    return hmac.digest(key, text + b"\x01", "sha256")[:length]


def _cipher(exchanged: bytes, encapsulated: bytes, public: bytes, info: bytes):
    """ExtractAndExpand of section 4.1 and KeySchedule of section 5.1."""
    secret = _extract(_KEM, b"", b"eae_prk", exchanged)
    shared = _expand(_KEM, secret, b"shared_secret", encapsulated + public, 32)
    context = b"\x00" + _extract(_HPKE, b"", b"psk_id_hash", b"")
    context += _extract(_HPKE, b"", b"info_hash", info)
    secret = _extract(_HPKE, shared, b"secret", b"")
    return (
        AESGCM(_expand(_HPKE, secret, b"key", context, 16)),
        _expand(_HPKE, secret, b"base_nonce", context, 12),
    )


def hpke_seal(
    text: bytes, public: bytes, info: bytes, aad: bytes, ephemeral: X25519PrivateKey
) -> bytes:
    """SealBase, section 6.1, with a given ephemeral key."""
    encapsulated = ephemeral.public_key().public_bytes_raw()
    exchanged = ephemeral.exchange(X25519PublicKey.from_public_bytes(public))
    cipher, nonce = _cipher(exchanged, encapsulated, public, info)
    return encapsulated + cipher.encrypt(nonce, text, aad)


def hpke_open(box: bytes, private: X25519PrivateKey, info: bytes, aad: bytes) -> bytes:
    """OpenBase, section 6.1."""
    exchanged = private.exchange(X25519PublicKey.from_public_bytes(box[:32]))
    public = private.public_key().public_bytes_raw()
    cipher, nonce = _cipher(exchanged, box[:32], public, info)
    return cipher.decrypt(nonce, box[32:], aad)
