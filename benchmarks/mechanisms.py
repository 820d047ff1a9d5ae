"""Client and collector of each mechanism on one core, secure randomness included."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measure import seconds
from mechanisms.catalog import build
from mechanisms.randomness import SecureRandom

N = 1_000_000
CASES = [
    ("grr", {"epsilon": 4.0, "domain_size": 915}),
    ("grr", {"epsilon": 8.0, "domain_size": 42_178}),
    ("olh", {"epsilon": 1.0, "domain_size": 915}),
    ("olh", {"epsilon": 1.0, "domain_size": 42_178}),
    ("olh", {"epsilon": 3.0, "domain_size": 42_178}),
    ("hadamard", {"epsilon": 1.0, "domain_size": 42_178}),
    ("projective", {"epsilon": 1.0, "domain_size": 42_178}),
    ("projective", {"epsilon": 2.0, "domain_size": 42_178}),
    ("srr", {"epsilon": 6.0, "domain_size": 915}),
    ("srr", {"epsilon": 7.0, "domain_size": 42_178, "hash_range": 701}),
]


def main() -> None:
    """Print reports per second, the collector's time, and the ratio to a bare numpy generator."""
    rng, table = SecureRandom(), Table(title=f"{N:,} reports, one core")
    for heading in (
        "mechanism", "d", "hash range", "digits", "client M reports/s", "count ms", "decode ms",
        "collector ms", "state MB",
    ):  # fmt: skip
        table.add_column(heading, justify="right")
    for name, parameters in CASES:
        # Of those whose hash is linear, whose size is told.
        mechanism: Any = build(name, **parameters)
        cells = rng.integers(mechanism.domain_size, N).astype(np.uint32)
        messages = mechanism.perturb(cells, rng)
        counts = mechanism.count(messages)
        client = seconds(partial(mechanism.perturb, cells, rng))
        count = seconds(partial(mechanism.count, messages))
        decode = seconds(partial(mechanism.estimate, counts))
        table.add_row(
            name, f"{mechanism.domain_size:,}", str(mechanism.hash_range), str(mechanism.digits),
            f"{N / client / 1e6:.0f}", f"{1e3 * count:.1f}", f"{1e3 * decode:.1f}",
            f"{1e3 * (count + decode):.1f}", f"{counts.nbytes / 1e6:.1f}",
        )  # fmt: skip
    screen = Console(width=140)
    screen.print(table)
    plain = np.random.default_rng(1)
    words = seconds(lambda: rng.words(N))
    theirs = seconds(lambda: plain.integers(0, 1 << 64, N, np.uint64))
    screen.print(
        f"keystream {8 * N / words / 1e9:.1f} GB/s, {theirs / words:.1f} x numpy's PCG64; "
        f"permutation {1e9 * seconds(lambda: rng.permutation(156_250)) / 156_250:.0f} ns an item",
        highlight=False,
    )
