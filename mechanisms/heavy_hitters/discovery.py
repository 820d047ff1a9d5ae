"""From a collector's counts to a table of strings: what was found, and what it may be off by.

The search: from the counts of all levels to the strings that stand out.

It sees nothing but the counts of randomised reports, so it costs no privacy. At each level the
prefixes that were followed go on by all their extensions; those whose buckets hold more than
chance explains are followed further. A string is judged at the level at which it is complete, by
the reports of that level and of all later ones, where its users report it padded: those reports
are independent of how it came to be a candidate.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Counts, Floats
from mechanisms.heavy_hitters.prefix_code import Codes, Extensions, States
from mechanisms.heavy_hitters.protocol import Protocol
from mechanisms.heavy_hitters.schedule import Search
from mechanisms.heavy_hitters.scores import Chance, Row, rows_of
from mechanisms.postprocess.intervals import normal_quantile

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


class FrequentStrings(NamedTuple):
    """Strings that stand out, the most frequent first.

    Attributes:
        values: (k,) the strings.
        whole: (k,) False for the common beginning of strings that were longer and cut.
        estimate: (k,) the share of users who hold each, unbiased for any candidate; of those that
            barely stand out, the ones whose noise was kind are here.
        standard_error: (k,) from the noise of the reports, the division of the users and the
            sharing of buckets.
        lower, upper: (k,) a normal interval for each string alone, in [0, 1].
        lower_simultaneous, upper_simultaneous: (k,) intervals that cover all candidates that were
            judged, and hence those that are here, together.
        expected_false: (k,) how many strings that nobody holds would stand out as far, at most,
            on average.
        n: how many users reported.
        candidates: how many strings were judged.
        unusable: (2,) the share of users who hold no string of the alphabet and said so, unbiased,
            and its standard error.
    """

    values: list[str]
    whole: NDArray[np.bool_]
    estimate: Floats
    standard_error: Floats
    lower: Floats
    upper: Floats
    lower_simultaneous: Floats
    upper_simultaneous: Floats
    expected_false: Floats
    n: int
    candidates: int
    unusable: Floats


def discover(
    protocol: Protocol,
    counts: Counts,
    search: Search,
    top: int | None = None,
    confidence: float = 0.95,
) -> FrequentStrings:
    """The frequent strings in a collector's counts: post-processing, which costs no privacy.

    Args:
        protocol: what the users ran.
        counts: (codes of protocol.levels,).
        search: what is followed, and what may be wrong.
        top: how many strings are wanted at most; all that stand out by default.
        confidence: of the intervals, in (0, 1).

    Raises:
        ValueError: confidence is not inside (0, 1).
    """
    levels = protocol.levels
    users = levels.divided(counts).sum(axis=1)
    rows = rows_of(levels.supports(counts), users)
    strings, candidates = descend(protocol, rows, search)
    estimate, error = _frequencies(protocol, rows, _with_none(protocol, strings))
    unusable = np.array([estimate[-1], error[-1]])
    estimate, error = estimate[:-1], error[:-1]
    order = np.argsort(-estimate, kind="stable")[:top]
    estimate, error = estimate[order], error[order]
    texts = [protocol.code.text(code) for code in strings.codes[order]]
    one, all_ = (
        normal_quantile(confidence, comparisons) * error for comparisons in (1, max(candidates, 1))
    )
    return FrequentStrings(
        [text for text, _ in texts],
        np.array([whole for _, whole in texts], np.bool_),
        estimate,
        error,
        *_limits(estimate, one),
        *_limits(estimate, all_),
        strings.expected_false[order],
        int(users.sum()),
        candidates,
        unusable,
    )


def _limits(estimate: Floats, half: Floats) -> tuple[Floats, Floats]:
    """Intervals inside [0, 1], but for estimates outside, to which they reach."""
    lower, upper = np.clip([estimate - half, estimate + half], 0, 1)
    return np.minimum(lower, estimate), np.maximum(upper, estimate)


def _with_none(protocol: Protocol, strings: Strings) -> Strings:
    """Strings, and behind them the code of no string, which all levels look at."""
    codes = np.concatenate([strings.codes, protocol.code.unusable[None]])
    return Strings(codes, np.append(strings.levels, 0), np.append(strings.expected_false, 0.0))


def _frequencies(protocol: Protocol, rows: list[Row], strings: Strings) -> tuple[Floats, Floats]:
    """Estimates of each string's share, and their standard errors."""
    width = protocol.oracle.domain_size
    users = np.array([row.n for row in rows])
    groups = np.arange(len(rows))
    size = len(strings.codes)
    buckets = np.stack(
        [protocol.hash.buckets(strings.codes, np.full(size, group)) for group in groups]
    )
    support = np.stack(
        [r.supports[r.places[bucket]] for r, bucket in zip(rows, buckets, strict=True)]
    )
    seen = protocol.oracle.shares(support, np.maximum(users, 1)[:, None])
    weights = np.where(_alone(protocol, strings, buckets), users[:, None], 0)
    total = np.maximum(weights.sum(axis=0), 1)  # also of nobody, who holds nothing
    # A bucket also holds a share 1/width of everybody else, on average over the hash.
    shares = (seen - 1 / width) / (1 - 1 / width)
    estimate = (weights * shares).sum(axis=0) / total
    inside = np.clip(estimate, 0, 1)
    # The groups that speak for a string are a sample of all users; were it everybody, none of this
    # would be added.
    drawn = inside * (1 - inside) * (1 - total / max(users.sum(), 1))
    noise = (protocol.oracle.variance(inside, 1) + drawn) / total
    shared = np.array([_collisions(protocol, *pair) for pair in zip(rows, buckets, strict=True)])
    spread = (weights**2 * shared[:, None]).sum(axis=0) / total.astype(float) ** 2
    return estimate, np.sqrt(noise + spread)


def _alone(protocol: Protocol, strings: Strings, buckets: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """(groups, k) which groups tell about a string: it is complete and shares no bucket there."""
    first = np.array([protocol.groups(level)[0] for level in strings.levels.tolist()], np.int64)
    complete = np.arange(len(buckets))[:, None] >= first
    taken = [np.unique(row, return_inverse=True, return_counts=True) for row in buckets]
    alone = complete & np.stack([counts[place] == 1 for _, place, counts in taken])
    return np.where(alone.any(axis=0), alone, complete)


def _collisions(protocol: Protocol, row: Row, buckets: NDArray[np.uint32]) -> float:
    """The variance that strangers in one bucket cause: what the buckets vary by beyond noise."""
    if not row.n:
        return 0.0
    # Buckets without a string that was published show what sharing a bucket does to one.
    strangers = np.delete(row.places, np.unique(buckets))
    shares = protocol.oracle.shares(row.supports, row.n)[strangers]
    return max(float(np.var(shares) - protocol.oracle.variance(0.0, row.n)), 0.0)
