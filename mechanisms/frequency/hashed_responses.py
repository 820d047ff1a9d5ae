"""Linear hashes by name: GRR, OLH, SRR and one-bit Hadamard response.

They differ in the number of symbols, and in how that follows from the request.
"""

import math

from mechanisms.algebra.prime_forms import nearest_order
from mechanisms.channel import require_epsilon
from mechanisms.frequency.hash_budget import (
    best_histogram,
    largest_local_epsilon,
    local_optimal_range,
)
from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.frequency.oracle import SMALL
from mechanisms.frequency.task import FrequencyTask
from mechanisms.registry import register
from mechanisms.targets.rules import Target


def spending(target: Target[FrequencyTask], hash_range: int) -> LinearHash:
    """The linear hash over so many symbols that spends what a shuffled batch lets it."""
    d = target.task.domain_size
    epsilon = largest_local_epsilon(*target.batch, d, hash_range, target.cap)
    return LinearHash(epsilon, d, hash_range)


def unhashed(target: Target[FrequencyTask]) -> LinearHash:
    """Randomised response on the values themselves."""
    return spending(target, target.task.domain_size)


def _locally_optimal(target: Target[FrequencyTask]) -> LinearHash:
    """OLH at the epsilon_local that the batch allows."""
    d = target.task.domain_size
    return spending(target, local_optimal_range(*target.batch, d, target.cap))


def _best_hash(target: Target[FrequencyTask]) -> LinearHash:
    """The best hash range below d, or k-ary response where there is none."""
    choice = best_histogram(*target.batch, target.task.domain_size, target.cap)
    return choice.k_ary if choice.hashed is None else choice.hashed


@register(
    "grr",
    task="frequency",
    sends="the value, or with some probability any other one",
    source="Kairouz, Oh, Viswanath, NIPS 2014",
    searched=True,
    postprocess="auto",
    small=SMALL,
    # Up to 6 times farther off than the square wave, where a large delta rules that out.
    distributions=1,
    rules={"shuffle": unhashed},
)
def k_ary(epsilon: float, domain_size: int) -> LinearHash:
    """Generalised randomised response (GRR, direct encoding; SH when shuffled): q = d, t = 1.

    Source: Kairouz, Oh, Viswanath, "Extremal mechanisms for local differential privacy", 2014.
    """
    return LinearHash(epsilon, domain_size, domain_size)


@register(
    "olh",
    task="frequency",
    sends="a linear hash and its randomised symbol, range near e^epsilon + 1",
    source="Wang, Blocki, Li, Jha, USENIX Security 2017",
    searched=True,
    postprocess="auto",
    small=SMALL,
    rules={"shuffle": _locally_optimal},
)
def optimal_local(epsilon: float, domain_size: int, hash_range: int | None = None) -> LinearHash:
    """OLH: the hash range that minimises the average variance at this epsilon.

    The continuous optimum is e^epsilon + 1; the fields on either side of it are compared.

    Source: Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency
        estimation", USENIX Security 2017, section 4.4.
    """
    return _best(epsilon, domain_size, hash_range, odds=1.0)


@register(
    "srr",
    task="frequency",
    sends="the same with the range that is best for the batch",
    source="Zhang, Xu, Xia, J. of Software 2022",
    searched=True,
    postprocess="auto",
    small=SMALL,
    rules={"shuffle": _best_hash},
)
def shuffled(epsilon: float, domain_size: int, hash_range: int | None = None) -> LinearHash:
    """SRR of HP-SDP (also SOLH, MURS): a hash range suited to a shuffled batch.

    Without a range the one that Theorem 1 of the paper makes optimal is taken: the symbol is
    true with probability 2/3, hence q near e^epsilon / 2 + 1.

    Source: Zhang, Xu, Xia, "Histogram publication under shuffled differential privacy", J. of
        Software 2022, Algorithm 2 with eq. 7 (its step 3, read literally, is not epsilon-LDP).
    """
    return _best(epsilon, domain_size, hash_range, odds=2.0)


@register(
    "hadamard",
    task="frequency",
    sends="one bit on a random parity",
    source="Acharya, Sun, Zhang, AISTATS 2019",
    searched=True,
    postprocess="auto",
    small=SMALL,
    rules={"shuffle": lambda target: spending(target, 2)},
)
def hadamard(epsilon: float, domain_size: int) -> LinearHash:
    """One-bit Hadamard response: q = 2; a report is the index of a parity and one noisy bit.

    Source: Acharya, Sun, Zhang, "Hadamard response", AISTATS 2019.
    """
    return _hashed(epsilon, domain_size, 2)


def _hashed(epsilon: float, domain_size: int, hash_range: int) -> LinearHash:
    """A range of d or more is k-ary response, where more symbols than values only cost accuracy."""
    return LinearHash(epsilon, domain_size, min(hash_range, domain_size))


def _best(epsilon: float, domain_size: int, hash_range: int | None, odds: float) -> LinearHash:
    """That range, or the better of the two fields near which a true symbol has these odds."""
    require_epsilon(epsilon)
    if hash_range is not None:
        return _hashed(epsilon, domain_size, hash_range)
    # e^40 is beyond every domain, so the cap only keeps the exponential from overflowing.
    target = math.exp(min(epsilon, 40)) / odds + 1
    if target >= domain_size:
        return k_ary(epsilon, domain_size)
    candidates = {nearest_order(math.floor(target), -1), nearest_order(math.ceil(target), 1)}
    return min(
        (_hashed(epsilon, domain_size, q) for q in sorted(candidates)),
        key=lambda mechanism: mechanism.average_variance(1),
    )
