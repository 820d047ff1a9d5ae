"""Tokens, and strings under an oblivious function: CPU of each, one by one and in batches.

A string's targets are a millisecond of the device and 0.3 ms of redemption at the endpoint.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from rich.console import Console
from rich.table import Table

from benchmarks.measure import seconds
from mechanisms.randomness import SeededRandom
from mechanisms.wire.oblivious import Blinded, Evaluator
from mechanisms.wire.strings import seal_strings, string_inputs
from mechanisms.wire.tokens import Issuer, TokenRequest

SIZES = 1, 1000
TARGET_MS = 1.0  # of a device, for a string of one slot

_SEED, _PLAN = bytes(range(32)), bytes(16)
_KEY = X25519PrivateKey.from_private_bytes(_SEED).public_key()


def main() -> None:
    """Print what each step takes; end with an error where a string takes too long."""
    table = Table(title="microseconds of CPU for each token, or string")
    for heading in ("step", *(f"of {size:,} together" for size in SIZES)):
        table.add_column(heading, justify="left" if heading == "step" else "right")
    columns = [_of_tokens(size) for size in SIZES]
    for name in columns[0]:
        table.add_row(name, *(f"{column[name]:.0f}" for column in columns))
    string = _of_a_string()
    table.add_row("a string: ask, check, seal", f"{string:.0f}", "")
    Console().print(table)
    if string > TARGET_MS * 1000:
        raise SystemExit(f"a string takes {string / 1000:.2f} ms, and not {TARGET_MS:g}")


def _of_tokens(size: int) -> dict[str, float]:
    """Microseconds of each step, of so many tokens."""
    issuer, rng = Issuer(_SEED), SeededRandom(1)
    request = TokenRequest.drawn(size, rng)
    answer = issuer.evaluate(request.elements)
    tokens = request.tokens(*answer, issuer.public)
    steps: dict[str, Callable[[], object]] = {
        "device blinds": lambda: TokenRequest.drawn(size, rng),
        "issuer evaluates, with a proof": lambda: issuer.evaluate(request.elements),
        "device checks and unblinds": lambda: request.tokens(*answer, issuer.public),
        "endpoint redeems": lambda: [issuer.valid(token) for token in tokens],
    }
    return {name: seconds(step) / size * 1e6 for name, step in steps.items()}


def _of_a_string() -> float:
    """Microseconds that a device takes for a report of one string, with its seal."""
    party, words = Evaluator(_SEED, b"strings"), np.array([[[1, 2, 3, 4]]], np.uint32)
    inputs = string_inputs(_PLAN, 0, words, _KEY)
    blinded = Blinded(inputs)
    answer = party.evaluate(blinded.elements)
    known = dict(zip(inputs, blinded.outputs(*answer, party.public), strict=True))
    steps: tuple[Callable[[], object], ...] = (
        lambda: Blinded(string_inputs(_PLAN, 0, words, _KEY)),
        lambda: blinded.outputs(*answer, party.public),
        lambda: seal_strings(_PLAN, 0, words, np.zeros((1, 2), np.uint64), known, _KEY),
    )
    return sum(map(seconds, steps)) * 1e6


if __name__ == "__main__":
    main()
