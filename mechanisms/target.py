"""What a release must satisfy, and what a histogram must: the questions that planners answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from mechanisms.channel import require_epsilon
from mechanisms.privacy.blanket import require_batch, require_delta

MODELS = ("local", "shuffle", "central")


class ReleaseTarget:
    """What any release must satisfy. Subclasses are frozen dataclasses that say what of.

    Attributes:
        models: those in which it can be had.
        model: one of them.
        epsilon: of the release, in nats; None in the shuffle model derives it from epsilon_local.
        delta: of the release.
        n: the least number of reports.
        epsilon_local: the most that one report may reveal, or None.
        unit: whose value is protected: "row" or "user".
    """

    models: ClassVar[tuple[str, ...]] = ("local", "shuffle")

    model: str
    epsilon: float | None
    delta: float
    n: int
    epsilon_local: float | None
    unit: str

    def __post_init__(self) -> None:
        if self.model not in self.models:
            raise ValueError(f"model must be one of {', '.join(self.models)}, not {self.model}")
        if self.epsilon is None and (self.epsilon_local is None or self.model == "central"):
            raise ValueError("epsilon is missing: name the privacy loss that you accept")
        for epsilon in (self.epsilon, self.epsilon_local):
            if epsilon is not None:
                require_epsilon(epsilon)
        require_batch(self.n)
        if self.model == "shuffle":
            require_delta(self.delta)
        else:
            self._require_delta_unshuffled()

    def _require_delta_unshuffled(self) -> None:
        """Refuse a delta that nothing makes use of."""
        if self.delta != 0:
            raise ValueError(f"delta must be 0 in the {self.model} model, not {self.delta}")

    @property
    def cap(self) -> float:
        """The most a client may spend."""
        return math.inf if self.epsilon_local is None else self.epsilon_local

    @property
    def spent(self) -> float:
        """What a report spends where nothing amplifies: the least of the epsilons named."""
        return min(e for e in (self.epsilon, self.epsilon_local) if e is not None)

    @property
    def promised(self) -> float:
        """The most that a batch loses which was solved for this target; infinite if none was."""
        return math.inf if self.epsilon is None else self.epsilon


@dataclass(frozen=True)
class Target(ReleaseTarget):
    """What a histogram must satisfy.

    Attributes:
        model: "local", "shuffle" or "central".
        epsilon: of the release, in nats; None in the shuffle model derives it from epsilon_local.
        delta: 0 outside of the shuffle model.
        n: the least number of reports.
        domain_size: how many values.
        epsilon_local: the most that one report may reveal, or None.
        unit: whose value is protected: "row" or "user".
        max_messages: how many messages a user may send on average, at least 1.
        honest_share: the share of users whose dummies the guarantee counts on, in (0, 1].
        seed: public randomness of a collection, for mechanisms that rest on it.
        bound: "exact", or "published" for the closed form of a system's own paper.

    Raises:
        ValueError: one of them is out of range.
    """

    model: str
    epsilon: float | None
    delta: float
    n: int
    domain_size: int
    epsilon_local: float | None = None
    unit: str = "row"
    max_messages: float = 1.0
    honest_share: float = 0.9
    bound: str = "exact"
    seed: int = 0

    models: ClassVar[tuple[str, ...]] = MODELS

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model == "central" and self.epsilon_local is not None:
            raise ValueError("epsilon_local means nothing in the central model: no report is noisy")
        if not self.max_messages >= 1:
            raise ValueError(f"max_messages must be at least 1, not {self.max_messages}")
        if not 0 < self.honest_share <= 1:
            raise ValueError(f"honest_share must lie in (0, 1], not {self.honest_share}")
        if self.bound not in ("exact", "published"):
            raise ValueError(f"bound must be exact or published, not {self.bound}")

    @property
    def promised(self) -> float:
        """As `ReleaseTarget.promised`; a published bound is not the accountant's."""
        return super().promised if self.bound == "exact" else math.inf


def default_delta(model: str, n: int) -> float:
    """delta where nobody asked for one: 10^-6, or less than a tenth of 1/n for larger batches.

    >>> default_delta("shuffle", 1000), default_delta("shuffle", 10**8), default_delta("local", 9)
    (1e-06, 1e-09, 0.0)
    """
    return 10.0 ** min(-6, -1 - math.floor(math.log10(n))) if model == "shuffle" else 0.0
