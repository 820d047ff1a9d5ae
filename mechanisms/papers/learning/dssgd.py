"""Distributed selective SGD: participants train on their own data and share some of what changed.

Nobody's rows leave their owner. A parameter server adds up the changes that participants choose to
upload and hands out the parameters that were updated last. Here the whole of it runs in one
process, with the server's semantics, so that collaboration can be compared with training alone.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import Floats, require_integer
from mechanisms.papers.learning.exchange import ParameterServer, portion, require_turns, turns
from mechanisms.papers.learning.selection import Selection
from mechanisms.randomness import RandomSource


class Model(Protocol):
    """What training asks of a model; every `Objective` offers it."""

    @property
    def parameters(self) -> int:
        """p, how many weights there are."""

    def start(self, rng: RandomSource) -> Floats:
        """(p,) weights to begin with."""

    def mean_gradient(
        self, weights: Floats, rows: NDArray[np.floating[Any]], targets: NDArray[Any]
    ) -> Floats:
        """(p,) the mean gradient of the losses of some rows."""

    def penalty_gradient(self, weights: Floats) -> Floats:
        """(p,) the gradient of what is no row's loss."""


class ParticipantData(NamedTuple):
    """One participant's data.

    Attributes:
        rows: (n, inputs) floats.
        targets: (n,).
    """

    rows: NDArray[np.floating[Any]]
    targets: NDArray[Any]


class Curves(NamedTuple):
    """How well everyone did.

    Attributes:
        participants: (participants, epochs) the score of a participant's own parameters after
            each of its epochs of training.
        server: (epochs,) that of the server's, each time when as many uploads came in as there
            are participants.
        weights: (p,) the server's parameters in the end.
    """

    participants: Floats
    server: Floats
    weights: Floats


@dataclass(frozen=True)
class LocalTraining:
    """One epoch of plain stochastic gradient descent over one participant's rows.

    Attributes:
        model: what is trained.
        rate: alpha, the step size.
        batch: rows in a mini-batch; the last one of an epoch may have fewer.
    """

    model: Model
    rate: float = 0.1
    batch: int = 32

    def __post_init__(self) -> None:
        require_integer("batch", self.batch)
        if not 0 < self.rate < math.inf:
            raise ValueError(f"rate must be positive and finite, not {self.rate}")
        if not self.batch >= 1:
            raise ValueError(f"batch must be at least 1, not {self.batch}")

    def epoch(self, weights: Floats, share: ParticipantData, rng: RandomSource) -> Floats:
        """Weights after every row was seen once, in a random order.

        Args:
            weights: (p,) to begin with; left as they are.
            share: of the participant.
            rng: the generator of this process.

        Returns:
            (p,) new weights.

        Raises:
            ArithmeticError: the weights grew beyond all bounds.
        """
        # Without replacement, so that every row counts once an epoch.
        order = rng.permutation(len(share.rows)).astype(np.intp)
        with np.errstate(over="ignore", invalid="ignore"):  # asked about below, once
            for start in range(0, order.size, self.batch):
                lot = order[start : start + self.batch]
                slope = self.model.mean_gradient(weights, share.rows[lot], share.targets[lot])
                weights = weights - self.rate * (slope + self.model.penalty_gradient(weights))
        if not np.isfinite(weights).all():
            raise ArithmeticError(
                f"training diverged at the step size {self.rate}: lower it, or the bound of "
                "what is uploaded"
            )
        return weights


@dataclass(frozen=True)
class SelectiveSGD:
    """Training by many participants, each of which shares a part of its changes.

    A participant replaces theta_d of its parameters by the server's, of those that were updated
    since it came last, trains for one epoch on its own rows, and uploads the changes that
    `selection` picks. It keeps its own parameters, changed everywhere, until it fetches again. The
    server's parameters depend on a participant's rows through its uploads alone, so what
    `selection.guarantee` says of one upload adds up over its epochs, and holds against the server
    and all others together; the rows of others cost it nothing. That training diverged would tell
    of rows beside the uploads: where these are private, a participant whose weights leave all
    bounds says nothing of it, goes on from what it held, and uploads the noise of no change.

    Attributes:
        local: how each of them trains.
        selection: what each of them uploads, with its guarantee.
        protocol: "round-robin", "random-order", "asynchronous", or "alone" where nothing is
            exchanged.
        epochs: of each participant.
        download_share: theta_d, in (0, 1]: what part of the parameters it fetches.
        decay: of the server's counters of updates.
        at_once: of asynchronous participants, how many are learning at any moment. The more, the
            staler is what their changes are added to, and the smaller must be what they upload.

    Source: Shokri, Shmatikov, "Privacy-preserving deep learning", CCS 2015, section 5 (the
        protocol; from memory). The guarantee is that of a run, where the paper reports that of a
        parameter in an epoch. What nobody updated is not fetched, so that sharing little loses
        nothing of what a participant has learnt for itself.

    >>> from mechanisms.learning.objectives import SquaredError
    >>> from mechanisms.papers.learning.selection import LargestValues
    >>> from mechanisms.randomness import SeededRandom
    >>> rows = np.array([[1.0, 1.0], [-1.0, 1.0]])
    >>> shares = [ParticipantData(rows, np.array([3.0, 1.0]))] * 2
    >>> training = SelectiveSGD(LocalTraining(SquaredError(2), batch=2), LargestValues(1.0))
    >>> training.run(shares, SeededRandom(1)).weights.round(2).tolist()
    [0.99, 1.98]
    """

    local: LocalTraining
    selection: Selection
    protocol: str = "round-robin"
    epochs: int = 10
    download_share: float = 1.0
    decay: float = 0.99
    at_once: int = 4

    def __post_init__(self) -> None:
        require_turns(self.protocol, 1, self.epochs, self.at_once)
        portion(self.download_share, 1)

    def run(
        self,
        shares: Sequence[ParticipantData],
        rng: RandomSource,
        score: Callable[[Floats], float] = lambda weights: math.nan,
    ) -> Curves:
        """Train, and say how well everyone does.

        Args:
            shares: of each participant, at least one row each.
            rng: the generator of this process.
            score: of (p,) weights, such as the accuracy on a public test set.

        Raises:
            ValueError: there is no participant, or one has no rows.
            ArithmeticError: training diverged, and uploads without a guarantee have no secret to
                keep.
        """
        empty = sum(not len(share.rows) for share in shares)
        if not shares or empty:
            raise ValueError(f"{empty} of {len(shares)} participants have no rows")
        return _TrainingRun(self, shares, rng, score).curves()


class _TrainingRun:
    """One run: the server, what the participants hold, and the scores so far."""

    def __init__(
        self,
        training: SelectiveSGD,
        shares: Sequence[ParticipantData],
        rng: RandomSource,
        score: Callable[[Floats], float],
    ) -> None:
        self.training, self.shares, self.rng, self.score = training, shares, rng, score
        # A common start: parameters from different ones do not add up to a model.
        start = training.local.model.start(rng)
        self.server = ParameterServer(start, training.decay)
        self.silent = training.selection.guarantee(start.size).model != "none"
        self.weights = [start.copy() for _ in shares]
        self.seen = [0 for _ in shares]
        self.changes: list[Floats | None] = [None for _ in shares]
        self.scores: list[list[float]] = [[] for _ in shares]
        self.served: list[float] = []
        self.uploads = 0

    def curves(self) -> Curves:
        """Let everyone take their turns."""
        training, participants = self.training, len(self.shares)
        order = turns(training.protocol, participants, training.epochs, self.rng, training.at_once)
        for turn in order:
            (self._bring if turn.uploads else self._fetch_and_learn)(turn.participant)
        return Curves(np.array(self.scores), np.array(self.served), self.server.weights)

    def _fetch_and_learn(self, who: int) -> None:
        """Download, and train for an epoch; the change waits until the participant's next turn."""
        training, weights = self.training, self.weights[who]
        if training.protocol != "alone":
            places = self.server.most_updated(training.download_share, self.rng, self.seen[who])
            self.seen[who] = self.server.uploads
            weights[places] = self.server.weights[places]
        self.weights[who] = self._learned(weights, who)
        with np.errstate(over="ignore"):  # of a change beyond all doubles the bound is uploaded
            self.changes[who] = self.weights[who] - weights
        self.scores[who].append(self.score(self.weights[who]))

    def _learned(self, weights: Floats, who: int) -> Floats:
        """A participant's parameters after an epoch; those before it, if nobody may know why."""
        try:
            return self.training.local.epoch(weights, self.shares[who], self.rng)
        except ArithmeticError:
            if not self.silent:
                raise
            return weights

    def _bring(self, who: int) -> None:
        """Upload a selection of the change."""
        change, self.changes[who] = self.changes[who], None
        if change is not None and self.training.protocol != "alone":
            # All that the others ever see of this participant's rows.
            self.server.upload(*self.training.selection.choose(change, self.rng))
        self.uploads += 1
        if self.uploads % len(self.shares) == 0:
            self.served.append(self.score(self.server.weights))
