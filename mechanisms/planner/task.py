"""What is to be estimated: the part of a target that is no matter of privacy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from mechanisms.channel import Mechanism
from mechanisms.registry import Registration

if TYPE_CHECKING:
    from mechanisms.planner.target import Target

M = TypeVar("M", bound=Mechanism)


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
    def offers(self, target: Target[Any]) -> Mapping[str, Any]:
        """Parameters that follow from a target; a mechanism is given those that it takes."""

    def wanting(self, target: Target[Any]) -> Mapping[str, str]:
        """Parameter -> how a refusal puts it that a target leaves it open."""
        return {}

    def require_delta(self, model: str, delta: float) -> None:
        """Refuse a delta that nothing makes use of where no batch is shuffled."""
        if delta != 0:
            raise ValueError(f"delta must be 0 in the {model} model, not {delta}")

    def admits(self, registration: Registration) -> bool:
        """Whether "auto" may look at a mechanism."""
        return True

    def allows(self, mechanism: M) -> bool:
        """Whether "auto" may take a mechanism with the parameters that it has been given."""
        return True

    def shortlist(
        self, target: Target[Any], candidates: Sequence[Registration]
    ) -> Sequence[Registration]:
        """Those among which "auto" compares what a target comes to, where that takes time."""
        return candidates
