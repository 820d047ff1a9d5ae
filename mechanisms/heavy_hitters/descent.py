"""The search: from the counts of all levels to the strings that stand out.

It sees nothing but the counts of randomised reports, so it costs no privacy. At each level the
prefixes that were followed go on by all their extensions; those whose buckets hold more than
chance explains are followed further. A string is judged at the level at which it is complete, by
the reports of that level and of all later ones, where its users report it padded: those reports
are independent of how it came to be a candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.heavy_hitters.prefix_code import Codes, Extensions
from mechanisms.heavy_hitters.protocol import Protocol
from mechanisms.heavy_hitters.schedule import Search
from mechanisms.heavy_hitters.scores import Chance, Row


class Prefixes(NamedTuple):
    """What is followed.

    Attributes:
        codes: (m, length) symbols.
        states: (m,) what may come next.
    """

    codes: Codes
    states: NDArray[np.int64]


class Strings(NamedTuple):
    """Whole strings that stand out.

    Attributes:
        codes: (k, positions).
        levels: (k,) at which they were complete.
        expected_false: (k,) how many strings that nobody holds do as well, on average, at most.
    """

    codes: Codes
    levels: NDArray[np.int64]
    expected_false: Floats


def descend(protocol: Protocol, rows: list[Row], search: Search) -> tuple[Strings, int]:
    """The strings that stand out.

    Args:
        protocol: what the users ran.
        rows: of each group.
        search: what is followed, and what may be wrong.

    Returns:
        (the strings; how many candidates for a string there were).
    """
    followed = Prefixes(np.zeros((1, 0), np.uint16), np.zeros(1, np.int64))
    by_level: list[Strings] = []
    tested = 0
    for level in range(len(protocol.schedule.steps)):
        if not followed.states.size:
            break
        here = _Level(protocol, rows, search, level)
        ways = {state: here.extensions(state) for state in np.unique(followed.states).tolist()}
        strings, candidates = here.completed(followed, ways)
        if not protocol.schedule.last(level):
            followed = here.followed(followed, ways)
        by_level.append(strings)
        tested += candidates
    codes, levels, chance = map(np.concatenate, zip(*by_level, strict=True))
    expected = chance * tested
    kept = expected <= search.false_strings
    return Strings(codes[kept], levels[kept], expected[kept]), tested


Ways = dict[int, Extensions]
Hits = list[tuple[int, NDArray[np.intp], NDArray[np.int32]]]


@dataclass(frozen=True)
class _Level:
    """One level of the tree."""

    protocol: Protocol
    rows: list[Row]
    search: Search
    level: int

    @property
    def start(self) -> int:
        """How many symbols the prefixes have that were followed to here."""
        return self.protocol.lengths[self.level - 1] if self.level else 0

    def extensions(self, state: int) -> Extensions:
        """The ways in which a prefix may go on at this level."""
        schedule, code = self.protocol.schedule, self.protocol.code
        return code.extensions(state, schedule.steps[self.level], schedule.last(self.level))

    def followed(self, parents: Prefixes, ways: Ways) -> Prefixes:
        """The best extensions that go on, judged by the groups of this level."""
        groups = self.protocol.groups(self.level)[: self.protocol.schedule.rows[self.level]]
        chance = Chance.of(self.rows[group] for group in groups)
        added = {state: way.open for state, way in ways.items()}
        candidates = sum(len(added[state]) for state in parents.states.tolist())
        threshold = chance.threshold(self.search.followed(candidates))
        hits = self._hits(parents, added, groups, threshold)
        states = [ways[int(parents.states[parent])].states[which] for parent, which, _ in hits]
        sums = np.concatenate([sums for _, _, sums in hits])
        # The beam bounds the work of the next level, whatever the counts say.
        best = np.argsort(-sums, kind="stable")[: self.search.beam]
        return Prefixes(self._joined(parents, added, hits)[best], np.concatenate(states)[best])

    def completed(self, parents: Prefixes, ways: Ways) -> tuple[Strings, int]:
        """The strings that end at this level, judged by its groups and all later ones."""
        groups = self.protocol.groups(self.level)
        chance = Chance.of(self.rows[group] for group in groups)
        added = {state: way.complete for state, way in ways.items()}
        candidates = sum(len(added[state]) for state in parents.states.tolist())
        # Bonferroni over the candidates: what nobody holds stands out by chance only so often in
        # all.
        threshold = chance.threshold(self.search.false_strings / max(candidates, 1))
        hits = self._hits(parents, added, groups, threshold)
        codes = self._joined(parents, added, hits)
        padding = self.protocol.code.positions - codes.shape[1]
        codes = np.pad(codes, ((0, 0), (0, padding)))  # END is 0
        sums = np.concatenate([sums for _, _, sums in hits])
        levels = np.full(sums.size, self.level)
        return Strings(codes, levels, chance.exceeding(sums)), candidates

    def _hits(
        self, parents: Prefixes, added: dict[int, Codes], groups: NDArray[np.int64], threshold: int
    ) -> Hits:
        """Which extensions of each parent reach a sum of scores, and the sums."""
        hashed, end = self.protocol.hash, self.protocol.lengths[self.level]
        ending = hashed.ending(groups, end)[:, None]
        parts = {state: hashed.part(way, groups, self.start) for state, way in added.items()}
        begun = hashed.part(parents.codes, groups, 0) ^ ending
        scores = [self.rows[group].scores for group in groups]
        hits: Hits = []
        for parent, state in enumerate(parents.states.tolist()):
            sums = np.zeros(parts[state].shape[1], np.int32)
            for score, part, start in zip(scores, parts[state], begun[:, parent], strict=True):
                # Hashes of a prefix and of what follows are joined by XOR, so a candidate costs one
                # look-up.
                sums += score[part ^ start]
            which = np.flatnonzero(sums >= threshold)
            hits.append((parent, which, sums[which]))
        return hits

    def _joined(self, parents: Prefixes, added: dict[int, Codes], hits: Hits) -> Codes:
        """(k, symbols) the codes of all hits, in their order."""
        tails = [added[int(parents.states[parent])][which] for parent, which, _ in hits]
        heads = np.repeat(parents.codes, [len(tail) for tail in tails], axis=0)
        return np.concatenate([heads, np.concatenate(tails)], axis=1)
