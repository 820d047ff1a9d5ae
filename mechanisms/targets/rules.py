"""How a mechanism's parameters follow from a target: the rules for whoever states none of its own.

A rule takes a target and returns a mechanism that meets it, or raises ValueError. A mechanism's own
stand at its registration: {"local": ..., "shuffle": ..., "published": ...}.

What a release must satisfy: the question that the planner answers, and what is estimated.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, TypeVar, cast

from mechanisms.channel import Mechanism, require_epsilon
from mechanisms.honesty import crowd, require_share
from mechanisms.privacy.budget import largest_shuffled
from mechanisms.privacy.divergence import require_batch, require_delta
from mechanisms.privacy.search import TOLERANCE
from mechanisms.registry import Registration

M = TypeVar("M", bound=Mechanism)

MODELS = ("local", "shuffle", "central")
_F = TypeVar("_F", bound=Mechanism)


class Task(ABC, Generic[M]):
    """A question to a population. Subclasses are frozen dataclasses, one beside each family.

    Attributes:
        name: by which mechanisms are registered for it.
        models: those in which it can be answered.
    """

    name: ClassVar[str]
    models: ClassVar[tuple[str, ...]] = ("local", "shuffle")

    @abstractmethod
    def error(self, mechanism: M, n: int) -> float:
        """The mean squared error that is predicted of n users' reports, worst case or average."""

    @abstractmethod
    def offers(self, target: "Target[Any]") -> Mapping[str, Any]:
        """Parameters that follow from a target; a mechanism is given those that it takes."""

    def complete(self, mechanism: Any) -> M:
        """What users run of a mechanism, where that is more than it: most tasks add nothing."""
        return cast("M", mechanism)

    def wanting(self, target: "Target[Any]") -> Mapping[str, str]:
        """Parameter -> how a refusal puts it that a target leaves it open."""
        return {}

    def require_delta(self, model: str, delta: float) -> None:
        """Refuse a delta that nothing makes use of where no batch is shuffled."""
        if delta != 0:
            raise ValueError(f"delta must be 0 in the {model} model, not {delta}")

    def admits(self, registration: Registration) -> bool:
        """Whether "auto" may look at a mechanism."""
        return True

    def objection(self, mechanism: M) -> str:
        """Why "auto" may not take a mechanism with the parameters that it was given; else ""."""
        return ""

    def published_error(self, mechanism: M, n: int) -> float:
        """As `error`, of what is published: "auto" takes the least."""
        return self.error(mechanism, n)

    def shortlist(
        self, target: "Target[Any]", candidates: Sequence[Registration]
    ) -> Sequence[Registration]:
        """Those among which "auto" compares what a target comes to, where that takes time."""
        return candidates


_T = TypeVar("_T", bound=Task[Any])
T_co = TypeVar("T_co", bound=Task[Any], covariant=True)


@dataclass(frozen=True)
class Target(Generic[T_co]):
    """What a release must satisfy.

    Attributes:
        model: "local", "shuffle" or "central", of those in which the task can be answered.
        epsilon: of the release, in nats; None in the shuffle model derives it from epsilon_local.
        delta: of the release; in the local model of every single report, if the task allows one.
        n: the least number of reports.
        task: what is to be estimated.
        epsilon_local: the most that one user's report may reveal, or None.
        unit: whose value is protected: "row" or "user".
        honest_share: the share of the users, in (0, 1], who follow the protocol: in the shuffle
            model the promise counts on no others. By default all, as where one job draws for them.
        bound: "exact", or "published" for the closed form of a system's own paper.
        seed: public randomness of the collection; None if nobody has drawn any.

    Raises:
        ValueError: one of them is out of range.
    """

    model: str
    epsilon: float | None
    delta: float
    n: int
    task: T_co
    epsilon_local: float | None = None
    unit: str = "row"
    honest_share: float = 1.0
    bound: str = "exact"
    seed: int | None = None

    def __post_init__(self) -> None:
        models = self.task.models
        if self.model not in models:
            raise ValueError(f"model must be one of {', '.join(models)}, not {self.model}")
        if self.epsilon is None and (self.epsilon_local is None or self.model == "central"):
            raise ValueError("epsilon is missing: name the privacy loss that you accept")
        for epsilon in (self.epsilon, self.epsilon_local):
            if epsilon is not None:
                require_epsilon(epsilon)
        require_batch(self.n)
        if self.model == "shuffle":
            require_delta(self.delta)
        else:
            self.task.require_delta(self.model, self.delta)
        if self.model == "central" and self.epsilon_local is not None:
            raise ValueError("epsilon_local means nothing in the central model: no report is noisy")
        require_share(self.honest_share)
        if self.bound not in ("exact", "published"):
            raise ValueError(f"bound must be exact or published, not {self.bound}")

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
        # A published bound is not the accountant's.
        return math.inf if self.epsilon is None or self.bound != "exact" else self.epsilon

    @property
    def rule(self) -> str:
        """Which of a mechanism's rules applies: "local", "shuffle", "central" or "published".

        In the shuffle model a report that spends what it may follows the local one.
        """
        if self.bound == "published":
            return self.bound
        # Without an epsilon of the batch, reports spend what they may and the batch's follows from
        # that.
        return "local" if self.epsilon is None else self.model

    @property
    def batch(self) -> tuple[float, float, int]:
        """(epsilon, delta, n) of the batch that hides a report: of the users who are counted on.

        Raises:
            ValueError: its epsilon was not named.
        """
        if self.epsilon is None:
            raise ValueError(
                "epsilon is missing: these reports are private in a shuffled batch only"
            )
        return self.epsilon, self.delta, crowd(self.n, self.honest_share)

    def asking(self, task: _T, **changes: Any) -> "Target[_T]":
        """The same of another task, with other changes."""
        return cast("Target[_T]", replace(cast("Target[Any]", self), task=task, **changes))

    def capped(self, epsilon_local: float) -> "Target[T_co]":
        """The same, with reports that spend no more than this."""
        if not epsilon_local < self.cap:
            return self
        return replace(self, epsilon_local=epsilon_local)


def default_delta(model: str, n: int) -> float:
    """delta where the request names none: 10^-6, or less than a tenth of 1/n for larger batches.

    >>> default_delta("shuffle", 1000), default_delta("shuffle", 10**8), default_delta("local", 9)
    (1e-06, 1e-09, 0.0)
    """
    return 10.0 ** min(-6, -1 - math.floor(math.log10(n))) if model == "shuffle" else 0.0


def fitted(registration: Registration, target: Target[Task[M]]) -> M:
    """The best parameters of one mechanism for a target.

    Args:
        registration: of the target's task.
        target: what must hold.

    Raises:
        ValueError: the mechanism does not serve that model or bound, or cannot meet the target.
    """
    offered = target.task.offers(target)
    for key, words in target.task.wanting(target).items():
        taken = registration.parameters.get(key)
        if taken is not None and taken.default is taken.empty and offered.get(key) is None:
            raise ValueError(f"{registration.name} needs {words}")
    if (target.model, target.bound) not in registration.serves:
        raise ValueError(
            f"{registration.name} does not serve the {_phrase(target.model, target.bound)}; it "
            f"serves the {', '.join(_phrase(*served) for served in registration.serves)}"
        )
    kind = target.rule
    if kind == "local" and kind not in registration.models:
        kind = target.model  # who is private in a batch only: it has to be said how private
    rule = registration.rules.get(kind)
    if rule is not None:
        return cast("M", rule(target))
    if kind == "shuffle":
        return amplified(registration, target)
    return at(registration, target, target.spent)


def at(registration: Registration, target: Target[Task[M]], epsilon: float, **more: Any) -> M:
    """A mechanism whose reports spend a given epsilon; its other parameters follow from the target.

    Raises:
        ValueError: a parameter is out of range, or it is missing.
        TypeError: it rests on a public seed, and the target has none.
    """
    task, taken = target.task, registration.parameters
    parameters: dict[str, Any] = {"epsilon": epsilon}
    if registration.seeded:
        if target.seed is None:  # a default would be the same in every collection, silently
            raise TypeError(f"{registration.name} rests on a public seed; the target names none")
        parameters["seed"] = target.seed
    for key, value in task.offers(target).items():
        if key in taken and key not in registration.own and value is not None:
            parameters[key] = value
    parameters |= more
    return task.complete(registration.build(**parameters))


def amplified(registration: Registration, target: Target[Task[M]]) -> M:
    """The mechanism whose reports spend the most that a shuffled batch lets them."""

    def family(epsilon: float) -> M:
        return at(registration, target, epsilon)

    return family(most_shuffled(target, family, registration.largest_epsilon))


def most_shuffled(
    target: Target[Any],
    family: Callable[[float], _F],
    cap: float = math.inf,
    guess: float | None = None,
    tolerance: float = TOLERANCE,
) -> float:
    """The most that a user's messages may spend in a shuffled batch.

    Args:
        target: of the shuffle model, with an epsilon of the batch.
        family: the mechanism of an epsilon_local.
        cap: the most that the family can spend.
        guess: where to look first, or None.
        tolerance: relative width at which to stop; the result is private in any case.
    """
    return largest_shuffled(*target.batch, family, min(target.cap, cap), guess, tolerance)


def _phrase(model: str, bound: str) -> str:
    return f"{model} model" if bound == "exact" else f"{model} model by its published bound"
