"""Sealed reports through a shuffler that cannot read them, to a collector that can."""

from __future__ import annotations

import functools
from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from mechanisms.randomness import SeededRandom
from mechanisms.wire import screening
from mechanisms.wire.report import Form, Reports
from mechanisms.wire.sealing import KeyRing, create_key, key_id, public_key, seal
from tests.oracles.statistics import FALSE_ALARM
from tests.oracles.transforms import drive, fresh_stream, grouped, run, source
from tests.oracles.wire import PLAN, expected
from transforms.elements.progress import WITHHELD
from transforms.reports.unseal import DrawSealedDoFn, OrderSealedDoFn, ShuffleSealed, UnsealDoFn

SEALED = Form(sealed=True, shuffled=True)
OPEN = expected(Form(shuffled=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two keys."""
    folder = tmp_path_factory.mktemp("keys")
    create_key(folder)
    create_key(folder)
    return folder


def submitted(pem: bytes, messages, metric: int = 1, seed: int = 1) -> Reports:
    """Messages sealed to the key of a file."""
    plain = Reports.submitted(PLAN, metric, messages, SeededRandom(seed))
    return seal(plain, public_key(pem))


def test_the_road_of_sealed_reports(folder):
    """Two keys, a foreign one, another metric, and what cannot be: all accounted for."""
    first, second = (path.read_bytes() for path in sorted(folder.glob("*.public.pem")))
    foreign = X25519PrivateKey.generate().public_key()
    keys = tuple(key_id(public_key(pem)) for pem in (first, second))
    blocks = [
        submitted(first, np.arange(300)),
        submitted(second, np.arange(60), seed=2),
        submitted(first, [2**63, 2**64 - 1], seed=3),
        submitted(first, np.arange(9), metric=0, seed=4),
        seal(Reports.submitted(PLAN, 1, [1, 2, 3], SeededRandom(5)), foreign),
    ]
    blocks[0].records["sealed"][0] ^= 1

    def road(p, min_reports):
        return (
            p
            | source(blocks, Reports)
            | ShuffleSealed(PLAN, 1, keys, min_reports, 4, fresh_stream)
            | beam.ParDo(UnsealDoFn(OPEN, functools.partial(KeyRing.read, folder)))
        )

    outcome = run(lambda p: road(p, 60))
    got = np.concatenate([block.records["message"] for block in outcome.elements])
    assert sorted(got.tolist()) == sorted([*range(1, 300), *range(60)])
    assert all(block.form == OPEN.form for block in outcome.elements)
    assert outcome.counters == {
        screening.UNKNOWN_KEY: 3,
        screening.UNOPENED: 1,
        screening.IMPOSSIBLE: 2,
    }
    # The collector tells reports to the second key from others: 60 of them are not enough then.
    outcome = run(lambda p: road(p, 61))
    assert sum(map(len, outcome.elements)) == 299
    assert outcome.counters[WITHHELD] == 60
    outcome = run(lambda p: road(p, 303))
    assert not outcome.elements
    assert outcome.counters == {screening.UNKNOWN_KEY: 3, WITHHELD: 362}


def test_the_order_is_new_and_the_ids_are_gone():
    """Of 2000 reports 25 or more stand where they stood with probability below 1e-20."""
    records = Form(sealed=True).empty(2000)
    records["metric"], records["key_id"] = 1, 7
    records["sealed"][:, 0] = np.arange(2000) % 256
    records["sealed"][:, 1] = np.arange(2000) // 256
    records["report_id"] = SeededRandom(1).words(4000).reshape(-1, 2)
    draw = DrawSealedDoFn(1, fresh_stream)
    order = OrderSealedDoFn(PLAN, 2000, fresh_stream)
    draw.setup()
    order.setup()
    sealed = Reports(PLAN, Form(sealed=True), records)
    (group,) = grouped(drive(draw, [[sealed.without_ids()]])).items()
    (block,) = order.process(group, {7: 2000})
    assert block.form == SEALED
    assert block.records.dtype == SEALED.dtype
    low, high = block.records["sealed"][:, :2].astype(int).T
    order = low + 256 * high
    assert sorted(order.tolist()) == list(range(2000))
    assert np.count_nonzero(order == np.arange(2000)) < 25
    assert FALSE_ALARM > 1e-20


def test_the_key_does_not_travel_with_the_job(folder):
    import apache_beam.internal.pickler as pickler

    dofn = UnsealDoFn(OPEN, functools.partial(KeyRing.read, folder))
    packed = pickler.dumps(dofn)
    for path in folder.glob("*.private.pem"):
        assert path.read_bytes() not in packed
    dofn.setup()
    with pytest.raises(Exception, match="KeyRing must not be pickled"):
        pickler.dumps(dofn)
