"""Heads: a ledger at each of its changes in 32 bytes that only who has its key can make.

A head covers the one before it, so a change cannot be altered, taken out, or put in without all
later heads showing it. Releases and the witness carry heads: against a ledger that holds other
changes, or fewer, they say so.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import NamedTuple


class Link(NamedTuple):
    """One change, as far as heads cover it.

    Attributes:
        id: of what was changed.
        digest: of what it became, in hexadecimal digits.
    """

    id: str
    digest: str

    @classmethod
    def of(cls, id: str, text: str) -> Link:
        """The link of a record that is written so."""
        return cls(id, hashlib.sha256(text.encode()).hexdigest())


def beginning(key: bytes, text: str) -> str:
    """The head of a ledger without changes.

    Args:
        key: its secret.
        text: its beginning, as it is written.
    """
    return _keyed(key, "begun", text)


def after(key: bytes, head: str, link: Link) -> str:
    """The head after one more change."""
    return _keyed(key, head, link.id, link.digest)


def heads(key: bytes, text: str, links: Iterable[Link]) -> list[str]:
    """All heads of a ledger: before its first change, and after each.

    Args:
        key: its secret.
        text: its beginning.
        links: its changes, in their order.
    """
    chain = [beginning(key, text)]
    for link in links:
        chain.append(after(key, chain[-1], link))
    return chain


def fingerprint(key: bytes) -> str:
    """What tells keys apart and says nothing of them."""
    return _keyed(key, "fingerprint")[:16]


def _keyed(key: bytes, *parts: str) -> str:
    return hmac.new(key, "\n".join(parts).encode(), hashlib.sha256).hexdigest()
