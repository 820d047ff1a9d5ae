"""Contribution bounding: one row per user, whatever it came with, and every row as likely."""

from __future__ import annotations

import math
import tracemalloc
from collections import Counter, defaultdict
from functools import partial
from unittest import mock

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.transforms.window import FixedWindows
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.randomness import SecureRandom, SeededRandom
from tests.oracles.encoders import stored
from tests.oracles.statistics import follows, sample_size
from tests.oracles.transforms import drive, fresh_stream, grouped, restart, run, source, window_end
from transforms.elements.block_coders import decoded, encoded
from transforms.elements.conservation import BOUNDED, CHOSEN
from transforms.encoders.block import (
    AmountBlock,
    CellBlock,
    RowBlock,
    concatenated,
    packed,
    unpacked,
)
from transforms.encoders.domain import IntegerRange
from transforms.encoders.users import UserDigest
from transforms.encoders.values import ValueEncoder
from transforms.rows.telemetry import ReadTelemetry
from transforms.units import one_per_user
from transforms.units.contributions import (
    BoundContributions,
    ChooseDoFn,
    EncodeContributions,
    PartitionUsersDoFn,
    ThinUsersDoFn,
)
from transforms.units.one_per_user import Chooser, choose_distinct, choose_one_per_user

OWN = 1 << 10  # in tests a cell is user * OWN + row, so that it tells whose it is


def block(users, cells) -> CellBlock:
    return CellBlock(np.array(cells, np.uint32), np.array(users, np.uint64))


def rows_of(users, cells) -> np.ndarray:
    return packed(block(users, cells))


def counted(rows: np.ndarray, came: int) -> bytes:
    """A piece of rows that were chosen from so many."""
    return came.to_bytes(8, "big") + encoded(rows)


SIZE = rows_of([], []).itemsize  # bytes of a row


def split(rows: np.ndarray, cuts) -> list[np.ndarray]:
    return np.split(rows, sorted(cuts))


@given(
    st.lists(st.tuples(st.sampled_from([0, 1, 2, 2**63, 2**64 - 1]), st.integers(0, 9))),
    st.data(),
    st.sampled_from([1, 2, 5, 1 << 18]),
)
def test_each_user_keeps_one_of_their_own_rows(rows, data, compact_at):
    cuts = data.draw(st.lists(st.integers(0, len(rows)), max_size=5))
    owned = defaultdict(set)
    for user, cell in rows:
        owned[user].add(cell)
    names = sorted(owned)
    # Give each user cells of their own, so that the output tells them apart.
    cells = [names.index(user) * OWN + cell for user, cell in rows]
    pieces = split(rows_of([user for user, _ in rows], cells), cuts)
    kept = choose_one_per_user(pieces, SeededRandom(1), compact_at * SIZE)["cells"]
    assert kept.dtype == np.uint32
    assert sorted(kept // OWN) == list(range(len(names)))
    assert all(cell % OWN in owned[names[cell // OWN]] for cell in kept.tolist())


@given(st.lists(st.integers(0, 40), max_size=60), st.sampled_from([0, 3, 16, 48, 58]))
def test_users_whose_digests_are_all_but_alike_are_told_apart(low, shift):
    """They share slots of a table, up to the last: these differ in a few bits."""
    users = np.array(low, np.uint64) << np.uint64(shift)
    priorities = np.array(low[::-1], np.uint16) // 3
    least = {}
    for user, priority in zip(users.tolist(), priorities.tolist(), strict=True):
        least[user] = min(priority, least.get(user, priority))
    kept = one_per_user._least_per_group(users, priorities)
    attained = [
        least[user] == priority
        for user, priority in zip(users.tolist(), priorities.tolist(), strict=True)
    ]
    assert sorted(kept.tolist()) == np.flatnonzero(attained).tolist()


@given(
    st.lists(st.integers(0, 40), max_size=60), st.sampled_from([0, 3, 16, 31, 48, 58]),
    st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 1000, 2**32 - 1]),
)  # fmt: skip
def test_rows_come_by_user_and_by_what_stands_beside(low, shift, above, most):
    """Some of them differ in bits at both ends, which a word does not hold at once."""
    users = (np.array(low, np.uint64) << np.uint64(shift)) ^ np.uint64(above)
    users = np.concatenate([users, users[:7] ^ np.uint64(1 << 63), users[:3] ^ np.uint64(1)])
    beside = np.random.default_rng(users.size).integers(0, most, users.size, np.uint32, True)
    names, numbers, order = one_per_user.by_user(users, beside)
    assert order.tolist() == np.lexsort((beside, users)).tolist()
    expected, places = np.unique(users, return_inverse=True)
    assert names.tolist() == expected.tolist()
    assert numbers.tolist() == np.sort(places).tolist()


@pytest.mark.parametrize("low", [0, 1])
def test_users_whose_digests_differ_in_their_last_bits_stay_apart(low):
    """What stands beside takes these bits' place, so rows of two users lie among each other."""
    users = np.tile(np.array([0, 1 << 63, low], np.uint64), 20_000)
    beside = np.arange(users.size) % 1001
    names, numbers, order = one_per_user.by_user(users, beside)
    assert order.tolist() == np.lexsort((beside, users)).tolist()
    assert names.tolist() == [0, *[1] * low, 1 << 63]
    assert (names[numbers] == users[order]).all()


def test_different_cells_of_one_mark_that_come_in_turns_are_different():
    """A user's cells whose words come to the same when they are put together bit by bit."""
    cells = np.tile([[1, 2], [2, 1], [3, 0]], (5, 1)).astype(np.uint32)
    rows = packed(CellBlock(cells, np.repeat(np.uint64([7, 9]), [9, 6])))
    kept = choose_distinct(rows, 4, SeededRandom(1))
    chosen = [(int(row["users"]), *row["cells"].tolist()) for row in kept]
    assert sorted(chosen) == [(user, *cell) for user in (7, 9) for cell in ((1, 2), (2, 1), (3, 0))]


# ---- the choice is uniform -----------------------------------------------------------------------

ROWS = 6  # of each user
FAIR = np.full(ROWS, 1 / ROWS)
FAVOURED = np.r_[1.3, np.full(ROWS - 1, 1 - 0.3 / (ROWS - 1))] / ROWS  # the first, by 30 %
SAMPLE = sample_size(FAIR, FAVOURED)


def interleaved(users: int) -> np.ndarray:
    """Row after row of all users in turn; a cell is the place of its row among the user's."""
    return rows_of(np.tile(np.arange(users), ROWS), np.repeat(np.arange(ROWS), users))


def first(users, priorities):
    """A chooser that keeps the first row it meets."""
    return np.unique(users, return_index=True)[1]


def last(users, priorities):
    """A chooser that lets every row replace the one before."""
    return len(users) - 1 - np.unique(users[::-1], return_index=True)[1]


def sometimes_first(users, priorities):
    """A chooser that keeps the first row of one user in 17, and is fair to the others."""
    least, earliest = np.lexsort((priorities, users)), first(users, priorities)
    starts = np.unique(users[least], return_index=True)[1]
    biased = users[earliest] % np.uint64(17) == 0
    return np.where(biased, earliest, least[starts])


def chosen(rows: np.ndarray, cuts=(), seed=1, compact_at=1 << 18) -> np.ndarray:
    kept = choose_one_per_user(split(rows, cuts), SeededRandom(seed), compact_at * SIZE)
    return np.bincount(kept["cells"], minlength=ROWS)


def test_sample_size_follows_from_the_gap():
    """A row favoured by 30 % is to be seen; `sometimes_first` favours it by (6 - 1) / 17."""
    assert 5 / 17 <= 0.3
    assert 3000 < SAMPLE < 30_000


@pytest.mark.parametrize("compact_at", [1, 1000, 1 << 18])
@pytest.mark.parametrize("pieces", [1, 2, ROWS, 100])
def test_choice_is_uniform_however_the_rows_arrive(pieces, compact_at):
    rows = interleaved(SAMPLE)
    cuts = np.linspace(0, len(rows), pieces + 1)[1:-1].astype(int)
    counts = chosen(rows, cuts, pieces + compact_at, compact_at)
    assert counts.sum() == SAMPLE
    assert follows(counts, FAIR)


@pytest.mark.parametrize("biased", [first, last, sometimes_first])
def test_biased_choosers_are_caught(biased):
    with mock.patch.object(one_per_user, "_least_per_group", biased):
        counts = chosen(interleaved(int(1.1 * SAMPLE)))
    assert counts.sum() == int(1.1 * SAMPLE)
    assert not follows(counts, FAIR)


def test_a_survivor_that_draws_again_is_caught():
    """Were priorities drawn anew at each compaction, late rows would win: the classic mistake."""

    def redrawn(users, priorities):
        return fair(users, rng.words(len(users)))

    fair, rng = one_per_user._least_per_group, SeededRandom(2)
    rows = interleaved(SAMPLE)
    cuts = np.arange(1, ROWS) * SAMPLE
    with mock.patch.object(one_per_user, "_least_per_group", redrawn):
        counts = chosen(rows, cuts, compact_at=1)
    assert not follows(counts, FAIR)
    law = np.r_[2.0 ** (1 - ROWS), 2.0 ** np.arange(1 - ROWS, 0)]
    assert follows(counts, law)  # as two rows meet at each compaction, for even chances


# ---- several different rows ----------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5), st.booleans())), st.integers(1, 4),
    st.sampled_from([1, 3]),
)  # fmt: skip
def test_users_keep_different_cells_of_their_own(rows, most, width):
    """As many as they have, and no more than they may; those that do not apply are none."""
    users, cells, applies = (np.array([row[k] for row in rows]) for k in range(3))
    wide = np.repeat(cells[:, None], width, axis=1) if width > 1 else cells
    given_ = CellBlock(wide.astype(np.uint32), users.astype(np.uint64), applies.astype(np.bool_))
    kept = choose_distinct(packed(given_), most, SeededRandom(1))
    assert kept.dtype == packed(given_).dtype
    owned, chosen = defaultdict(set), defaultdict(list)
    for user, cell, holds in rows:
        if holds:
            owned[user].add(cell)
    for user, cell in zip(kept["users"].tolist(), kept["cells"].tolist(), strict=True):
        [only] = {*np.atleast_1d(cell).tolist()}
        chosen[user].append(only)
    assert chosen.keys() == owned.keys()
    for user, found in chosen.items():
        assert len(found) == len({*found}) == min(most, len(owned[user]))
        assert {*found} <= owned[user]


def test_different_cells_are_as_likely_however_often_they_stand():
    """The first cell stands three times as often as any other; two of six stay."""
    rows = np.concatenate([interleaved(SAMPLE), *[interleaved(SAMPLE)[:SAMPLE]] * 2])
    assert np.bincount(rows["cells"])[0] == 3 * SAMPLE
    kept = choose_distinct(rows, 1, SeededRandom(4))["cells"]
    assert follows(np.bincount(kept, minlength=ROWS), FAIR)
    two = np.sort(choose_distinct(rows, 2, SeededRandom(5)), order=["users", "cells"])["cells"]
    pairs = np.bincount(two[0::2] * ROWS + two[1::2], minlength=ROWS**2)
    assert follows(pairs[pairs > 0], np.full(15, 1 / 15))


def test_memory_of_different_cells_is_in_rows_and_not_in_how_many_may_stay():
    """20,000 users with a row each, and one with many, of whom 10,000 each could stay."""
    users = np.r_[np.arange(20_000), np.zeros(5_000, np.int64)]
    rows = rows_of(users, np.arange(users.size))
    tracemalloc.start()
    kept = choose_distinct(rows, 10_000, SeededRandom(1))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(kept) == len(rows)
    assert peak < 1000 * len(rows)  # a place for each that could stay takes 240,000 bytes a user


def test_users_choose_independently():
    """The joint law of two users' choices is a product: no priority serves two."""
    rows = interleaved(2 * SAMPLE)
    users = rows_of(rows["users"], rows["users"] * ROWS + rows["cells"])
    kept = np.sort(choose_one_per_user([users], SeededRandom(5))["cells"]) % ROWS
    pairs = kept[0::2] * ROWS + kept[1::2]
    assert follows(np.bincount(pairs, minlength=ROWS**2), np.full(ROWS**2, ROWS**-2.0))


@pytest.mark.parametrize("compact_at", [1, 1 << 18])
@pytest.mark.parametrize("applies", [False, True])
def test_rows_that_draw_the_same_priority_are_as_likely(compact_at, applies):
    """Of each user all rows tie, and those of every third user are all that it has."""

    class Alike(SeededRandom):
        def words(self, size):
            return super().words(size) & np.uint64((1 << 48) - 1)

    rows = interleaved(SAMPLE)
    if applies:
        given_ = CellBlock(rows["cells"], rows["users"], np.ones(rows.size, np.bool_))
        rows = packed(given_)
    single = rows["users"] % 3 == 0
    pieces = split(np.concatenate([rows[~single], rows[single][: SAMPLE // 3]]), [7, 9000])
    kept = choose_one_per_user(pieces, Alike(6), compact_at * SIZE)
    assert len({*kept["users"].tolist()}) == len(kept) == SAMPLE
    several = kept["users"] % 3 != 0
    assert follows(np.bincount(kept["cells"][several], minlength=ROWS), FAIR)


def test_memory_is_in_users_not_in_rows():
    """200,000 rows of 50 users: no compaction sees more than what waited and the users."""
    rows = rows_of(np.arange(200_000) % 50, np.zeros(200_000))
    pieces = split(rows, np.arange(100, 200_000, 100))
    seen = []

    def watched(users, priorities):
        seen.append(len(users))
        return plain(users, priorities)

    plain = one_per_user._least_per_group
    with mock.patch.object(one_per_user, "_least_per_group", watched):
        kept = choose_one_per_user(iter(pieces), SeededRandom(1), 1000 * SIZE)
    assert len(kept) == 50
    assert max(seen) <= 1000 + 100 + 50


def test_work_is_near_linear_in_users():
    """A bucket with more users than _COMPACT_AT is not sorted again for every few rows."""
    rows = rows_of(np.arange(20_000), np.zeros(20_000))
    sorted_rows = []

    def watched(users, priorities):
        sorted_rows.append(len(users))
        return plain(users, priorities)

    plain = one_per_user._least_per_group
    with mock.patch.object(one_per_user, "_least_per_group", watched):
        choose_one_per_user(iter(split(rows, range(10, 20_000, 10))), SeededRandom(1), 10 * SIZE)
    assert sum(sorted_rows) <= 5 * 20_000


# ---- rows are forgotten before they travel -------------------------------------------------------


def thinned(bundles, kept: int, seed: int, buckets: int = 4):
    """What a sender leaves of bundles of blocks: bucket -> pieces."""
    dofn = ThinUsersDoFn(buckets, partial(SeededRandom, seed), kept)
    dofn.setup()
    return grouped(drive(dofn, bundles))


def test_a_bundle_sends_one_row_of_each_user_and_says_from_how_many():
    rows = interleaved(3000)
    parts = split(rows, [7, 9000])
    blocks = [block(part["users"] << np.uint64(52), part["cells"]) for part in parts]
    pieces = thinned([blocks], 1 << 30, 1)
    assert all(len(parts) == 1 for parts in pieces.values())
    [sent] = zip(*pieces.values(), strict=True)
    assert sum(int.from_bytes(piece[:8], "big") for piece in sent) == len(rows)
    users = np.concatenate([decoded(piece[8:])["users"] for piece in sent])
    assert len(users) == len({*users.tolist()}) == 3000


def test_a_sender_holds_back_copies_and_not_slices_of_all_that_it_gathered():
    """Rows that it counts would keep alive those of all buckets, which it does not."""
    held, plain = [], Chooser.add

    def watched(self, rows, came):
        held.append(rows.base.base is None and rows.base.nbytes == rows.nbytes)
        plain(self, rows, came)

    rows = interleaved(3000)
    users = rows["users"] << np.uint64(52)
    with mock.patch.object(Chooser, "add", watched):
        thinned([[block(users, rows["cells"])]], 1 << 30, 1)
    assert len(held) > 1
    assert all(held)


@pytest.mark.parametrize("kept", [1, 1 << 17, 1 << 30])
def test_choice_is_uniform_however_much_a_sender_holds_back(kept):
    """The rows of a user are in two bundles, four in one and two in the other."""
    rows = interleaved(SAMPLE)
    with mock.patch.object(ThinUsersDoFn, "most_rows", 1 << 12):
        halves = [np.array_split(half, 9) for half in split(rows, [4 * SAMPLE])]
        bundles = [[block(part["users"], part["cells"]) for part in half] for half in halves]
        pieces = thinned(bundles, kept, 3, buckets=1)
    choose = ChooseDoFn(CellBlock, partial(SeededRandom, 4))
    choose.setup()
    chosen_block, came, went = choose.process((0, pieces[0]))
    assert (came.value, went.value) == ((BOUNDED, rows.size), (CHOSEN, SAMPLE))
    assert follows(np.bincount(chosen_block.cells, minlength=ROWS), FAIR)


def test_a_sender_holds_no_more_back_than_it_may():
    """20,000 users of a row each leave in several pieces, and nobody's row is lost."""
    held, plain = [], ThinUsersDoFn.gathered

    def watched(self):
        yield from plain(self)
        held.append(sum(chooser.size for chooser in self._choosers.values()))

    users = np.arange(20_000, dtype=np.uint64) << np.uint64(49)
    blocks = [block(part, np.zeros(part.size)) for part in np.array_split(users, 40)]
    with (
        mock.patch.object(ThinUsersDoFn, "gathered", watched),
        mock.patch.object(ThinUsersDoFn, "most_rows", 1000),
    ):
        pieces = thinned([blocks], 50_000, 5)
    assert 0 < max(held) < 50_000
    sent = [decoded(piece[8:]) for parts in pieces.values() for piece in parts]
    assert sum(len(rows) for rows in sent) == 20_000


# ---- across blocks, bundles, files and windows ---------------------------------------------------


def test_all_rows_of_a_user_meet_in_one_bucket():
    """Every user is in four bundles, of 500, 333 or 334, 200, and 142 or 143 rows."""
    users = UserDigest("user", 7)(pa.array(range(1000)))
    dofn = PartitionUsersDoFn(64)
    parts = [users[i::k] for k in (2, 3, 5, 7) for i in range(k)]
    bundles = [[block(part, np.zeros(len(part)))] for part in parts]
    buckets = defaultdict(set)
    for bucket, pieces in grouped(drive(dofn, bundles)).items():
        assert 0 <= bucket < 64
        for user in np.concatenate([decoded(p) for p in pieces])["users"].tolist():
            buckets[user].add(bucket)
    assert len(buckets) == 1000
    assert set(map(len, buckets.values())) == {1}
    assert len(set.union(*buckets.values())) == 64


@pytest.mark.parametrize("buckets", [1, 3, 65536])
def test_bucket_numbers_span_their_range(buckets):
    rows = rows_of([0, 2**63, 2**64 - 1], [0, 0, 0])
    ends = PartitionUsersDoFn(buckets).assign(rows).tolist()
    assert ends == [0, buckets // 2, buckets - 1]


def test_rows_of_a_user_in_several_files_and_row_groups_leave_one_value(tmp_path):
    """And the choice between files is as fair as within one."""
    for file in range(ROWS):
        users = np.roll(np.arange(SAMPLE), file * 1000)
        table = pa.table({"user": users, "value": np.full(SAMPLE, file)})
        pq.write_table(table, tmp_path / f"{file}.parquet", row_group_size=3000)

    encoder = ValueEncoder("value", IntegerRange(0, ROWS - 1))

    def build(pipeline):
        return (
            pipeline
            | ReadTelemetry((str(tmp_path / "*.parquet"),), ("user", "value"))
            | EncodeContributions(encoder, UserDigest("user", 3), 8, partial(SeededRandom, 11))
        ).blocks

    blocks = run(build).elements
    assert len(blocks) == 8
    assert all(b.users is None for b in blocks)
    counts = np.bincount(np.concatenate([b.cells for b in blocks]), minlength=ROWS)
    assert counts.sum() == SAMPLE
    assert follows(counts, FAIR)


@pytest.mark.parametrize("kind", ["numbers", "texts"])
def test_a_user_is_one_however_the_columns_of_files_are_typed(kind):
    """30 users in a file of each width, sign, layout and dictionary: 30 rows are left."""
    tables = [pa.table({"user": column, "value": [0] * 30}) for column in stored(30)[kind]]
    encoder = ValueEncoder("value", IntegerRange(0, 1))
    step = EncodeContributions(encoder, UserDigest("user", 3), 8)
    outcome = run(lambda p: (p | source(tables, pa.Table) | step).blocks)
    assert len(tables) >= 10
    assert sum(each.size for each in outcome.elements) == 30


@pytest.mark.parametrize("buckets", [2, 128])
def test_one_value_per_user_and_window(buckets):
    blocks = [block([1, 1, 2], [10, 11, 20]), block([1, 2], [12, 21]), block([2, 3], [22, 30])]

    def build(pipeline):
        windowed = (
            pipeline
            | source(blocks, CellBlock, spread=6)  # at 0, 6 and 12 seconds
            | beam.WindowInto(FixedWindows(10))
        )
        return (windowed | BoundContributions(buckets=buckets)).blocks

    users = Counter()
    for kept in run(build).kept:
        assert window_end(kept)
        users.update((int(kept.window.start), cell // 10) for cell in kept.element.cells.tolist())
    assert users == {(0, 1): 1, (0, 2): 1, (10, 2): 1, (10, 3): 1}


def test_no_rows_no_values():
    assert choose_one_per_user([rows_of([], [])], SeededRandom(1)).size == 0
    nothing = run(lambda p: (p | source([], CellBlock) | BoundContributions()).blocks)
    assert nothing.elements == []


def test_workers_choose_with_their_own_randomness():
    dofns = [ChooseDoFn(CellBlock, SecureRandom) for _ in range(2)]
    rows = counted(interleaved(100), interleaved(100).size)
    choices = []
    for dofn in dofns:
        dofn.setup()
        chosen_block, came, went = dofn.process((0, [rows]))
        assert came.value == (BOUNDED, interleaved(100).size)
        assert went.value == (CHOSEN, chosen_block.size)
        choices.append(chosen_block.cells.tolist())
    assert choices[0] != choices[1]


# ---- rows of several cells, numbers and categories -----------------------------------------------


def whole_rows(users, numbers) -> RowBlock:
    categories = np.arange(len(numbers), dtype=np.int32)[:, None]
    return RowBlock(np.asarray(numbers, np.float32), categories, np.array(users, np.uint64))


def several_cells(users, numbers) -> CellBlock:
    return CellBlock(np.asarray(numbers, np.int64).astype(np.uint32), np.array(users, np.uint64))


@pytest.mark.parametrize("make", [whole_rows, several_cells])
def test_rows_of_every_kind_stay_whole(make):
    """Each user keeps one row, all of whose entries are its own."""
    users = np.array([0, 1, 2**63, 2**64 - 1], np.uint64)
    blocks = [make(users, [[10 * u + row, 99 - row] for u in range(4)]) for row in range(7)]
    partition, choose = ThinUsersDoFn(3, SecureRandom), ChooseDoFn(type(blocks[0]), SecureRandom)
    partition.setup()
    choose.setup()
    groups = grouped(drive(partition, [blocks[:5], blocks[5:]]))
    chosen = [next(choose.process(group)) for group in groups.items()]
    assert all(block.users is None for block in chosen)
    first, second = np.concatenate([block[0] for block in chosen]).astype(int).T
    assert sorted(first // 10) == [0, 1, 2, 3]
    assert (first % 10 == 99 - second).all()
    assert {*type(blocks[0])._fields} == {*chosen[0]._fields}


def test_cells_travel_as_narrow_as_those_of_their_bundle_and_come_back_wide():
    users = np.arange(3, dtype=np.uint64) << np.uint64(60)
    cells = [[1, 2, 255], [256, 3, 4], [1 << 20, 1 << 31, 2**32 - 1]]
    # A piece of the first says before its rows of how many they were chosen.
    for partition, before in ((ThinUsersDoFn(1, SecureRandom), 8), (PartitionUsersDoFn(1), 0)):
        partition.setup()
        bundles = [[block(users + np.uint64(i), some)] for i, some in enumerate(cells)]
        [pieces] = grouped(drive(partition, bundles)).values()
        widths = [decoded(piece[before:])["cells"].itemsize for piece in pieces]
        assert widths == [1, 2, 4]
    distinct = ChooseDoFn(CellBlock, SecureRandom, distinct=2)
    distinct.setup()
    for some in (pieces[:1], pieces):  # of one width, and of all
        chosen, *_ = distinct.process((0, some))
        assert chosen.cells.dtype == np.uint32
        assert sorted(chosen.cells.tolist()) == sorted(np.ravel(cells[: len(some)]).tolist())


def test_numbers_travel_in_four_bytes_where_none_loses_by_it_and_come_back_in_eight():
    users, partition = np.arange(2, dtype=np.uint64), PartitionUsersDoFn(1)
    numbers = [[-3.0, 2.0**24], [0.5, 2.0**24 + 1], [0.1, 7.0], [1e300, 1.0], [math.nan, 1.0]]
    blocks = [AmountBlock(np.zeros(2, np.uint32), np.array(two), users) for two in numbers]
    [pieces] = grouped(drive(partition, [[one] for one in blocks])).values()
    rows = [decoded(piece) for piece in pieces]
    assert [one["amounts"].itemsize for one in rows] == [4, 8, 8, 8, 8]
    for some in (rows[:1], rows):  # of one width, and of both
        amounts = unpacked(AmountBlock, concatenated(some)).amounts
        assert amounts.dtype == np.float64
        np.testing.assert_array_equal(amounts, np.ravel(numbers[: len(some)]))


@pytest.mark.parametrize("buckets", [7, 256])
def test_users_are_bounded_across_blocks_in_a_pipeline(buckets):
    """In buckets that are grouped at once, and in more of them, which are grouped in parts."""
    restart(5)
    users = np.arange(40, dtype=np.uint64) * np.uint64(2**64 // 40)
    blocks = [whole_rows(users, [[k, i] for k in range(40)]) for i in range(5)]
    bound = BoundContributions(RowBlock, buckets, fresh_stream)
    chosen = run(lambda p: (p | source(blocks, RowBlock) | bound).blocks).elements
    rows = np.concatenate([block.numbers for block in chosen])
    assert sorted(rows[:, 0].tolist()) == list(range(40))
    assert len(set(rows[:, 1].tolist())) > 1


def test_rows_that_are_lost_in_a_part_are_missed():
    """What each part counts is added up: all rows came, and one of each user went."""
    users = np.arange(40, dtype=np.uint64) * np.uint64(2**64 // 40)
    blocks = [block(users, np.full(40, i)) for i in range(3)]
    flow = run(lambda p: (p | source(blocks, CellBlock) | BoundContributions(buckets=128)).flow)
    totals = Counter()
    for name, amount in flow.elements:
        totals[name] += amount
    assert totals == {BOUNDED: 120, CHOSEN: 40}


def test_rows_without_users_cannot_be_bounded():
    with pytest.raises(ValueError, match="without users"):
        list(PartitionUsersDoFn(3).rows(block([1], [0])._replace(users=None)))
