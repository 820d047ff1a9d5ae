"""Strings of users: each travels once, and a user counts for as many as it may, and no others."""

from __future__ import annotations

from collections import Counter

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import FixedWindows

from tests.oracles.statistics import follows, sample_size, tilted
from tests.oracles.transforms import drive, fresh_stream, grouped, restart, run, source, window_end
from transforms.elements.conservation import BOUNDED, CHOSEN, LostError
from transforms.encoders.block import CellBlock, PooledBlock
from transforms.encoders.strings import texts_of, width_of, words_of
from transforms.units.strings import (
    BoundStrings,
    PartitionStringDigestsDoFn,
    PoolDoFn,
    SpellDoFn,
    StringDigest,
)

MOST = 21
WIDTH = width_of(MOST)
TEXTS = [
    "",
    "a",
    "a\0",
    "four",
    "five5",
    "eight888",
    "x" * MOST,
    "longer than may be looked at",
    "ü",
]
DIGEST = StringDigest((5, 6))


def words(texts: list[str]) -> np.ndarray:
    return words_of(pa.array(texts, pa.large_string()), MOST)


def pooled(held: list[tuple[int, int]], applies: np.ndarray | None = None) -> PooledBlock:
    """Rows of (user, which of TEXTS); the pool has all of these, and none twice."""
    users, cells = np.array(held).reshape(-1, 2).T
    return PooledBlock(cells.astype(np.uint32), words(TEXTS), users.astype(np.uint64), applies)


def spelt(blocks: list[PooledBlock]) -> Counter[str]:
    """How many rows hold each string."""
    seen: Counter[str] = Counter()
    for block in blocks:
        assert block.users is None
        pool, times = block.counted
        assert len(pool) == len(block.pool)  # no string that no user chose
        seen.update(dict(zip(texts_of(pool)[0], times.tolist(), strict=True)))
    return seen


def held(seed: int, rows: int, users: int) -> list[tuple[int, int]]:
    rng = np.random.default_rng(seed)
    names = rng.integers(0, 1 << 62, users) * 4  # spread over all buckets
    chosen = zip(rng.integers(0, users, rows), rng.integers(0, len(TEXTS) - 1, rows), strict=True)
    return [(int(names[user]), int(text)) for user, text in chosen]


def shown(text: int) -> str:
    return texts_of(words([TEXTS[text]]))[0][0]


@pytest.mark.parametrize("buckets", [1, 7, 128])
@pytest.mark.parametrize("most_rows", [5, 1 << 20])
def test_each_different_string_of_a_user_counts_once(
    buckets: int, most_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it is held, in however many blocks, gathered together or a few at a time."""
    monkeypatch.setattr(PartitionStringDigestsDoFn, "most_rows", most_rows)
    rows = held(1, 400, 30)
    blocks = [pooled(rows[start : start + 100]) for start in range(0, 400, 100)]
    bound = BoundStrings(WIDTH, len(TEXTS), buckets, fresh_stream)
    restart(3)
    made = run(lambda p: (p | source(blocks, PooledBlock) | bound).blocks).elements
    assert spelt(made) == Counter(shown(text) for _, text in {*rows})


def test_rows_are_conserved_and_a_user_has_no_more_strings_than_it_may() -> None:
    rows, k = held(2, 300, 40), 2
    bound = BoundStrings(WIDTH, k, 4, fresh_stream)
    different = Counter(user for user, _ in {*rows})
    chosen = sum(min(k, size) for size in different.values())
    restart(4)
    blocks = [pooled(rows[:150]), pooled(rows[150:])]

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        made = pipeline | source(blocks, PooledBlock) | bound
        sizes = made.blocks | beam.Map(lambda block: ("size", block.size))
        return (sizes, made.flow) | beam.Flatten()

    counted: Counter[str] = Counter()
    for name, amount in run(build).elements:
        counted[name] += amount
    assert counted == {"size": chosen, BOUNDED: len(rows), CHOSEN: chosen}


def test_each_string_of_a_user_is_as_likely_however_often_it_is_held() -> None:
    users = 20_000
    rows = [(user << 48, text) for user in range(users) for text in (1, 3, 3, 3, 5)]
    restart(5)
    bound = BoundStrings(WIDTH, 1, 16, fresh_stream)
    seen = spelt(run(lambda p: (p | source([pooled(rows)], PooledBlock) | bound).blocks).elements)
    law, counts = np.full(3, 1 / 3), np.array([seen[TEXTS[text]] for text in (1, 3, 5)])
    # `follows` has a false alarm rate below 1e-9; there are more users than 30 % takes to be seen.
    assert counts.sum() == users >= sample_size(law, tilted(law))
    assert follows(counts, law)
    assert not follows(np.array([users / 5, users * 3 / 5, users / 5]), law)


def test_rows_for_which_not_all_holds_are_left_out() -> None:
    rows = [(1 << 60, 1), (1 << 60, 3), (2 << 60, 3)]
    block = pooled(rows, np.array([False, True, True]))
    bound = BoundStrings(WIDTH, 3, 2, fresh_stream)
    made = run(lambda p: (p | source([block], PooledBlock) | bound).blocks).elements
    assert spelt(made) == {TEXTS[3]: 2}


def test_strings_stay_in_their_windows() -> None:
    """Of three blocks, at 0, 6 and 12 seconds, two are in one window."""
    blocks = [pooled([(7 << 60, text)]) for text in (1, 3, 3)]
    bound = BoundStrings(WIDTH, 3, 2, fresh_stream)

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        rows = pipeline | source(blocks, PooledBlock, spread=6) | beam.WindowInto(FixedWindows(10))
        return (rows | bound).blocks

    seen: dict[int, Counter[str]] = {0: Counter(), 10: Counter()}
    for kept in run(build).kept:
        assert window_end(kept)
        seen[int(kept.window.start)] += spelt([kept.element])
    assert seen == {0: {TEXTS[1]: 1, TEXTS[3]: 1}, 10: {TEXTS[3]: 1}}


def test_no_rows_are_no_strings() -> None:
    bound = BoundStrings(WIDTH, 1, 2, fresh_stream)
    assert run(lambda p: (p | source([], PooledBlock) | bound).blocks).elements == []


def pieces(texts: list[str]) -> list[bytes]:
    """What one bucket is sent of strings, each in a block of its own."""
    split = PoolDoFn(1, DIGEST)
    blocks = [[PooledBlock(np.zeros(1, np.uint32), words([text]))] for text in texts]
    sent = [
        made.value for made in drive(split, blocks) if isinstance(made, beam.pvalue.TaggedOutput)
    ]
    return grouped(sent)[0]


def numbers(texts: list[str]) -> list[bytes]:
    """What it is sent of those that users chose."""
    digests = CellBlock(DIGEST(words(texts)), None)
    return grouped(drive(PartitionStringDigestsDoFn(1), [[digests]]))[0]


def test_strings_are_spelt_from_whichever_piece_has_them() -> None:
    sent = [*pieces(TEXTS[:6]), *numbers(["a", "four", "a"]), *pieces(["a"]), *numbers(["four"])]
    assert spelt([*SpellDoFn(WIDTH).process((0, sent))]) == {"a": 2, "four": 2}
    # Strings are sent without the words that none of their piece needs.
    assert len(pieces(["a"])[0]) < len(pieces(["eight888"])[0]) < len(pieces(["x" * MOST])[0])


def test_a_string_that_an_engine_loses_is_missed() -> None:
    with pytest.raises(LostError):
        [*SpellDoFn(WIDTH).process((0, [*numbers(["a", "four"]), *pieces(["a"])]))]


def test_digests_tell_all_strings_apart() -> None:
    """Also those that differ in where zeros stand, or in being cut; whatever the width is."""
    zeros = [("\0" * k + "b" + "\0" * (20 - k)) for k in range(21)]
    others = ["b", "b\0", "x" * MOST, "x" * (MOST + 1), *(f"word-{i}" for i in range(50_000))]
    strings = words([*TEXTS[:6], *zeros, *others])
    digests = DIGEST(strings)
    assert digests.shape == (len(strings), 3)
    for some in (digests, digests[:, :2]):
        assert len(np.unique(some, axis=0)) == len(strings)
    wider = np.concatenate([strings, np.zeros((len(strings), 3), np.uint32)], axis=1)
    np.testing.assert_array_equal(DIGEST(wider), digests)
    keyed = StringDigest((5, 7))(strings), StringDigest((4, 6))(strings)
    # Either key counts: what follows from the first 64 bits, and from the last 32.
    assert (keyed[0][:, :2] == digests[:, :2]).all()
    assert (keyed[0][:, 2] == digests[:, 2]).mean() < 0.01
    assert (keyed[1][:, 2] == digests[:, 2]).all()
    assert (keyed[1][:, :2] == digests[:, :2]).mean() < 0.01
    assert {*StringDigest.fresh().keys} != {*StringDigest.fresh().keys}
