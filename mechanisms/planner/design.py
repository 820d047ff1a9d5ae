"""One way to meet a target, and what it guarantees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic

from mechanisms.catalog import of_task
from mechanisms.channel import Guarantee
from mechanisms.honesty import in_words
from mechanisms.registry import Registration
from mechanisms.targets.target import M, Target, Task


@dataclass(frozen=True)
class Design(Generic[M]):
    """One way to meet a target.

    Attributes:
        target: what had to hold; errors are predicted for its least batch.
        name: of the mechanism.
        mechanism: with its parameters.

    >>> from mechanisms.frequency.hashed_responses import k_ary
    >>> from mechanisms.frequency.task import FrequencyTask
    >>> target = Target("local", 1.0, 0.0, 1000, FrequencyTask(8), unit="user")
    >>> design = Design(target, "grr", k_ary(1.0, 8))
    >>> design.release.unit, design.bits
    ('user', 3)
    """

    target: Target[Task[M]]
    name: str
    mechanism: M

    @property
    def registration(self) -> Registration:
        """What else is known of the mechanism."""
        return of_task(self.target.task.name)[self.name]

    @property
    def source(self) -> str:
        """Who published the mechanism."""
        return self.registration.source

    @property
    def postprocess(self) -> str:
        """What is done with its unbiased estimates by default."""
        return self.registration.postprocess

    @property
    def error(self) -> float:
        """The mean squared error that is predicted for the least batch, before post-processing."""
        return self.target.task.error(self.mechanism, self.target.n)

    @property
    def published_error(self) -> float:
        """The same of what is published, as far as it is known whatever the truth."""
        return self.target.task.published_error(self.mechanism, self.target.n)

    @property
    def messages(self) -> float:
        """How many messages a user sends on average."""
        return self.mechanism.messages

    @property
    def bits(self) -> int:
        """How many bits a message takes on the wire at the least."""
        return max(1, (self.mechanism.codes - 1).bit_length())

    @property
    def local(self) -> Guarantee:
        """What one user's messages reveal to whoever sees them before the shuffle."""
        return self._of_unit(self.mechanism.local)

    @property
    def counted_on(self) -> int:
        """How many reports of the least batch the promise counts on, as the accountant is asked."""
        return self.mechanism.counted_on(self.target.n, self.target.honest_share)

    @cached_property
    def release(self) -> Guarantee:
        """What the published result reveals."""
        target, mechanism = self.target, self.mechanism
        if target.model == "local":
            return self.local
        if target.model == "central":
            return self._of_unit(mechanism.guarantee)
        from mechanisms.privacy.amplification import shuffled_epsilon  # as late as it is dear

        lower, upper = shuffled_epsilon(mechanism, self.counted_on, target.delta)
        # The budget was solved for exactly what is promised, and both searches end on the private
        # side: the smaller of two bounds that hold.
        upper = min(upper, target.promised)
        how = f"{mechanism.accounting}; {in_words(target.n, target.honest_share)}"
        how += f"; batches exist that lose {lower:.6g}" if lower else ""
        return Guarantee("shuffle", upper, target.delta, target.unit, how)

    def _of_unit(self, guarantee: Guarantee) -> Guarantee:
        """A guarantee for whatever the target protects."""
        return guarantee if guarantee.model == "none" else replace(guarantee, unit=self.target.unit)
