"""The collector: any split of the messages counts alike, and what no client sends is dropped."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from apache_beam import coders
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.catalog import build_frequency
from mechanisms.postprocess.simplex import project
from mechanisms.randomness import SeededRandom
from tests.oracles_transforms import run, source
from transforms.collect import CollectFrequencies, Frequencies, FrequencyCombineFn, State

MECHANISMS = [
    build_frequency("grr", epsilon=1.0, domain_size=5),
    build_frequency("olh", epsilon=1.0, domain_size=30),
    build_frequency("hadamard", epsilon=2.0, domain_size=9),
]
mechanisms = st.sampled_from(MECHANISMS)


def one_shot(mechanism, messages) -> tuple[list[int], int]:
    """Counts of the possible messages, and how many were not."""
    counts = [0] * mechanism.codes
    for message in messages:
        if message < mechanism.codes:
            counts[message] += 1
    return counts, len(messages) - sum(counts)


@st.composite
def batches(draw, mechanism):
    """Messages in blocks, the blocks in bundles; some messages are impossible."""
    codes = mechanism.codes
    message = st.integers(0, codes - 1) | st.sampled_from([codes, codes + 1, 2**63, 2**64 - 1])
    return draw(st.lists(st.lists(st.lists(message, max_size=8), max_size=4), max_size=5))


def accumulate(combine, bundle):
    state = combine.create_accumulator()
    for block in bundle:
        state = combine.add_input(state, np.array(block, np.uint64))
    return state


@given(mechanisms.flatmap(lambda m: st.tuples(st.just(m), batches(m))), st.randoms(), st.booleans())
def test_any_split_and_any_merging_count_alike(sample, order, travels):
    mechanism, bundles = sample
    combine = FrequencyCombineFn(mechanism, "none")
    states = [accumulate(combine, bundle) for bundle in bundles]
    while len(states) > 1:
        order.shuffle(states)
        merged = combine.merge_accumulators([states.pop(), states.pop()])
        states.append(pickle.loads(pickle.dumps(merged)) if travels else merged)
    state = combine.merge_accumulators(states)
    messages = [m for bundle in bundles for block in bundle for m in block]
    counts, invalid = one_shot(mechanism, messages)
    assert state.counts.tolist() == counts
    assert state.counts.dtype == np.int64
    assert state.invalid == invalid


@given(mechanisms.flatmap(lambda m: st.tuples(st.just(m), batches(m))))
@settings(max_examples=50)
def test_merging_leaves_the_parts_alone(sample):
    """A runner may merge a state again after a failure."""
    mechanism, bundles = sample
    combine = FrequencyCombineFn(mechanism, "pop")
    states = [accumulate(combine, bundle) for bundle in bundles]
    before = pickle.dumps(states)
    merged = combine.merge_accumulators(states)
    combine.add_input(merged, np.zeros(3, np.uint64))
    assert pickle.dumps(states) == before


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: str(m.codes))
@pytest.mark.parametrize("postprocess", ["pop", "none"])
def test_output_is_the_estimate_and_its_projection(mechanism, postprocess):
    cells = np.arange(500) % mechanism.domain_size
    messages = mechanism.perturb(cells, SeededRandom(1))
    wrong = np.array([mechanism.codes, 2**64 - 1], np.uint64)
    combine = FrequencyCombineFn(mechanism, postprocess)
    result = combine.extract_output(accumulate(combine, [messages, wrong]))
    unbiased = mechanism.estimate(mechanism.count(messages))
    assert (result.n, result.invalid) == (500, 2)
    np.testing.assert_array_equal(result.unbiased, unbiased)
    expected = project(unbiased) if postprocess == "pop" else unbiased
    np.testing.assert_array_equal(result.estimate, expected)
    assert not np.shares_memory(result.estimate, result.unbiased)
    if postprocess == "pop":
        assert result.estimate.min() >= 0
        np.testing.assert_allclose(result.estimate.sum(), 1)


@pytest.mark.parametrize("messages", [[], [2**64 - 1, 5]])
def test_no_possible_message_no_estimate(messages):
    combine = FrequencyCombineFn(MECHANISMS[0], "pop")
    result = combine.extract_output(accumulate(combine, [messages]))
    assert (result.n, result.invalid) == (0, len(messages))
    assert result.unbiased.size == result.estimate.size == 0


@pytest.mark.parametrize("postprocess", ["POP", "", "em"])
def test_unknown_postprocessing_is_refused_with_what_there_is(postprocess):
    with pytest.raises(ValueError, match="must be one of pop, none"):
        FrequencyCombineFn(MECHANISMS[0], postprocess)


def test_states_and_results_travel():
    """Through pickle, and through the coder that Beam gives them between machines."""
    state = State(np.arange(5), 3)
    result = Frequencies(5, 1, np.arange(3.0), np.arange(3.0))
    for value in [state, result]:
        coder = coders.registry.get_coder(type(value))
        for copy in [pickle.loads(pickle.dumps(value)), coder.decode(coder.encode(value))]:
            assert type(copy) is type(value)
            for ours, theirs in zip(value, copy, strict=True):
                np.testing.assert_array_equal(ours, theirs)
    combine = FrequencyCombineFn(MECHANISMS[0], "none")
    copy = pickle.loads(pickle.dumps(state))
    counted = combine.add_input(copy, np.array([4, 4], np.uint64))
    assert counted.counts.tolist() == [0, 1, 2, 3, 6]


def test_the_function_travels_light():
    """Tables of constants are made anew on each worker; the mechanism is a few numbers."""
    combine = FrequencyCombineFn(build_frequency("olh", epsilon=1.0, domain_size=10**6), "pop")
    combine.add_input(combine.create_accumulator(), np.zeros(1, np.uint64))
    assert len(pickle.dumps(combine)) < 1000


def test_pipeline_of_nothing_gives_one_empty_result():
    (result,) = run(lambda p: p | source([]) | CollectFrequencies(MECHANISMS[0])).elements
    assert (result.n, result.invalid) == (0, 0)


def test_pipeline_counts_all_blocks():
    messages = [np.arange(3, dtype=np.uint64)] * 4 + [np.array([99], np.uint64)]
    collect = CollectFrequencies(MECHANISMS[0], "none")
    (result,) = run(lambda p: p | source(messages) | collect).elements
    expected = MECHANISMS[0].estimate(np.array([4, 4, 4, 0, 0]))
    assert (result.n, result.invalid) == (12, 1)
    np.testing.assert_array_equal(result.estimate, expected)
