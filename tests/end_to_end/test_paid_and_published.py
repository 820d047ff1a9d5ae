"""A command that dies once its release is out is done when it is typed again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.reservation import Reservation
from tests.fakes.ledgers import begun

PAID = "--epsilon 1 --input log.parquet --output out --ledger l.sqlite --population p"
WORDS = {
    "count": f"count --column c --domain 0..3 --user-column u {PAID}",
    "train": f"train --number x=0,1 --target y=0,1 --user-column u {PAID}",
}


@pytest.mark.parametrize("kind", WORDS)
def test_what_was_published_before_it_was_committed_is_not_refused(
    kind: str, run: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, n = begun(workspace / "l.sqlite", "p"), 2000
    x = np.arange(n) / n
    table = pa.table({"u": np.arange(n), "c": np.arange(n) % 4, "x": x, "y": x})
    pq.write_table(table, workspace / "log.parquet")

    def killed(_: Reservation) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Reservation, "commit", killed)
        patch.setattr(Reservation, "close", lambda _: None)
        assert run(WORDS[kind].split()).code == 3
    stands = (workspace / "out" / "statement.json").read_bytes()
    assert [entry.state for entry in ledger.entries()] == ["reserved"]
    outcome = run(WORDS[kind].split())
    assert outcome.code == 0, outcome.said
    assert "released before, and not made again: " in outcome.said
    assert [e.state for e in CollectionLedger.open("l.sqlite").entries()] == ["committed"]
    assert (workspace / "out" / "statement.json").read_bytes() == stands
    # A third one is another release, and its folder is taken.
    assert "already holds a release" in run(WORDS[kind].split()).err
