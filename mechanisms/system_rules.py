"""How systems choose parameters: by the exact accountant, or by the closed form of their paper."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mechanisms import catalog
from mechanisms.algebra.prime_forms import nearest_order
from mechanisms.central.histogram import CentralHistogram
from mechanisms.frequency.correlated_noise import CorrelatedNoise
from mechanisms.frequency.dump import MixDump
from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.frequency.projective_geometry import ProjectiveGeometry
from mechanisms.privacy import budget, published
from mechanisms.system import Fit, Fitted
from mechanisms.target import Target

_MIXED = range(4, 17)  # what a report among dummies may spend: beyond, it hardly ever lies
_SEEDED = {"rappor", "shist", "treehist"}


def _of_local(name: str, epsilon: float, target: Target) -> FrequencyOracle:
    """A mechanism of the catalogue, with the collection's public seed if it rests on one."""
    seed = {"seed": target.seed} if name in _SEEDED else {}
    return catalog.build_frequency(name, epsilon=epsilon, domain_size=target.domain_size, **seed)


def local(name: str) -> Fit:
    """A mechanism of the catalogue that spends what it may."""

    def fit(target: Target) -> Fitted:
        return _of_local(name, target.spent, target)

    return fit


def shuffled(name: str, of_epsilon: Fit) -> Fit:
    """The same in the shuffle model; without a target for the batch it spends its cap."""
    unamplified = local(name)
    return lambda target: unamplified(target) if target.epsilon is None else of_epsilon(target)


def _asked(target: Target) -> tuple[float, float, int]:
    """(epsilon, delta, n), where the batch's epsilon was named."""
    if target.epsilon is None:
        raise ValueError("epsilon is missing: these reports are private in a shuffled batch only")
    return target.epsilon, target.delta, target.n


def _ranged(target: Target, hash_range: int) -> FrequencyOracle:
    """The largest epsilon_local at a given hash range."""
    d, cap = target.domain_size, target.cap
    spent = budget.largest_local_epsilon(*_asked(target), d, hash_range, cap)
    return LinearHash(spent, d, hash_range)


def k_ary(target: Target) -> FrequencyOracle:
    """Randomised response on the values themselves."""
    return _ranged(target, target.domain_size)


def one_bit(target: Target) -> FrequencyOracle:
    """One-bit Hadamard response."""
    return _ranged(target, 2)


def optimal_local(target: Target) -> FrequencyOracle:
    """OLH at the epsilon_local that the batch allows."""
    return _ranged(
        target, budget.local_optimal_range(*_asked(target), target.domain_size, target.cap)
    )


def best_hash(target: Target) -> FrequencyOracle:
    """The best hash range below d, or k-ary response where there is none."""
    found = budget.best_histogram(*_asked(target), target.domain_size, target.cap)
    return found.k_ary if found.hashed is None else found.hashed


def best_geometry(target: Target) -> ProjectiveGeometry:
    """Projective geometry response over the best field."""
    return budget.best_projective(*_asked(target), target.domain_size, target.cap)


def any_local(name: str) -> Fit:
    """A mechanism that is known to the shuffle accountant by its channel alone."""

    def fit(target: Target) -> Fitted:
        def at(epsilon_local: float) -> FrequencyOracle:
            return _of_local(name, epsilon_local, target)

        return at(budget.largest_shuffled(*_asked(target), at, target.cap))

    return fit


def _theorem_1(target: Target, hash_range: int) -> FrequencyOracle:
    """A linear hash that meets a target by HP-SDP's Theorem 1 (BBGN's bound)."""
    epsilon, delta, n = _asked(target)
    if not epsilon <= 1:
        raise ValueError(
            f"the published bound is proven for epsilon up to 1, not {epsilon:g}; ask for 1 or "
            "less, or for the exact bound"
        )
    local = published.theorem_1_local_epsilon(epsilon, n, delta, hash_range)
    if local is None or local > target.cap:
        least = _least_reports_of_theorem_1(epsilon, delta, hash_range)
        raise ValueError(
            f"the published bound leaves no epsilon_local within reach for {hash_range} symbols "
            f"and {n:,} reports; it needs {least:,} reports, or a larger epsilon (at most 1)"
            if local is None
            else f"the published bound spends epsilon_local {local:.3g}, above the cap"
        )
    return LinearHash(local, target.domain_size, hash_range)


def _least_reports_of_theorem_1(epsilon: float, delta: float, hash_range: int) -> int:
    """How many reports leave a positive epsilon_local: the odds must exceed the symbols."""
    return 2 + int(hash_range / published.theorem_1_budget(epsilon, 2, delta))


def hashed_as_published(target: Target) -> FrequencyOracle:
    """The best hash range, or none where the paper's rule, too, would leave values unhashed."""
    found = budget.best_histogram(*_asked(target), target.domain_size, target.cap)
    epsilon, delta, n = _asked(target)
    plain = published.theorem_1_hash_range(epsilon, n, delta) >= target.domain_size
    return found.best if plain or found.hashed is None else found.hashed


def published_k_ary(target: Target) -> FrequencyOracle:
    """Randomised response on the values themselves, by Theorem 1."""
    return _theorem_1(target, target.domain_size)


def published_hash(target: Target) -> FrequencyOracle:
    """g = (m + 2)/3, moved to the nearest field; plain k-ary response where that is as large."""
    epsilon, delta, n = _asked(target)
    g, d = published.theorem_1_hash_range(epsilon, n, delta), target.domain_size
    fields = (nearest_order(g, -1), nearest_order(g, 1))
    return _theorem_1(target, min(d, *fields, key=lambda q: abs(q - g)))


def dummies(family: Callable[..., FrequencyOracle], bound: str) -> Fit:
    """Dummies for a batch; nothing protects a single report."""

    def fit(target: Target) -> Fitted:
        mechanism = family(
            *_asked(target), target.domain_size, honest_share=target.honest_share, bound=bound
        )
        if not mechanism.local.epsilon <= target.cap:
            raise ValueError(
                "a report among dummies is private in the shuffled batch only: "
                f"no epsilon_local of {target.cap:g} holds for it alone"
            )
        return mechanism

    return fit


def mixed(bound: str) -> Fit:
    """Dummies among k-ary responses, at the epsilon_local with the least error."""

    def fit(target: Target) -> Fitted:
        best = None
        for local in sorted({min(target.cap, float(local)) for local in _MIXED}):
            mixed = dummies(partial(MixDump, epsilon_local=local), bound)(target)
            if best and best.average_variance(target.n) < mixed.average_variance(target.n):
                break  # from here on the error of fewer lies is less than that of more dummies
            best = mixed
        if best is None:
            raise ValueError(f"no epsilon_local of {target.cap:g} or less is left to be mixed")
        return best

    return fit


def correlated(target: Target) -> Fitted:
    """Correlated noise; nothing protects a single report."""
    # As many messages as the plan allows; the mechanism's own default where it does not say.
    budgeted: Callable[..., FrequencyOracle] = CorrelatedNoise
    if target.max_messages > 1:
        budgeted = partial(CorrelatedNoise, max_messages=target.max_messages)
    return dummies(budgeted, "exact")(target)


def central(family: Callable[[float, int], CentralHistogram]) -> Fit:
    """A histogram of exact counts, made noisy by their collector."""
    return lambda target: family(target.spent, target.domain_size)
