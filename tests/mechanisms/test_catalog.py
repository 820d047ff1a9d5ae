"""Mechanisms by name."""

from __future__ import annotations

import pytest

from mechanisms.catalog import build


def test_unknown_name_lists_what_exists():
    with pytest.raises(ValueError, match=r"unknown mechanism 'krr'; there are: .*grr.*hadamard"):
        build("krr", epsilon=1.0)
