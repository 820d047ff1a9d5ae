"""Trees and proofs beside those of `pymerkle`, and every proof that was altered is refused."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from pymerkle import InmemoryTree

from pipelines.ledger.merkle import (
    consistency,
    inclusion,
    is_consistent,
    is_included,
    leaf_hash,
    root,
)

DATA = [hashlib.sha256(bytes([k])).digest() * 2 for k in range(33)]
LEAVES = [leaf_hash(data) for data in DATA]
SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33]


@pytest.fixture(scope="module")
def peer() -> InmemoryTree:
    return InmemoryTree.init_from_entries(DATA, algorithm="sha256")


@pytest.mark.parametrize("size", SIZES)
def test_roots_and_proofs_of_inclusion_are_those_of_pymerkle(peer: InmemoryTree, size: int) -> None:
    assert root(LEAVES[:size]) == peer.get_state(size)
    for index in range(size):
        proof = inclusion(LEAVES[:size], index)
        # Its path begins with the leaf, and stands in the order of the tree.
        theirs = peer.prove_inclusion(index + 1, size).path
        assert {*theirs} == {LEAVES[index], *proof}
        assert len(theirs) == len(proof) + 1
        assert is_included(LEAVES[index], index, size, proof, peer.get_state(size))


@pytest.mark.parametrize("size", SIZES)
def test_proofs_of_consistency_hold_between_roots_of_pymerkle(
    peer: InmemoryTree, size: int
) -> None:
    for first in range(1, size + 1):
        proof = consistency(LEAVES[:size], first)
        before, top = peer.get_state(first), peer.get_state(size)
        assert is_consistent(first, size, proof, before, top)


def test_proofs_are_those_of_the_rfc() -> None:
    """The tree of seven leaves of RFC 6962, Section 2.1.3, and the proofs it lists."""
    a, b, c, d, e, f, j = LEAVES[:7]
    g, h, i = root([a, b]), root([c, d]), root([e, f])
    k, m = root([a, b, c, d]), root([e, f, j])
    leaves = LEAVES[:7]
    assert inclusion(leaves, 0) == [b, h, m]
    assert inclusion(leaves, 3) == [c, g, m]
    assert inclusion(leaves, 4) == [f, j, k]
    assert inclusion(leaves, 6) == [i, k]
    assert consistency(leaves, 3) == [c, d, g, m]
    assert consistency(leaves, 4) == [m]
    assert consistency(leaves, 6) == [i, j, k]


@pytest.mark.parametrize("size", SIZES[1:])
def test_what_was_altered_is_refused(size: int) -> None:
    leaves, top = LEAVES[:size], root(LEAVES[:size])
    other = hashlib.sha256(b"other").digest()
    for index in range(size):
        proof = inclusion(leaves, index)
        assert not is_included(other, index, size, proof, top)
        assert not is_included(leaves[index], index, size, proof, other)
        assert not is_included(leaves[index], index, size, proof[:-1], top)
        assert not is_included(leaves[index], index, size, [*proof, other], top)
        assert not is_included(leaves[index], size, size, proof, top)
        for place in range(len(proof)):
            changed = [*proof[:place], other, *proof[place + 1 :]]
            assert not is_included(leaves[index], index, size, changed, top)
    for first in range(1, size):
        proof, before = consistency(leaves, first), root(leaves[:first])
        assert not is_consistent(first, size, proof, other, top)
        assert not is_consistent(first, size, proof, before, other)
        assert not is_consistent(first, size, proof[:-1], before, top)
        assert not is_consistent(first, size, [*proof, other], before, top)
        for place in range(len(proof)):
            changed = [*proof[:place], other, *proof[place + 1 :]]
            assert not is_consistent(first, size, changed, before, top)
    assert not is_consistent(0, size, [], root([]), top)
    assert not is_consistent(size, size, [top], top, top)


def test_there_is_no_proof_of_a_leaf_or_a_tree_that_is_not() -> None:
    for index in (-1, 3):
        with pytest.raises(IndexError):
            inclusion(LEAVES[:3], index)
    for first in (0, 4):
        with pytest.raises(IndexError):
            consistency(LEAVES[:3], first)


def test_the_peer_is_a_dependency_of_tests_alone() -> None:
    """It is GPL: nothing that is installed may need it."""
    project = Path(__file__).parents[2].joinpath("pyproject.toml").read_text("utf-8")
    needed, _, tests = project.partition("\ntest = [")
    assert "pymerkle" in tests
    assert "pymerkle" not in needed
