"""A job whose workers tell what they draw, and where: run as a program, for tests of forked ones.

    python -m tests.fakes.forked_draws FOLDER

One JSON object for each bundle of a worker stands in the folder, and one of the process itself.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from rich.console import Console

from mechanisms.randomness import SecureRandom, SeededRandom
from pipelines.jobs.run import beam_options, run_beam
from transforms.elements.pieces import Piece
from transforms.elements.progress import live, tally

WORKERS, ELEMENTS, LARGE = 3, 60, 1 << 16
_KEPT = SecureRandom()  # what no step may do: keep a generator where a copy would find it
_KEPT.words(3)
_SEEDED = SeededRandom(7)
_SEEDED.words(1)
X25519PrivateKey.generate()  # a library's generator is a copy, too, once it has begun


class Drawing(beam.DoFn):  # type: ignore[misc]
    """Draws from all there is, once a bundle; each of its elements goes on as a large piece."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def setup(self) -> None:
        self._rng = SecureRandom()

    def start_bundle(self) -> None:
        use_arrow()
        tell(self._folder, self._rng)

    def process(self, number: int) -> Iterator[tuple[int, bytes]]:
        tally("drawn", 1)
        yield number % 7, bytes([number]) * LARGE
        yield number % 7, bytes([number])


def use_arrow() -> None:
    """Have Arrow start its threads, which a copy has to start anew."""
    pa.table({"x": range(1000)}).group_by("x").aggregate([("x", "sum")])


def tell(folder: str, rng: SecureRandom) -> None:
    """Write down what this process draws."""
    try:
        seeded = str(_SEEDED.words(1)[0])
    except RuntimeError:
        seeded = None
    drawn = {
        "kept": _KEPT.words(4).tolist(), "opened": rng.words(4).tolist(),
        "uuid": uuid.uuid4().hex, "secrets": secrets.token_hex(16),
        "random": random.getrandbits(64),
        "ephemeral": X25519PrivateKey.generate().private_bytes_raw().hex(),
    }  # fmt: skip
    said = {"process": os.getpid(), "parent": os.getppid(), "seeded": seeded, "drawn": drawn}
    Path(folder, f"{os.getpid()}-{uuid.uuid4().hex}").write_text(json.dumps(said))


def summed(group: tuple[int, Any]) -> tuple[int, int, int]:
    """What came of a group: pieces, bytes, and their sum."""
    pieces = [*group[1]]
    return group[0], len(pieces), sum(int(np.frombuffer(p, np.uint8).sum()) for p in pieces)


def write(folder: str, groups: list[Any]) -> None:
    Path(folder, "groups").write_text(json.dumps(sorted(groups)))


def main(folder: str) -> None:
    """Run it in forked workers."""
    words = ["--direct_running_mode=multi_processing", f"--direct_num_workers={WORKERS}"]
    job = (
        beam.Create(range(ELEMENTS))
        | beam.Reshuffle()
        | beam.ParDo(Drawing(folder)).with_output_types(tuple[int, Piece])
        | beam.GroupByKey()
        | beam.Map(summed)
        | beam.combiners.ToList()
        | beam.Map(lambda groups: write(folder, groups))
    )
    use_arrow()
    counted = run_beam(job, beam_options(words), Console(quiet=True), None)
    Path(folder, "counted").write_text(json.dumps([counted, live()]))
    tell(folder, SecureRandom())


if __name__ == "__main__":
    from tests.fakes import forked_draws

    forked_draws.main(sys.argv[1])  # whose name the workers can import
