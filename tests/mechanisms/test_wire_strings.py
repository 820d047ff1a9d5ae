"""Strings sealed alike: equal ones are equal words, of one size, and open like any seal."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from mechanisms.wire.oblivious import Blinded, Evaluator
from mechanisms.wire.report import SEALED, Form, Reports
from mechanisms.wire.sealing import KeyRing, info, key_id
from mechanisms.wire.strings import NULL, open_strings, seal_strings, seals_of, string_inputs
from tests.oracles import voprf
from tests.oracles.wire import PLAN, hpke_seal

KEY, OTHER = (X25519PrivateKey.from_private_bytes(bytes([i]) * 32) for i in (1, 2))
RING = KeyRing([KEY])
PARTY, LATER = (Evaluator(bytes([i]) * 32, b"hushbeam strings") for i in (5, 6))
WIDTH = 6
WORDS = np.arange(1, 5 * WIDTH + 1, dtype=np.uint32).reshape(5, 1, WIDTH)
NAME = key_id(KEY.public_key())


def sealed(words=WORDS, plan=PLAN, metric=1, party=PARTY, key=KEY) -> Reports:
    ids, public = np.zeros((len(words), 2), np.uint64), key.public_key()
    outputs = {plain: party.output(plain) for plain in string_inputs(plan, metric, words, public)}
    return seal_strings(plan, metric, words, ids, outputs, public)


def boxes(reports: Reports, strings: int = 1) -> list[bytes]:
    """The seal of each string."""
    rows = reports.records["sealed"].reshape(len(reports) * strings, -1)
    return [row.tobytes() for row in rows]


def crowds(reports: Reports) -> Reports:
    """As the shuffler sends them on, a string a report."""
    form = Form(sealed=True, shuffled=True, slots=reports.form.slots, crowd=True)
    return reports.recast(form)


def test_a_seal_is_what_docs_wire_md_says() -> None:
    """By the slow oracle, from the formulas of the page; and pinned."""
    plain = WORDS[0, 0].astype("<u4").tobytes().ljust(seals_of(WIDTH) * SEALED - 48, b"\0")
    context = info(PLAN, 1, NAME, b"hushbeam string")
    assert string_inputs(PLAN, 1, WORDS, KEY.public_key())[0] == context + plain
    secret = voprf.derived(bytes([5]) * 32, b"hushbeam strings")
    element = voprf.times(secret, voprf.to_group(context + plain))
    ephemeral = X25519PrivateKey.from_private_bytes(voprf.output(context + plain, element)[:32])
    public = KEY.public_key().public_bytes_raw()
    box = hpke_seal(plain, public, context, b"", ephemeral)
    assert boxes(sealed())[0] == box
    assert hashlib.sha256(box).hexdigest()[:16] == "050815eb3b9084ef"


def test_equal_strings_are_equal_words_and_no_others() -> None:
    first = boxes(sealed())
    assert boxes(sealed()) == first
    assert len({*first}) == len(WORDS)
    pairs = np.concatenate([WORDS, WORDS[::-1]], axis=1)  # whatever slot and report
    assert boxes(sealed(pairs), 2)[::2] == boxes(sealed(pairs), 2)[1::2][::-1] == first
    others = (sealed(plan=bytes(16)), sealed(metric=2), sealed(party=LATER), sealed(key=OTHER))
    assert all({*boxes(other)}.isdisjoint(first) for other in others)
    # Nor can they be told by their encapsulated keys.
    assert all({b[:32] for b in boxes(other)}.isdisjoint(b[:32] for b in first) for other in others)


def test_empty_slots_are_never_alike() -> None:
    empty = np.full((40, 2, WIDTH), NULL, np.uint32)
    assert len({box[:32] for box in boxes(sealed(empty), 2)}) == 80
    opened, words = open_strings(crowds(sealed(empty[:, :1])), WIDTH, RING)
    assert opened.all()
    assert (words[:, 0] == NULL).all()


@pytest.mark.parametrize("width", [1, 2, 3, 16, 17, 18, 257])
def test_all_strings_of_a_metric_are_of_one_size(width: int) -> None:
    words = np.zeros((3, 1, width), np.uint32)
    words[1], words[2, 0, 0] = 0xFFFFFFFE, NULL
    reports = sealed(words)
    assert reports.form.slots == seals_of(width)
    assert 4 * width + 48 <= SEALED * seals_of(width) < 4 * width + 48 + SEALED
    opened, found = open_strings(crowds(reports), width, RING)
    assert opened.all()
    assert (found == words[:, 0]).all()


def test_only_the_collector_opens_and_only_what_was_sealed() -> None:
    reports = crowds(sealed())
    opened, found = open_strings(reports, WIDTH, RING)
    assert opened.all()
    assert (found == WORDS[:, 0]).all()
    assert not open_strings(reports, WIDTH, KeyRing([OTHER]))[0].any()
    moved = Reports(bytes(16), reports.form, reports.records)
    assert not open_strings(moved, WIDTH, RING)[0].any()
    for place in (0, 40, -1):
        changed = Reports(PLAN, reports.form, reports.records.copy())
        changed.records["sealed"].reshape(5, -1)[2, place] ^= 1
        opened, found = open_strings(changed, WIDTH, RING)
        assert opened.tolist() == [True, True, False, True, True]
        assert (found[2] == NULL).all()
    assert open_strings(reports.where(np.zeros(5, bool)), WIDTH, RING)[1].shape == (0, WIDTH)


def test_a_device_asks_for_all_its_slots_and_the_party_sees_none() -> None:
    """As many elements of a full report as of an empty one, and never the same twice."""
    public, ids = KEY.public_key(), np.zeros((2, 2), np.uint64)
    words = np.full((2, 3, WIDTH), NULL, np.uint32)
    words[0, :2] = WORDS[:2, 0]
    inputs = [string_inputs(PLAN, 1, each[None], public) for each in words]
    assert [*map(len, inputs)] == [3, 3]
    asked = [Blinded(each) for each in (*inputs, inputs[0])]
    assert len({element for one in asked for element in one.elements}) == 9
    outputs = {}
    for each, blinded in zip(inputs, asked[:2], strict=True):
        answer = blinded.outputs(*PARTY.evaluate(blinded.elements), PARTY.public)
        outputs |= zip(each, answer, strict=True)
    block = seal_strings(PLAN, 1, words, ids, outputs, public)
    assert boxes(block, 3)[:2] == boxes(sealed())[:2]


def test_a_string_that_was_not_evaluated_is_refused_and_not_quoted() -> None:
    with pytest.raises(ValueError, match="a string was not evaluated") as error:
        seal_strings(PLAN, 1, WORDS, np.zeros((5, 2), np.uint64), {}, KEY.public_key())
    assert str(error.value) == "a string was not evaluated: ask for all of `string_inputs`"


def test_forms_of_crowds_keep_their_numbers() -> None:
    form = Form(sealed=True, shuffled=True, slots=3, crowd=True)
    assert (form.kind, Form.of(form.kind).crowd, form.seals) == (15, True, 3)
    assert form.fitted(112) == Form(True, True, 2, True)
    assert form.fitted(100) is None
