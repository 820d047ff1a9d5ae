"""What is shown on a screen of 80 columns, or on none: all of it, if need be on more lines."""

from __future__ import annotations

import io
import re

import pyarrow as pa
import pytest
from rich.table import Table

from mechanisms.channel import Guarantee
from pipelines.ledger.entries import Budget
from pipelines.train import publish as train
from pipelines.views import report
from pipelines.views.console import Screen
from tests.fakes.ledger_rivals import request
from tests.fakes.ledgers import begun

WIDE = 80
LONG = "a-name-of-a-column-that-goes-on-for-longer-than-a-line-of-eighty-characters-is/" * 2
NUMBERS = {
    "estimate": -123456.789012, "standard_error": 0.000123456789, "lower": -987654.321012,
    "upper": -0.000987654321, "lower_simultaneous": -987654.321012,
    "upper_simultaneous": -0.000987654321, "unbiased": -123456.789012, "shrunk": -1.23456789e-10,
}  # fmt: skip
SHARES = dict.fromkeys(NUMBERS, 1.0)


@pytest.fixture(autouse=True)
def _narrow(workspace, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(WIDE))


def columns(names: dict[str, str | None], numbers: dict[str, float | None]) -> pa.Table:
    """A table of a release, of one row."""
    return pa.table({name: [value] for name, value in {**names, **numbers}.items()})


def shown(show, *given) -> str:
    """What is printed, no line of which is too long."""
    text = io.StringIO()
    show(Screen(file=text, width=WIDE), *given)
    return fitting(text.getvalue())


def fitting(text: str) -> str:
    """The text, if nothing was cut off and all that is drawn fits the screen."""
    drawn = [line for line in text.splitlines() if line[:1] in "┃│"]
    assert all(len(line) <= WIDE for line in drawn)
    assert "…" not in text
    return text


def cells(text: str, place: int) -> str:
    """What a column says, its lines joined."""
    rows = [line.strip("│").split("│") for line in text.splitlines() if line.startswith("│")]
    return "".join(row[place].strip() for row in rows)


@pytest.mark.parametrize("guesses", [(), ("--mean-square", "1e-4", "--second-moment", "2e-4")])
@pytest.mark.parametrize(
    "asked",
    [
        ("--model", "local", "--epsilon", "1", "--reports", "1e4", "--dimension", "400"),
        ("--model", "local", "--epsilon", "0.00123", "--reports", "1e9", "--dimension", "50000",
         "--radius", "1"),
        ("--epsilon", "0.5", "--reports", "1e6", "--dimension", "9"),
    ],
)  # fmt: skip
def test_a_plan_of_rows_fits(run, asked, guesses) -> None:
    outcome = run(["size", *asked, *guesses])
    assert outcome.code == 0
    text = fitting(outcome.out)
    table = text.partition("auto:")[0]
    assert max(map(len, table.splitlines())) <= WIDE
    assert re.search(r"^auto (multi_optimal|privunit) +[\d.e-]+ ", table, re.MULTILINE)
    for name in ("zeros", "multi_hm"):
        assert re.search(rf"^ +{name} +[\d.e-]+\b", table, re.MULTILINE)  # on a line with its error


@pytest.mark.parametrize(
    ("asked", "told"), [(("olh",), "0.123456789"), (("poisson", "--shuffle", "602325"), "0.123457")]
)
def test_an_audit_fits(run, asked, told) -> None:
    outcome = run(["audit", *asked, "--epsilon", "0.123456789", "--domain-size", "1000"])
    assert outcome.code == 0
    assert told in fitting(outcome.out)


def test_ids_of_a_ledger_can_be_copied(run, workspace) -> None:
    losses = (Guarantee("shuffle", 0.1234567, 1.2345678e-8, "user", "enumeration"),)
    budget, output = Budget(epsilon=1.0, delta=1e-6), f"/out/{LONG}monday"
    ledger = begun("ledger.sqlite")
    asked = request("monday [red]", output, budget=budget, losses=losses, metrics=(LONG, "city"))
    with ledger.spend(asked) as reservation:
        reservation.hand_over()
    (entry,) = ledger.entries()
    text = fitting(run(["ledger", "show", "--ledger", "ledger.sqlite"]).out)
    table = text.partition("1 reserved")[0]
    assert max(map(len, table.splitlines())) <= WIDE
    (line,) = [line for line in table.splitlines() if entry.id[:8] in line]
    assert line.split()[0] == entry.id[:8]  # it is where one looks for it
    assert "monday [red]" in table  # not taken for markup
    for told in ("0.1235", "1.235e-08", "reserved", entry.changed_at[:10]):
        assert told in table
    said = run(["ledger", "settle", line.split()[0], "--not-run", "--ledger", "ledger.sqlite"])
    assert said.out == f"entry {entry.id} is now: not run\n"


def released(name: str, figure: str, **tables: pa.Table) -> str:
    """What a screen shows of a release: of one table, or of the named one before others."""
    said = {
        "release": "a release", "request": {"confidence": 0.95}, "n": 12,
        "guarantees": {"release": {"epsilon": 1.0, "delta": 0.0, "unit": "row"}},
        "figures": {f"{one}.parquet": figure if one == name else "share" for one in tables},
        "headline": {"table": f"{name}.parquet", "rows": "largest"},
    }  # fmt: skip
    files = {f"{one}.parquet": table for one, table in tables.items()}
    return shown(report.show, files, said)


def test_means_fit() -> None:
    text = released("mean", "mean", mean=columns({"group": "g" * 40}, NUMBERS))
    assert cells(text, 0) == "g" * 40
    assert cells(text, 1) == "-123,456.78901"
    assert cells(text, 3) == "0.00012"
    assert cells(text, 4).replace("to", "to ").split() == ["-987,654.32101", "to", "-0.00099"]


def test_strings_fit() -> None:
    table = columns({"value": "v" * 40, "whole": True}, SHARES)
    text = released("strings", "share", strings=table)
    assert cells(text, 0) == "v" * 40
    assert "100 to 100" in text


def test_a_histogram_fits() -> None:
    text = released("shares", "share", shares=columns({"value": LONG[:48]}, SHARES))
    assert cells(text, 0) == LONG[:48]
    assert "100 to 100" in text


def test_rows_of_numbers_fit() -> None:
    text = released("row", "mean", row=columns({"coordinate": LONG[:48]}, NUMBERS))
    assert cells(text, 0) == LONG[:48]
    assert cells(text, 1) == "-123,456.78901"
    assert cells(text, 2) == "0.00000"  # no 0 has a sign


def test_a_model_is_told_in_lines_that_are_not_cut() -> None:
    model = {"kind": "linear regression", "parameters": 91}
    error = {
        "verdict": f"This model errs less than {LONG}.",
        "measure": "mean squared error", "measured_on": f"public rows of {LONG}",
        "of_the_published_model": {"error": 0.0123456, "lower": 0.01, "upper": 0.02},
    }  # fmt: skip
    text = shown(
        train.show, {"model": model, "error": error, "n": 1_000_000, "request": {"unit": "row"}}
    )
    assert f"This model errs less than {LONG}." in text
    assert "linear regression, 91 parameters, from 1,000,000 rows" in text
    assert f"0.0123 (0.0100 to 0.0200) on public rows of {LONG}" in text


def test_what_is_cut_would_be_seen() -> None:
    """The control: rich cuts words that are longer than their column, unless it is told not to."""
    table = Table("value", width=20)
    table.add_row(LONG)
    with pytest.raises(AssertionError):
        shown(lambda screen: screen.print(table))
