"""What a party is handed is what it hands on: where an engine loses some, nothing goes out."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.randomness import SeededRandom
from mechanisms.wire import binary
from mechanisms.wire.report import Reports
from mechanisms.wire.sealing import public_key, seal
from pipelines.parties.batches import BatchSink
from pipelines.parties.report_files import ReadAllDoFn
from pipelines.plan.loading import load
from pipelines.plan.split import split
from tests.fakes.losing_engine import losing, nothing
from transforms.collector.collect import EstimateFn
from transforms.reports.duplicates import OneOfEachDoFn, OneSealDoFn
from transforms.reports.reports import BinarySink
from transforms.reports.unseal import OrderSealedDoFn
from transforms.shuffle.shuffle import OrderDoFn
from transforms.units.contributions import ChooseDoFn

pytestmark = [pytest.mark.verify, pytest.mark.usefixtures("beams_runner")]

N = 900
PLAN = """\
collection: whole
version: 1
unit: user
user_column: user
input: none.parquet
output: out
epsilon: 2
min_reports: 500
epsilon_local: 2
metrics:
  - {name: city, kind: histogram, column: city, domain: 0..3, mechanism: grr}
"""
LOST = "the engine has lost some, and nothing is published"


@pytest.fixture
def plan(workspace: Path) -> None:
    Path("plan.yaml").write_text(PLAN)
    table = pa.table({"user": np.arange(N), "city": np.arange(N) % 4})
    pq.write_table(table, "log.parquet", row_group_size=100)


def sent(sealed: str | None = None) -> None:
    """What clients have sent."""
    parted = split(load("plan.yaml"), "all")
    words = parted.mechanisms[0].perturb(np.arange(N) % 4, SeededRandom(1))
    reports = Reports.submitted(parted.fingerprint, 0, words, SeededRandom(2))
    if sealed is not None:
        reports = seal(reports, public_key(Path(sealed).read_bytes()))
    Path("sent.bin").write_bytes(binary.encode(reports))


CLIENT = ["parties", "client", "plan.yaml", "--input", "log.parquet", "--output"]
SHUFFLE = ["parties", "shuffle", "plan.yaml", "--input", "sent.bin", "--output", "mixed"]
COLLECT = ["parties", "collect", "plan.yaml", "--input", "mixed"]


@pytest.mark.parametrize(
    ("output", "step", "method", "kept"),
    [
        ("sent.bin", ChooseDoFn, "process", nothing),
        ("sent.bin", BinarySink, "write", nothing),
    ],
)
def test_a_client_that_loses_a_block_sends_nothing(
    plan, run, monkeypatch, output, step, method, kept
) -> None:
    losing(monkeypatch, step, method, kept)
    outcome = run([*CLIENT, output])
    assert (outcome.code, LOST in outcome.err) == (3, True), outcome.err
    assert not Path(output).exists()


@pytest.mark.parametrize(
    ("step", "method", "kept", "sealed"),
    [
        (OneOfEachDoFn, "process", nothing, False),
        (OrderDoFn, "process", nothing, False),
        (BatchSink, "write", nothing, False),
        (OneSealDoFn, "process", nothing, True),
        (OrderSealedDoFn, "process", nothing, True),
    ],
)
def test_a_shuffler_that_loses_a_bucket_leaves_nothing(
    plan, run, monkeypatch, step, method, kept, sealed
) -> None:
    keys: list[str] = []
    if sealed:
        assert run(["parties", "keys", "new", "keys"]).code == 0
        keys = ["--seal", str(next(Path("keys").glob("*.public.pem")))]
    sent(*keys[1:])
    losing(monkeypatch, step, method, kept)
    outcome = run([*SHUFFLE, *keys])
    assert (outcome.code, LOST in outcome.err) == (3, True), outcome.err
    assert not Path("mixed").exists()
    monkeypatch.undo()


def test_a_collector_that_loses_a_block_publishes_nothing(plan, run, monkeypatch) -> None:
    sent()
    assert run(SHUFFLE).code == 0
    for step, method, kept in (
        (ReadAllDoFn, "_known", lambda _, screened: screened._replace(
            reports=screened.reports.where(np.arange(len(screened.reports)) > 0))),
        (EstimateFn, "add_input", lambda _, state, messages: state),
    ):  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            losing(patch, step, method, kept)
            outcome = run(COLLECT)
        assert (outcome.code, LOST in outcome.err) == (3, True), outcome.err
        assert not Path("out").exists()
    assert run(COLLECT).code == 0


def test_a_folder_that_lacks_a_file_is_refused(plan, run) -> None:
    """Its summary says what there was; a part that somebody forgot to copy would go unnoticed."""
    sent()
    assert run(SHUFFLE).code == 0
    (file,) = Path("mixed").glob("reports*")
    table = pq.ParquetFile(file).read()
    pq.write_table(table.slice(1), file)
    outcome = run(COLLECT)
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "sent on 900 reports, and the files in its folder hold 899" in outcome.err
    file.unlink()
    shutil.copy("sent.bin", "mixed/reports.bin")
    assert run(COLLECT).code == 2
    assert not Path("out").exists()
