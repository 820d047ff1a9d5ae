"""The parameter server of distributed training, and the orders in which participants come to it."""

from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats, require_integer
from mechanisms.randomness import RandomSource

Protocol = Literal["round-robin", "random-order", "asynchronous", "alone"]
PROTOCOLS: tuple[str, ...] = get_args(Protocol)


class Turn(NamedTuple):
    """One participant at the server.

    Attributes:
        participant: 0 .. participants - 1.
        uploads: whether it brings what it has learnt, or fetches parameters and learns.
    """

    participant: int
    uploads: bool


class ParameterServer:
    """Parameters that participants read and add to; it holds no data and trusts nobody's.

    Attributes:
        weights: (p,) the parameters.
        uploads: how many there were.

    Source: Shokri, Shmatikov, "Privacy-preserving deep learning", CCS 2015, section 5: uploads are
        added up, and a counter of each parameter, which decays, says how recently it was updated.

    >>> server = ParameterServer(np.zeros(3))
    >>> server.upload(np.array([1]), np.array([0.5]))
    >>> from mechanisms.randomness import SeededRandom
    >>> server.most_updated(1.0, SeededRandom(1)).tolist(), server.weights.tolist()
    ([1], [0.0, 0.5, 0.0])
    """

    def __init__(self, weights: Floats, decay: float = 0.99) -> None:
        """A server that begins with some weights.

        Args:
            weights: (p,) chosen without looking at anyone's data.
            decay: in (0, 1], what an upload leaves of the counters of all parameters.
        """
        if not 0 < decay <= 1:
            raise ValueError(f"decay must lie in (0, 1], not {decay}")
        self.weights = weights.copy()
        self.uploads = 0
        self._latest = np.zeros(weights.shape, np.int64)
        self._counters = np.zeros(weights.shape)
        self._unit, self._decay = 1.0, decay

    def upload(self, places: NDArray[np.intp], values: Floats) -> None:
        """Add (m,) values to the parameters at (m,) distinct places."""
        self.weights[places] += values
        self.uploads += 1
        self._latest[places] = self.uploads
        # Letting the newest count for more, instead of all the others for less, touches m cells.
        self._unit /= self._decay
        self._counters[places] += self._unit
        # Long before a double overflows, all counters are brought down together; their order stays.
        if self._unit > 1e100:
            self._counters /= self._unit
            self._unit = 1.0

    def most_updated(self, share: float, rng: RandomSource, since: int = 0) -> NDArray[np.intp]:
        """The places of the parameters with the most recent updates, ties broken at random.

        What nobody has changed is not handed out: a participant that knows it already has made
        more of it.

        Args:
            share: theta_d, in (0, 1]: what part of the parameters at most.
            rng: the generator of this process.
            since: how many uploads there were when the participant came last; only what was
                changed after these counts.

        Returns:
            (m,) distinct places, m <= max(1, round(share p)).
        """
        size = portion(share, self.weights.size)
        changed = np.flatnonzero(self._latest > since)
        if changed.size <= size:
            return changed
        # `argpartition` breaks ties by position, which would favour the first parameters.
        order = changed[rng.permutation(changed.size).astype(np.intp)]
        return order[np.argpartition(-self._counters[order], size - 1)[:size]]


def portion(share: float, dimension: int) -> int:
    """How many of so many parameters a share in (0, 1] stands for: at least one."""
    if not 0 < share <= 1:
        raise ValueError(f"a share of the parameters must lie in (0, 1], not {share}")
    return max(1, round(share * dimension))


def require_turns(protocol: str, participants: int, epochs: int, at_once: int) -> None:
    """Refuse a protocol that is unknown, and numbers that are not positive integers."""
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol must be one of {', '.join(PROTOCOLS)}, not {protocol!r}")
    numbers = {"participants": participants, "epochs": epochs, "at_once": at_once}
    for name, number in numbers.items():
        require_integer(name, number, 1)


def turns(
    protocol: str, participants: int, epochs: int, rng: RandomSource, at_once: int = 1
) -> Iterator[Turn]:
    """Who comes to the server when, in a whole run.

    Each participant fetches, learns and brings, `epochs` times. In a round it does so while the
    others wait: in a fixed order (round-robin, and alone, where nothing is exchanged) or in
    a new one each epoch (random-order). Asynchronous participants wait for nobody: several learn
    at the same time, so that what one brings was learnt from parameters which others have changed
    since, and some are epochs ahead of others.

    Args:
        protocol: one of `PROTOCOLS`.
        participants: how many, at least 1.
        epochs: of each, at least 1.
        rng: the generator of this process.
        at_once: of asynchronous participants, how many are learning at any moment.

    Raises:
        ValueError: the protocol is unknown, or a number is not a positive integer.

    Source: Shokri, Shmatikov 2015, section 5 (round robin, random order, asynchronous).

    >>> from mechanisms.randomness import SeededRandom
    >>> [turn.participant for turn in turns("round-robin", 2, 2, SeededRandom(1))]
    [0, 0, 1, 1, 0, 0, 1, 1]
    """
    require_turns(protocol, participants, epochs, at_once)
    if protocol == "asynchronous":
        return _overlapping(participants, epochs, at_once, rng)
    return _in_rounds(protocol == "random-order", participants, epochs, rng)


def _in_rounds(shuffled: bool, participants: int, epochs: int, rng: RandomSource) -> Iterator[Turn]:
    """Each participant's two turns of an epoch together."""
    for _ in range(epochs):
        order = rng.permutation(participants) if shuffled else np.arange(participants)
        for participant in order.tolist():
            yield Turn(participant, uploads=False)
            yield Turn(participant, uploads=True)


def _overlapping(participants: int, epochs: int, at_once: int, rng: RandomSource) -> Iterator[Turn]:
    """As many learning as may be; who begins and who is done next is chance."""
    left = [epochs] * participants
    idle, learning = list(range(participants)), list[int]()
    while idle or learning:
        if idle and len(learning) < at_once:
            learning.append(_drawn(idle, rng))
            yield Turn(learning[-1], uploads=False)
            continue
        done = _drawn(learning, rng)
        yield Turn(done, uploads=True)
        left[done] -= 1
        if left[done]:
            idle.append(done)


def _drawn(waiting: list[int], rng: RandomSource) -> int:
    """One of those who wait, taken out."""
    return waiting.pop(int(rng.integers(len(waiting), 1)[0]))
