"""Permanent randomness: a user who repeats a value repeats the message, and pays once.

Fresh noise every day averages out: whoever links a user's reports learns the value after enough of
them. Here the noise is a keyed function of the user's secret, the plan, the metric, the mechanism
and the cell. The secret is a device's own 32 random bytes, never sent; nothing else has to be
remembered.

What this does NOT hide is a change. Whoever links a user's reports sees on which days the message
changed, whatever epsilon is. Nor need anybody link them by name: of two days' shuffled batches, in
which all others repeat their messages, the difference is what the one who changed has sent. So what
a shuffler adds in one window is not added up over several. Where even a change must not show, draw
fresh noise, or do not collect every day.

Sources: Erlingsson, Pihur, Korolova, "RAPPOR", CCS 2014, section 3.1 (the permanent randomised
response); Ding, Kulkarni, Yekhanin, "Collecting telemetry data privately", NeurIPS 2017, section 4
(memoised rounding: one permanent offset in place of a coin for each value).
"""

import hashlib
import hmac
import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.channel import Guarantee, Mechanism, Messages, require_integer
from mechanisms.mean.scalar import ScalarMean
from mechanisms.randomness import PermanentRandom, Words
from mechanisms.sampling.grid import Grid
from mechanisms.wire import fingerprint as plans
from mechanisms.wire.fingerprint import described
from mechanisms.wire.identity import require_sender

# Two uses of one secret must never meet in one stream. The number changes with whatever makes an
# old secret give other messages: then every user's value is randomised, and paid for, once more.
_MESSAGE, _OFFSET = b"hushbeam memoised message 2", b"hushbeam memoised offset 2"
_ROW, _COORDINATES = b"hushbeam memoised row 2", b"hushbeam memoised coordinates 2"


class _Offset(PermanentRandom):
    """Gives the first word of its stream over and over: one offset for all values of a user."""

    def __init__(self, key: bytes) -> None:
        super().__init__(key)
        low = super().words(1)[0] & np.uint64(0xFFFFFFFF)
        # Values read 32 bits each: both halves are the offset, wherever a value stands.
        self._word = low | low << np.uint64(32)

    def words(self, size: int) -> Words:
        return np.full(size, self._word)


@dataclass(frozen=True)
class MemoisedClient:
    """A user's reports of one metric of one plan, day after day.

    Attributes:
        secret: 32 random bytes of this user, from the operating system; not derived from a name.
        fingerprint: of the plan, 16 bytes; another plan has other noise and is paid for anew.
        metric: its place in the plan, 0 .. 65,535.
        mechanism: what randomises a cell; another one, or one of other constants, has other noise,
            under the same fingerprint too: two laws that shared their coins would not add up.

    >>> from mechanisms.catalog import build
    >>> client = MemoisedClient(bytes(32), bytes(16), 0, build("grr", epsilon=1.0, domain_size=9))
    >>> client.report([4]).tolist() == client.report([4]).tolist()
    True
    >>> client.guarantee(distinct=3).epsilon
    3.0
    """

    secret: bytes = field(repr=False)
    fingerprint: bytes
    metric: int
    mechanism: Mechanism

    def __post_init__(self) -> None:
        require_sender(self.secret, self.fingerprint, self.metric)

    def report(self, cells: ArrayLike) -> Messages:
        """The messages of some cells: equal cells get equal messages, today and next year.

        Work and memory grow with the distinct cells; repeats are copied.

        Args:
            cells: (n,) integers in 0 .. inputs - 1, or (n, dimension) rows of them for a vector.

        Returns:
            (m,) uint64 in the order of the cells; m = n unless a user sends several.

        Raises:
            ValueError: a cell is not an integer in range. The message never holds the cell.
        """
        array = np.asarray(cells)
        if not array.size:
            return np.empty(0, np.uint64)
        if array.dtype.kind not in "iu" or array.ndim not in (1, 2):
            raise ValueError(
                f"cells must be integers, one or a row of them for each value, not "
                f"{array.dtype} of shape {array.shape}"
            )
        # Equal cells have one key and so one message: it is drawn once and copied.
        distinct, places = np.unique(array, axis=0, return_inverse=True)
        memo = [self._messages(distinct[i : i + 1]) for i in range(len(distinct))]
        return _spread(memo, places.ravel())

    def encode(self, values: ArrayLike) -> NDArray[np.uint32]:
        """Round numbers to the grid by the user's permanent offset, without bias.

        The offset is uniform over users, so each value is rounded up with exactly the probability
        that `ScalarMean.encode` gives it; but a value that comes back goes the same way again, and
        values that stay within w cells' width touch at most ceil(w) + 1 cells.

        Args:
            values: (n,) numbers in [-1, 1].

        Returns:
            (n,) uint32 cells in 0 .. N, for `report`.

        Raises:
            ValueError: the mechanism is not for numbers, or a value is not one in [-1, 1].
        """
        if not isinstance(self.mechanism, ScalarMean | Grid):  # others take cells, or whole rows
            raise ValueError("only a mechanism for the mean of numbers rounds them to a grid")
        return self.mechanism.encode(values, _Offset(self._key(_OFFSET, b"")))

    def choose(self) -> NDArray[np.int64]:
        """(1, k) the coordinates that this user reports of every row, for ever.

        Uniform over users and independent of all values, so estimates stay unbiased; and a row
        that changes elsewhere changes nothing that is sent.
        """
        choice: Any = self.mechanism  # of sampled coordinates
        chosen: NDArray[np.int64] = choice.choose(1, PermanentRandom(self._key(_COORDINATES, b"")))
        return chosen

    def report_rows(self, *parts: NDArray[Any]) -> Messages:
        """The messages of whole rows: an equal row gets equal messages, today and next year.

        Args:
            parts: arrays with an entry for each row, as the mechanism's `report` takes them.
        """
        mechanism: Any = self.mechanism  # of rows
        sent = [np.empty(0, np.uint64)]
        for row in range(len(parts[0])):
            own = [np.ascontiguousarray(part[row : row + 1]) for part in parts]
            name = b"".join(part.tobytes() for part in own)
            sent.append(mechanism.report(*own, PermanentRandom(self._key(_ROW, name))))
        return np.concatenate(sent)

    def guarantee(self, distinct: int) -> Guarantee:
        """What holds over all time against whoever links all reports of the user.

        Args:
            distinct: k, the most distinct cells a user ever has in this metric and plan.

        Returns:
            See `over_time`.

        Raises:
            ValueError: k is not a positive integer.
        """
        unit = (
            f"user, over all time: histories of at most {distinct} distinct values that change at "
            "the same times"
        )
        return over_time(self.mechanism.local, distinct, unit)

    def _messages(self, cell: NDArray[Any]) -> Messages:
        """The messages of one cell, an array of length one."""
        name = np.ascontiguousarray(cell, "<i8").tobytes()
        lasting = PermanentRandom(self._key(_COORDINATES, b""))
        return self.mechanism.remember(cell, lasting, PermanentRandom(self._key(_MESSAGE, name)))

    @cached_property
    def _law(self) -> bytes:
        """The mechanism with all its constants, to the last bit: 16 bytes."""
        return law_of(self.mechanism)

    def _key(self, purpose: bytes, name: bytes) -> bytes:
        """The key of one stream; purposes differ in length and all else but the name is fixed."""
        # Every part but the last has a fixed length for its purpose, so no two contexts spell
        # alike.
        context = purpose + self.fingerprint + self.metric.to_bytes(2, "little") + self._law
        return hmac.digest(self.secret, context + name, hashlib.sha256)


def law_of(mechanism: Any) -> bytes:
    """What permanent noise of a mechanism is keyed by: all its constants, as 16 bytes."""
    return plans.fingerprint(described(mechanism))


def over_time(once: Guarantee, distinct: int, unit: str) -> Guarantee:
    """What permanent noise promises over all time against whoever links all reports of a user.

    Args:
        once: what one report promises.
        distinct: k, the most distinct values that a user ever reports.
        unit: in words.

    Returns:
        k times the epsilon and the delta of one report. It compares histories whose values are
        equal on the same days. No finite epsilon covers when the value changed: of k = 1, a value
        that never changes, there is nothing more to cover.

    Raises:
        ValueError: k is not a positive integer.
    """
    require_integer("distinct", distinct, 1)
    if once.model == "none":
        return once
    epsilon, delta = _multiple(distinct, once.epsilon), _multiple(distinct, once.delta)
    how = (
        f"each of {distinct} values is randomised once, by a keyed pseudorandom function; "
        f"basic composition of: {once.how}"
    )
    return Guarantee("local", epsilon, min(1.0, delta), unit, how)


def _multiple(times: int, loss: float) -> float:
    """A multiple of a loss, never rounded to less of it."""
    product = times * loss
    short = loss < math.inf and Fraction(product) < times * Fraction(loss)
    return math.nextafter(product, math.inf) if short else product


def _spread(memo: list[Messages], places: NDArray[np.intp]) -> Messages:
    """The memoised messages of each place, one after another; a memo may hold several."""
    sizes = np.array([messages.size for messages in memo])
    starts = np.cumsum(sizes) - sizes
    ends = np.cumsum(sizes[places])
    within = np.arange(ends[-1]) - np.repeat(ends - sizes[places], sizes[places])
    at: NDArray[np.intp] = np.repeat(starts[places], sizes[places]) + within
    messages: Messages = np.concatenate(memo)[at]
    return messages
