"""`hushbeam ledger`: what people and programs are shown, and how a reservation is settled."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mechanisms.channel import Guarantee
from pipelines.ledger import account
from pipelines.ledger.entries import Budget
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.spans import span_of
from tests.fakes.ledger_rivals import request
from tests.fakes.ledgers import begun

BUDGET = Budget(epsilon=1.0, delta=1e-6)


@pytest.fixture
def path(workspace: Path) -> str:
    """Two days committed, one lost; and another collection, by the window."""
    path = "ledger.sqlite"
    begun(path, "crashes", scope="user per window")
    ledger = begun(path)
    losses = (Guarantee("shuffle", 0.1, 1e-8, "user", "enumeration"),)
    for day in ("monday", "tuesday", "wednesday"):
        asked = request(day, str(workspace / "out" / day), budget=BUDGET, losses=losses)
        with ledger.spend(asked) as reservation:
            if day == "wednesday":
                reservation.hand_over()
            else:
                reservation.commit()
    for day in ("monday", "tuesday"):
        asked = request(
            day, f"out/{day}-crashes", 0.9, collection="crashes", scope="user per window"
        )
        with ledger.spend(asked) as reservation:
            reservation.commit()
    return path


def lost(path: str, seen: bool = True) -> str:
    ledger = CollectionLedger.open(path) if seen else CollectionLedger.at(path)
    (found,) = [entry.id for entry in ledger.entries() if entry.state == "reserved"]
    return found


def test_show_lists_every_entry(run, path: str) -> None:
    outcome = run(["ledger", "show", "--ledger", path])
    assert (outcome.code, outcome.err) == (0, "")
    for word in ("trips", "crashes", "wednesday", "committed", "reserved", lost(path)[:8], "1e-08"):
        assert word in outcome.out
    assert "1 reserved: each counts as spent until" in outcome.out
    assert "sum of" in outcome.out  # a window's metrics are not composed there
    (line,) = [line for line in outcome.out.splitlines() if ": together epsilon" in line]
    assert line.startswith("trips, per user: together epsilon 0.3")  # of three; others are alone


def test_show_of_many_entries_lists_the_last_and_sums_up(run, path: str, monkeypatch) -> None:
    monkeypatch.setattr(account, "MOST", 2)
    outcome = run(["ledger", "show", "--ledger", path])
    first, *_ = outcome.out.splitlines()
    assert first == "the last 2 of 5 entries (4 committed, 1 reserved); --all shows all"
    assert outcome.out.count("crashes version") == 2
    assert "wednesday" not in outcome.out
    assert "1 reserved: each counts as spent until" in outcome.out
    whole = run(["ledger", "show", "--ledger", path, "--all"])
    assert whole.out.count(" version ") == 5
    assert len(json.loads(run(["ledger", "show", "--json", "--ledger", path]).out)) == 5


def test_show_has_the_joint_price_of_each_window_of_several_metrics(run, workspace: Path) -> None:
    """Windows that come to the same stand in one line."""
    ledger = begun("own.sqlite", scope="user per window")
    prices = [(0.2, 0.3)] * 3 + [(0.4,), (0.1, 0.1)]
    for version, epsilons in enumerate(prices, 1):
        window = f"2026-11-0{version}"
        losses = tuple(Guarantee("central", e, 0.0, "user", "told") for e in epsilons)
        asked = request(
            window, f"out/{window}", scope="user per window", losses=losses, version=version,
            metrics=tuple("ab"[: len(losses)]), span=span_of(window),
        )  # fmt: skip
        with ledger.spend(asked) as reservation:
            reservation.commit()
    lines = run(["ledger", "show", "--ledger", "own.sqlite"]).out.splitlines()
    assert [line for line in lines if ": together epsilon" in line] == [
        "trips, per user, each of 3 windows from 2026-11-01 to 2026-11-03: together epsilon 0.5, "
        "delta 0",
        "trips, per user, window 2026-11-05: together epsilon 0.2, delta 0",
    ]


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
    outcome = run(["ledger", "settle", id[:12], flag, "--ledger", path])
    assert (outcome.code, outcome.out, outcome.err) == (0, f"entry {id} is now: {state}\n", "")
    again = run(["ledger", "settle", id, flag, "--ledger", path])
    assert again.code == 2
    assert again.err == f"hushbeam: entry {id} is no reservation any more: it is {state!r}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show"], "--ledger"),
        (["show", "--ledger", "absent.sqlite"], "there is no absent.sqlite"),
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
        ([], "init.show.explain"),
    ],
)
def test_wrong_requests_are_told_in_a_line(
    run, path: str, words: list[str], said: str, monkeypatch
) -> None:
    # What is wrong is said before the store is asked, which would need credentials.
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
    outcome = run(["ledger", *words])
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert any(part in outcome.err for part in said.split("|")) or said == "init.show.explain"
    assert not Path("absent.sqlite").exists()


def test_a_ledger_with_nothing_in_it_is_shown(run, workspace: Path) -> None:
    begun("new.sqlite")
    assert run(["ledger", "show", "--ledger", "new.sqlite"]).code == 0
    assert json.loads(run(["ledger", "explain", "--json", "--ledger", "new.sqlite"]).out) == []


PLAN = """\
collection: trips
version: 1
unit: user per window
user_column: user
input: log/{window}.parquet
output: out/{window}
ledger: kept/l.sqlite
budget: {epsilon: 2, delta: 1.0e-6}
epsilon: 1
delta: 1.0e-8
min_reports: 100
metrics: [{name: city, kind: histogram, column: city, domain: 0..3}]
"""


def test_init_of_a_plan_says_all_of_it(run, workspace: Path) -> None:
    Path("plan.yaml").write_text(PLAN)
    Path("kept").mkdir()
    assert "there is no ledger" in run(["check", "plan.yaml"]).out
    first = run(["ledger", "init", "plan.yaml"])
    assert (first.code, first.err) == (0, "")
    assert "population 'trips' has epsilon 2, delta 1e-06" in first.out
    seen = json.loads(Path("out/l.witness.json").read_text())  # beside the releases
    assert seen["changes"] == 2  # its beginning, and the population
    again = run(["ledger", "init", "plan.yaml", "--json"])
    assert "as before" in json.loads(again.out)["done"]
    assert json.loads(Path("out/l.witness.json").read_text()) == seen
    Path("plan.yaml").write_text(PLAN.replace("epsilon: 2", "epsilon: 3"))
    refused = run(["ledger", "init", "plan.yaml"])
    assert (refused.code, "--amend gives it another budget" in refused.err) == (2, True)
    assert run(["ledger", "init", "plan.yaml", "--amend"]).code == 0
    assert "there is no ledger" not in run(["check", "plan.yaml"]).out
    checked = run(["ledger", "check", "--ledger", "kept/l.sqlite", "--releases", "out/*"])
    assert "3 changes, 0 entries; its witness" in checked.out
    assert "and 0 releases agree with it" in checked.out


def test_a_release_that_is_gone_or_another_fails_the_check(run, workspace: Path, log: str) -> None:
    """Somebody else's statement in the place of a release does not agree: it is not counted out."""
    begin = ["ledger", "init", "--ledger", "l.sqlite", "--population", "p", "--unit", "row"]
    begin += ["--budget", "2,1e-5"]
    assert run(begin).code == 0
    for name in ("a", "b"):
        words = ["count", "--input", log, "--epsilon", "0.5", "--output", f"out/{name}"]
        made = run([*words, "--ledger", "l.sqlite", "--population", "p"])
        assert made.code == 0, made.said
    check = ["ledger", "check", "--ledger", "l.sqlite"]
    assert "and 2 releases agree with it" in run(check).out
    path = Path("out/a/statement.json")
    own = path.read_text()
    stranger = json.loads(own) | {"release_id": "f" * 32}
    for text in (json.dumps(stranger), "no statement", Path("out/b/statement.json").read_text()):
        path.write_text(text)
        for words in (check, [*check, "--releases", "out/*"]):
            checked = run(words)
            assert (checked.code, checked.err.count("\n")) == (2, 1), checked.said
            assert "its release is not in " in checked.err
    path.unlink()
    assert run(check).code == 2
    path.write_text(own)
    assert run(check).code == 0
    shutil.rmtree("out/b")
    assert run(check).code == 2
    (id,) = (e["id"] for e in json.loads(run(["ledger", "show", "--json", *check[2:]]).out)
             if e["output"].endswith("b"))  # fmt: skip
    assert run(["ledger", "archive", id, *check[2:]]).code == 0
    assert "and 1 release agree with it" in run(check).out


def test_a_ledger_without_a_plan_keeps_its_witness_in_the_state_folder(
    run, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(workspace / "state"))
    words = ["ledger", "init", "--ledger", "l.sqlite", "--population", "riders", "--budget", "2.5"]
    first = run(words)
    assert (first.code, "made" in first.err, "ledger-key" in first.err) == (0, True, True)
    assert (workspace / "state/hushbeam/ledger-key").stat().st_mode & 0o077 == 0
    (witness,) = (workspace / "state/hushbeam/witnesses").iterdir()
    assert witness.name.startswith("l.sqlite-")
    assert "epsilon 2.5, delta 1e-06" in run(words).out
    assert len([*(workspace / "state/hushbeam/witnesses").iterdir()]) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["init"], "--ledger is missing: name a PLAN, or"),
        (["init", "--ledger", "l", "--population", "a"], "--budget is missing"),
        (
            ["init", "--ledger", "l", "--population", "a", "--budget", "much"],
            "is no EPSILON",
        ),
        (["init", "--ledger", "l", "--population", "a", "--budget", "0"], "is no EPSILON"),
        (
            ["init", "--ledger", "gs://b/l", "--population", "a", "--budget", "1"],
            "--witness is",
        ),
        (["init", "plan.yaml", "--budget", "1"], "--budget: the plan says it"),
        (["init", "bare.yaml"], "has no ledger: add `ledger` and `budget` to it"),
        (["init", "absent.yaml"], "absent.yaml"),
        (["adopt", "--ledger", "absent"], "there is no absent"),
        (["archive", "ffff", "--ledger", "absent"], "there is no absent"),
        (["check", "--ledger", "absent"], "there is no absent"),
    ],
)
def test_what_cannot_be_done_is_told_and_leaves_nothing(
    run, workspace: Path, words: list[str], said: str, monkeypatch
) -> None:
    # What is wrong is said before the store is asked, which would need credentials.
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
    Path("plan.yaml").write_text(PLAN)
    bare = [line for line in PLAN.splitlines() if not line.startswith(("ledger", "budget"))]
    Path("bare.yaml").write_text("\n".join(bare))
    outcome = run(["ledger", *words])
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert said in outcome.err
    assert sorted(path.name for path in workspace.iterdir()) == ["bare.yaml", "plan.yaml", "tmp"]


def test_a_ledger_is_adopted_and_releases_are_archived(run, path: str) -> None:
    sound = run(["ledger", "adopt", "--ledger", path])
    assert (sound.code, "is sound: there is nothing to adopt" in sound.err) == (2, True)
    Path(f"{path}.witness").unlink()
    gone = run(["ledger", "archive", "ffff", "--ledger", path])
    assert (gone.code, "the witness of ledger.sqlite is not there" in gone.err) == (2, True)
    asked = run(["ledger", "adopt", "--ledger", path, "--witness", "new.json"])
    assert (asked.code, "--lost is missing" in asked.err) == (2, True)
    done = run(["ledger", "adopt", "--ledger", path, "--witness", "new.json", "--lost", "0.25"])
    assert (done.code, "adopted ledger.sqlite: 5 entries, 2 populations" in done.out) == (0, True)
    assert "epsilon 0.25, delta 0 more is spent of each (trips: replace, crashes: r" in done.out
    entries = json.loads(run(["ledger", "show", "--json", "--ledger", path]).out)
    lost = [entry for entry in entries if entry["window"] == "lost"]
    assert sorted(entry["population"] for entry in lost) == ["crashes", "trips"]
    assert {entry["losses"][0]["epsilon"] for entry in lost} == {0.25}
    ids = [entry["id"] for entry in entries if entry["state"] == "committed"][:2]
    archived = run(["ledger", "archive", *ids, "--ledger", path])
    assert archived.out == "".join(f"entry {id} is now: archived\n" for id in ids)
    assert run(["ledger", "archive", lost[0]["id"], "--ledger", path]).code == 2
    # All of it is read again, what was before the adoption too.
    more = [entry["id"] for entry in entries if entry["state"] == "committed"][2:]
    assert run(["ledger", "archive", *more, "--ledger", path]).code == 0
    checked = run(["ledger", "check", "--ledger", path])
    assert (checked.code, "agree with it" in checked.out) == (0, True), checked.err


def test_a_ledger_that_may_be_old_is_shown_all_the_same(run, path: str) -> None:
    Path(f"{path}.witness").unlink()
    for words in (["show"], ["explain"]):
        outcome = run(["ledger", *words, "--ledger", path])
        assert (outcome.code, outcome.err.count("is not there")) == (0, 1)
        assert "trips" in outcome.out
    assert run(["ledger", "settle", lost(path, seen=False), "--spent", "--ledger", path]).code == 2


def test_what_was_lost_has_the_delta_that_was_typed(run, path: str, workspace: Path) -> None:
    """And its witness is the same file wherever the next command is typed."""
    Path(f"{path}.witness").unlink()
    adopted = ["ledger", "adopt", "--ledger", path, "--witness", "new.json", "--lost", "0.2"]
    assert run(adopted).code == 0
    entries = CollectionLedger.open(path).entries()
    assert {e.losses[0].delta for e in entries if e.window == "lost"} == {0.0}
    assert CollectionLedger.at(path).read().beginning.witness == str(workspace / "new.json")


@pytest.mark.parametrize(
    ("known", "words", "neighbours", "total", "more"),
    [
        (["add or remove"], [], "add or remove", 0.9 + 0.1, 8),
        (["replace"], [], "replace", 0.9 + 0.1, 8),
        # All counts as "replace" beside what does, where "add or remove" is twice its epsilon.
        (["replace", "add or remove"], [], "add or remove", 2 * 0.9 + 0.9 + 2 * 0.1, None),
        ([], [], "add or remove", 0.1, 89),
        (["zero-out"], [], "zero-out", 0.9 + 0.1, 8),
        (["zero-out"], ["--neighbours", "replace"], "replace", 2 * 0.9 + 0.1, 3),
        (["add or remove"], ["--neighbours", "replace"], "replace", 2 * 0.9 + 0.1, 3),
    ],
)
def test_what_was_lost_is_about_the_neighbours_of_what_is_known(
    run, workspace: Path, known: list[str], words: list[str], neighbours: str, total: float,
    more: int | None,
) -> None:  # fmt: skip
    path, budget = "ledger.sqlite", Budget(epsilon=9.0, delta=0.0)
    ledger = begun(path, budget=budget)
    for kind in known:
        losses = (Guarantee("central", 0.9, 0.0, "user", "told", neighbours=kind),)
        with ledger.spend(request(kind, f"out/{kind}", budget=budget, losses=losses)) as reserved:
            reserved.commit()
    adopt = ["ledger", "adopt", "--ledger", path, "--witness", "new.json", "--lost", "0.1", *words]
    Path(f"{path}.witness").unlink()
    assert f"(trips: {neighbours})" in run(adopt).out
    (whole,) = account.accounts(path)
    assert whole["total"]["epsilon"] == pytest.approx(total)
    assert whole["replaced"] == (len({neighbours, *known}) > 1)
    # More like the last release fits, and not more like the lost ones.
    assert whole["last_release"] == ([0.9] if known else [0.1])
    assert not known or whole["collection"] == "trips"
    assert more is None or whole["further_like_the_last"] == more
