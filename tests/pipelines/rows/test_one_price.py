"""All transforms of a budget have one price, solved when it is closed and at no other time."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.internal import pickler
from apache_beam.transforms.window import FixedWindows, TimestampedValue

import hushbeam.beam as private
from pipelines.errors import RequestError
from pipelines.ledger.entries import Budget
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.rules import BudgetExceeded
from pipelines.rows.budgets import PromisedFigures
from tests.fakes.ledgers import begun
from tests.fakes.retrying import retrying

ROWS = [beam.Row(user=f"u{i}", spent=float(i % 7), t=3600 * (i % 2)) for i in range(200)]
SPAN = ("1970-01-01", "1970-01-01T03:00")


def kept(figures: beam.PCollection, path: Path) -> None:
    _ = figures | f"Keep {path.name}" >> beam.Map(_append, str(path))


def _append(figure: beam.Row, path: str) -> None:
    with open(path, "a") as file:
        file.write(json.dumps([figure.metric, figure.window, figure.estimate, figure.epsilon]))
        file.write("\n")


def read(path: Path) -> list[list[Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def geometric(epsilon: float) -> float:
    """The standard deviation of two-sided geometric noise that a move of one shows so much of."""
    fall = math.exp(-epsilon)
    return math.sqrt(2 * fall) / (1 - fall)


def test_two_counts_have_half_the_budget_each_and_keep_it_when_pickled(tmp_path: Path) -> None:
    """Beam pickles a step when it is applied, and when its pipeline is written down, and runs."""
    pipeline = beam.Pipeline("FnApiRunner")
    rows = pipeline | beam.Create(ROWS)
    first, second = (
        private.Count(user="user", budget=budget) for budget in [private.Budget(1.0)] * 2
    )
    budget = first._budget
    figures = rows | "first" >> first
    promised = [*first._promised]
    # Written down and read again while it is open, as ParDo does with what it is handed.
    for step in (beam.Map(print, 1), beam.ParDo(beam.DoFn())):
        pickler.loads(pickler.dumps(step))
    kept(figures, tmp_path / "first")
    others = rows | "second" >> second
    promised += second._promised
    budget.close()
    kept(others, tmp_path / "second")  # also what is consumed later is the figures
    errors = [place.built.metric.error for place in promised]
    promise = first.statement["budget"]["promise"]
    assert 0.99 < promise["epsilon"] <= 1.0
    # By another road than the accountant's: two geometric noises, whose losses of a half add up.
    assert errors[0] == errors[1] == pytest.approx(geometric(0.5), rel=1e-3)
    assert promise["delta"] == 0 or promise["delta"] <= 1e-6
    pipeline.to_runner_api()
    for place in promised:
        again = pickler.loads(pickler.dumps(place.built.metric.design))
        assert again == place.built.metric.design
    pipeline.run().wait_until_finish()
    own = [one.statement["guarantees"]["release"]["epsilon"] for one in (first, second)]
    assert [row[3] for name in ("first", "second") for row in read(tmp_path / name)] == own
    assert own[0] == own[1] < 0.75


def test_with_a_delta_the_price_is_less_than_the_sum() -> None:
    """Eight counts compose: each has more than an eighth of epsilon."""
    rows = beam.Pipeline("FnApiRunner") | beam.Create(ROWS)
    with private.Budget(2.0, 1e-5) as budget:
        counts = [private.Count(user="user", budget=budget) for _ in range(24)]
        for number, count in enumerate(counts):
            _ = rows | str(number) >> count
    epsilons = [count.statement["guarantees"]["release"]["epsilon"] for count in counts]
    assert len({*epsilons}) == 1
    assert sum(epsilons) > 1.2 * 2.0
    assert counts[0].statement["budget"]["promise"]["epsilon"] <= 2.0


def test_shares_are_kept() -> None:
    rows = beam.Pipeline("FnApiRunner") | beam.Create(ROWS)
    with private.Budget(1.0) as budget:
        large = private.Count(user="user", budget=budget, share=0.8, name="large")
        small = private.Sum("spent", (0, 7), user="user", budget=budget)
        _ = rows | "a" >> large, rows | "b" >> small
    said = [one.statement["guarantees"]["release"]["epsilon"] for one in (large, small)]
    assert said[0] / said[1] == pytest.approx(4, rel=1e-3)
    assert [one.statement["metric"] for one in (large, small)] == ["large", "sum"]


def test_shares_of_more_than_all_are_refused() -> None:
    budget, rows = private.Budget(1.0), beam.Pipeline("FnApiRunner") | beam.Create(ROWS)
    for label in ("first", "second"):
        _ = rows | label >> private.Count(user="user", budget=budget, share=0.9)
    with pytest.raises(RequestError, match="add up to more than 1"):
        budget.close()


def test_no_counter_of_a_run_tells_how_many_rows_there_are() -> None:
    pipeline = beam.Pipeline("FnApiRunner")
    _ = pipeline | beam.Create(ROWS) | private.Count(user="user", epsilon=1)
    result = pipeline.run()
    result.wait_until_finish()
    known = result.metrics().query()
    numbers = [one.committed for one in known["counters"]]
    numbers += [x for one in known["distributions"] for x in (one.committed.sum, one.committed.max)]
    assert not {len(ROWS), len({row.user for row in ROWS})} & {*numbers}


def test_two_transforms_of_one_name_are_refused() -> None:
    budget, pipeline = private.Budget(1.0), beam.Pipeline("FnApiRunner")
    rows = pipeline | beam.Create(ROWS)
    for label in ("first", "second"):
        _ = rows | label >> private.Count(user="user", name="users", budget=budget)
    with pytest.raises(RequestError, match="two transforms of the budget have one"):
        budget.close()


def test_what_comes_after_the_price_is_refused() -> None:
    rows = beam.Pipeline("FnApiRunner") | beam.Create(ROWS)
    with private.Budget(1.0) as budget:
        _ = rows | private.Count(user="user", budget=budget)
    with pytest.raises(RequestError, match="the budget is closed"):
        _ = rows | "later" >> private.Count(user="user", budget=budget)


@pytest.mark.parametrize("runner", ["FnApiRunner", "BundleBasedDirectRunner"])
def test_an_open_budget_fails_before_a_row_is_read(runner: str, tmp_path: Path) -> None:
    pipeline = beam.Pipeline(runner)
    read = pipeline | beam.Create(ROWS) | beam.Map(_touch, str(tmp_path / "read"))
    budget = private.Budget(1.0)
    count = private.Count(user="user", budget=budget, types={"user": str})
    _ = read | count
    with pytest.raises(RequestError, match="is open: leave `with Budget"):
        pipeline.run()
    assert not (tmp_path / "read").exists()
    with pytest.raises(RequestError, match="close its budget"):
        _ = count.statement


def _touch(row: Any, path: str) -> Any:
    Path(path).touch()
    return row


def test_a_budget_that_failed_is_not_closed() -> None:
    rows = beam.Pipeline("FnApiRunner") | beam.Create(ROWS)
    count = private.Count(user="user", budget=(budget := private.Budget(1.0)))
    _ = rows | count
    with pytest.raises(ZeroDivisionError), budget:
        raise ZeroDivisionError
    assert isinstance(count._promised[0], PromisedFigures)
    assert count._promised[0].built is None


# ---- the ledger ---------------------------------------------------------------------------------


def run_once(ledger: Path, folder: Path, *, windows: bool = False, epsilon: float = 0.5) -> None:
    with beam.Pipeline("FnApiRunner") as pipeline:
        build(pipeline, ledger, folder, windows=windows, epsilon=epsilon)


def build(pipeline: Any, ledger: Path, folder: Path, *, windows: bool, epsilon: float) -> None:
    rows = pipeline | beam.Create(ROWS)
    if windows:
        stamp = beam.Map(_stamped).with_output_types(rows.element_type)
        rows = rows | stamp | beam.WindowInto(FixedWindows(3600))
    span = SPAN if windows else None
    with private.Budget(epsilon, 1e-6, ledger=ledger, population="shop") as budget:
        count = rows | private.Count(user="user", budget=budget, span=span)
        total = rows | private.Sum("spent", (0, 7), user="user", budget=budget, span=span)
    kept(count, folder / "count")
    kept(total, folder / "sum")


def _stamped(row: Any) -> Any:
    return TimestampedValue(row, row.t)


def entries(ledger: Path) -> list[Any]:
    return [*CollectionLedger.open(str(ledger)).entries()]


def test_a_pipeline_that_runs_twice_pays_twice(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    begun(ledger, "shop")
    pipeline = beam.Pipeline("FnApiRunner")
    build(pipeline, ledger, tmp_path, windows=False, epsilon=0.5)
    assert entries(ledger) == []  # nothing is paid where a pipeline is made
    for runs in (1, 2):
        pipeline.run().wait_until_finish()
        paid = entries(ledger)
        assert len(paid) == runs
        assert all(entry.counted and entry.people == "shop" for entry in paid)
        assert len(paid[0].losses) == 2
    assert len({entry.fingerprint for entry in paid}) == 2
    drawn = {tuple(row) for row in read(tmp_path / "sum")}
    assert len(drawn) == 2  # each run draws anew


def test_each_window_is_paid_for_once_however_often_its_step_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = tmp_path / "ledger.db"
    begun(ledger, "shop", scope="user per window")
    failed: list[int] = []
    usual = CollectionLedger.spend

    def careless(self: Any, request: Any) -> Any:
        if not failed and entries(ledger):
            failed.append(1)
            raise OSError("a ledger that does not answer")
        return usual(self, request)

    monkeypatch.setattr(CollectionLedger, "spend", careless)
    with retrying() as failures:
        run_once(ledger, tmp_path, windows=True)
    assert len(failures) == 1
    paid = entries(ledger)
    assert sorted(entry.window for entry in paid) == [f"1970-01-01T0{h}00" for h in range(3)]
    assert all(entry.counted and entry.span is not None for entry in paid)
    assert len(read(tmp_path / "count")) == 3


def test_what_the_ledger_does_not_hold_is_not_published(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    begun(ledger, "shop", budget=Budget(epsilon=0.55, delta=1e-5))
    run_once(ledger, tmp_path)
    before = (tmp_path / "count").read_text()
    with pytest.raises(BudgetExceeded, match=r"does not hold this release.* Nothing is published"):
        run_once(ledger, tmp_path)
    assert (tmp_path / "count").read_text() == before
    assert len(entries(ledger)) == 1


def test_a_ledger_that_knows_nobody_is_refused_before_it_runs(tmp_path: Path) -> None:
    begun(tmp_path / "ledger.db", "others")
    with pytest.raises(RequestError, match="no population 'shop'"):
        run_once(tmp_path / "ledger.db", tmp_path)
    with pytest.raises(RequestError, match="go together"):
        private.Budget(1.0, ledger="ledger.db")
