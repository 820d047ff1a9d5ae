"""Is a claim true? From the table, exactly; and from the sampler, by attacking it."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from mechanisms.channel import Guarantee, Mechanism
from mechanisms.privacy.amplification import shuffled_delta, shuffled_epsilon
from mechanisms.privacy.divergence import Spectrum, worst_pair
from mechanisms.privacy.rejection import RISK, lower_bound
from mechanisms.randomness import RandomSource

_LARGEST_ALPHABET = 1 << 24  # codes whose frequencies an attack tabulates
_EXPECTED = 50  # reports in a cell of the chi-square test, at the least
_EMPIRICAL = 1 << 12  # codes for which ratios are also learnt from the samples themselves


@dataclass(frozen=True)
class Audit:
    """A mechanism's claim beside what its channel does.

    Attributes:
        claim: what is said of the mechanism, also where its paper is wrong.
        epsilon: the exact loss of the channel at delta 0, rounded up; infinite if unbounded.
        delta: the exact delta at the claimed epsilon, rounded up.
        pair: the ordered pair of inputs that delta is attained at.
    """

    claim: Guarantee
    epsilon: float
    delta: float
    pair: tuple[int, int]

    @property
    def holds(self) -> bool:
        """Whether the claim is true. No rounding enters: a true claim never fails."""
        return self.claim.model != "none" and self.delta <= self.claim.delta


def audit(mechanism: Mechanism) -> Audit:
    """Hold the claim of one report's privacy against its channel, by enumeration.

    Args:
        mechanism: any finite channel.

    Returns:
        The comparison, over every pair of inputs.
    """
    claim = mechanism.claimed
    # Without a claim there is nothing to hold delta against; 0 shows the worst.
    at = claim.epsilon if claim.epsilon < math.inf else 0.0
    spectrum = Spectrum.of(mechanism)
    pair, delta = spectrum.worst(at)
    return Audit(claim, spectrum.epsilon, delta, pair)


@dataclass(frozen=True)
class BatchAudit:
    """The claim of a mechanism that is private in a shuffled batch only, beside the accountant.

    Attributes:
        claim: what the mechanism says of a batch of n users.
        n: how many users.
        epsilon: the exact loss at the claimed delta, from below and from above.
        delta: the exact delta at the claimed epsilon, from below and from above.
    """

    claim: Guarantee
    n: int
    epsilon: tuple[float, float]
    delta: tuple[float, float]

    @property
    def holds(self) -> bool:
        """Whether the claim is true; what rounding may have hidden is counted against it."""
        return self.delta[1] <= self.claim.delta


def audit_batch(mechanism: Mechanism, n: int) -> BatchAudit:
    """Hold the claim of a shuffled batch against the exact accountant.

    Args:
        mechanism: one whose guarantee is of the shuffle model.
        n: how many users the batch has.
    """
    claim = mechanism.guarantee
    return BatchAudit(
        claim,
        n,
        shuffled_epsilon(mechanism, n, claim.delta),
        shuffled_delta(mechanism, n, claim.epsilon),
    )


@dataclass(frozen=True)
class Attack:
    """What samples of the shipped sampler prove.

    Attributes:
        epsilon: a lower bound on the loss; exceeds the truth with probability below RISK.
        pair: the inputs that were told apart.
        samples: how many reports of each were drawn.
        follows_channel: False if the samples refute the table, at RISK.
    """

    epsilon: float
    pair: tuple[int, int]
    samples: int
    follows_channel: bool


def attack(mechanism: Mechanism, rng: RandomSource, samples: int = 1_000_000) -> Attack:
    """Run the optimal distinguisher on real reports.

    For the worst pair of inputs, codes are ranked by likelihood ratio, as the table has it and,
    for small alphabets, as a first half of the samples has it; the second half bounds from below
    how much likelier a top set of codes is under one input than under the other.

    Args:
        mechanism: any finite channel with at most 2^24 codes.
        rng: draws the reports.
        samples: of each of the two inputs.

    Returns:
        The largest bound over all top sets, in both directions.

    Raises:
        ValueError: the alphabet is too large, or there are too few samples.

    Source: Clopper, Pearson, "The use of confidence or fiducial limits illustrated in the case of
        the binomial", 1934; Neyman, Pearson 1933 for the optimality of ratio sets.
    """
    if not mechanism.outcomes <= _LARGEST_ALPHABET:
        raise ValueError(f"an attack tabulates at most {_LARGEST_ALPHABET} codes")
    if not samples >= 1000:
        raise ValueError(f"an attack needs at least 1000 samples, not {samples}")
    claim = mechanism.guarantee
    pair = worst_pair(mechanism, claim.epsilon if claim.epsilon < math.inf else 0.0)
    half = samples // 2
    tables = np.array([mechanism.channel(cell) for cell in pair])
    # A ranking that is tested on the samples it was learnt from would take their noise for a leak.
    learnt, tested = (
        np.array([mechanism.tally(cell, half, rng) for cell in pair]) for _ in range(2)
    )
    rankings = [_by_ratio(tables)]
    if mechanism.outcomes <= _EMPIRICAL:
        # One more of each code keeps the ratios of those finite that were never seen.
        rankings.append(_by_ratio((learnt + 1) / half))
    sets = [
        (order, cut, first)
        for ranking in rankings
        for first, order in ((0, ranking), (1, ranking[::-1]))
        for cut in _cuts(tables[:, order])
    ]
    bound = max(
        lower_bound(
            tested[first, order[:cut]].sum(), tested[1 - first, order[:cut]].sum(), half,
            claim.delta, RISK / (6 * len(sets)),
        )
        for order, cut, first in sets
    )  # fmt: skip
    # One risk for all that may accuse: the bound, and the test of either input's law.
    drawn = zip(learnt, tested, tables, strict=True)
    follows = all(_plausible(a + b, law, RISK / 3) for a, b, law in drawn)
    return Attack(bound, pair, 2 * half, follows)


def _by_ratio(laws: NDArray[np.float64]) -> NDArray[np.intp]:
    """Codes, the ones that speak loudest for the first law first."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.argsort(-np.nan_to_num(laws[0] / laws[1], nan=1.0), kind="stable")


def _cuts(ordered: NDArray[np.float64], most: int = 16) -> list[int]:
    """Where to cut a ranking: after each level of the ratio, or evenly if there are many."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = ordered[0] / ordered[1]
    levels = np.flatnonzero(~np.isclose(ratio[1:], ratio[:-1], rtol=1e-9)) + 1
    if not levels.size:
        levels = np.array([max(1, ordered.shape[1] // 2)])
    # The risk is divided among the sets, so a great many weaken every one of them.
    chosen = levels[np.linspace(0, levels.size - 1, min(most, levels.size)).astype(int)]
    return [int(cut) for cut in chosen]


def _plausible(counts: NDArray[np.int64], law: NDArray[np.float64], risk: float) -> bool:
    """Whether counts may come from a law: chi-square over cells of at least 50 expected reports.

    Codes that are expected less often share cells; fewer than 50 reports left over join another.
    """
    # One code that cannot be refutes a table, whatever the risk.
    if counts[law == 0].any():
        return False
    expected = law * counts.sum()
    rare = expected < _EXPECTED
    # Groups of rare codes hold at least twice the minimum less one code, save for the last.
    group = np.floor(np.cumsum(expected[rare]) / (2 * _EXPECTED)).astype(np.int64)
    observed = np.append(np.bincount(group, counts[rare]), counts[~rare])
    wanted = np.append(np.bincount(group, expected[rare]), expected[~rare])
    short = wanted < _EXPECTED
    if short.all():
        return True  # too few reports to test anything
    nearest = np.flatnonzero(~short)[np.argmin(wanted[~short])]
    observed[nearest] += observed[short].sum()
    wanted[nearest] += wanted[short].sum()
    observed, wanted = observed[~short], wanted[~short]
    statistic = float(((observed - wanted) ** 2 / wanted).sum())
    return observed.size == 1 or statistic < float(special.chdtri(observed.size - 1, risk))
