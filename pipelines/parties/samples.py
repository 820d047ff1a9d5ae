"""A sample of the reports in a batch, by which a collector sees that two batches overlap.

Once ids are gone nobody can tell one report from another. So the shuffler keeps, of each batch, the
256 least hashes of the ids in it, and the collector compares. Whose an id is only its sender's
secret tells; the hash has no way back; and which message an id came with is not said: whoever knows
an id learns from the sample, at the most, that its report was in the batch: no news to them.

Source: bottom-k sketches, Cohen, "Size-estimation framework with applications to transitive closure
and reachability", JCSS 1997. The hash is AES with a public key, fed forward (Matyas, Meyer, Oseas,
1985, with the ends exchanged), of which 64 bits are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from mechanisms.wire.report import Reports

SIZE = 256
MOST_SHARED = 1 / 32  # of a batch that may be in another one too: a few clients send twice
_PUBLIC_KEY = b"hushbeam batches"  # 16 bytes: any will do, if it is the same everywhere

Sample = NDArray[np.uint64]


def hashed(ids: NDArray[np.uint64]) -> Sample:
    """(n,) words that stand for (n, 2) report ids.

    >>> hashed(np.array([[1, 2]], np.uint64)) == hashed(np.array([[1, 2]], np.uint64))
    array([ True])
    """
    packed = np.ascontiguousarray(ids, "<u8")
    cipher = Cipher(algorithms.AES(_PUBLIC_KEY), modes.ECB()).encryptor()
    mixed = np.frombuffer(cipher.update(packed.tobytes()), "<u8").reshape(-1, 2)
    # Fed forward, for the cipher alone could be undone with its public key.
    return np.asarray((mixed ^ packed)[:, 0], np.uint64)


def least(words: Sample) -> Sample:
    """The `SIZE` least of some words, in order and each once."""
    if words.size > 2 * SIZE:
        # A selection in linear time; twice the size leaves room for words that come twice.
        words = np.partition(words, 2 * SIZE)[: 2 * SIZE]
    return np.unique(words)[:SIZE]


@typehints.with_input_types(Reports)
@typehints.with_output_types(tuple[str, ...])
class SampleIds(beam.CombineFn):
    """Blocks of submitted reports, each id once, in; the sample of all of them out.

    Words are hexadecimal digits, as a summary has them.
    """

    def create_accumulator(self, *_: object, **__: object) -> Sample:
        return np.empty(0, np.uint64)

    def add_input(self, sample: Sample, reports: Reports, *_: object, **__: object) -> Sample:
        return least(np.concatenate([sample, hashed(reports.records["report_id"])]))

    def merge_accumulators(self, samples: Iterable[Sample], *_: object, **__: object) -> Sample:
        return least(np.concatenate([self.create_accumulator(), *samples]))

    def extract_output(self, sample: Sample, *_: object, **__: object) -> tuple[str, ...]:
        return tuple(f"{int(word):016x}" for word in sample)


def shared(samples: Mapping[str, Iterable[str]]) -> dict[tuple[str, str], float]:
    """Which batches have reports in common.

    Args:
        samples: batch -> its sample.

    Returns:
        (batch, another) -> about which share of the smaller one's reports is in both; pairs that
        have none in common are left out. Common reports that are one part in 64 of the larger
        batch are found with probability 0.98.

    >>> shared({"a": ["01", "02"], "b": ["02", "03", "04"], "c": ["05"]})
    {('a', 'b'): 0.5}
    """
    sets = {batch: frozenset(words) for batch, words in samples.items()}
    shares = {}
    for (one, mine), (other, theirs) in combinations(sets.items(), 2):
        common = len(mine & theirs)
        if common:
            shares[one, other] = common / _comparable(mine, theirs)
    return shares


def _comparable(mine: frozenset[str], theirs: frozenset[str]) -> int:
    """How many words could have been common: a full sample says nothing beyond its largest."""
    reach = min((max(words) for words in (mine, theirs) if len(words) == SIZE), default="~")
    return min(sum(word <= reach for word in words) for words in (mine, theirs))
