"""What a mechanism that meets a target guarantees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from mechanisms.central.histogram import CentralHistogram
from mechanisms.channel import Guarantee, Mechanism
from mechanisms.privacy.amplification import shuffled_epsilon
from mechanisms.target import ReleaseTarget


@dataclass(frozen=True)
class ReleaseDesign:
    """One way to meet a target.

    Attributes:
        target: what had to hold.
        name: of the mechanism.
        mechanism: with its parameters.

    >>> from mechanisms.frequency.linear_hash import k_ary
    >>> from mechanisms.target import Target
    >>> found = ReleaseDesign(Target("local", 1.0, 0.0, 1000, 8, unit="user"), "grr", k_ary(1.0, 8))
    >>> found.release.unit, found.bits
    ('user', 3)
    """

    target: ReleaseTarget
    name: str
    mechanism: Mechanism | CentralHistogram

    @property
    def local(self) -> Guarantee:
        """What one user's messages reveal to whoever sees them before the shuffle."""
        return self._of_unit(self.mechanism.local)

    @cached_property
    def release(self) -> Guarantee:
        """What the published result reveals."""
        target, mechanism = self.target, self.mechanism
        if isinstance(mechanism, CentralHistogram):
            return self._of_unit(mechanism.guarantee)
        if target.model == "local":
            return self.local
        lower, upper = shuffled_epsilon(mechanism, target.n, target.delta)
        # The budget was solved for exactly what is promised, and both searches end on the private
        # side: the smaller of two bounds that hold.
        upper = min(upper, target.promised)
        how = mechanism.accounted + (f"; batches exist that lose {lower:.6g}" if lower else "")
        return Guarantee("shuffle", upper, target.delta, target.unit, how)

    def _of_unit(self, guarantee: Guarantee) -> Guarantee:
        """A guarantee for whatever the target protects."""
        return guarantee if guarantee.model == "none" else replace(guarantee, unit=self.target.unit)

    @property
    def bits(self) -> int:
        """How many bits a message takes on the wire at the least."""
        return max(1, (self.mechanism.codes - 1).bit_length())
