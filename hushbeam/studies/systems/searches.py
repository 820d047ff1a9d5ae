"""A search among simulated users, by the code that real ones run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.channel import Counts
from mechanisms.heavy_hitters.discovery import FrequentStrings, discover
from mechanisms.heavy_hitters.fitting import FittedSearch
from mechanisms.heavy_hitters.protocol import Protocol
from mechanisms.randomness import SeededRandom

_BLOCK = 1 << 20  # users at a time


def report(
    protocol: Protocol, values: Sequence[str], holders: ArrayLike, rng: SeededRandom
) -> Counts:
    """The collector's state after simulated users have reported.

    Args:
        protocol: what they run.
        values: (m,) strings.
        holders: (m,) how many users hold each.
        rng: repeatable randomness; nobody's real report is drawn here.

    Returns:
        (codes of protocol.levels,), from the law of a real collection. Holders of strings with
        characters outside of the alphabet report nothing.
    """
    codes, usable = protocol.code.encode(values)
    who = np.repeat(np.flatnonzero(usable), np.asarray(holders)[usable])
    counts = np.zeros(protocol.levels.codes, np.int64)
    for start in range(0, who.size, _BLOCK):
        cells = protocol.cells(codes[who[start : start + _BLOCK]], rng)
        counts += protocol.levels.count(protocol.levels.perturb(cells, rng))
    return counts


def simulate(
    plan: FittedSearch,
    values: Sequence[str],
    holders: ArrayLike,
    rng: SeededRandom,
    top: int | None = None,
    confidence: float = 0.95,
) -> FrequentStrings:
    """What a search would have found in a population, under a public hash of its own.

    Args:
        plan: a search that was fitted to a target.
        values: (m,) strings, each once.
        holders: (m,) how many users hold each.
        rng: repeatable randomness.
        top: how many strings are wanted at most.
        confidence: of the intervals.
    """
    protocol = replace(plan.protocol, seed=int(rng.words(1)[0]))
    return discover(protocol, report(protocol, values, holders, rng), plan.search, top, confidence)


class Quality(NamedTuple):
    """How a list of strings compares with the truth.

    Attributes:
        precision: the share of the first k strings found that are among the k most frequent; 1
            if none was found.
        recall: the share of the k most frequent strings that were found.
        false_strings: how many of all strings found nobody holds.
    """

    precision: float
    recall: float
    false_strings: int


def quality(
    plan: FittedSearch, strings: FrequentStrings, values: Sequence[str], holders: ArrayLike, k: int
) -> Quality:
    """Precision and recall of a search.

    Args:
        plan: of the search, which says where strings were cut.
        strings: its result.
        values: (m,) strings, each once.
        holders: (m,) how many users hold each.
        k: how many of the most frequent strings ought to be found, at least 1.
    """
    code = plan.protocol.code
    codes, usable = code.encode(values)
    truth: Counter[tuple[str, bool]] = Counter()
    for place in np.flatnonzero(usable & (np.asarray(holders) > 0)).tolist():
        truth[code.text(codes[place])] += int(np.asarray(holders)[place])
    wanted = {string for string, _ in truth.most_common(k)}
    listed = list(zip(strings.values, strings.whole.tolist(), strict=True))
    first = listed[:k]
    return Quality(
        len(wanted.intersection(first)) / len(first) if first else 1.0,
        len(wanted.intersection(listed)) / len(wanted) if wanted else 1.0,
        len(set(listed) - truth.keys()),
    )
