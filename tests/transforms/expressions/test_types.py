"""Values of one type as those of another."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.transforms.expressions.test_numbers import computed
from transforms.expressions.view import View, ViewError

NAN, LAST = float("nan"), 2**63 - 1
COLUMNS = pa.record_batch({
    "whole": pa.array([1, 0, None, LAST]), "wide": pa.array([1, 0, None, 2**64 - 1], pa.uint64()),
    "number": [2.5, -2.5, NAN, 1e300], "truth": [True, False, None, True],
    "text": ["+7", " -12 ", "1.5", "9223372036854775808"],
    "other": ["1.5e3", "nan", "TRUE", "false"], "moment": pa.array([0] * 4, pa.timestamp("s")),
    "ends": [5e18, -(2.0**63), 2.0**63, -(2.0**63) - 2048],
})  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("cast(whole, 'whole')", [1, 0, None, LAST]),
        ("cast(wide, 'whole')", [1, 0, None, None]),
        ("cast(number, 'whole')", [3, -3, None, None]),
        ("cast(truth, 'whole')", [1, 0, None, 1]),
        ("cast(text, 'whole')", [7, -12, None, None]),
        ("cast(whole, 'number')", [1.0, 0.0, None, 2.0**63]),
        ("cast(wide, 'number')", [1.0, 0.0, None, 2.0**64]),
        ("cast(text, 'number')", [7.0, -12.0, 1.5, 2.0**63]),
        ("cast(other, 'number')", [1500.0, None, None, None]),
        ("cast(whole, 'text')", ["1", "0", None, str(LAST)]),
        ("cast(wide, 'text')", ["1", "0", None, str(2**64 - 1)]),
        ("cast(number, 'text')", ["2.5", "-2.5", "nan", "1e+300"]),
        ("cast(number * 0, 'text')", ["0.0", "0.0", "nan", "0.0"]),
        ("cast(number * 2, 'text')", ["5.0", "-5.0", "nan", "2e+300"]),
        ("cast(ends, 'whole')", [5 * 10**18, -(2**63), None, None]),
        ("cast(truth, 'text')", ["true", "false", None, "true"]),
        ("cast(whole, 'truth')", [True, False, None, True]),
        ("cast(other, 'truth')", [None, None, True, False]),
        ("cast('12', 'whole') + whole", [13, 12, None, None]),
    ],
)
def test_each_type_is_made_of_what_writes_it(expression: str, wanted: list[Any]) -> None:
    assert computed(expression, COLUMNS) == wanted


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("cast(moment, 'whole')", "of a timestamp no whole number is made; leave it out"),
        ("cast(truth, 'number')", "of a truth no number is made; whole, text, truth"),
        ("cast(number, 'truth')", "of a number no truth is made; whole, number, text"),
        ("cast(whole, 'integer')", "one of whole, number, text, truth"),
        ("cast(whole)", "takes 2 values"),
    ],
)
def test_what_no_type_is_made_of_is_refused(expression: str, why: str) -> None:
    with pytest.raises(ViewError, match=why):
        View.read([("made", expression)], ()).schema(COLUMNS.schema)
