"""Searches by noisy counters, at a small example, for attacks: all that their levels look at."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.counters.design import Counters
from mechanisms.heavy_hitters.counted import CountedSearch, Keys, Noise, Tally
from mechanisms.heavy_hitters.crowds import Crowds
from mechanisms.heavy_hitters.prefix_code import PrefixCode
from mechanisms.privacy.trial import Trial, register_trial
from mechanisms.randomness import RandomSource

_DELTA = 0.05


@dataclass(frozen=True)
class _WatchedSearch(CountedSearch):
    """A search in steps of one symbol, with all noisy counts that its levels looked at."""

    seen: list[NDArray[np.int64]] = field(default_factory=list)

    @property
    def steps(self) -> tuple[int, ...]:
        return (1,) * self.code.max_length

    def _noisy(
        self, keys: Keys, level: int, tally: Tally, design: Noise, rng: RandomSource
    ) -> NDArray[np.int64]:
        counts = super()._noisy(keys, level, tally, design, rng)
        if level < len(self.steps):  # what comes after them is published, and looked for there
            self.seen.append(counts)
        return counts


# Of one letter: there is one prefix to go on from, whose place no noisy count decides.
_CODE = PrefixCode("a", 2)
LEVELS = _WatchedSearch(_CODE, seed=1).levels
"""Of strings of up to two letters."""


def search_trial(design: Counters, pairs: Any) -> Trial:
    """Counts of the prefixes of a search, of its levels and of those that are published.

    Args:
        design: of `LEVELS`.
        pairs: of users' strings.
    """
    search = _WatchedSearch(_CODE, seed=1)

    def draw(strings: Any, times: int, rng: RandomSource) -> NDArray[Any]:
        codes, _ = _CODE.encode(strings)
        tally = Tally.of(search.keys(search.cells(codes, rng)).ravel())
        return np.stack([released(tally, rng) for _ in range(times)])

    def released(tally: Tally, rng: RandomSource) -> NDArray[np.int64]:
        search.seen.clear()
        # No string is too rare to be published, so that all are, in an order of their counts.
        strings = search.discover(tally, design, np.inf, rng)
        names = sorted(zip(strings.values, strings.whole, strings.holders, strict=True))
        return np.concatenate(
            [*search.seen, [holders for *_, holders in names], [strings.unusable]]
        )

    return Trial("counters of prefixes, level by level", design.guarantee, pairs, draw)


@register_trial("counters-prefixes")
def counters_prefixes() -> Trial:
    """The prefixes of a string; a user is there or is not."""
    design = Counters.meeting(LEVELS, "add or remove", 1.0, _DELTA)
    return search_trial(design, [(["aa"], [])])


@register_trial("crowds")
def crowds() -> Trial:
    """Numbers of users who hold two strings, above a threshold; one who holds both is there or not.

    Beside nobody, beside a crowd of either, and beside one that is too large to be hidden.
    """
    design = Crowds.meeting(2, "add or remove", 1.0, _DELTA)
    large = 3 * design.threshold

    def draw(sizes: Any, times: int, rng: RandomSource) -> NDArray[Any]:
        holders = np.tile(np.array(sizes, np.int64), (times, 1))
        kept, values = design.publish(holders.ravel(), rng)
        shown = (kept & (holders.ravel() > 0)) * values  # a string of nobody is no crowd
        return np.asarray(shown.reshape(holders.shape))

    pairs = [([n + 1, m + 1], [n, m]) for n, m in ((0, 0), (0, large), (large, large))]
    return Trial("numbers of users above a threshold", design.design.guarantee, pairs, draw)
