"""The search for the design with the least predicted error, and the same turned round.

One way to meet a target, and what it guarantees.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, Generic

from mechanisms.catalog import find, of_task
from mechanisms.channel import Guarantee
from mechanisms.compat.roots import brentq
from mechanisms.honesty import in_words
from mechanisms.planner import AUTO
from mechanisms.registry import Registration
from mechanisms.targets.rules import M, Target, Task, fitted

_OUT_OF_REACH = 1e3  # in logarithms of an error


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


def search(target: Target[Task[M]], name: str = AUTO) -> Design[M]:
    """The design with the least predicted error, of one mechanism or of all.

    Args:
        target: what must hold.
        name: of a mechanism that is registered for its task, or "auto".

    Raises:
        ValueError: the name is unknown, or the target is out of reach.

    >>> from mechanisms.mean.task import MeanTask
    >>> search(Target("local", 1.0, 0.0, 1, MeanTask())).name
    'optimal'
    >>> from mechanisms.vector.task import VectorTask
    >>> best = search(Target("local", 1.0, 0.0, 10_000, VectorTask(dimension=400), seed=0))
    >>> best.name, round(best.error, 3)
    ('multi_optimal', 0.2)
    """
    return _search(target, name)


@lru_cache(maxsize=64)  # metrics of a plan often ask for the same
def _search(target: Target[Any], name: str) -> Design[Any]:
    if name == AUTO:
        return min(designs(target), key=lambda design: design.published_error)
    registration = find(name, of_task(target.task.name))
    return Design(target, name, fitted(registration, target))


def designs(target: Target[Task[M]]) -> list[Design[M]]:
    """The best design of each mechanism that is searched for the target.

    Raises:
        ValueError: none can meet it; the reason of the first.
    """
    candidates = target.task.shortlist(target, searched(target))
    by_name: dict[str, Design[M]] = {}
    refusals: list[ValueError] = []
    for one in candidates:
        # Its better stands already, and solving for what a batch allows takes time.
        if target.rule == "shuffle" and one.second_to in by_name:
            continue
        try:
            mechanism = fitted(one, target.capped(one.largest_epsilon))
        except ValueError as error:  # a table too large for this domain, say
            refusals.append(error)
            continue
        if objection := target.task.objection(mechanism):
            refusals.append(ValueError(objection))
        else:
            by_name[one.name] = Design(target, one.name, mechanism)
    if not by_name:
        raise refusals[0] if refusals else ValueError(_nobody(target))
    return list(by_name.values())


def searched(target: Target[Task[M]]) -> list[Registration]:
    """What "auto" looks at for a target."""
    # No job asks for what a curator publishes: its mechanisms are on the shelf, to compare with.
    papers = target.model == "central"
    return [
        one
        for one in of_task(target.task.name, papers=papers).values()
        if (target.model, target.bound) in one.serves
        and target.rule in one.searched
        and (target.model != "shuffle" or target.n <= one.largest_batch)
        and target.task.admits(one)
    ]


def _nobody(target: Target[Any]) -> str:
    """Why "auto" has nothing to choose from."""
    serving = of_task(target.task.name).values()
    named = [one.name for one in serving if (target.model, target.bound) in one.serves]
    return (
        f"no mechanism is chosen by itself in the {target.model} model by a {target.bound} bound; "
        f"name one of: {', '.join(named) or 'none'}"
    )


def least_epsilon(target: Target[Task[M]], error: float, name: str = AUTO) -> Design[M]:
    """The most private design whose standard error is at most `error`.

    Args:
        target: its epsilon is ignored.
        error: root of the mean squared error, in the units of the task.
        name: a mechanism, or "auto".

    Raises:
        ValueError: no epsilon up to 30 reaches the error.
    """

    def at(log_epsilon: float, name: str) -> Design[M]:
        return search(replace(target, epsilon=math.exp(log_epsilon)), name)

    no = f"no epsilon up to 30 at n = {target.n:,}"
    return _least(at, error, math.log(1e-4), math.log(30), name, no)


def least_reports(target: Target[Task[M]], error: float, name: str = AUTO) -> Design[M]:
    """The design with the fewest reports whose standard error is at most `error`.

    Args:
        target: its n is ignored.
        error: root of the mean squared error, in the units of the task.
        name: a mechanism, or "auto".

    Raises:
        ValueError: no n up to 10^12 reaches the error.
    """

    def at(log_n: float, name: str) -> Design[M]:
        return search(replace(target, n=math.ceil(math.exp(log_n))), name)

    return _least(at, error, math.log(2), math.log(1e12), name, "no n up to 10^12")


def _least(
    at: Callable[..., Design[M]], error: float, low: float, high: float, name: str, no: str
) -> Design[M]:
    """The least argument at which some design reaches an error, to 0.1 %, from that side."""
    if not 0 < error < 1:
        raise ValueError(f"the error must lie between 0 and 1, not {error}")
    if name != AUTO:
        return _least_of_one(partial(at, name=name), error, low, high, no)
    # Search with one mechanism at a time, until none is better where the search ends.
    by_name: dict[str, Design[M]] = {}
    best = at(high, AUTO).name
    while best not in by_name:
        by_name[best] = _least_of_one(partial(at, name=best), error, low, high, no)
        best = search(by_name[best].target).name
    return by_name[best]


def _least_of_one(
    at: Callable[[float], Design[M]], error: float, low: float, high: float, no: str
) -> Design[M]:
    def excess(x: float) -> float:
        try:
            squared = at(x).error
        except ValueError:  # nothing meets such a target: as far from the error as can be
            return _OUT_OF_REACH
        return 0.5 * math.log(max(squared, math.ulp(0.0))) - math.log(error)

    if excess(high) > 0:
        raise ValueError(f"{no} reaches a standard error of {error:g}")
    if excess(low) <= 0:
        return at(low)
    # Errors fall nearly like powers of epsilon and of n, so in logarithms few steps are needed.
    # Roots are found to a tolerance on either side; steps from there end on the side that keeps it.
    root = brentq(excess, low, high, xtol=3e-4)
    steps = (root + step * 4e-4 for step in range(1 << 20))
    return next(design for design in map(at, steps) if design.error <= error**2)
