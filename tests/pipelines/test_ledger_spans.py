"""Windows of several versions of a plan: those that overlap compose, and no others."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pipelines.cli import cli
from pipelines.ledger.entries import Entry
from pipelines.ledger.ledger import CollectionLedger
from pipelines.ledger.rules import BudgetExceeded
from pipelines.ledger.spans import Span, digests, span_of
from tests.fakes.ledger_rivals import request
from tests.fakes.ledgers import begun

MONDAY = datetime(2026, 11, 16, tzinfo=timezone.utc)
DAY = timedelta(days=1)


@pytest.fixture
def ledger(tmp_path: Path) -> CollectionLedger:
    return begun(tmp_path / "ledger.sqlite", scope="user per window")


def days(first: int, count: int) -> Span:
    """So many days, from the first on."""
    return Span(start=MONDAY + first * DAY, until=MONDAY + (first + count) * DAY)


@pytest.fixture
def make(ledger: CollectionLedger, tmp_path: Path) -> Callable[..., Entry]:
    """Spends on a window of some version; the budget of a unit is 1."""

    def make(
        window: str, epsilon: float, version: int = 1, span: Span | None = None, **more: Any
    ) -> Entry:
        output = str(tmp_path / f"{version}-{window}")
        asked = request(
            window, output, epsilon, version=version, fingerprint=f"f00d{version}",
            scope="user per window", span=span, **more,
        )  # fmt: skip
        with ledger.spend(asked) as reservation:
            reservation.commit()
        return reservation.entry

    return make


@pytest.mark.parametrize(
    ("name", "start", "until"),
    [
        ("2026-11", "2026-11-01T00:00:00", "2026-12-01T00:00:00"),
        ("2026-12", "2026-12-01T00:00:00", "2027-01-01T00:00:00"),
        ("2026-W47", "2026-11-16T00:00:00", "2026-11-23T00:00:00"),
        ("2026-11-30", "2026-11-30T00:00:00", "2026-12-01T00:00:00"),
        ("2026-11-20T13", "2026-11-20T13:00:00", "2026-11-20T14:00:00"),
        ("2026-11-20T1359", "2026-11-20T13:59:00", "2026-11-20T14:00:00"),
        ("2026-11-20T13:59:59Z", "2026-11-20T13:59:59", "2026-11-20T14:00:00"),
    ],
)
def test_dates_say_what_time_a_window_is_about(name: str, start: str, until: str) -> None:
    found = span_of(name)
    assert found is not None
    assert (found.start.isoformat(), found.until.isoformat()) == (
        start + "+00:00",
        until + "+00:00",
    )


@pytest.mark.parametrize(
    "name",
    ["all", "2026", "1234", "2026-13", "2026-02-29", "2026-W54", "2026-W00", "9999-12", "0000-01",
     "2026-11-20T25", "run-2026-11-20", "2026-11-20 ", "٢٠٢٦-١١"],
)  # fmt: skip
def test_other_names_say_nothing(name: str) -> None:
    assert span_of(name) is None


def test_a_span_lasts_and_its_end_is_not_in_it() -> None:
    assert days(0, 1).overlaps(days(0, 7))
    assert not days(0, 1).overlaps(days(1, 1))
    assert not days(1, 1).overlaps(days(0, 1))
    with pytest.raises(ValidationError, match="must end after it began"):
        days(3, 0)


def test_days_of_a_new_version_compose_with_the_week_of_the_old_one(make) -> None:
    make("2026-11-16", 0.5, span=days(0, 7))
    make("2026-11-23", 0.9, span=days(7, 7))
    make("2026-11-17", 0.2, 2, days(1, 1))
    with pytest.raises(BudgetExceeded) as refusal:
        make("2026-11-18", 0.6, 2, days(2, 1))
    assert "per user in window 2026-11-18" in str(refusal.value)
    assert "spent by 1 release: epsilon 0.5" in str(refusal.value)
    assert "1 of them in windows of other names that overlap it" in str(refusal.value)
    # By itself it would fit beside the week; but the week's units have lost 0.2 on the 17th.
    with pytest.raises(BudgetExceeded, match=r"spent by 2 releases: epsilon 0\.7"):
        make("2026-11-18", 0.4, 2, days(2, 1))
    make("2026-11-18", 0.3, 2, days(2, 1))
    with pytest.raises(BudgetExceeded):
        make("2026-11-19", 0.01, 2, days(3, 1))


def test_a_week_of_a_new_version_composes_with_all_days_of_the_old_one(make) -> None:
    for day in range(7):
        make(f"2026-11-{16 + day}", 0.1, span=days(day, 1))
    make("2026-11-23", 0.9, span=days(7, 1))
    with pytest.raises(BudgetExceeded, match=r"spent by 7 releases: epsilon 0\.7"):
        make("2026-W47", 0.4, 2, span_of("2026-W47"))
    make("2026-W47", 0.3, 2, span_of("2026-W47"))


def test_windows_that_do_not_overlap_do_not_compose_whatever_the_version(make) -> None:
    for version in (1, 2, 3):
        for day in range(3):
            make(f"day {version} {day}", 0.9, version, days(10 * version + day, 1))


def test_where_nobody_knows_the_time_other_versions_windows_compose(make) -> None:
    for name in ("north", "south"):
        make(name, 0.9)  # one plan has named both
    with pytest.raises(BudgetExceeded, match="2 of them in windows of other names that overlap it"):
        make("east", 0.2, 2)
    with pytest.raises(BudgetExceeded):  # one of the two is not known
        make("2026-11-20", 0.2, 2, span_of("2026-11-20"))


def test_a_merged_window_covers_what_was_added_to_it(make) -> None:
    make("2026-11-18", 0.9, span=days(0, 3))
    with pytest.raises(BudgetExceeded):
        make("2026-11-16", 0.2, 2, days(0, 1))
    make("2026-11-19", 0.9, 2, days(3, 1))


def test_explain_shows_each_account_once(make, ledger: CollectionLedger, capsys) -> None:
    make("2026-11-16", 0.5, span=days(0, 7))
    for day in range(2):
        make(f"2026-11-{17 + day}", 0.2, 2, days(1 + day, 1))
    path = ledger.where
    assert cli.main(["ledger", "explain", "--ledger", path, "--json"]) == 0
    accounts = json.loads(capsys.readouterr().out)
    shown = [(each["window"], round(each["basic"]["epsilon"], 9)) for each in accounts]
    # The week has all three, each day itself and the week.
    assert shown == [("2026-11-16", 0.9), ("2026-11-17", 0.7), ("2026-11-18", 0.7)]


def test_span_and_design_are_kept(make, ledger: CollectionLedger) -> None:
    entry = make("2026-11-16", 0.5, span=days(0, 7), design="d" * 32)
    assert ledger.entries() == (entry,)
    assert (entry.span, entry.design) == (days(0, 7), "d" * 32)


def test_windows_of_one_plan_that_read_a_file_in_common_compose(make) -> None:
    """As with `logs/{window}*.parquet`: a day, its decade of days, its month, its year."""
    friday = digests(["logs/2026-11-20.parquet"])
    more = digests(["logs/2026-11-20.parquet", "logs/2026-11-21.parquet"])
    make("2026-11-20", 0.9, span=span_of("2026-11-20"), files=friday)
    for window in ("2026-11-2", "2026-11", "2026"):
        with pytest.raises(BudgetExceeded, match="spent by 1 release"):
            make(window, 0.2, span=span_of(window), files=more)
    make("2026-11-21", 0.9, span=span_of("2026-11-21"), files=digests(["logs/2026-11-21.parquet"]))
    with pytest.raises(BudgetExceeded, match="spent by 2 releases"):
        make("2026-11-2", 0.05, files=more)


def test_windows_of_one_plan_that_read_other_files_do_not_compose(make) -> None:
    for name in ("north", "south", "east"):
        make(name, 0.9, files=digests([f"logs/{name}.parquet"]))
    with pytest.raises(BudgetExceeded, match="3 of them in windows of other names"):
        make("west", 0.2, 2, files=digests(["logs/west.parquet"]))  # copies, for all we know


def test_a_pass_is_of_the_window_that_its_name_begins_with(make) -> None:
    """Where names are no dates nothing but the name tells that the same people may be in both."""
    make("a", 0.9, files=digests(["logs/a.parquet"]))
    make("b~0.25", 0.9, files=digests(["shuffled/b"]))
    for window in ("a~0.25", "b~0.5", "b"):
        with pytest.raises(BudgetExceeded, match="spent by 1 release"):
            make(window, 0.2, files=digests([f"shuffled/again/{window}"]))


def test_what_is_known_of_one_release_alone_does_not_tell(make) -> None:
    make("north", 0.9)  # as an earlier version has written it
    with pytest.raises(BudgetExceeded):
        make("south", 0.2, files=digests(["logs/south.parquet"]))
    with pytest.raises(BudgetExceeded):
        make("2026-11-20", 0.2, span=span_of("2026-11-20"))


def test_files_are_kept_as_digests(make, ledger: CollectionLedger, tmp_path: Path) -> None:
    (tmp_path / "log.parquet").touch()
    (tmp_path / "link.parquet").symlink_to(tmp_path / "log.parquet")
    files = digests([str(tmp_path / "log.parquet")])
    assert files == digests([str(tmp_path / "link.parquet")])
    assert files != digests(["gs://bucket/log.parquet"])
    assert digests([]) is digests(map(str, range(1 << 15))) is None
    assert make("north", 0.5, files=files).files == ledger.entries()[0].files == files
    assert "log" not in ledger.entries()[0].model_dump_json()
