"""What all parties together know of a device's tokens, and what one malicious device can spend."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from scipy import stats

from mechanisms.randomness import SeededRandom
from mechanisms.wire import binary
from mechanisms.wire.tokens import Issuer, TokenRequest
from pipelines.parties.device import ClientReports
from pipelines.plan.loading import load
from pipelines.plan.split import Split, split
from tests.fakes.issuing import Parties
from tests.oracles import voprf
from tests.oracles.statistics import FALSE_ALARM

PLAN = """\
collection: heard
version: 1
input: log.parquet
output: released/{window}
user_column: user
unit: user
tokens: 1
epsilon: 1
metrics:
  - {name: people, kind: count, drawn_by: shuffler}
"""
KEY = X25519PrivateKey.from_private_bytes(bytes([1]) * 32)
ISSUER, NEXT = Issuer(bytes(32)), Issuer(bytes([1]) * 32)
RUNS = 300
PIECES = range(0, 64, 32)


@pytest.fixture
def parted(workspace: Path) -> Split:
    Path("plan.yaml").write_text(PLAN)
    return split(load("plan.yaml"), "d1")


def transcript(parted: Split, swapped: bool, rng: SeededRandom, leaky: bool) -> list[bytes]:
    """What a run leaves with all parties, by two fresh devices, of which the first enrolled first.

    Args:
        parted: the window.
        swapped: whether it is the second one that has a row.
        rng: draws what devices keep.
        leaky: whether devices take a nonce that they have enrolled with.

    Returns:
        Of the issuer: the first device's digest, element and answer. Of endpoint and shuffler,
        in the order in which the collector knows them apart, who opens all: token and report of
        who has a row.
    """
    known, spent = [], {}
    for device in (0, 1):
        secret = rng.words(4).tobytes()
        digest = hashlib.sha256(secret.hex().encode()).digest()
        request = TokenRequest([digest]) if leaky else TokenRequest.drawn(1, rng)
        evaluated, proof = ISSUER.evaluate(request.elements)
        (token,) = request.tokens(evaluated, proof, ISSUER.public)
        known.append((digest, *request.elements, *evaluated))
        rows = pa.table({"user": [7] * (device == swapped)})
        # A device without a row sends nothing of a count; here its report is an idle one.
        own = ClientReports(parted, 0, one=True, own=secret)
        block, _ = own.sealed([rows], KEY.public_key())
        spent[bool(len(rows))] = token, binary.encode(block)[28:]
    return [*known[0], spent[True][0][:32], spent[True][0][32:], spent[True][1][2:34]]


def bits(parted: Split, swapped: bool, leaky: bool) -> np.ndarray:
    """How often each bit of the first device's issue is that of a piece of the one spent."""
    rng, counts = SeededRandom(5 + swapped), 0
    for _ in range(RUNS):
        pieces = transcript(parted, swapped, rng, leaky)
        rows = [np.unpackbits(np.frombuffer(piece, np.uint8)) for piece in pieces]
        counts = counts + np.array([[a == b for b in rows[3:]] for a in rows[:3]])
    return np.asarray(counts)


@pytest.mark.parametrize("leaky", [False, True])
def test_swapped_devices_leave_transcripts_of_one_law(parted: Split, leaky: bool) -> None:
    """Bits of any two pieces agree as often whoever it was; a nonce that is known is found.

    3 by 3 pieces of 256 bits, two samples of 300 runs: the largest of 2,304 differences stays
    within the quantile of 1e-9 of all. A leaky device agrees in all bits of a run, or in half.
    """
    plain, swapped = (bits(parted, swapped, leaky) for swapped in (False, True))
    pooled = (plain + swapped) / (2 * RUNS)
    spread = np.sqrt(np.maximum(2 * RUNS * pooled * (1 - pooled), 1))
    largest = (np.abs(plain - swapped) / spread).max()
    # The normal law is short of the binomial's tail by less than the half taken off here.
    limit = stats.norm.isf(FALSE_ALARM / 4 / plain.size)
    assert (largest > limit) == leaky


def test_no_party_can_compute_a_fetch_from_a_token(parted: Split) -> None:
    """With its key: the inputs of tokens, and all that it makes of them, meet no request."""
    request = TokenRequest.drawn(4, SeededRandom(3))
    evaluated, proof = ISSUER.evaluate(request.elements)
    tokens = request.tokens(evaluated, proof, ISSUER.public)
    secret = voprf.derived(bytes(32), b"hushbeam issuer")
    points = [voprf.to_group(b"hushbeam token" + token[:32]) for token in tokens]
    computed = {voprf.encode(voprf.times(k, point)) for k in (1, secret) for point in points}
    pieces = {token[i : i + 32] for token in tokens for i in PIECES}
    assert (computed | pieces).isdisjoint([*request.elements, *evaluated])
    # Any request could have been for any token: one blind takes each input to each element.
    assert len({*request.elements}) == len(tokens)


def spend(most: int, honest: int, rng: SeededRandom) -> tuple[int, int]:
    """How many reports an endpoint keeps of honest devices, and of one with so many tokens."""
    endpoint = Parties(ISSUER, NEXT, NEXT)
    kept = dict.fromkeys(("honest", "sybil"), 0)
    devices = TokenRequest.drawn(honest, rng)
    for token in devices.tokens(*ISSUER.evaluate(devices.elements), ISSUER.public):
        kept["honest"] += endpoint.report(token, token)[0] == 204
    own, late = TokenRequest.drawn(most, rng), TokenRequest.drawn(most, rng)
    mine = own.tokens(*ISSUER.evaluate(own.elements), ISSUER.public)
    other = late.tokens(*NEXT.evaluate(late.elements), NEXT.public)
    mixed = [a[:32] + b[32:] for a, b in zip(mine, mine[1:] + other, strict=False)]
    made = [rng.words(8).tobytes() for _ in range(most)]
    tries = [*mine, *mine, *other, *mixed, *made, *mine]
    for place, token in enumerate(tries):  # each with a report of its own
        kept["sybil"] += endpoint.report(token, b"%d" % place)[0] == 204
    assert len(endpoint.posted) == honest + most
    return kept["honest"], kept["sybil"]


def test_a_device_with_so_many_tokens_sends_so_many_reports() -> None:
    assert spend(3, 100, SeededRandom(1)) == (100, 3)


@pytest.mark.verify
def test_so_it_is_of_a_hundred_thousand_devices_and_in_two_hundred_runs() -> None:
    """In two batches: a request takes 65,535 inputs at the most."""
    rng = SeededRandom(2)
    assert spend(5, 50_000, rng) == spend(5, 50_000, rng) == (50_000, 5)
    assert {spend(2, 500, rng) for _ in range(200)} == {(500, 2)}
