"""Perturbation: every cell through its own noise, and nothing but messages goes on."""

from __future__ import annotations

import pickle

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms.window import FixedWindows

from mechanisms import catalog
from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.mean.two_point import duchi
from mechanisms.papers.meanest import Meanest
from mechanisms.randomness import SecureRandom
from mechanisms.vector.mixed_rows import MixedRows
from tests.oracles.statistics import follows, sample_size, tilted
from tests.oracles.transforms import fresh_stream, restart, run, source
from transforms.elements.conservation import PERTURBED, SENT, Batches, summed
from transforms.elements.progress import REPORTS
from transforms.encoders.block import CellBlock, RowBlock
from transforms.encoders.domain import IntegerRange
from transforms.encoders.values import ValueEncoder
from transforms.rows.encode import Encode, EncodeDoFn
from transforms.rows.perturb import Perturb, PerturbAndCount, PerturbDoFn
from transforms.shuffle.shuffle import DrawBucketsDoFn, OrderDoFn
from transforms.units.contributions import ChooseDoFn, ThinUsersDoFn

GRR = catalog.build("grr", epsilon=1.0, domain_size=4)


def cells(values, users=None) -> CellBlock:
    return CellBlock(np.array(values, np.uint32), users)


def test_messages_follow_the_channel_of_each_cell():
    restart(1)
    laws = [GRR.channel(cell) for cell in range(4)]
    n = max(sample_size(law, tilted(law)) for law in laws)
    blocks = [cells(np.full(n, cell)) for cell in range(4)]
    outcome = run(lambda p: p | source(blocks, CellBlock) | Perturb(GRR, fresh_stream))
    assert outcome.counters == {REPORTS: 4 * n}
    for law, messages in zip(laws, outcome.elements, strict=True):
        assert messages.dtype == np.uint64
        assert follows(GRR.count(messages), law)
        assert not follows(GRR.count(messages), tilted(law))


def test_several_cells_of_a_row_are_several_messages_of_a_user():
    block = CellBlock(np.arange(6, dtype=np.uint32).reshape(3, 2) % 4, None)
    outcome = run(lambda p: p | source([block], CellBlock) | Perturb(GRR, fresh_stream))
    assert [messages.shape for messages in outcome.elements] == [(6,)]
    assert outcome.counters == {REPORTS: 3}


def test_what_comes_and_what_goes_is_counted_where_it_passes():
    """Six messages of three rows, whose codes are batches of two; and one of another block."""
    blocks = [cells([[0, 1], [2, 3], [3, 3]]), cells([0])]

    def build(pipeline):
        step = PerturbAndCount(Echo(), Batches(4, 2))
        messages, flow = pipeline | source(blocks, CellBlock) | step
        return (messages | beam.Map(lambda m: ("came", m)), summed(flow)) | beam.Flatten()

    counted = [(name, np.asarray(amount).tolist()) for name, amount in run(build).elements]
    sent = sorted(amount for name, amount in counted if name == "came")
    assert sent == [[0], [0, 1, 2, 3, 3, 3]]
    assert dict(counted) | {"came": None} == {PERTURBED: 4, SENT: [3, 4], "came": None}


class Echo:
    """Everybody sends their cells as they are."""

    messages = 2

    def perturb(self, cells, rng):
        return cells.ravel().astype(np.uint64)

    report = perturb


def rows(n: int, *categories: int) -> RowBlock:
    """Rows of three numbers."""
    others = np.tile(np.array(categories, np.int32), (n, 1))
    return RowBlock(np.full((n, 3), 0.5, np.float32), others, None)


def test_whole_rows_are_perturbed_and_counted():
    mechanism = Meanest(2.0, 3)
    outcome = run(lambda p: p | source([rows(500)], RowBlock) | Perturb(mechanism, fresh_stream))
    assert np.concatenate(outcome.elements).size == 1500
    assert outcome.counters == {REPORTS: 500}


def test_rows_with_categories_go_through_mechanisms_for_both():
    mechanism = MixedRows(4.0, 1, (duchi(4.0),) * 3 + (k_ary(4.0, 5),))
    block = rows(2000, 2)
    outcome = run(lambda p: p | source([block], RowBlock) | Perturb(mechanism, fresh_stream))
    counts = mechanism.parts(mechanism.count(np.concatenate(outcome.elements)))
    assert counts[3].argmax() == 2
    assert sum(part.sum() for part in counts) == 2000


class Flood:
    """Everybody sends a million messages; here they are only announced."""

    messages = 1 << 20

    def perturb(self, cells, rng):
        return np.array([len(cells)], np.uint64)

    report = perturb


@pytest.mark.parametrize(
    ("block", "portions"),
    [
        (cells([1] * 10), [4, 4, 2]),
        (
            RowBlock(np.broadcast_to(np.float32(0), (3, 1 << 21)), np.empty((3, 0), int), None),
            [2, 1],
        ),
    ],
    ids=["messages", "numbers"],
)
def test_large_blocks_go_through_in_portions(block, portions):
    """Of as many users as send, or consist of, four million words together."""
    dofn = PerturbDoFn(Flood(), SecureRandom)
    dofn.setup()
    assert [messages.tolist() for messages in dofn.process(block)] == [[n] for n in portions]


def test_users_go_no_further():
    users = np.array([0x1122334455667788] * 3, np.uint64)
    (kept,) = run(lambda p: p | source([cells([0, 1, 2], users)], CellBlock) | Perturb(GRR)).kept
    assert type(kept.element) is np.ndarray
    assert kept.element.shape == (3,)
    assert not np.isin(users, kept.element).any()


def test_windows_are_kept():
    blocks = [cells([0] * size) for size in (1, 2, 3)]

    def build(pipeline):
        windows = beam.WindowInto(FixedWindows(10))
        return pipeline | source(blocks, CellBlock, spread=10) | windows | Perturb(GRR)

    kept = run(build).kept
    assert [(int(k.window.start), k.element.size) for k in kept] == [(0, 1), (10, 2), (20, 3)]


def test_errors_never_hold_a_cell():
    dofn = PerturbDoFn(GRR, SecureRandom)
    dofn.setup()
    with pytest.raises(ValueError, match="outside") as caught:
        list(dofn.process(cells([77123])))
    assert "77123" not in str(caught.value)


@pytest.mark.parametrize(
    "dofn",
    [
        PerturbDoFn(GRR, SecureRandom),
        ChooseDoFn(CellBlock, SecureRandom),
        ThinUsersDoFn(64, SecureRandom),
        EncodeDoFn(Encode(ValueEncoder("hour", IntegerRange(0, 23)), None, SecureRandom)),
        DrawBucketsDoFn(64, 100, SecureRandom),
        OrderDoFn(1, Batches(1000), SecureRandom),
    ],
    ids=lambda dofn: type(dofn).__name__,
)
def test_each_worker_opens_its_own_generator(dofn):
    """A generator that travelled with its DoFn would repeat its noise on every worker."""
    copies = [pickle.loads(pickle.dumps(dofn)) for _ in range(4)]
    for copy in copies:
        assert not hasattr(copy, "_rng")
        copy.setup()
    draws = np.stack([copy._rng.words(100) for copy in copies])
    assert len(np.unique(draws)) == draws.size
    with pytest.raises(TypeError, match="must not be pickled"):
        pickle.dumps(copies[0])


def test_copies_of_a_step_draw_different_noise():
    dofn = PerturbDoFn(GRR, SecureRandom)
    noise = []
    for _ in range(2):
        copy = pickle.loads(pickle.dumps(dofn))
        copy.setup()
        noise.append(np.concatenate(list(copy.process(cells([0] * 1000)))))
    assert (noise[0] != noise[1]).mean() > 0.4  # 1 - sum of squares of the channel is 0.7
