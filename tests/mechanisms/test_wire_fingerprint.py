"""Fingerprints: plans that mean the same have the same, in every language that has RFC 8785."""

from __future__ import annotations

import hashlib
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mechanisms.wire.fingerprint import canonical, fingerprint

# RFC 8785, appendix B: the bits of a double, and how it is written.
NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}


@pytest.mark.parametrize(("bits", "text"), NUMBERS.items())
def test_numbers_are_written_as_the_standard_lists_them(bits, text):
    (value,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical(value) == text.encode()


def test_the_standards_example_is_written_as_it_has_it():
    """RFC 8785, section 3.2: literals, numbers and escapes; and 3.2.3: the order of the keys."""
    value = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": '€$\u000f\nA\'B"\\\\"/',
        "literals": [None, True, False],
    }
    assert canonical(value).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    order = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]
    assert list(json.loads(canonical(dict.fromkeys(keys, 0)))) == order


def test_a_fingerprint_never_changes():
    plan = {"version": 3, "metrics": [{"column": "city", "epsilon": 0.5, "other": False}]}
    text = b'{"metrics":[{"column":"city","epsilon":0.5,"other":false}],"version":3}'
    assert fingerprint(plan) == hashlib.sha256(text).digest()[:16]
    assert fingerprint(plan).hex() == "6aeee1f8636bfaa024ac909f2b7f4b98"


plans = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=10,
)


@given(plans)
def test_it_reads_back_as_what_it_was_and_is_its_own_canonical_form(plan):
    text = canonical(plan)
    # As other languages read it: every number is a double.
    again = json.loads(text, parse_int=float)
    assert again == plan
    assert canonical(again) == text


@given(st.dictionaries(st.text("abc"), st.integers(-9, 9), min_size=2))
def test_order_and_spelling_of_numbers_do_not_matter(plan):
    turned = {key: float(plan[key]) for key in reversed(plan)}
    assert fingerprint(turned) == fingerprint(plan)
    key = next(iter(plan))
    assert fingerprint(plan | {key: plan[key] + 1}) != fingerprint(plan)


@pytest.mark.parametrize(
    "plan",
    [float("nan"), float("inf"), 2**53, -(2**53), {1: 2}, {"a": {3.0}}, b"bytes", "\ud800"],
)
def test_what_has_no_single_spelling_is_refused(plan):
    with pytest.raises(ValueError):  # noqa: PT011 - UnicodeEncodeError is one
        fingerprint(plan)
