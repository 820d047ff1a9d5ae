"""Anonymous tokens: an issuer gives each device so many a window, and cannot tell who spends one.

A token is a nonce that the device has drawn, and what the issuer's key makes of it, unseen: half of
the output of the VOPRF, which nobody can guess. The issuer learns who fetched, and at redemption
that the token is one of its own. Every window has a key of its own, so a token is good in one.

Source: Davidson et al., "Privacy Pass: bypassing internet challenges anonymously", PoPETs 2018; by
    the VOPRF of RFC 9497. RFC 9578 has no suite of this group, so the format is ours.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from mechanisms.randomness import RandomSource
from mechanisms.wire.oblivious import Blinded, Evaluator

NONCE, TOKEN = 32, 64  # bytes

_TOKEN, _ISSUER = b"hushbeam token", b"hushbeam issuer"


class Issuer(Evaluator):
    """The issuer of a window, and who redeems its tokens: either can mint.

    Args:
        seed: 32 secret bytes, random; of this window alone.

    Raises:
        ValueError: the seed is of another length.

    >>> from mechanisms.randomness import SecureRandom
    >>> issuer, request = Issuer(bytes(32)), TokenRequest.drawn(2, SecureRandom())
    >>> tokens = request.tokens(*issuer.evaluate(request.elements), issuer.public)
    >>> [issuer.valid(token) for token in (*tokens, bytes(64))]
    [True, True, False]
    """

    def __init__(self, seed: bytes) -> None:
        super().__init__(seed, _ISSUER)

    def valid(self, token: bytes) -> bool:
        """Whether it was issued under this key; in a time that does not depend on the answer."""
        own = self.output(_TOKEN + token[:NONCE])[: TOKEN - NONCE]
        return hmac.compare_digest(own, token[NONCE:])


class TokenRequest:
    """A device's request for tokens of one window.

    Args:
        nonces: of `NONCE` bytes, random.

    Raises:
        ValueError: there are none or too many.
    """

    def __init__(self, nonces: Sequence[bytes]) -> None:
        self._nonces = nonces
        self._blinded = Blinded([_TOKEN + nonce for nonce in nonces])

    @classmethod
    def drawn(cls, count: int, rng: RandomSource) -> TokenRequest:
        """A request for so many tokens."""
        return cls([rng.words(NONCE // 8).tobytes() for _ in range(count)])

    @property
    def elements(self) -> list[bytes]:
        """What goes to the issuer: 32 bytes for each token, which say nothing of it."""
        return self._blinded.elements

    def tokens(self, evaluated: Sequence[bytes], proof: bytes, public: bytes) -> list[bytes]:
        """The tokens, of `TOKEN` bytes.

        Args:
            evaluated: what came back for `elements`, in their order.
            proof: that came with it.
            public: the issuer's key of this window, from the list that was published.

        Raises:
            ValueError: the answer is not of that key.
        """
        outputs = self._blinded.outputs(evaluated, proof, public)
        pairs = zip(self._nonces, outputs, strict=True)
        return [nonce + output[: TOKEN - NONCE] for nonce, output in pairs]
