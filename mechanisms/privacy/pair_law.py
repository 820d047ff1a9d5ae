"""What sets two neighbouring shuffled batches apart, reduced to a handful of probabilities.

One user reports according to `first` or to `second`; every other user reports according to
`others`; the batch is shuffled. Upper bounds, lower bounds and dummy messages are all of this
form and differ only in what `others` is:

* the privacy blanket, a law contained in everybody's report, with a silent code for the rest of
  the probability: no neighbouring batches can be told apart better;
* the law of one real input: these batches exist, so no smaller loss can be claimed.

Shuffle amplification of any local randomiser, when nothing is known but its epsilon.

What reports may spend in a batch if losses were normal: where exact searches begin.

Of k-ary response on p symbols the sum of n losses has a variance that goes by
(r - 1)^2 / (r + p - 1), r = e^epsilon_local. Nothing is ever claimed on these formulas.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats
from mechanisms.privacy.one_bit import OneBit
from mechanisms.privacy.search import gaussian_mu

SLACK = 2.0**-48  # more than the rounding of any probability or loss computed here, relatively
_FAINT = 1e-100  # codes that others send more rarely than this are taken for never sent
LARGEST_LOSS = 400.0  # e^epsilon is not followed further
_ALIKE = 44  # bits in which ratios agree that only a table's rounding to 2^-64 sets apart


def multiplier(epsilon: float) -> float:
    """e^epsilon for upper bounds: never above the truth by more than SLACK, never infinite."""
    return math.exp(min(epsilon, LARGEST_LOSS))


@dataclass(frozen=True)
class PairLaw:
    """Two laws of one user's report and the law of everybody else's, over kinds of codes.

    Attributes:
        first: (kinds,) probabilities of the user's report, within 2^-50 relatively.
        second: (kinds,) the same for the user's other value.
        others: (kinds,) probabilities of any other user's report; they add up to 1.
    """

    first: Floats
    second: Floats
    others: Floats

    @property
    def shared(self) -> NDArray[np.bool_]:
        """(kinds,) which codes the others send, too."""
        sent: NDArray[np.bool_] = self.others > _FAINT
        return sent

    def losses(self, epsilon: float) -> tuple[Floats, Floats, float]:
        """What each kind of code adds to the evidence, rounded up.

        Returns:
            ((kinds,) (first - e^epsilon second) / others; (kinds,) the probabilities of others;
            the sum of the positive parts of first - e^epsilon second over kinds that others
            hardly ever send).
        """
        surplus = self.first * (1 + SLACK) - multiplier(epsilon) * self.second * (1 - SLACK)
        shared = self.shared
        loss = surplus[shared] / self.others[shared]
        # What the others never send is hidden by nothing, and counts in full.
        alone = float(np.maximum(surplus[~shared], 0).sum()) * (1 + SLACK)
        return loss + np.abs(loss) * SLACK, self.others[shared], alone

    def local_delta(self, epsilon: float) -> float:
        """The hockey-stick divergence of the one report, rounded up."""
        surplus = self.first * (1 + SLACK) - multiplier(epsilon) * self.second * (1 - SLACK)
        return min(1.0, float(np.maximum(surplus, 0).sum()) * (1 + SLACK))

    def spread(self) -> float:
        """mu of the Gaussian mechanism that n = 1 of this law looks like; divide by sqrt(n)."""
        shared = self.shared
        gap = (self.first - self.second)[shared]
        return float(np.sqrt(np.sum(gap * gap / self.others[shared])))


@dataclass(frozen=True)
class ShuffleLaws:
    """A mechanism as the shuffle accountant sees it.

    Attributes:
        dominating: the worst of these is an upper bound on the loss of any neighbouring batches.
        attained: each of these is the loss (or less) of batches that exist.
        epsilon: what one report loses at most, in nats; infinite if that is unbounded.
        bits: the reports themselves, if they are single bits.
    """

    dominating: tuple[PairLaw, ...]
    attained: tuple[PairLaw, ...]
    epsilon: float
    bits: OneBit | None = None

    @property
    def exactly(self) -> OneBit | None:
        """The reports, if the worst of their batches can be looked for itself."""
        return self.bits if self.bits is not None and self.bits.hidden else None


_Case = tuple[Fraction, tuple[int, int, int]]


def linear_hash_laws(
    epsilon: float,
    keep: Fraction,
    miss: Fraction,
    hash_range: int,
    collisions: tuple[Fraction, Fraction],
    domain_size: int,
) -> ShuffleLaws:
    """Randomised response over p symbols on a public random hash, or on the value itself.

    Args:
        epsilon: the loss of one report, in nats.
        keep: probability of the true symbol.
        miss: probability of each of the p - 1 others.
        hash_range: p.
        collisions: P(two given values share a symbol), and P(three values do of which no two
            determine the third); (0, 0) without a hash.
        domain_size: d, the number of values.

    Returns:
        The blanket, which is exact: every code has probability `miss` under some value or more
        under all; and the batches in which all other users hold one third value (or one of the
        pair's, where two symbols or values are all there is). On a hash over p >= 3 symbols two
        kinds of third value exist, and both are tried: one whose symbol the pair's symbols
        determine, and one that is independent of them.

    Source: Balle, Bell, Gascon, Nissim, "The privacy blanket of the shuffle model", CRYPTO 2019,
        Lemma 5.3 and section 5.1; the collision kinds are counted, not bounded.
    """
    pair, triple = collisions
    third: list[list[_Case]] = []
    if domain_size == 2 or hash_range == 2:
        third += [_cases(pair, pair, third=0), _cases(pair, pair, third=1)]
    if domain_size >= 3 and hash_range >= 3:
        third.append(_cases(pair, pair, third=2))
    if pair > 0:
        third.append(_cases(pair, triple, third=2))
    attained = tuple(_tabulate(cases, keep, miss, hash_range, None) for cases in third)
    blanket = _tabulate(_cases(pair, pair, third=0), keep, miss, hash_range, miss)
    return ShuffleLaws((blanket,), attained, epsilon)


def _cases(pair: Fraction, triple: Fraction, third: int) -> list[_Case]:
    """How the symbols of the pair and of a third value coincide, with the probability of each.

    Symbols are named 0, 1, 2; `third` = 0 or 1 makes the third value a copy of one of the pair.
    """
    if third < 2:
        return [(pair, (0, 0, 0)), (1 - pair, (0, 1, third))]
    mixed = pair - triple
    return [
        (triple, (0, 0, 0)),
        (mixed, (0, 0, 1)),
        (mixed, (0, 1, 0)),
        (mixed, (0, 1, 1)),
        (1 - 3 * pair + 2 * triple, (0, 1, 2)),
    ]


def _tabulate(
    cases: list[_Case], keep: Fraction, miss: Fraction, hash_range: int, blanket: Fraction | None
) -> PairLaw:
    """The kinds of codes; others hold the third value, or send each code with `blanket`."""
    rows: list[tuple[Fraction, Fraction, Fraction]] = []
    for chance, symbols in cases:
        for name in (0, 1, 2, None):  # None: a symbol that none of the three values has
            size = Fraction(name in symbols) if name is not None else _rest(hash_range, symbols)
            if not chance * size > 0:
                continue
            one, two, three = ((keep if name == s else miss) * chance * size for s in symbols)
            rows.append((one, two, three if blanket is None else blanket * chance * size))
    if blanket is not None:
        # What others send besides the blanket is taken to hide nothing.
        rows.append((Fraction(0), Fraction(0), 1 - hash_range * blanket))
    first, second, others = np.array([[float(x) for x in row] for row in rows]).T
    return PairLaw(first, second, others)


def _rest(hash_range: int, symbols: tuple[int, int, int]) -> Fraction:
    """How many symbols none of the values has."""
    return Fraction(hash_range - len(set(symbols)))


def incidence_laws(
    epsilon: float, on: Fraction, off: Fraction, sizes: tuple[int, int, int], triples: list[int]
) -> ShuffleLaws:
    """A report that is likelier in a set of codes, the sets of any two values meeting alike.

    Args:
        epsilon: the loss of one report, in nats.
        on: probability of each code in the value's set.
        off: probability of each other code.
        sizes: how many codes there are, are in one value's set, and are in those of two.
        triples: how many codes the sets of three values share: every number that occurs in the
            domain, or none if there are two values only.

    Returns:
        The blanket, which is exact if every code is outside some value's set; and the batches in
        which all other users hold one third value, of each kind (or one of the two values).
    """
    codes, block, pair = sizes
    both = [
        (pair, (1, 1)),
        (block - pair, (1, 0)),
        (block - pair, (0, 1)),
        (codes - 2 * block + pair, (0, 0)),
    ]
    weight = (off, on)

    def law(kinds: list[tuple[int, tuple[int, int, int]]], rest: Fraction) -> PairLaw:
        """Over kinds of codes, and a silent one for what the others never send."""
        rows = [[float(n * weight[member]) for member in kind] for n, kind in kinds if n > 0]
        silent = [[0.0, 0.0, float(rest)]] if rest else []
        return PairLaw(*np.array(rows + silent).T)

    blanket = law([(n, (a, b, 0)) for n, (a, b) in both], 1 - codes * off)
    third = [_incidences(sizes, triple) for triple in triples] or [
        [(n, (a, b, a)) for n, (a, b) in both],
        [(n, (a, b, b)) for n, (a, b) in both],
    ]
    return ShuffleLaws((blanket,), tuple(law(kinds, Fraction(0)) for kinds in third), epsilon)


def _incidences(sizes: tuple[int, int, int], triple: int) -> list[tuple[int, tuple[int, int, int]]]:
    """How many codes are in which of three values' sets, by inclusion and exclusion."""
    codes, block, pair = sizes
    two, one = pair - triple, block - 2 * pair + triple
    none = codes - 3 * block + 3 * pair - triple
    return [
        (triple, (1, 1, 1)),
        *((two, kind) for kind in ((1, 1, 0), (1, 0, 1), (0, 1, 1))),
        *((one, kind) for kind in ((1, 0, 0), (0, 1, 0), (0, 0, 1))),
        (none, (0, 0, 0)),
    ]


def grouped(first: Floats, second: Floats, others: Floats, blanket: bool = False) -> PairLaw:
    """A pair law from probabilities per code: codes with the same probabilities are one kind.

    Args:
        first, second, others: (codes,) probabilities.
        blanket: whether a silent kind takes what `others` lacks to 1 (rounded up).

    Returns:
        The law over kinds.
    """
    table = np.stack([first, second, others])
    table = table[:, table.any(axis=0)]
    # A channel with millions of codes has a handful of kinds, and the accountant's time goes by
    # kinds.
    order = np.lexsort(table)
    table = table[:, order]
    new = np.concatenate([[True], np.any(np.diff(table, axis=1) != 0, axis=0)])
    starts = np.flatnonzero(new)
    sizes: NDArray[np.int64] = np.diff(np.append(starts, table.shape[1]))
    kinds = table[:, starts] * sizes
    if blanket:
        silent = max(0.0, 1.0 - math.fsum(kinds[2])) + SLACK
        kinds = np.concatenate([kinds, [[0.0], [0.0], [silent]]], axis=1)
    return PairLaw(kinds[0], kinds[1], kinds[2])


def covering(laws: Iterable[PairLaw]) -> tuple[PairLaw, ...]:
    """Laws against a blanket, but for those that differ from another by rounding alone.

    Rows of a table that a symmetry makes equal are not once each is rounded to 2^-64, and every law
    costs a walk over the lattice: for means whose absence is hidden, one stands for three.

    Args:
        laws: of upper bounds, the last kind of each being silent.

    Returns:
        Laws of which some one reveals at least as much as each of those. Where several kinds become
        one, it takes the largest ratio of `first` to the blanket and the least of `second`. Where
        several laws do, it takes the largest `first`, the least `second` and the least blanket, of
        which what is left is silent: that only spreads a loss, and its mean stays.
    """
    alike: dict[bytes, list[Floats]] = {}
    for law in laws:
        key, kinds = _kinds(law)
        alike.setdefault(key, []).append(kinds)
    return tuple(map(_covering, alike.values()))


def _kinds(law: PairLaw) -> tuple[bytes, Floats]:
    """What laws that are alike share, and (3, kinds) probabilities where kinds differ."""
    blanket = law.others[:-1]
    # What the blanket never sends keeps its probabilities for ratios.
    ratios = np.stack([law.first, law.second])[:, :-1] / np.where(blanket > 0, blanket, 1.0)
    keys = np.stack([*_rounded(ratios), blanket > 0])
    order = np.lexsort(keys)
    ratios, blanket = ratios[:, order], blanket[order]
    new = np.any(np.diff(keys[:, order], axis=1, prepend=-1.0) != 0, axis=0) | (blanket == 0)
    starts = np.flatnonzero(new)
    first, second = ratios
    blanket = np.add.reduceat(blanket, starts)
    ratios = np.stack([np.maximum.reduceat(first, starts), np.minimum.reduceat(second, starts)])
    kinds = np.vstack([ratios * np.where(blanket > 0, blanket, 1.0), blanket])
    return _rounded(np.vstack([ratios, blanket])).tobytes(), kinds


def _covering(laws: list[Floats]) -> PairLaw:
    """One law for several of the same kinds."""
    first, second, blanket = np.stack(laws, axis=1)
    least = blanket.min(axis=0)
    silent = max(0.0, 1.0 - math.fsum(least)) + SLACK
    return PairLaw(
        np.append(first.max(axis=0), 0.0),
        np.append(second.min(axis=0), 0.0),
        np.append(least, silent),
    )


def _rounded(values: Floats) -> Floats:
    """The nearest numbers of `_ALIKE` bits."""
    mantissa, exponent = np.frexp(values)
    nearest: Floats = np.ldexp(np.round(np.ldexp(mantissa, _ALIKE)), exponent - _ALIKE)
    return nearest


def odds_budget(epsilon: float, delta: float, n: int) -> float:
    """(r - 1)^2 / (r + p - 1), r = e^epsilon_local, that suffices if the losses were normal.

    Args:
        epsilon: of the batch, positive, in nats.
        delta: of the batch, in (0, 1).
        n: how many reports are shuffled.
    """
    return n * gaussian_mu(epsilon, delta) ** 2 / 2


def odds_epsilon(budget: float, hash_range: int) -> float:
    """The epsilon_local at which (r - 1)^2 / (r + p - 1) has a given value.

    Args:
        budget: that value, positive.
        hash_range: p, at least 2.
    """
    half = budget / 2
    return math.log1p(half + math.sqrt(half * half + budget * hash_range))


def odds(epsilon_local: float, hash_range: int) -> float:
    """(r - 1)^2 / (r + p - 1) at an epsilon_local: the inverse of `odds_epsilon`."""
    above = math.expm1(epsilon_local)
    return above * above / (above + hash_range)


def clone_laws(epsilon_local: float) -> ShuffleLaws:
    """The pair of batches that dominates every epsilon_local-LDP randomiser's.

    Every other user sends what the first user would with probability at least e^-epsilon_local,
    half of it as if holding the one value and half as if holding the other.

    Args:
        epsilon_local: of one report, in (0, 700], in nats.

    Returns:
        Laws with an upper bound only: without the randomiser there is no attainable pair.

    Raises:
        ValueError: epsilon_local is out of range, or not a number.

    Source: Feldman, McMillan, Talwar, "Hiding among the clones", FOCS 2021, Theorem 3.1,
        evaluated instead of bounded. Their later, sharper pair ("Stronger privacy amplification",
        SODA 2023, Theorem 3.2) is not used: enumeration of small batches shows it below the truth
        for k-ary response.
    """
    if not 0 < epsilon_local <= 700:
        raise ValueError(f"epsilon_local must lie in (0, 700], not {epsilon_local}")
    clone = math.exp(-epsilon_local)  # hardly ever, from 230 on: no amplification
    truth, lie = 1 / (1 + clone), clone / (1 + clone)
    law = PairLaw(
        first=np.array([truth, lie, 0.0]),
        second=np.array([lie, truth, 0.0]),
        others=np.array([clone / 2, clone / 2, -math.expm1(-epsilon_local)]),
    )
    return ShuffleLaws((law,), (), epsilon_local)
