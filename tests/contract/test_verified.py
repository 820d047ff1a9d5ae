"""What is published of every form can be verified: its price again from its statement, its tables.

Nothing here is drawn anew: a price is computed from a design, and figures are held to each other.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from mechanisms import designs
from pipelines.metrics.permanent import promises
from pipelines.plan.job import open_job
from pipelines.plan.loading import load
from pipelines.verify.verify import opened, verified
from tests.contract import examples, forms, runs
from tests.contract.test_figures import asked, every_case, most_cases_later
from tests.fakes.repeating import RUNNER, seeded

KEY = str(Path(os.environ["XDG_STATE_HOME"], "hushbeam", "signing-key.public.pem"))
DAY, WINDOW = "2024-05-08", "one"


@pytest.fixture(autouse=True)
def log(workspace: Path) -> None:
    runs.write_inputs(workspace, examples.log())
    (workspace / f"{WINDOW}.parquet").symlink_to("log.parquet")


def plan(kind: str, name: str, options: dict[str, Any]) -> str:
    """A plan of one form; the window to run of it."""
    running = name == forms.HORIZON
    said = {"input": "{window}.parquet" if running else "log.parquet", "output": "out/{window}"}
    Path("plan.yaml").write_text(runs.plan([("m", kind, options)], **said))
    return WINDOW if running else DAY


@every_case
def test_its_price_is_computed_again_from_its_record(kind: str, name: str) -> None:
    """Never above what is said, and within a thousandth of it."""
    form, options = asked(kind, name)
    if form.refused:
        return
    window = plan(kind, name, options)
    (metric,) = open_job(load("plan.yaml"), window).metrics
    said = promises(metric)[0]
    record = json.loads(json.dumps(designs.written(metric.priced), allow_nan=False))
    design = designs.read(record)
    assert design == metric.priced
    designs.require_met(design, said.epsilon, said.delta)
    with pytest.raises(ValueError, match="epsilon"):
        designs.require_met(design, said.epsilon * (1 - 1e-3), said.delta)
    # A curve is kept by points, and chords between them lie above it.
    curve = designs.profile(design, said.epsilon, said.delta)
    assert curve.delta(said.epsilon) <= 1.01 * said.delta + 1e-15


@most_cases_later
def test_its_release_is_verified(kind: str, name: str, run) -> None:
    form, options = asked(kind, name)
    if form.refused:
        return
    window = plan(kind, name, options)
    with seeded(f"verify {kind} {name}"):
        runner = [] if name == forms.HORIZON else [RUNNER]
        outcome = run(["run", "plan.yaml", "--window", window, *runner])
    assert outcome.code == 0, outcome.said
    report = verified([f"out/{window}"], opened(KEY))
    findings = report.findings[f"out/{window}"]
    assert [one for one in findings if one.outcome == "fault"] == []
    subjects = {one.subject for one in findings if one.outcome == "holds"}
    assert subjects == {"signature", "price", "tables"}
    prices = [one for one in findings if one.subject == "price"]
    assert all(one.outcome == "holds" and "computed again" in one.said for one in prices), prices
