"""`hushbeam ledger`: what people and programs are shown, and how a reservation is settled."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from mechanisms.channel import Guarantee
from pipelines.ledger.entries import Budget
from pipelines.ledger.ledger import Ledger
from tests.fakes.ledger_rivals import request

BUDGET = Budget(epsilon=1.0, delta=1e-6)


@pytest.fixture
def path(workspace: Path) -> str:
    """Two days committed, one lost; and another collection, by the window."""
    path = "ledger.sqlite"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ledger = Ledger.open(path)
    losses = (Guarantee("shuffle", 0.1, 1e-8, "user", "enumeration"),)
    for day in ("monday", "tuesday", "wednesday"):
        asked = request(day, str(workspace / "out" / day), budget=BUDGET, losses=losses)
        with ledger.spend(asked) as reservation:
            if day == "wednesday":
                reservation.hand_over()
            else:
                reservation.commit(asked.output, reservation.release_id)
    for day in ("monday", "tuesday"):
        asked = request(
            day, f"out/{day}-crashes", 0.9, collection="crashes", scope="user per window"
        )
        with ledger.spend(asked) as reservation:
            reservation.commit(asked.output, reservation.release_id)
    return path


def lost(path: str) -> str:
    (found,) = [entry.id for entry in Ledger.open(path).entries() if entry.state == "reserved"]
    return found


def test_show_lists_every_entry(run, path: str) -> None:
    outcome = run(["ledger", "show", "--ledger", path])
    assert (outcome.code, outcome.err) == (0, "")
    for word in ("trips", "crashes", "wednesday", "committed", "reserved", lost(path)[:8], "1e-08"):
        assert word in outcome.out
    assert "1 reserved: each counts as spent until" in outcome.out


def test_show_for_programs(run, path: str) -> None:
    outcome = run(["ledger", "show", "--json", "--ledger", path, "--collection", "trips"])
    entries = json.loads(outcome.out)
    assert [(entry["window"], entry["state"]) for entry in entries] == [
        ("monday", "committed"), ("tuesday", "committed"), ("wednesday", "reserved"),
    ]  # fmt: skip


def test_explain_says_how_the_total_comes_about(run, path: str) -> None:
    outcome = run(["ledger", "explain", "--ledger", path, "--collection", "trips"])
    assert (outcome.code, outcome.err) == (0, "")
    assert "releases: 2 committed, 1 reserved" in outcome.out
    assert "their sum: epsilon 0.3, delta 3e-08 (basic composition)" in outcome.out
    assert "budget: epsilon 1, delta 1e-06" in outcome.out
    more = int(outcome.out.partition("what still fits: ")[2].split()[0])
    assert more >= 7


def test_explain_for_programs_keeps_windows_apart_where_they_do_not_compose(run, path: str) -> None:
    accounts = json.loads(run(["ledger", "explain", "--json", "--ledger", path]).out)
    assert [(a["collection"], a["window"]) for a in accounts] == [
        ("trips", None), ("crashes", "monday"), ("crashes", "tuesday"),
    ]  # fmt: skip
    crashes = accounts[1]
    assert crashes["total"]["epsilon"] == crashes["basic"]["epsilon"] == 0.9
    assert crashes["further_like_the_last"] == 0
    assert crashes["largest_share_of_the_last"] == pytest.approx(1 / 9, rel=0.01)
    assert accounts[0]["basic"]["epsilon"] == 0.3


@pytest.mark.parametrize(("flag", "state"), [("--spent", "spent"), ("--not-run", "not run")])
def test_settle_ends_a_reservation(run, path: str, flag: str, state: str) -> None:
    id = lost(path)
    outcome = run(["ledger", "settle", id[:8], flag, "--ledger", path])
    assert (outcome.code, outcome.out, outcome.err) == (0, f"entry {id} is now: {state}\n", "")
    again = run(["ledger", "settle", id, flag, "--ledger", path])
    assert again.code == 2
    assert again.err == f"hushbeam: entry {id} is no reservation any more: it is {state!r}\n"


def test_a_folder_that_meant_another_place_elsewhere_gives_nothing_back(run, path: str) -> None:
    """As entries of earlier versions have it: its release may stand where the run was started."""
    ledger, id = Ledger.open(path), lost(path)
    ledger.change(id, lambda _: {"output": "out/wednesday"})
    outcome = run(["ledger", "settle", id, "--not-run", "--ledger", path])
    assert (outcome.code, "settle it with --spent" in outcome.err) == (2, True)
    assert run(["ledger", "settle", id, "--spent", "--ledger", path]).code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show"], "--ledger"),
        (["show", "--ledger", "absent.sqlite"], "No such file"),
        (["show", "--ledger", "ftp://host/ledger"], "name a local file or gs://"),
        (["show", "--ledger", "gs://bucket"], "names no object|google-cloud-storage"),
        (
            ["explain", "--ledger", "ledger.sqlite", "--collection", "none"],
            "holds nothing of 'none'",
        ),
        (["settle", "ffff", "--ledger", "ledger.sqlite"], "--spent --not-run is required"),
        (["settle", "zzzz", "--spent", "--ledger", "ledger.sqlite"], "no entries of"),
        (["settle", "x", "--spent", "--not-run", "--ledger", "ledger.sqlite"], "not allowed with"),
        (["show", "--ledger", "ledger.sqlite", "more"], "unknown: more"),
        ([], "show.explain.settle"),
    ],
)
def test_wrong_requests_are_told_in_a_line(run, path: str, words: list[str], said: str) -> None:
    outcome = run(["ledger", *words])
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert any(part in outcome.err for part in said.split("|")) or said == "show.explain.settle"
    assert not Path("absent.sqlite").exists()


def test_a_ledger_with_nothing_in_it_is_shown(run, workspace: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Ledger.open("new.sqlite")
    assert run(["ledger", "show", "--ledger", "new.sqlite"]).code == 0
    assert json.loads(run(["ledger", "explain", "--json", "--ledger", "new.sqlite"]).out) == []
