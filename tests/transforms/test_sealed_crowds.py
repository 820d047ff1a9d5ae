"""Crowds of seals: equal ones are counted, each once a report, and what passes can be opened."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from scipy import stats

from mechanisms.heavy_hitters.crowds import Crowds, PublishedCrowds
from mechanisms.randomness import SeededRandom
from mechanisms.wire.oblivious import Evaluator
from mechanisms.wire.report import SEALED, Form, Reports
from mechanisms.wire.sealing import KeyRing, key_id
from mechanisms.wire.strings import NULL, seal_strings, seals_of, string_inputs
from tests.oracles.statistics import FALSE_ALARM
from tests.oracles.transforms import fresh_stream, restart, run, source
from transforms.encoders.block import CellBlock
from transforms.encoders.strings import gathered, possible, texts_of, width_of, words_of
from transforms.shuffle.crowds import Crowded
from transforms.shuffle.sealed_crowds import CountSeals, OpenCrowds

PLAN, PLACE, STRINGS, MOST = bytes(range(16)), 1, 2, 6
KEY = X25519PrivateKey.from_private_bytes(bytes([1]) * 32)
PARTY, OTHER_PARTY = (Evaluator(bytes([i]) * 32, b"hushbeam strings") for i in (0, 1))
CROWDS = Crowds.meeting(STRINGS, "add or remove", epsilon=1.0, delta=1e-4)
SIZE = seals_of(width_of(MOST))
FORM = Form(sealed=True, slots=STRINGS * SIZE)
HANDED = Form(sealed=True, shuffled=True, slots=SIZE + 1, crowd=True)  # another metric's are longer


def open_ring() -> KeyRing:
    return KeyRing([KEY])


def words(*values: str | None) -> np.ndarray:
    """Strings as words; an empty slot of none."""
    rows = words_of(pa.array([value or "" for value in values], pa.large_string()), MOST)
    rows[[value is None for value in values], 0] = NULL
    return rows


def reports(*held: tuple[str | None, ...], ids: Any = None, party: Evaluator = PARTY) -> Reports:
    rows = words(*(value for one in held for value in one)).reshape(len(held), STRINGS, -1)
    named = SeededRandom(7).words(2 * len(held)).reshape(-1, 2) if ids is None else ids
    return sealed(rows, named, party)


def sealed(rows: np.ndarray, ids: Any, party: Evaluator = PARTY) -> Reports:
    """Strings as clients seal them."""
    key = KEY.public_key()
    outputs = {plain: party.output(plain) for plain in string_inputs(PLAN, PLACE, rows, key)}
    return seal_strings(PLAN, PLACE, rows, ids, outputs, key)


def counted(*blocks: Reports) -> tuple[Reports, int, list[int]]:
    """What is handed on, how many reports there are, and the numbers of what is not."""

    def build(pipeline: beam.Pipeline) -> beam.PCollection:
        step = CountSeals(PLAN, PLACE, CROWDS, FORM, HANDED, 5, fresh_stream)
        once, seals = pipeline | source(blocks, Reports) | step
        parts = {"sent": seals.reports, "once": once.reports, "lost": seals.dropped}
        return (
            tuple(
                part | name >> beam.Map(lambda item, name=name: (name, item))
                for name, part in parts.items()
            )
            | beam.Flatten()
        )

    restart(3)
    found: dict[str, list[Any]] = {"sent": [], "once": [], "lost": []}
    for name, item in run(build).elements:
        found[name].append(item)
    (sent,) = found["sent"]
    return sent, sum(map(len, found["once"])), found["lost"]


def opened(*crowds: Reports) -> Crowded:
    step = OpenCrowds(width_of(MOST), open_ring)
    [crowded] = run(lambda pipeline: pipeline | source(crowds, Reports) | step).elements
    return crowded


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """No noise, and a threshold of 2."""

    def publish(self: Crowds, sizes: np.ndarray, rng: Any) -> PublishedCrowds:
        return PublishedCrowds(sizes > 2, sizes)

    monkeypatch.setattr(Crowds, "publish", publish)


@pytest.mark.usefixtures("exact")
def test_equal_seals_are_counted_and_small_crowds_end_there() -> None:
    held = [("a", "b")] * 3 + [("c", "a"), ("b", None), (None, None), ("rare", "d"), ("d", "d")]
    again = reports(("a", "b"), ids=np.zeros((2, 2), np.uint64)[:1])
    twice = Reports(PLAN, FORM, np.concatenate([again.records, again.records]))
    other = Reports(PLAN, FORM, reports(("c", "c")).records)
    other.records["metric"] = 0
    sent, once, lost = counted(reports(*held), twice, other)
    assert once == len(held) + 1
    assert sent.form == HANDED
    crowded = opened(sent)
    texts, whole = texts_of(crowded.strings)
    found = dict(zip(texts, crowded.values.tolist(), strict=True))
    assert (found, whole.all()) == ({"a": 5, "b": 5}, True)
    # All seals of the reports that count, less what is handed on.
    assert sum(lost) == STRINGS * once - len(sent)
    # "d" is there twice in one report, which counts once: two hold it, and not three.


@pytest.mark.usefixtures("exact")
def test_what_a_liar_seals_is_dropped_and_a_string_has_one_row() -> None:
    padded = words("a")
    padded[0, -1] |= 1 << 24
    bad = words("b")
    bad[0, 0] = 4 * MOST
    ids = SeededRandom(9).words(24).reshape(-1, 2)
    forged = [np.repeat(row[None, None], STRINGS, axis=1) for row in (*padded, *bad)]
    blocks = [
        sealed(np.repeat(rows, 3, axis=0), ids[3 * k : 3 * k + 3]) for k, rows in enumerate(forged)
    ]
    noise = Reports(PLAN, FORM, reports(*[("x", "x")] * 3, ids=ids[6:9]).records.copy())
    noise.records["sealed"] = 7
    mine = reports(*[("a", None)] * 4, ids=ids[9:12].repeat([2, 1, 1], axis=0))
    theirs = reports(*[("a", None)] * 5, party=OTHER_PARTY)
    sent, _, _ = counted(*blocks, noise, mine, theirs)
    assert len(sent) == 5
    crowded = opened(sent)
    assert texts_of(crowded.strings)[0] == ["a"]
    assert crowded.values.tolist() == [5]  # the largest of its two crowds
    assert crowded.messages == len(sent)


@pytest.mark.verify
def test_what_passes_has_the_law_of_one_job() -> None:
    """Of 3,000 crowds of one size how many pass, and their numbers' mean: false alarms 1e-9."""
    n, size = 3000, CROWDS.threshold
    rng = np.random.default_rng(5)
    seals = rng.integers(0, 256, (n, SIZE * SEALED), np.uint8)  # to a shuffler all are noise
    records = FORM.empty(n // STRINGS * size)
    records["metric"], records["key_id"] = PLACE, int.from_bytes(key_id(KEY.public_key()), "little")
    records["report_id"] = SeededRandom(8).words(2 * records.size).reshape(-1, 2)
    records["sealed"] = np.tile(seals.reshape(n // STRINGS, FORM.slots, SEALED), (size, 1, 1))
    blocks = [Reports(PLAN, FORM, part) for part in np.array_split(rng.permutation(records), 7)]
    sent, _, lost = counted(*blocks)
    chance = CROWDS.chances([size])[0]
    law = stats.binom(n, chance)
    assert law.ppf(FALSE_ALARM / 4) <= len(sent) <= law.isf(FALSE_ALARM / 4)
    values = sent.records["value"].astype(float)
    assert values.min() > CROWDS.threshold
    spread = CROWDS.law.mu / 2 / np.sqrt(len(sent))  # values lie within mu of each other
    due = size + CROWDS.too_large(size)
    assert abs(values.mean() - due) < spread * stats.norm.isf(FALSE_ALARM / 4)
    assert sum(lost) == n * size - len(sent)
    # By a channel of a third more noise the same test would fail.
    assert not law.ppf(FALSE_ALARM / 4) <= 1.3 * chance * n <= law.isf(FALSE_ALARM / 4)


def test_nobody_reports_and_nothing_passes() -> None:
    crowded = opened()
    assert (crowded.strings.shape, crowded.messages) == ((0, width_of(MOST)), 0)


# ---- what units send -----------------------------------------------------------------------------


def test_strings_of_a_unit_lie_in_any_slot_of_its_one_report() -> None:
    cells = words(*"abcdefg")
    users = np.array([9, 4, 9, 9, 4, 7, 4], np.uint64)
    applies = np.array([1, 1, 1, 1, 1, 0, 1], bool)
    orders = set()
    for seed in range(200):
        block = gathered(CellBlock(cells, users, applies), 4, SeededRandom(seed))
        assert (block.words.shape, block.users.tolist()) == ((2, 4, cells.shape[1]), [4, 9])
        empty = block.words[:, :, 0] == NULL
        held = [{*texts_of(row[~none])[0]} for row, none in zip(block.words, empty, strict=True)]
        assert held == [{*"beg"}, {*"acd"}]
        orders.add(tuple(np.flatnonzero(empty)))
    assert len(orders) == 16  # each of four slots of either is the empty one at times
    rows = gathered(CellBlock(cells, None, applies), 1, SeededRandom(1))
    assert (len(rows.words), rows.users) == (6, None)
    assert len(gathered(CellBlock(cells[:0], users[:0]), 3, SeededRandom(1)).words) == 0


def test_what_no_string_is() -> None:
    good = words("", "abc", "abcdef", "longer than it is", "日本")
    assert possible(good).all()
    bad = words("abc", "abc", None, "abcdef")
    bad[0, 0], bad[1, 2], bad[3, 0] = 2, 1, 4 * MOST
    assert not possible(bad).any()
