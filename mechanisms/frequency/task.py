"""How frequent each value of a domain is: the question that histograms answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.registry import Registration
from mechanisms.targets.rules import MODELS, Target, Task

# At the peak of a whole job, fitted to 4 to 16 million values and 6 to 65 million codes.
_BYTES_PER_CODE, _BYTES_PER_VALUE = 96, 96
_LARGEST_MEMORY = 8 << 30  # bytes: what a common worker has


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

    def objection(self, mechanism: FrequencyOracle) -> str:
        if not mechanism.messages <= self.max_messages:
            return (
                f"a user would send {mechanism.messages:,.4g} messages on average, more than "
                f"{self.max_messages:,.6g}"
            )
        return too_large(mechanism)

    def published_error(self, mechanism: FrequencyOracle, n: int) -> float:
        """Of shares that were made to add up to 1, as all that is published does.

        The noise of their sum goes away with it. That is half of all noise where two values'
        counts are independent, and nothing where they add up to n anyway.
        """
        sum_variance = mechanism.sum_variance(n)
        return mechanism.average_variance(n) - sum_variance / mechanism.domain_size**2


def too_large(mechanism: FrequencyOracle) -> str:
    """Why the one worker that decodes and writes a release would not finish; "" if it would."""
    cells, codes = mechanism.domain_size, mechanism.codes
    needed = _BYTES_PER_CODE * codes + _BYTES_PER_VALUE * cells
    if needed <= _LARGEST_MEMORY:
        return ""
    return (
        f"decoding {cells:,} values takes {codes:,} counters, about {needed / (1 << 30):.1f} GiB "
        f"of memory: more than {_LARGEST_MEMORY >> 30} GiB; declare a coarser domain"
    )
