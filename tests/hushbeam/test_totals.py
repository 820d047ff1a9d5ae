"""Running totals that are kept in a folder, through kills, restarts and races."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hushbeam
from mechanisms.randomness import SeededRandom
from pipelines.cli import cli
from pipelines.running import totals as running
from pipelines.running.kept import Place

TERMS: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "horizon": 30, "secret": "kept/secret"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "totals"


def estimates(totals: hushbeam.RunningTotals) -> list[int]:
    found: list[int] = totals.total()["estimate"].to_pylist()
    return found


def test_totals_grow_within_their_errors_and_windows_roll() -> None:
    totals = hushbeam.RunningTotals("totals", **TERMS)
    for day in range(30):
        table = totals.add(f"day {day}", 1000)
    rows = table.to_pylist()
    assert [row["window"] for row in rows] == [f"day {day}" for day in range(30)]
    off = [row["estimate"] - 1000 * (day + 1) for day, row in enumerate(rows)]
    # Beyond 7 standard errors with a probability below 1e-10.
    assert all(abs(x) < 7 * row["standard_error"] for x, row in zip(off, rows, strict=True))
    assert any(off)
    week = totals.rolling(7).to_pylist()
    assert len(week) == 24
    assert week[-1]["estimate"] == rows[-1]["estimate"] - rows[-8]["estimate"]
    # A week is off by less than two totals that know nothing of each other.
    assert week[-1]["standard_error"] < 0.8 * 2**0.5 * rows[-1]["standard_error"]
    assert totals.guarantee.delta <= 1e-6
    assert repr(totals) == "<hushbeam.RunningTotals: 30 of 30 windows>"
    with pytest.raises(hushbeam.RequestError, match="all 30 windows of the horizon were drawn"):
        totals.add("day 30", 1000)


def test_errors_are_what_is_said_of_them() -> None:
    """Of 2,000 totals side by side: within 6.5 standard errors of a standard deviation, which it
    leaves with a probability below 1e-10."""
    names = [f"v{place}" for place in range(2000)]
    totals = hushbeam.RunningTotals("totals", **TERMS, names=names)
    for day in range(5):
        totals.add(str(day), dict.fromkeys(names, 50))
    for table, true in ((totals.total(), 250), (totals.rolling(3), 150)):
        last = table.slice(len(table) - 2000).to_pandas()
        error = last.standard_error.iloc[0]
        assert np.std(last.estimate - true) == pytest.approx(error, rel=6.5 / 4000**0.5)
        assert abs(np.mean(last.estimate - true)) < 6.5 * error / 2000**0.5


def test_what_is_asked_again_is_drawn_once() -> None:
    first = estimates_of("a", 10)
    assert estimates_of("a", 10) == first
    second = estimates_of("b", 5)
    assert second[0] == first[0]
    for window, number in (("a", 10), ("b", 6)):
        with pytest.raises(hushbeam.RequestError, match=f"window {window} was drawn before"):
            estimates_of(window, number)
    assert estimates_of("b", 5) == second


def estimates_of(window: str, number: int) -> list[int]:
    """As a job does that begins anew each day."""
    totals = hushbeam.RunningTotals("totals", **TERMS)
    totals.add(window, number)
    return estimates(totals)


@pytest.mark.parametrize("where", ["before it is kept", "after it is kept"])
def test_a_job_that_is_killed_has_shown_nothing_that_is_drawn_twice(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    estimates_of("a", 10)
    before, replaced = Path("kept/secret").read_bytes(), os.replace

    def killed(*paths: Any) -> None:
        if where == "after it is kept":
            replaced(*paths)
        raise KeyboardInterrupt

    monkeypatch.setattr("pipelines.running.kept.os.replace", killed)
    with pytest.raises(KeyboardInterrupt):
        estimates_of("b", 20)
    monkeypatch.setattr("pipelines.running.kept.os.replace", replaced)
    kept = Path("kept/secret").read_bytes()
    drawn = [row[0] for row in json.loads(kept)["totals"]]
    assert (kept == before) == (where == "before it is kept")
    after = estimates_of("b", 20)
    assert after[: len(drawn)] == drawn
    assert {path.name for path in Path("kept").iterdir()} == {"secret"}
    assert {path.name for path in Path().iterdir()} == {"kept", "totals"}  # and no lock
    assert {path.name for path in Path("totals").iterdir()} == {
        "report.html",
        "signature.json",
        "statement.json",
        "totals.parquet",
    }


def test_the_confidence_of_the_begin_is_that_of_what_is_published() -> None:
    totals = hushbeam.RunningTotals("totals", **TERMS, confidence=0.5)
    shown = totals.add("a", 10)
    (row,) = shown.to_pylist()
    # The half of a normal law is within 0.674490 of its standard deviation.
    half = pytest.approx(0.674490 * row["standard_error"], rel=1e-5)
    assert (row["upper"] - row["estimate"], row["estimate"] - row["lower"]) == (half, half)
    release = hushbeam.Release("totals")
    assert release.table.equals(shown)
    assert release.statement["error"]["confidence"] == 0.5
    wider = totals.total(0.95).to_pylist()[0]
    assert wider["upper"] == pytest.approx(row["estimate"] + 1.959964 * row["standard_error"])


def test_of_many_jobs_at_once_one_draws() -> None:
    hushbeam.RunningTotals("totals", **TERMS)

    def add(number: int) -> list[int] | None:
        try:
            kept = running.add(
                Place.of("totals", "kept/secret"), "a", {"all": number}, SeededRandom(number)
            )
        except hushbeam.RequestError:
            return None
        return [total for (total,) in kept.totals]

    with ThreadPoolExecutor(8) as pool:
        found = [*pool.map(add, [1, 2, 3, 4] * 8)]
    shown = {tuple(totals) for totals in found if totals is not None}
    assert len(shown) == 1
    assert sum(totals is not None for totals in found) == 8


def test_of_many_begins_at_once_with_secrets_of_their_own_one_begins() -> None:
    def begin(number: int) -> str | None:
        try:
            hushbeam.RunningTotals("totals", **TERMS | {"secret": f"kept/{number}"})
        except hushbeam.RequestError as error:
            return str(error)
        return None

    with ThreadPoolExecutor(8) as pool:
        said = [*pool.map(begin, range(8))]
    assert said.count(None) == 1
    assert all(line is None or "their secret is not at" in line for line in said)
    secrets = {path.name for path in Path("kept").iterdir()}
    assert secrets == {str(said.index(None))}


def test_a_secret_is_of_one_folder_and_a_folder_of_one_secret() -> None:
    hushbeam.RunningTotals("totals", **TERMS)
    with pytest.raises(hushbeam.RequestError, match="each folder needs a secret of its own"):
        hushbeam.RunningTotals("more", **TERMS)
    own = TERMS | {"secret": "kept/more"}
    hushbeam.RunningTotals("more", **own)
    # Neither has a window, then both have the same ones.
    for window in ("a", "b"):
        before = Path("more/totals.parquet").read_bytes()
        with pytest.raises(hushbeam.RequestError, match="drawn from another secret"):
            hushbeam.RunningTotals("more", **TERMS)
        with pytest.raises(hushbeam.RequestError, match="drawn from another secret"):
            running.add(Place.of("more", "kept/secret"), window, {"all": 5}, SeededRandom(1))
        assert Path("more/totals.parquet").read_bytes() == before
        estimates_of(window, 5)
        hushbeam.RunningTotals("more", **own).add(window, 5)


def test_a_begin_that_was_killed_is_not_ended_where_another_was_faster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def killed(*words: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("pipelines.releases.release.publish", killed)
        with pytest.raises(KeyboardInterrupt):
            hushbeam.RunningTotals("totals", **TERMS | {"secret": "kept/slow"})
    estimates_of("a", 5)
    with pytest.raises(hushbeam.RequestError, match="drawn from another secret"):
        hushbeam.RunningTotals("totals", **TERMS | {"secret": "kept/slow"})
    estimates_of("b", 5)


def test_a_folder_that_was_moved_with_its_secret_is_gone_on_with() -> None:
    estimates_of("a", 5)
    Path("totals").rename("moved")
    Path("kept").rename("elsewhere")
    moved = hushbeam.RunningTotals("moved", **TERMS | {"secret": "elsewhere/secret"})
    assert moved.add("b", 5)["window"].unique().to_pylist() == ["a", "b"]


def test_the_folder_is_secret_and_holds_no_number_as_it_is() -> None:
    totals = hushbeam.RunningTotals("totals", **TERMS, names=["x", "y"])
    totals.add("a", {"x": 123456789, "y": 0})
    assert stat.S_IMODE(os.stat("kept").st_mode) == 0o700
    assert stat.S_IMODE(os.stat("kept/secret").st_mode) == 0o600
    kept = json.loads(Path("kept/secret").read_text())
    # It does hold what the numbers follow from, with the totals: so it is secret.
    assert kept["totals"][0][0] - json.loads(kept["state"])["before"][0] == 123456789
    del kept["totals"]  # what was published may be the number itself, if noise is 0 for once
    assert "123456789" not in json.dumps(kept)


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ({"x": 1}, "there are 2 totals, and a number must come for each"),
        ({"x": 1, "y": 2, "z": 3}, "there are 2 totals"),
        ({"x": 1, "y": 2.5}, "what is added to 'y' must be a whole number"),
        ({"x": 1, "y": True}, "what is added to 'y' must be a whole number"),
        ({"x": 1 << 49, "y": 1}, "what is added to 'x' must be a whole number within 2\\^48"),
    ],
)
def test_numbers_that_are_none_are_refused_by_name_and_nothing_is_drawn(
    numbers: dict[str, Any], why: str
) -> None:
    totals = hushbeam.RunningTotals("totals", **TERMS, names=["x", "y"])
    before = Path("kept/secret").read_bytes()
    with pytest.raises(hushbeam.RequestError, match=why) as refused:
        totals.add("a", numbers)
    assert str(1 << 49) not in str(refused.value)
    assert "2.5" not in str(refused.value)
    assert Path("kept/secret").read_bytes() == before
    totals.add("a", {"x": np.int64(3), "y": 4})


@pytest.mark.parametrize(
    "change",
    [{"epsilon": 2.0}, {"horizon": 31}, {"names": ["x"]}, {"windows": 2}, {"confidence": 0.9}],
)
def test_terms_do_not_change(change: dict[str, Any]) -> None:
    hushbeam.RunningTotals("totals", **TERMS)
    with pytest.raises(hushbeam.RequestError, match="begun with other terms"):
        hushbeam.RunningTotals("totals", **TERMS | change)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"epsilon": 0.0}, "must be a positive"),
        ({"horizon": 0}, "horizon must be 1 .. 20,000 windows"),
        ({"unit": "user"}, "windows is missing: the promise is about users in at most so many"),
        ({"confidence": 1.0}, "confidence must"),
        ({"windows": 31}, "days must lie in 1 .. 30"),
        ({"changed": 2}, "a unit cannot change 2 of 1 totals"),
        ({"unit": "person"}, "row or user"),
        ({"horizon": 2.5}, "whole numbers"),
        ({"names": "ab"}, "texts in a list"),
    ],
)
def test_terms_that_cannot_be_are_refused_and_leave_nothing(
    change: dict[str, Any], why: str, folder: Path
) -> None:
    with pytest.raises(hushbeam.RequestError, match=why):
        hushbeam.RunningTotals("totals", **TERMS | change)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("terms", "whom"),
    [
        ({}, "row that is in one window"),
        ({"windows": 3}, "row that is in at most 3 of 30 windows"),
        ({"unit": "user", "windows": 1}, "user who is in at most 1 of 30 windows"),
        ({"unit": "user", "windows": 30}, "user"),
    ],
)
def test_the_promise_says_of_whom_it_holds(terms: dict[str, Any], whom: str) -> None:
    totals = hushbeam.RunningTotals("totals", **TERMS | terms)
    assert totals.guarantee.whose == whom
    said = hushbeam.Release("totals").statement
    assert said["guarantees"]["release"]["unit"] == whom
    assert f"any one {whom} adds to the totals" in said["in_words"][1]


@pytest.mark.parametrize("text", ["{", "{}", '{"version": 2}'])
def test_what_is_none_is_not_taken_for_a_folder_of_totals(text: str) -> None:
    Path("kept").mkdir()
    Path("kept/secret").write_text(text)
    with pytest.raises(hushbeam.RequestError, match=r"secret (is of|has no) format|is cut off"):
        hushbeam.RunningTotals("totals", **TERMS)
    assert Path("kept/secret").read_text() == text


def test_the_folder_is_a_release_that_says_what_holds_of_all_windows() -> None:
    totals = hushbeam.RunningTotals("totals", **TERMS)
    totals.add("a", 10)
    release = hushbeam.Release("totals")
    assert release.table.equals(totals.total())
    said = release.statement
    assert said["guarantees"]["release"]["delta"] == totals.guarantee.delta
    assert said["guarantees"]["local"]["epsilon"] is None
    assert any("30 windows together, charged once" in line for line in said["in_words"])
    assert str(Path.cwd()) not in json.dumps(said)


def test_an_older_secret_is_refused_for_it_would_draw_a_window_twice() -> None:
    estimates_of("a", 10)
    older = Path("kept/secret").read_bytes()
    estimates_of("b", 20)
    Path("kept/secret").write_bytes(older)
    with pytest.raises(hushbeam.RequestError, match="windows that it does not know"):
        estimates_of("b", 20)
    assert Path("kept/secret").read_bytes() == older


@pytest.mark.parametrize("gone", ["kept", "totals"])
def test_where_a_part_is_gone_nothing_is_begun_anew(gone: str) -> None:
    estimates_of("a", 10)
    Path(gone).rename("elsewhere")
    with pytest.raises(hushbeam.RequestError, match=r"their secret is not at|must both be there"):
        estimates_of("b", 20)
    if gone == "totals":
        assert not Path("totals").exists()


@pytest.mark.parametrize("secret", ["totals/secret", "gs://bucket/secret"])
def test_a_secret_does_not_stand_where_it_would_be_published(secret: str) -> None:
    with pytest.raises(hushbeam.RequestError, match=r"must not stand in|kept on a disk"):
        hushbeam.RunningTotals("totals", **TERMS | {"secret": secret})
    assert not Path("totals").exists()


def test_by_default_the_secret_is_this_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("state").absolute()))
    terms = {name: value for name, value in TERMS.items() if name != "secret"}
    for name in ("one", "other"):
        hushbeam.RunningTotals(name, **terms).add("a", 1)
    files = [*Path("state/hushbeam/running-totals").glob("*.json")]
    assert len(files) == 2
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)


def test_a_ledger_is_charged_once_for_the_whole_horizon() -> None:
    begin = "ledger init --ledger book.sqlite --population riders --unit row --budget 1.2,1e-5"
    assert cli.main(begin.split()) == 0
    pays = TERMS | {"ledger": "book.sqlite", "population": "riders"}
    for day in range(3):
        hushbeam.RunningTotals("totals", **pays).add(str(day), 5)
    (entry,) = hushbeam.Ledger("book.sqlite").show()
    assert entry["state"] == "committed"
    (account,) = hushbeam.Ledger("book.sqlite").explain()
    assert account["releases"] == {"committed": 1}
    # At the budget's delta, which is ten times the totals', a smaller epsilon.
    assert 0.5 < account["total"]["epsilon"] <= 1.0
    assert hushbeam.Release("totals").statement["ledger"]["population"] == "riders"
    with pytest.raises(hushbeam.WithheldError):
        hushbeam.RunningTotals("more", **pays | {"secret": "kept/more"})
    assert not Path("more").exists()
    with pytest.raises(hushbeam.RequestError, match="go together"):
        hushbeam.RunningTotals("other", **TERMS, ledger="book.sqlite")


@pytest.mark.parametrize(
    ("first", "later", "why"),
    [
        (None, "riders", "begun without a ledger, and none can be charged for them now"),
        (None, "strangers", "begun without a ledger, and none can be charged for them now"),
        ("riders", "drivers", "begun at the expense of riders in .*: name these"),
        ("riders", None, None),
        ("riders", "riders", None),
    ],
)
def test_a_ledger_that_would_not_be_charged_is_refused(
    first: str | None, later: str | None, why: str | None
) -> None:
    for population in ("riders", "drivers"):
        begin = "ledger init --ledger book.sqlite --unit row --budget 5,1e-5 --population"
        assert cli.main([*begin.split(), population]) == 0
    pays: dict[str | None, dict[str, Any]] = {None: {}}
    for name in ("riders", "drivers", "strangers"):
        pays[name] = {"ledger": "book.sqlite", "population": name}
    hushbeam.RunningTotals("totals", **TERMS, **pays[first]).add("a", 1)
    before = Path("kept/secret").read_bytes(), hushbeam.Ledger("book.sqlite").show()
    assert len(before[1]) == (first is not None)
    if why is None:
        hushbeam.RunningTotals("totals", **TERMS, **pays[later])
    else:
        with pytest.raises(hushbeam.RequestError, match=why):
            hushbeam.RunningTotals("totals", **TERMS, **pays[later])
    assert (Path("kept/secret").read_bytes(), hushbeam.Ledger("book.sqlite").show()) == before


@pytest.mark.parametrize("step", ["publish", "commit"])
def test_a_beginning_that_is_killed_is_gone_on_with_at_no_further_price(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = "ledger init --ledger book.sqlite --population riders --unit row --budget 1.5,1e-5"
    assert cli.main(begin.split()) == 0
    pays = TERMS | {"ledger": "book.sqlite", "population": "riders"}
    target = {
        "publish": "pipelines.releases.release.publish",
        "commit": "pipelines.ledger.reservation.Reservation.commit",
    }[step]

    def killed(*words: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(target, killed)
        with pytest.raises(KeyboardInterrupt):
            hushbeam.RunningTotals("totals", **pays)
    if step == "publish":
        with pytest.raises(hushbeam.RequestError, match="begun at the expense of riders"):
            hushbeam.RunningTotals("totals", **TERMS)
        assert not Path("totals").exists()
    hushbeam.RunningTotals("totals", **pays).add("a", 1)
    states = [entry["state"] for entry in hushbeam.Ledger("book.sqlite").show()]
    assert states.count("committed") == 1
    assert {*states} <= {"committed", "returned"}
