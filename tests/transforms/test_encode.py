"""The encoding step: tables to blocks and tallies, whatever the encoder."""

from __future__ import annotations

import io
from collections import Counter

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.frequency.hashed_responses import k_ary
from mechanisms.heavy_hitters.prefix_code import PrefixCode, alphabet
from mechanisms.heavy_hitters.protocol import Protocol
from mechanisms.heavy_hitters.schedule import Schedule
from mechanisms.mean.two_point import duchi
from mechanisms.vector.privunit import privunit
from mechanisms.vector.sampled import SampledCoordinates
from tests.oracles.transforms import fresh_stream, restart, run, source
from transforms.elements.progress import ROWS
from transforms.encoders.attributes import Number
from transforms.encoders.bounds import Bounds
from transforms.encoders.coordinates import CoordinateEncoder
from transforms.encoders.domain import DeclaredValues
from transforms.encoders.encoder import NULL_USER, NULL_VALUE, OUTSIDE_DOMAIN, encoded
from transforms.encoders.numbers import NOT_A_NUMBER, NumberEncoder
from transforms.encoders.prefixes import OUTSIDE_ALPHABET, PrefixEncoder
from transforms.encoders.rows import RowEncoder
from transforms.encoders.users import UserDigest
from transforms.encoders.values import ValueEncoder
from transforms.rows.encode import Encode, EncodeDoFn

PROTOCOL = Protocol(
    PrefixCode(alphabet(["abc"]), 5), Schedule((2, 3), (1, 1), (1, 1)), k_ary(1.0, 8), 9
)
NUMBERS = (Number("x", Bounds(-1.0, 1.0)), Number("y", Bounds(-1.0, 1.0)))
ENCODERS = [
    ValueEncoder("value", DeclaredValues(("a", "bb"))),
    PrefixEncoder("value", PROTOCOL),
    NumberEncoder("x", Bounds(-1.0, 1.0), duchi(1.0, cells=4)),
    RowEncoder(NUMBERS),
    CoordinateEncoder(NUMBERS, SampledCoordinates(1.0, 2, 1, duchi(1.0, cells=4))),
]
REJECTS = {
    ValueEncoder: {NULL_VALUE: 25, OUTSIDE_DOMAIN: 25},
    PrefixEncoder: {NULL_VALUE: 25, OUTSIDE_ALPHABET: 25},
    NumberEncoder: {NOT_A_NUMBER: 25},
    RowEncoder: {NOT_A_NUMBER: 25},
    CoordinateEncoder: {NOT_A_NUMBER: 25},
}
encoders = pytest.mark.parametrize("encoder", ENCODERS, ids=lambda encoder: type(encoder).__name__)


def row_groups() -> list[pa.Table]:
    """100 rows through Parquet, so that columns are what Parquet makes of them."""
    table = pa.table(
        {
            "value": pa.array(["a", "bb", None, "z"] * 25).dictionary_encode(),
            "x": [1.0, float("nan"), 0.5, -7.0] * 25,
            "y": [0.0] * 100,
            "user": [1, 2, 3, None] * 25,
        }
    )
    buffer = io.BytesIO()
    pq.write_table(table, buffer, row_group_size=7)
    groups = pq.ParquetFile(io.BytesIO(buffer.getvalue()))
    return [groups.read_row_group(i) for i in range(groups.num_row_groups)]


@encoders
def test_tallies_add_up_in_a_pipeline_and_agree_with_its_counters(encoder):
    restart(3)
    tables = row_groups()

    def build(pipeline):
        outputs = pipeline | source(tables, pa.Table) | Encode(encoder, None, fresh_stream)
        assert outputs.blocks.element_type is encoder.kind
        sizes = outputs.blocks | beam.Map(lambda block: ("used", block.size))
        return (sizes | beam.CombinePerKey(sum), outputs.tallies) | beam.Flatten()

    outcome = run(build)
    rejects = REJECTS[type(encoder)]
    assert outcome.counters == {ROWS: 100, **rejects}
    used = {"used": 100 - sum(rejects.values())}
    assert dict(outcome.elements) == outcome.counters | used


@encoders
def test_users_come_along_and_nulls_are_left_out(encoder):
    (table, *_) = row_groups()
    users = UserDigest("user", 7)
    step = EncodeDoFn(Encode(encoder, users, fresh_stream))
    step.setup()
    outputs = list(step.process(table))
    blocks = [output for output in outputs if isinstance(output, encoder.kind)]
    tallies = Counter(dict(o.value for o in outputs if isinstance(o, beam.pvalue.TaggedOutput)))
    assert tallies[NULL_USER] == 1
    assert {*blocks[0].users.tolist()} <= {*users(pa.array([1, 2, 3])).tolist()}
    assert blocks[0].users.size == blocks[0].size == 7 - tallies.total() + tallies[ROWS]


@encoders
def test_the_pure_function_says_the_same_for_the_same_draws(encoder):
    """What a device runs without Beam is what the step runs."""
    (table, *_) = row_groups()
    restart(5)
    step = EncodeDoFn(Encode(encoder, None, fresh_stream))
    step.setup()
    (block, *_) = step.process(table)
    restart(5)
    (batch,) = table.to_batches()
    again = encoded(encoder, batch, None, fresh_stream()).block
    parts = len(encoder.kind._fields) - 2  # neither users nor for which rows what must hold does
    for one, other in zip(block[:parts], again[:parts], strict=True):
        assert (one == other).all()


@encoders
def test_tables_without_usable_rows_yield_no_block(encoder):
    schema = pa.schema([("value", pa.string()), ("x", pa.float64()), ("y", pa.float64())])
    for rows in (0, 5):
        table = pa.Table.from_pylist([dict.fromkeys(schema.names)] * rows, schema)
        step = EncodeDoFn(Encode(encoder, None, fresh_stream))
        step.setup()
        outputs = [output.value for output in step.process(table)]
        assert outputs == ([(ROWS, rows), (NULL_VALUE, rows)] if rows else [])


def test_what_is_done_to_single_rows_is_counted_nowhere():
    """How many rows were shortened tells of single ones where a radius is chosen to do so."""
    mechanism = privunit(2.0, dimension=2, radius=0.5, codebooks=64)
    encoder = RowEncoder(NUMBERS, mechanism.radius)
    table = pa.table({"x": [0.3, 0.6, -1.0, 0.0], "y": [0.1, 0.8, -1.0, 0.0]})
    outcome = run(lambda p: (p | source([table], pa.Table) | Encode(encoder)).tallies)
    assert dict(outcome.elements) == {ROWS: 4}
    assert outcome.counters == {ROWS: 4}


def test_an_engine_shows_no_counts_of_users_rows():
    """Engines show counters to whoever may see the job; the tallies stay within it."""
    table = pa.table({"value": ["a", None, "bb"], "user": ["x", "x", None]})
    told = Encode(ENCODERS[0], UserDigest("user", 1), reported=False)
    outcome = run(lambda p: (p | source([table], pa.Table) | told).tallies)
    assert dict(outcome.elements) == {ROWS: 3, NULL_USER: 1, NULL_VALUE: 1}
    assert outcome.counters == {}
