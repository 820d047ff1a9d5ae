"""Cases of which `make test` tries some, and `make verify` all the others."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import pytest


def few(cases: Iterable[Any], alike: Callable[[Any], Hashable]) -> list[Any]:
    """The same cases; all but the first of those that are alike wait for `make verify`.

    Args:
        cases: a tuple each where a test takes several arguments.
        alike: case -> what it has in common with others; None if it is to wait in any case.
    """
    seen: set[Hashable] = {None}
    made = []
    for case in cases:
        key = alike(case)
        values = case if type(case) is tuple else (case,)
        made.append(pytest.param(*values, marks=[pytest.mark.verify] * (key in seen)))
        seen.add(key)
    return made


def ends(cases: Iterable[Any]) -> list[Any]:
    """The same cases; all but the first and the last wait for `make verify`.

    Args:
        cases: in an order that puts far apart what differs most; a tuple each where a test takes
            several arguments.
    """
    listed = list(cases)
    outer = iter([0, *[None] * (len(listed) - 2), 1])
    return few(listed, lambda _: next(outer))
