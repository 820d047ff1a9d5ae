"""What every kind costs and can know, in every form and at several epsilons, is what it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.golden.comparison import compared
from tests.golden.prices import EXPECTED, cases, prices

CASES = {f"{kind}, {name}": (kind, name, options) for kind, name, options in cases()}


def expected() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(EXPECTED.read_text(encoding="utf-8"))
    return read


def test_every_form_has_prices() -> None:
    assert [*CASES] == [*expected()]


@pytest.mark.verify
@pytest.mark.parametrize("case", CASES)
def test_a_price_is_what_it_was(case: str) -> None:
    lines = compared(expected()[case], prices(*CASES[case]))
    assert not lines, "\n".join(lines)
