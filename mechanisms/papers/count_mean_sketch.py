"""Apple's Hadamard count mean sketch (HCMS): one noisy bit of a random sketch of the value."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Counts, Floats
from mechanisms.frequency.oracle import SMALL
from mechanisms.papers.count_sketch import CountSketch
from mechanisms.papers.public_hash import PublicHash
from mechanisms.randomness import Words
from mechanisms.registry import register

_WORD = 1 << 64
_UNSIGNED = np.uint64((1 << 63) - 1)


@dataclass(frozen=True)
class _Unsigned(PublicHash):
    """Words whose top bit, which a count sketch takes for a sign, is 0."""

    def words(self, functions: ArrayLike, values: ArrayLike) -> Words:
        unsigned: Words = super().words(functions, values) & _UNSIGNED
        return unsigned


@register(
    "hcms",
    task="frequency",
    sends="one bit of a Hadamard-transformed row of a count mean sketch",
    source="Apple Differential Privacy Team, Learning with Privacy at Scale, 2017",
    seeded=True,
    postprocess="auto",
    small=[{**sizes, "width": 4, "sketches": 2} for sizes in SMALL],
)
@dataclass(frozen=True)
class CountMeanSketch(CountSketch):
    """A count sketch without signs: what collisions are expected to add is taken off again.

    Sketch k puts the value v into the bucket h_k(v). A client draws a sketch k and an index l, both
    uniform, and randomises (-1)^<l, h_k(v)>. Any other value is in the same bucket with probability
    1 / width, and then looks like v in every report of that sketch.

    Attributes:
        epsilon: privacy loss of one report, in nats.
        domain_size: d, the number of values.
        width: m, how many buckets a sketch has: a power of two, at least 2.
        sketches: k, how many hash functions there are; width x sketches is at most 2^24.
            Collisions add an error of variance up to 1 / (sketches (width - 1)).
        seed: the public randomness of the hash functions. It is the same for all clients of a
            collection, by design, and may be printed: no noise comes from it.

    Source: Apple Differential Privacy Team, "Learning with privacy at scale", Apple Machine
        Learning J. 2017, algorithms Client-HCMS and Sketch-HCMS; `estimate` is their algorithm
        Server. An index of 0 tells nothing, and is drawn as often as any other, as published.

    >>> mechanism = CountMeanSketch(epsilon=1.0, domain_size=1000)
    >>> mechanism.width, mechanism.sketches, mechanism.codes
    (1024, 64, 131072)
    >>> round(float(mechanism.variance(0.0, n=10**6)) * 10**6, 2)  # all others hold one value
    19.97
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.width >= 2:
            raise ValueError("width must be at least 2: in one bucket all values are alike")

    @cached_property
    def hash(self) -> PublicHash:
        """A public function for each sketch: its low bits name the bucket."""
        return _Unsigned(self.seed, self.sketches, self.domain_size)

    @property
    def other(self) -> float:
        """P(support | not holder), over the public seed: above 1/2 by the chance of a collision."""
        return self.keep - self.contrast

    @cached_property
    def contrast(self) -> float:
        """(keep - 1/2) (1 - 1 / width): in a shared bucket others look like holders."""
        return (self.keep_weight - self.miss_weight) / (2 * _WORD) * (1 - 1 / self.width)

    @property
    def collision(self) -> float:
        """1 / (sketches (width - 1)): as many collisions as expected cost nothing."""
        return 1 / (self.sketches * (self.width - 1))

    def median(self, counts: Counts) -> Floats:
        """The median of the sketches' own estimates, as `CountSketch.median`.

        Collisions only ever add, so this one is skewed, too; the paper takes the mean.
        """
        return super().median(counts) - 1 / (self.width - 1)

    @property
    def farthest(self) -> int:
        """Values in different buckets have different signs at half of all indices, no others."""
        return min(super().farthest, self.height // 2)
