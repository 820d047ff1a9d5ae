"""Reserve before reading, commit with the release, give back on failure."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from mechanisms.channel import Guarantee
from pipelines.errors import Caution, FailedError, RequestError
from pipelines.ledger.accounting import total
from pipelines.ledger.entries import Budget, Entry, Owner
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.owner import may_run, this_process
from pipelines.ledger.reservation import Reservation
from pipelines.ledger.rules import BudgetExceeded, InProgressError
from pipelines.releases import release
from pipelines.storage.alive import SILENCE
from tests.fakes.ledger_rivals import request
from tests.fakes.ledgers import begun

DEAD = Owner(host=this_process().host, process=2**22 + 1, started="long ago")
ELSEWHERE = Owner(host="0" * 12, process=7, started="long ago")


@pytest.fixture
def ledger(tmp_path: Path) -> CollectionLedger:
    return begun(tmp_path / "ledger.sqlite")


@pytest.fixture
def out(tmp_path: Path) -> str:
    return str(tmp_path / "out")


def publish(reservation: Reservation) -> None:
    release.publish(reservation.entry.output, {"table": b"x"}, reservation.stamp)


def make(
    ledger: CollectionLedger, window: str, output: str, epsilon: float = 0.1, **changes: Any
) -> Entry:
    with ledger.spend(request(window, output, epsilon, **changes)) as reservation:
        publish(reservation)
        reservation.commit()
    return reservation.entry


def lose(ledger: CollectionLedger, window: str, output: str, owner: Owner = DEAD) -> Entry:
    """A reservation whose process is gone."""
    with ledger.spend(request(window, output)) as reservation:
        reservation.hand_over()
    return ledger.change(reservation.entry.id, lambda _: {"handed_over": False, "owner": owner})


def states(ledger: CollectionLedger) -> list[str]:
    return [entry.state for entry in ledger.entries()]


def test_a_release_is_reserved_and_then_committed(ledger: CollectionLedger, out: str) -> None:
    with ledger.spend(request("monday", out)) as reservation:
        assert states(ledger) == ["reserved"]
        assert not reservation.published
        publish(reservation)
        reservation.commit()
    entry = ledger.entries()[0]
    assert (entry.state, entry.output) == ("committed", out)
    assert json.loads(release.read(out, release.STATEMENT))["release_id"] == entry.release_id


def test_the_same_window_again_gives_the_stored_release(ledger: CollectionLedger, out: str) -> None:
    first = make(ledger, "monday", out)
    with ledger.spend(request("monday", out + "-again")) as reservation:
        assert reservation.published
        assert reservation.entry == first
    assert not os.path.exists(out + "-again")
    assert states(ledger) == ["committed"]


def test_a_failure_gives_the_budget_back(ledger: CollectionLedger, out: str) -> None:
    with pytest.raises(ZeroDivisionError), ledger.spend(request("monday", out)):
        _ = 1 / 0
    assert states(ledger) == ["returned"]
    make(ledger, "tuesday", out, epsilon=1.0)  # all of it


def fail(ledger: CollectionLedger, output: str, first: Callable[[Reservation], object]) -> None:
    """A run that does something, and then dies of something else."""
    with ledger.spend(request("monday", output)) as reservation:
        first(reservation)
        raise ZeroDivisionError


def test_a_failure_after_publishing_is_a_commit(ledger: CollectionLedger, out: str) -> None:
    with pytest.raises(ZeroDivisionError):
        fail(ledger, out, publish)
    assert states(ledger) == ["committed"]


def test_a_failure_that_left_something_stays_reserved(ledger: CollectionLedger, out: str) -> None:
    def publish_in_part(_: Reservation) -> None:
        os.mkdir(out)
        Path(out, "table").write_bytes(b"part of a release")

    said = r"stays reserved and counts as spent; `hushbeam ledger settle"
    with pytest.warns(Caution, match=said), pytest.raises(ZeroDivisionError):
        fail(ledger, out, publish_in_part)
    assert states(ledger) == ["reserved"]


def test_a_ledger_that_breaks_meanwhile_hides_no_error(ledger: CollectionLedger, out: str) -> None:
    path = ledger.where

    def take_away(_: Reservation) -> None:
        os.rename(path, path + ".bak")

    said = "stays reserved and counts as spent"
    with pytest.warns(Caution, match=said), pytest.raises(ZeroDivisionError):
        fail(ledger, out, take_away)
    os.rename(path + ".bak", path)
    assert states(ledger) == ["reserved"]


def test_what_does_not_fit_is_refused_with_what_would(ledger: CollectionLedger, out: str) -> None:
    make(ledger, "monday", out, epsilon=0.8)
    with pytest.raises(BudgetExceeded) as refusal, ledger.spend(request("tuesday", "b", 0.4)):
        pytest.fail("nothing may be read")
    assert str(refusal.value) == (
        "the budget of collection 'trips' (epsilon 1, delta 0, per user) does not hold this "
        "release: spent by 1 release: epsilon 0.8 at delta 0; with it: epsilon 1.2 at delta 0; "
        "epsilon 0.2 in place of 0.4 would fit. Nothing was read"
    )
    assert states(ledger) == ["committed"]
    make(ledger, "tuesday", out + "2", epsilon=0.2)
    with (
        pytest.raises(BudgetExceeded, match="sure to fit by its promise alone"),
        ledger.spend(request("c", "c")),
    ):
        pytest.fail("nothing may be read")


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_billionth_more_than_is_left_is_refused(
    ledger: CollectionLedger, out: str, delta: float
) -> None:
    """By the sum, and by the accountant, which makes a little less of the two."""
    both = total([request(w, out, e).records[0] for w, e in (("a", 0.9), ("b", 0.1))], delta)
    short, enough = (Budget(epsilon=both.epsilon * (1 + gap), delta=delta) for gap in (-1e-9, 1e-9))
    make(ledger, "monday", out, 0.9, budget=enough)
    with (
        pytest.raises(BudgetExceeded),
        ledger.spend(request("tuesday", "b", 0.1, budget=short)),
    ):
        pytest.fail("nothing may be read")
    make(ledger, "tuesday", out + "2", 0.1, budget=enough)
    assert states(ledger) == ["committed", "committed"]


def test_what_would_fit_does_fit(ledger: CollectionLedger, out: str) -> None:
    budget = Budget(epsilon=1.0, delta=1e-6)
    for k in range(4):
        make(ledger, str(k), out + str(k), 0.2, budget=budget)
    losses = (
        Guarantee("shuffle", 0.3, 1e-8, "user", ""),
        Guarantee("shuffle", 0.2, 0.0, "user", ""),
    )
    asked = request("last", out, budget=budget, losses=losses)
    with (
        pytest.raises(BudgetExceeded, match="all 2 epsilons times") as refusal,
        ledger.spend(asked),
    ):
        pytest.fail("nothing may be read")
    share = float(str(refusal.value).partition("times ")[2].split()[0])
    assert 0 < share < 1
    smaller = tuple(replace(loss, epsilon=loss.epsilon * share) for loss in losses)
    with ledger.spend(replace(asked, losses=smaller)) as reservation:
        assert reservation.entry.counted


def test_windows_do_not_compose_where_the_unit_is_a_window(tmp_path: Path, out: str) -> None:
    ledger = begun(tmp_path / "windows.sqlite", scope="user per window")
    for k in range(5):
        make(ledger, f"day {k}", out + str(k), 0.9, scope="user per window")
    asked = request("day 0", "b", 0.2, scope="user per window", version=2, fingerprint="beef")
    with pytest.raises(BudgetExceeded, match="per user in window day 0"), ledger.spend(asked):
        pytest.fail("nothing may be read")


def test_collections_have_budgets_of_their_own(ledger: CollectionLedger, out: str) -> None:
    begun(ledger.where, "crashes")
    make(ledger, "monday", out, 1.0)
    make(ledger, "monday", out + "2", 1.0, collection="crashes")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"scope": "user per window"}, "name another collection"),
        ({"losses": (Guarantee("shuffle", 0.1, 0.0, "row", ""),)}, "name another collection"),
        ({"fingerprint": "beef"}, "a change of plan is a new version"),
        ({"version": 0, "fingerprint": "beef"}, "version 0 .* is older than version 1"),
    ],
)
def test_an_account_goes_on_as_it_began(
    ledger: CollectionLedger, out: str, changes: dict[str, Any], said: str
) -> None:
    make(ledger, "monday", out)
    with pytest.raises(RequestError, match=said), ledger.spend(request("next", "b", **changes)):
        pytest.fail("nothing may be read")
    assert states(ledger) == ["committed"]


def test_two_schedulers_do_not_make_one_window_twice(ledger: CollectionLedger, out: str) -> None:
    with ledger.spend(request("monday", out)) as mine:
        with pytest.raises(InProgressError) as refusal, ledger.spend(request("monday", "b")):
            pytest.fail("nothing may be read")
        assert f"process {os.getpid()} on machine" in str(refusal.value)
        assert mine.entry.reserved_at in str(refusal.value)
        with ledger.spend(request("tuesday", out + "2")):
            assert states(ledger) == ["reserved", "reserved"]
        mine.commit()
    assert states(ledger) == ["committed", "returned"]


def test_a_lost_run_is_gone_on_with_for_what_it_paid(ledger: CollectionLedger, out: str) -> None:
    lost = lose(ledger, "monday", out)
    made = make(ledger, "monday", out, 0.1)
    assert (made.id, made.release_id, made.attempt) == (lost.id, lost.release_id, 2)
    assert states(ledger) == ["committed"]
    make(ledger, "tuesday", out + "2", 0.9)  # all that is left


def test_another_release_of_a_lost_run_s_window_is_paid_for(
    ledger: CollectionLedger, out: str
) -> None:
    lost = lose(ledger, "monday", out)
    with (
        pytest.raises(BudgetExceeded, match=r"1 release:.*; 1 of them unsettled"),
        ledger.spend(request("monday", out, 0.95)),
    ):
        pytest.fail("nothing may be read")
    make(ledger, "monday", out, 0.2)
    assert states(ledger) == ["reserved", "committed"]
    assert ledger.settle(lost.id[:12], spent=False).state == "not run"


def test_in_two_folders_a_lost_run_might_publish_beside_the_next(
    ledger: CollectionLedger, out: str
) -> None:
    lost = lose(ledger, "monday", out)
    with pytest.raises(RequestError, match=r"that is lost was to publish in .*out: name that"):
        make(ledger, "monday", out + "2")
    assert ledger.settle(lost.id, spent=False).state == "not run"
    make(ledger, "monday", out + "2")


def test_an_attempt_that_was_overtaken_changes_nothing(ledger: CollectionLedger, out: str) -> None:
    """Taken for lost, for it was silent too long; another attempt has published; it wakes up."""
    with ledger.spend(request("monday", out)) as stopped:
        long_ago = (datetime.now(timezone.utc) - 2 * SILENCE).isoformat()
        rival = CollectionLedger.open(ledger.where)
        entry = ledger.unverified().entries[0]
        old = entry.model_copy(update={"owner": ELSEWHERE, "changed_at": long_ago})
        assert ledger.write(old, ledger.read())
        made = make(rival, "monday", out)
        before = Path(out, "statement.json").read_bytes()
        publish(stopped)  # what a worker might do that had looked at the ledger before
        stopped.commit()  # the release that stands counts, and is the other's
        for late in (stopped.hand_over, stopped.sign):
            with pytest.raises(FailedError, match="attempt 2 has overtaken it"):
                late()
    assert Path(out, "statement.json").read_bytes() == before
    assert json.loads(before)["ledger"]["attempt"] == made.attempt == 2
    assert states(ledger) == ["committed"]


@pytest.mark.parametrize("handed_over", [True, False])
def test_a_run_out_of_sight_is_not_taken_for_lost(
    ledger: CollectionLedger, out: str, handed_over: bool
) -> None:
    lost = lose(ledger, "monday", out, DEAD if handed_over else ELSEWHERE)
    ledger.change(lost.id, lambda _: {"handed_over": handed_over})
    with pytest.raises(InProgressError, match="if that run is lost, `hushbeam ledger settle"):
        make(ledger, "monday", out)
    assert ledger.settle(lost.id, spent=True).state == "spent"
    make(ledger, "monday", out)
    assert sum(entry.counted for entry in ledger.entries()) == 2


def test_a_rerun_finds_what_a_lost_run_published(ledger: CollectionLedger, out: str) -> None:
    lost = lose(ledger, "monday", out)
    release.publish(out, {}, {"release_id": lost.release_id})
    assert ledger.published("f00d", "tuesday") is None
    assert ledger.published("beef", "monday") is None
    found = ledger.published("f00d", "monday")
    assert found is not None
    assert (found.id, found.state, found.output) == (lost.id, "committed", out)
    with ledger.spend(request("monday", out)) as reservation:
        assert reservation.published
    assert states(ledger) == ["committed"]


def test_a_strangers_release_in_the_folder_is_no_evidence(
    ledger: CollectionLedger, out: str
) -> None:
    lost = lose(ledger, "monday", out)
    release.publish(out, {}, {"release_id": "another"})
    assert ledger.settle(lost.id, spent=False).state == "not run"
    with pytest.raises(RequestError, match="already holds a release"):
        make(ledger, "monday", out)


def test_what_was_published_cannot_be_settled_as_not_run(
    ledger: CollectionLedger, out: str
) -> None:
    lost = lose(ledger, "monday", out)
    release.publish(out, {}, {"release_id": lost.release_id})
    with pytest.raises(RequestError, match=r"its release stands in .*; settle it with --spent"):
        ledger.settle(lost.id, spent=False)
    assert ledger.settle(lost.id, spent=True).state == "committed"
    with pytest.raises(RequestError, match="no reservation any more"):
        ledger.settle(lost.id, spent=False)


def test_a_running_run_cannot_be_settled(ledger: CollectionLedger, out: str) -> None:
    with ledger.spend(request("monday", out)) as reservation:
        with pytest.raises(InProgressError):
            ledger.settle(reservation.entry.id, spent=False)
        assert states(ledger) == ["reserved"]


def test_a_release_counts_whatever_was_settled(ledger: CollectionLedger, out: str) -> None:
    with ledger.spend(request("monday", out)) as reservation:
        ledger.change(reservation.entry.id, lambda _: {"state": "not run"})
        publish(reservation)
        with pytest.warns(Caution, match="had been settled; it counts again"):
            reservation.commit()
    assert states(ledger) == ["committed"]


@pytest.mark.parametrize("state", ["not run", "returned", "spent"])
def test_a_run_that_was_given_up_and_published_after_all_counts(
    ledger: CollectionLedger, out: str, state: str
) -> None:
    lost = lose(ledger, "monday", out)
    ledger.change(lost.id, lambda _: {"state": state})
    assert ledger.published("f00d", "monday") is None
    release.publish(out, {}, {"release_id": lost.release_id})
    with contextlib.ExitStack() as stack:
        if state != "spent":
            stack.enter_context(pytest.warns(Caution, match="has published: it counts"))
        found = ledger.published("f00d", "monday")
    assert found is not None
    assert (found.id, found.state) == (lost.id, "committed")


@pytest.mark.parametrize("id", ["", "xyz", "0"])
def test_an_id_must_name_one_entry(ledger: CollectionLedger, id: str) -> None:
    with pytest.raises(RequestError, match=r"entries of .* begin with"):
        ledger.settle(id, spent=True)


@pytest.mark.parametrize(
    "losses",
    [
        (),
        (Guarantee.none("it protects nobody"),),
        (Guarantee("local", 0.1, 0, "user", ""), Guarantee("local", 0.1, 0, "row", "")),
    ],
)
def test_a_price_is_finite_and_about_one_unit(losses: tuple[Guarantee, ...]) -> None:
    with pytest.raises(ValueError, match=r"all about the same unit|has no price"):
        request("monday", "out", losses=losses)


def test_processes_are_told_from_others_of_the_same_number() -> None:
    me = this_process()
    assert may_run(me)
    assert not may_run(me.model_copy(update={"started": "earlier"}))
    assert not may_run(DEAD)
    assert may_run(ELSEWHERE)


def test_an_output_that_is_taken_is_refused_before_reserving(
    ledger: CollectionLedger, out: str
) -> None:
    make(ledger, "monday", out)
    with pytest.raises(RequestError, match="already holds a release"):
        make(ledger, "tuesday", out)
    assert states(ledger) == ["committed"]


def test_what_this_process_left_while_the_ledger_was_away_is_given_back(
    ledger: CollectionLedger, out: str
) -> None:
    """The same worker tries again: its lost run costs nothing, for nothing of it was published."""
    path = ledger.where

    def take_away(_: Reservation) -> None:
        os.rename(path, path + ".bak")

    with pytest.warns(Caution, match="stays reserved"), pytest.raises(ZeroDivisionError):
        fail(ledger, out, take_away)
    os.rename(path + ".bak", path)
    assert states(ledger) == ["reserved"]
    with ledger.spend(request("monday", out, 0.9)) as reservation:
        assert states(ledger) == ["returned", "reserved"]
        with pytest.raises(InProgressError), ledger.spend(request("monday", out, 0.9)):
            pytest.fail("it goes on in this process")
        publish(reservation)
        reservation.commit()
    assert states(ledger) == ["returned", "committed"]


def test_what_this_process_left_half_written_goes_on_counting(
    ledger: CollectionLedger, out: str
) -> None:
    def publish_in_part(_: Reservation) -> None:
        os.mkdir(out)
        Path(out, "table").write_bytes(b"part of a release")

    with pytest.warns(Caution, match="stays reserved"), pytest.raises(ZeroDivisionError):
        fail(ledger, out, publish_in_part)
    with pytest.raises(RequestError, match="already holds files"):
        make(ledger, "monday", out)
    assert states(ledger) == ["reserved"]
    make(ledger, "monday", out + "2")
    assert states(ledger) == ["reserved", "committed"]
