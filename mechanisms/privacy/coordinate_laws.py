"""What a shuffled batch reveals whose users report a few of their attributes, chosen at random.

A report names the attributes it is about, so it has as many codes as all attributes together, and
two rows may differ in every attribute in another way. Neither need be enumerated.

**The blanket.** A report (j, y) has probability P(j) R_j(y | x_j), and the numbers of a row are
free, so its least probability over all rows is P(j) m_j(y), m_j the blanket of attribute j alone;
for several attributes, which are randomised one by one, it is P(J) times the product of theirs. So
it is contained in everybody's report, whatever the others hold, and `blanket.dominated_delta`
applies: (1/n) E[(L_1 + ... + L_n)_+] with every L_i a draw of (P - e^epsilon Q) / blanket.

**Which pair of rows is worst.** Given J, L is the loss of attribute J's pair of values: for two
rows L is a mixture, and all have the mean 1 - e^epsilon. A law with that mean that exceeds each of
its parts in convex order exceeds the mixture, and then the sum of n exceeds the sum of n (Shaked,
Shanthikumar, "Stochastic orders", 2007, Theorem 3.A.12). There is such a law, and it depends on two
numbers only. Let m <= P, Q <= r m code by code and let m have mass g.

* P / m lies in [1, r]: replace it by a coin on {1, r} of that mean, and Q / m by another. L becomes
  a coin whose mean given the code is L, so it grows in convex order (Jensen).
* Both coins fall on r with the same total chance w = (1 - g) / (r - 1), since P and Q add up to 1.
  If a is the chance that the first alone does, so it is for the second alone; L is r - e or 1 - e r
  with chance a each, r (1 - e) with w - a, 1 - e with g - w - a, and 0 beyond the blanket.
* A larger a takes chance from r (1 - e) and 1 - e, and gives it to r - e and 1 - e r. These have
  the same sum and lie outside of those: L grows in convex order. And a <= min(w, g - w).

So `bounded_law` holds for every pair of inputs of any randomiser with a blanket of mass g and
ratios up to r, equal values included, and for every mixture of such pairs. It is attained by
mechanisms whose ratios are 1 and r alone and whose ends share no likely code: k-ary response,
windows, two points, mixtures of these. The idea that one decomposition serves all pairs is that of
Feldman, McMillan, Talwar, "Hiding among the clones", FOCS 2021; here the blanket's mass is known.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple, TypeVar

import numpy as np

from mechanisms.channel import Mechanism
from mechanisms.privacy.amplification import laws_of
from mechanisms.privacy.divergence import log_up
from mechanisms.privacy.pair_law import SLACK, PairLaw, ShuffleLaws, clone_laws

_M = TypeVar("_M", bound=Mechanism)

_LARGEST_EPSILON = 700.0
_MOST_BLANKETS = 1 << 10  # of different sets of attributes


class Blanket(NamedTuple):
    """What a randomiser's inputs have in common, as far as `bounded_law` asks.

    Attributes:
        mass: of a measure m that is below every input's law, in (0, 1].
        ratio: r, such that no input's law exceeds r m anywhere; at least 1 / mass.
    """

    mass: float
    ratio: float


def bounded_law(blanket: Blanket) -> PairLaw:
    """The pair law that dominates all of a randomiser's pairs, and mixtures of them.

    Args:
        blanket: of the randomiser.

    Returns:
        A law whose losses exceed those of every pair in convex order, at every epsilon.

    Raises:
        ValueError: no randomiser has such a blanket (NaN included).

    >>> bounded_law(Blanket(mass=0.5, ratio=4.0)).first.round(4).tolist()
    [0.6667, 0.1667, 0.0, 0.1667, 0.0]
    """
    mass, ratio = blanket
    if not (0 < mass <= 1 and 1 / mass <= ratio * (1 + SLACK) and ratio < math.inf):
        raise ValueError(f"no randomiser has a blanket of mass {mass} and ratios up to {ratio}")
    # w of the text above, and then a at its largest, which is the worst.
    high = min((1 - mass) / (ratio - 1), mass) if ratio > 1 else 0.0
    alone = min(high, mass - high)
    both, neither = high - alone, max(mass - high - alone, 0.0)
    kept = np.array([alone, alone, both, neither, 0.0])
    first = kept * np.array([ratio, 1.0, ratio, 1.0, 0.0])
    second = kept * np.array([1.0, ratio, ratio, 1.0, 0.0])
    return PairLaw(first, second, np.append(kept[:4], 1 - mass))


def one_law(mass: Fraction, ratio: Fraction) -> ShuffleLaws:
    """How the shuffle accountant sees a randomiser of whose blanket mass and ratio are known.

    Args:
        mass: of a measure below every input's law, exactly.
        ratio: such that no input's law exceeds that many times the measure anywhere, exactly.
    """
    blanket = Blanket(float(mass) * (1 - SLACK), float(ratio) * (1 + 2 * SLACK))
    return ShuffleLaws((bounded_law(blanket),), (), log_up(ratio))


def mixed_law(laws: Sequence[PairLaw], weights: Sequence[float]) -> PairLaw:
    """One report out of several kinds of reports, which says of which kind it is.

    Args:
        laws: of each kind.
        weights: their probabilities, which add up to 1.
    """
    return PairLaw(
        *(
            np.concatenate([w * getattr(law, name) for law, w in zip(laws, weights, strict=True)])
            for name in ("first", "second", "others")
        )
    )


def common_blanket(laws: ShuffleLaws) -> Blanket:
    """One blanket for all pairs of a randomiser, from the laws that its accountant goes by.

    Each dominating law has a blanket of its own; scaled down to the least of their masses they are
    blankets still, and ratios grow by as much. Rounded outwards.
    """
    masses = [float(law.others[law.first > 0].sum()) for law in laws.dominating]
    least, ratio = min(masses), 0.0
    for law, mass in zip(laws.dominating, masses, strict=True):
        sent = law.others > 0
        largest = np.maximum(law.first, law.second)[sent] / law.others[sent]
        ratio = max(ratio, max(math.exp(laws.epsilon), float(largest.max())) * (mass / least))
    return Blanket(min(least * (1 - SLACK), 1.0), ratio * (1 + 2 * SLACK))


def sampled_laws(attributes: Mapping[_M, int], sampled: int) -> ShuffleLaws:
    """How the shuffle accountant sees users who report some attributes each.

    Args:
        attributes: what randomises an attribute -> how many attributes it randomises.
        sampled: k, how many attributes a user reports, uniformly without replacement.

    Returns:
        From above the better of `bounded_law` (over the attributes that may be chosen) and of the
        clones. From below, if one attribute is reported: rows whose attributes all hold the value
        that shows most, among others whose attributes all hold the one that hides least. A batch
        of single messages shows no more than one of whole reports, which is accounted for here.

    Raises:
        ValueError: no finite epsilon bounds a report.
    """
    laws = {mechanism: laws_of(mechanism) for mechanism in attributes}
    epsilon = _together(laws, attributes, sampled)
    if not epsilon <= _LARGEST_EPSILON:
        raise ValueError("no epsilon up to 700 bounds one report: a shuffled batch has no bound")
    if sampled > 1:
        return ShuffleLaws((_whole_law(laws, attributes, sampled, epsilon),), (), epsilon)
    total = sum(attributes.values())
    shares = [times / total for times in attributes.values()]
    dominating = mixed_law([_narrower(x) for x in laws.values()], shares)
    attained: tuple[PairLaw, ...] = ()
    if all(x.attained for x in laws.values()):
        attained = (mixed_law([x.attained[0] for x in laws.values()], shares),)
    if len(laws) == 1:
        attained = next(iter(laws.values())).attained
    return ShuffleLaws((dominating,), attained, epsilon)


def _together(laws: Mapping[_M, ShuffleLaws], attributes: Mapping[_M, int], sampled: int) -> float:
    """The exact loss of the `sampled` attributes that lose most: claims may leave out a delta."""
    total, left = 0.0, sampled
    for mechanism in sorted(attributes, key=lambda x: laws[x].epsilon, reverse=True):
        taken = min(left, attributes[mechanism])
        total, left = total + taken * laws[mechanism].epsilon, left - taken
    # A sum may have been rounded down; a single loss is as exact as it came.
    return total if sampled == 1 else total * (1 + SLACK)


def _narrower(laws: ShuffleLaws) -> PairLaw:
    """The better of two laws that dominate all pairs of one randomiser."""
    bounded, cloned = bounded_law(common_blanket(laws)), clone_laws(laws.epsilon).dominating[0]
    return min(bounded, cloned, key=PairLaw.spread)


def _whole_law(
    laws: Mapping[_M, ShuffleLaws], attributes: Mapping[_M, int], sampled: int, epsilon: float
) -> PairLaw:
    """The law of a report of several attributes, whose blanket is the product of theirs."""
    cloned = clone_laws(epsilon).dominating[0]
    # Entry i: blankets of i attributes out of those treated so far -> how many sets have them.
    sums: list[Counter[Blanket]] = [Counter({Blanket(1.0, 1.0): 1})]
    sums += [Counter() for _ in range(sampled)]
    for mechanism, times in attributes.items():
        one, before = common_blanket(laws[mechanism]), sums
        sums = [Counter() for _ in range(sampled + 1)]
        for size, entry in enumerate(before):
            for added in range(min(times, sampled - size) + 1):
                grown = math.prod([one.ratio] * added)  # infinite where a power would raise
                for (mass, ratio), ways in entry.items():
                    joined = Blanket(mass * one.mass**added, ratio * grown)
                    sums[size + added][joined] += ways * math.comb(times, added)
        if not sum(map(len, sums)) <= _MOST_BLANKETS:
            return cloned
    sets = sum(sums[sampled].values())
    try:
        parts = [bounded_law(blanket) for blanket in sums[sampled]]
    except ValueError:  # a mass lost to underflow, a ratio to infinity
        return cloned
    product = mixed_law(parts, [ways / sets for ways in sums[sampled].values()])
    return min(product, cloned, key=PairLaw.spread)
