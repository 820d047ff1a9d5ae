"""The shuffler: the multiset comes through, and no order, time, file, neighbour or sender does."""

from __future__ import annotations

import itertools
from collections import Counter
from unittest import mock

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing import test_stream
from apache_beam.transforms.window import FixedWindows, GlobalWindows, TimestampCombiner
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.randomness import SecureRandom, SeededRandom
from tests.oracles.statistics import follows, sample_size, tilted
from tests.oracles.transforms import (
    HandShuffle,
    drive,
    fresh_stream,
    journeys,
    messages_to_see,
    most_neighbours,
    neighbours,
    restart,
    run,
    source,
    window_end,
)
from transforms.elements.blocks import bucket_count
from transforms.elements.conservation import BOUNDED, PERTURBED, SENT, Batches
from transforms.elements.progress import WITHHELD
from transforms.shuffle.shuffle import DrawBucketsDoFn, OrderDoFn, Shuffle, _most_buckets

CODES = [1, 2, 255, 256, 257, 2**16 - 1, 2**16, 2**16 + 1, 2**32, 2**32 + 1, 2**64 - 1, 2**64]


@pytest.fixture(autouse=True)
def repeatable():
    restart(20240607)


def shuffled(messages: np.ndarray, size: int, **options) -> np.ndarray:
    """All messages, in blocks of `size`, through the pipeline, in the order in which they left."""
    options = {"min_reports": 0, "open_rng": fresh_stream} | options
    pieces = np.split(messages, range(size, len(messages), size))
    elements = run(lambda p: p | source(pieces) | Shuffle(**options)).elements
    return np.concatenate(elements)


# ---- the multiset --------------------------------------------------------------------------------


@pytest.mark.parametrize("codes", CODES)
def test_every_message_comes_through_in_the_narrowest_words(codes):
    edges = [0, 1, 127, 128, 254, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**63, codes - 1]
    messages = np.array([edge for edge in edges if edge < codes] * 3, np.uint64)
    shuffle = HandShuffle(codes, buckets=3)
    out = np.concatenate(shuffle([[messages], [messages, messages]]))
    assert out.dtype == np.uint64
    assert sorted(out.tolist()) == sorted(messages.tolist() * 3)

    widths = [8, 16, 32, 64]
    narrowest = next(width for width in widths if min(codes, 2**64 - 1) < 2**width)
    sent = drive(shuffle.draw, [[messages]])
    bare = sum(len(value.value[1]) - 1 for value in sent)  # each piece says in a byte what it holds
    assert bare * 8 == len(messages) * narrowest


@given(st.lists(st.lists(st.integers(0, 300), max_size=9), max_size=9), st.integers(1, 5))
def test_the_multiset_is_kept_whatever_the_blocks(contents, buckets):
    bundles = [[np.array(block, np.uint64)] for block in contents]
    out = HandShuffle(301, buckets)(bundles)
    assert Counter(m for block in out for m in block.tolist()) == Counter(
        m for block in contents for m in block
    )


@pytest.mark.parametrize("codes", [900, 2**16 - 1, 2**16, 2**32 - 1, 2**32])
def test_impossible_messages_stay_impossible(codes):
    """Cut to 16 bits, 65,539 would become 3. The collector drops them; here they only pass."""
    wrong = np.array([codes, codes + 1, 2**16 + 3 + codes, 2**32 + 3, 2**64 - 1], np.uint64)
    right = np.array([3, codes - 1], np.uint64)
    out = np.concatenate(HandShuffle(codes, buckets=2)([[wrong, right]]))
    assert sorted(out[out < codes].tolist()) == sorted(right.tolist())
    assert len(set(out[out >= codes].tolist())) == 1  # nor can they carry anything of their own
    assert len(out) == 7


@pytest.mark.parametrize("buckets", [0, -1, 65537, float("nan")])
def test_impossible_numbers_of_buckets_are_refused(buckets):
    with pytest.raises(ValueError, match=r"buckets must lie in 1 \.\. 65536"):
        run(lambda p: p | source([np.zeros(1, np.uint64)]) | Shuffle(1, 2, buckets))


@pytest.mark.parametrize("buckets", [1, 2, 65536])
def test_any_number_of_buckets_will_do(buckets):
    out = shuffled(np.arange(100, dtype=np.uint64), 10, buckets=buckets)
    assert sorted(out.tolist()) == list(range(100))


@pytest.mark.parametrize("size", [0, 1])
def test_buckets_of_hardly_any_messages(size):
    dofn = OrderDoFn(0, Batches(1000), SecureRandom)
    dofn.setup()
    piece = b"\0" + np.full(size, 7, "<u2").tobytes()
    out = [*dofn.process((0, [piece]))]
    assert [block.tolist() for block in out if block.size] == [[7]] * size


@given(st.lists(st.integers(0, 40), max_size=9), st.integers(1, 5), st.booleans())
def test_messages_that_were_counted_come_through_beside_others(sizes, buckets, counted):
    """Bundles of many messages travel as numbers, those of few as they are."""
    codes = 3
    bundles = [[np.arange(size * size, dtype=np.uint64) % 5] for size in sizes]
    shuffle = HandShuffle(codes, buckets, counted=counted)
    sent = [drive(shuffle.draw, [bundle]) for bundle in bundles]
    for size, pieces in zip(sizes, sent, strict=True):
        numbers = {len(piece.value[1]) - 1 == 4 * (codes + 1) for piece in pieces}
        if size * size >= 8 * buckets * (codes + 1):
            assert numbers == {counted}
    out = shuffle(bundles)
    come = Counter(min(m, codes) for [block] in bundles for m in block.tolist())
    assert Counter(m for block in out for m in block.tolist()) == come
    if counted:  # nothing but the messages themselves says in which order they stand
        assert all((np.diff(block.astype(int)) >= 0).all() for block in out)


def test_messages_that_were_counted_travel_as_few_bytes():
    messages = np.arange(100_000, dtype=np.uint64) % 900
    sent = drive(HandShuffle(900, buckets=8, counted=True).draw, [[messages]])
    assert sum(len(piece.value[1]) for piece in sent) == 8 * (901 * 4 + 1)


def test_a_large_bucket_that_is_counted_comes_in_blocks_and_each_batch_is_held_to_its_own():
    step = OrderDoFn(2_000_000, Batches(4, 2), SecureRandom, counted=True)
    step.setup()
    pieces = [b"\1" + np.array([3, 1_999_997, 1, 0, 0], "<i4").tobytes(), b"\0\1\2\0"]
    out = [*step.process((0, pieces), {SENT: np.array([2_000_002, 2])})]
    assert [block.size for block in out] == [1 << 20, 2_000_002 - (1 << 20)]
    assert np.bincount(np.concatenate(out)).tolist() == [4, 1_999_998]


@pytest.mark.parametrize("codes", [2, 915, 1 << 20, 1 << 40])
def test_pieces_of_counted_messages_are_not_cut_small(codes):
    buckets, full = _most_buckets(codes), DrawBucketsDoFn.most_rows
    width = np.min_scalar_type(codes).itemsize
    assert buckets >= 64
    assert full * width / buckets >= 1 << 16
    if width <= 2:
        assert buckets == 64
    shuffle = Shuffle(1, codes, 4096, counted=True)
    messages = np.arange(codes if codes < 100 else 100, dtype=np.uint64)
    assert sorted(np.concatenate(run(lambda p: p | source([messages]) | shuffle).elements)) == [
        *messages
    ]


def test_no_bucket_of_10_to_the_11_messages_fills_a_worker_and_no_piece_is_a_few_rows():
    wanted = bucket_count(1e11)
    counted, plain = _most_buckets(1 << 20, wanted), DrawBucketsDoFn(wanted, 1 << 20, SecureRandom)
    assert 4 * 1e11 / counted < 128 << 20  # bytes; 256 buckets had 1.6 GB each
    assert plain.most_rows * plain._times / wanted >= 256  # of 64 before


# ---- the order -----------------------------------------------------------------------------------

PARTS, BLOCK = 16, 20
EVEN = np.full(PARTS**2, PARTS**-2.0)
# 30 % of the blocks stay where they were, the rest are mixed.
PARTLY = np.eye(PARTS).ravel() * 0.3 / PARTS + 0.7 * EVEN
MIXED = max(sample_size(EVEN, PARTLY), messages_to_see(0.01, BLOCK)) // BLOCK * BLOCK


def leave_blocks(n: int, share: float, rng) -> np.ndarray:
    """A shuffler that leaves this share of all blocks in place."""
    order = np.arange(n)
    left = np.repeat(rng.bernoulli(int(share * 2**64), n // BLOCK), BLOCK)
    loose = np.flatnonzero(~left)
    order[loose] = loose[rng.permutation(len(loose)).astype(int)]
    return order


def rotate(n: int, rng) -> np.ndarray:
    """A shuffler that only starts elsewhere."""
    return np.roll(np.arange(n), int(rng.integers(n, 1)[0]))


def permute_blocks(n: int, rng, size: int = BLOCK) -> np.ndarray:
    """A shuffler that permutes whole blocks."""
    blocks = np.arange(n // size * size).reshape(-1, size)
    return blocks[rng.permutation(len(blocks)).astype(int)].ravel()


def keep_some_pairs(n: int, share: float, rng) -> np.ndarray:
    """A shuffler that moves this share of neighbouring pairs as one."""
    tied = rng.bernoulli(int(2 * share * 2**64), n // 2)
    pairs = np.arange(n // 2 * 2).reshape(-1, 2)
    units = [*pairs[tied], *pairs[~tied].reshape(-1, 1)]
    return np.concatenate([units[i] for i in rng.permutation(len(units)).tolist()])


def is_even(order: np.ndarray) -> bool:
    return follows(journeys(order, PARTS), EVEN)


def is_torn_apart(order: np.ndarray) -> bool:
    return neighbours(order, BLOCK) <= most_neighbours(BLOCK)


@pytest.mark.parametrize("buckets", [1, 64])
def test_marked_messages_land_anywhere_and_lose_their_neighbours(buckets):
    order = shuffled(np.arange(MIXED, dtype=np.uint64), BLOCK, codes=MIXED, buckets=buckets)
    assert is_even(order)
    assert is_torn_apart(order)
    assert neighbours(order, 2) <= most_neighbours(2)


def test_order_holds_when_a_worker_sends_often():
    """Small buffers: the pieces of many flushes meet in each bucket."""
    with mock.patch.object(DrawBucketsDoFn, "most_rows", 500):
        order = shuffled(np.arange(MIXED, dtype=np.uint64), BLOCK, codes=MIXED)
    assert is_even(order)
    assert is_torn_apart(order)


def test_planted_shufflers_are_caught():
    rng = SeededRandom(3)
    assert is_even(rng.permutation(MIXED).astype(int))
    assert is_torn_apart(rng.permutation(MIXED).astype(int))
    assert not is_even(leave_blocks(MIXED, 0.3, rng))
    assert not is_even(rotate(MIXED, rng))
    assert not is_torn_apart(rotate(MIXED, rng))
    assert not is_torn_apart(permute_blocks(MIXED, rng))
    assert not is_torn_apart(keep_some_pairs(MIXED, 0.02, rng))


def test_every_order_of_four_messages_is_as_likely():
    """All 24 of them, with 2 buckets: the bucket and the place in it make one uniform key."""
    orders = list(itertools.permutations(range(4)))
    law = np.full(24, 1 / 24)
    shuffle = HandShuffle(4, buckets=2)
    bundle = [[np.array([0, 1], np.uint64), np.array([2, 3], np.uint64)]]
    counts = Counter(
        tuple(np.concatenate(shuffle(bundle)).tolist())
        for _ in range(sample_size(law, tilted(law)))
    )
    assert follows([counts[order] for order in orders], law)


# ---- nothing else survives -----------------------------------------------------------------------


def test_output_is_bare_words_that_own_their_memory():
    messages = [np.arange(50, dtype=np.uint64) for _ in range(4)]
    for kept in run(lambda p: p | source(messages) | Shuffle(1, 50)).kept:
        block = kept.element
        assert type(block) is np.ndarray
        assert block.dtype == np.uint64
        assert block.dtype.metadata is None
        assert block.ndim == 1
        assert block.nbytes == block.size * 8
        assert block.base is None


@pytest.mark.parametrize("combiner", [None, TimestampCombiner.OUTPUT_AT_EARLIEST])
@pytest.mark.parametrize("buffer", [1, 1 << 20])
def test_times_of_messages_are_gone(buffer, combiner):
    """Even where windowing would let a group have the earliest time of its messages."""
    messages = [np.full(10, i, np.uint64) for i in range(30)]

    def build(pipeline):
        stamped = pipeline | source(messages, spread=17)
        if combiner is not None:
            stamped |= beam.WindowInto(GlobalWindows(), timestamp_combiner=combiner)
        return stamped | Shuffle(1, 30, buckets=4)

    with mock.patch.object(DrawBucketsDoFn, "most_rows", buffer):
        kept = run(build).kept
    assert sum(len(k.element) for k in kept) == 300
    assert all(window_end(k) for k in kept)
    assert len({(k.timestamp, k.window, k.pane) for k in kept}) == 1


def test_blocks_that_leave_tell_nothing_of_blocks_that_came():
    """Sizes, and here even the order, depend on the messages and the randomness alone."""
    messages = np.arange(1000, dtype=np.uint64)
    results = []
    for cuts in [[], [1], [500], range(10, 1000, 10), [3, 999]]:
        restart(5)
        pieces = np.split(messages, cuts)
        out = run(lambda p, pieces=pieces: p | source(pieces) | Shuffle(1, 1000, 8, fresh_stream))
        results.append([block.tolist() for block in out.elements])
    assert all(result == results[0] for result in results)
    assert len(results[0]) == 8


@pytest.mark.parametrize("counted", [False, True])
def test_sizes_of_buckets_are_those_of_a_fair_die(counted):
    law = np.full(8, 1 / 8)
    n = sample_size(law, tilted(law))
    shuffle = HandShuffle(2, buckets=8, counted=counted)
    sizes = [len(block) for block in shuffle([[np.zeros(n, np.uint64)]])]
    assert follows(sizes, law)


def test_workers_draw_their_own_buckets():
    rows = np.zeros(1000, np.uint8)
    dofns = [DrawBucketsDoFn(64, 2, SecureRandom) for _ in range(2)]
    for dofn in dofns:
        dofn.setup()
    first, second, third = dofns[0].assign(rows), dofns[1].assign(rows), dofns[0].assign(rows)
    assert max((a == b).mean() for a, b in itertools.combinations([first, second, third], 2)) < 0.1


# ---- withholding ---------------------------------------------------------------------------------


@pytest.mark.parametrize("min_reports", [99, 100, 101])
def test_a_batch_is_published_whole_or_not_at_all(min_reports):
    messages = np.split(np.arange(100, dtype=np.uint64), 4)
    outcome = run(lambda p: p | source(messages) | Shuffle(min_reports, 100, 5))
    if min_reports <= 100:
        assert sorted(np.concatenate(outcome.elements).tolist()) == list(range(100))
        assert outcome.counters == {}
    else:
        assert outcome.elements == []
        assert outcome.counters == {WITHHELD: 100}


@pytest.mark.parametrize("codes", [10, 2**64])
def test_impossible_messages_make_no_batch_larger(codes):
    """Nor may they: anyone could send them until a batch of one is let through."""
    messages = np.array([1, 2, 3, 10, 2**64 - 1], np.uint64)
    assert len(run(lambda p: p | source([messages]) | Shuffle(3, codes)).elements) > 0
    outcome = run(lambda p: p | source([messages]) | Shuffle(4, codes))
    assert (outcome.elements == []) == (codes == 10)


def test_a_batch_of_its_own_is_withheld_alone():
    """Three groups of four codes; the middle one has a report too few. 12 is no group's."""
    first, middle, last = [0, 1, 2], [4, 5], [8, 9, 10, 11]
    blocks = [
        np.array(block, np.uint64) for block in ([*first, 4], [5, *last[:2]], [12, *last[2:]])
    ]
    outcome = run(lambda p: p | source(blocks) | Shuffle(3, 12, 2, batches=3))
    left = np.concatenate(outcome.elements)
    assert sorted(left.tolist()) == [*first, *last, 12]
    assert outcome.counters == {WITHHELD: len(middle)}
    # What no client sends makes the last batch no larger.
    outcome = run(lambda p: p | source(blocks) | Shuffle(5, 12, 2, batches=3))
    assert outcome.elements == []


@pytest.mark.parametrize(("least", "let_through"), [(30, True), (31, False)])
def test_users_are_counted_apart_from_their_messages(least, let_through):
    """Thirty users of four messages each; their number comes in parts."""
    messages = [np.zeros(60, np.uint64)] * 2

    def build(pipeline):
        users = pipeline | "Users" >> source([10, 20], int)
        return pipeline | source(messages) | Shuffle(least, 5, users=users)

    outcome = run(build)
    assert sum(block.size for block in outcome.elements) == (120 if let_through else 0)
    assert outcome.counters == ({} if let_through else {WITHHELD: 120})


@pytest.mark.parametrize(("least", "let_through"), [(30, True), (31, False)])
def test_what_the_job_has_counted_is_not_counted_again(least, let_through):
    """Thirty users are known to have sent; what else was counted beside them says nothing."""
    messages = [np.zeros(60, np.uint64)] * 2

    def build(pipeline):
        users = pipeline | "Users" >> source([1], int)
        pairs = [(PERTURBED, 30), (SENT, np.array([120])), (BOUNDED, 500)]
        flow = pipeline | "Flow" >> beam.Create(pairs)
        return pipeline | source(messages) | Shuffle(least, 5, users=users, flow=flow)

    assert sum(block.size for block in run(build).elements) == (120 if let_through else 0)


def test_nobody_is_counted_where_no_batch_is_too_small():
    def steps(least):
        pipeline = beam.Pipeline("FnApiRunner")
        pipeline | source([np.zeros(3, np.uint64)]) | Shuffle(least, 5)
        return str(pipeline.to_runner_api())

    assert "Messages sent" in steps(1)
    assert "Messages sent" not in steps(0)


def test_who_has_counted_nobody_withholds_all():
    def build(pipeline):
        flow = pipeline | "Flow" >> beam.Create([(BOUNDED, 500)])
        return pipeline | source([np.zeros(60, np.uint64)]) | Shuffle(1, 5, flow=flow)

    outcome = run(build)
    assert outcome.elements == []
    assert outcome.counters == {WITHHELD: 60}


def test_no_messages_no_blocks():
    outcome = run(lambda p: p | source([]) | Shuffle(0, 10))
    assert outcome.elements == []
    assert outcome.counters == {}


def test_each_window_is_a_batch_of_its_own():
    """5, 10 and 20 messages in three windows; the first is too small, the others are not."""
    messages = [np.full(5, w, np.uint64) for w in [0, 1, 1, 2, 2, 2, 2]]
    stamps = [3, 10, 19, 20, 21, 25, 29]

    def build(pipeline):
        return (
            pipeline
            | beam.Create(list(zip(stamps, messages, strict=True)))
            | beam.MapTuple(lambda t, block: beam.window.TimestampedValue(block, t))
            | beam.WindowInto(FixedWindows(10))
            | Shuffle(10, 3, buckets=2)
        )

    outcome = run(build)
    counted = Counter()
    for kept in outcome.kept:
        assert window_end(kept)
        assert set(kept.element.tolist()) == {int(kept.window.start) // 10}
        counted[int(kept.window.start)] += kept.element.size
    assert counted == {10: 10, 20: 20}
    assert outcome.counters == {WITHHELD: 5}


def test_late_messages_do_not_reach_a_released_window():
    """In a stream: the window is let out once, by its end, and what comes after is dropped."""
    stream = (
        test_stream.TestStream()
        .advance_watermark_to(0)
        .add_elements([beam.window.TimestampedValue(1, 1), beam.window.TimestampedValue(2, 5)])
        .advance_watermark_to(11)
        .add_elements([beam.window.TimestampedValue(3, 2), beam.window.TimestampedValue(4, 12)])
        .advance_watermark_to_infinity()
    )

    def build(pipeline):
        return (
            pipeline
            | stream
            | beam.Map(lambda m: np.full(10, m, np.uint64)).with_output_types(np.ndarray)
            | beam.WindowInto(FixedWindows(10))
            | Shuffle(10, 5, buckets=2)
        )

    outcome = run(build, "--streaming", runner="BundleBasedDirectRunner")
    counted = Counter()
    for kept in outcome.kept:
        counted.update((int(kept.window.start), m) for m in kept.element.tolist())
    assert counted == {(0, 1): 10, (0, 2): 10, (10, 4): 10}
