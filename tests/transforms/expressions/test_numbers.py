"""Numbers in expressions: whole ones exactly, buckets in decimals, and no value that raises."""

from __future__ import annotations

import math
import operator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles.wire import EXAMPLES
from transforms.expressions.functions import FUNCTIONS
from transforms.expressions.numbers import multiple
from transforms.expressions.view import View, ViewError

MOST, UNSIGNED = 2**63 - 1, 2**64 - 1
NEAR = [9007199254740991, 9007199254740992, 9007199254740993, 9007199254740994]
KINDS = {"i": pa.int64(), "u": pa.uint64(), "w": pa.decimal128(37, 0)}


def computed(text: str, batch: pa.RecordBatch) -> list[Any]:
    view = View.read([("found", text)], [])
    column = view.seen(batch, ["found"]).column("found")
    assert column.type == view.schema(batch.schema).field("found").type
    assert len(column) == batch.num_rows
    return column.to_pylist()


def whole(name: str, *numbers: int | None) -> pa.RecordBatch:
    made = [Decimal(number) if name == "w" and number is not None else number for number in numbers]
    return pa.record_batch({name: pa.array(made, KINDS[name])})


@pytest.mark.parametrize("name", KINDS)
def test_a_where_finds_exactly_the_number_that_is_written(name: str) -> None:
    batch = whole(name, *NEAR, None)
    for place, number in enumerate(NEAR):
        for text in (f"{name} == {number}", f"{number} == {name}", f"{name} in ({number}, 1.5)"):
            view = View.read([], [text])
            assert view.holds(batch).tolist() == [k == place for k in range(5)], text
    assert computed(f"{name} + 1 == {NEAR[3]}", batch) == [False, False, True, False, None]
    assert computed(f"{name} > {NEAR[1]}", batch) == [False, False, True, True, None]
    assert computed(f"{name} == 9007199254740992.0", batch) == [False, True, False, False, None]
    assert computed(f"bucket({name}, 2)", batch)[1:3] == [NEAR[1], NEAR[1]]
    assert computed(f"round({name})", batch)[2] == NEAR[2]


def test_whole_numbers_with_and_without_a_sign_are_compared_as_they_are() -> None:
    batch = pa.record_batch(
        {
            "i": pa.array([-1, MOST, MOST, 0], pa.int64()),
            "u": pa.array([UNSIGNED, MOST, MOST + 1, 0], pa.uint64()),
        }
    )
    assert computed("i == u", batch) == [False, True, False, True]
    assert computed("i < u", batch) == [True, False, True, False]
    assert computed("u == 18446744073709551615", batch) == [True, False, False, False]
    assert computed("u == -1", batch) == [False] * 4
    assert computed("i - u", batch) == [-(2**64), 0, -1, 0]
    assert computed("u * u", batch) == [None, None, None, 0]  # beyond 37 digits
    assert computed("i + 1", batch) == [0, None, None, 1]  # null, and never another number
    assert computed("i * 2", batch) == [-2, None, None, 0]
    assert computed("-(i)", batch) == [1, -MOST, -MOST, 0]
    assert computed("u / 2", batch) == [2.0**63, 2.0**62, 2.0**62, 0.0]
    with pytest.raises(ViewError, match="a whole number is beyond 64 bits"):
        View.read([], ["u == 18446744073709551616"])


SIGNS = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "+": operator.add, "-": operator.sub, "*": operator.mul,
}  # fmt: skip
ENDS = [0, 1, -1, 2**53, 2**53 + 1, MOST, -MOST - 1, UNSIGNED]
WHOLE = st.sampled_from(ENDS) | st.integers(-MOST - 1, UNSIGNED)


@given(WHOLE, WHOLE, st.sampled_from(sorted(SIGNS)))
@settings(max_examples=EXAMPLES)
def test_whole_numbers_are_what_pythons_are(left: int, right: int, sign: str) -> None:
    names = ["i" if -MOST - 1 <= number <= MOST else "u" for number in (left, right)]
    columns = {
        f"{name}{side}": pa.array([number, None], KINDS[name])
        for side, name, number in zip("lr", names, (left, right), strict=True)
    }
    found = computed(f"{names[0]}l {sign} {names[1]}r", pa.record_batch(columns))
    wanted = SIGNS[sign](left, right)
    if type(wanted) is int:
        most = 10**37 - 1 if "u" in names else MOST
        wanted = wanted if -most - ("u" not in names) <= wanted <= most else None
    assert found == [wanted, None]


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("x / z", [None, None, None, math.inf, None, 0.5]),
        ("z / z", [None, None, None, 1.0, None, 1.0]),
        ("n / 0", [None] * 6),
        ("1 / n", [1.0, None, None, 0.25, None, 0.1]),
        ("x * 1e200", [1e200, 0.0, None, math.inf, None, 1e200]),
        ("x - -1e308 * 1.7", [1.7e308, 1.7e308, None, math.inf, None, 1.7e308]),
        ("x + x", [2.0, 0.0, None, math.inf, None, 2.0]),
        ("x / z > 0", [None, None, None, True, None, True]),
    ],
)
def test_what_fails_on_a_row_is_null(expression: str, wanted: list[Any]) -> None:
    x, z = [1.0, 0.0, 1.7e308, math.inf, None, 1.0], [0.0, -0.0, 0.0, 2.0, 0.0, 2.0]
    batch = pa.record_batch({"x": x, "z": z, "n": [1, 0, None, 4, None, 10]})
    assert computed(expression, batch) == wanted


@pytest.mark.parametrize(
    ("x", "width", "wanted"),
    [
        (0.3, 0.1, 0.3), (0.7, 0.1, 0.7), (1.1, 0.1, 1.1), (0.29, 0.01, 0.29), (4.35, 0.05, 4.35),
        (0.25, 0.1, 0.2), (-0.3, 0.1, -0.3), (-0.25, 0.1, -0.3), (1e9 + 0.3, 0.1, 1e9 + 0.3),
        (0.30000000000000004, 0.1, 0.3), (0.29999999999999993, 0.1, 0.2), (0.0, 0.1, 0.0),
        (1e300, 0.1, 1e300), (-1e300, 1e-300, -1e300), (7.0, 3, 6), (-7.5, 3, -9),
        (3 * 33333333333.0, 3, 99999999999), (math.inf, 0.5, math.inf),
    ],
)  # fmt: skip
def test_a_bucket_is_the_decimal_multiple(x: float, width: float, wanted: float) -> None:
    assert computed(f"bucket(x, {width})", pa.record_batch({"x": [x]})) == [wanted]


@given(
    st.floats(-1e12, 1e12) | st.integers(-(10**9), 10**9).map(lambda k: k / 1000),
    st.integers(1, 99_999),
    st.integers(0, 4),
)
@settings(max_examples=EXAMPLES)
def test_a_bucket_is_what_decimal_arithmetic_has(x: float, unit: int, places: int) -> None:
    width = float(Decimal(unit).scaleb(-places))
    step = Decimal(repr(width))
    k = Decimal(x) // step + 2
    while float(k * step) > x:  # the greatest whose double is not above x
        k -= 1
    if abs(x) * 10**places < 2.0**50:
        assert multiple(np.array([x]), width)[0] == float(k * step)
    near = multiple(np.array([x]), width)[0]
    assert x - width * (1 + 1e-9) - 2 * math.ulp(x) <= near <= x


@given(st.floats(-1e307, 1e307), st.floats(5e-324, 1e307))
@settings(max_examples=EXAMPLES)
def test_a_bucket_of_any_two_numbers_is_below_and_near(x: float, width: float) -> None:
    near = multiple(np.array([x]), width)[0]
    assert near <= x
    assert Decimal(x) - Decimal(float(near)) <= Decimal(width) + 2 * Decimal(math.ulp(x))


# ---- no value raises

EXTREMES = pa.record_batch(
    {
        "i": pa.array([-MOST - 1, MOST, 0, None, -1], pa.int64()),
        "u": pa.array([UNSIGNED, 2**63, 0, None, 1], pa.uint64()),
        "x": pa.array([math.nan, math.inf, -math.inf, None, 5e-324]),
        "y": pa.array([1.7e308, -1.7e308, -0.0, None, 2.0**63]),
        "f": pa.array([math.nan, math.inf, 65504, None, -0.0], pa.float16()),
        "d": pa.array([Decimal(10**37), -Decimal(10**37), 0, None, 1], pa.decimal128(38, 0)),
        "s": ["", "\0", "9" * 400, None, "-1e400"],
        "t": pa.array([-MOST - 1, MOST, 0, None, -1], pa.timestamp("us", "UTC")),
        "n": pa.array([-MOST - 1, MOST, 0, None, -1], pa.timestamp("ns")),
        "q": pa.array([-MOST - 1, MOST, 0, None, -1], pa.timestamp("s")),
        "e": pa.array([-(2**31), 2**31 - 1, 0, None, -1], pa.date32()),
        "g": pa.array([-MOST - 1, MOST, 0, None, -1], pa.date64()),
        "b": [True, False, True, None, False],
    }
)
WRITTEN = st.sampled_from(
    [
        "0", "1", "-1", str(MOST), f"-{MOST + 1}", str(UNSIGNED), "0.1", "5e-324", "1.7e308",
        "-0.5",
        "''", "'s'", "'ns'", "','", "'.'", "'%Y%m%d'", "'%Y-%j%z'", "'%y%f'", "'UTC'", "'(a)?'",
        "true", "null",
    ]
)  # fmt: skip
INNER = st.sampled_from(EXTREMES.schema.names) | WRITTEN
CALLS = st.recursive(
    INNER,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([*SIGNS, "/"]), inner).map(lambda p: f"({' '.join(p)})"),
        st.tuples(
            st.sampled_from(sorted(name for name in FUNCTIONS if name.isidentifier())),
            st.lists(inner, min_size=1, max_size=3),
        ).map(lambda p: f"{p[0]}({', '.join(p[1])})"),
        inner.map("-({})".format),
    ),
    max_leaves=5,
)


@given(CALLS)
@settings(max_examples=4 * EXAMPLES, deadline=None)
def test_fuzz_no_value_raises(text: str) -> None:
    try:
        view = View.read([("found", text)], [])
        view.schema(EXTREMES.schema)
    except ViewError:
        return  # before a row is read
    View.read([("found", text)], []).seen(EXTREMES, ["found"])


def takes(name: str) -> list[list[str]]:
    """Each function's arguments, of every column that it takes."""
    rest = {
        "substring": [f"{MOST}, {MOST}", f"1, {UNSIGNED}", f"{UNSIGNED}"],
        "extract": ["'(.)'", "''"], "bucket": ["0.1", "3", str(UNSIGNED), "5e-324", "1.7e308"],
        "round": ["15", "0"], "parse_time": ["'%Y'", "'%y%f%z'"], "number": ["','", "'.', ','"],
        "epoch": ["'s'", "'ms'", "'us'", "'ns'"], "hour": ["'Asia/Kathmandu'"],
        "cast": ["'whole'", "'number'", "'text'", "'truth'"],
        "if": ["1, 0.5", "'a', null"], "lookup": ["'a', 1", f"1, 'x', {MOST}, 'y'"],
    }.get(name, [])  # fmt: skip
    return [
        [column, *more] for column in EXTREMES.schema.names for more in ([], *([r] for r in rest))
    ]


@pytest.mark.parametrize("name", sorted(name for name in FUNCTIONS if name.isidentifier()))
def test_each_function_takes_extreme_values(name: str) -> None:
    taken = 0
    for arguments in takes(name):
        text = f"{name}({', '.join(arguments)})"
        try:
            View.read([("found", text)], []).schema(EXTREMES.schema)
        except ViewError:
            continue
        View.read([("found", text)], []).seen(EXTREMES, ["found"])
        taken += 1
    assert taken or name in ("and", "or", "not", "in")
