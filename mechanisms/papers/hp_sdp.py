"""The systems of HP-SDP's figures that are other mechanisms under rules of their own.

Source: Zhang, Xu, Xia, "Histogram publication under shuffled differential privacy", J. of Software
    2022, section 5.
"""

from __future__ import annotations

from mechanisms.frequency.linear_hash import LinearHash, k_ary, shuffled
from mechanisms.frequency.oracle import SMALL
from mechanisms.registry import register

_SOURCE = "Zhang, Xu, Xia, J. of Software 2022"

FIGURES = ("laplace", "sh", "aue", "murs", "mixdump", "puredump", "hp-sm", "hp-sdp")
"""The eight systems of the paper's figures."""

PARTS = {
    "mrs": "it is HP-SDP's shuffler, which as printed enumerates all n! orders; every batch here "
    "is shuffled by sorting on random keys (transforms/shuffle.py)",
    "pop": "it is HP-SDP's post-processing; ask for it with --postprocess pop",
}
"""What the paper names that is no mechanism."""


@register(
    "sh",
    task="frequency",
    source="Balle, Bell, Gascon, Nissim, CRYPTO 2019",
    models=["shuffle"],
    small=SMALL,
)
def sh(epsilon: float, domain_size: int) -> LinearHash:
    """SH: k-ary response, shuffled."""
    return k_ary(epsilon, domain_size)


@register(
    "murs",
    task="frequency",
    source="Wang, Ding, Xu et al., VLDB 2020",
    models=["shuffle"],
    small=SMALL,
)
def murs(epsilon: float, domain_size: int, hash_range: int | None = None) -> LinearHash:
    """MURS: local hashing, shuffled."""
    return shuffled(epsilon, domain_size, hash_range)


@register(
    "hp-sm",
    task="frequency",
    source=f"{_SOURCE}, without POP",
    models=["shuffle"],
    small=SMALL,
)
def hp_sm(epsilon: float, domain_size: int, hash_range: int | None = None) -> LinearHash:
    """HP-SM: SRR, shuffled."""
    return shuffled(epsilon, domain_size, hash_range)


@register(
    "hp-sdp",
    task="frequency",
    source=_SOURCE,
    models=["shuffle"],
    postprocess="pop",
    small=SMALL,
)
def hp_sdp(epsilon: float, domain_size: int, hash_range: int | None = None) -> LinearHash:
    """HP-SDP: SRR, shuffled, its estimates projected onto the simplex."""
    return shuffled(epsilon, domain_size, hash_range)
