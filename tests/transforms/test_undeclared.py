"""What units add to groups that nobody declared: held to dictionaries, row by row."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import product

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.testing.test_pipeline import TestPipeline
from apache_beam.testing.util import assert_that

from mechanisms.counters.amounts import WholeAmounts, WholeEnds
from mechanisms.counters.levels import Portion
from mechanisms.heavy_hitters.group_selection import GroupSelection
from mechanisms.randomness import SeededRandom
from mechanisms.sampling.exact_geometric import ExactGeometric
from transforms.encoders.block import SlotBlock
from transforms.encoders.encoder import Rows
from transforms.encoders.reports import Clip
from transforms.encoders.undeclared import (
    GroupSums,
    UndeclaredGroups,
    as_numbers,
    is_group,
    summed,
)
from transforms.shuffle.groups import PublishGroups

MOST = 3


def design(most: int = MOST, parts: tuple[Portion, ...] = (), rows: int = 1) -> GroupSelection:
    return GroupSelection.meeting(most, "add or remove", 2.0, 1e-3, parts, rows)


def made(users: int = 60, seed: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(users, groups, numbers) of rows, of up to six groups a user."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 12, users)
    owner = np.repeat(np.arange(users), rows)
    groups = rng.integers(0, 6, owner.size) + owner % 3
    return owner, groups, rng.integers(0, 9, owner.size).astype(float)


def table(sums: GroupSums, rows: tuple[np.ndarray, ...], seed: int = 1) -> dict[int, list[int]]:
    """group -> (weight, totals)."""
    users, groups, numbers = rows
    cells = np.stack([groups, groups], axis=1).astype(np.uint32)
    n = int(users.max()) + 1
    words = sums.table(users, cells, numbers, n, SeededRandom(seed))
    assert (words[:, 0] == words[:, 1]).all()
    found = as_numbers(words, sums.numbers)
    assert (found[:, 0] == 1).all()
    return dict(zip(words[:, 0].tolist(), found[:, 1:].tolist(), strict=True))


def test_weights_and_counts_of_users_who_have_few() -> None:
    users, groups, _ = made()
    few = groups % MOST
    sums = GroupSums(design(parts=(Portion(1, 0, 2),)), WholeAmounts(99, MOST, 2))
    have, rows = defaultdict(set), Counter(zip(users.tolist(), few.tolist(), strict=True))
    for user, group in rows:
        have[user].add(group)
    expected: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for (user, group), times in rows.items():
        expected[group][0] += int(sums.design.weights([len(have[user])])[0])
        expected[group][1] += min(times, 2)
    assert table(sums, (users, few, None)) == expected


@pytest.mark.parametrize("seed", range(3))
def test_no_user_has_more_groups_than_are_paid_for(seed: int) -> None:
    """Each user alone: its weights, and its totals, are those of so many groups at the most."""
    users, groups, numbers = made()
    spent = Counter[int]()
    for user in range(users.max() + 1):
        own = users == user
        rows = users[own] * 0, groups[own], numbers[own]
        sums = GroupSums(
            design(parts=(Portion(1, 0, 5),)), WholeAmounts(99, MOST, 5), Clip(0.0, 5.0, 5)
        )
        found = table(sums, rows, seed)
        different = np.unique(rows[1]).size
        assert len(found) == min(different, MOST)
        spent[len(found)] += 1
        assert sum(weight for weight, _ in found.values()) <= sums.design.grid * len(found) ** 0.5
        for group, (_, total) in found.items():
            assert total == min(rows[2][rows[1] == group].sum(), 5)
    assert spent[MOST] > 5


@pytest.mark.parametrize("rows", [1, 4])
def test_rows_that_count_for_themselves_are_as_many_as_are_paid_for(rows: int) -> None:
    users, groups, numbers = made()
    part = Portion(1, 0, 6)
    sums = GroupSums(
        design(rows, (part,), rows), WholeAmounts(99, 1, 6), Clip(0.0, 6.0, 6), rows=rows
    )
    for user in range(users.max() + 1):
        own = users == user
        found = table(sums, (users[own] * 0, groups[own], numbers[own] * 0 + 9))
        came = min(int(own.sum()), rows)
        assert sum(total for _, total in found.values()) == 6 * came  # each of them is clipped
        weight = int(sums.design.weights([len(found)])[0])
        assert {one for one, _ in found.values()} == {weight}


def test_means_are_of_averages_from_both_ends_and_rows_without_a_number_are_none() -> None:
    users, groups = np.array([0, 0, 0, 1, 2]), np.array([1, 1, 2, 1, 3])
    numbers = np.array([2.0, 4.0, 9.0, np.nan, np.nan])
    sums = GroupSums(design(parts=(Portion(2, 0, 8),)), WholeEnds(9, 3, 8), Clip(0, 8, 8, 0), True)
    found = {group: totals for group, (_, *totals) in table(sums, (users, groups, numbers)).items()}
    assert found == {1: [3, 5], 2: [8, 0]}


def test_values_of_several_columns_come_back_as_they_were() -> None:
    towns, days = ["Zürich", None, "", "x" * 80, "Zürich"], [None, 7, -3, 0, None]
    batch = pa.record_batch({"town": towns, "day": days})
    encoder = UndeclaredGroups(by=("town", "day"))
    words = encoder.encode(batch, Rows(5), SeededRandom(0)).cells
    assert words.shape == (5, encoder.width)
    texts = [None if day is None else str(day) for day in days]
    assert encoder.labels(words) == [[*towns[:3], "x" * 64 + "…", "Zürich"], texts]
    whole = summed(np.concatenate([words, np.ones((5, 2), np.uint32)], axis=1), 1)
    assert len(whole) == 4


def test_groups_are_of_types_whose_values_are_told_apart() -> None:
    for kind in (
        pa.string(),
        pa.int8(),
        pa.bool_(),
        pa.date32(),
        pa.dictionary(pa.int8(), pa.string()),
    ):
        assert is_group(kind)
    for kind in (pa.float64(), pa.list_(pa.int8()), pa.timestamp("us")):
        assert not is_group(kind)


@pytest.mark.parametrize("empty", [False, True])
def test_equal_groups_meet_whatever_blocks_they_came_in(empty: bool) -> None:
    """With a noise that is 0 but once in e^40: all that came is published, the largest first."""
    still = ExactGeometric(40, 1)
    exact = GroupSelection(
        1, still, 30, (Portion(1, 0, 9),), (still,), 1, "add or remove", 60.0, 0.5
    )
    blocks, known = [], Counter[int]()
    for block, group in product(range(5), range(9)):
        weight = 3 * group + block
        known[group] += weight
        numbers = np.array([[1, weight, 2 * weight]], np.int64).view(np.uint32)
        blocks.append(SlotBlock(np.append(np.uint32([group, 7]), numbers[0])[None, :], None))
    expected = sorted(((w, g) for g, w in known.items() if w > 30), reverse=True)

    def check(found: list) -> None:
        [one] = found
        if empty:
            assert (one.groups.shape, one.messages, one.totals.shape) == ((0, 2), 0, (0, 1))
            return
        assert [*zip(one.weights.tolist(), one.groups[:, 0].tolist(), strict=True)] == expected
        assert one.totals[:, 0].tolist() == [2 * w for w, _ in expected]
        assert one.messages == len(blocks)

    with TestPipeline() as pipeline:
        came = pipeline | beam.Create([] if empty else blocks).with_output_types(SlotBlock)
        step = PublishGroups(exact, 2, 4, _seeded, None, 3)
        assert_that(came | step, check)


def _seeded() -> SeededRandom:
    return SeededRandom(8)
