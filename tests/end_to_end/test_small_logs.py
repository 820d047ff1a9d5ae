"""Logs of nothing, of a row or three, of nulls alone: released, withheld or refused, never 3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.contract import examples, forms, runs
from tests.contract.test_figures import asked, every_case


def log(which: str) -> pa.Table:
    """So many rows of users with values, or three of users who have nothing."""
    n, nulls = (3, True) if which == "nulls" else (int(which), False)
    rows = examples.log().slice(2 * examples.WITHOUT, n)
    empty = {field.name: pa.nulls(n, field.type) for field in rows.schema}
    return pa.table(empty | {"user": rows["user"]}) if nulls else rows


@pytest.mark.verify
@pytest.mark.parametrize("which", ["0", "1", "2", "3", "nulls"])
@every_case
def test_every_kind_ends_well(kind: str, name: str, which: str, run: Any, workspace: Path) -> None:
    form, options = asked(kind, name)
    if form.refused or name == forms.HORIZON:
        return
    runs.write_inputs(workspace, log(which))
    if "min_reports" in options:
        options["min_reports"] = 1
    outcome = run(runs.words(kind, options, "out"))
    assert outcome.code in (0, 1, 2), outcome.said
    # Where a share is known to be nearly all, it is what is published of the metric.
    published = outcome.code == 0 or Path("out/unusable.parquet").exists()
    assert Path("out").exists() == published
    if outcome.code == 1:
        assert "withheld: " in outcome.err
