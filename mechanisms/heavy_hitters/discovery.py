"""From a collector's counts to a table of strings: what was found, and what it may be off by."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Counts, Floats
from mechanisms.heavy_hitters.descent import Strings, descend
from mechanisms.heavy_hitters.protocol import Protocol
from mechanisms.heavy_hitters.schedule import Search
from mechanisms.heavy_hitters.scores import Row, rows_of
from mechanisms.postprocess.intervals import normal_quantile


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
