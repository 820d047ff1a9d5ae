"""Reports of a few attributes, each of a mechanism of its own: which there are, and their law.

The mean of a number, or the frequencies of a category, from those users who reported it.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from itertools import combinations, product
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Counts, Floats, Kinds, Mechanism, Report
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.mean.scalar import ScalarMean
from mechanisms.mean.with_unusable import WithUnusable
from mechanisms.privacy.coordinate_laws import sampled_laws
from mechanisms.privacy.pair_law import ShuffleLaws
from mechanisms.randomness import RandomSource
from mechanisms.vector.coordinates import together
from mechanisms.vector.quotients import Quotients
from mechanisms.vector.rows import ACCOUNTING, chosen, require_listed

Attribute = ScalarMean | WithUnusable | FrequencyOracle


class AttributeEstimate(NamedTuple):
    """What a batch says of one attribute.

    Attributes:
        reports: how many users reported it.
        estimate: () the mean of a number in [-1, 1], or (domain_size,) frequencies: unbiased,
            never clipped; NaN where nobody reported it.
        variance: of the same shape, judged by the reports: their randomness and the choice of who
            reports; NaN where fewer than two did.
    """

    reports: int
    estimate: Floats
    variance: Floats


def attribute_estimate(mechanism: Attribute, counts: Counts, users: float) -> AttributeEstimate:
    """What the users who reported one attribute say of everybody.

    Args:
        mechanism: what randomised it.
        counts: (codes,) of its own codes.
        users: how many there are, of whom those who reported it are a uniform sample.

    Returns:
        The estimate, unbiased whoever reported. The variance of a number is that of reports of
        users drawn with replacement, which is too large if anything.
    """
    n = int(np.sum(counts))
    if isinstance(mechanism, WithUnusable):
        own = Quotients.of([mechanism], [counts])
        return AttributeEstimate(n, own.means[0], own.variances[0])
    shape = () if isinstance(mechanism, ScalarMean) else (mechanism.domain_size,)
    unknown = np.full(shape, np.nan)
    if n == 0:
        return AttributeEstimate(0, unknown, unknown)
    mean = mechanism.estimate(counts)
    if n == 1:
        return AttributeEstimate(1, mean, unknown)
    if isinstance(mechanism, ScalarMean):
        spread = float(counts @ mechanism.decoded**2) / n - float(mean) ** 2
        return AttributeEstimate(n, mean, np.asarray(max(spread, 0.0) / (n - 1)))
    likely = np.clip(mean, 0, 1)
    # Those who reported are a sample of the users without replacement: were it all of them, the
    # choice would add nothing.
    choice = max(1 - n / users, 0.0) * likely * (1 - likely) / n
    return AttributeEstimate(n, mean, mechanism.variance(likely, n) + choice)


class AttributeReports(Mechanism):
    """k of the attributes of a row, each reported by one message: offset of the attribute + code.

    A row of cells is read as the digits of the input number, the first attribute's the lowest.

    Attributes:
        epsilon: privacy loss of all messages of a user together, in nats.
        sampled: k, how many attributes a user reports, uniformly without replacement.
        attributes: what randomises each of them.
    """

    epsilon: float
    sampled: int
    attributes: tuple[Any, ...]

    accounting: ClassVar[str] = ACCOUNTING

    @cached_property
    def distinct(self) -> Mapping[Any, int]:
        """The different mechanisms, and how many attributes each of them serves."""
        return Counter(self.attributes)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """(attributes,) the first code of each attribute."""
        return np.cumsum([0] + [x.codes for x in self.attributes])[:-1]

    @cached_property
    def _kind_of(self) -> NDArray[np.int64]:
        """(attributes,) which of the different mechanisms serves an attribute."""
        places = {mechanism: kind for kind, mechanism in enumerate(self.distinct)}
        return np.array([places[x] for x in self.attributes])

    @property
    def codes(self) -> int:
        return sum(x.codes for x in self.attributes)

    @property
    def inputs(self) -> int:
        return math.prod(x.inputs for x in self.attributes)

    @property
    def messages(self) -> float:
        return float(self.sampled)

    # ---- the exact law of a report -----------------------------------------------------------

    def row(self, number: int) -> list[int]:
        """(attributes,) the cells of an input number."""
        if not 0 <= number < self.inputs:
            raise ValueError("1 of 1 cells lie outside the inputs")
        digits = []
        for mechanism in self.attributes:
            number, digit = divmod(number, mechanism.inputs)
            digits.append(digit)
        return digits

    def number(self, row: Sequence[int]) -> int:
        """The input number of a row of cells."""
        number = 0
        for mechanism, cell in zip(reversed(self.attributes), reversed(row), strict=True):
            number = number * mechanism.inputs + cell
        return number

    def _subsets(self) -> Iterator[tuple[int, ...]]:
        """What a user may report, in the order of `weights`."""
        return combinations(range(len(self.attributes)), self.sampled)

    def _sizes(self) -> list[int]:
        """How many reports there are of each set of attributes."""
        return [math.prod(self.attributes[j].codes for j in subset) for subset in self._subsets()]

    @property
    def outcomes(self) -> int:
        # Entry i: reports of i of the attributes so far.
        ways = [1] + [0] * self.sampled
        for mechanism in self.attributes:
            # Downwards, so that an attribute is counted once in a report.
            for size in range(self.sampled, 0, -1):
                ways[size] += ways[size - 1] * mechanism.codes
        return ways[self.sampled]

    @property
    def reports(self) -> Sequence[Report]:
        """Ordered by their attributes, then by their codes."""
        parts = zip(self.offsets.tolist(), self.attributes, strict=True)
        of = [range(first, first + mechanism.codes) for first, mechanism in parts]
        return [report for chosen in combinations(of, self.sampled) for report in product(*chosen)]

    def weights(self, cell: int) -> tuple[NDArray[Any], int]:
        require_listed(self.outcomes)
        laws = [x.weights(c) for x, c in zip(self.attributes, self.row(cell), strict=True)]
        total = math.lcm(*(denominator for _, denominator in laws))
        # Over one denominator; products of several 64-bit weights are Python's integers.
        scaled = [weights.astype(object) * (total // denominator) for weights, denominator in laws]
        parts = [reduce(together, (scaled[j] for j in subset)) for subset in self._subsets()]
        return np.concatenate(parts), len(parts) * total**self.sampled

    def channel(self, cell: int) -> Floats:
        numerators, denominator = self.weights(cell)
        return np.asarray(numerators / denominator, np.float64)

    def tally(self, cell: int, size: int, rng: RandomSource) -> Counts:
        words = self.perturb(np.tile(self.row(cell), (size, 1)), rng).astype(np.int64)
        which = np.searchsorted(self.offsets, words, side="right") - 1
        codes = (words - self.offsets[which]).reshape(size, -1)
        which = which.reshape(size, -1)
        radix = np.array([x.codes for x in self.attributes])
        index = np.zeros(size, np.int64)
        for column in range(self.sampled):
            # A report's number among those of its attributes, the last attribute varying first, as
            # in `weights`.
            index = index * radix[which[:, column]] + codes[:, column]
        starts = np.cumsum([0, *self._sizes()])
        places = dict(zip(self._subsets(), starts.tolist(), strict=False))
        index += np.array([places[tuple(row)] for row in which.tolist()], np.int64)
        return np.bincount(index, minlength=self.outcomes)

    def kinds(self, one: int, other: int) -> tuple[Kinds, tuple[int, int]]:
        """In closed form: attributes of one mechanism that hold the same two cells go together."""
        pairs = Counter(zip(self.attributes, self.row(one), self.row(other), strict=True))
        laws = [(mechanism.kinds(a, b), times) for (mechanism, a, b), times in pairs.items()]
        first, second = (math.lcm(*(totals[i] for (_, totals), _ in laws)) for i in (0, 1))
        # Entry i: the reports of i attributes among those treated so far.
        sums: list[Mapping[tuple[int, int], int]] = [{(1, 1): 1}]
        for (kinds, totals), times in laws:
            up, down = first // totals[0], second // totals[1]
            scaled: Counter[tuple[int, int]] = Counter()
            for (a, b), count in kinds.items():
                scaled[a * up, b * down] += count
            sums = chosen(sums, scaled, times, self.sampled)
        subsets = math.comb(len(self.attributes), self.sampled)
        return sums[self.sampled], (subsets * first**self.sampled, subsets * second**self.sampled)

    def pairs(self) -> Iterable[tuple[int, int]]:
        """Each mechanism's own, in all its attributes at once.

        An attribute that two rows share tells nothing of them, and hockey-stick divergences are
        averages over the attributes that are chosen.
        """
        for pairs in product(*(list(x.pairs()) for x in self.distinct)):
            ends = zip(*(pairs[kind] for kind in self._kind_of), strict=True)
            one, other = (self.number(row) for row in ends)
            yield one, other

    def shuffle_laws(self) -> ShuffleLaws:
        """What a shuffled batch reveals, however many attributes: for the shuffle accountant."""
        return sampled_laws(self.distinct, self.sampled)
