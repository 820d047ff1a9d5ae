"""A model is of all rows, and of all messages, that were handed on; or there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.randomness import SeededRandom
from pipelines.train.central_run import TrainDoFn
from tests.fakes.losing_engine import losing, nothing
from transforms.collector.collect_counts import CountMessages
from transforms.units.contributions import ChooseDoFn

pytestmark = [pytest.mark.verify, pytest.mark.usefixtures("beams_runner")]

ROWS = 3000
TRAIN = [
    "train", "--input", "log.parquet", "--number", "x=-1,1", "--target", "y=-2,2",
    "--output", "out",
]  # fmt: skip
SUMS = [*TRAIN, "--epsilon", "4"]
CENTRAL = [*TRAIN, "--method", "dp-sgd", "--epsilon", "4", "--epochs", "2"]


@pytest.fixture
def log(workspace: Path) -> None:
    x = SeededRandom(1).generator().uniform(-1, 1, ROWS)
    table = pa.table({"x": x, "y": x / 2, "user": np.arange(ROWS)})
    pq.write_table(table, "log.parquet", row_group_size=500)


def lacking(honest: Any) -> Any:
    """A step that is handed all blocks but one."""
    return lambda step, blocks: honest(step, list(blocks)[1:])


@pytest.mark.parametrize(
    ("words", "step", "method", "instead"),
    [
        (CENTRAL, TrainDoFn, "_rows", lacking(TrainDoFn._rows)),
        (
            [*CENTRAL, "--user-column", "user", "--min-reports", "2000"],
            ChooseDoFn,
            "process",
            nothing,
        ),
        (SUMS, CountMessages, "add_input", lambda _, state, messages: state),
    ],
)
def test_a_run_that_loses_a_block_publishes_no_model(
    run, log, words, step, method, instead
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        losing(patch, step, method, instead)
        outcome = run(words)
    assert outcome.code == 3, outcome.err
    assert "the engine has lost some, and nothing is published" in outcome.err
    assert not Path("out").exists()


@pytest.mark.parametrize("words", [SUMS, CENTRAL])
def test_a_run_that_loses_nothing_publishes(run, log, words) -> None:
    outcome = run(words)
    assert outcome.code == 0, outcome.err
