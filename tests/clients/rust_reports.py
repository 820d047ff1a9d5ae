"""The client in Rust against the product: `make test-rust` runs it, for it takes cargo.

Reports of 10^5 devices, made by the library behind the C header, go through shuffle and collect;
messages are made of keystreams that no stored vector has; and tokens of an issuer in Python are
fetched. What is random is held to its law: a test fails by chance with probability below 1e-9
(`FALSE_ALARM`).
"""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import subprocess
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from mechanisms.randomness import PermanentRandom, SeededRandom
from mechanisms.wire import binary
from mechanisms.wire.oblivious import Evaluator, split
from mechanisms.wire.report import Form
from mechanisms.wire.sealing import KeyRing, public_key
from mechanisms.wire.strings import seal_strings, seals_of, string_inputs
from mechanisms.wire.tokens import Issuer
from tests.clients.typescript_reports import (
    COUNTERS,
    PLAN,
    RANDOMISED,
    USERS,
    drawn_mechanisms,
    estimates,
    new_keys,
    party,
    prepared,
    read,
)
from tests.oracles.client_vectors import key_of
from tests.oracles.statistics import FALSE_ALARM, follows, sample_size, tilted
from transforms.encoders.strings import width_of, words_of

CLIENT = Path(__file__).parents[2] / "clients" / "rust"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", CLIENT / "target"))
MADE, REFUSED = 0, 2


def printed(*command: str) -> str:
    """What a command prints, in the client's folder."""
    run = subprocess.run(command, cwd=CLIENT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout


@pytest.fixture(scope="session")
def built() -> Path:
    """Where libraries and programs are, of the features that `make test-rust` has built."""
    features = ("--features", "hushbeam-client/bindgen")
    printed("cargo", "build", "--workspace", *features, "--lib", "--bins", "--examples")
    return TARGET / "debug"


class Answer(ctypes.Structure):
    """`HushbeamAnswer` of the header."""

    _fields_ = (
        ("status", ctypes.c_int32),
        ("data", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
    )


class Library:
    """The functions of the header."""

    def __init__(self, built: Path) -> None:
        self._library = ctypes.CDLL(str(built / "libhushbeam_client.so"))

    def call(self, name: str, *words: bytes | int) -> tuple[int, int | None, bytes]:
        """An answer's status, the object, and bytes; integers are objects or sizes."""
        function, answer = self._library[name], Answer()
        function.restype = ctypes.c_void_p
        given: list[Any] = []
        for word in words:
            if isinstance(word, bytes):
                given += [word, ctypes.c_size_t(len(word))]
            else:
                given.append(ctypes.c_void_p(word))
        made = function(*given, ctypes.byref(answer))
        data = ctypes.string_at(answer.data, answer.length) if answer.length else b""
        self._library.hushbeam_free(ctypes.c_void_p(answer.data), ctypes.c_size_t(answer.length))
        return answer.status, made, data

    def made(self, name: str, *words: bytes | int) -> tuple[int, bytes]:
        """The object that a function makes, and the bytes of its answer."""
        status, made, data = self.call(name, *words)
        assert (status, made is None) == (MADE, False), data.decode()
        return made or 0, data

    def free(self, name: str, made: int) -> None:
        """Forgets an object."""
        self._library[name](ctypes.c_void_p(made))


@pytest.fixture(scope="module")
def library(built: Path) -> Library:
    return Library(built)


def population(library: Library, plan: dict[str, Any], rows: list[Any], pem: str = "") -> str:
    """A file of the reports of users with some rows, each under a secret of its own."""
    text, metric = json.dumps(plan).encode(), plan["metrics"][0]["name"].encode()
    bodies: list[bytes] = []
    for own in rows:
        device, _ = library.made("hushbeam_device_new", text, secrets.token_bytes(32), b"")
        given = (metric, json.dumps(own).encode(), pem.encode())
        status, _, body = library.call("hushbeam_report", device, *given)
        assert status == MADE, body.decode()
        bodies.append(body[28:] if bodies else body)
        library.free("hushbeam_device_free", device)
    Path("sent.bin").write_bytes(b"".join(bodies))
    return "sent.bin"


def test_messages_of_new_keystreams_are_those_of_the_python_client(
    tmp_path: Path, built: Path
) -> None:
    requests: list[dict[str, Any]] = []
    wanted: list[list[str]] = []
    for number, mechanism in enumerate(drawn_mechanisms()):
        key = key_of(f"both ways {number}")
        cells = SeededRandom(number).integers(mechanism.inputs, 400).tolist()
        channel = asdict(mechanism.specification)
        requests.append({"channel": channel, "key": key.hex(), "cells": cells})
        messages = mechanism.perturb(np.array(cells), PermanentRandom(key))
        wanted.append([str(message) for message in messages.tolist()])
    request = tmp_path / "request.json"
    request.write_text(json.dumps(requests))
    assert json.loads(printed(str(built / "examples" / "messages"), str(request))) == wanted


def test_a_hundred_thousand_devices_come_to_the_estimate_of_their_law(
    workspace: Path, library: Library
) -> None:
    parted, plan = prepared(PLAN + RANDOMISED)
    counts = np.array([40_000, 25_000, 20_000, 10_000, 4_000, 0, 1_000])  # the last have none
    hours = [*range(5), 5, None]
    rows = [[{"hour": hour}] for hour, n in zip(hours, counts, strict=True) for _ in range(n)]
    sent = population(library, plan, rows)
    reports = read(sent, parted=parted, sealed=False)
    assert len(reports) == len(np.unique(reports.records["report_id"], axis=0)) == USERS
    mechanism: Any = parted.mechanisms[0]
    law = sum(n * mechanism.channel(cell) for cell, n in enumerate(counts.tolist())) / USERS
    counted = mechanism.count(reports.records["message"])
    assert USERS >= sample_size(law, tilted(law))
    assert follows(counted, law)
    assert not follows(counted, tilted(law))
    party("shuffle", "--input", sent, "--output", "mixed")
    party("collect", "--input", "mixed")
    shares = estimates("hour", "histogram")
    errors = np.sqrt(mechanism.variance(counts[:6] / USERS, USERS))
    far = stats.norm.isf(FALSE_ALARM / 2 / 6)
    assert (np.abs(shares[:6] - counts[:6] / USERS) < far * errors).all()


def test_sealed_counters_are_opened_and_counted(workspace: Path, library: Library) -> None:
    parted, plan = prepared(PLAN + COUNTERS)
    rows = [[{"hour": k % 3}, {"hour": (k + k // 50) % 3}] for k in range(150)]
    sent = population(library, plan, rows, new_keys())
    layout = parted.counters[0].layout
    ring = KeyRing.read(Path("keys"))
    opened = ring.open(read(sent, parted=parted, sealed=True).apart(layout.types))
    assert not opened.dropped
    records = opened.reports.records
    counted = layout.count(records["message"], records["level"])
    users = Counter(hour for own in rows for hour in {row["hour"] for row in own})
    assert counted[:3].tolist() == [users[0], users[1], users[2]]
    key = next(Path("keys").glob("*.public.pem"))
    party("shuffle", "--input", sent, "--seal", str(key), "--output", "mixed")
    party("collect", "--input", "mixed", "--key", str(key).replace("public", "private"))
    law = parted.counters[0].error_law()
    far = law.isf(FALSE_ALARM / 8)
    for hour, estimate in enumerate(estimates("hours", "count")[:3]):
        assert abs(estimate - users[hour]) <= far


# ---- the parties with a key of each window -------------------------------------------------------


def test_tokens_of_an_issuer_are_good_and_those_of_another_refused(library: Library) -> None:
    issuer, other = Issuer(bytes([7]) * 32), Issuer(bytes([8]) * 32)
    request, elements = library.made(
        "hushbeam_request_new", 5, secrets.token_bytes(32), b"ab" * 16, b"issuer"
    )
    evaluated, proof = issuer.evaluate(split(elements))
    answer = b"".join(evaluated) + proof
    status, _, tokens = library.call("hushbeam_tokens", request, answer, issuer.public)
    assert status == MADE
    own = [tokens[i : i + 64] for i in range(0, len(tokens), 64)]
    assert [issuer.valid(token) for token in own] == [True] * 5
    assert not any(other.valid(token) for token in own)
    assert len({*own}) == 5
    status, _, said = library.call("hushbeam_tokens", request, answer, other.public)
    assert status == REFUSED
    assert said.startswith(b"the answer is not of the published key")
    library.free("hushbeam_request_free", request)


def test_strings_are_the_words_that_the_python_client_seals(
    workspace: Path, library: Library
) -> None:
    parted, plan = prepared(PLAN + COUNTERS)
    pem, party_ = new_keys(), Evaluator(bytes([5]) * 32, b"hushbeam strings")
    key, most, slots = public_key(pem.encode()), 10, 3
    texts = ["ü" * 6, "page 7", "", "ten bytes!", "eleven byte"]
    boxes = set()
    for own in ([texts[0], texts[1], texts[1]], texts[2:], []):
        device, _ = library.made(
            "hushbeam_device_new", json.dumps(plan).encode(), secrets.token_bytes(32), b""
        )
        words = (b"hours", json.dumps(own).encode(), pem.encode())
        request, elements = library.made("hushbeam_strings_new", device, slots, most, *words)
        assert len(elements) == 32 * slots  # whatever it has
        evaluated, proof = party_.evaluate(split(elements))
        answer = b"".join(evaluated) + proof
        status, _, body = library.call("hushbeam_strings_report", request, answer, party_.public)
        assert status == MADE
        again = library.call("hushbeam_strings_report", request, answer, party_.public)[2]
        assert again == body
        form = Form(sealed=True, slots=slots * seals_of(width_of(most)))
        expected = replace(parted.expected(form), slots=(form.slots,))
        screened = binary.decode(body, expected)
        assert len(screened.reports) == 1
        seals = screened.reports.records["sealed"].reshape(slots, -1)
        boxes |= {seal.tobytes() for seal in seals}
        library.free("hushbeam_strings_free", request)
        library.free("hushbeam_device_free", device)
    sealed = words_of(pa.array(texts, pa.large_string()), most)[:, None]
    inputs = string_inputs(parted.fingerprint, 0, sealed, key)
    outputs = {plain: party_.output(plain) for plain in inputs}
    ids = np.zeros((len(texts), 2), np.uint64)
    wanted = seal_strings(parted.fingerprint, 0, sealed, ids, outputs, key).records["sealed"]
    alike = {seal.tobytes() for seal in wanted.reshape(len(texts), -1)}
    # Five strings are the Python client's words; of four empty slots none is alike.
    assert len(alike) == 5
    assert alike < boxes
    assert len(boxes) == 9


def test_what_is_wrong_is_an_error_without_the_value(workspace: Path, library: Library) -> None:
    _, plan = prepared(PLAN + RANDOMISED)
    text = json.dumps(plan).encode()
    device, _ = library.made("hushbeam_device_new", text, secrets.token_bytes(32), b"")
    rows = b'[{"hour": 3, "name": "canary 7171"}]'
    status, _, said = library.call("hushbeam_report", device, b"hour", rows, b"")
    assert status == REFUSED
    assert said == b'metric hour has no column "name": its columns are hour'
    library.free("hushbeam_device_free", device)
    status, made, _ = library.call("hushbeam_device_new", b"{}", bytes(32), b"")
    assert (status, made) == (REFUSED, None)
