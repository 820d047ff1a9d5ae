"""A release whose price was settled meanwhile, or taken over, is not written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mechanisms.channel import Guarantee
from pipelines.ledger.entries import Budget
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.rules import Spend
from pipelines.metrics.metric import PAGE, Content
from pipelines.plan.publish import ReleasePlanDoFn, ReleaseWholeDoFn
from pipelines.plan.run import ReleaseTarget
from tests.fakes.ledgers import begun
from transforms.elements import progress

LOSS = Guarantee("local", 1.0, 0.0, "user", "closed form")
STATEMENT = {
    "created": "today", "in_words": [], "guarantees": {"release": LOSS.as_dict()}, "n": 3,
    "plan": {
        "collection": "c", "version": 1, "fingerprint": "f", "window": "w", "unit": "user",
        "from": None, "until": None,
    },
}  # fmt: skip


@pytest.fixture
def ledger(tmp_path: Path) -> CollectionLedger:
    return begun(tmp_path / "ledger.sqlite", "c")


def target(tmp_path: Path, stamp: Mapping[str, Any]) -> ReleaseTarget:
    return ReleaseTarget(str(tmp_path / "out"), STATEMENT | stamp, str(tmp_path / "ledger.sqlite"))


def request(tmp_path: Path) -> Spend:
    budget = Budget(epsilon=2.0, delta=0.0)
    return Spend("c", 1, "f" * 32, "w", "user", budget, (LOSS,), str(tmp_path / "out"))


def test_a_price_that_is_set_aside_stands(tmp_path: Path, ledger: CollectionLedger) -> None:
    with ledger.spend(request(tmp_path)) as reservation:
        held = target(tmp_path, reservation.stamp)
        assert held.stands()
        ledger.change(reservation.entry.id, lambda _: {"state": "not run"})
        assert not held.stands()


def test_without_a_ledger_or_out_of_its_reach_there_is_nothing_to_ask(tmp_path: Path) -> None:
    stamp = {"ledger": {"entry": "ab", "attempt": 1}}
    assert ReleaseTarget("out", STATEMENT | {"release_id": "a" * 32}).stands()
    assert ReleaseTarget("out", STATEMENT | stamp, str(tmp_path / "elsewhere")).stands()


def test_a_worker_needs_no_key_to_ask(
    tmp_path: Path, ledger: CollectionLedger, monkeypatch
) -> None:
    with ledger.spend(request(tmp_path)) as reservation:
        monkeypatch.setenv("HUSHBEAM_LEDGER_KEY", str(tmp_path / "none"))
        assert target(tmp_path, reservation.stamp).stands()
        monkeypatch.undo()


CONTENT = Content(
    {"mean.parquet": b"table", PAGE: b"page"},
    STATEMENT
    | {"release": "mean", "guarantees": {"release": LOSS.as_dict(), "local": LOSS.as_dict()}},
)


@pytest.mark.parametrize(
    ("facts", "counts"),
    [
        ({"state": "reserved"}, True),
        ({"state": "spent"}, True),
        ({"state": "not run"}, False),
        ({"attempt": 2}, False),  # in the hands of who tries again, and pays no more
    ],
    ids=str,
)
def test_what_was_settled_or_overtaken_is_not_released(
    tmp_path: Path, ledger: CollectionLedger, facts: dict[str, Any], counts: bool
) -> None:
    progress.reset()
    with ledger.spend(request(tmp_path)) as reservation:
        ledger.change(reservation.entry.id, lambda _: facts)
        step = ReleasePlanDoFn(target(tmp_path, reservation.stamp), ("one",))
        step.process(None, {"one": CONTENT})
        assert (tmp_path / "out" / "statement.json").exists() == counts
        assert progress.live().get(progress.SETTLED, 0) == (not counts)


def test_a_metric_of_which_nothing_came_is_not_taken_for_withheld(
    tmp_path: Path, ledger: CollectionLedger
) -> None:
    withheld = Content({}, {"reports": 5, "min_reports": 10})
    with ledger.spend(request(tmp_path)) as reservation:
        step = ReleaseWholeDoFn(target(tmp_path, reservation.stamp), ("one", "other"))
        step.process(None, {"one": CONTENT})
        assert not (tmp_path / "out").exists()
        step.process(None, {"one": CONTENT, "other": withheld})
        said = json.loads((tmp_path / "out" / "statement.json").read_text())
        assert (said["metrics"], said["withheld"]) == (["one"], ["other"])
