"""Where nobody watches, a line a minute tells that a job lives; and no number that noise hides."""

from __future__ import annotations

import io
import time
import warnings

import pytest

from pipelines.errors import Notice
from pipelines.views import console
from tests.fakes import canaries


def beats(rows: int | None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is said while a job works that nobody watches."""
    monkeypatch.setattr(console, "_BEAT", 0.01)
    monkeypatch.setattr(console, "live", lambda: {"rows read": 1200, "reports": 1100})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", Notice)
        with console.progress(console.Screen(file=io.StringIO()), rows):
            until = time.monotonic() + 30
            while not said and time.monotonic() < until:
                time.sleep(0.01)
    return [str(each.message) for each in said]


def test_rows_and_reports_are_told(monkeypatch) -> None:
    assert beats(5000, monkeypatch)[0] == "at work for 0 min: 1,200 of 5,000 rows, 1,100 reports"


def test_no_number_where_noise_hides_who_takes_part(monkeypatch) -> None:
    assert {*beats(None, monkeypatch)} == {"at work for 0 min"}


def test_it_is_a_line_of_ours_on_stderr_and_no_warning(run, log, domain, monkeypatch) -> None:
    monkeypatch.setattr(console, "_BEAT", 0.001)
    outcome = run(canaries.request(log, domain=domain, model="local"))
    assert outcome.code == 0
    lines = outcome.err.splitlines()
    assert lines
    assert all(line.startswith("hushbeam: at work for 0 min") for line in lines)
    assert "at work" not in outcome.out
