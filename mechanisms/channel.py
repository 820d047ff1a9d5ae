"""The contract that every mechanism meets, and what a privacy claim consists of.

A mechanism is a finite channel: it maps an input *cell* (an integer) to a *code* (an integer)
with probabilities that are exact rationals. Privacy is then checked by enumeration, collector
states are integer counts that merge by addition, and a report is one 64-bit word.
"""

import math
import operator
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import permutations
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms import honesty
from mechanisms.randomness import RandomSource
from mechanisms.specification import Channel

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Messages = NDArray[np.uint64]
Model = Literal["local", "shuffle", "central", "none"]
Neighbours = Literal["add or remove", "replace"]
AnyNeighbours = Neighbours | Literal["zero-out"]
Report = tuple[int, ...]  # the codes of one user's messages
Kinds = Mapping[tuple[int, int], int]

_BLOCK = 1 << 20  # codes grouped at a time
_LARGEST = 700.0  # e^epsilon beyond it leaves the range of doubles


@dataclass(frozen=True)
class Guarantee:
    """What holds, for whom, and how that is known.

    Attributes:
        model: "local" (against everyone who sees one report), "shuffle" (against who sees the
            shuffled batch), "central" (against who sees the release) or "none".
        epsilon: the privacy loss, in nats.
        delta: the probability mass outside it.
        unit: whose contribution may change between neighbouring inputs.
        how: the derivation, for a reader who wants to check it.
        neighbours: which two inputs look alike: "replace", a unit's value becomes any other; "add
            or remove", all that a unit contributes is there or not; "zero-out", of training, a unit
            counts for nothing, and numbers of units stay as they are.
        condition: of which units it holds, where not of all ("who is in at most 2 of 30 windows").

    >>> Guarantee("local", epsilon=1.0, delta=0.0, unit="report", how="enumeration").epsilon
    1.0
    """

    model: Model
    epsilon: float
    delta: float
    unit: str
    how: str
    neighbours: AnyNeighbours = "replace"
    condition: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon <= math.inf:
            raise ValueError(f"epsilon must be at least 0, not {self.epsilon}")
        if not 0 <= self.delta <= 1:
            raise ValueError(f"delta must lie in [0, 1], not {self.delta}")

    @property
    def whose(self) -> str:
        """The unit with its condition: how it is called wherever people or programs are told."""
        return f"{self.unit} {self.condition}".rstrip()

    @property
    def replaced(self) -> "Guarantee":
        """What holds where a unit's contribution becomes another: it goes, and another comes."""
        if self.neighbours == "replace" or self.model == "none":
            return self
        delta = min(1.0, (1 + math.exp(min(self.epsilon, _LARGEST))) * self.delta)
        return replace(self, epsilon=2 * self.epsilon, delta=delta, neighbours="replace")

    @classmethod
    def none(cls, reason: str) -> "Guarantee":
        """The claim of a mechanism that protects nobody, with the reason."""
        return cls("none", math.inf, 1.0, "nobody", reason)

    @classmethod
    def of_report(cls, epsilon: float, delta: float, how: str) -> "Guarantee":
        """What one report reveals, to whoever sees it."""
        return cls("local", epsilon, delta, "report", how)

    def as_dict(self) -> dict[str, Any]:
        """The fields, for a statement; an unbounded epsilon becomes None, which JSON can hold."""
        epsilon = self.epsilon if self.epsilon < math.inf else None
        record = asdict(self) | {"epsilon": epsilon, "unit": self.whose}
        del record["condition"]
        return record


def conditions(parts: Iterable[Guarantee]) -> str:
    """Of which units several guarantees hold together: of those that meet all conditions.

    >>> half = Guarantee("central", 1.0, 0.0, "user", "told", condition="who is in May")
    >>> conditions([half, half, Guarantee("central", 1.0, 0.0, "user", "told")])
    'who is in May'
    """
    return " and ".join(dict.fromkeys(part.condition for part in parts if part.condition))


def together(parts: Iterable[Guarantee]) -> Guarantee:
    """What holds for a unit that is in every release: losses add up."""
    parts = tuple(parts)
    if len(parts) == 1:
        return parts[0]
    if len({part.neighbours for part in parts}) > 1:
        parts = tuple(part.replaced for part in parts)
    order: tuple[Model, ...] = ("local", "shuffle", "central", "none")
    return Guarantee(
        max((part.model for part in parts), key=order.index),
        math.fsum(part.epsilon for part in parts),
        min(1.0, math.fsum(part.delta for part in parts)),
        parts[0].unit,
        f"basic composition of {len(parts)} metrics, each as its own statement says",
        parts[0].neighbours,
        conditions(parts),
    )


def require_epsilon(epsilon: float) -> None:
    """Refuse an epsilon that is not a positive, finite number (NaN included)."""
    try:
        meant = 0 < epsilon < math.inf
    except TypeError:
        meant = False
    if not meant:
        raise ValueError(f"epsilon must be a positive, finite number, not {epsilon!r}")


def require_integer(
    name: str, value: int, least: float = -math.inf, most: float = math.inf
) -> None:
    """Refuse a size that is not an integer, such as 10.5 or 10.0, or lies out of range."""
    try:
        operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be an integer, not {value!r}") from None
    if not least <= value <= most:
        limits = f"lie in {least} .. {most}" if most < math.inf else f"be at least {least}"
        raise ValueError(f"{name} must {limits}, not {value}")


class AsFields:
    """A frozen dataclass that travels as its fields: what follows from them is worked out again.

    A law's weights are megabytes, and each step of a job would carry them.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


class Mechanism(AsFields, ABC):
    """One finite channel with its client (`perturb`) and its collector (`count`, `estimate`).

    Subclasses are frozen dataclasses whose fields are what the user chose. Derived constants are
    cached properties; they stay out of pickles, so a mechanism travels as a few numbers.
    """

    accounting: ClassVar[str] = (
        "numerical accountant: the privacy blanket (Balle, Bell, Gascon, Nissim 2019, Lemma 5.3) "
        "of the exact channel, tails added"
    )

    derivation: ClassVar[str]  # of the guarantee, if it is of a report at the fields' values
    several: ClassVar[bool] = False  # whether users may send none, or more than one message
    public_seed: ClassVar[bool] = False  # whether it rests on randomness that all parties share

    @property
    @abstractmethod
    def inputs(self) -> int:
        """How many input cells there are: 0 .. inputs - 1."""

    @property
    @abstractmethod
    def codes(self) -> int:
        """How many codes a message can take: 0 .. codes - 1."""

    @property
    def guarantee(self) -> Guarantee:
        """What the mechanism is made for: one report's loss, or that of a shuffled batch."""
        own: Any = self
        return Guarantee.of_report(own.epsilon, getattr(self, "delta", 0.0), self.derivation)

    @property
    def claimed(self) -> Guarantee:
        """What is said of it: the guarantee, unless its paper claims what does not hold."""
        return self.guarantee

    @property
    def local(self) -> Guarantee:
        """What one report reveals about its sender to whoever sees it before the shuffle."""
        return self.guarantee

    @property
    def messages(self) -> float:
        """How many messages a user sends on average."""
        return 1.0

    def counted_on(self, n: int, honest_share: float) -> int:
        """How many users a shuffled batch's accountant is asked about, of n who report.

        Args:
            n: how many users report.
            honest_share: of them, who follow the protocol at the least; in (0, 1].
        """
        return honesty.crowd(n, honest_share)

    def constants(self) -> dict[str, float]:
        """What the user chose and what follows from it, for a statement that can be checked."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def specification(self) -> Channel | None:
        """All that a client in another language needs to be this one; None if it is not written.

        `docs/appendix/wire.md` says how each is run.
        """
        return None

    @abstractmethod
    def perturb(self, cells: ArrayLike, rng: RandomSource) -> Messages:
        """The client: randomise each cell on its own.

        Args:
            cells: (n,) integers in 0 .. inputs - 1.
            rng: the generator of this process.

        Returns:
            (m,) uint64 messages in 0 .. codes - 1; m = n unless a user sends several.

        Raises:
            ValueError: a cell is not an integer in range. The message never holds the cell.
        """

    def remember(self, cells: ArrayLike, lasting: RandomSource, rng: RandomSource) -> Messages:
        """The client whose noise is permanent: `perturb` of one cell, or of equal ones.

        Args:
            cells: as `perturb`.
            lasting: one stream for all cells of a user, for what is drawn whatever the cell is.
            rng: one stream for each cell of a user.
        """
        return self.perturb(cells, rng)

    @abstractmethod
    def weights(self, cell: int) -> tuple[NDArray[Any], int]:
        """The exact distribution over reports, given a cell.

        A report is what one user sends: a code, or the codes of several messages together.

        Returns:
            ((reports,) integer numerators, their common denominator); the numerators add up to it.
        """

    @abstractmethod
    def estimate(self, counts: Counts, n: int | None = None) -> Floats:
        """The unbiased estimate: never clipped, never normalised.

        Args:
            counts: (codes,) integers, from `count`.
            n: the number of users; needed only where a user sends several messages.
        """

    @property
    def outcomes(self) -> int:
        """How many reports there are: as many as codes, where a report is one message."""
        return self.codes

    @property
    def reports(self) -> Sequence[Report]:
        """The messages of each report, in the order of `weights`: for tests and audits."""
        return [(code,) for code in range(self.codes)]

    def tally(self, cell: int, size: int, rng: RandomSource) -> Counts:
        """How often each report came, of many made of one input: for tests and attacks.

        Args:
            cell: 0 .. inputs - 1.
            size: how many reports.
            rng: draws them.

        Returns:
            (outcomes,) int64, in the order of `weights`.
        """
        # By way of the real client and the real collector, for that is what an attack is to test.
        return self.count(self.perturb(np.full(size, cell), rng))

    @property
    def trial_users(self) -> int:
        """Of how many users a release is drawn to try the guarantee: of one, where each has one."""
        return 1

    def released(self, cells: Sequence[int], times: int, rng: RandomSource) -> NDArray[Any]:
        """What is released of some users, drawn many times over: for tests and attacks.

        Args:
            cells: each user's input.
            times: how often.
            rng: draws it.

        Returns:
            (times, codes) int64 counters of the shuffled batch; of a single report its place in
            the order of `weights`, (times, 1).
        """
        users = Counter(cells)
        drawn = [
            self._outcomes(cell, times * k, rng).reshape(times, k) for cell, k in users.items()
        ]
        together = np.concatenate(drawn, axis=1)
        if together.shape[1] == 1:
            return together
        counters = np.zeros((len(self.reports), self.codes), np.int64)
        for place, report in enumerate(self.reports):
            np.add.at(counters[place], list(report), 1)
        whole: NDArray[Any] = sum(
            (counters[column] for column in together.T), np.zeros((times, self.codes), np.int64)
        )
        return whole

    def _outcomes(self, cell: int, size: int, rng: RandomSource) -> NDArray[np.int64]:
        """Reports of one input, each by its place in the order of `weights`."""
        tallied = np.repeat(np.arange(self.outcomes), self.tally(cell, size, rng))
        # A tally has lost their order, and any is as likely as any other.
        return tallied[rng.permutation(size).astype(np.int64)]

    def channel(self, cell: int) -> Floats:
        """P(report | cell), rounded to doubles. `weights` holds the exact rationals.

        Args:
            cell: 0 .. inputs - 1.

        Returns:
            (reports,) float64 that add up to 1.
        """
        numerators, denominator = self.weights(cell)
        return np.asarray(numerators / float(denominator), np.float64)

    def blanket(self) -> Floats:
        """(reports,) the least probability of each report over all inputs, as of `channel`."""
        return np.asarray(np.min([self.channel(cell) for cell in range(self.inputs)], axis=0))

    def kinds(self, one: int, other: int) -> tuple[Kinds, tuple[int, int]]:
        """Two inputs' exact laws, reports that are equally likely under either put together.

        Args:
            one: an input, 0 .. inputs - 1.
            other: another.

        Returns:
            ((weight given one, weight given other) -> how many reports have them; the two
            denominators). A mechanism with too many reports to list states them in closed form.
        """
        (a, denominator_a), (b, denominator_b) = self.weights(one), self.weights(other)
        return _grouped(a, b), (denominator_a, denominator_b)

    def pairs(self) -> Iterable[tuple[int, int]]:
        """Ordered pairs of inputs that stand for all pairs under the mechanism's symmetries.

        An audit that enumerates these has enumerated every pair. The default prunes nothing.
        """
        return permutations(range(self.inputs), 2)

    def valid(self, messages: Messages) -> NDArray[np.bool_]:
        """Which messages this mechanism could have sent; a collector drops and counts the rest."""
        possible: NDArray[np.bool_] = np.asarray(messages) < np.uint64(self.codes)
        return possible

    def count(self, messages: ArrayLike) -> Counts:
        """The collector's state: how often each code came. count(a + b) = count(a) + count(b).

        Args:
            messages: (n,) uint64 in 0 .. codes - 1.

        Returns:
            (codes,) int64.

        Raises:
            ValueError: a message is out of range.
        """
        codes = self._codes(messages)
        return np.bincount(codes, minlength=self.codes).astype(np.int64, copy=False)

    def _codes(self, messages: ArrayLike) -> NDArray[np.int64]:
        """Messages as integers, or a ValueError that tells how many are out of range."""
        words = np.ascontiguousarray(messages)
        if words.size and (words.dtype.kind not in "iu" or words.min() < 0):
            raise ValueError(f"messages must be unsigned integers, not {words.dtype} or negative")
        words = words.astype(np.uint64, copy=False)
        if words.size and words.max() >= self.codes:
            raise ValueError(
                f"{np.count_nonzero(~self.valid(words))} of {words.size} messages lie outside "
                f"0 .. {self.codes - 1}"
            )
        return words.view(np.int64)

    def _checked(self, cells: ArrayLike) -> NDArray[Any]:
        """The cells as an integer array, or a ValueError that tells how many are out of range."""
        array = np.asarray(cells)
        if array.dtype.kind not in "iu":
            if array.size:
                raise ValueError(f"cells must be integers, not {array.dtype}")
            array = array.astype(np.int64)
        if array.ndim != 1:
            raise ValueError(f"cells must be one-dimensional, not of shape {array.shape}")
        # How many and never which: this text may end up in a log.
        if array.size and not (0 <= array.min() and array.max() < self.inputs):
            outside = np.count_nonzero((array < 0) | (array >= self.inputs))
            raise ValueError(f"{outside} of {array.size} cells lie outside 0 .. {self.inputs - 1}")
        return array


def _grouped(first: NDArray[Any], second: NDArray[Any]) -> Kinds:
    """How many reports have each pair of weights."""
    kinds: Counter[tuple[int, int]] = Counter()
    for start in range(0, first.size, _BLOCK):
        a, at_a = np.unique(first[start : start + _BLOCK], return_inverse=True)
        b, at_b = np.unique(second[start : start + _BLOCK], return_inverse=True)
        keys, counts = np.unique(at_a * b.size + at_b, return_counts=True)
        for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
            kinds[int(a[key // b.size]), int(b[key % b.size])] += count
    return kinds


def checked_counts(counts: ArrayLike, codes: int) -> Counts:
    """(codes,) the counts as an array.

    Raises:
        ValueError: they are another mechanism's.
    """
    array = np.asarray(counts)
    if array.shape != (codes,):
        raise ValueError(f"counts must be of shape ({codes},), not {array.shape}")
    return array


def reporters(counts: Counts, n: int | None = None) -> int:
    """How many users an estimate is divided by: n, or as many as there are reports.

    Raises:
        ValueError: there are none.

    >>> reporters(np.array([3, 4]))
    7
    """
    n = int(np.sum(counts)) if n is None else n
    if not n > 0:
        raise ValueError("there is no report to estimate from")
    return n
