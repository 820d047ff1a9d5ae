"""What clients may spend so that a shuffled batch meets a target: the accountant, inverted."""

import math
from collections.abc import Callable

from mechanisms.channel import Mechanism, require_epsilon
from mechanisms.privacy.amplification import BatchAccounted, laws_of, upper_laws
from mechanisms.privacy.blanket import COARSE, simple_delta, upper_delta
from mechanisms.privacy.divergence import require_batch, require_delta
from mechanisms.privacy.pair_law import odds_budget, odds_epsilon
from mechanisms.privacy.search import TOLERANCE, private_end

LARGEST_LOCAL = 44.0  # beyond this a lie is rarer than the 2^-64 a report can express
_LARGEST_CLONED = 20.0  # no batch hides what a report spends beyond it


def require(epsilon: float, delta: float, n: int, cap: float) -> None:
    """Refuse a target that means nothing (NaN included)."""
    require_epsilon(epsilon)
    require_delta(delta)
    require_batch(n)
    if not cap > 0:
        raise ValueError(f"the cap on epsilon_local must be positive, not {cap}")


def largest_local_epsilon(
    epsilon: float,
    delta: float,
    n: int,
    family: Callable[[float], Mechanism],
    symbols: int,
    cap: float = math.inf,
) -> float:
    """The most a client may spend so that n shuffled reports are (epsilon, delta)-DP.

    Args:
        epsilon: of the batch, positive, in nats.
        delta: of the batch, in (0, 1).
        n: the least batch the shuffler lets through.
        family: the mechanism of an epsilon_local, which states its laws in closed form.
        symbols: over how many it answers, which is where to look first.
        cap: the most a client may spend whatever the shuffler adds.

    Returns:
        epsilon_local, on the private side: the upper bound on delta was evaluated there for the
        mechanism as shipped (64-bit thresholds and all). At least min(epsilon, cap), since a
        batch never loses more than one report alone.

    Raises:
        ValueError: an argument is out of range, or not a number.
    """
    require(epsilon, delta, n, cap)
    guess = odds_epsilon(odds_budget(epsilon, delta, n), symbols)
    return _private_spend(family, (epsilon, delta, n), min(cap, LARGEST_LOCAL), guess, 1.02)


def largest_shuffled(
    epsilon: float,
    delta: float,
    n: int,
    family: Callable[[float], Mechanism],
    cap: float = math.inf,
    guess: float | None = None,
    tolerance: float = TOLERANCE,
) -> float:
    """`largest_local_epsilon` for any family of mechanisms.

    Args:
        epsilon, delta, n: as there.
        family: the mechanism of an epsilon_local.
        cap: the most a client may spend whatever the shuffler adds.
        guess: where to look first; by default what two codes could spend if losses were normal.
        tolerance: relative width at which to stop.

    Returns:
        epsilon_local, on the private side, whatever the guess and the tolerance: the upper bound
        on delta was evaluated there. At least min(epsilon, cap).

    Raises:
        ValueError: an argument is out of range, or not a number.
    """
    require(epsilon, delta, n, cap)
    start = odds_epsilon(odds_budget(epsilon, delta, n), 2) if guess is None else guess
    limit = min(cap, _LARGEST_CLONED)
    return _private_spend(family, (epsilon, delta, n), limit, start, 1.05, tolerance)


def _private_spend(
    family: Callable[[float], Mechanism],
    batch: tuple[float, float, int],
    limit: float,
    guess: float,
    reach: float,
    tolerance: float = TOLERANCE,
) -> float:
    """The most that reports may spend up to a limit, from the private side."""
    epsilon, delta, n = batch
    # Such a report is private enough before it is shuffled.
    if limit <= epsilon:
        return limit
    # A search would creep up to a limit that it may reach: once in its reach, it is tried first.
    if limit <= guess * reach and _most_delta(family(limit), n, epsilon) <= delta:
        return limit
    guess = min(max(guess, epsilon * (1 + 1e-3)), limit * (1 - 1e-3))
    exposed = limit
    if not isinstance(one := family(guess), BatchAccounted) and upper_laws(one).exactly:
        # A batch that exists says where to look, so that the worst is looked for once or twice.
        exposed = private_end(
            lambda local: simple_delta(laws_of(family(local)), n, epsilon),
            delta, private=epsilon, exposed=limit, guess=guess,
        )[1]  # fmt: skip
        guess = exposed * (1 - 0.7 * tolerance)
    return private_end(
        lambda local: _most_delta(family(local), n, epsilon),
        delta, private=epsilon, exposed=exposed, guess=guess, tolerance=tolerance,
    )[0]  # fmt: skip


def _most_delta(mechanism: Mechanism, n: int, epsilon: float) -> float:
    """No shuffled batch of n reports has a larger delta; batches that exist are not looked for."""
    if isinstance(mechanism, BatchAccounted):
        return mechanism.batch_delta(n, epsilon)[1]
    return upper_delta(upper_laws(mechanism), n, epsilon, COARSE)
