"""A job on other machines whose waiting ends early may go on: its price stays set aside."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.errors import OutOfSightError, RequestError
from pipelines.jobs import run
from pipelines.ledger.ledger import CollectionLedger
from tests.fakes.ledger_rivals import request
from tests.fakes.ledgers import begun

HERE, ELSEWHERE = "FnApiRunner", "DataflowRunner"


def waited(runner: str, error: BaseException, state: str | None = "RUNNING") -> None:
    options: Any = SimpleNamespace(view_as=lambda _: SimpleNamespace(runner=runner))
    with run._in_sight(options) as seen:
        if state is not None:
            seen(SimpleNamespace(state=state))  # type: ignore[arg-type]
        raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ConnectionError("lost"), OSError()])
def test_who_stops_waiting_elsewhere_does_not_know_the_end(error: BaseException) -> None:
    with pytest.raises(OutOfSightError, match="the job may go on where its runner is"):
        waited(ELSEWHERE, error)


@pytest.mark.parametrize("state", ["FAILED", "CANCELLED"])
def test_a_job_that_has_ended_elsewhere_failed(state: str) -> None:
    with pytest.raises(RuntimeError, match="why"):
        waited(ELSEWHERE, RuntimeError("why"), state)


def test_a_job_that_was_never_submitted_failed() -> None:
    with pytest.raises(ValueError, match="no such region"):
        waited(ELSEWHERE, ValueError("no such region"), None)
    with pytest.raises(RequestError):
        waited(ELSEWHERE, RequestError("no job server"), None)
    with pytest.raises(OutOfSightError):  # in the midst of it nobody knows
        waited(ELSEWHERE, KeyboardInterrupt(), None)


def test_a_job_here_ends_with_its_process() -> None:
    with pytest.raises(KeyboardInterrupt):
        waited(HERE, KeyboardInterrupt())


def test_its_price_stays_set_aside(tmp_path: Path) -> None:
    ledger = begun(tmp_path / "ledger.sqlite")
    with pytest.raises(OutOfSightError), ledger.spend(request("monday", str(tmp_path / "out"))):
        raise OutOfSightError("interrupted")
    (entry,) = ledger.entries()
    assert (entry.state, entry.handed_over, entry.counted) == ("reserved", True, True)


def test_an_interrupt_once_it_is_written_gives_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = begun(tmp_path / "ledger.sqlite")
    write = CollectionLedger.write

    def interrupted(*of: Any) -> Any:
        seen = write(*of)
        monkeypatch.setattr(CollectionLedger, "write", write)
        signal.raise_signal(signal.SIGINT)
        return seen

    monkeypatch.setattr(CollectionLedger, "write", interrupted)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt), ledger.spend(request("monday", str(tmp_path / "out"))):
        pass
    assert [entry.state for entry in ledger.entries()] == ["returned"]
    with ledger.spend(request("monday", str(tmp_path / "out"))) as reservation:
        reservation.commit()
