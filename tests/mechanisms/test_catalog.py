"""Mechanisms by name."""

from __future__ import annotations

import pytest

from mechanisms.catalog import build, names


def test_names_of_the_linear_hash_family():
    assert {"grr", "olh", "srr", "hadamard"} <= set(names())


def test_unknown_name_lists_what_exists():
    with pytest.raises(ValueError, match=r"unknown mechanism 'krr'; there are: .*grr.*hadamard"):
        build("krr", epsilon=1.0)


def test_unknown_and_missing_parameters_list_what_is_taken():
    listed = r"it takes: epsilon, domain_size, hash_range \(optional\)"
    with pytest.raises(ValueError, match=rf"'g'.*{listed}"):
        build("olh", epsilon=1.0, domain_size=5, g=3)
    with pytest.raises(ValueError, match=rf"'domain_size'.*{listed}"):
        build("olh", epsilon=1.0)
