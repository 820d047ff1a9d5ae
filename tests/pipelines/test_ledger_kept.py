"""What a collector keeps stays paid for; to make the same release of it again costs nothing."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.cli import cli
from pipelines.errors import Caution, FailedError, RequestError
from pipelines.ledger.entries import Entry, Owner
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.owner import this_process
from pipelines.ledger.rules import BudgetExceeded, InProgressError
from pipelines.releases import release
from tests.fakes.ledger_rivals import request
from tests.fakes.ledgers import begun
from tests.fakes.waiting import HANGS

DEAD = Owner(host=this_process().host, process=2**22 + 1, started="long ago")


@pytest.fixture
def ledger(tmp_path: Path) -> CollectionLedger:
    return begun(tmp_path / "ledger.sqlite")


def fail(ledger: CollectionLedger, output: str, epsilon: float = 0.6) -> Entry:
    """A collector's run that comes to nothing."""
    with pytest.warns(Caution, match="the collector has the reports; to make it again costs"):
        return ledger.entry(broken(ledger, output, epsilon))


def broken(ledger: CollectionLedger, output: str, epsilon: float) -> str:
    with (
        contextlib.suppress(FailedError),
        ledger.spend(request("monday", output, epsilon)) as reservation,
    ):
        ledger.keep(reservation.entry.id)
        raise FailedError("the job ended in state FAILED")
    return reservation.entry.id


def collect(
    ledger: CollectionLedger, output: str, epsilon: float = 0.6, **changes: object
) -> Entry:
    with ledger.spend(request("monday", output, epsilon, **changes)) as reservation:
        ledger.keep(reservation.entry.id)
        release.publish(output, {"table": b"x"}, reservation.stamp)
        reservation.commit()
    return ledger.entry(reservation.entry.id)


def test_a_failure_gives_nothing_back_and_the_same_release_is_free(ledger, tmp_path) -> None:
    failed = fail(ledger, str(tmp_path / "a"))
    assert (failed.state, failed.counted) == ("spent", True)
    with pytest.raises(BudgetExceeded), ledger.spend(request("tuesday", "b", 0.6)):
        pytest.fail("monday's reports are with the collector")
    again = fail(ledger, str(tmp_path / "a"))
    made = collect(ledger, str(tmp_path / "elsewhere"))
    assert again.id == made.id == failed.id
    assert made.output == str(tmp_path / "elsewhere")
    assert (failed.attempt, again.attempt, made.attempt) == (1, 2, 3)
    assert [entry.state for entry in ledger.entries()] == ["committed"]


def test_another_release_of_the_window_is_paid_for(ledger, tmp_path) -> None:
    """Of other losses, of another design, of another version: the reports are not the same."""
    fail(ledger, str(tmp_path / "a"))
    for changes in ({"epsilon": 0.5}, {"design": "d" * 32}, {"version": 2, "fingerprint": "beef"}):
        with pytest.raises(BudgetExceeded):
            collect(ledger, str(tmp_path / "b"), **changes)


@pytest.mark.parametrize(("kept", "reports", "paid"), [(False, 9, 1), (True, 0, 1), (True, 9, 2)])
def test_what_was_withheld_is_paid_for_only_where_reports_were_kept(
    ledger, tmp_path, kept: bool, reports: int, paid: int
) -> None:
    spend = request("monday", str(tmp_path / "a"), 0.3)
    spend = replace(spend, losses=spend.losses * 2, metrics=("city", "rare"))
    with ledger.spend(spend) as reservation:
        if kept:
            ledger.keep(reservation.entry.id)
        statement = {
            **reservation.stamp, "metrics": ["city"], "withheld": ["rare"],
            "missing": {"rare": {"reports": reports, "min_reports": 10}},
        }  # fmt: skip
        release.publish(spend.output, {"table": b"x"}, statement)
    entry = ledger.entry(reservation.entry.id)
    assert (entry.state, len(entry.losses)) == ("committed", paid)
    assert entry.metrics == ("city", "rare")[:paid]


def test_a_collector_that_died_goes_on_for_the_same_price(ledger, tmp_path) -> None:
    with ledger.spend(request("monday", str(tmp_path / "a"), 0.6)) as reservation:
        ledger.keep(reservation.entry.id)
        reservation.hand_over()
    with pytest.raises(InProgressError), ledger.spend(request("monday", "b", 0.6)):
        pytest.fail("it goes on elsewhere")
    ledger.change(reservation.entry.id, lambda _: {"handed_over": False, "owner": DEAD})
    assert collect(ledger, str(tmp_path / "a")).id == reservation.entry.id
    assert len(ledger.entries()) == 1


def test_of_many_that_try_again_one_does(ledger, tmp_path) -> None:
    failed, outcomes, done = fail(ledger, str(tmp_path / "a")), [], threading.Barrier(6)

    def rival() -> None:
        mine = CollectionLedger.open(ledger.where)
        try:
            with mine.spend(request("monday", str(tmp_path / "b"), 0.6)) as reservation:
                outcomes.append(reservation.entry.id)
                done.wait(HANGS)
                reservation.hand_over()
        except InProgressError:
            outcomes.append("")
            done.wait(HANGS)

    threads = [threading.Thread(target=rival) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS)
    assert sorted(outcomes) == ["", "", "", "", "", failed.id]


def test_what_is_kept_cannot_be_settled_as_not_run(ledger, tmp_path, capsys) -> None:
    with ledger.spend(request("monday", str(tmp_path / "a"), 0.6)) as reservation:
        ledger.keep(reservation.entry.id)
        reservation.hand_over()
    with pytest.raises(RequestError, match="the collector has the reports; settle it with --spent"):
        ledger.settle(reservation.entry.id, spent=False)
    assert ledger.settle(reservation.entry.id, spent=True).state == "spent"
    assert cli.main(["ledger", "show", "--ledger", ledger.where]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "1 spent without a release: the collector has the reports, or the window" in said
    assert collect(ledger, str(tmp_path / "a")).state == "committed"
