"""PrivKV and PrivKVM: frequencies of keys and means of their numbers, as published.

Source: Ye, Hu, Meng, Zheng, "PrivKV: key-value data collection with local differential privacy",
S&P 2019, Algorithms 1 to 5. PrivKV counts a number made up as if it were one, so that means are
drawn towards 0 the more, the rarer the key is. PrivKVM asks again, and makes numbers up around its
last estimate; what is left of the bias of a key that a share f holds is (1 - f) times as much after
each round, and each of the c rounds has epsilon / (2 c) for the number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushbeam.studies.populations.keys import KeyValuePopulation
from mechanisms.channel import Counts, Floats
from mechanisms.mean.two_point import duchi
from mechanisms.papers.privkv import KeyedNumber
from mechanisms.randomness import SeededRandom


@dataclass(frozen=True)
class PrivKvRounds:
    """PrivKV in one round, or PrivKVM in several, in which the same users report.

    Attributes:
        epsilon: what the paper says a user loses in all rounds.
        rounds: c.
    """

    epsilon: float
    rounds: int = 1

    @property
    def of_number(self) -> float:
        """What a number spends in each round."""
        return self.epsilon / (2 * self.rounds)

    @property
    def lost(self) -> float:
        """What a user does lose in all rounds, exactly.

        Two numbers differ in each round by their sign, a key and none by both answers of the first
        round and by a sign in each later one: where means around -1 are made up, and the number
        is 1.
        """
        first = KeyedNumber(duchi(self.of_number, cells=1), self.epsilon / 2)
        later = KeyedNumber(duchi(self.of_number, cells=1), fake=-1.0)
        return first.epsilon + (self.rounds - 1) * later.epsilon

    def estimates(self, keys: KeyValuePopulation, rng: SeededRandom) -> tuple[Floats, Floats]:
        """(d,) frequencies, and (d,) means, as published: the first round's, and the last one's."""
        means = np.zeros(keys.d)
        frequencies = np.zeros(keys.d)
        for number in range(self.rounds):
            key = 0.0 if number else self.epsilon / 2
            keyed = [KeyedNumber(duchi(self.of_number, cells=1), key, mean) for mean in means]
            tables = _reported(keyed, keys, rng)
            if not number:
                frequencies = np.array(
                    [_key_share(one, t) for one, t in zip(keyed, tables, strict=True)]
                )
            means = np.array([_mean(one, t) for one, t in zip(keyed, tables, strict=True)])
        return frequencies, means


def _reported(
    keyed: list[KeyedNumber], keys: KeyValuePopulation, rng: SeededRandom
) -> list[Counts]:
    """What is counted of each key, of which every user reports one."""
    tables = [np.zeros(one.codes, np.int64) for one in keyed]
    for rows in keys.blocks():
        chosen = rng.integers(keys.d, len(rows)).astype(np.int64)
        for key, one in enumerate(keyed):
            values = rows[chosen == key, key]
            missing = np.isnan(values)
            cells = one.rounding.encode(np.where(missing, 0.0, values), rng)
            cells[missing] = one.unusable
            tables[key] += one.count(one.perturb(cells, rng))
    return tables


def _key_share(one: KeyedNumber, table: Counts) -> float:
    """The share of those who hold the key; as rough as it may be where few were asked."""
    return float(table @ one.presence / max(table.sum(), 1))


def _mean(one: KeyedNumber, table: Counts) -> float:
    """The mean of all signs that were told, made up or not, within bounds."""
    signs = table[:2].astype(np.float64)
    return float(np.clip(signs @ one.mechanism.decoded / max(signs.sum(), 1.0), -1, 1))
