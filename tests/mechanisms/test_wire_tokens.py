"""Tokens and the function under them: RFC 9497's vectors, another implementation, and refusals."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from mechanisms.randomness import SecureRandom, SeededRandom
from mechanisms.wire.oblivious import Blinded, Evaluator, split
from mechanisms.wire.tokens import Issuer, TokenRequest
from tests.oracles import voprf

# Appendix A.1.2 of the RFC: input, blind, blinded and evaluated element, proof, its scalar, output.
SEED, INFO = b"\xa3" * 32, b"test key"
SECRET = "e6f73f344b79b379f1a0dd37e07ff62e38d9f71345ce62ae3a9bc60b04ccd909"
PUBLIC = bytes.fromhex("c803e2cc6b05fc15064549b5920659ca4a77b2cca6f04f6b357009335476ad4e")
INPUTS = (b"\0", b"\x5a" * 17)
OUTPUTS = [
    "b58cfbe118e0cb94d79b5fd6a6dafb98764dff49c14e1770b566e42402da1a7d"
    "a4d8527693914139caee5bd03903af43a491351d23b430948dd50cde10d32b3c",
    "8a9a2f3c7f085b65933594309041fc1898d42d0858e59f90814ae90571a6df60"
    "356f4610bf816f27afdd84f47719e480906d27ecd994985890e5f539e7ea74b6",
]
BLIND = "64d37aed22a27f5191de1c1d69fadb899d8862b58eb4220029e036ec4c1f6706"
DRAWN = "222a5e897cf59db8145db8d16e597e8facb80ae7d4e26d9881aa6f61d645fc0e"
FIRST = "863f330cc1a1259ed5a5998a23acfd37fb4351a793a5b3c090b642ddc439b945"
FIRST_EVALUATED = "aa8fa048764d5623868679402ff6108d2521884fa138cd7f9c7669a9a014267e"
VECTORS = (
    (
        INPUTS[:1], [BLIND], [FIRST], [FIRST_EVALUATED], DRAWN,
        "ddef93772692e535d1a53903db24367355cc2cc78de93b3be5a8ffcc6985dd06"
        "6d4346421d17bf5117a2a1ff0fcb2a759f58a539dfbe857a40bce4cf49ec600d",
    ),
    (
        INPUTS[1:], [BLIND],
        ["cc0b2a350101881d8a4cba4c80241d74fb7dcbfde4a61fde2f91443c2bf9ef0c"],
        ["60a59a57208d48aca71e9e850d22674b611f752bed48b36f7a91b372bd7ad468"], DRAWN,
        "401a0da6264f8cf45bb2f5264bc31e109155600babb3cd4e5af7d181a2c9dc0a"
        "67154fabf031fd936051dec80b0b6ae29c9503493dde7393b722eafdf5a50b02",
    ),
    (
        INPUTS, [BLIND, DRAWN],
        [FIRST, "90a0145ea9da29254c3a56be4fe185465ebb3bf2a1801f7124bbbadac751e654"],
        [FIRST_EVALUATED, "cc5ac221950a49ceaa73c8db41b82c20372a4c8d63e5dded2db920b7eee36a2a"],
        "419c4f4f5052c53c45f3da494d2b67b220d02118e0857cdbcf037f9ea84bbe0c",
        "cc203910175d786927eeb44ea847328047892ddf8590e723c37205cb74600b0a"
        "5ab5337c8eb4ceae0494c2cf89529dcf94572ed267473d567aeed6ab873dee08",
    ),
)  # fmt: skip


def number(text: str) -> int:
    return int.from_bytes(bytes.fromhex(text), "little")


@pytest.mark.parametrize("vector", VECTORS, ids=["1", "2", "3, a batch"])
def test_the_oracle_and_the_library_are_rfc_9497s(vector) -> None:
    inputs, blinds, blinded, evaluated, drawn, proof = vector
    key, party = voprf.derived(SEED, INFO), Evaluator(SEED, INFO)
    assert key == number(SECRET)
    assert party.public == voprf.encode(voprf.times(key, voprf.BASE)) == PUBLIC
    points = [
        voprf.times(number(b), voprf.to_group(p)) for b, p in zip(blinds, inputs, strict=True)
    ]
    elements = [voprf.encode(point) for point in points]
    answer = [voprf.encode(voprf.times(key, point)) for point in points]
    assert [element.hex() for element in elements] == blinded
    assert [element.hex() for element in answer] == evaluated
    assert voprf.prove(key, elements, answer, number(drawn)).hex() == proof
    for plain, blind, point in zip(inputs, blinds, answer, strict=True):
        bare = voprf.times(pow(number(blind), -1, voprf.ORDER), voprf.decode(point))
        output = voprf.output(plain, bare)
        assert output.hex() == OUTPUTS[INPUTS.index(plain)]
        assert party.output(plain) == output
    ours, ours_proof = party.evaluate(elements)
    assert ours == answer
    assert voprf.proved(PUBLIC, elements, ours, ours_proof)
    assert not voprf.proved(PUBLIC, elements, ours[::-1] if len(ours) > 1 else elements, ours_proof)


def test_the_client_takes_the_oracles_answers() -> None:
    key = voprf.derived(SEED, INFO)
    blinded = Blinded(INPUTS)
    answer = [voprf.encode(voprf.times(key, voprf.decode(e))) for e in blinded.elements]
    proof = voprf.prove(key, blinded.elements, answer, 12345)
    assert [out.hex() for out in blinded.outputs(answer, proof, PUBLIC)] == OUTPUTS
    assert {*Blinded(INPUTS).elements}.isdisjoint(blinded.elements)


@pytest.mark.parametrize("count", [1, 3])
def test_an_answer_of_another_key_is_refused(count: int) -> None:
    """A key of its own for one device would tell its tokens from all others'."""
    issuer, other = Issuer(SEED), Issuer(bytes(32))
    request = TokenRequest.drawn(count, SecureRandom())
    evaluated, proof = issuer.evaluate(request.elements)
    assert all(map(issuer.valid, request.tokens(evaluated, proof, issuer.public)))
    alien, alien_proof = other.evaluate(request.elements)
    wrong = [
        (alien, alien_proof, issuer.public),
        (evaluated, proof, other.public),
        (evaluated, alien_proof, issuer.public),
        (alien, proof, issuer.public),
        (evaluated[1:], proof, issuer.public),
        ([*evaluated, evaluated[0]], proof, issuer.public),
        (evaluated, proof[:-1], issuer.public),
        (evaluated, proof, bytes(31)),
        ([b"\xff" * 32] * count, proof, issuer.public),
    ]
    for answer in wrong:
        with pytest.raises(ValueError, match="not of the published key"):
            request.tokens(*answer)


def test_a_token_is_good_under_its_own_key_alone() -> None:
    issuer, next_window = Issuer(SEED), Issuer(b"\xa4" * 32)
    request = TokenRequest.drawn(8, SeededRandom(3))
    tokens = request.tokens(*issuer.evaluate(request.elements), issuer.public)
    assert len({*tokens}) == 8
    assert all(map(issuer.valid, tokens))
    assert not any(map(next_window.valid, tokens))
    changed = np.frombuffer(tokens[0], np.uint8) ^ np.eye(64, dtype=np.uint8)
    assert not any(issuer.valid(row.tobytes()) for row in changed)
    assert not any(map(issuer.valid, (b"", tokens[0][:63], tokens[0] + b"\0", tokens[0][:32])))
    # As the module's text says it, by the oracle.
    key = voprf.derived(SEED, b"hushbeam issuer")
    plain = b"hushbeam token" + tokens[0][:32]
    made = voprf.output(plain, voprf.times(key, voprf.to_group(plain)))
    assert tokens[0][32:] == made[:32]


def test_what_is_no_element_is_refused() -> None:
    issuer = Issuer(SEED)
    for elements in ([], [bytes(32)], [b"\xff" * 32], [bytes(31)], [PUBLIC, b""]):
        with pytest.raises(ValueError, match="element"):
            issuer.evaluate(elements)
    with pytest.raises(ValueError, match="32 random bytes, not 31"):
        Issuer(bytes(31))
    with pytest.raises(ValueError, match="32 bytes each, which 33 are not"):
        split(bytes(33))
    with pytest.raises(ValueError, match="not 0"):
        TokenRequest.drawn(0, SecureRandom())
    with pytest.raises(TypeError, match="must not be pickled"):
        pickle.dumps(issuer)
