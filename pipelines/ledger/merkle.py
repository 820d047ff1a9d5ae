"""A Merkle tree over leaves that are only added, with proofs that a stranger can check.

All hashes are 32 bytes. A leaf's data is hashed behind a zero byte and two subtrees behind a one,
so that no leaf is taken for a subtree.

Source: Laurie, Langley, Kasper, "Certificate Transparency", RFC 6962, 2013, Section 2.1; proofs are
verified as of RFC 9162, Sections 2.1.3.2 and 2.1.4.2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

Hashes = Sequence[bytes]


def leaf_hash(data: bytes) -> bytes:
    """The hash of a leaf, by what it holds."""
    return hashlib.sha256(b"\0" + data).digest()


def root(leaves: Hashes) -> bytes:
    """The root of the tree of some leaves' hashes.

    >>> root([]).hex()[:8], root([leaf_hash(b"")]).hex()[:8]
    ('e3b0c442', '6e340b9c')
    """
    level = list(leaves) or [hashlib.sha256().digest()]
    while len(level) > 1:
        pairs = [_node(*level[k : k + 2]) for k in range(0, len(level) - 1, 2)]
        level = [*pairs, *level[2 * len(pairs) :]]
    return level[0]


def inclusion(leaves: Hashes, index: int) -> list[bytes]:
    """The proof that a leaf is in the tree: PATH of RFC 6962, Section 2.1.1.

    Args:
        leaves: all hashes.
        index: of the leaf, from 0 on.

    Raises:
        IndexError: there is no such leaf.
    """
    if not 0 <= index < len(leaves):
        raise IndexError("there is no such leaf")
    if len(leaves) == 1:
        return []
    half = _half(len(leaves))
    if index < half:
        return [*inclusion(leaves[:half], index), root(leaves[half:])]
    return [*inclusion(leaves[half:], index - half), root(leaves[:half])]


def consistency(leaves: Hashes, first: int) -> list[bytes]:
    """The proof that the first leaves are those of an earlier tree: PROOF, Section 2.1.2.

    Args:
        leaves: all hashes.
        first: how many the earlier tree had.

    Raises:
        IndexError: it had none, or more.
    """
    if not 0 < first <= len(leaves):
        raise IndexError("a tree is consistent with earlier ones, and these have leaves")
    return _consistency(leaves, first, True)


def _consistency(leaves: Hashes, first: int, whole: bool) -> list[bytes]:
    """SUBPROOF; whole: whether these leaves are a tree that the verifier knows the root of."""
    if first == len(leaves):
        return [] if whole else [root(leaves)]
    half = _half(len(leaves))
    if first <= half:
        return [*_consistency(leaves[:half], first, whole), root(leaves[half:])]
    return [*_consistency(leaves[half:], first - half, False), root(leaves[:half])]


def is_included(leaf: bytes, index: int, size: int, proof: Hashes, top: bytes) -> bool:
    """Whether a proof shows that a leaf is in a tree.

    Args:
        leaf: its hash.
        index: from 0 on.
        size: leaves of the tree.
        proof: of `inclusion`.
        top: the root of the tree.
    """
    if not 0 <= index < size:
        return False
    place, last, made = index, size - 1, leaf
    for one in proof:
        if not last:
            return False
        if place & 1 or place == last:
            made = _node(one, made)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            made = _node(made, one)
        place, last = place >> 1, last >> 1
    return not last and made == top


def is_consistent(first: int, size: int, proof: Hashes, before: bytes, top: bytes) -> bool:
    """Whether a proof shows that a tree goes on from an earlier one.

    Args:
        first, size: leaves of the earlier tree, at least 1, and of the later one.
        proof: of `consistency`.
        before, top: the roots of the two.
    """
    if not 0 < first <= size:
        return False
    if first == size:
        return not proof and before == top
    path = [before, *proof] if first & (first - 1) == 0 else [*proof]
    if not path:
        return False
    place, last = first - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    older = newer = path[0]
    for one in path[1:]:
        if not last:
            return False
        if place & 1 or place == last:
            older, newer = _node(one, older), _node(one, newer)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            newer = _node(newer, one)
        place, last = place >> 1, last >> 1
    return not last and older == before and newer == top


def _half(size: int) -> int:
    """The largest power of two below a size of at least 2."""
    return 1 << (size - 1).bit_length() - 1


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()
