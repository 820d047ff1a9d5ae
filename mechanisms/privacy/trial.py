"""What is released of a few users, drawn many times over, beside what is promised of it.

An attack plays against it (`rejection.measure`): told which of two neighbouring inputs, but for
one user's value, are thrown into the real sampler, it has to say which it was.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from typing import Any

from numpy.typing import NDArray

from mechanisms.channel import Guarantee, Mechanism
from mechanisms.privacy.amplification import shuffled_epsilon
from mechanisms.privacy.divergence import worst_pair
from mechanisms.randomness import RandomSource

Draw = Callable[[Any, int, RandomSource], NDArray[Any]]
"""(an input, how many times, what draws) -> (times, columns) of what was released of it."""

_PAIRS = 2  # of inputs, that are tried where nobody says which is the worst
_TABULATED = 1 << 12  # reports of which the worst pair of inputs is looked up in the channel

# Where releases are that no mechanism of the catalogue makes; each describes its own.
_MODULES = (
    "mechanisms.counters.trials",
    "mechanisms.heavy_hitters.levels",
    "mechanisms.heavy_hitters.trials",
    "mechanisms.learning.trials",
    "mechanisms.papers.learning.trials",
)
_MORE: "dict[str, Callable[[], Trial]]" = {}


@dataclass(frozen=True)
class Trial:
    """A release that is drawn many times over.

    Attributes:
        what: is released, in a few words.
        promise: what is said of neighbouring inputs.
        pairs: neighbouring inputs that are worth trying.
        draw: samples the release.
    """

    what: str
    promise: Guarantee
    pairs: Sequence[tuple[Any, Any]]
    draw: Draw


def trial(
    mechanism: Mechanism, n: int | None = None, delta: float = 0.0, epsilon: float | None = None
) -> Trial:
    """The release of a mechanism of the catalogue.

    Args:
        mechanism: with its parameters.
        n: of how many users' shuffled reports, where a report is private by itself; None for what
            the mechanism itself guarantees.
        delta: of such a batch.
        epsilon: that is promised of it; None for what the accountant says.

    Returns:
        One report; or the counters of a whole batch, in which one user's value differs, all others
        holding one of the two or a third. Of a batch among dummies those alone take part who are
        counted on.
    """
    promise, users = mechanism.claimed, mechanism.trial_users
    if n is not None:
        users = n
        said = shuffled_epsilon(mechanism, n, delta)[1] if epsilon is None else epsilon
        promise = Guarantee("shuffle", said, delta, "report", mechanism.accounting)
    inputs = [
        ([one, *[background] * (users - 1)], [other, *[background] * (users - 1)])
        for one, other in _pairs(mechanism, promise.epsilon)
        for background in ((one, other, _third(mechanism, one, other)) if users > 1 else (one,))
    ]
    distinct = list({str(pair): pair for pair in inputs}.values())
    what = f"whole releases of {users:,} users" if users > 1 else "single reports"
    return Trial(what, promise, distinct, mechanism.released)


def register_trial(name: str) -> Callable[[Callable[[], Trial]], Callable[[], Trial]]:
    """Offer a release that no mechanism of the catalogue makes, at a small example, to attacks.

    Args:
        name: as people type it.
    """

    def registered(make: Callable[[], Trial]) -> Callable[[], Trial]:
        _MORE[name] = make
        return make

    return registered


def more_trials() -> dict[str, Callable[[], Trial]]:
    """Those by name."""
    for module in _MODULES:
        import_module(module)
    return dict(_MORE)


def _pairs(mechanism: Mechanism, epsilon: float) -> list[tuple[int, int]]:
    """Two values of one user: the worst of a channel that can be tabulated, or some."""
    alone = mechanism.guarantee.model == "local"
    if alone and mechanism.outcomes <= _TABULATED:
        return [worst_pair(mechanism, epsilon if epsilon < math.inf else 0.0)]
    return list(islice(mechanism.pairs(), _PAIRS))


def _third(mechanism: Mechanism, one: int, other: int) -> int:
    """A value that neither of two is, if there is one."""
    return next((cell for cell in range(min(3, mechanism.inputs)) if cell not in (one, other)), one)
