"""Declared texts: found by a table of their hashes, and pickled once a process."""

from __future__ import annotations

import gc
import pickle
from contextvars import copy_context
from threading import Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from transforms.encoders import texts
from transforms.encoders.domain import DeclaredValues
from transforms.encoders.texts import Places, Texts, pickled_by_digest, pickled_whole

MANY = [f"value {i}" for i in range(3 * texts._FEW)]


@pytest.mark.parametrize("kind", [pa.string(), pa.int64()])
@pytest.mark.parametrize("many", [3, len(MANY)])
def test_values_are_where_a_plain_search_finds_them(kind: pa.DataType, many: int) -> None:
    whole = kind == pa.int64()
    values = pa.array(range(-5, many - 5) if whole else MANY[:many], kind)
    strangers = [1 << 40, -6] if whole else ["", "value", "value -1"]
    column = pa.array([*values.to_pylist()[::-1], *strangers, None, values[0].as_py()], kind)
    expected = pc.index_in(column, value_set=values).fill_null(many).to_numpy()
    assert np.array_equal(Places(values)(column), expected)
    assert Places(values)(column[:0]).size == 0


def test_a_stranger_with_the_hash_of_a_declared_value_is_a_stranger() -> None:
    table = texts._Table(pa.array(MANY))
    table._hash = lambda column: np.full(len(column), table._hashes[7])  # type: ignore[assignment]
    stands = int(table._order[7])
    assert table(pa.array(["stranger", MANY[stands]])).tolist() == [len(MANY), stands]


def test_a_few_small_batches_need_no_table_and_many_have_one() -> None:
    places, few = Places(pa.array(MANY)), pa.array([MANY[9], None, "stranger", MANY[9], MANY[0]])
    for _ in range(texts._SOUGHT):
        assert places(few).tolist() == [9, len(MANY), len(MANY), 9, 0]
        assert "_table" not in vars(places)
    assert places(few).tolist() == [9, len(MANY), len(MANY), 9, 0]
    assert "_table" in vars(places)


def test_a_process_pickles_its_own_texts_as_their_digest() -> None:
    domain = DeclaredValues(MANY)
    with pickled_by_digest():
        short = pickle.dumps(domain)
        with pickled_whole():  # of a job elsewhere, meanwhile
            assert len(pickle.dumps(domain)) > 10 * len(MANY)
    assert len(short) < 500
    assert "value 1" not in str(short)
    again = pickle.loads(short)
    assert again == domain
    assert again.values.column is domain.values.column
    assert pickle.loads(short).values is again.values
    assert len(pickle.dumps(domain)) > 10 * len(MANY)


def test_two_jobs_at_once_pickle_equal_texts_each_for_its_own_workers() -> None:
    """Beam pickles steps again in threads of its own, which know no context of a job."""

    def in_a_thread(*what: Any) -> list[bytes]:
        pickled: list[bytes] = []
        one = Thread(target=lambda: pickled.extend(map(pickle.dumps, what)))
        one.start()
        one.join()
        return pickled

    domain = DeclaredValues(MANY)
    with pickled_by_digest():
        here = pickle.loads(pickle.dumps(domain))  # as Beam does with each step
        elsewhere = copy_context().run(lambda: _sent_away(domain))
        short, whole, plain = in_a_thread(here, elsewhere, domain)
        assert len(short) < 500
        assert min(len(whole), len(plain)) > 10 * len(MANY)
        assert len(pickle.dumps(pickle.loads(short))) < 500
    # Once read, each stays what it is, with and without the job that runs here.
    again = [pickle.loads(one) for one in (short, whole)]
    assert [len(one) < 500 for one in in_a_thread(*again)] == [True, False]
    assert again[0] == again[1] == domain


def _sent_away(domain: DeclaredValues) -> DeclaredValues:
    """A step of a job whose workers are others' processes."""
    with pickled_whole():
        return pickle.loads(pickle.dumps(domain))


def test_texts_are_known_for_as_long_as_any_equal_ones_live() -> None:
    first, second = Texts.of(MANY), Texts.of(MANY)
    del first
    gc.collect()
    with pickled_by_digest():
        short = pickle.dumps(second)
    assert pickle.loads(short) == second


def test_another_process_needs_the_texts_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = DeclaredValues(["a", "b"])
    whole = pickle.dumps(domain)
    with pickled_by_digest():
        short = pickle.dumps(domain)
    texts._here.clear()
    assert pickle.loads(whole).encode(pa.array(["b"])).tolist() == [1]
    texts._here.clear()
    with pytest.raises(RuntimeError, match="sent by digest to a process without them"):
        pickle.loads(short)
