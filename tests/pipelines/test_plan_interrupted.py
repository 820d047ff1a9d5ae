"""A run that is interrupted while its job may go on elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from pipelines.errors import OutOfSightError
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.rules import InProgressError
from pipelines.plan import run
from pipelines.plan.job import unread_job
from pipelines.plan.loading import load
from tests.fakes.ledgers import begun_by

PLAN = """\
collection: trips
version: 1
unit: row
input: "{window}.parquet"
output: FOLDER/{window}
ledger: FOLDER/ledger.sqlite
budget: {epsilon: 1.0, delta: 1.0e-5}
epsilon: 1.0
min_reports: 1000
metrics:
  - {name: city, kind: histogram, column: city, domain: 1..50}
"""


def ending(error: BaseException) -> Callable[..., NoReturn]:
    def carry_out(*_: object, **__: object) -> NoReturn:
        raise error

    return carry_out


@pytest.mark.parametrize(
    ("error", "state", "handed_over"),
    [(KeyboardInterrupt(), "returned", False), (OutOfSightError("lost"), "reserved", True)],
)
def test_what_may_yet_be_published_stays_reserved(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    state: str,
    handed_over: bool,
) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN.replace("FOLDER", str(tmp_path)))
    plan = load(str(path))
    begun_by(path)
    monkeypatch.setattr(run, "carry_out", ending(error))

    def again() -> None:
        options = PipelineOptions([])
        run.release_window(plan, "day", unread_job, lambda *_: beam.Create([]), lambda: options)

    with pytest.raises(type(error)):
        again()
    (entry,) = CollectionLedger.open(plan.ledger or "").entries()
    assert (entry.state, entry.handed_over) == (state, handed_over)
    with pytest.raises(InProgressError if handed_over else KeyboardInterrupt):
        again()
