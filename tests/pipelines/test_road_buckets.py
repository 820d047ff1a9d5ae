"""Into how many buckets a road splits its rows."""

from __future__ import annotations

import pytest

from transforms.elements.blocks import bucket_count


@pytest.mark.parametrize(
    ("rows", "buckets"),
    [
        (0, 64),
        (1e6, 64),
        (64 << 16, 64),
        (1e7, 128),
        (256 << 16, 256),
        (256 << 18, 256),
        (1e9, 2048),
        (1e12, 1 << 16),
    ],
)
def test_buckets_fit_a_cache_while_they_are_few_and_a_worker_always(rows, buckets):
    assert bucket_count(rows) == buckets


def test_buckets_never_become_fewer():
    counts = [bucket_count(rows) for rows in range(0, 200 << 18, 1 << 16)]
    assert counts == sorted(counts)
