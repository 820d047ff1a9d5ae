"""The collector of a search: counts that merge, and strings out of them."""

from __future__ import annotations

import apache_beam as beam
import numpy as np

from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.heavy_hitters.discovery import discover
from mechanisms.heavy_hitters.levels import Levels
from mechanisms.heavy_hitters.prefix_code import PrefixCode
from mechanisms.heavy_hitters.protocol import Protocol
from mechanisms.heavy_hitters.schedule import Schedule, Search
from mechanisms.randomness import SeededRandom
from tests.oracles.transforms import run, source
from transforms.collector.discover_counted import Discover, Discovered

LEVELS = Levels(k_ary(1.0, 8), (1, 2))
PROTOCOL = Protocol(
    PrefixCode("abc", 4), Schedule((2, 2), (2, 3), (1, 1)), k_ary(8.0, 1 << 10), seed=3
)


def reports() -> np.ndarray:
    """Of users who hold a few strings."""
    rng = SeededRandom(4)
    codes, _ = PROTOCOL.code.encode(["ab", "abca", "cccc", "b"])
    cells = PROTOCOL.cells(np.repeat(codes, 2500, axis=0), rng)
    return PROTOCOL.levels.perturb(cells, rng)


def test_a_pipeline_finds_what_the_collector_does() -> None:
    sent = reports()
    blocks = [*np.array_split(sent, 9), np.array([2**64 - 1], np.uint64)]
    search = Search(beam=32, false_strings=0.02)

    def build(pipeline):
        return pipeline | source(blocks) | Discover(PROTOCOL, search, top=3, confidence=0.9)

    (outcome,) = run(build).elements
    assert isinstance(outcome, Discovered)
    expected = discover(PROTOCOL, PROTOCOL.levels.count(sent), search, 3, 0.9)
    assert outcome.invalid == 1
    assert outcome.strings.values == expected.values
    assert len(expected.values) == 3
    for name in ("estimate", "standard_error", "lower", "upper", "expected_false"):
        np.testing.assert_array_equal(getattr(outcome.strings, name), getattr(expected, name))


def test_an_empty_batch_yields_an_empty_list() -> None:
    def build(pipeline):
        nothing = pipeline | beam.Create([]).with_output_types(np.ndarray)
        return nothing | Discover(PROTOCOL, Search())

    (outcome,) = run(build).elements
    assert (outcome.strings.values, outcome.strings.n, outcome.invalid) == ([], 0, 0)
