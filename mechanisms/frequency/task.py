"""How frequent each value of a domain is: the question that histograms answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.planner.target import MODELS, Target, Task
from mechanisms.registry import Registration


@dataclass(frozen=True)
class FrequencyTask(Task[FrequencyOracle]):
    """The share of users who hold each value.

    Attributes:
        domain_size: how many values.
        max_messages: how many messages a user may send on average, at least 1.

    Raises:
        ValueError: one of them is out of range.
    """

    domain_size: int
    max_messages: float = 1.0

    name: ClassVar[str] = "frequency"
    models: ClassVar[tuple[str, ...]] = MODELS

    def __post_init__(self) -> None:
        if not self.max_messages >= 1:
            raise ValueError(f"max_messages must be at least 1, not {self.max_messages}")

    def error(self, mechanism: FrequencyOracle, n: int) -> float:
        """Mean squared error per value before post-processing, in squared frequency units."""
        return mechanism.average_variance(n)

    def offers(self, target: Target[Any]) -> Mapping[str, Any]:
        return {"domain_size": self.domain_size}

    def admits(self, registration: Registration) -> bool:
        return self.max_messages > 1 or not registration.several

    def allows(self, mechanism: FrequencyOracle) -> bool:
        return mechanism.messages <= self.max_messages
