"""A sample of the reports in a batch, by which a collector sees that two batches overlap.

Once ids are gone nobody can tell one report from another. So the shuffler keeps, of each batch, the
256 least hashes of the ids in it, and the collector compares. The hash is under a secret of the
shuffler's: who knew it could choose ids of least hashes, put nine of them into two batches, and
have a whole window refused; or fill a sample with 256 of them, and hide that all else came twice.

Source: bottom-k sketches, Cohen, "Size-estimation framework with applications to transitive closure
and reachability", JCSS 1997. The hash is AES, a pseudo-random permutation, of the first 8 bytes of
an id: all that a Parquet file has of it, and another shuffler may have read the same report from a
binary one.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from itertools import combinations

import apache_beam as beam
import numpy as np
from apache_beam import typehints
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from mechanisms.wire.report import Reports
from pipelines.storage.secrets import SHUFFLE, read

SIZE = 256
MOST_SHARED = 1 / 32  # of a batch that may be in another one too: a few clients send twice
_PURPOSE = b"hushbeam batches 1"

Sample = NDArray[np.uint64]


def key_name(secret: bytes) -> str:
    """What tells two secrets apart, and nothing else of them: 16 hexadecimal digits."""
    return hmac.digest(secret, _PURPOSE + b" name", hashlib.sha256)[:8].hex()


def hashed(ids: NDArray[np.uint64], secret: bytes) -> Sample:
    """(n,) words that stand for (n, 2) report ids under a shuffler's secret, by their first words.

    >>> hashed(np.array([[1, 2]], np.uint64), bytes(32)).shape
    (1,)
    """
    packed = np.zeros(ids.shape, "<u8")
    packed[:, 0] = ids[:, 0]
    key = hmac.digest(secret, _PURPOSE, hashlib.sha256)
    cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    mixed = np.frombuffer(cipher.update(packed.tobytes()), "<u8").reshape(-1, 2)
    return np.asarray(mixed[:, 0], np.uint64)


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

    Args:
        secret: the shuffler's file; it is read where ids are hashed, and does not travel.
    """

    def __init__(self, secret: str) -> None:
        self._file, self._secret = secret, b""

    def setup(self, *_: object, **__: object) -> None:
        self._secret = read(SHUFFLE.flag, self._file)

    def create_accumulator(self, *_: object, **__: object) -> Sample:
        return np.empty(0, np.uint64)

    def add_input(self, sample: Sample, reports: Reports, *_: object, **__: object) -> Sample:
        return least(np.concatenate([sample, hashed(reports.records["report_id"], self._secret)]))

    def merge_accumulators(self, samples: Iterable[Sample], *_: object, **__: object) -> Sample:
        return least(np.concatenate([self.create_accumulator(), *samples]))

    def extract_output(self, sample: Sample, *_: object, **__: object) -> tuple[str, ...]:
        return tuple(f"{int(word):016x}" for word in sample)


def together(samples: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """The sample of what several were made of."""
    return tuple(sorted({word for sample in samples for word in sample})[:SIZE])


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
