"""Basic RAPPOR, which flips set and unset bits alike: SUE."""

from mechanisms.frequency.oracle import SMALL
from mechanisms.frequency.unary import Unary
from mechanisms.registry import register


@register(
    "sue",
    task="frequency",
    sends="a set, both kinds of bit flipped alike (basic RAPPOR)",
    source="Erlingsson, Pihur, Korolova, CCS 2014 (basic RAPPOR)",
    several=True,
    postprocess="auto",
    small=SMALL,
)
def symmetric(epsilon: float, domain_size: int) -> Unary:
    """Symmetric unary encoding (SUE): basic one-time RAPPOR.

    Source: Erlingsson, Pihur, Korolova, "RAPPOR: randomized aggregatable privacy-preserving
        ordinal response", CCS 2014, section 2; named and analysed in Wang, Blocki, Li, Jha,
        "Locally differentially private protocols for frequency estimation", USENIX Security 2017.
    """
    return Unary(epsilon, domain_size, symmetric=True)
