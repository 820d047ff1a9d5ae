"""The search: from the counts of all levels to the strings that stand out.

It sees nothing but the counts of randomised reports, so it costs no privacy. At each level the
prefixes that were followed go on by all their extensions; those whose buckets hold more than
chance explains are followed further. A string is judged at the level at which it is complete, by
the reports of that level and of all later ones, where its users report it padded: those reports
are independent of how it came to be a candidate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.heavy_hitters.prefix_code import Codes, Extensions, States
from mechanisms.heavy_hitters.protocol import Protocol
from mechanisms.heavy_hitters.schedule import Search
from mechanisms.heavy_hitters.scores import Chance, Row

_PIECE = 1 << 16  # extensions whose hashes are held, of every group
_BLOCK = 1 << 14  # candidates looked at together: what is known of them stays in the cache


class Prefixes(NamedTuple):
    """What is followed.

    Attributes:
        codes: (m, length) symbols.
        states: (m,) what may come next.
    """

    codes: Codes
    states: States


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
    followed = Prefixes(np.zeros((1, 0), np.uint16), np.zeros(1, np.int8))
    later = _later(protocol, rows)
    by_level: list[Strings] = []
    tested = 0
    for level in range(len(protocol.schedule.steps)):
        if not followed.states.size:
            break
        here = _Level(protocol, rows, search, level)
        ways = {state: here.extensions(state) for state in np.unique(followed.states).tolist()}
        strings, candidates = here.completed(followed, ways, later[level])
        if not protocol.schedule.last(level):
            followed = here.followed(followed, ways)
        by_level.append(strings)
        tested += candidates
    codes, levels, chance = map(np.concatenate, zip(*by_level, strict=True))
    expected = chance * tested
    kept = expected <= search.false_strings
    return Strings(codes[kept], levels[kept], expected[kept]), tested


def _later(protocol: Protocol, rows: list[Row]) -> list[Chance]:
    """(levels,) the chance of the groups of each level and of all later ones."""
    chance, chances, end = Chance(), [], len(rows)
    for width in reversed(protocol.schedule.rows):
        for scored in rows[end - width : end]:
            chance = chance.plus(scored)
        end -= width
        chances.append(chance)
    return chances[::-1]


Ways = dict[int, Extensions]


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
        added = {state: Prefixes(way.open, way.states) for state, way in ways.items()}
        candidates = _candidates(parents, added)
        threshold = chance.threshold(self.search.followed(candidates))
        hits, sums = self._hits(parents, added, groups, threshold)
        # The beam bounds the work of the next level, whatever the counts say.
        best = np.argsort(-sums, kind="stable")[: self.search.beam]
        return Prefixes(hits.codes[best], hits.states[best])

    def completed(self, parents: Prefixes, ways: Ways, chance: Chance) -> tuple[Strings, int]:
        """The strings that end at this level, judged by its groups and all later ones."""
        added = {
            state: Prefixes(way.complete, np.zeros(len(way.complete), np.int8))
            for state, way in ways.items()
        }
        candidates = _candidates(parents, added)
        # Bonferroni over the candidates: what nobody holds stands out by chance only so often in
        # all.
        threshold = chance.threshold(self.search.false_strings / max(candidates, 1))
        groups = self.protocol.groups(self.level)
        (codes, _), sums = self._hits(parents, added, groups, threshold)
        padding = self.protocol.code.positions - codes.shape[1]
        codes = np.pad(codes, ((0, 0), (0, padding)))  # END is 0
        levels = np.full(sums.size, self.level)
        return Strings(codes, levels, chance.exceeding(sums)), candidates

    def _hits(
        self,
        parents: Prefixes,
        added: dict[int, Prefixes],
        groups: NDArray[np.int64],
        threshold: int,
    ) -> tuple[Prefixes, NDArray[np.int32]]:
        """The extensions that reach a sum of scores, parent by parent, and the sums."""
        hashed, end = self.protocol.hash, self.protocol.lengths[self.level]
        begun = hashed.part(parents.codes, groups, 0)
        begun ^= hashed.ending(groups, end)[:, None]
        scores = [self.rows[group].scores for group in groups]
        hits_of_blocks = []
        for state, (codes, states) in _pieces(added):
            alike = np.flatnonzero(parents.states == state)
            parts = hashed.part(codes, groups, self.start)
            # Blocks of parents: by one at a time, most of the time went into calls of numpy.
            size = max(1, _BLOCK // max(1, len(codes)))
            for block in (alike[start : start + size] for start in range(0, alike.size, size)):
                sums = np.zeros((block.size, len(codes)), np.int32)
                for score, part, start in zip(scores, parts, begun[:, block], strict=True):
                    # Hashes of a prefix and of what follows are joined by XOR, so a candidate costs
                    # one look-up; `[]` would check each place once more, at twice the price.
                    sums += score.take(part ^ start[:, None], mode="wrap")
                row, which = np.divmod(np.flatnonzero(sums >= threshold), len(codes))
                joined = np.concatenate([parents.codes[block[row]], codes[which]], axis=1)
                hits_of_blocks.append((block[row], joined, states[which], sums[row, which]))
        parent, *hits = map(np.concatenate, zip(*hits_of_blocks, strict=True))
        codes, states, sums = (hit[np.argsort(parent, kind="stable")] for hit in hits)
        return Prefixes(codes, states), sums


def _pieces(added: dict[int, Prefixes]) -> Iterator[tuple[int, Prefixes]]:
    """The extensions of each state, at most so many at a time as leave room for their hashes."""
    for state, (codes, states) in added.items():
        for start in range(0, max(1, len(codes)), _PIECE):
            piece = slice(start, start + _PIECE)
            yield state, Prefixes(codes[piece], states[piece])


def _candidates(parents: Prefixes, added: dict[int, Prefixes]) -> int:
    """How many extensions all parents have together."""
    return sum(len(added[state].codes) for state in parents.states.tolist())
