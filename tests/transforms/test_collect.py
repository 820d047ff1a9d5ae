"""The collector: any split of the messages counts alike, and what no client sends is dropped."""

from __future__ import annotations

import pickle
from functools import partial

import apache_beam as beam
import numpy as np
import pytest
from apache_beam import coders
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms import catalog
from mechanisms.mean.two_point import duchi
from mechanisms.postprocess.simplex import project
from mechanisms.randomness import SeededRandom
from mechanisms.vector.sampled import SampledCoordinates
from tests.oracles.transforms import run, source
from transforms.collector.collect import (
    CollectFrequencies,
    EstimateCountsFn,
    EstimateFn,
    Frequencies,
    frequencies,
)
from transforms.collector.collect_counts import CollectorState, Counted, CountMessages
from transforms.shuffle.shuffle import Shuffle

MECHANISMS = [
    catalog.build("grr", epsilon=1.0, domain_size=5),
    catalog.build("olh", epsilon=1.0, domain_size=30),
    catalog.build("hadamard", epsilon=2.0, domain_size=9),
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


def accumulate(combine, bundle) -> CollectorState:
    state = combine.create_accumulator()
    for block in bundle:
        state = combine.add_input(state, np.array(block, np.uint64))
    return state


@given(mechanisms.flatmap(lambda m: st.tuples(st.just(m), batches(m))), st.randoms(), st.booleans())
def test_any_split_and_any_merging_count_alike(sample, order, travels):
    mechanism, bundles = sample
    combine = CountMessages(mechanism)
    states = [accumulate(combine, bundle) for bundle in bundles]
    while len(states) > 1:
        order.shuffle(states)
        merged = combine.merge_accumulators([states.pop(), states.pop()])
        states.append(pickle.loads(pickle.dumps(merged)) if travels else merged)
    counted = combine.extract_output(combine.merge_accumulators(states))
    messages = [m for bundle in bundles for block in bundle for m in block]
    counts, invalid = one_shot(mechanism, messages)
    assert counted.counts.tolist() == counts
    assert counted.counts.dtype == np.int64
    assert (counted.messages, counted.invalid) == (sum(counts), invalid)


@given(mechanisms.flatmap(lambda m: st.tuples(st.just(m), batches(m))))
@settings(max_examples=50)
def test_merging_leaves_the_parts_alone(sample):
    """A runner may merge a state again after a failure."""
    mechanism, bundles = sample
    combine = CountMessages(mechanism)
    states = [accumulate(combine, bundle) for bundle in bundles]
    before = pickle.dumps(states)
    merged = combine.merge_accumulators(states)
    combine.add_input(merged, np.zeros(3, np.uint64))
    assert pickle.dumps(states) == before


def test_tables_of_counters_are_made_only_where_they_fill():
    """A hundred thousand counters: as many messages wait before there is a table of them."""
    mechanism = SampledCoordinates(1.0, 50_000, 1, duchi(1.0))
    combine, size = CountMessages(mechanism), mechanism.codes * 3 // 5
    state = combine.add_input(combine.create_accumulator(), np.zeros(size, np.uint64))
    assert state.counts is None
    state = combine.add_input(state, np.zeros(size, np.uint64))
    assert state.counts is not None
    assert (state.counts[0], state.waiting) == (2 * size, ())


def test_what_waits_is_a_few_blocks_however_many_came():
    """Else a table of 2^26 counters would wait for a row of blocks as long, looked at each time."""
    combine = CountMessages(SampledCoordinates(1.0, 50, 1, duchi(1.0)))
    halves = []
    for _ in range(2):
        state = combine.create_accumulator()
        for code in range(1000):
            state = combine.add_input(state, np.arange(code % 7, dtype=np.uint64))
        halves.append(state)
    for state in (*halves, combine.merge_accumulators(halves)):
        assert state.counts is None
        assert len(state.waiting) <= 13  # each is over twice the next, and 2^13 exceed them all
        assert sum(block.size for block in state.waiting) == state.messages
    counts = combine.extract_output(combine.merge_accumulators(halves)).counts
    assert counts[:7].tolist() == [2 * sum(c % 7 > m for c in range(1000)) for m in range(7)]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: str(m.codes))
@pytest.mark.parametrize("postprocess", ["pop", "none"])
def test_output_is_the_estimate_and_its_projection(mechanism, postprocess):
    cells = np.arange(500) % mechanism.domain_size
    messages = mechanism.perturb(cells, SeededRandom(1))
    counted = Counted(mechanism.count(messages), 500, 2)
    result = frequencies(mechanism, postprocess, counted, 0)
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
    combine = EstimateFn(MECHANISMS[0], partial(frequencies, MECHANISMS[0], "pop"))
    result = combine.extract_output(accumulate(combine, [messages]))
    assert (result.n, result.invalid) == (0, len(messages))
    assert result.unbiased.size == result.estimate.size == 0


@pytest.mark.parametrize("postprocess", ["POP", "", "em"])
def test_unknown_postprocessing_is_refused_with_what_there_is(postprocess):
    with pytest.raises(ValueError, match="must be one of auto, pop"):
        CollectFrequencies(MECHANISMS[0], postprocess)


def test_states_and_results_travel():
    """Through pickle, and through the coder that Beam gives them between machines."""
    counted = Counted(np.arange(5), 10, 3)
    state = CollectorState(np.arange(5), 10, 3, (np.zeros(2, np.uint64),))
    result = Frequencies(5, 1, np.arange(3.0), np.arange(3.0), 5)
    for value in [counted, state, result]:
        coder = coders.registry.get_coder(type(value))
        for copy in [pickle.loads(pickle.dumps(value)), coder.decode(coder.encode(value))]:
            assert type(copy) is type(value)
            for ours, theirs in zip(value, copy, strict=True):
                np.testing.assert_array_equal(ours, theirs)
    copy, combine = pickle.loads(pickle.dumps(state)), CountMessages(MECHANISMS[0])
    after = combine.extract_output(combine.add_input(copy, np.array([4, 4], np.uint64)))
    assert after.counts.tolist() == [2, 1, 2, 3, 6]


def test_the_steps_travel_light():
    """Tables of constants are made anew on each worker; the mechanism is a few numbers."""
    mechanism = catalog.build("olh", epsilon=1.0, domain_size=10**6)
    combine = EstimateFn(mechanism, partial(frequencies, mechanism, "pop"))
    state = combine.add_input(combine.create_accumulator(), np.zeros(1, np.uint64))
    combine.extract_output(state)
    assert len(pickle.dumps(combine)) < 1500


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


@pytest.mark.parametrize("parts", [[3, 4], [7], [0, 2, 5]])
def test_users_who_send_several_messages_are_counted_apart(parts):
    """The law of a bin's count is shifted by the dummies of as many users as there were."""
    mechanism = catalog.build("oue", epsilon=1.0, domain_size=3)
    messages = [np.array([0, 1, 1], np.uint64), np.array([2], np.uint64)]

    def build(pipeline):
        users = pipeline | "Users" >> source(parts, int)
        return pipeline | source(messages) | CollectFrequencies(mechanism, "none", users)

    (result,) = run(build).elements
    assert (result.n, result.invalid) == (7, 0)
    np.testing.assert_array_equal(result.unbiased, mechanism.estimate(np.array([1, 2, 1]), 7))


def test_nobody_who_could_send_several_messages_gives_one_empty_result():
    mechanism = catalog.build("oue", epsilon=1.0, domain_size=3)

    def build(pipeline):
        users = pipeline | "Users" >> source([], int)
        return pipeline | source([]) | CollectFrequencies(mechanism, "none", users)

    (result,) = run(build).elements
    assert (result.n, result.unbiased.size) == (0, 0)


def test_users_are_counted_apart_also_if_they_send_one_message_on_average():
    """Two symmetric bits make one message on average, and often none or two."""
    mechanism = catalog.build("sue", epsilon=1.0, domain_size=2)
    assert mechanism.messages == 1

    def build(pipeline):
        users = pipeline | "Users" >> source([4], int)
        messages = pipeline | source([np.array([0, 1, 1], np.uint64)])
        return messages | CollectFrequencies(mechanism, "none", users)

    (result,) = run(build).elements
    np.testing.assert_array_equal(result.unbiased, mechanism.estimate(np.array([1, 2]), 4))


def test_where_every_user_sends_one_message_nobody_else_is_asked():
    def build(pipeline):
        users = pipeline | "Users" >> source([99], int)
        messages = pipeline | source([np.arange(3, dtype=np.uint64)])
        return messages | CollectFrequencies(MECHANISMS[0], "none", users)

    (result,) = run(build).elements
    assert result.n == 3


@pytest.mark.parametrize("name", ["grr", "oue"])
def test_messages_are_counted_in_the_step_that_orders_them(name):
    """Blocks that are kept for a later stage are copied twice, eight bytes a message each time."""
    mechanism = catalog.build(name, epsilon=1.0, domain_size=5)
    sent = [mechanism.perturb(np.arange(5), SeededRandom(k)) for k in range(3)]
    pipeline = beam.Pipeline("FnApiRunner")
    users = pipeline | "Users" >> source([15], int)
    shuffled = pipeline | source(sent) | Shuffle(1, mechanism.codes, users=users)
    shuffled | CollectFrequencies(mechanism, "none", users)
    _, stages = pipeline.runner.create_stages(pipeline.to_runner_api())
    (ordering,) = (stage for stage in stages if "Order by random keys" in names(stage))
    assert "Count/CombinePerKey/Precombine" in names(ordering)
    assert "materialize" not in names(ordering)


def names(stage) -> str:
    """The steps of a stage of the local runner, and where they write."""
    steps = (f"{step.unique_name} {step.spec.payload[:12]!r}" for step in stage.transforms)
    return "\n".join(steps)


def windowed(pipeline, blocks, numbers):
    """Blocks at 0, 6, 12, .. seconds and numbers of users at the same times, by windows of 10 s."""
    messages = pipeline | "Messages" >> source(blocks, spread=6)
    users = pipeline | "Users" >> source(numbers, int, spread=6)
    return (
        messages | "By time" >> beam.WindowInto(FixedWindows(10)),
        users | "Users by time" >> beam.WindowInto(FixedWindows(10)),
    )


@pytest.mark.parametrize("runner", ["FnApiRunner", "BundleBasedDirectRunner"])
@pytest.mark.parametrize("name", ["grr", "oue"])
def test_every_window_is_estimated_from_its_own_messages_and_users(name, runner):
    mechanism = catalog.build(name, epsilon=1.0, domain_size=3)
    blocks = [np.array(codes, np.uint64) for codes in ([0, 1], [1], [2, 2], [0], [1, 1, 2])]

    def build(pipeline):
        messages, users = windowed(pipeline, blocks, [1, 1, 2, 1, 3])
        return messages | CollectFrequencies(mechanism, "none", users)

    results = {int(kept.window.start): kept.element for kept in run(build, runner=runner).kept}
    several = name == "oue"
    expected = {0: ([1, 2, 0], 2 if several else 3), 10: ([1, 0, 2], 3), 20: ([0, 2, 1], 3)}
    assert results.keys() == expected.keys()
    for start, (counts, n) in expected.items():
        assert results[start].n == n
        np.testing.assert_array_equal(
            results[start].unbiased, mechanism.estimate(np.array(counts), n)
        )


def test_a_stream_of_windows_is_estimated_as_they_end():
    """The users of a window are a side input, which is there once the window has passed."""
    mechanism = catalog.build("oue", epsilon=1.0, domain_size=3)
    stream = TestStream()
    for start, codes in ((0, [0, 1]), (10, [2, 2, 1])):
        elements = [TimestampedValue(code, start + 1) for code in codes]
        stream = stream.add_elements(elements).advance_watermark_to(start + 10)
    stream = stream.advance_watermark_to_infinity()

    def build(pipeline):
        codes = pipeline | stream | beam.WindowInto(FixedWindows(10))
        messages = codes | beam.Map(lambda c: np.array([c], np.uint64)).with_output_types(
            np.ndarray
        )
        users = codes | "One each" >> beam.Map(lambda _: 1).with_output_types(int)
        return messages | CollectFrequencies(mechanism, "none", users)

    outcome = run(build, "--streaming", runner="BundleBasedDirectRunner")
    results = {int(kept.window.start): kept.element for kept in outcome.kept}
    assert {start: result.n for start, result in results.items()} == {0: 2, 10: 3}
    expected = mechanism.estimate(np.array([0, 1, 2]), 3)
    np.testing.assert_array_equal(results[10].unbiased, expected)


def test_counts_in_parts_are_estimated_together():
    combine = EstimateCountsFn(lambda counted, users: (counted, users))
    parts = [Counted(np.array([1, 2]), 3, 1), Counted(np.array([0, 5]), 5, 0)]
    states = [combine.add_input(combine.create_accumulator(9), part, 9) for part in parts]
    counted, users = combine.extract_output(combine.merge_accumulators(states, 9), 9)
    assert (counted.counts.tolist(), counted.messages, counted.invalid) == ([1, 7], 8, 1)
    assert users == 9
