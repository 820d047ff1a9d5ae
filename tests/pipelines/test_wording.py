"""What is said to a reader holds for the numbers behind it."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import pipelines
from mechanisms.channel import Guarantee
from pipelines.wording import (
    RAW_ROWS,
    distinct_promises,
    factor,
    meaning,
    one_line,
    upward,
)

_ROOMS = ("bookkeeping", "compare", "jobs", "ledger", "parties", "site", "verify", "views", "watch")
_THINGS = re.compile(
    r" (?:[a-z]+ )?(batches|changes|days|devices|entries|faults|figures|files|groups|keys|leaves|"
    r"lines|losses|messages|metrics|pages|populations|releases|reports|rows|tokens|users|windows)\b"
)
# Numbers of more than one, by what they are.
_SEVERAL = frozenset({
    "_CELLS", "len(named)", "many", "len(entries)", "len(those) or 'no'", "design.n", "one.window",
    "len(windows)", "len(nameless)", "self.path",
})  # fmt: skip


def numbers_and_plurals(text: str) -> Iterator[str]:
    """What stands before a plural in texts that are put together."""
    for node in ast.walk(ast.parse(text)):
        for before, after in pairwise(node.values if isinstance(node, ast.JoinedStr) else ()):
            if not (isinstance(before, ast.FormattedValue) and isinstance(after, ast.Constant)):
                continue
            if _THINGS.match(str(after.value)):
                yield ast.unparse(before.value)


def test_one_thing_has_no_plural() -> None:
    """On pages and in messages about releases and ledgers: "1 reports" is none."""
    assert [*numbers_and_plurals('f"{n:,} rows; {number_of(n, word)} rows"')][:1] == ["n"]
    found = {
        f"{path}: {number}"
        for room in _ROOMS
        for path in Path(pipelines.__path__[0], room).rglob("*.py")
        for number in numbers_and_plurals(path.read_text("utf-8"))
        if number not in _SEVERAL and not number.startswith("number_of(")
    }
    assert not found, found


def guarantee(**changes: object) -> Guarantee:
    stated = {"model": "shuffle", "epsilon": 1.0, "delta": 1e-6, "unit": "user", "how": "proof"}
    return Guarantee(**(stated | changes))


@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 0.5, math.log(2), 1.0, 3.3, 9.99, 19.9])
def test_a_factor_is_rounded_up_and_not_by_much(epsilon: float) -> None:
    said = float(factor(epsilon).replace(",", ""))
    assert math.exp(epsilon) <= said <= math.exp(epsilon) * 1.011


@pytest.mark.parametrize("epsilon", [20.1, 50.0, 700.0, 1e5])
def test_a_factor_beyond_all_sense_is_not_understated(epsilon: float) -> None:
    said = factor(epsilon)
    assert said.startswith("e^")
    assert float(said[2:]) >= epsilon


@pytest.mark.parametrize(
    "value", [0.0, 1e-300, 0.1, 1e-6, 1 / 3, 0.123456789, 1.0000001, 6.894615, 99999.95]
)
def test_numbers_are_rounded_up(value: float) -> None:
    for digits in (3, 4, 6):
        rounded = upward(value, digits)
        assert value <= rounded <= value * (1 + 10.0 ** (1 - digits))
        assert float(f"{rounded:.{digits}g}") == rounded


@pytest.mark.parametrize("value", [0.1, 0.3, 1e-6, 1e-300, 0.7, 5.0])
def test_what_was_asked_for_is_said_as_it_was(value: float) -> None:
    assert upward(value, 3) == value


def test_a_shuffled_promise_names_batch_factor_and_exception() -> None:
    text = meaning(guarantee(epsilon=1.00000001), min_reports=12_345)
    assert text == (
        "Changing the value of any one user changes the probability of any outcome by a factor of "
        "at most 2.72, except with probability 1e-6. This is epsilon 1.00001, delta 1e-6, and "
        "holds against anyone who sees this release, or the shuffled batch of 12,345 or more "
        "reports it was made from. How this is known: proof."
    )


def test_a_local_promise_holds_against_who_knows_the_senders() -> None:
    text = meaning(guarantee(model="local", delta=0.0, unit="row"), min_reports=1)
    assert "anyone who sees the randomised reports, even knowing whose each one is." in text
    assert text.startswith("Changing the value of any one row changes")
    assert "except with" not in text


@pytest.mark.parametrize("model", ["local", "shuffle"])
def test_no_promise_is_made_against_who_runs_the_job(model: str) -> None:
    """The job reads the raw log, so who operates it could too."""
    assert "operator" not in meaning(guarantee(model=model), min_reports=10)
    assert "read the rows as they were recorded" in RAW_ROWS
    assert "say nothing about who can read the log itself" in RAW_ROWS


def test_a_mechanism_without_a_guarantee_says_so_and_why() -> None:
    none = Guarantee.none("the shuffler reads the value among the dummies")
    assert meaning(none, min_reports=10) == (
        "Nothing is promised about a single report by itself: "
        "the shuffler reads the value among the dummies."
    )
    assert one_line(none).startswith("one report alone: no guarantee (the shuffler reads")


def test_of_reports_nothing_is_said_where_a_job_draws_and_nobody_sends_any() -> None:
    none = Guarantee.none("the job reads exact numbers")
    central, shuffled = guarantee(model="central"), guarantee(model="shuffle")
    assert distinct_promises((central, none)) == [central]
    assert distinct_promises((shuffled, none, shuffled)) == [shuffled, none]


def test_a_guarantee_in_one_line_is_rounded_up() -> None:
    line = one_line(Guarantee("shuffle", 1.00001, 1.00000001e-6, "user", "proof"))
    assert line == "shuffle: epsilon 1.001, delta 1.001e-06, per user"
