"""What is published of every form can be verified: its price again from its statement, its tables.

Nothing here is drawn anew: a price is computed from a design, and figures are held to each other.
"""

from __future__ import annotations

import copy
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mechanisms import designs
from pipelines.metrics.permanent import promises
from pipelines.plan.job import open_job
from pipelines.plan.loading import load
from pipelines.verify import price
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


MISSING = object()
WRONG = (None, "x", [], {}, True, math.nan, math.inf, MISSING)
"""In place of any part of a record, none of which is of its type, but for what may be absent."""
ABSENT = {"distinct", "max_messages", "zeros", "unit"}
CHEAP = 1 / 32  # of epsilon and delta: a number that is halved or doubled never changes them so far


@most_cases_later
def test_no_altered_record_of_it_holds_unawares(kind: str, name: str) -> None:
    """Each part of a record in turn is another one: it is refused, or its price is still near."""
    form, options = asked(kind, name)
    if form.refused:
        return
    window = plan(kind, name, options)
    (metric,) = open_job(load("plan.yaml"), window).metrics
    release, local = (one.as_dict() for one in promises(metric))
    record = json.loads(json.dumps(designs.written(metric.priced)))
    said = {
        "guarantees": {"release": release, "local": local}, "request": metric.request, "n": 10**9,
        "release": kind,
    }  # fmt: skip
    cheap = {key: value * CHEAP for key, value in release.items() if key in ("epsilon", "delta")}
    cheaply = said | {"guarantees": {"release": release | cheap, "local": local}}
    assert price.of_metric("m", said | {"design": record}).outcome == "holds"
    for path in parts(record):
        before = at(record, path)
        for value in (*WRONG, [before]):
            altered = said | {"design": changed(record, path, value)}
            shorter = value == [] and isinstance(before, list)  # another layout
            shorter |= value is MISSING and isinstance(path[-1], int)
            absent = value is None and path[-1] in ABSENT
            if altered["design"] == record or shorter or absent:
                continue
            outcome = price.of_metric("m", altered).outcome
            assert outcome == "fault" or (path[-1] == "is" and outcome == "not checked"), path
        if type(before) not in (int, float):
            continue
        for number in (-before, 0, before // 2, before / 2, 2 * before, 10**18, 10**400, 1e-300):
            altered = {"design": changed(record, path, number)}
            finding = price.of_metric("m", said | altered)
            assert finding.outcome in ("holds", "fault")
            if finding.outcome == "holds" and abs(number) <= 2 * abs(before) < 4 * abs(number):
                assert price.of_metric("m", cheaply | altered).outcome == "fault", path


def parts(record: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a record; of parts in a row the first stands for all."""
    inner = record.items() if isinstance(record, dict) else ()
    for key, part in [*enumerate(record[:1])] if isinstance(record, list) else inner:
        yield (*path, key)
        yield from parts(part, (*path, key))


def at(record: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        record = record[key]
    return record


def changed(record: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The record with another part."""
    record = copy.deepcopy(record)
    inner = at(record, path[:-1])
    if value is MISSING:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return record


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
    report = verified([f"out/{window}"], opened([KEY]))
    findings = report.findings[f"out/{window}"]
    assert [one for one in findings if one.outcome == "fault"] == []
    subjects = {one.subject for one in findings if one.outcome == "holds"}
    assert subjects == {"signature", "statement", "price", "tables", "pages"}
    prices = [one for one in findings if one.subject == "price"]
    assert all(one.outcome == "holds" and "computed again" in one.said for one in prices), prices
