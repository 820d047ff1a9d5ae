"""What a stream has perturbed, over all its batches, is what a window's release counts."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.stream.intake import KeepMessagesDoFn
from tests.fakes.losing_engine import losing
from transforms.elements.conservation import BOUNDED, CHOSEN, PERTURBED, SENT, read_flow, spelt
from transforms.elements.progress import ROWS
from transforms.units.contributions import ChooseDoFn

pytestmark = pytest.mark.usefixtures("beams_runner")


USERS = 600
BEGIN = datetime(2024, 5, 1, tzinfo=timezone.utc)
PLAN = """\
collection: whole
version: 1
unit: user per window
user_column: user
input: landing/*.parquet
output: out/{window}
epsilon: 2
min_reports: 400
stream: {window: 1h, state: state, time: at}
metrics:
  - {name: city, kind: histogram, column: city, domain: 0..3, mechanism: MECHANISM}
"""


def test_a_flow_is_spelt_out_and_read_again() -> None:
    flow = {BOUNDED: 9, CHOSEN: 5, PERTURBED: 5, SENT: np.array([3, 0, 4])}
    notes = dict(note for pair in flow.items() for note in spelt(pair))
    assert all(type(amount) is int for amount in notes.values())
    again = read_flow(notes | {ROWS: 12, "null value": 3})
    assert again.pop(SENT).tolist() == [3, 0, 4]
    assert again == {BOUNDED: 9, CHOSEN: 5, PERTURBED: 5}


def landing(folder: Path, mechanism: str) -> None:
    """Two files, each of other users with two rows each."""
    (folder / "plan.yaml").write_text(PLAN.replace("MECHANISM", mechanism))
    (folder / "landing").mkdir()
    for file in range(2):
        row = np.arange(USERS)
        table = pa.table({
            "user": file * USERS + row // 2,
            "city": row % 4,
            "at": pa.array([BEGIN + timedelta(seconds=int(k)) for k in row]),
        })  # fmt: skip
        pq.write_table(table, folder / "landing" / f"{file}.parquet", row_group_size=200)


@pytest.mark.verify
@pytest.mark.parametrize("mechanism", ["grr", "poisson"])
def test_a_stream_that_loses_a_block_publishes_nothing(run, workspace, mechanism) -> None:
    """Of one message a user, and of many; and what came whole is published."""
    landing(workspace, mechanism)
    for step in (KeepMessagesDoFn, ChooseDoFn):
        with pytest.MonkeyPatch.context() as patch:
            losing(patch, step, "process")
            state = f"state: {step.__name__}"
            plan = Path("plan.yaml").read_text()
            Path("lossy.yaml").write_text(plan.replace("state: state", state))
            outcome = run(["stream", "lossy.yaml", "--drain"])
        assert outcome.code == 3, outcome.err
        assert "the engine has lost some, and nothing is published" in outcome.err
        assert not list(Path("out").rglob("statement.json"))
    outcome = run(["stream", "plan.yaml", "--drain"])
    assert outcome.code == 0, outcome.err
    (statement,) = Path("out").glob("*/city/statement.json")
    assert json.loads(statement.read_text())["n"] == USERS
