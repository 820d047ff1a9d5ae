"""Frequent strings by noisy counters of prefixes, at each level of those that may be frequent.

A user raises one counter a level, that of its string's beginning. Counters of a level are the
extensions of what the levels before it let stand: the party that draws the dummies makes them, and
no others, so a release costs as many counters as there are candidates. Noise of all levels is
paid for as that of one footprint: a level's dummies are drawn after its counters are known, and
losses of adaptive releases compose as those of fixed ones.

What stands out in the levels is published; how many hold it is told by one more level, whose noise
had no part in the choice.

Source: the descent is that of `protocol`, without hashing of buckets and division of users; the
    counters those of `mechanisms.counters`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import AsFields, Floats
from mechanisms.counters.design import Counters
from mechanisms.counters.job_totals import JobTotals
from mechanisms.counters.levels import Level
from mechanisms.heavy_hitters.prefix_code import Codes, PrefixCode
from mechanisms.heavy_hitters.prefix_hash import PrefixHash
from mechanisms.heavy_hitters.schedule import MISSED
from mechanisms.randomness import RandomSource
from mechanisms.sampling.integer_noise import IntegerNoise, weighted_sum

Noise = Counters | JobTotals
Keys = NDArray[np.uint64]

BEAM = 1 << 14  # prefixes that are followed at the most
_TYPICAL = 1 << 12  # and that steps are chosen for
_STRANGERS = 256  # prefixes of a level that nobody holds and that are followed, on average
_CANDIDATES = 1 << 24  # of a level: some seconds' work
_WAYS = 1 << 22  # in which one prefix goes on, or candidates that are looked at together
_LEVEL_BITS = np.uint64(8)


class Tally(NamedTuple):
    """How many users raise each counter that is raised.

    Attributes:
        keys: (k,) ascending.
        counts: (k,)
    """

    keys: Keys
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, keys: Keys, counts: NDArray[np.int64] | None = None) -> "Tally":
        """Those of some keys, each as often as it stands or is said to have come."""
        if counts is None:
            return cls(*np.unique(keys, return_counts=True))
        distinct, place = np.unique(keys, return_inverse=True)
        return cls(distinct, np.bincount(place, counts, distinct.size).astype(np.int64))

    def take(self, keys: Keys) -> NDArray[np.int64]:
        """How often each of some keys came: a key tells it once, and 0 whenever it is asked again.

        Strings of equal keys would otherwise each count whoever holds one of them, and a user would
        change more counters than are paid for. Which of them counts does not depend on the data.
        """
        counts = np.zeros(keys.shape, np.int64)
        if self.keys.size:
            place = np.minimum(np.searchsorted(self.keys, keys), self.keys.size - 1)
            matches = np.flatnonzero(self.keys[place] == keys)
            once, first = np.unique(place[matches], return_index=True)
            counts[matches[first]] = self.counts[once]
            self.counts[once] = 0
        return counts

    def untold(self) -> "Tally":
        """The same, and no key has told yet how often it came."""
        return self._replace(counts=self.counts.copy())


class StringEstimates(NamedTuple):
    """Strings that stand out, the most frequent first.

    Attributes:
        values: (k,) the strings.
        whole: (k,) False for the common beginning of strings that were longer and cut.
        holders: (k,) how many users hold each, unbiased: its noise had no part in the choice.
        expected_false: (k,) how many strings that nobody holds would stand out as far, at most, on
            average.
        candidates: how many strings were judged.
        unusable: how many users hold no string of the alphabet.
    """

    values: list[str]
    whole: NDArray[np.bool_]
    holders: NDArray[np.int64]
    expected_false: Floats
    candidates: int
    unusable: int


class _Strings(NamedTuple):
    """Strings that are complete, the sums of their counts, and over how many levels."""

    codes: Codes
    sums: NDArray[np.int64]
    levels: NDArray[np.int64]


@dataclass(frozen=True)
class CountedSearch(AsFields):
    """A prefix tree whose levels are noisy counters.

    Attributes:
        code: of the strings.
        seed: of the public hash that gives prefixes their keys, of 56 bits: drawn without a look at
            the values.

    >>> search = CountedSearch(PrefixCode("abcdefgh", 12), seed=1)
    >>> search.steps, len(search.levels)
    ((7, 3, 2), 4)
    """

    code: PrefixCode
    seed: int

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """(levels,) by how many symbols each goes on: many, for levels share epsilon."""
        steps: list[int] = []
        while left := self.code.max_length - sum(steps):
            parents = _TYPICAL if steps else 1
            step = 1
            while step < left:
                ways = sum(self.code.growth(step + 1, step + 1 == left))
                if ways > _WAYS or ways * parents > _CANDIDATES:
                    break
                step += 1
            steps.append(step)
        return tuple(steps)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """(levels,) how many symbols of a code each looks at."""
        ends = np.cumsum(self.steps).tolist()
        return (*ends[:-1], self.code.positions)

    @property
    def levels(self) -> tuple[Level, ...]:
        """The footprint: a counter of each level, and of the one that tells how many hold a string.

        How many counters a level has does not enter into the price.
        """
        return (Level(1, 2),) * (len(self.steps) + 1)

    @cached_property
    def hash(self) -> PrefixHash:
        """Of the beginnings: two words for each level."""
        lengths = tuple(length for length in self.lengths for _ in range(2))
        return PrefixHash(self.seed, 1 << 32, lengths, self.code.symbols + 1)

    def cells(self, codes: Codes, rng: RandomSource) -> NDArray[np.uint32]:
        """(n, 2 levels) the words of users' strings; nothing is drawn."""
        groups = range(2 * len(self.steps))
        columns = [self.hash.buckets(codes, np.full(len(codes), group)) for group in groups]
        return np.stack(columns, axis=1)

    def keys(self, cells: NDArray[np.uint32]) -> Keys:
        """(n, levels) which counters users raise.

        Args:
            cells: as of `cells`.
        """
        high, low = cells[:, 0::2].astype(np.uint64), cells[:, 1::2].astype(np.uint64)
        return self._key(high, low, np.arange(len(self.steps)))

    @staticmethod
    def _key(high: NDArray[Any], low: NDArray[Any], level: Any) -> Keys:
        words = high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)
        mark = np.asarray(level).astype(np.uint64) << (np.uint64(64) - _LEVEL_BITS)
        return np.asarray(words >> _LEVEL_BITS | mark)

    def _keys_of(self, codes: Codes, level: int) -> Keys:
        """(m,) of some beginnings at a level."""
        groups = np.array([2 * level, 2 * level + 1])
        high, low = self.hash.part(codes[:, : self.lengths[level]], groups, 0)
        return self._key(high, low, level)

    # ---- the search --------------------------------------------------------------------------

    def discover(
        self, tally: Tally, design: Noise, false_strings: float, rng: RandomSource
    ) -> StringEstimates:
        """The strings that stand out.

        Args:
            tally: of all users' keys.
            design: of `levels`.
            false_strings: how many strings that nobody holds may be among them, on average.
            rng: draws the dummies: to be called once for a batch.
        """
        law = noise_of(design)
        codes, states = np.zeros((1, 0), np.uint16), np.zeros(1, np.int64)
        none = np.zeros(0, np.int64)
        strings = _Strings(np.zeros((0, self.code.positions), np.uint16), none, none)
        judged = 0
        left = tally.untold()  # keys differ between levels
        for level, step in enumerate(self.steps):
            last = level == len(self.steps) - 1
            ways = {s: self.code.extensions(s, step, last) for s in np.unique(states).tolist()}
            parents = {s: codes[states == s] for s in ways}
            complete = sum(len(parents[s]) * len(w.complete) for s, w in ways.items())
            growing = sum(len(parents[s]) * len(w.open) for s, w in ways.items())
            judged += complete
            candidates = complete + growing + len(strings.sums)
            # Strings wait for their judgement, which all levels to come share in.
            least = _reached(law, min(1.0, _STRANGERS / max(candidates, 1)))
            keys = self._keys_of(strings.codes, level)
            waiting = self._noisy(keys, level, left, design, rng)
            strings = strings._replace(sums=strings.sums + waiting, levels=strings.levels + 1)
            levels, grown = [strings], []
            for s, way in ways.items():
                for hits, sums, _ in self._hits(
                    parents[s], way.complete, level, left, design, least, rng
                ):
                    padded = np.pad(hits, ((0, 0), (0, self.code.positions - hits.shape[1])))
                    levels.append(_Strings(padded, sums, np.ones_like(sums)))
                grown += [
                    (hits, sums, way.states[which])
                    for hits, sums, which in self._hits(
                        parents[s], way.open, level, left, design, least, rng
                    )
                ]
            strings = _Strings(*map(np.concatenate, zip(*levels, strict=True)))
            if not grown:
                codes, states = codes[:0], states[:0]
                continue
            codes, sums, states = map(np.concatenate, zip(*grown, strict=True))
            best = np.argsort(-sums, kind="stable")[:BEAM]
            codes, states = codes[best], states[best]
        return self._estimates(strings, judged, tally.untold(), design, false_strings, rng)

    def _hits(
        self, parents: Codes, added: Codes, level: int, tally: Tally, design: Noise,
        least: float, rng: RandomSource,
    ) -> Iterator[tuple[Codes, NDArray[np.int64], NDArray[np.intp]]]:  # fmt: skip
        """(codes, counts, which extension) of candidates that reach a count."""
        if not len(added):
            return
        groups = np.array([2 * level, 2 * level + 1])
        begun = self.hash.part(parents, groups, 0)
        tails = self.hash.part(added, groups, parents.shape[1])
        size = max(1, _WAYS // len(added))
        for start in range(0, len(parents), size):
            high, low = begun[:, start : start + size, None] ^ tails[:, None, :]
            keys = self._key(high.ravel(), low.ravel(), level)
            counts = self._noisy(keys, level, tally, design, rng)
            hits = np.flatnonzero(counts >= least)
            which = hits % len(added)
            codes = np.concatenate([parents[start + hits // len(added)], added[which]], axis=1)
            yield codes, counts[hits], which

    def _noisy(
        self, keys: Keys, level: int, tally: Tally, design: Noise, rng: RandomSource
    ) -> NDArray[np.int64]:
        """(m,) how many raise some counters: all that a search sees of a batch."""
        return tally.take(keys) + design.noise(level, keys.size, rng)

    def _estimates(
        self, strings: _Strings, judged: int, tally: Tally, design: Noise,
        false_strings: float, rng: RandomSource,
    ) -> StringEstimates:  # fmt: skip
        """What stands out of all levels that a string was judged by, with counts of their own."""
        expected, noise = np.full(strings.sums.size, np.inf), noise_of(design)
        for levels in np.unique(strings.levels).tolist():
            law = weighted_sum([(int(noise.first), noise.pmf, 1)] * levels)
            here = strings.levels == levels
            expected[here] = judged * _exceeding(law, strings.sums[here])
        kept = expected <= false_strings
        codes, last = strings.codes[kept], len(self.steps) - 1
        keys = np.append(self._keys_of(codes, last), self._keys_of(self.code.unusable[None], last))
        holders = self._noisy(keys, last + 1, tally, design, rng)
        order = np.argsort(-holders[:-1], kind="stable")
        texts = [self.code.text(code) for code in codes[order]]
        return StringEstimates(
            [text for text, _ in texts],
            np.array([whole for _, whole in texts], np.bool_),
            holders[:-1][order],
            expected[kept][order],
            judged,
            int(holders[-1]),
        )

    def detection_limit(self, design: Noise, false_strings: float) -> float:
        """How many users must hold a string so that it is found with probability 1 - MISSED.

        It holds whatever the others hold, as long as no more prefixes than `BEAM` are as frequent:
        each level is taken to have as many candidates as it may.

        Args:
            design, false_strings: as of `discover`.
        """
        law = noise_of(design)
        sizes = [
            sum(self.code.growth(step, i == len(self.steps) - 1)) * (BEAM if i else 1)
            for i, step in enumerate(self.steps)
        ]
        follow = _reached(law, min(1.0, _STRANGERS / max(sizes)))
        judge = _reached(law, min(1.0, false_strings / sum(sizes)))
        return max(follow, judge) + law.isf(MISSED / (len(self.steps) + 1))


def noise_of(design: Noise) -> IntegerNoise:
    """The law of a counter's noise, the same at each level."""
    law = design.level_law(0)
    return IntegerNoise(law.first, law.pmf)


def _reached(law: IntegerNoise, probability: float) -> float:
    """The least count that noise alone reaches with at most this probability."""
    return -np.inf if probability >= 1 else law.isf(probability) + 1


def _exceeding(law: IntegerNoise, sums: NDArray[np.int64]) -> Floats:
    """P(noise at least as large), for each of some sums."""
    tail = np.append(law.pmf[::-1].cumsum()[::-1], 0.0)
    return tail[np.clip(sums - int(law.first), 0, law.pmf.size)]
