"""The systems of HP-SDP's figures that are other mechanisms under rules of their own.

Source: Zhang, Xu, Xia, "Histogram publication under shuffled differential privacy", J. of Software
    2022, section 5.
"""

from mechanisms.algebra.prime_forms import nearest_order
from mechanisms.frequency.hash_budget import best_histogram
from mechanisms.frequency.hashed_responses import k_ary, shuffled, unhashed
from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.frequency.oracle import SMALL
from mechanisms.frequency.task import FrequencyTask
from mechanisms.papers import published_bounds
from mechanisms.registry import explain, register
from mechanisms.targets.rules import Target

_SOURCE = "Zhang, Xu, Xia, J. of Software 2022"

explain(
    "mrs",
    "it is HP-SDP's shuffler, which as printed enumerates all n! orders; every batch here is "
    "shuffled by sorting on random keys (transforms/shuffle/shuffle.py)",
)
explain("pop", "it is HP-SDP's post-processing; ask for it with --postprocess pop")


def by_theorem_1(target: Target[FrequencyTask], hash_range: int) -> LinearHash:
    """A linear hash that meets a target by the paper's Theorem 1 (BBGN's bound).

    Raises:
        ValueError: the theorem is not proven there, or leaves nothing to spend.
    """
    epsilon, delta, n = target.batch
    if not epsilon <= 1:
        raise ValueError(
            f"the published bound is proven for epsilon up to 1, not {epsilon:g}; ask for 1 or "
            "less, or for the exact bound"
        )
    local = published_bounds.theorem_1_local_epsilon(epsilon, n, delta, hash_range)
    if local is None:
        # The odds must exceed the symbols for a positive epsilon_local.
        least = 2 + int(hash_range / published_bounds.theorem_1_budget(epsilon, 2, delta))
        raise ValueError(
            f"the published bound leaves no epsilon_local within reach for {hash_range} symbols "
            f"and {n:,} reports; it needs {least:,} reports, or a larger epsilon (at most 1)"
        )
    if local > target.cap:
        raise ValueError(f"the published bound spends epsilon_local {local:.3g}, above the cap")
    return LinearHash(local, target.task.domain_size, hash_range)


def published_hash(target: Target[FrequencyTask]) -> LinearHash:
    """g = (m + 2)/3, moved to the nearest field; plain k-ary response where that is as large."""
    epsilon, delta, n = target.batch
    g, d = published_bounds.theorem_1_hash_range(epsilon, n, delta), target.task.domain_size
    fields = (nearest_order(g, -1), nearest_order(g, 1))
    return by_theorem_1(target, min(d, *fields, key=lambda q: abs(q - g)))


def hashed_as_published(target: Target[FrequencyTask]) -> LinearHash:
    """The best hash range, or none where the paper's rule, too, would leave values unhashed."""
    (epsilon, delta, n), d = target.batch, target.task.domain_size
    choice = best_histogram(epsilon, delta, n, d, target.cap)
    plain = published_bounds.theorem_1_hash_range(epsilon, n, delta) >= d
    return choice.best if plain or choice.hashed is None else choice.hashed


_HASHED = {"shuffle": hashed_as_published, "published": published_hash}


@register(
    "sh",
    task="frequency",
    sends="as `grr`",
    source="Balle, Bell, Gascon, Nissim, CRYPTO 2019",
    models=["shuffle"],
    small=SMALL,
    rules={
        "shuffle": unhashed,
        "published": lambda target: by_theorem_1(target, target.task.domain_size),
    },
)
def sh(epsilon: float, domain_size: int) -> LinearHash:
    """SH: k-ary response, shuffled."""
    return k_ary(epsilon, domain_size)


@register(
    "murs",
    task="frequency",
    sends="as `srr`",
    source="Wang, Ding, Xu et al., VLDB 2020",
    models=["shuffle"],
    small=SMALL,
    rules=_HASHED,
)
def murs(epsilon: float, domain_size: int, hash_range: int | None = None) -> LinearHash:
    """MURS: local hashing, shuffled."""
    return shuffled(epsilon, domain_size, hash_range)


@register(
    "hp-sm",
    task="frequency",
    sends="as `srr`",
    source=f"{_SOURCE}, without POP",
    models=["shuffle"],
    small=SMALL,
    rules=_HASHED,
)
def hp_sm(epsilon: float, domain_size: int, hash_range: int | None = None) -> LinearHash:
    """HP-SM: SRR, shuffled."""
    return shuffled(epsilon, domain_size, hash_range)


@register(
    "hp-sdp",
    task="frequency",
    sends="as `srr`; estimates are projected on possible histograms",
    source=_SOURCE,
    models=["shuffle"],
    postprocess="pop",
    small=SMALL,
    rules=_HASHED,
)
def hp_sdp(epsilon: float, domain_size: int, hash_range: int | None = None) -> LinearHash:
    """HP-SDP: SRR, shuffled, its estimates projected onto the simplex."""
    return shuffled(epsilon, domain_size, hash_range)
