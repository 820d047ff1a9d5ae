"""Parquet files of every brokenness: a release or one line, and never a value of the data."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mechanisms.randomness import SecureRandom
from pipelines.errors import RequestError
from pipelines.logs import inputs
from tests.fakes import canaries
from tests.oracles.wire import EXAMPLES
from transforms.encoders.bounds import Bounds
from transforms.encoders.domain import DeclaredValues
from transforms.encoders.encoder import encoded
from transforms.encoders.numbers import NumberEncoder
from transforms.encoders.users import UserDigest
from transforms.encoders.values import ValueEncoder

RUNS = max(8, EXAMPLES // 100)  # of the whole command, which takes a second each


def whole() -> bytes:
    """A file of the canaries' log."""
    buffer = io.BytesIO()
    pq.write_table(canaries.table(), buffer, row_group_size=700)
    return buffer.getvalue()


WHOLE = whole()
FOOTER = int.from_bytes(WHOLE[-8:-4], "little") + 8


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """The file with bytes changed, cut, doubled or put in; often in its footer."""
    data = bytearray(WHOLE)
    for _ in range(draw(st.integers(1, 6))):
        first = len(data) - FOOTER if draw(st.booleans()) else 0
        at = draw(st.integers(max(first, 0), max(len(data) - 1, 0)))
        kind = draw(st.sampled_from(["change", "cut", "put in", "double", "end"]))
        if kind == "change":
            data[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
        elif kind == "cut":
            del data[at : at + draw(st.integers(1, 64))]
        elif kind == "put in":
            data[at:at] = draw(st.binary(max_size=16))
        elif kind == "double":
            data[at:at] = data[at : at + draw(st.integers(1, 64))]
        else:
            del data[at:]
    return bytes(data)


@given(broken())
@example(WHOLE.replace(b"moment", b"\x80oment"))  # a column whose name is no text
@settings(max_examples=EXAMPLES)
def test_fuzz_files_are_opened_or_refused_in_a_line(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part.parquet"
        path.write_bytes(data)
        try:
            opened = inputs.open_telemetry((str(path),))
            opened.column_type("value", "--column")
        except RequestError as refusal:
            told = str(refusal)
            assert "\n" not in told
            assert not canaries.found(told)
            return
        assert opened.rows > 0


@st.composite
def columns(draw: st.DrawFn) -> pa.RecordBatch:
    """A batch of whatever types and values, nulls and infinities among them."""
    rows = draw(st.integers(0, 12))
    numbers = st.one_of(st.none(), st.floats(), st.floats(width=32))
    texts = st.one_of(st.none(), st.text(max_size=4), st.sampled_from(canaries.DECLARED))
    users = st.one_of(st.none(), st.integers(-(1 << 63), (1 << 63) - 1))
    value = pa.array(draw(st.lists(texts, min_size=rows, max_size=rows)), pa.string())
    if draw(st.booleans()):
        value = value.dictionary_encode()
    return pa.record_batch(
        {
            "value": value,
            "real": pa.array(draw(st.lists(numbers, min_size=rows, max_size=rows)), pa.float64()),
            "user": pa.array(draw(st.lists(users, min_size=rows, max_size=rows)), pa.int64()),
        }
    )


@given(columns())
@settings(max_examples=EXAMPLES)
def test_fuzz_rows_are_encoded_or_counted(batch: pa.RecordBatch) -> None:
    """Every row becomes a cell in range, or one reject: none is lost and none is in two."""
    from mechanisms.mean.two_point import duchi

    domain, mechanism = DeclaredValues(canaries.DECLARED), duchi(1.0, cells=8)
    for encoder, most in [
        (ValueEncoder("value", domain), domain.size),
        (NumberEncoder("real", Bounds(-1.0, 1.0), mechanism), mechanism.inputs),
    ]:
        block, rejects = encoded(encoder, batch, UserDigest("user", 7), SecureRandom())
        assert (block.cells < most).all()
        assert block.cells.size == block.users.size
        assert block.size + rejects.total() == batch.num_rows


@given(broken())
@settings(max_examples=RUNS)
def test_fuzz_no_run_says_what_a_file_holds(data: bytes) -> None:
    from pipelines.cli import cli

    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part.parquet"
        path.write_bytes(data)
        words = [
            "mean", "--input", str(path), "--column", "real", "--bounds", "0,300",
            "--mechanism", "duchi", "--model", "local", "--epsilon", "1",
            "--output", f"{folder}/out",
        ]  # fmt: skip
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = cli.main(words)
        published = (Path(folder) / "out" / "statement.json").exists()
    assert code in (0, 1, 2, 3)
    assert published == (code == 0)
    assert "Traceback" not in said.getvalue()
    assert not canaries.found(said.getvalue())
