"""A verifiable oblivious pseudo-random function: whoever has the key learns no input, and whoever
asks learns that the published key was used.

The protocol is the library's (`voprf`, a binding of the Rust crate of that name): it draws blinds
and proofs from the operating system's generator.

Source: Davidson, Faz-Hernandez, Sullivan, Wood, "Oblivious pseudorandom functions (OPRFs) using
    prime-order groups", RFC 9497, 2023: ristretto255-SHA512 in the mode VOPRF.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from types import ModuleType

ELEMENT, PROOF, SEED, OUTPUT = 32, 64, 32, 64  # bytes
MOST = (1 << 16) - 1  # elements under one proof
STRINGS = b"hushbeam strings"  # what the keys are for under which strings are sealed alike

_UNPROVED = (
    "the answer is not of the published key: use none of it; somebody else's key would tell this "
    "device from others"
)


class Evaluator:
    """Who has the key.

    Args:
        seed: `SEED` secret bytes, random.
        info: what the key is for, which is no secret (`DeriveKeyPair` of the RFC, section 3.2.1).

    Raises:
        ValueError: the seed is of another length.

    >>> party = Evaluator(bytes(32), b"an example")
    >>> blinded = Blinded([b"a string", b"another"])
    >>> outputs = blinded.outputs(*party.evaluate(blinded.elements), party.public)
    >>> outputs == [party.output(b"a string"), party.output(b"another")]
    True
    """

    def __init__(self, seed: bytes, info: bytes) -> None:
        if len(seed) != SEED:
            raise ValueError(f"a seed has {SEED} random bytes, not {len(seed)}")
        self._key = _library().Evaluator.from_seed(seed, info)
        self.public: bytes = self._key.public_key.serialize()

    def evaluate(self, elements: Sequence[bytes]) -> tuple[list[bytes], bytes]:
        """`BlindEvaluate` of the RFC, section 3.3.2.

        Args:
            elements: 1 .. `MOST` blinded inputs, of `ELEMENT` bytes each.

        Returns:
            As many evaluated elements, and one proof of `PROOF` bytes for all of them.

        Raises:
            ValueError: there are none or too many, or one is no element of the group.
        """
        if not 0 < len(elements) <= MOST:
            raise ValueError(f"1 to {MOST:,} elements are evaluated at once, not {len(elements):,}")
        read = _library().BlindedInput.deserialize
        answer = self._key.evaluate_batch([read(element) for element in elements]).serialize()
        return split(answer[PROOF:]), answer[:PROOF]

    def output(self, plain: bytes) -> bytes:
        """`Evaluate` of the RFC: `OUTPUT` bytes for an input that is not blinded."""
        return bytes(self._key.evaluate_known_input(plain))

    def __reduce__(self) -> NoReturn:
        raise TypeError("an Evaluator must not be pickled or copied: make it where it is used")


class Blinded:
    """Inputs on their way to who has the key; the blinds stay here.

    Args:
        plains: 1 .. `MOST` inputs, of 1 .. 65,535 bytes each.

    Raises:
        ValueError: there are too many, or one is of another length.
    """

    def __init__(self, plains: Sequence[bytes]) -> None:
        if not 0 < len(plains) <= MOST:
            raise ValueError(f"1 to {MOST:,} inputs are blinded at once, not {len(plains):,}")
        pairs = [_library().Client.blind(plain) for plain in plains]
        self._clients = [client for client, _ in pairs]
        self.elements: list[bytes] = [element.serialize() for _, element in pairs]

    def outputs(self, evaluated: Sequence[bytes], proof: bytes, public: bytes) -> list[bytes]:
        """`Finalize` of the RFC, section 3.3.2.

        Args:
            evaluated: what came back for `elements`, in their order.
            proof: that came with it.
            public: the published key.

        Returns:
            `OUTPUT` bytes for each input.

        Raises:
            ValueError: the answer is not of that key, or no answer to these elements.
        """
        library = _library()
        try:
            answer = library.VerifiableBatchOutput.deserialize(proof + b"".join(evaluated))
            key = library.PublicKey.deserialize(public)
            return list(library.Client.finalize_batch(self._clients, answer, key))
        except ValueError:
            raise ValueError(_UNPROVED) from None
        except BaseException as error:
            # voprf 0.2.0 panics when the proof of a batch is wrong, by a class without a module.
            if type(error).__name__ != "PanicException":
                raise
            raise ValueError(_UNPROVED) from None


def is_key(public: bytes) -> bool:
    """Whether bytes are a public key: an element of the group, but not its identity.

    >>> is_key(Evaluator(bytes(32), b"").public), is_key(bytes(32))
    (True, False)
    """
    try:
        _library().PublicKey.deserialize(public)
    except ValueError:
        return False
    return True


def split(elements: bytes) -> list[bytes]:
    """Elements that came as one.

    Raises:
        ValueError: their length is no multiple of `ELEMENT`.
    """
    if len(elements) % ELEMENT:
        raise ValueError(f"elements have {ELEMENT} bytes each, which {len(elements):,} are not")
    return [elements[i : i + ELEMENT] for i in range(0, len(elements), ELEMENT)]


def _library() -> ModuleType:
    """The package `voprf`, which only devices and parties with tokens or sealed strings need."""
    try:
        from voprf import ristretto
    except ImportError as missing:
        raise ImportError(
            "tokens and sealed strings need the package voprf, of the extra `parties`: pip install "
            "'.[parties]' in a clone of hushbeam",
            name="hushbeam[parties]",  # what tells a command that a package of an extra is missing
        ) from missing
    library: ModuleType = ristretto
    return library
