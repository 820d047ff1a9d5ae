"""A job that counts: numbers of codes go where messages would, and come out the same."""

from __future__ import annotations

import apache_beam as beam
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.metrics.counting.codes import CountCodes
from tests.oracles.transforms import run, source
from transforms.collector.collect_counts import Counted, CountMessages
from transforms.elements.combine_all import CombineAll
from transforms.elements.conservation import Batches
from transforms.elements.numbers import amount, is_numbered, numbered
from transforms.shuffle.group_codes import GroupCodes


@st.composite
def blocks(draw, codes: int):
    """Messages, some of them impossible, and numbers of codes."""
    code = st.integers(0, codes + 2)
    messages = st.lists(code, max_size=20).map(lambda x: np.array(x, np.uint64))
    pairs = st.lists(st.tuples(code, st.integers(0, 2**40)), max_size=9)
    tables = pairs.map(lambda x: numbered([c for c, _ in x], [n for _, n in x]))
    return draw(st.lists(messages | tables, max_size=6))


def by_hand(codes: int, blocks) -> tuple[list[int], int]:
    """How often each code came, and how many messages no client sends."""
    counts, invalid = [0] * codes, 0
    for block in blocks:
        rows = block.tolist() if is_numbered(block) else [(code, 1) for code in block.tolist()]
        for code, times in rows:
            if code < codes:
                counts[code] += times
            else:
                invalid += times
    return counts, invalid


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_numbers_and_messages_count_alike_in_any_bundles(data) -> None:
    codes = data.draw(st.sampled_from([3, 40]))
    given_ = data.draw(blocks(codes))
    combine = CountMessages(CountCodes(codes), waiting=data.draw(st.sampled_from([1, 8, 1 << 16])))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(given_)), max_size=2)))
    bundles = [given_[a:b] for a, b in zip([0, *cuts], [*cuts, len(given_)], strict=True)]
    states = []
    for bundle in bundles:
        state = combine.create_accumulator()
        for block in bundle:
            state = combine.add_input(state, block)
        states.append(state)
    found: Counted = combine.extract_output(combine.merge_accumulators(states))
    counts, invalid = by_hand(codes, given_)
    assert (found.counts.tolist(), found.invalid) == (counts, invalid)
    assert found.messages == sum(counts)
    sizes = sum(int(Batches(codes).sizes(block).sum()) for block in given_)
    assert sizes == found.messages
    assert sum(amount(block) for block in given_) == found.messages + invalid


@pytest.mark.parametrize("codes", [5, 70_000, 3_000_000])
def test_what_leaves_a_group_is_how_often_each_code_came(codes: int) -> None:
    """Whatever the order, the blocks and the form it came in: each code stands in one block."""
    picked = np.array([0, 1, codes // 2, codes - 1, codes, codes + 9], np.uint64)
    messages = np.repeat(picked, [5, 1, 70_000, 2, 3, 1])
    table = numbered(picked[::-1], [0, 2, 10**12, 4, 1, 6])
    outs = []
    for given_ in ([messages, table], [table, messages[::-1][:40], messages[::-1][40:]]):

        def build(pipeline: beam.Pipeline, given_=given_) -> beam.PCollection:
            return pipeline | source(given_, np.ndarray) | GroupCodes(codes)

        found = run(build).elements
        whole = np.concatenate(found)
        assert all(is_numbered(block) for block in found)
        assert np.unique(whole["code"]).size == whole.size
        outs.append(dict(whole[np.argsort(whole["code"])].tolist()))
        counts, invalid = by_hand(codes, given_) if codes < 100 else (None, None)
        if counts is not None:
            assert outs[-1] == {code: n for code, n in enumerate([*counts, invalid]) if n}
    assert outs[0] == outs[1]
    assert outs[0][codes // 2] >= 10**12 or outs[0][codes - 1] >= 10**12


def test_nothing_comes_of_no_message() -> None:
    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        empty = pipeline | source([np.empty(0, np.uint64), numbered([], [])], np.ndarray)
        return empty | GroupCodes(9) | CombineAll(CountMessages(CountCodes(9)))

    [counted] = run(build).elements
    assert (counted.counts.tolist(), counted.messages, counted.invalid) == ([0] * 9, 0, 0)
