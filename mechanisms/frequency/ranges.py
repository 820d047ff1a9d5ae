"""Over how many symbols a response answers, where a shuffled batch lets clients spend more."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.privacy.budget import LARGEST_LOCAL, largest_local_epsilon, require
from mechanisms.privacy.clones import odds, odds_budget, odds_epsilon

Response = TypeVar("Response", bound=FrequencyOracle)


def best_range(
    family: Callable[[float, int], Response],
    ranges: Sequence[int],
    epsilon: float,
    delta: float,
    n: int,
    cap: float = math.inf,
) -> Response:
    """The number of symbols and the epsilon_local with the least error for a shuffle-model target.

    Args:
        family: the mechanism of an epsilon_local and a number of symbols.
        ranges: the numbers that are compared.
        epsilon: of the batch, positive, in nats.
        delta: of the batch, in (0, 1).
        n: the least batch the shuffler lets through.
        cap: the most a client may spend whatever the shuffler adds.

    Returns:
        The best mechanism at its largest epsilon_local. The range is chosen on a normal
        approximation that one exact solution calibrates (the error is flat around its optimum);
        the epsilon_local is exact and on the private side.

    Raises:
        ValueError: an argument is out of range, or not a number.
    """
    require(epsilon, delta, n, cap)
    budget = odds_budget(epsilon, delta, n)
    tried: dict[int, Response] = {}

    def expected_error(symbols: int) -> float:
        """Average variance at the epsilon_local that the normal approximation allows."""
        local = min(max(odds_epsilon(budget, symbols), epsilon), cap, LARGEST_LOCAL)
        return family(local, symbols).average_variance(1)

    # The first round's exact solution calibrates the approximation by which the second one chooses.
    for _ in range(2):
        p = min(ranges, key=expected_error)
        if p in tried:
            break
        over_p = partial(_over, family, p)
        exact = largest_local_epsilon(epsilon, delta, n, over_p, p, cap)
        tried[p] = family(exact, p)
        if epsilon < exact < cap:
            budget = odds(exact, p)
    return min(tried.values(), key=lambda mechanism: mechanism.average_variance(1))


def _over(family: Callable[[float, int], Response], symbols: int, epsilon: float) -> Response:
    """A mechanism over a given number of symbols, as a function of epsilon last."""
    return family(epsilon, symbols)
