"""A release whose price was settled meanwhile is not written."""

from __future__ import annotations

from pathlib import Path

import pytest

from mechanisms.channel import Guarantee
from pipelines.ledger.entries import Budget
from pipelines.ledger.ledger import Ledger
from pipelines.ledger.rules import Spend
from pipelines.metrics.metric import Content
from pipelines.plan.publish import ReleasePlanDoFn
from pipelines.plan.target import Target
from transforms import progress

LOSS = Guarantee("local", 1.0, 0.0, "user", "closed form")
STATEMENT = {
    "created": "today", "in_words": [], "guarantees": {"release": LOSS.as_dict()}, "n": 3,
    "plan": {"collection": "c", "version": 1, "fingerprint": "f", "window": "w", "unit": "user"},
}  # fmt: skip


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    with pytest.warns(Warning, match="a new ledger was begun"):
        return Ledger.open(str(tmp_path / "ledger.sqlite"))


def target(tmp_path: Path, entry: str | None) -> Target:
    statement = STATEMENT | {"release_id": "a" * 32, "ledger_entry": entry}
    return Target(str(tmp_path / "out"), statement, str(tmp_path / "ledger.sqlite"))


def request(tmp_path: Path) -> Spend:
    budget = Budget(epsilon=2.0, delta=0.0)
    return Spend("c", 1, "f" * 32, "w", "user", budget, (LOSS,), str(tmp_path / "out"))


def test_a_price_that_is_set_aside_stands(tmp_path: Path, ledger: Ledger) -> None:
    with ledger.spend(request(tmp_path)) as reservation:
        assert target(tmp_path, reservation.entry.id).stands()
        ledger.change(reservation.entry.id, lambda _: {"state": "not run"})
        assert not target(tmp_path, reservation.entry.id).stands()


def test_without_a_ledger_or_out_of_its_reach_there_is_nothing_to_ask(tmp_path: Path) -> None:
    assert Target("out", STATEMENT | {"ledger_entry": None}).stands()
    assert Target("out", STATEMENT | {"ledger_entry": "ab"}, str(tmp_path / "elsewhere")).stands()


@pytest.mark.parametrize("state", ["reserved", "not run", "spent"])
def test_what_was_settled_is_not_released(tmp_path: Path, ledger: Ledger, state: str) -> None:
    progress.reset()
    with ledger.spend(request(tmp_path)) as reservation:
        ledger.change(reservation.entry.id, lambda _: {"state": state})
        held = target(tmp_path, reservation.entry.id).telling(release_id=reservation.release_id)
        step = ReleasePlanDoFn(held, ("one",))
        statement = STATEMENT | {"release": "mean"}
        statement["guarantees"] = {"release": LOSS.as_dict(), "local": LOSS.as_dict()}
        step.process(None, {"one": Content({"mean.parquet": b"table"}, statement)})
        counts = state != "not run"
        assert (tmp_path / "out" / "statement.json").exists() == counts
        assert progress.live().get(progress.SETTLED, 0) == (not counts)
