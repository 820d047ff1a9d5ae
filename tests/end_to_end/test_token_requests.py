"""Tokens and those who made them: no key computes whose one is, and each buys one report."""

from __future__ import annotations

import pytest

from mechanisms.randomness import SeededRandom
from mechanisms.wire.tokens import Issuer, TokenRequest
from tests.fakes.issuing import Parties
from tests.oracles import voprf

ISSUER, NEXT = Issuer(bytes(32)), Issuer(bytes([1]) * 32)
PIECES = range(0, 64, 32)


def test_no_party_can_compute_a_fetch_from_a_token() -> None:
    """With its key: the inputs of tokens, and all that it makes of them, meet no request."""
    request, again = (TokenRequest.drawn(4, SeededRandom(3)) for _ in range(2))
    evaluated, proof = ISSUER.evaluate(request.elements)
    tokens = request.tokens(evaluated, proof, ISSUER.public)
    secret = voprf.derived(bytes(32), b"hushbeam issuer")
    points = [voprf.to_group(b"hushbeam token" + token[:32]) for token in tokens]
    computed = {voprf.encode(voprf.times(k, point)) for k in (1, secret) for point in points}
    pieces = {token[i : i + 32] for token in tokens for i in PIECES}
    assert (computed | pieces).isdisjoint([*request.elements, *evaluated])
    # Any request could have been for any token: one blind takes each input to each element.
    assert len({*request.elements, *again.elements}) == 2 * len(tokens)


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
